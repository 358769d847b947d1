"""Image tasks: classes bound by name, rows that refer to images, wrong folders by sentence."""

import csv
import io
import json
import struct
import zlib
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from rendering import images, label_texts, rendered
from tfds_folders import write_folder

from batch_calibration.scores import context_id
from batch_calibration.scoring.data import files
from batch_calibration.scoring.data.images import EmbeddedImage, ImageFile
from batch_calibration.scoring.data.images import image_splits as splits
from batch_calibration.scoring.data.images import read_images as read
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.tfds_folder import ImageRecord
from batch_calibration.scoring.embedded import images as drawn
from batch_calibration.scoring.tasks import TASKS
from experiments.pretrain import captions

IMAGES = [task for task in TASKS.values() if task.is_image]


def png(color=(200, 10, 10), size=(6, 5)):
    """A PNG file of one color, written here from its definition: no encoder is trusted."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    width, height = size
    lines = b"".join(b"\0" + bytes(color) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    return start + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def fill(root, classes, per_class=5):
    """A folder of each class with images in it."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            (root / name / f"{i}.png").write_bytes(png((number, i, 0)))
    return root


# --- the tasks


@pytest.mark.parametrize("task", IMAGES, ids=lambda t: t.name)
def test_an_image_task_is_consistent(task):
    assert task.fields == ("image",) and task.statement == task.statements[0]
    assert len(set(task.statements)) == len(task.statements)
    assert all(form.count("{label}") == 1 for form in task.statements)
    assert len(set(task.statement_words.values())) == len(task.label_names)
    bound = files.labels_by_name(task)
    for label, name in enumerate(task.label_names):
        for text in (name, task.statement_words[name]):
            assert bound[files.plain_name(text)] == label


def test_sizes_words_and_statements_of_the_six():
    expected = """
        svhn 10 This is a photo of a 0
        eurosat 10 a centered satellite photo of Annual Crop Land.
        ucf101 101 a photo of a person doing Apply Eye Makeup.
        clevr 8 This is a photo of 3 objects
        aircraft 100 a photo of a 707-320, a type of aircraft.
        dtd 47 banded texture.
    """
    for task, line in zip(IMAGES, expected.strip().splitlines(), strict=True):
        words = task.statement_words[task.label_names[0]]
        text = task.statement.replace("{label}", words)
        assert f"{task.name} {len(task.label_names)} {text}" == line.strip()
    assert len(TASKS["ucf101"].statements) == 48 and len(TASKS["dtd"].statements) == 9
    assert TASKS["ucf101"].statement_words["YoYo"] == "Yo Yo"
    assert TASKS["clevr"].label_names[-1] == "10"


# --- folders


@pytest.mark.parametrize("where", ["", "eurosat", "extra_eurosat", "eurosat/images", "images"])
def test_class_folders_bind_by_name(tmp_path, where):
    spellings = ["Annual Crop Land", "forest", "herbaceous_vegetation", "SeaLake", "Sea or Lake"]
    fill(tmp_path / where, spellings[:4])
    rows = read(TASKS["eurosat"], str(tmp_path), "all")
    folders = [ref.path.parent.name for ref in rows.images]
    labels = dict(zip(folders, rows.labels, strict=True))
    assert labels == {"Annual Crop Land": 0, "forest": 1, "herbaceous_vegetation": 2, "SeaLake": 9}
    assert rows.present == (0, 1, 2, 9)
    assert rows.images[0].read()[:4] == b"\x89PNG"


def test_a_folder_without_splits_keeps_a_fifth_of_each_class_for_train(tmp_path):
    fill(tmp_path, ["banded", "dotted", "lined"], per_class=11)
    (tmp_path / "banded" / "notes.txt").write_text("no image")
    sizes = {"all": 11, "train": 2, "test": 9}
    read_rows = {split: read(TASKS["dtd"], str(tmp_path), split) for split in sizes}
    for split, size in sizes.items():
        assert sorted(Counter(read_rows[split].labels).values()) == [size] * 3
    train, test = (set(read_rows[s].images) for s in ("train", "test"))
    assert not train & test and len(train | test) == 33
    reread = read(TASKS["dtd"], str(tmp_path), "test")
    assert reread == read_rows["test"]
    kept = "one image in 5 of each class is kept for train (6), the others are test (27)"
    assert kept in reread.notes[1]
    assert "1 files in" in reread.notes[0] and "notes.txt" in reread.notes[0]
    assert len(set(read(TASKS["dtd"], str(tmp_path), "test", 9).labels)) == 3
    assert not any(str(tmp_path) in name for name in reread.ids)


def test_folders_of_splits(tmp_path, refuses):
    fill(tmp_path / "svhn" / "train", "0123")
    fill(tmp_path / "svhn" / "val", "01", per_class=2)
    task = TASKS["svhn"]
    assert splits(task, str(tmp_path)) == ("train", "validation")
    test = read(task, str(tmp_path), "test")
    assert test.split == "validation" and Counter(test.labels) == {0: 2, 1: 2}
    assert "no split of svhn named 'all'" in str(refuses(read, task, str(tmp_path), "all"))


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (["banded", "doted"], "did you mean 'dotted'"),
        (["banded"], "of class 'banded'"),
        (["cats", "dogs"], "no images of task dtd"),
    ],
)
def test_bad_folders(tmp_path, folders, words, refuses):
    fill(tmp_path, folders)
    assert words in str(refuses(read, TASKS["dtd"], str(tmp_path), "test"))


def test_images_that_are_not_there(tmp_path, refuses):
    assert refuses(read, TASKS["dtd"], f"{tmp_path}/none", "test").where == f"data {tmp_path}/none"
    assert refuses(read, TASKS["dtd"], "", "test").where == "data"
    assert refuses(ImageFile(tmp_path / "gone.png").read).where == f"{tmp_path}/gone.png"
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(2**28 + 1)
    assert "at most 256 MiB" in str(refuses(ImageFile(huge).read))
    fill(tmp_path / "few", ["banded", "dotted"], per_class=3)
    assert "split train: expected" in str(
        refuses(read, TASKS["dtd"], str(tmp_path / "few"), "train")
    )


def test_a_name_with_the_signs_of_a_record_is_still_a_file(tmp_path):
    path = tmp_path / "a#test[3]"
    path.write_bytes(b"a image")
    assert ImageFile(path).read() == b"a image"


# --- tables


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_tables_of_paths_and_labels(tmp_path):
    folder = tmp_path / "dtd"
    rows = [("path", "label"), ("a.png", "polka_dotted"), ("b.png", "Banded")]
    write_table(folder / "test.csv", rows)
    for name in ("a.png", "b.png", "c.png"):
        (folder / name).write_bytes(png())
    lines = [{"file": "c.png", "label": "lined"}, {"file": "b.png", "label": -1}]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    task = TASKS["dtd"]
    assert splits(task, str(tmp_path)) == ("test", "train")
    test, train = (read(task, str(tmp_path), split) for split in ("test", "train"))
    spotted, lined = (task.label_names.index(name) for name in ("polka-dotted", "lined"))
    labels = dict(zip(test.ids, test.labels, strict=True))
    assert labels == {"dtd/test/a.png": spotted, "dtd/test/b.png": 0}
    assert sorted(train.labels) == [-1, lined]


def test_bad_tables(tmp_path, refuses):
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "a.png").write_bytes(png())
    for words, head, *rows in (
        ("line 3: expected an image", "path", ("a.png", "0"), ("gone.png", "1")),
        ("line 2: task svhn has no class 'zero'", "path", ("a.png", "zero")),
        ("got ['photo', 'label']", "photo", ("a.png", "0")),
    ):
        write_table(tmp_path / "svhn" / "test.csv", [(head, "label"), *rows])
        assert words in str(refuses(read, TASKS["svhn"], str(tmp_path), "test"))


# --- task files

TASK_FILE = """
kind = "image"
name = "leaves"
label_names = ["oak", "red elm"]
statements = ["a photo of a {label} leaf.", "{label}"]
folder = "leaves"
"""


def test_a_task_file_of_ones_own_images(tmp_path):
    fill(tmp_path / "leaves", ["oak", "red_elm"])
    path = tmp_path / "leaves.toml"
    path.write_text(TASK_FILE)
    task = load_task(str(path))
    assert Counter(read(task, "", "test").labels) == {0: 4, 1: 4}
    context = planned(task=str(path), labeled_per_class=1)
    assert label_texts(context) == ["a photo of a oak leaf.", "a photo of a red elm leaf."]
    assert context.context["data"] == "task file" and context.blocks["labeled"].size == 2
    rows = [("path", "kind"), ("leaves/oak/0.png", 0), ("leaves/red_elm/1.png", 1)]
    write_table(tmp_path / "t.csv", rows)
    words = 'statement_words = {oak = "oak tree\'s", "red elm" = "elm\'s"}\n'
    numbers = 'labels_are = "numbers"\nlabel_column = "kind"\nfiles = {test = "t.csv"}'
    path.write_text(TASK_FILE.replace('folder = "leaves"', words + numbers))
    task = load_task(str(path))
    assert sorted(read(task, "", "test").labels) == [0, 1]
    assert task.statement_words["oak"] == "oak tree's"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"image"', '"photo"', ", kind: expected 'image'; got 'photo'"),
        ('folder = "leaves"', "", "folder or [files]"),
        ('folder = "leaves"', 'fields = ["x"]', "named 'fields'"),
        ('statements = ["a photo of a {label} leaf.", "{label}"]', "", "needs statements"),
        ("of a {label} leaf", "of a leaf", "'a photo of a leaf.'"),
        ('["oak", "red elm"]', '["red-elm", "red elm"]', "'red-elm' and 'red elm'"),
        ('folder = "leaves"', 'folder = "none"', "got no folder"),
    ],
)
def test_bad_task_files(tmp_path, old, new, words, refuses):
    assert old in TASK_FILE
    fill(tmp_path / "leaves", ["oak", "red elm"])
    (tmp_path / "leaves.toml").write_text(TASK_FILE.replace(old, new))
    error = refuses(lambda: read(load_task(str(tmp_path / "leaves.toml")), "", "test"))
    assert words in str(error)


# --- TFDS folders


@pytest.fixture
def tfds():
    why = "a TFDS folder needs tensorflow_datasets"
    return pytest.importorskip("tensorflow_datasets", reason=why)


def examples(count, label):
    return [{"image": io.BytesIO(png((i, 0, 0))), "label": label(i)} for i in range(count)]


def test_a_tfds_folder_is_read_record_by_record(tfds, tmp_path, refuses):
    task = TASKS["dtd"]
    backwards = tfds.features.ClassLabel(names=list(reversed(task.label_names)))
    features = {"image": tfds.features.Image(), "label": backwards}
    train, test = examples(6, lambda i: "banded"), examples(5, task.label_names.__getitem__)
    folder = write_folder(tmp_path, "dtd", {"train": train, "test": test}, features)
    rows = read(task, str(tmp_path), "test")
    # Bound by name: this copy counts its classes backwards.
    assert rows.labels == (0, 1, 2, 3, 4)
    assert str(rows.images[3]) == f"{folder}#test[3]" and rows.ids[3] == "dtd/test/3"
    assert rows.images[3].read() == png((3, 0, 0))
    assert read(task, str(tmp_path), "test", 2).labels == (0, 1)
    assert splits(task, str(tmp_path)) == ("train", "test")
    assert f"{folder}#test[5]: " in str(refuses(ImageRecord(folder, "test", 5).read))


def test_one_split_of_tfds_is_dealt(tfds, tmp_path):
    task = TASKS["eurosat"]
    labels = tfds.features.ClassLabel(names=list(task.label_names))
    features = {"image": tfds.features.Image(), "label": labels}
    write_folder(tmp_path, "eurosat/rgb", {"train": examples(20, lambda i: i % 10)}, features)
    train, test = (read(task, str(tmp_path), split) for split in ("train", "test"))
    assert [str(ref)[-4:] for ref in train.images] == ["n[0]", "n[1]", "n[2]", "n[3]"]
    assert len(test.images) == 16 and "has only the split 'train'" in test.notes[0]


def test_clevrs_label_is_the_number_of_objects(tfds, tmp_path):
    objects = tfds.features.Sequence({"size": tfds.features.ClassLabel(names=["a"])})
    features = {"image": tfds.features.Image(), "objects": objects}
    clevr_rows = [{"image": io.BytesIO(png()), "objects": [{"size": "a"}] * n} for n in (3, 10, 5)]
    hidden = [{"image": io.BytesIO(png()), "objects": []}]
    write_folder(tmp_path, "clevr", {"validation": clevr_rows, "test": hidden}, features)
    rows = read(TASKS["clevr"], str(tmp_path), "test")
    assert rows.split == "validation" and rows.labels == (0, 7, 2)


def test_tfds_folders_that_cannot_be_read(tfds, tmp_path, refuses):
    task = TASKS["dtd"]
    features = {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=["x", "y"])}
    write_folder(tmp_path / "a", "dtd", {"test": examples(2, lambda i: i)}, features)
    assert "no class 'x'" in str(refuses(read, task, str(tmp_path / "a"), "test"))
    features = {"text": tfds.features.Text()}
    write_folder(tmp_path / "b", "dtd", {"test": [{"text": "x"}]}, features)
    assert "of task dtd; got only text" in str(refuses(read, task, str(tmp_path / "b"), "test"))
    info_path = tmp_path / "a" / "dtd" / "3.0.1" / "dataset_info.json"
    info_path.write_text(info_path.read_text().replace("array_record", "tfrecord"))
    (tmp_path / "a").rename(tmp_path / "c")
    assert "got tfrecord" in str(refuses(read, task, str(tmp_path / "c"), "test"))


# --- contexts


def planned(**values):
    return rendered("vision.py", **{"task": "svhn", **values})


@pytest.mark.slow
def test_real_images(shared, refuses):
    data = str(shared / "data" / "extra_dtd10")
    default = planned(task="dtd", data=data, labeled_per_class=128)
    sizes = {name: block.size for name, block in default.blocks.items()}
    assert sizes == {"test": 960, "labeled": 240}
    assert len(default.label_names) == 47 == len(label_texts(default))
    assert "37 of 47 classes have no image" in default.notes[1]
    assert "classes='present' leaves them out" in default.notes[1]
    assert len(default.context["absent"]) == 37
    few = planned(task="dtd", data=data, classes="present")
    assert few.label_names == TASKS["dtd"].label_names[:10]
    assert few.context["options"] == {"classes": "present"}
    assert context_id(few.context) != context_id(default.context)
    all_rows = planned(task="dtd", data=data, split="all", labeled_per_class=0)
    assert set(all_rows.blocks) == {"test"}
    lines = (shared / "data" / "extra_dtd10" / "labels.jsonl").read_text().splitlines()
    expected = {(record["file"], record["label"]) for record in map(json.loads, lines)}
    block = all_rows.blocks["test"]
    where = [str(record).rsplit("extra_dtd10/", 1)[1] for record in images(block)]
    assert set(zip(where, block.labels, strict=True)) == expected and len(where) == 1200
    with Image.open(io.BytesIO(images(all_rows.blocks["test"])[0].read())) as image:
        assert min(image.size) == 256
    overlap = {"data": data, "split": "all", "labeled_per_class": 128}
    assert "other images in 'train' than in 'all'" in str(refuses(planned, task="dtd", **overlap))


def test_statements_are_chosen_by_config_template(refuses):
    def texts(template):
        context = planned(data="mini", template=template)
        return label_texts(context)[:2], len(context.label_texts[0])

    assert texts("") == (["This is a photo of a 0", "This is a photo of a 1"], 1)
    assert texts("3")[0] == ["a photo of the digit 0.", "a photo of the digit 1."]
    assert texts("the {label}")[0] == ["the 0", "the 1"]
    first, forms = texts("ensemble")
    assert first == ["This is a photo of a 0", 'a photo of the number: "0".']
    assert forms == len(TASKS["svhn"].statements)
    assert refuses(texts, "9").got == "9"


def test_a_replaced_image_makes_the_block_stale(tmp_path):
    fill(tmp_path, "0123456789")
    before = planned(data=str(tmp_path))
    images(before.blocks["test"])[0].path.write_bytes(png(size=(7, 7)))
    after = planned(data=str(tmp_path))
    assert context_id(before.context) == context_id(after.context)
    assert before.blocks["test"].spec != after.blocks["test"].spec


def test_without_a_train_split_there_is_no_labeled_set(tmp_path):
    fill(tmp_path / "test", "01")
    context = planned(data=str(tmp_path), labeled_per_class=1)
    assert set(context.blocks) == {"test"} and "so bcl is not computed" in context.notes[0]
    assert "bcl" not in " ".join(planned(data=str(tmp_path)).notes)


def test_settings_that_do_not_fit_images(refuses):
    settings = {"scorer": "causal_lm", "shots": 1, "over_long": "drop_shots", "classes": "few"}
    for name, value in settings.items():
        assert refuses(planned, data="mini", **{name: value}).key == name


# --- drawn images


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn.TASKS)
def test_drawn_images_are_the_same_every_time_and_no_two_alike(name):
    seen = set()
    for split in drawn.SIZES:
        for reference, _ in drawn.image_rows(name, split, 60):
            image = drawn.draw_image(reference)
            assert image.shape == (48, 48, 3) and image.dtype == np.uint8
            assert np.array_equal(image, drawn.draw_image(reference))
            seen.add(image.tobytes())
    assert len(seen) == 120


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn.TASKS)
def test_drawn_rows_are_the_real_tasks_rows(name):
    task, family = TASKS[name], drawn.TASKS[name]
    rows = read(task, "mini", "test")
    assert len(rows.images) == 1000 and rows.split == "test"
    assert {task.label_names[i] for i in rows.present} == set(family.classes)
    counts = Counter(rows.labels)
    assert set(counts) == set(rows.present) and min(counts.values()) > 0.6 * 1000 / len(counts)
    with Image.open(io.BytesIO(rows.images[0].read())) as image:
        assert np.array_equal(np.asarray(image), drawn.draw_image(rows.images[0].name))
    k = len(family.classes)
    caption = captions.CAPTIONS[name]
    assert len(caption.frequency) == len(caption.words) == k
    assert sum(caption.frequency) == pytest.approx(1)


def test_counted_shapes_are_as_many_as_said():
    """Each object's pixels touch, and no other's: count them on a plain table."""
    random = np.random.default_rng(0)
    for count in range(3, 11):
        pixels, _ = drawn.shapes(np.array([count - 3] * 5), random)
        for image in pixels:
            gray = np.ptp(image, axis=-1) > 0.1
            cells = gray.reshape(4, 12, 4, 12).any(axis=(1, 3))
            # A gray object hides from this measure.
            assert cells.sum() <= count
    pixels, _ = drawn.shapes(np.array([7] * 50), random)
    cells = (np.ptp(pixels, axis=-1) > 0.1).reshape(50, 4, 12, 4, 12).any(axis=(2, 4))
    assert Counter(cells.sum(axis=(1, 2)).tolist()).most_common(1)[0][0] == 10


@pytest.mark.parametrize(
    "reference",
    ["mini:svhn/test/1000", "mini:svhn/dev/0", "mini:trec/test/0", "mini:svhn/test/x", "mini:"],
)
def test_references_to_nothing(reference, refuses):
    assert f"{reference}: " in str(refuses(EmbeddedImage(reference).read))


@pytest.mark.slow
def test_training_pairs_repeat_by_seed_and_lean_to_common_words():
    first = captions.caption_batch(np.random.default_rng(3), 64)
    repeated = captions.caption_batch(np.random.default_rng(3), 64)
    assert np.array_equal(first[0], repeated[0]) and first[1] == repeated[1]
    assert first[0].shape == (64, 48, 48, 3) and first[0].dtype == np.uint8
    assert not any("{" in text for text in first[1])
    _, texts = captions.caption_batch(np.random.default_rng(0), 4000, ("dtd",))
    counts = Counter(w for text in texts for w in ("striped", "lined") if w in text)
    assert counts["striped"] > 3 * counts["lined"]
    _, texts = captions.caption_batch(np.random.default_rng(0), 4000, ("svhn",))
    counts = Counter(text for text in texts if text.startswith("This is a photo of a "))
    assert counts["This is a photo of a 1"] > 4 * counts["This is a photo of a 9"]


@pytest.mark.slow
def test_captions_hold_the_tasks_own_statements():
    for name, family in drawn.TASKS.items():
        phrases = {phrase.text for phrase in captions.CAPTIONS[name].phrases}
        assert TASKS[name].statement in phrases
        first_words = {first_words[0] for first_words in captions.CAPTIONS[name].words}
        assert first_words == {TASKS[name].statement_words[label] for label in family.classes}
    assert isinstance(captions.DIGITS, captions.Caption)


def test_rows_hold_references_only(tmp_path):
    fill(tmp_path, "01", per_class=30)
    rows = read(TASKS["svhn"], str(tmp_path), "all")
    assert all(isinstance(ref, ImageFile) for ref in rows.images)
    first = rows.images[0]
    assert first.signature() == str(len(first.read()))
