"""Rows to label as a table: chosen at the console, filled by a person, read back by their ids."""

import csv
import json

import numpy as np
import pytest

from batch_calibration import recommend, rows_to_label
from batch_calibration.cli.labeling import plain_id

NAMES = ("no", "yes")
RANDOM = np.random.default_rng(3)
RIGHT = RANDOM.integers(0, 2, 90)
SCORES = (RANDOM.normal(size=(90, 2)) + 2.5 * np.eye(2)[RIGHT] - [5.0, 4.0]).round(4)
IDS = [f"{i:03}" for i in range(90)]


def write_table(path, scores=SCORES, **columns):
    """Writes scores as CSV, with more columns before them."""
    names = [*columns, *NAMES]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns.values(), *scores.T, strict=True))


def read_lines(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path, right_of, most=1000, delimiter=",", encoding="utf-8", write=str):
    """Fills the labels of the first rows, and writes the table as a spreadsheet may."""
    lines = read_lines(path)
    for line in lines[:most]:
        line["label"] = right_of(line)
        line["row"] = write(line["row"])
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, lines[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(lines)


def by_id(line):
    return NAMES[RIGHT[int(line["row"])]]


def advice(program, *words):
    return [json.loads(line) for line in program("recommend", *words, "--json").stdout.splitlines()]


def shares(found):
    return pytest.approx([*found.options["target_prior"]], abs=1e-6)


@pytest.mark.parametrize(
    "style",
    [
        {},
        {"delimiter": ";", "encoding": "utf-8-sig"},
        {"delimiter": "\t", "write": lambda row_id: row_id.lstrip("0") or "0"},
        {"write": lambda row_id: f"{int(row_id)}.0", "right_of": lambda line: f" {by_id(line)} "},
        {"right_of": lambda line: by_id(line).upper()},
        {"right_of": lambda line: f"{RIGHT[int(line['row'])]}"},
    ],
    ids=["as written", "semicolons", "tabs, no zeros", "floats, spaces", "capitals", "indices"],
)
def test_filled_labels_advise_as_arrays_do(style, program, tmp_path):
    write_table(tmp_path / "a.csv", id=IDS)
    flags = f"{tmp_path}/a.csv", "--ids=id"
    said = " ".join(program("label", *flags, f"--output={tmp_path}/b.csv").stdout.split())
    assert "32 rows to label, spread evenly over answers and doubt in 90 rows" in said
    assert "; 0 of 90 rows are labeled already. 16, 32, 64 labels would leave stand" in said
    command = f"batch-calibration recommend {flags[0]} --ids=id --labeled={tmp_path}/b.csv"
    assert said.endswith(f"Write labels (no, yes) into the column 'label', then run: {command}")
    rows = rows_to_label(SCORES, 32)
    lines = read_lines(tmp_path / "b.csv")
    assert sorted(line["row"] for line in lines) == [IDS[row] for row in rows]
    assert {*lines[0]} == {"row", "label"} and not any(line["label"] for line in lines)
    fill(tmp_path / "b.csv", **{"right_of": by_id, **style})
    (found,) = advice(program, *flags, f"--labeled={tmp_path}/b.csv")
    scores = SCORES.astype(np.float32)
    expected = recommend(scores, labeled=scores[rows], labels=RIGHT[rows], label_names=NAMES)
    assert [*found["options"]["target_prior"]] == shares(expected)
    assert found["measured"]["bc"]["value"] == pytest.approx(expected.measured["bc"].value)
    assert found["source"] == "labeled"


def test_a_half_filled_table_is_counted_and_continued(program, tmp_path):
    write_table(tmp_path / "a.csv", id=IDS)
    flags = f"{tmp_path}/a.csv", "--ids=id"
    program("label", *flags, f"--output={tmp_path}/b.csv")
    fill(tmp_path / "b.csv", by_id, most=20)
    labeled = f"--labeled={tmp_path}/b.csv"
    done = program("recommend", *flags, labeled)
    assert "20 of 32 rows of" in done.stderr
    assert "on 20 labeled rows" in " ".join(done.stdout.split())
    done = program("label", *flags, labeled, "--n=9", f"--output={tmp_path}/c.csv")
    said = " ".join(done.stdout.split())
    assert "9 rows to label" in said and "20 of 90 rows are labeled already" in said
    lines = read_lines(tmp_path / "c.csv")
    old = {line["row"]: line["label"] for line in read_lines(tmp_path / "b.csv") if line["label"]}
    assert {line["row"]: line["label"] for line in lines if line["label"]} == old
    assert len({line["row"] for line in lines}) == len(lines) == 29
    is_known = np.isin(IDS, [*old])
    chosen = [IDS.index(line["row"]) for line in lines if not line["label"]]
    assert sorted(chosen) == rows_to_label(SCORES, 9, is_labeled=is_known).tolist()


def test_right_labels_of_the_scores_are_not_chosen_again(program, tmp_path):
    gold = [NAMES[right] if i < 70 else "" for i, right in enumerate(RIGHT)]
    write_table(tmp_path / "a.csv", answer=gold)
    flags = f"{tmp_path}/a.csv", "--gold=answer", f"--output={tmp_path}/b.csv"
    said = " ".join(program("label", *flags).stdout.split())
    assert "20 rows to label, all that have no label (--n=32); 70 of 90 rows are lab" in said
    assert {int(line["row"]) for line in read_lines(tmp_path / "b.csv")} == {*range(70, 90)}


def test_prompts_of_the_same_rows_share_their_labels(program, tmp_path):
    scores = [SCORES + RANDOM.normal(size=SCORES.shape) for _ in range(3)]
    for place, of_prompt in enumerate(scores):
        write_table(tmp_path / f"p{place}.csv", of_prompt, id=IDS)
    flags = f"{tmp_path}/p*.csv", "--ids=id", "--task=mine"
    program("label", *flags, "--n=24", f"--output={tmp_path}/b.csv")
    rows = rows_to_label(np.stack(scores), 24)
    lines = read_lines(tmp_path / "b.csv")
    assert sorted(line["row"] for line in lines) == [IDS[row] for row in rows]
    assert {*lines[0]} == {"row", "label"}
    fill(tmp_path / "b.csv", by_id)
    found = advice(program, *flags, f"--labeled={tmp_path}/b.csv")
    assert len(found) == 3
    for of_context, of_prompt in zip(found, scores, strict=True):
        assert "on 24 labeled rows" in of_context["reason"][0]
        of_bc = of_prompt - of_prompt.mean(axis=0)
        right = (of_bc.argmax(axis=1) == RIGHT)[rows].mean()
        assert of_context["measured"]["bc"]["value"] == pytest.approx(right, abs=0.1)


def test_contexts_take_their_own_rows_by_name(program, tmp_path):
    for place, name in enumerate(("art", "law", "sea")):
        own = slice(30 * place, 30 * place + 30)
        write_table(tmp_path / f"{name}.csv", SCORES[own])
    files = [f"{tmp_path}/{name}.csv" for name in ("art", "law", "sea")]
    program("label", *files, "--n=60", f"--output={tmp_path}/b.csv")
    lines = read_lines(tmp_path / "b.csv")
    starts = {"art": 0, "law": 30, "sea": 60}
    assert [*lines[0]] == ["row", "context", "label"] and {li["context"] for li in lines} == {
        *starts
    }

    def right(line):
        return NAMES[RIGHT[starts[line["context"]] + int(line["row"])]]

    fill(tmp_path / "b.csv", right)
    found = advice(program, *files, f"--labeled={tmp_path}/b.csv")
    for of_context, (name, start) in zip(found, starts.items(), strict=True):
        rows = sorted(int(line["row"]) for line in lines if line["context"] == name)
        scores = SCORES[start : start + 30].astype(np.float32)
        gold = RIGHT[start : start + 30][rows]
        expected = recommend(scores, labeled=scores[rows], labels=gold, label_names=NAMES)
        assert of_context["reason"] == [*expected.reason]
    # A context alone leaves the rows of the others out.
    done = program("recommend", files[1], f"--labeled={tmp_path}/b.csv", "--json")
    assert json.loads(done.stdout)["reason"] == found[1]["reason"]
    assert "of 60 rows of" in done.stderr


def test_texts_are_shown_and_answers_are_not(program, tmp_path):
    lines = []
    for i, row in enumerate(SCORES.tolist()):
        texts = {"row": f"=Is it {i}?", "model": "m", "said": NAMES[i % 2], "length": i + 0.0}
        lines.append(json.dumps({**texts, **dict(zip(NAMES, row, strict=True))}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    program("label", f"{tmp_path}/a.jsonl", "--labels=no,yes", f"--output={tmp_path}/b.csv")
    rows = read_lines(tmp_path / "b.csv")
    assert [*rows[0]] == ["row", "row_", "label"]
    assert all(line["row_"] == f"'=Is it {line['row']}?" for line in rows)
    fill(tmp_path / "b.csv", by_id, most=16)
    flags = f"{tmp_path}/a.jsonl", "--labels=no,yes", f"--labeled={tmp_path}/b.csv"
    assert "on 16 labeled rows" in " ".join(program("recommend", *flags).stdout.split())


def test_texts_of_a_log_are_those_of_its_documents(program, tmp_path):
    program("demo", f"--output={tmp_path}")
    lines = []
    for line in (tmp_path / "demo_samples.jsonl").read_text().splitlines():
        lines.insert(0, {**json.loads(line), "target": ""})
    path = tmp_path / "samples_x.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    program("label", str(path), f"--output={tmp_path}/b.csv")
    texts = {str(line["doc_id"]): line["doc"]["text"] for line in lines}
    rows = read_lines(tmp_path / "b.csv")
    assert len(rows) == 32 and all(line["text"] == texts[line["row"]] for line in rows)


def test_a_table_with_several_lines_for_a_row_has_texts_of_the_row_or_none(program, tmp_path):
    with (tmp_path / "long.csv").open("w") as file:
        file.write("id,question,choice,logprob\n")
        for i, row in enumerate(SCORES):
            total = np.logaddexp(*row)
            for name, score in zip(NAMES, row, strict=True):
                file.write(f"{i},question {i},{name},{score - total}\n")
    program("label", f"{tmp_path}/long.csv", f"--output={tmp_path}/b.csv")
    for line in read_lines(tmp_path / "b.csv"):
        assert line.get("question", f"question {line['row']}") == f"question {line['row']}"


def test_ids_are_compared_as_spreadsheets_write_them():
    assert [*map(plain_id, ("0", "00", "10.0", "1.5", "'=x", "1e3"))] == [
        "0", "0", "10", "1.5", "=x", "1e3",
    ]  # fmt: skip
