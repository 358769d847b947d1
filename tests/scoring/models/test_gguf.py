"""GGUF files equal their safetensors twins; broken, hostile and unknown ones are sentences."""

import json
import sys
from datetime import date

import numpy as np
import pytest
from flax import nnx
from processes import python
from safetensors.numpy import load_file, save_file
from tiny import byte_level, write
from tokenizers import Tokenizer, models, normalizers, trainers

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.files.checkpoint import ModelFiles
from batch_calibration.scoring.models.rotary import Rope, frequencies
from batch_calibration.settings import Settings
from batch_calibration.studies.loading import open_model

gguf = pytest.importorskip("gguf", reason="needs the library gguf: pip install '.[test]'")
Q = gguf.GGMLQuantizationType
KINDS = (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q6_K)
SHAPE = {"vocab_size": 330, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"num_key_value_heads": 2, "intermediate_size": 256, "max_position_embeddings": 64}
SHAPE |= {"rms_norm_eps": 1e-5, "rope_theta": 50_000.0}
LONG = {"short_factor": [1.0, *[1.5] * 31], "long_factor": [2.0, *[4.0] * 31]}
LONG |= {"type": "longrope", "attention_factor": 1.125}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
GEMMA = {"head_dim": 128, "tie_word_embeddings": True}
EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
WINDOW = {"query_pre_attn_scalar": 128, "sliding_window": 8}
LINEAR = {"rope_type": "linear", "factor": 8.0}
CASES = {
    "llama": {"tie_word_embeddings": True},
    "llama with biases": {"attention_bias": True, "mlp_bias": True},
    "smollm3": {"num_hidden_layers": 4, "tie_word_embeddings": True},
    "qwen2": {"rope_scaling": YARN},
    "qwen3": {"head_dim": 128},
    "qwen3moe": EXPERTS | {"head_dim": 128, "norm_topk_prob": True},
    "gemma": GEMMA,
    "gemma2": GEMMA | WINDOW | {"attn_logit_softcapping": 40.0, "final_logit_softcapping": 20.0},
    "gemma3": GEMMA | WINDOW | {"num_hidden_layers": 6, "rope_scaling": LINEAR},
    "phi3": {"rope_scaling": LONG, "original_max_position_embeddings": 32, "sliding_window": 9},
}
GPT2 = {"vocab_size": 330, "n_positions": 32, "n_embd": 256, "n_layer": 2, "n_head": 4}
GPT2 |= {"n_inner": 256, "layer_norm_epsilon": 1e-5}
WRITTEN = """
    max_position_embeddings=context_length hidden_size=embedding_length
    head_dim=attention.key_length
    num_hidden_layers=block_count intermediate_size=feed_forward_length rope_theta=rope.freq_base
    num_attention_heads=attention.head_count num_key_value_heads=attention.head_count_kv
    rms_norm_eps=attention.layer_norm_rms_epsilon sliding_window=attention.sliding_window
    attn_logit_softcapping=attn_logit_softcapping final_logit_softcapping=final_logit_softcapping
    num_experts=expert_count num_experts_per_tok=expert_used_count
    moe_intermediate_size=expert_feed_forward_length n_positions=context_length
    n_embd=embedding_length n_layer=block_count n_inner=feed_forward_length
    n_head=attention.head_count layer_norm_epsilon=attention.layer_norm_epsilon
    original_max_position_embeddings=rope.scaling.original_context_length
"""
WRITTEN = dict(pair.split("=") for pair in WRITTEN.split())


def raw_config(case):
    arch = case.split()[0]
    model_type = {"qwen3moe": "qwen3_moe", "gemma3": "gemma3_text"}.get(arch, arch)
    shape = GPT2 if arch == "gpt2" else SHAPE | CASES[case]
    return arch, {"model_type": model_type} | shape


def packed(array, kind, seed):
    """A matrix in a type of ggml: bytes, and the numbers that they stand for."""
    if kind == Q.Q6_K:  # which the library does not write
        blocks = array.shape[0] * array.shape[1] // 256
        content = np.random.default_rng(seed).integers(0, 256, (blocks, 210), dtype=np.uint8)
        content[:, 208:] = np.full(1, 0.0004, np.float16).view(np.uint8)
        content = content.reshape(array.shape[0], -1)
    else:
        content = gguf.quantize(array, kind)
    return content, gguf.dequantize(content, kind).reshape(array.shape)


def in_pairs(array, heads):
    """Rows in llama.cpp's order, as its converter writes them."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def add_texts(writer, tokenizer, pre="gpt-2", **more):
    content = json.loads(tokenizer.to_str())
    vocabulary = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
    added = {token["content"]: 3 if token["special"] else 4 for token in content["added_tokens"]}
    merges = content["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary)
    writer.add_token_types([added.get(token, 1) for token in vocabulary])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    for name, number in more.items():
        getattr(writer, f"add_{name}")(number)


def finished(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_twin(folder, case, kind=Q.F32, change=None, **texts):
    """A GGUF file and the Hugging Face directory of the same numbers."""
    arch, raw = raw_config(case)
    twin, path = folder / "twin", folder / "model.gguf"
    twin.mkdir(parents=True)
    write(twin, raw)
    writer = gguf.GGUFWriter(path, arch)
    for key, name in WRITTEN.items():
        if key in raw:
            add = writer.add_float32 if isinstance(raw[key], float) else writer.add_uint32
            add(f"{arch}.{name}", raw[key])
    scaling = raw.get("rope_scaling", {})
    if arch in ("qwen2", "gemma3"):
        writer.add_string(f"{arch}.rope.scaling.type", scaling["rope_type"])
        writer.add_float32(f"{arch}.rope.scaling.factor", scaling["factor"])
    if arch == "qwen2":
        writer.add_uint32(f"{arch}.rope.scaling.original_context_length", 16)
    if arch == "phi3":
        writer.add_float32(f"{arch}.rope.scaling.attn_factor", scaling["attention_factor"])
        for name in ("long", "short"):
            factors = np.array(scaling[f"{name}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", factors)
    add_texts(writer, byte_level(), **texts)
    layers = raw.get("num_hidden_layers", raw.get("n_layer"))
    architectures = {name: one for one, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(architectures[arch], layers)
    tensors, experts = load_file(twin / "model.safetensors"), {}
    for seed, (name, array) in enumerate(sorted(tensors.items())):
        heads = raw.get("num_attention_heads") if ".q_proj." in name else None
        heads = raw.get("num_key_value_heads") if ".k_proj." in name else heads
        is_paired = arch in ("llama", "smollm3") and heads
        theirs = in_pairs(array, heads) if is_paired else array
        is_turned = arch == "gpt2" and ".c_" in name and array.ndim == 2
        theirs = np.ascontiguousarray(theirs.T) if is_turned else theirs
        is_centered = arch.startswith("gemma") and name.endswith("norm.weight")
        theirs = theirs + np.float32(1) if is_centered else theirs
        used = kind if array.ndim == 2 and "wpe" not in name else Q.F32
        content, numbers = packed(theirs, used, seed)
        if is_paired:
            tensors[name] = numbers[np.argsort(in_pairs(np.arange(len(array)), heads))]
        else:
            tensors[name] = numbers.T if is_turned else numbers
        tensors[name] = tensors[name] - np.float32(1) if is_centered else tensors[name]
        if ".experts." in name:
            layer, number, part = name.split(".")[2], name.split(".")[5], name.split(".")[6]
            experts.setdefault((layer, part), {})[int(number)] = content
            continue
        theirs_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert theirs_name, name
        writer.add_tensor(theirs_name, content, raw_dtype=used)
    for (layer, part), contents in experts.items():
        stacked = np.stack([contents[number] for number in sorted(contents)])
        name = names.get_name(f"model.layers.{layer}.mlp.experts.{part}")
        writer.add_tensor(f"{name}.weight", stacked, raw_dtype=kind)
    if change:
        change(writer)
    finished(writer)
    whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    save_file(whole, twin / "model.safetensors")
    return path, twin


def leaves(model):
    return {path: np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(nnx.state(model))}


def assert_twins(path, twin, dtype="float32"):
    ours, theirs = ModelFiles(path).load(dtype), ModelFiles(twin).load(dtype)
    assert (ours.model_type, ours.config) == (theirs.model_type, theirs.config)
    mine, expected = leaves(ours.model), leaves(theirs.model)
    assert mine.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(mine[name], array, str(name))
    return ours, theirs


@pytest.mark.parametrize("case", [*CASES, "gpt2"])
def test_a_file_of_each_architecture_is_its_twin(case, tmp_path):
    assert_twins(*with_twin(tmp_path, case))


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.name)
@pytest.mark.parametrize("case", ["llama", "qwen3moe", "gpt2"])
def test_quantized_files_are_their_dequantized_twins(case, kind, tmp_path):
    path, twin = with_twin(tmp_path, case, kind)
    assert_twins(path, twin, "bfloat16" if kind == Q.Q4_1 else "float32")


def test_a_file_reads_texts_as_its_twin_and_has_a_digest_of_its_content(tmp_path):
    path, twin = with_twin(tmp_path, "llama")
    ours, theirs = ModelFiles(path).load(), ModelFiles(twin).load()
    text = "Review: it's  a charming\n\njourney 1234.<|end|>é"
    assert ours.tokenizer.encode(text).ids == theirs.tokenizer.encode(text).ids
    assert ours.bos is None and ours.kind == "causal_lm"
    moved = path.rename(tmp_path / "other.gguf")
    assert ModelFiles(moved).load().digest == ours.digest
    assert open_model(Settings.of(model=str(moved))).tokenizer_info.positions == 64
    (tmp_path / "folder").mkdir()
    moved.rename(tmp_path / "folder" / "only.gguf")
    assert ModelFiles(tmp_path / "folder").load().digest == ours.digest


def test_llama_3s_divisors_of_frequencies(tmp_path):
    size = {"positions": 64, "rope_theta": 50_000.0}
    scaled = Rope(rope_type="llama3", factor=8.0, original_max_position_embeddings=16, **size)
    expected = frequencies(64, scaled)
    divisors = np.divide(frequencies(64, Rope(**size)).radians, expected.radians)

    divisors = divisors.astype(np.float32)
    path, _ = with_twin(
        tmp_path, "llama", change=lambda w: w.add_tensor("rope_freqs.weight", divisors)
    )
    config = ModelFiles(path).load().config
    got = frequencies(64, config.rope)
    np.testing.assert_allclose(got.radians, expected.radians, rtol=2e-7)
    assert got.scale == 1 and config.positions == 64


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["It", "'s", "ĠĠ", "Ġ12345", "Ċ", "Ċ", "Door"]),
        ("smollm", ["It", "'s", "ĠĠĠ", *"12345", "Ċ", "Ċ", "Door"]),
        ("llama-bpe", ["It", "'s", "ĠĠ", "Ġ", "123", "45", "ĊĊ", "Door"]),
        ("qwen2", ["It", "'s", "ĠĠ", "Ġ", *"12345", "ĊĊ", "Door"]),
        ("gpt-4o", ["It's", "ĠĠ", "Ġ", "123", "45", "ĊĊ", "Door"]),
        ("tekken", ["It", "'s", "ĠĠ", "Ġ", *"12345", "ĊĊ", "Door"]),
    ],
)
def test_words_are_split_by_the_name(pre, expected, tmp_path):
    path, _ = with_twin(tmp_path, "llama", pre=pre, bos_token_id=5)
    info = ModelFiles(path).tokenizer_info
    words = info.tokenizer.pre_tokenizer.pre_tokenize_str("It's   12345\n\nDoor")
    assert [word for word, _ in words] == expected
    assert info.bos == (5 if pre in ("llama-bpe", "tekken") else None)
    assert info.prefix == 5


@pytest.mark.parametrize("has_prefix", [True, False])
def test_sentence_piece_merges_by_scores(has_prefix, tmp_path):
    """Scores that fall in the order in which pieces were learned give the trainer's merges."""
    trained = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = [normalizers.Prepend("▁")] if has_prefix else []
    trained.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", "▁")])
    control = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=control, show_progress=False)
    texts = ["the journey is charming and slow", "an affecting journey, and a bleak end"] * 4
    trained.train_from_iterator(texts, trainer)
    pieces = sorted(trained.get_vocab(), key=trained.get_vocab().get)

    def change(writer):
        writer.kv_data[0] = {k: v for k, v in writer.kv_data[0].items() if "tokenizer" not in k}
        writer.add_tokenizer_model("llama")
        writer.add_token_list(pieces)
        writer.add_token_scores([-float(number) for number in range(len(pieces))])
        writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259)])
        writer.add_add_space_prefix(has_prefix)

    path, _ = with_twin(tmp_path, "llama", change=change)
    info = ModelFiles(path).tokenizer_info
    assert (info.bos, info.prefix) == (1, 1) and "(id 1)" in info.notes[0]
    for text in ("the journey", "  a slow journey, and\tan end", "is é"):
        assert info.tokenizer.encode(text).tokens == trained.encode(text).tokens
        assert info.tokenizer.decode(info.tokenizer.encode(text).ids).strip() == text.strip()


def test_a_chat_template_and_its_tokens(tmp_path):
    template = "{{ bos_token }}{{ messages[0]['content'] }}"
    texts = {"chat_template": template, "bos_token_id": 0, "add_bos_token": True}
    path, _ = with_twin(tmp_path, "llama", **texts)
    files = ModelFiles(path)
    text = files.chat_template.render([{"role": "user", "content": "yes"}], date(2026, 1, 1))
    assert text == "<|end|>yes" and files.tokenizer_info.bos == 0


def test_split_files_are_one_checkpoint(tmp_path, refuses):
    path, twin = with_twin(tmp_path, "llama")
    folder = tmp_path / "parts"
    folder.mkdir()
    source = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama", split_max_tensors=8)
    for key, field in source.fields.items():
        if key.startswith(("llama.", "tokenizer.")):
            inner = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], inner)
    for tensor in source.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    finished(writer)
    names = sorted(file.name for file in folder.iterdir())
    assert names[0] == "m-00001-of-00003.gguf" and len(names) == 3
    assert_twins(folder, twin)
    assert_twins(folder / names[1], twin)
    (folder / names[2]).rename(folder / "away")
    assert refuses(ModelFiles, folder).where == str(folder / names[2])
    (folder / names[0]).rename(folder / "m.gguf")
    assert refuses(ModelFiles, folder / "m.gguf").got == "1 with 8"


def test_what_is_unknown_is_a_sentence(tmp_path, refuses, monkeypatch):
    def made(name, change):
        return with_twin(tmp_path / name, "llama", change=change)[0]

    def saying(key, value):
        return made(value, lambda writer: setattr(writer.kv_data[0][key], "value", value))

    assert refuses(ModelFiles, saying("general.architecture", "mamba")).got == "'mamba'"
    viking = ModelFiles(saying("tokenizer.ggml.pre", "viking"))
    assert refuses(lambda: viking.tokenizer_info).got == "'gpt2' with 'viking'"
    t5 = ModelFiles(saying("tokenizer.ggml.model", "t5"))
    assert refuses(lambda: t5.tokenizer_info).got == "'t5' with 'gpt-2'"
    experts = made("key", lambda writer: writer.add_uint32("llama.expert_count", 8))
    assert "num_experts = 8" in str(refuses(ModelFiles, experts))
    scaled = made("scaled", lambda writer: writer.add_float32("llama.attention.scale", 2))
    assert "llama.attention.scale = 2.0" in str(refuses(ModelFiles, scaled))
    ModelFiles(scaled, ["llama.attention.scale"])
    more = np.zeros((4, 4), np.float32)
    named = made("tensor", lambda writer: writer.add_tensor("blk.0.ssm_a.weight", more))
    assert "unexpected blk.0.ssm_a.weight" in str(refuses(ModelFiles(named).load))
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("a.gguf", "b.gguf"):
        (folder / name).write_bytes(b"")
    assert refuses(ModelFiles, folder).got == "a.gguf, b.gguf"
    assert "ends within its header" in str(refuses(ModelFiles, folder / "a.gguf"))
    (folder / "a.gguf").write_bytes(b"version https://git-lfs")
    assert "git lfs pull" in refuses(ModelFiles, folder / "a.gguf").got
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "import of gguf" in refuses(ModelFiles, named).got


def test_broken_files_end_in_a_sentence(tmp_path):
    path, _ = with_twin(tmp_path, "llama")
    content, rng = path.read_bytes(), np.random.default_rng(0)
    header = content.index(b"blk.0")
    broken = tmp_path / "broken.gguf"
    said = 0
    for attempt in range(120):
        if attempt % 3 == 0:  # truncated
            length = int(rng.integers(0, len(content) if attempt % 2 else header))
            broken.write_bytes(content[:length])
        else:  # other bytes in the header
            changed = bytearray(content)
            for at in rng.integers(0, 700 if attempt % 2 else header + 800, 3):
                changed[at] = int(rng.integers(0, 256))
            broken.write_bytes(changed)
        try:
            files = ModelFiles(broken)
            files.tokenizer_info  # noqa: B018
            files.chat_template  # noqa: B018
            files.load()
        except InputError as error:
            assert len(str(error)) > 20
            said += 1
    assert said > 60


def test_a_file_that_ends_within_its_numbers(tmp_path, refuses):
    path, _ = with_twin(tmp_path, "llama")
    files = ModelFiles(path)
    path.write_bytes(path.read_bytes()[:-1000])
    assert "within 'output_norm.weight'" in str(refuses(ModelFiles, path))
    assert "within 'model.norm.weight'" in str(refuses(files.load))


def test_the_library_is_imported_for_gguf_files_alone(tmp_path):
    (tmp_path / "twin").mkdir()
    write(tmp_path / "twin", {"model_type": "gpt2"} | GPT2)
    program = (
        "import sys; from batch_calibration.scoring.models.files.checkpoint import load_tokenizer; "
        f"load_tokenizer({str(tmp_path / 'twin')!r}); assert 'gguf' not in sys.modules"
    )
    python("-c", program, timeout=120)
