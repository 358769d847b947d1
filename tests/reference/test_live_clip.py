"""CLIP, its tokenizer and its images against transformers, SigLIP's network: `make reference`."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from cases_clip import CLIP, SIGLIP, answers, build, captions, inputs, save, their_tokenizer  # noqa: E402
from flax import nnx  # noqa: E402
from PIL import Image  # noqa: E402
from transformers import CLIPConfig, CLIPModel  # noqa: E402
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil  # noqa: E402

from batch_calibration.scoring import ImageInputs  # noqa: E402
from batch_calibration.scoring.data.images import ImageFile  # noqa: E402
from batch_calibration.scoring.dual_encoder import DualEncoder  # noqa: E402
from batch_calibration.scoring.engine import preprocessing  # noqa: E402
from batch_calibration.scoring.models import FAMILIES, clip  # noqa: E402
from batch_calibration.scoring.models.files import tokenizer_files, weights  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402
from batch_calibration.scoring.models.files.config import read_config  # noqa: E402

MERGES = "tokenizers/clip/bpe_simple_vocab_16e6.txt.gz"
B16 = CLIPConfig(vision_config=dict(patch_size=16))


def check(theirs, directory, pixels, tokens):
    """Embeddings to 1e-4 and logits to 1e-3, from what `save_pretrained` wrote."""
    expected = answers(theirs, pixels, tokens)
    family = FAMILIES[json.loads((directory / "config.json").read_text())["model_type"]]
    config, ours = weights.load(directory, family)
    graph, state = nnx.split(ours)
    bias = 0.0
    if family.name == "siglip":
        bias = float(ours.logit_bias[0])
        lengths = (tokens != config.text_pad_token_id).sum(1)
        tokens = tokens * (tokens != config.text_pad_token_id)  # padding as the scorer has it
    else:
        lengths = torch.full((len(tokens),), tokens.shape[1])

    @jax.jit
    def run(state, pixels, tokens):
        model = nnx.merge(graph, state)
        text = model.embed_text(tokens, jnp.asarray(lengths.numpy()))
        return model.embed_image(pixels), text, model.scale

    pixels = jnp.asarray(pixels.numpy().transpose(0, 2, 3, 1))
    image, text, scale = run(state, pixels, jnp.asarray(tokens.int().numpy()))
    np.testing.assert_allclose(image, expected["image"], atol=1e-4)
    np.testing.assert_allclose(text, expected["text"], atol=1e-4)
    image, text = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (image, text))
    np.testing.assert_allclose(scale * image @ text.T + bias, expected["logits"], atol=1e-3)


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("name", [*CLIP, *SIGLIP])
def test_network(name, sharded, tmp_path):
    theirs = build(name, seed=3)
    save(name, theirs, tmp_path, sharded)
    assert (tmp_path / "model.safetensors.index.json").exists() == sharded
    check(theirs, tmp_path, *inputs(name, seed=4))


@pytest.mark.parametrize("sharded", [False, True])
def test_real_shape(sharded, tmp_path):
    torch.manual_seed(0)
    theirs = CLIPModel(B16).eval()
    theirs.save_pretrained(tmp_path, **({"max_shard_size": "200MB"} if sharded else {}))
    tokens = torch.randint(1, 49406, (5, 77))
    for row, end_place in enumerate((76, 3, 20, 7, 50)):
        tokens[row, end_place:] = 49407
    check(theirs, tmp_path, torch.randn(3, 3, 224, 224), tokens)


def test_what_we_save_transformers_loads(tmp_path):
    theirs = build("clip_plain")
    save("clip_plain", theirs, tmp_path / "a")
    _, ours = weights.load(tmp_path / "a", clip.FAMILY)
    raw = json.loads((tmp_path / "a/config.json").read_text())
    weights.save(tmp_path / "b", ours, clip.FAMILY, raw)
    loaded, report = CLIPModel.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=0, atol=0)


def test_token_ids(shared):
    texts = captions(1000)
    expected = their_tokenizer(shared / MERGES)(texts).input_ids
    ours = tokenizer_files.load(shared / MERGES).encode_batch(texts)
    assert [row.ids for row in ours] == expected


@pytest.mark.parametrize("written", ["tokenizer.json", "vocab.json and merges.txt"])
def test_token_ids_of_what_transformers_wrote(written, shared, tmp_path):
    theirs = their_tokenizer(shared / MERGES)
    save("clip_plain", build("clip_plain"), tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    sizes = {"vocab_size": 49408, "eos_token_id": 49407, "max_position_embeddings": 77}
    raw["text_config"] |= sizes
    config = read_config(clip.FAMILY, raw, tmp_path)
    weights.save(tmp_path, clip.Model(config, rngs=nnx.Rngs(0)), clip.FAMILY, raw)
    theirs.save_pretrained(tmp_path)
    if written != "tokenizer.json":
        (tmp_path / "tokenizer.json").unlink()
        theirs.backend_tokenizer.model.save(str(tmp_path))
    texts = captions(200, seed=1)
    ours = load_checkpoint(tmp_path).tokenizer
    assert [row.ids for row in ours.encode_batch(texts)] == theirs(texts).input_ids


def images(shared) -> list[Path]:
    """Fifty images of every class."""
    return sorted((shared / "data/extra_dtd10/images").rglob("*.jpg"))[::24]


def expected_pixels(image: Image.Image, how=None) -> np.ndarray:
    """Pixels of transformers' Pillow processor before rescaling: `[h w 3]`."""
    processor = CLIPImageProcessorPil(do_rescale=False, do_normalize=False, **(how or {}))
    return processor(image, return_tensors="np").pixel_values[0].transpose(1, 2, 0)


def encoded(image: Image.Image, form: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def how(edge=224, crop=(224, 224)) -> preprocessing.Preprocessing:
    colors = preprocessing.OPENAI_MEAN, preprocessing.OPENAI_STD
    return preprocessing.Preprocessing(edge, crop, 3, *colors)


def test_pixels_of_real_images(shared):
    paths = images(shared)
    assert len(paths) == 50
    for path in paths:
        ours = preprocessing.prepare_image(path.read_bytes(), str(path), how())
        np.testing.assert_array_equal(ours, expected_pixels(Image.open(path)))


def test_pixels_of_odd_sizes(shared):
    random = np.random.default_rng(0)
    for path in images(shared):
        with Image.open(path) as image:
            wide, high = (int(random.integers(5, side)) for side in image.size)
            image = image.crop((0, 0, wide, high))
        ours = preprocessing.prepare_image(encoded(image), str(path), how())
        np.testing.assert_array_equal(ours, expected_pixels(image), err_msg=str(image.size))


@pytest.mark.parametrize(
    ("edge", "crop", "settings"),
    [
        (64, (96, 80), {"size": {"shortest_edge": 64}, "crop_size": {"height": 96, "width": 80}}),
        ((60, 90), (60, 90), {"size": {"height": 60, "width": 90}, "crop_size": [60, 90]}),
        (37, (31, 31), {"size": {"shortest_edge": 37}, "crop_size": 31}),
    ],
)
def test_pixels_of_other_settings(edge, crop, settings, shared):
    for path in images(shared)[:5]:
        ours = preprocessing.prepare_image(path.read_bytes(), str(path), how(edge, crop))
        np.testing.assert_array_equal(ours, expected_pixels(Image.open(path), settings))


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "palette"])
def test_pixels_of_other_modes(mode, shared):
    with Image.open(images(shared)[7]) as image:
        alpha = image.convert("L").resize(image.size)
        if mode in ("LA", "RGBA"):
            image = image.convert(mode)
            image.putalpha(alpha)
        elif mode == "palette":
            image = image.quantize(16)
            image.info["transparency"] = 3
        else:
            image = image.convert(mode)
    data = encoded(image, {"CMYK": "JPEG", "YCbCr": "JPEG"}.get(mode, "PNG"))
    ours = preprocessing.prepare_image(data, mode, how())
    np.testing.assert_array_equal(ours, expected_pixels(Image.open(io.BytesIO(data))))


def test_normalized_pixels(shared):
    path = images(shared)[3]
    theirs = CLIPImageProcessorPil()(Image.open(path), return_tensors="np").pixel_values[0]
    pixels = preprocessing.prepare_image(path.read_bytes(), "x", how())
    ours = preprocessing.normalize(jnp.asarray(pixels), how())
    np.testing.assert_allclose(ours, theirs.transpose(1, 2, 0), atol=1e-5)


def test_scores_of_real_images(shared, tmp_path):
    """The whole way: a directory that transformers wrote, files, statements, logits."""
    torch.manual_seed(1)
    sizes = {"intermediate_size": 64, "num_hidden_layers": 2}
    text = sizes | {"hidden_size": 32, "num_attention_heads": 2}
    vision = sizes | {"hidden_size": 48, "num_attention_heads": 3}
    vision |= {"image_size": 64, "patch_size": 16}
    config = CLIPConfig(projection_dim=32, text_config=text, vision_config=vision)
    theirs = CLIPModel(config).eval()
    tokenizer = their_tokenizer(shared / MERGES)
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 64}, crop_size=64, image_mean=[0.4, 0.5, 0.6], image_std=[0.2] * 3
    )
    for saver in (theirs, tokenizer, processor):
        saver.save_pretrained(tmp_path)
    paths = images(shared)[:23]
    labels = ["banded texture.", "a photo of a BRAIDED café.", "👍 bumpy"]
    scorer = DualEncoder(load_checkpoint(tmp_path), scale=0, max_tokens=77, batch_size=8)
    scores = scorer.score(ImageInputs([ImageFile(path) for path in paths]), labels)
    with torch.no_grad():
        expected = theirs(
            **tokenizer(labels, padding=True, return_tensors="pt"),
            **processor([Image.open(path) for path in paths], return_tensors="pt"),
        ).logits_per_image
    np.testing.assert_allclose(scores.log_probs, expected.numpy(), atol=1e-3)
    assert not scores.failed
