"""Grades on the console: ratings of a judge, words in an order, columns of expected grades."""

import json

import numpy as np
import pytest
import response_forms

from batch_calibration import cli
from batch_calibration.metrics.grades import expected_grade
from batch_calibration.studies import csv_text

WORDS = ("terrible", "bad", "okay", "good", "great")
SHUFFLED = [3, 0, 4, 2, 1]
ORDER = f"--ordinal={','.join(WORDS)}"
random = np.random.default_rng(0)
GOLD = random.integers(0, 5, 200)
SEEN = GOLD + random.normal(0, 0.4, 200)
SCORES = -0.5 * (np.arange(5) - SEEN[:, None]) ** 2 + random.normal(0, 0.3, (200, 5))
SCORES += [0.0, 0.0, 1.5, 0.0, 0.0]
SCORES -= np.log(np.exp(SCORES).sum(axis=1, keepdims=True))


def write(path, names, gold, columns=range(5)):
    head = [*(names[j] for j in columns), "human"]
    cells = [[f"{row[j]:.6f}" for j in columns] for row in SCORES]
    path.write_text(csv_text([head, *([*row, g] for row, g in zip(cells, gold, strict=True))]))
    return str(path)


@pytest.fixture
def words(tmp_path):
    return write(tmp_path / "words.csv", WORDS, [WORDS[g] for g in GOLD], SHUFFLED)


@pytest.fixture
def ratings(tmp_path):
    return write(tmp_path / "ratings.csv", "12345", GOLD + 1)


def grades_of(capsys, *arguments):
    cli.run(["diagnose", *arguments, "--json"])
    line = capsys.readouterr().out
    return json.loads(line, parse_constant=pytest.fail)["grades"]


def rows_below(text, heading):
    """The table below a heading, as rows of words."""
    table = text.partition(f"\n{heading}")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [line.split() for line in table.splitlines()]


def test_words_numbers_and_responses_have_the_same_grades(words, ratings, tmp_path, capsys):
    lines = tmp_path / "ratings.jsonl"
    saved = []
    for row, gold in zip(SCORES.round(6), GOLD.tolist(), strict=True):
        top = dict(zip("12345", np.exp(row).tolist(), strict=True))
        saved.append(json.dumps({"human": gold + 1, **response_forms.chat(**top)}) + "\n")
    lines.write_text("".join(saved))
    found = grades_of(capsys, ratings, "--gold=human")
    assert found["values"] == [1, 2, 3, 4, 5]
    assert found["before"]["kappa"]["value"] < found["after"]["kappa"]["value"]
    assert found == grades_of(capsys, "--ordinal", ratings, "--gold=human")
    of_words = grades_of(capsys, words, "--gold=human", ORDER)
    assert of_words["values"] == [4, 1, 5, 3, 2]
    of_lines = grades_of(capsys, str(lines), "--labels=1,2,3,4,5", "--gold=human")
    for other in (of_words, of_lines):
        for when in ("before", "after"):
            assert other[when]["mean"] == pytest.approx(found[when]["mean"], abs=1e-5)
            for name in ("expected", "predicted", "kappa"):
                assert other[when][name] == pytest.approx(found[when][name], abs=1e-5)


def test_the_tables_begin_with_the_lowest_grade(words, capsys):
    cli.run(["diagnose", words, "--gold=human", ORDER, "--changed=0"])
    out = capsys.readouterr().out
    assert [row[0] for row in rows_below(out, "words: share")[2:]] == [*WORDS]
    grades = rows_below(out, "Grades: mean absolute errors, quadratic kappa [95 % interval]")
    assert [row[:1] for row in grades[2:]] == [["right"], ["as"], ["after"]]
    assert grades[2] == ["right", f"{GOLD.mean() + 1:.2f}"]
    off = np.abs(SCORES.argmax(axis=1) - GOLD).mean()
    mean, _ = expected_grade(SCORES, np.arange(1.0, 6))
    assert grades[3][3:5] == [f"{mean.mean():.2f}", f"{np.abs(mean - GOLD - 1).mean():.2f}"]
    assert grades[3][7] == f"{off:.2f}"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_corrected_scores_have_expected_grades(words, tmp_path, capsys, ending):
    pytest.importorskip("pyarrow")
    source, out = words, tmp_path / f"out.{ending}"
    if ending == "parquet":  # this input and output would be streamed
        source = str(tmp_path / "words.parquet")
        cli.run(["convert", words, "--gold=human", f"--output={source}"])
        cli.run(["calibrate", source, "--gold=gold", ORDER, f"--output={out}"])
    else:
        cli.run(["calibrate", words, "--gold=human", ORDER, f"--output={out}"])
    rows = table_of(out)
    corrected = np.array([[float(row[word]) for word in WORDS] for row in rows])
    written = np.array([[float(r["expected_grade"]), float(r["grade_deviation"])] for r in rows])
    np.testing.assert_allclose(
        written, np.stack(expected_grade(corrected, np.arange(1.0, 6)), axis=1), atol=1e-5
    )


def table_of(path):
    """The rows of a file as dicts."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    head, *rows = (line.split(",") for line in path.read_text().splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_labels_may_be_named_as_the_columns_of_grades(tmp_path, capsys):
    names = ("grade_deviation", "expected_grade", "okay", "good", "great")
    path = write(tmp_path / "s.csv", names, [names[g] for g in GOLD])
    out = tmp_path / "out.csv"
    cli.run(["calibrate", path, "--gold=human", f"--ordinal={','.join(names)}", f"--output={out}"])
    assert "'expected_grade_'" in capsys.readouterr().err
    head = out.read_text().splitlines()[0].split(",")
    assert head[1:6] == [*names] and head[6:11] == [f"p({name})" for name in names]
    assert {"expected_grade_", "grade_deviation_"} <= {*head}


def test_other_labels_have_no_columns_of_grades(tmp_path, capsys):
    path = write(tmp_path / "s.csv", WORDS, [WORDS[g] for g in GOLD])
    cli.run(["calibrate", path, "--gold=human", "--output=-"])
    out = capsys.readouterr()
    assert "grade" not in out.out and "Grades" not in out.err


def test_means_of_grades_are_no_right_labels(ratings, tmp_path, capsys):
    path = write(tmp_path / "means.csv", "12345", ["3.67", *(GOLD[1:] + 1)])
    with pytest.raises(SystemExit):
        cli.run(["diagnose", path, "--gold=human"])
    refusal = capsys.readouterr().err
    assert "got '3.67', which names no label" in refusal and "row 0" in refusal
    whole = write(tmp_path / "whole.csv", "12345", [f"{g + 1}.0" for g in GOLD])
    labels = "--labels=1,2,3,4,5"
    assert grades_of(capsys, whole, labels, "--gold=human") == grades_of(
        capsys, ratings, "--gold=human"
    )
