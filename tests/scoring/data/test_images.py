"""Preparation of images: every kind and every bad one, and scoring that outlives them."""

import json
import struct
import threading
import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_images import encoded, noise
from PIL import Image
from tiny import CLIP, byte_level, write

from batch_calibration.scoring import ImageInputs
from batch_calibration.scoring.data.images import ImageFile
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.engine import preprocessing
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

COLORS = preprocessing.OPENAI_MEAN, preprocessing.OPENAI_STD
HOW = preprocessing.Preprocessing(32, (32, 32), 3, *COLORS)


class Stored(NamedTuple):
    """An image in a dict of bytes."""

    name: str
    data: dict = {}  # noqa: RUF012

    def read(self):
        return self.data[self.name]

    def __str__(self):
        return self.name


def inputs(paths):
    return ImageInputs([ImageFile(Path(path)) for path in paths])


LABELS = ["a photo of a banded texture.", "a photo of a dotted thing.", "stripes"]


def prepared(image, form="PNG", **options):
    return preprocessing.prepare_image(encoded(image, form, **options), "x.png", HOW)


def test_shorter_side_then_middle():
    pixels = prepared(noise((100, 64)))
    expected = np.asarray(noise((100, 64)).resize((50, 32), 3))[:, 9:41]
    np.testing.assert_array_equal(pixels, expected)
    tall = prepared(noise((64, 101)))
    np.testing.assert_array_equal(tall, np.asarray(noise((64, 101)).resize((32, 50), 3))[9:41])


def test_what_is_smaller_than_the_crop_stands_on_black():
    how = HOW._replace(edge=20, crop=(25, 33))
    pixels = preprocessing.prepare_image(encoded(noise((40, 20))), "x", how)
    assert pixels.shape == (25, 33, 3)
    np.testing.assert_array_equal(pixels[3:23], np.asarray(noise((40, 20)))[:, 3:36])
    assert not pixels[:3].any() and not pixels[23:].any()


def test_gray_palette_and_print_colors_become_rgb():
    gray = prepared(noise(mode="L"))
    assert (gray == gray[..., :1]).all()
    few = noise().quantize(30)
    # Resized as colors, not as numbers of a palette.
    np.testing.assert_array_equal(prepared(few), prepared(few.convert("RGB")))
    cmyk = prepared(noise(mode="CMYK"), "JPEG", quality=95)
    assert np.abs(cmyk.astype(int) - prepared(noise())).mean() < 8
    assert set(np.unique(prepared(noise(mode="1").resize((32, 32))))) == {0, 255}


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_are_scaled_not_clipped(form):
    deep = np.asarray(noise((32, 32), mode="L")).astype(np.uint16) * 257
    pixels = prepared(Image.fromarray(deep), form)
    np.testing.assert_array_equal(pixels[..., 0], np.asarray(noise((32, 32), mode="L")))
    middle = prepared(Image.fromarray(np.full((32, 32), 40_000, np.uint16)), form)
    assert (middle == round(40_000 / 257)).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode):
    image = noise((32, 32), mode=mode)
    alpha = np.where(np.arange(32) < 16, 255, 0)[None].repeat(32, 0)
    image.putalpha(Image.fromarray(alpha.astype(np.uint8)))
    pixels = prepared(image)
    assert (pixels[:, 16:] == 255).all()
    np.testing.assert_array_equal(pixels[:, :16, 0], np.asarray(image)[:, :16, 0])


def test_of_an_animated_image_the_first_frame():
    frames = [Image.new("RGB", (32, 32), color) for color in ("red", "blue", "green")]
    pixels = prepared(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (pixels == [255, 0, 0]).all()


def test_rotation_that_exif_asks_for_is_ignored():
    exif = Image.Exif()
    exif[0x0112] = 6
    upright, turned = (prepared(noise(), "JPEG", **o) for o in ({}, {"exif": exif}))
    np.testing.assert_array_equal(turned, upright)


def broken():
    content = encoded(noise((300, 300)), "JPEG")
    png = bytearray(encoded(noise((64, 64))))
    png[len(png) // 2] ^= 0xFF
    return {
        "cannot identify": b"",
        "7 bytes not processed": content[: len(content) // 2],
        "Truncated File": content[:100],
        "unrecognized data": bytes(png),
        "cannot identify image file: ": b"<html>404 not found</html>",
        "floating point numbers": encoded(Image.fromarray(np.ones((9, 9), np.float32)), "TIFF"),
        "beyond 16 bits": encoded(Image.fromarray(np.full((9, 9), 70_000, np.int32)), "TIFF"),
        "20,001 x 5,001": encoded(Image.new("1", (20_001, 5_001))),
    }


BROKEN = broken()


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_image_is_a_sentence_with_its_name(words, refuses):
    error = refuses(preprocessing.prepare_image, BROKEN[words], "pic.jpg", HOW)
    assert "pic.jpg: " in str(error) and words in str(error)


def test_a_large_image_is_read_without_a_warning():
    data = encoded(Image.new("L", (9_990, 10_000), 77))
    filters = list(warnings.filters)
    assert (preprocessing.prepare_image(data, "x", HOW) == 77).all()
    assert warnings.filters == filters


def test_what_would_be_too_large_resized_is_a_sentence(refuses):
    thin = encoded(Image.new("L", (200_000, 2)))
    assert "200,000 x 2" in str(refuses(preprocessing.prepare_image, thin, "thin.png", HOW))


def test_a_size_that_a_header_claims_is_refused_before_it_is_read(refuses):
    def chunk(kind, body):
        length, check = struct.pack(">I", len(body)), struct.pack(">I", zlib.crc32(kind + body))
        return length + kind + body + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 99))
    error = refuses(preprocessing.prepare_image, data + chunk(b"IEND", b""), "huge.png", HOW)
    assert "400000000 pixels" in error.got


def test_a_transparent_entry_of_a_palette_is_white():
    image = Image.new("P", (32, 32), 1)
    image.putpalette([9, 9, 9, 200, 0, 0])
    image.paste(0, (0, 0, 16, 32))
    pixels = prepared(image, transparency=0)
    assert (pixels[:, :16] == 255).all() and (pixels[:, 16:] == [200, 0, 0]).all()


def test_batches_keep_the_order_and_name_what_failed():
    data = {str(i): encoded(noise(seed=i)) for i in range(23)}
    data["4"], data["22"] = b"", b"no image"
    refs = [Stored(str(i), data) for i in range(23)]
    batches = list(preprocessing.decode_batches(refs, HOW, 5))
    assert [row for batch in batches for row in batch.rows] == [*range(4), *range(5, 22)]
    assert {row for batch in batches for row in batch.failed} == {4, 22}
    for batch in batches:
        assert batch.pixels.shape == (5, 32, 32, 3)
        for i, row in enumerate(batch.rows):
            expected = preprocessing.prepare_image(data[str(row)], "", HOW)
            np.testing.assert_array_equal(batch.pixels[i], expected)


def test_no_more_than_two_batches_are_read_ahead():
    data, read, lock = encoded(noise()), [], threading.Lock()

    class Counted(Stored):
        def read(self):
            with lock:
                read.append(self.name)
            return data

    taken = 0
    for batch in preprocessing.decode_batches([Counted(str(i)) for i in range(500)], HOW, 4):
        taken += len(batch.rows)
        assert len(read) <= taken + 8
    assert taken == 500


def test_normalized_pixels():
    pixels = np.arange(96, dtype=np.uint8).reshape(1, 4, 8, 3)
    expected = (pixels / 255 - preprocessing.OPENAI_MEAN) / preprocessing.OPENAI_STD
    normalized = preprocessing.normalize(jnp.asarray(pixels), HOW)
    assert normalized.dtype == jnp.float32
    np.testing.assert_allclose(normalized, expected, atol=1e-5)


SETTINGS = [
    ({"size": 224, "crop_size": 200}, (224, (200, 200))),
    ({"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 220}},
     (224, (224, 220))),
    ({"size": {"height": 30, "width": 40}, "crop_size": 30}, ((30, 40), (30, 30))),
    ({}, (224, (224, 224))),
]  # fmt: skip


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
@pytest.mark.parametrize(("raw", "expected"), SETTINGS)
def test_settings(raw, expected, name, tmp_path):
    raw = raw | {"image_mean": [0.1, 0.2, 0.3]}
    wrapped = {"image_processor": raw} if name.startswith("processor") else raw
    (tmp_path / name).write_text(json.dumps(wrapped))
    how = preprocessing.load_preprocessing(tmp_path)
    assert (how.edge, how.crop) == expected
    assert how.mean == (0.1, 0.2, 0.3) and how.std == preprocessing.OPENAI_STD


def test_settings_that_are_not_followed(tmp_path, refuses):
    assert refuses(preprocessing.load_preprocessing, tmp_path).got == "no file"
    path = tmp_path / "preprocessor_config.json"
    path.write_text('{"do_normalize": false}')
    assert "do_normalize" in str(refuses(preprocessing.load_preprocessing, tmp_path))
    for raw in ({"size": {"longest_edge": 9}}, {"size": 0}, {"image_mean": [0.5]}):
        path.write_text(json.dumps(raw))
        assert str(*raw.values()) in refuses(preprocessing.load_preprocessing, tmp_path).got


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = write(tmp_path_factory.mktemp("clip"), CLIP, byte_level())
    settings = {"size": 32, "crop_size": 32}
    (directory / "preprocessor_config.json").write_text(json.dumps(settings))
    return load_checkpoint(directory)


@pytest.fixture
def files(tmp_path):
    for i in range(11):
        (tmp_path / f"{i}.png").write_bytes(encoded(noise(seed=i)))
    return [str(tmp_path / f"{i}.png") for i in range(11)]


speak = jax.jit(lambda model, tokens: model.embed_text(tokens))
look = jax.jit(lambda model, pixels: model.embed_image(pixels))


def naive(checkpoint, names, labels):
    """One image and one statement at a time."""
    how = preprocessing.load_preprocessing(checkpoint.directory)

    def unit(x):
        return np.asarray(x / jnp.linalg.norm(x))

    seen, spoken = [], []
    for name in names:
        pixels = preprocessing.prepare_image(Path(name).read_bytes(), name, how)
        pixels = preprocessing.normalize(jnp.asarray(pixels)[None], how)
        seen.append(unit(look(checkpoint.model, pixels)[0]))
    for text in labels:
        tokens = jnp.array([checkpoint.tokenizer.encode(text).ids + [0] * 40])[:, :40]
        spoken.append(unit(speak(checkpoint.model, tokens)[0]))
    return np.stack(seen), np.stack(spoken)


def test_scores_equal_one_at_a_time(checkpoint, files):
    heard = []
    scorer = DualEncoder(checkpoint, scale=0, batch_size=4)
    scores = scorer.score(inputs(files), LABELS, progress=heard.append)
    seen, spoken = naive(checkpoint, files, LABELS)
    scale = float(checkpoint.model.scale)
    np.testing.assert_allclose(scores.log_probs, scale * seen @ spoken.T, atol=1e-4)
    assert heard[-1] == 11 and heard == sorted(heard)
    assert scores.tokens.tolist() == [17] * 11 and not scores.failed and not scorer.notes
    second = DualEncoder(checkpoint, scale=7.0, batch_size=64)
    reversed_scores = second.score(inputs(files[::-1]), LABELS)
    np.testing.assert_allclose(reversed_scores.log_probs[::-1], 7 * seen @ spoken.T, atol=1e-4)
    assert second.identity != scorer.identity


def test_an_ensemble_is_the_mean_of_unit_vectors(checkpoint, files):
    texts = [*LABELS, "dots", "a dot"]
    scores = DualEncoder(checkpoint, scale=1.0).score(inputs(files), [texts[:2], texts[2:]])
    seen, spoken = naive(checkpoint, files, texts)
    means = np.stack([spoken[:2].mean(0), spoken[2:].mean(0)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(scores.log_probs, seen @ means.T, atol=1e-5)


def test_a_run_outlives_broken_images(checkpoint, files):
    Path(files[2]).write_bytes(b"")
    Path(files[7]).write_bytes(BROKEN["7 bytes not processed"])
    Path(files[9]).unlink()
    scorer = DualEncoder(checkpoint, scale=0, batch_size=3)
    scores = scorer.score(inputs(files), LABELS)
    assert set(scores.failed) == {2, 7, 9}
    assert all(files[row] in reason for row, reason in scores.failed.items())
    readable = [row for row in range(11) if row not in scores.failed]
    assert np.isnan(scores.log_probs[[2, 7, 9]]).all()
    good = DualEncoder(checkpoint, scale=0).score(inputs(files[row] for row in readable), LABELS)
    np.testing.assert_allclose(scores.log_probs[readable], good.log_probs, atol=1e-4)
    (note,) = scorer.notes
    assert note.startswith("3 of 11 images could not be read") and files[2] in note


def test_sentences(checkpoint, files, tmp_path, refuses):
    scorer, long = DualEncoder(checkpoint, scale=0), ["dots", "stripes " * 40]
    gone = inputs([tmp_path / "a.png", tmp_path / "b.png"])
    assert f"no image of 2 can be read: {tmp_path}/a.png" in str(
        refuses(scorer.score, gone, LABELS)
    )
    assert "most 40 tokens; got a statement of 320" in str(
        refuses(scorer.score, inputs(files), long)
    )
    directory = write(tmp_path / "clip", CLIP, byte_level())
    (directory / "preprocessor_config.json").write_text('{"size": 32, "crop_size": 24}')
    scorer = DualEncoder(load_checkpoint(directory), scale=0)
    assert "(24, 24)" in str(refuses(scorer.score, inputs(files), LABELS))


@pytest.mark.parametrize(
    ("size", "resized"), [((155, 100), (49, 32)), ((100, 155), (32, 49)), ((333, 333), (32, 32))]
)
def test_the_longer_side_is_cut_to_whole_pixels_not_rounded(size, resized):
    assert preprocessing._resized(size, 32) == resized
    assert preprocessing._resized(size, (20, 30)) == (30, 20)
