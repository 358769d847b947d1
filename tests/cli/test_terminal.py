"""The terminal: flags of one spelling, plans, progress, groups of many contexts, narrow lines."""

import csv
import io
import time

import numpy as np
import pytest

from batch_calibration import cli
from batch_calibration.cli import options, progress
from batch_calibration.diagnosis import diagnose
from batch_calibration.reporting.cells import right_cells, show_cells
from batch_calibration.settings import keys

SMALL = ("--model=mini", "--data=mini", "--tasks=sst2", "--limit=20", "--labeled_per_class=4")


@pytest.mark.parametrize("command", options.COMMANDS)
def test_flags_have_hyphens_and_keys_of_settings_underscores(command):
    flags = options._make_parser(command)[1][command].flags()
    for flag in flags:
        assert "_" not in flag or flag[2:] in keys()
    # No two flags differ in these signs only.
    assert len({flag.replace("-", "").replace("_", "") for flag in flags}) == len(flags)


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        (("sweep", "--workdir=W", "--dry_run"), "--dry-run"),
        (("sweep", "--workdir=W", "--at_once=3"), "--at-once"),
        (("score", "--workdir=W", "--labeled-per-class=4"), "--labeled_per_class"),
        (("show", "--nocost"), "--no-cost"),
        (("diagnose", "a.csv", "--gold_names=a,b"), "--gold-names"),
    ],
)
def test_another_spelling_is_read_with_a_note(typed, right, capsys):
    flag, _, value = typed[-1].partition("=")
    args = options.parse(typed)
    assert capsys.readouterr().err == f"note: {flag} is spelled {right}.\n"
    respelled = options.parse((*typed[:-1], f"{right}={value}" if value else right))
    assert args == respelled and not capsys.readouterr().err


def test_words_of_the_harness_are_not_respelled(capsys):
    args = options.parse(["lm-eval", "--tasks=boolq", "--", "--log_samples", "--include-path"])
    assert args.arguments == ["--log_samples", "--include-path"] and not capsys.readouterr().err


def test_score_shows_its_plan_and_writes_nothing(tmp_path, capsys):
    cli.run(["score", *SMALL, f"--workdir={tmp_path / 'W'}", "--dry-run"])
    assert "77 of 77 rows are left to score, by 1 worker" in capsys.readouterr().out
    assert not (tmp_path / "W").exists()


@pytest.mark.parametrize("command", options.READING_WORKDIRS)
def test_a_workdir_is_a_path_or_a_flag(command):
    by_path = options.parse([command, "W", "--task=a"])
    assert by_path == options.parse([command, "--workdir=W", "--task=a"])
    assert by_path == options.parse([command, "--workdir", "W", "--task=a"])
    assert options.parse(["tables", "W"]).workdir == "W"


def test_a_command_of_few_flags_lists_them(capsys):
    with pytest.raises(SystemExit):
        options.parse(["tables", "--workdir=W", "--by=x"])
    assert "--workdir" in (error := capsys.readouterr().err) and "--quiet" in error


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_a_terminal_alone_gets_the_line_and_it_is_erased(stream, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.001)
    monkeypatch.setattr(progress, "DRAW_EVERY", 0.001)
    with progress.Waiting("reading files", 4) as waiting:
        waiting.move(1)
        until = time.monotonic() + 5
        while stream.isatty() and "1 of 4" not in stream.getvalue() and time.monotonic() < until:
            pass
    text = stream.getvalue()
    assert "reading files [#####...............] 1 of 4" in text if stream.isatty() else not text
    assert text.endswith(progress.ERASE) or not stream.isatty()


def write_subjects(path, subjects=12, seeds=2, rows=30):
    """Writes contexts of several subjects and seeds; returns their accuracies before and after."""
    random, rights = np.random.default_rng(0), []
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["subject", "seed", "no", "yes", "label"])
        for subject in range(subjects):
            for seed in range(seeds):
                gold = random.integers(0, 2, rows)
                scores = np.round(random.normal(-3, 1, (rows, 2)), 4)
                scores[np.arange(rows), gold] += 1.5
                scores[:, 1] += subject / 4
                scores = np.round(scores, 4)
                for row, label in zip(scores.tolist(), gold, strict=True):
                    writer.writerow([f"s{subject:02}", seed, *row, ("no", "yes")[label]])
                after = scores - scores.mean(axis=0)
                rights.append([(of.argmax(axis=1) == gold).mean() for of in (scores, after)])
    return 100 * np.array(rights).reshape(subjects, seeds, 2)


def test_many_contexts_are_groups_on_the_screen_and_lines_in_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path, lines = tmp_path / "a.csv", tmp_path / "lines.csv"
    rights = write_subjects(path)
    command = ["diagnose", str(path), "--gold=label", "--by=subject,seed"]
    cli.run([*command, f"--output={lines}"])
    screen = capsys.readouterr().out.splitlines()
    assert len(screen) <= 40 and max(map(len, screen)) <= 80
    cells = {line.split("  ")[0]: line.split() for line in screen if "±" in line}
    for name, of_group in (("all", rights.reshape(-1, 2)), ("seed 1", rights[:, 1])):
        gains = of_group[:, 1] - of_group[:, 0]
        expected = [f"{gains.mean():.1f}", "±", f"{gains.std(ddof=1):.1f}"]
        assert cells[name][-3:] == expected, name
    with lines.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24 and {"nats", "gain", "recommended"} <= rows[0].keys()
    accuracies = [[float(row["before"]), float(row["after"])] for row in rows]
    np.testing.assert_allclose(accuracies, rights.reshape(-1, 2), atol=0.051)
    cli.run(command)
    assert "diagnose FILES --output=contexts.csv" in capsys.readouterr().out


def test_lines_of_contexts_are_csv(tmp_path, refuses):
    write_subjects(tmp_path / "a.csv", 1, 1)
    files = [str(tmp_path / "a.csv"), "--gold=label", "--labels=no,yes"]
    with pytest.raises(SystemExit):
        cli.run(["diagnose", *files, "--output=lines.json"])


def test_long_names_have_lines_of_their_own_in_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    names = [f"a_long_name_of_a_file_of_scores_{number}" for number in range(3)]
    cells = [["context", "rows", "gain"], *([name, "60", "+1.7 [-11.1, +7.9]"] for name in names)]
    show_cells("Contexts", cells)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50 and set(names) < set(lines)
    assert sum(line.split() == ["60", "+1.7", "[-11.1,", "+7.9]"] for line in lines) == 3


def test_without_a_preference_or_a_change_none_is_described():
    scores = np.array([[-1.0, -2.0], [-2.0, -1.0]] * 10)
    found = diagnose(scores, labels=[0, 1] * 10)
    text = str(found)
    assert "the scores favor no label" in text and "Accuracy stays 100.0" in text
    assert len(right_cells(found)) == 3 and len(right_cells(found._replace(method="icl"))) == 2


def test_groups_of_pooled_tasks_lack_the_name_of_the_file(tmp_path, capsys):
    random, arrays = np.random.default_rng(0), {}
    for name in ("art_history", "law", "physics"):
        arrays[f"{name}_scores"] = random.normal(-2, 1, (8, 60, 2))
        arrays[f"{name}_gold"] = random.integers(0, 2, 60)
    np.savez(tmp_path / "a.npz", **arrays)
    cli.run(["diagnose", str(tmp_path / "a.npz")])
    lines = capsys.readouterr().out.splitlines()
    groups = [line.partition("  ")[0] for line in lines if "±" in line]
    assert groups[:4] == ["all", "art_history", "law", "physics"]


def test_means_over_contexts_count_those_with_right_labels(tmp_path, capsys):
    random = np.random.default_rng(0)
    for number in range(5):
        scores = random.normal(size=(30, 2)) - 2
        rows = [f"{no:.3f},{yes:.3f}" for no, yes in scores]
        head, ends = ("no,yes,gold", [",no", ",yes"] * 15) if number == 4 else ("no,yes", [""] * 30)
        lines = [head, *map("".join, zip(rows, ends, strict=True))]
        (tmp_path / f"s{number}.csv").write_text("\n".join(lines) + "\n")
    cli.run(["diagnose", *map(str, sorted(tmp_path.glob("s*.csv")))])
    assert "5, 1 with right labels" in capsys.readouterr().out
