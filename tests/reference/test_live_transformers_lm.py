"""The scorer that transformers runs: equal to ours, to the plain loop, and to the harness's T5."""

import json
from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: run `make reference`")

from cases import CAUSAL, build, save, scored_alone, write_tokenizer  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from tiny import CORPUS, byte_level  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM  # noqa: E402

from batch_calibration.errors import InputError  # noqa: E402
from batch_calibration.scoring.causal_lm import CausalLM  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402
from batch_calibration.scoring.models.files.transformers_files import TransformersFiles  # noqa: E402
from batch_calibration.scoring.transformers_lm import TransformersLM  # noqa: E402
from batch_calibration.settings import Settings  # noqa: E402
from batch_calibration.studies import run_scoring  # noqa: E402

QUERIES = ["slow", "very fine", "not even desperate and bleak", "a zebra", "", "fine " * 9]
LABELS = [" positive", " negative", " pos", " so so"]
SHOTS = ["", "".join(CORPUS)]
SMALL = {"vocab_size": 400, "hidden_size": 32}
SIZES = SMALL | {"intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "max_position_embeddings": 300}
EXPERTS = SIZES | {"num_experts_per_tok": 2}
OTHER = {
    "mixtral": EXPERTS | {"num_local_experts": 4},
    "qwen3_moe": EXPERTS | {"num_experts": 4, "moe_intermediate_size": 24, "head_dim": 8},
    "phi": SIZES,
    "gemma": SIZES | {"head_dim": 8},
    "gpt_neo": SMALL
    | {"num_layers": 2, "num_heads": 4, "window_size": 16, "max_position_embeddings": 300}
    | {"attention_types": [[["global", "local"], 1]]},
    "stablelm": SIZES,
    "bloom": SMALL | {"n_layer": 2, "n_head": 4},
    "cohere2": SIZES,
    "olmo3": SIZES,
    "mamba": SMALL | {"num_hidden_layers": 2, "state_size": 8},
    "falcon": SMALL
    | {"num_hidden_layers": 2, "num_attention_heads": 4}
    | {"alibi": True, "new_decoder_architecture": False},
    "falcon_h1": SIZES
    | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}
    | {"mamba_n_groups": 1},
    "gemma4_text": SIZES
    | {"num_hidden_layers": 4, "head_dim": 8, "global_head_dim": 16, "sliding_window": 12}
    | {"vocab_size_per_layer_input": 400, "hidden_size_per_layer_input": 8}
    | {"num_kv_shared_layers": 2, "final_logit_softcapping": None}
    | {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "lfm2": SIZES | {"layer_types": ["conv", "full_attention", "conv"]},
}


def prompts_of(shots):
    return [f"{shots}Review: {query}\nSentiment:" for query in QUERIES]


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("shots", SHOTS)
def test_scores_are_those_of_our_networks(name, shots, tmp_path):
    save(name, build(name, seed=5, vocabulary=400, positions=200), tmp_path)
    write_tokenizer(tmp_path, eos_token="<|end|>")
    theirs = TransformersLM(TransformersFiles(tmp_path).load()).score(prompts_of(shots), LABELS)
    ours = CausalLM(load_checkpoint(tmp_path)).score(prompts_of(shots), LABELS)
    np.testing.assert_allclose(theirs.log_probs, ours.log_probs, atol=1e-4)
    np.testing.assert_array_equal(theirs.tokens, ours.tokens)


@pytest.mark.parametrize("batch_size", [2, 256])
@pytest.mark.parametrize("name", OTHER)
def test_an_architecture_without_a_network_here(name, batch_size, tmp_path):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **OTHER[name]))
    model.eval().save_pretrained(tmp_path)
    write_tokenizer(tmp_path, eos_token="<|end|>")
    scorer = TransformersLM(TransformersFiles(tmp_path).load(), batch_size)
    for shots in SHOTS:
        texts = prompts_of(shots)
        scores = scorer.score(texts, LABELS).log_probs
        expected, _ = scored_alone(model, byte_level(), texts, LABELS)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4)


LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 60}
LONGROPE |= {"long_factor": [1.0, 3.0, 6.0, 9.0], "short_factor": [1.0] * 4}


@pytest.mark.parametrize("batch_size", [1, 3, 256])
def test_longrope_turns_each_label_by_its_own_length(batch_size, tmp_path):
    torch.manual_seed(3)
    config = AutoConfig.for_model("phi3", **SIZES, rope_parameters=LONGROPE, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.3)
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, eos_token="<|end|>")
    # A beginning all share; rows short, long, and with labels on both sides of 60 tokens; one
    # label begins another.
    texts = [f"Review: fine and bleak {'x ' * n}Sentiment:" for n in (*range(0, 24, 2), 60)]
    labels = [" pos", " positively unflinchingly zebra", " so"]
    expected, fed = scored_alone(model, byte_level(), texts, labels)
    assert {0, 3} < {*(fed > 60).sum(axis=1).tolist()}
    scorer = TransformersLM(TransformersFiles(tmp_path).load(), batch_size)
    np.testing.assert_allclose(scorer.score(texts, labels).log_probs, expected, atol=1e-4)
    ours = CausalLM(load_checkpoint(tmp_path)).score(texts, labels).log_probs
    np.testing.assert_allclose(ours, expected, atol=1e-4)


@pytest.mark.parametrize("begin", [{}, {"decoder_start_token_id": 7}])
def test_t5gemma_decodes_from_the_token_that_generate_begins_with(begin, tmp_path):
    part = {key: SIZES[key] for key in SIZES if key != "num_hidden_layers"}
    part |= {"num_hidden_layers": 2, "head_dim": 8}
    towers = {"encoder": dict(part), "decoder": part | {"cross_attention_hidden_size": 32}}
    tokens = {"bos_token_id": 3, "pad_token_id": 0, "eos_token_id": 1}
    config = AutoConfig.for_model("t5gemma", **towers, **tokens)
    torch.manual_seed(4)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    for key, token in begin.items():
        setattr(model.generation_config, key, token)
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, eos_token="<|end|>")
    texts, labels = ["Review: fine", "Review: a bleak zebra"], [" pos", " so so"]
    scores = TransformersLM(TransformersFiles(tmp_path).load()).score(texts, labels).log_probs
    tokenizer = byte_level()
    for (row, column), score in np.ndenumerate(scores):
        ids = tokenizer.encode(labels[column]).ids
        fed = torch.tensor([[begin.get("decoder_start_token_id", 3), *ids[:-1]]])
        prompt = torch.tensor([tokenizer.encode(texts[row]).ids])
        assert model.generate(prompt, max_new_tokens=1)[0, 0] == fed[0, 0]
        with torch.no_grad():
            logits = model(input_ids=prompt, decoder_input_ids=fed).logits[0]
        expected = logits.log_softmax(-1)[range(len(ids)), ids].sum()
        assert score == pytest.approx(float(expected), abs=1e-4)


def test_a_decoder_without_a_first_token_is_a_sentence(t5, tmp_path):
    for path in t5.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((tmp_path / name).read_text())
        for key in ("decoder_start_token_id", "bos_token_id"):
            settings.pop(key, None)
        (tmp_path / name).write_text(json.dumps(settings))
    with pytest.raises(InputError, match="decoder_start_token_id or bos_token_id"):
        TransformersLM(TransformersFiles(tmp_path).load()).score(["Review: fine"], LABELS)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A random T5 whose tokenizer ends texts with </s>."""
    from tokenizers.processors import TemplateProcessing

    directory = tmp_path_factory.mktemp("t5")
    torch.manual_seed(2)
    sizes = {"vocab_size": 400, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2}
    sizes |= {"num_heads": 4, "decoder_start_token_id": 0, "tie_word_embeddings": False}
    config = AutoConfig.for_model("t5", **sizes)
    AutoModelForSeq2SeqLM.from_config(config).eval().save_pretrained(directory)
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["</s>"])
    end = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    tokenizer.save(str(directory / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}
    options["pad_token"] = "<|end|>"
    (directory / "tokenizer_config.json").write_text(json.dumps(options))
    return directory


def test_an_encoder_decoder_is_the_harness_s(t5):
    texts = [text + space for text in prompts_of(SHOTS[1]) for space in ("", " ")]
    scores = TransformersLM(TransformersFiles(t5).load(), 4).score(texts, LABELS).log_probs
    harness = HFLM(pretrained=str(t5), device="cpu", dtype="float32", backend="seq2seq")
    pairs = product(texts, LABELS)
    requests = [Instance("loglikelihood", {}, pair, 0) for pair in pairs]
    expected = [log_prob for log_prob, _ in harness.loglikelihood(requests, disable_tqdm=True)]
    np.testing.assert_allclose(scores.ravel(), expected, atol=1e-4)


def test_a_study_is_scored_and_goes_on(t5, tmp_path):
    sizes = {"shots": 1, "limit": 30, "labeled_per_class": 0, "dc_texts": 2, "batch_size": 8}
    model = {"scorer": "transformers", "model": str(t5)}
    settings = Settings.of(**model, data="mini", tasks="sst2", **sizes)
    heard = []
    assert run_scoring(settings, store=tmp_path / "W", notify=heard.append).scored > 30
    assert any("encoder-decoder" in note for note in heard)
    assert run_scoring(settings, store=tmp_path / "W").scored == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"logits_only": True}, "logits_only: expected False, because transformers runs"),
        ({"mesh": "data:2"}, "mesh: expected '', because transformers runs"),
        ({"dtype": "float8"}, "no dtype named 'float8'"),
    ],
)
def test_settings_that_are_not_for_it(changes, sentence, t5, tmp_path):
    base = {"scorer": "transformers", "model": str(t5), "data": "mini", "tasks": "sst2", "limit": 2}
    with pytest.raises(InputError, match=sentence):
        run_scoring(Settings.of(**base, labeled_per_class=0, **changes), store=tmp_path / "W")


def test_what_transformers_cannot_read_is_a_sentence(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_network"}))
    says = r"a checkpoint that transformers 5.* reads; got .*no_such_network"
    with pytest.raises(InputError, match=says):
        TransformersFiles(tmp_path)
    with pytest.raises(InputError, match=r"scorer=.transformers. runs it"):
        load_checkpoint(tmp_path)


def test_pickled_weights_are_refused(t5, tmp_path):
    for path in t5.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).symlink_to(path)
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled checkpoints"):
        TransformersFiles(tmp_path).load()
