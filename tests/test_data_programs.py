"""The programs about data, as a person types them: prepare, look, and score a task of one's own."""

import csv

import pytest

from batch_calibration.scores import load


@pytest.fixture(scope="module")
def prepared(program, shared, tmp_path_factory):
    """The shared rows as TFDS folders."""
    pytest.importorskip("tensorflow_datasets", reason="a TFDS folder needs tensorflow_datasets")
    out = tmp_path_factory.mktemp("prepared")
    stdout = program("prepare_data", f"--source={shared / 'data'}", f"--data_dir={out}").stdout
    assert f"cb: {out}/super_glue/cb/1.0.2: train 250, validation 56\n" in stdout
    assert "mr: TFDS has no such data set" in stdout
    return out


def test_all_thirteen_tasks_and_what_differs_from_the_paper(program, prepared):
    stdout = program("data", "--all", f"--data_dir={prepared}").stdout
    assert stdout.endswith(
        "11 tasks have as many test rows as the paper's, 2 have not:\n"
        "  qqp: 7,999 test rows, NOT the paper's 40,430 (split validation_proxy serves as "
        "validation)\n"
        "  anli_r3: 1,198 test rows, NOT the paper's 1,200\n"
    )
    assert stdout.count("test rows, as many as the paper's") == 11
    assert "mr: no rows of it in" in stdout
    assert stdout.count("  example, ") == 15


def test_files_and_tfds_folders_have_the_same_content(program, prepared, shared):
    def told(data):
        printed = program("data", "--task=cb", f"--data_dir={data}").stdout.splitlines()
        return printed[0], printed[1:]

    (where, folders), (path, files) = told(prepared), told(shared / "data")
    assert where == f"cb: TFDS folder {prepared}/super_glue/cb/1.0.2"
    assert path == f"cb: files in {shared / 'data' / 'cb'}"
    assert folders == files
    assert folders[0] == "  labels in order: entailment, contradiction, neutral"
    assert "validation: 56 rows (entailment 23, contradiction 28, neutral 5), content " in files[2]


def test_preparing_again_changes_nothing(program, prepared, shared):
    stdout = program("prepare_data", f"--source={shared / 'data'}", f"--data_dir={prepared}").stdout
    assert stdout.count("(was there)") == 15


def write_tickets(folder):
    rows = [("The invoice is wrong.", "billing"), ("It stops at once.", "bug")] * 6
    for split in ("train", "validation"):
        with (folder / f"{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "kind"), *rows])
    path = folder / "tickets.toml"
    path.write_text(
        'name = "tickets"\ntitle = "Tickets"\nfields = ["text"]\nlabel_names = ["billing", "bug"]\n'
        'labels_are = "names"\nlabel_column = "kind"\ntemplate = "Review: {text}\\nSentiment: '
        '{label}"\nverbalizer = {billing = "positive", bug = "negative"}\n'
        'files = {train = "train.csv", validation = "validation.csv"}\n'
    )
    return path


def test_a_task_of_ones_own_from_csv_to_a_table(program, tmp_path):
    path = write_tickets(tmp_path)
    stdout = program("data", f"--task={path}").stdout
    assert "validation: 12 rows (billing 6, bug 6), content " in stdout
    assert "    | Review: The invoice is wrong.\n    | Sentiment: positive\n" in stdout
    workdir = tmp_path / "w"
    flags = f"--config.tasks=('{path}',)", "--config.labeled_per_class=2", f"--workdir={workdir}"
    program("score", "--config=configs/mini.py:smoke", *flags)
    (table,) = [load(path) for path in (workdir / "scores").iterdir()]
    assert table.context["task"] == "tickets" and table.label_names == ("billing", "bug")
    assert len(table.blocks["test"].row_ids) == 12
    program("calibrate", f"--workdir={workdir}")
    assert "tickets" in program("tables", f"--workdir={workdir}").stdout


WRONG = [
    ("data", "--data_dir=mini", "give --task=NAME or --all, and not both"),
    ("data", "--task=cb --all", "give --task=NAME or --all, and not both"),
    ("data", "--task=cb", "expected a folder of rows or 'mini'; got nothing"),
    ("data", "--task=mnl --data_dir=mini", "no task named 'mnl'; did you mean 'mnli'"),
    ("data", "--task=cb --data_dir={tmp}", "no rows of task cb there; looked for cb/"),
    ("prepare_data", "--source=nowhere --data_dir={tmp}", "nowhere: no such folder"),
    ("prepare_data", "--source={tmp} --data_dir={tmp}/D", "no files of any task"),
]


@pytest.mark.parametrize(("name", "flags", "sentence"), WRONG)
def test_wrong_input_gets_one_sentence_and_exit_code_2(program, tmp_path, name, flags, sentence):
    process = program(name, *flags.format(tmp=tmp_path).split(), code=2)
    assert sentence in process.stderr and "Traceback" not in process.stderr
    assert process.stderr.count("error: ") == 1
