"""The command `classify`: a file of texts and a model in, predictions out, in one step."""

import csv
import gzip
import json
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from api_server import Reply, first_tokens, running

from batch_calibration import cli
from batch_calibration.scores import load
from batch_calibration.scoring.prompts.rendered import text_digest
from batch_calibration.settings import Settings
from batch_calibration.studies import run_scoring

TEXTS = [
    "a fine film",
    "said \"no\", 'maybe' and\nleft, twice\r\nor so",
    "{text} and {label} and {title}: 100 % of {}",
    "Füße, 映画, \U0001f3ac, \u2028 and \x7f",
    "=SUM(A1) \\n \\ end ",
    "the plot was thin",
    "it 's a charming journey .",
    "dull",
]
GOLD = ["pos", "neg", "", "pos", "neg", "neg", "pos", "neg"]
TITLES = [f"Title no. {number}" for number in range(8)]
LABELS = "--labels=pos=great|good,neg=terrible"
PROMPT = r"--prompt=About {title}\nReview: {text}\nRating:"
TASK = """
name = "byhand"
fields = ["words", "heading"]
label_names = ["pos", "neg"]
labels_are = "names"
label_column = "right"
template = "About {heading}\\nReview: {words}\\nRating: {label}"
verbalizer = { pos = ["great", "good"], neg = "terrible" }
files = { FILES }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with texts.csv, a column for each use, and few.csv with three demonstrations."""
    monkeypatch.chdir(tmp_path)
    columns = {"key": [f"r{n}" for n in range(8)], "text": TEXTS, "title": TITLES, "right": GOLD}
    columns["use"] = [["no", "yes"][n in (0, 1, 7)] for n in range(8)]
    columns["part"] = [["test", "train"][n in (0, 1, 7)] for n in range(8)]
    write(Path("texts.csv"), columns)
    for name, column in columns.items():
        columns[name] = [column[n] for n in (0, 1, 7)]
    write(Path("few.csv"), columns)
    return tmp_path


def write(path, columns, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, delimiter=delimiter)
        lines.writerows([[*columns], *zip(*columns.values(), strict=True)])


def run(*words, code=0):
    with pytest.raises(SystemExit, match=str(code)) if code else nullcontext():
        cli.run(list(words))


def classify(*flags, file="texts.csv", output="p.csv", code=0):
    usual = ["--model=mini_small", "--text=text", f"--output={output}"]
    labels = [] if any(flag.startswith("--labels") for flag in flags) else [LABELS]
    run("classify", file, *usual, *labels, *flags, code=code)


def predictions(path="p.csv"):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def only_table(folder="p.task"):
    (path,) = Path(folder, "scores").glob("*.safetensors")
    return load(path)


def write_task(rows, shown=()):
    """A task file and its rows, as a person writes them."""
    splits = {"validation": rows, **({"train": shown} if shown else {})}
    for split, numbers in splits.items():
        lines = list[str]()
        for n in numbers:
            row = {"words": TEXTS[n], "heading": TITLES[n], "right": GOLD[n] or "-1"}
            lines.append(json.dumps(row))
        Path(f"{split}.jsonl").write_text("\n".join(lines))
    files = ", ".join(f'{split} = "{split}.jsonl"' for split in splits)
    Path("byhand.toml").write_text(TASK.replace("FILES", files))


def by_hand(rows, shown=()):
    """The scores of these rows by the library and a task file."""
    write_task(rows, shown)
    prompt = {"shots": len(shown)}
    if shown:
        prompt |= {"selection": "explicit", "demonstrations": tuple(range(len(shown)))}
    settings = Settings.of(model="mini_small", tasks="byhand.toml", methods="icl", **prompt)
    run_scoring(settings, store="W")
    return only_table("W").blocks["test"]


def test_scores_are_those_of_a_task_file_by_hand(folder, capsys):
    classify(PROMPT, "--gold=right", "--ids=key", "--prior=balanced")
    said = capsys.readouterr().out
    assert "8 rows scored" in said and "after matching equal shares" in said
    block, hand = only_table().blocks["test"], by_hand(range(8))
    np.testing.assert_array_equal(block.log_probs, hand.log_probs)
    np.testing.assert_array_equal(block.labels, hand.labels)
    rows = predictions()
    assert [row["row"] for row in rows] == [str(n) for n in range(8)]
    assert [row["id"] for row in rows] == [f"r{n}" for n in range(8)]
    assert [row["gold"] for row in rows] == GOLD
    raw = np.array(["pos", "neg"])[hand.log_probs.argmax(axis=1)]
    assert [row["raw_prediction"] for row in rows] == raw.tolist()
    assert sorted(row["prediction"] for row in rows) == ["neg"] * 4 + ["pos"] * 4
    for row in rows:
        probs = [float(row[f"p({label})"]) for label in ("pos", "neg")]
        assert sum(probs) == pytest.approx(1)
        assert row["prediction"] == ["pos", "neg"][int(np.argmax(probs))]
    classify(PROMPT, "--gold=right", "--ids=key", "--prior=balanced")
    assert "0 rows scored" in capsys.readouterr().out
    assert predictions() == rows


@pytest.mark.parametrize("source", ["few.csv", "use", "part=train"])
def test_demonstrations_are_a_file_or_marked_rows(source, folder, capsys):
    classify(PROMPT, "--gold=right", f"--demonstrations={source}")
    rows = [*range(8)] if source == "few.csv" else [2, 3, 4, 5, 6]
    hand = by_hand(rows, (0, 1, 7))
    np.testing.assert_array_equal(only_table().blocks["test"].log_probs, hand.log_probs)
    assert [int(row["row"]) for row in predictions()] == rows
    said = capsys.readouterr()
    assert ("also demonstrations" in said.out) == (source == "few.csv")


def test_texts_are_shown_as_they_are(folder):
    classify()
    block = only_table().blocks["test"]
    prompts = [f"Text: {text}\nLabel:" for text in TEXTS]
    assert block.spec["texts"] == text_digest(prompts)
    assert "gold" not in predictions()[0] and "id" not in predictions()[0]


@pytest.mark.parametrize("ending", ["tsv", "jsonl", "parquet"])
def test_other_files_give_the_same(ending, folder):
    rows = [{"text": text, "title": title} for text, title in zip(TEXTS, TITLES, strict=True)]
    path = Path(f"texts.{ending}")
    if ending == "tsv":
        write(path, {"text": TEXTS, "title": TITLES}, "\t")
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
    classify(file=str(path))
    classify(output="q.csv")
    both = [only_table(name).blocks["test"].log_probs for name in ("p.task", "q.task")]
    np.testing.assert_array_equal(*both)


def test_an_edited_task_is_kept(folder, capsys):
    classify()
    task = Path("p.task/task.toml")
    first = task.read_text()
    classify("--prompt={text} is")  # other flags replace an unedited task
    assert "{text} is {label}" in task.read_text()
    classify("--demonstrations=few.csv", "--gold=right")
    classify()
    assert task.read_text() == first and not Path("p.task/demonstrations.jsonl").exists()
    edited = first.replace("Text:", "Review:")
    task.write_text(edited)
    kept = Path("p.csv").read_bytes()
    capsys.readouterr()
    classify("--prior=balanced", code=2)
    error = capsys.readouterr().err
    assert "got edited ones, which it does not replace: score them with" in error
    assert task.read_text() == edited and Path("p.csv").read_bytes() == kept
    (command,) = re.findall(r"score them with (.*), or choose another --output", error)
    run(*shlex.split(command)[1:])
    assert len(list(Path("p.task/scores").iterdir())) == 4
    classify(output="q.csv")


def test_a_dry_run_shows_the_first_prompt_and_writes_nothing(folder, capsys):
    before = sorted(folder.rglob("*"))
    classify(PROMPT, "--dry-run")
    said = capsys.readouterr().out
    assert "the first of 8 prompts:\nAbout Title no. 0\nReview: a fine film\nRating:|" in said
    assert "label pos: ' great', ' good'\nlabel neg: ' terrible'\n" in said
    assert sorted(folder.rglob("*")) == before


def test_columns_are_found_by_their_values(folder, capsys):
    usual = "--model=mini_small", "--labels=neg,pos", "--output=p.csv"
    write(Path("t.csv"), {"n": range(8), "words": TEXTS, "label": GOLD, "id": range(8)})
    run("classify", "t.csv", *usual)
    assert "'words' is read as the text (--text)" in capsys.readouterr().err
    assert "gold" not in predictions()[0] and predictions()[7]["id"] == "7"
    indices = [{"pos": "1", "neg": "0", "": ""}[name] for name in GOLD]
    write(Path("t.csv"), {"words": TEXTS, "label": indices})
    run("classify", "t.csv", *usual, "--gold=label")
    assert "0 is read as 'neg', 1 is read as 'pos' by the order" in capsys.readouterr().err
    assert [row["gold"] for row in predictions()] == GOLD
    write(Path("t.csv"), {"words": ["fine", "dull", "good", "bad"]})
    run("classify", "t.csv", *usual)


def test_names_of_columns_may_have_spaces_and_letters_of_any_alphabet(folder, capsys):
    write(Path("t.csv"), {"titre été": TITLES, "the text": TEXTS})
    prompt = r"--prompt={titre été}: {the text}\n{label}"
    classify(prompt, "--text=the text", "--dry-run", file="t.csv")
    said = capsys.readouterr().out
    assert "Title no. 0: a fine film|\n" in said and r"label neg: '\nterrible'" in said


def test_a_label_that_begins_another_never_scores_lower(folder, capsys):
    classify("--labels=good,good film")
    scores = only_table().blocks["test"].log_probs
    assert (scores[:, 0] >= scores[:, 1]).all()
    assert "'good film' begins with other words of --labels" in capsys.readouterr().err
    classify("--labels=pos,positive")
    assert "begins with" not in capsys.readouterr().err


def test_labels_may_have_the_names_of_columns_and_numbers(folder):
    classify("--labels=-1,0,prediction", "--demonstrations=few.csv", "--gold=grade", code=2)
    write(Path("few.csv"), {"text": TEXTS[:3], "grade": ["-1", "0", "prediction"]})
    classify("--labels=-1,0,prediction", "--demonstrations=few.csv", "--gold=grade")
    rows = Path("p.task/demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["label"] for row in rows] == [0, 1, 2]
    assert {row["prediction_"] for row in predictions()} <= {"-1", "0", "prediction"}


def test_a_server_is_asked(folder, capsys):
    def fault(_, path, body):
        refused = body["messages"][0]["content"].startswith(f"Text: {TEXTS[3]}")
        return Reply({"error": {"message": "content_filter"}}, 400) if refused else None

    with running(fault) as server:
        flags = "--labels=negative,positive", f"--server={server.address}", "--model=m"
        classify(*flags, "--prior=balanced", "--dry-run")
        assert not server.asked
        classify(*flags, "--prior=balanced")
        classify(*flags, "--prior=balanced")
        assert len(server.asked) == 8
    rows = [0, 1, 2, 4, 5, 6, 7]
    answers = [first_tokens(f"Text: {TEXTS[row]}\nLabel:") for row in rows]
    want = [[answer[" negative"], answer[" positive"]] for answer in answers]
    np.testing.assert_allclose(only_table().blocks["test"].log_probs, want, rtol=1e-6)
    assert [int(row["row"]) for row in predictions()] == rows
    assert "predictions: p.csv (7 of 8 texts, " in capsys.readouterr().out


@pytest.mark.slow
def test_the_card_has_the_accuracy_of_real_rows(folder, shared, capsys):
    with gzip.open(shared / "data/extra_agnews/validation.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for _, line in zip(range(100), file, strict=False)]
    write(Path("news.csv"), {name: [row[name] for row in rows] for name in rows[0]})
    names = ["World", "Sports", "Business", "Sci/Tech"]
    flags = f"--labels={','.join(names)}", "--gold=label", "--prior=balanced"
    prompt = r"--prompt={title}. {description}\nTopic:"
    run("classify", "news.csv", "--model=mini_small", "--output=p.csv", prompt, *flags)
    said, found = capsys.readouterr().out, predictions()
    gold = [names[row["label"]] for row in rows]
    assert [row["gold"] for row in found] == gold
    for title, column in (("as they are", "raw_prediction"), ("equal shares", "prediction")):
        right = np.mean([row[column] == name for row, name in zip(found, gold, strict=True)])
        assert re.search(rf"{title} +{100 * right:.1f} \[", said)


REFUSALS = [
    (["--labels=pos"], "two or more different labels, with different words; got 'pos'", [LABELS]),
    (["--labels=a,b,a"], "got 'a' twice", [LABELS]),
    (["--labels=a=x|y,b=y"], "got 'y' twice", [LABELS]),
    (["--text="], "texts.csv: expected one column of texts; got ['text', 'title'], which could be",
     ["--text=text"]),
    (["--text="], "several with --prompt='{title} {body}'", ["--prompt={title} {text}"]),
    (["--text=txt"], "--text: There is no column named 'txt'; did you mean 'text'?", []),
    (["--gold=gold"], "--gold: There is no column named 'gold'", []),
    (["--ids=id"], "There is no column named 'id'", ["--ids=key"]),
    (["--ids=part"], "texts.csv, row 2: expected a unique id; got 'train' again", ["--ids=key"]),
    (["--prompt={title}: {body}"], "--prompt: expected the columns of the texts in braces",
     ["--prompt={title}: {text}"]),
    (["--prompt=Rating:"], "write {text} for the column of --text", ["--prompt={text} Rating:"]),
    (["--text=title", "--prompt={text}"], "got '{text}' and --text=title",
     ["--text=title", "--prompt={title}"]),
    (["--prompt={label}: {text}"], "expected {label} once, at the end",
     ["--prompt={text} {label}"]),
    (["--gold=title"], "'Title no. 0', which names no label", ["--gold=right"]),
    (["--demonstrations=shots"], "--demonstrations: expected a file, or a column of texts.csv", []),
    (["--demonstrations=part"], "column 'part': expected two values, true and false, that mark",
     ["--gold=right", "--demonstrations=part=train"]),
    (["--demonstrations=part=dev"], "name the mark, as in --demonstrations=part=test",
     ["--gold=right", "--demonstrations=part=train"]),
    (["--demonstrations=use"], "got no label in row 1: name the column of labels with --gold",
     ["--demonstrations=use", "--gold=right"]),
    (["--demonstrations=key=r2", "--gold=right"], "got no label in row 3", ["--gold=right"]),
    (["--prior=pos=0.5,no=0.5"], "--prior: expected 2 shares, one for each of pos, neg",
     ["--prior=pos=0.5,neg=0.5"]),
    (["--prior=estimated"], "leave --prior out: the shares are then estimated", ["--gold=right"]),
    (["--api_scores=echo"], "--api_scores: expected a server to ask; got none", []),
    (["--output=p.txt"], "p.txt: expected a file that ends in .csv, .tsv, .jsonl, .parquet", []),
    (["--output=-"], "--output=-: expected a file that ends in", []),
    (["--output=texts.csv"], "expected a file that is not an input", []),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "sentence", "remedy"), REFUSALS)
def test_a_mistake_is_a_sentence_with_a_remedy(flags, sentence, remedy, folder, capsys):
    before = sorted(folder.rglob("*"))
    classify(*flags, code=2)
    assert sentence in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
    classify(*remedy, "--dry-run")


def test_a_name_of_a_file_and_a_column_asks(folder, capsys):
    Path("use").write_bytes(Path("few.csv").read_bytes())
    classify("--demonstrations=use", code=2)
    assert "write ./NAME for a file" in capsys.readouterr().err
    classify("--demonstrations=./use", code=2)
    assert "use: expected a file that ends in .csv" in capsys.readouterr().err
    classify("--model=nowhere", code=2)
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"a": "x y"}, {"a": " "}], "t.jsonl, row 2: expected a text in ['text']; got [' ']"),
        ([{"a": "x y"}, {"a": ["x"]}], "row 2: expected a text in ['text']; got [['x']]"),
        ([{"a": "x y"}, {"b": 1}], "row 2: expected a text in ['text']; got ['']"),
        ([], "t.jsonl: expected a row for each text; got none: add them"),
    ],
)
def test_a_row_without_a_text_is_named(rows, sentence, folder, capsys):
    Path("t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    classify("--text=a" if rows else "--text=", file="t.jsonl", code=2)
    assert sentence in capsys.readouterr().err
    Path("t.txt").write_text("a fine film\ndull\n")
    classify(file="t.txt", code=2)
    assert "t.txt: expected a file that ends in .csv, .tsv" in capsys.readouterr().err


def test_score_needs_no_training_rows_without_demonstrations(folder, capsys):
    write_task(range(8))
    run("score", "--tasks=byhand.toml", "--model=mini_small", "--workdir=W", code=2)
    error = capsys.readouterr().err
    assert "task byhand: expected the split 'train', for demonstrations and labeled rows" in error
    assert "give --shots=0 and --labeled_per_class=0" in error
    flags = ["--shots=0", "--labeled_per_class=2"]
    run("score", "--tasks=byhand.toml", "--model=mini_small", "--workdir=W", *flags, code=2)
    assert "expected the split 'train'" in capsys.readouterr().err
    run("score", "--tasks=byhand.toml", "--model=mini_small", "--workdir=W", "--shots=0")
    assert {*only_table("W").blocks} >= {"test", "cc", "dc"}
