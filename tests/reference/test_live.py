"""Our models and scorers against transformers, live: `make reference`."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

import cases  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from cases import CAUSAL, answers, build, inputs, save, scored_alone  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from tiny import CORPUS, byte_level  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from transformers.integrations.mxfp4 import convert_moe_packed_tensors  # noqa: E402

from batch_calibration.scoring.causal_lm import CausalLM  # noqa: E402
from batch_calibration.scoring.embedded import CHECKPOINTS, suite  # noqa: E402
from batch_calibration.scoring.models import FAMILIES  # noqa: E402
from batch_calibration.scoring.models.attention import causal  # noqa: E402
from batch_calibration.scoring.models.files import weights  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402
from batch_calibration.scoring.models.files.tensors import tensors  # noqa: E402
from batch_calibration.scoring.prompts import template as templates  # noqa: E402
from batch_calibration.scoring.tasks import TASKS  # noqa: E402


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("name", CAUSAL)
def test_network(name, sharded, tmp_path):
    theirs = build(name, seed=3)
    save(name, theirs, tmp_path, sharded)
    assert (tmp_path / "model.safetensors.index.json").exists() == sharded
    family = FAMILIES[json.loads((tmp_path / "config.json").read_text())["model_type"]]
    _, ours = weights.load(tmp_path, family)
    tokens = inputs(name, seed=4)
    expected = answers(theirs, tokens).numpy()
    ids = jnp.asarray(tokens.numpy(), jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    got = ours.unembed(ours.hidden(ids, positions, causal))
    np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("shots", ["", "".join(CORPUS)])
def test_causal_scores(name, shots, tmp_path):
    theirs = build(name, seed=5, vocabulary=400, positions=200)
    save(name, theirs, tmp_path)
    # Gemma's own class would ask for its token for unknown characters, which these files lack.
    cases.write_tokenizer(tmp_path)
    checkpoint = load_checkpoint(tmp_path)
    tokenizer = checkpoint.tokenizer  # Qwen's splits otherwise than the file (test_live_beginning)
    queries = ["slow", "very fine", "not even desperate and bleak", "a zebra"]
    texts = [f"{shots}Review: {query}\nSentiment:" for query in queries]
    labels = [" positive", " negative", " pos", " so so"]
    scores = CausalLM(checkpoint).score(texts, labels).log_probs
    expected, _ = scored_alone(theirs, tokenizer, texts, labels)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("together", [True, False])
def test_scores_beyond_the_first_length_are_those_of_each_label_alone(together, tmp_path):
    """Transformers chooses longrope's factors by the length of what it is given at once."""
    theirs = build("phi3_long", seed=5, vocabulary=400)
    theirs.config.max_position_embeddings = 80
    raw = json.loads(save("phi3_long", theirs, tmp_path).joinpath("config.json").read_text())
    raw |= {"max_position_embeddings": 400, "original_max_position_embeddings": 100}
    raw["rope_parameters"]["original_max_position_embeddings"] = 100
    (tmp_path / "config.json").write_text(json.dumps(raw))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    cases.write_tokenizer(tmp_path)
    ends = ["slow", "fine and not even desperate", *("so " * n + "fine" for n in range(40))]
    texts = [f"{CORPUS[0]}Review: {end}\nSentiment:" for end in ends]
    labels = [" positive", " so so", " unflinchingly bleak zebra"]
    scorer = CausalLM(load_checkpoint(tmp_path))
    if together:
        scores = scorer.score(texts, labels).log_probs
    else:
        scores = np.concatenate([scorer.score([text], labels).log_probs for text in texts])
    expected, fed = scored_alone(theirs, byte_level(), texts, labels)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4)
    is_long = fed > 100
    assert (is_long.any(axis=1) & ~is_long.all(axis=1)).any()  # a row that needs both lengths


def test_weights_in_mxfp4_are_the_numbers_that_transformers_makes_of_them(tmp_path):
    random = np.random.default_rng(9)
    blocks = random.integers(0, 256, (2, 5, 3, 16), np.uint8)  # [experts, out, in / 32, 16]
    scales = random.integers(100, 140, blocks.shape[:-1], np.uint8)
    packs = {"down_proj_blocks": blocks, "down_proj_scales": scales}
    save_file(packs, tmp_path / "model.safetensors")
    (packed,) = weights.join(tensors(tmp_path))
    theirs = convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales))
    np.testing.assert_array_equal(packed.read(np.float32), theirs.float().numpy())


def test_the_shipped_model_is_one_of_theirs():
    """A plan's longest prompts: transformers reads the directory and says the same."""
    directory = CHECKPOINTS["mini"]
    theirs = AutoModelForCausalLM.from_pretrained(directory).eval()
    checkpoint = load_checkpoint(directory)
    for task in ("sst2", "wic", "anli_r3"):
        template = TASKS[task].few_shot
        end = templates.continuation(template, "maybe")
        rows = suite.read_rows(task, "validation").rows[:12]
        prompts = [templates.query(template, row) + end for row in rows]
        ids = checkpoint.tokenizer.encode("\n\n".join(prompts)).ids
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits.numpy()
        tokens = jnp.asarray([ids], jnp.int32)
        positions = jnp.arange(len(ids))[None]
        model = checkpoint.model
        got = model.unembed(model.hidden(tokens, positions, causal))
        np.testing.assert_allclose(got, expected, atol=1e-4)
