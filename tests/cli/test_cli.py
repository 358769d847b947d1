"""The console program: what it prints, what it writes, and its sentences on bad input."""

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from html import escape
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from processes import python

from batch_calibration import calibrate, cli, recommend
from batch_calibration.importers import Reading, read
from batch_calibration.settings import keys
from batch_calibration.studies import Store


def lines_of(rng, n=60, gold=True):
    """A CSV of two labels, the second preferred, and its scores and right labels."""
    right = rng.integers(0, 2, n)
    scores = rng.normal(-2.0, 0.3, (n, 2)) + 0.5 * np.eye(2)[right] + [0.0, 1.5]
    head = "id,no,yes" + (",gold" if gold else "")
    rows = [
        f"r{i},{a:.6f},{b:.6f}" + (f",{('no', 'yes')[y]}" if gold else "")
        for i, ((a, b), y) in enumerate(zip(scores, right, strict=True))
    ]
    return "\n".join([head, *rows]) + "\n", scores, right


@pytest.fixture
def table(tmp_path):
    text, scores, right = lines_of(np.random.default_rng(0))
    path = tmp_path / "scores.csv"
    path.write_text(text)
    return path, scores, right


def run(*arguments, code=0):
    """Run the program in this process; its exit code is checked."""
    with pytest.raises(SystemExit, match=str(code)) if code else nullcontext():
        cli.run([str(argument) for argument in arguments])


@pytest.fixture
def said(capsys):
    """Runs the program and gives what it prints to both streams, with single spaces."""

    def call(*arguments, code=0):
        run(*arguments, code=code)
        stdout, stderr = (" ".join(text.split()) for text in capsys.readouterr())
        return SimpleNamespace(out=stdout, err=stderr)

    return call


GIVEN = ("--gold=gold", "--ids=id")


def test_help_and_version_are_quick_and_load_no_jax():
    for flag in ("--help", "--version"):
        check = (
            "import sys; from batch_calibration.cli import run\n"
            f"try:\n run(['{flag}'])\nexcept SystemExit as e:\n assert not e.code\n"
            "assert not {'jax', 'numpy', 'flax'} & set(sys.modules), 'heavy'"
        )
        python("-c", check)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "npz"])
def test_corrected_scores_are_those_of_calibrate(table, tmp_path, ending, capsys):
    path, scores, right = table
    out = tmp_path / f"out.{ending}"
    run("calibrate", path, *GIVEN, f"--output={out}")
    expected = np.asarray(calibrate(scores.round(6)))
    (corrected,) = read(out, Reading(gold="gold", labels=("no", "yes")))
    np.testing.assert_allclose(corrected.blocks["test"].log_probs, expected, atol=1e-6)
    assert corrected.blocks["test"].labels.tolist() == right.tolist()
    assert corrected.label_names == ("no", "yes")
    assert f"corrected scores: {out}" in capsys.readouterr().out


def test_what_is_said_is_right(table, said):
    path, scores, right = table
    stdout = said("diagnose", path, *GIVEN, "--changed=2").out
    new = scores - scores.mean(axis=0)
    before, after = ((s.argmax(axis=1) == right).mean() for s in (scores, new))
    changed = int((scores.argmax(axis=1) != new.argmax(axis=1)).sum())
    assert f"Accuracy moves from {100 * before:.1f}" in stdout
    assert f"to {100 * after:.1f} [" in stdout
    assert f"bc changes the prediction of {changed:,} of 60 rows" in stdout
    gap = float(np.ptp(scores.mean(axis=0)))
    assert f"the scores favor 'yes' over 'no' by {gap:.2f} ± 0." in stdout
    assert f"and {changed - 2} more" in stdout


def test_without_right_labels_nothing_is_said_of_accuracy(tmp_path, capsys, said):
    path = tmp_path / "scores.csv"
    path.write_text(lines_of(np.random.default_rng(1), gold=False)[0])
    run("diagnose", path, "--ids=id")
    stdout = capsys.readouterr().out
    assert "Accuracy" not in stdout and "No right label is known" in stdout
    run("report", path, "--ids=id", f"--output={tmp_path / 'r.html'}")
    assert "No right label is known" in (tmp_path / "r.html").read_text()
    assert "all 60 test rows lack a gold label" in said("compare", path, code=2).err


def test_scores_come_in_and_go_out_by_pipes(table):
    path, *_ = table
    ours = ("-m", "batch_calibration", "calibrate", "-")
    done = python(*ours, *GIVEN, input=path.read_text())
    rows = done.stdout.splitlines()
    assert rows[0] == "row,no,yes,p(no),p(yes),confidence,prediction,gold" and len(rows) == 61
    assert rows[1].startswith("r0,")
    assert "the scores favor" in done.stderr
    done = python(*ours, code=2, input="no,yes\n1,x\n")
    assert done.stderr.startswith("error: the input:")


def test_the_prior_is_subtracted(table, tmp_path, capsys):
    path, scores, right = table
    out = tmp_path / "out.npz"
    shares = np.bincount(right) + 1.0
    shares /= shares.sum()
    (tmp_path / "shares.csv").write_text(f"yes,{shares[1]}\nno,{shares[0]}\n")
    for prior in (",".join(map(str, shares)), "estimated", str(tmp_path / "shares.csv")):
        run("calibrate", path, *GIVEN, f"--output={out}", f"--prior={prior}")
        expected = scores - scores.mean(axis=0) + np.log(shares)
        with np.load(out) as archive:
            np.testing.assert_allclose(archive["scores"], expected, atol=1e-4)
    assert "right answers in the file" in " ".join(capsys.readouterr().err.split())


def test_estimated_shares_are_those_of_the_labeled_set(table, tmp_path):
    path, scores, _ = table
    (tmp_path / "set.csv").write_text(
        "id,no,yes,gold\na,-1.5,-2.5,no\nb,-1.5,-2.5,no\nc,-1,-2,no\n"
    )
    labeled = f"--labeled={tmp_path / 'set.csv'}"
    out = tmp_path / "out.npz"
    run("calibrate", path, *GIVEN, f"--output={out}", "--prior=estimated", labeled)
    expected = scores - scores.mean(axis=0) + np.log([0.8, 0.2])
    with np.load(out) as archive:
        np.testing.assert_allclose(archive["scores"], expected, atol=1e-4)


def test_probes_make_cc_and_dc(table, tmp_path):
    path, scores, _ = table
    probe = tmp_path / "probe.csv"
    probe.write_text("no,yes\n-1.0,-0.5\n-3.0,-0.5\n")
    out = tmp_path / "out.npz"
    for method, name in (("cc", ""), ("cc", "cc="), ("dc", "dc="), ("dc", "")):
        flags = f"--method={method}", f"--probe={name}{probe}"
        run("calibrate", path, *GIVEN, f"--output={out}", *flags)
        with np.load(out) as archive:
            np.testing.assert_allclose(archive["scores"], scores - [-2.0, -0.5], atol=1e-4)


def test_many_files_are_many_contexts(table, tmp_path, capsys):
    path, *_ = table
    for name in ("one", "two", "three", "four"):
        (tmp_path / f"part-{name}.csv").write_text(path.read_text())
    run("diagnose", tmp_path / "part-*.csv", *GIVEN, "--model=m")
    stdout = capsys.readouterr().out
    assert all(f"part-{name}, m" in stdout for name in ("one", "two", "three", "four"))
    assert "4 contexts, 240 rows" in stdout
    run("calibrate", tmp_path / "part-*.csv", *GIVEN, f"--output={tmp_path / 'o.csv'}")
    assert (
        (tmp_path / "o.csv")
        .read_text()
        .startswith("task,model,row,no,yes,p(no),p(yes),confidence,prediction,gold\n")
    )


def test_by_tells_contexts_apart(tmp_path, capsys):
    rng = np.random.default_rng(2)
    rows = [f"{rng.normal()},{rng.normal() - 3},{i % 2},s{i % 5}" for i in range(100)]
    path = tmp_path / "by.csv"
    path.write_text("a,b,gold,subject\n" + "\n".join(rows))
    run("diagnose", path, "--gold=gold", "--by=subject")
    stdout = capsys.readouterr().out
    assert "5 contexts, 100 rows" in stdout and "by s3" in stdout


def test_compare_prints_every_method(table, capsys):
    path, *_ = table
    run("compare", path, *GIVEN)
    lines = capsys.readouterr().out.splitlines()
    # A table of accuracies, and one of probabilities with the same methods.
    assert len(lines) <= 12 + 9 and max(map(len, lines[:-2])) <= 80
    assert lines[0].endswith("60 labeled rows") and lines[3].startswith("icl  ")
    assert any(line.startswith("bc  ") for line in lines)
    run("compare", path, *GIVEN, "--all")
    shown = capsys.readouterr().out
    for method in ("icl", "pc", "bc", "bc_mean_prob"):
        assert f"\n{method} " in shown
    assert "Left out, no block 'cc' in the table: cc" in " ".join(shown.split())
    run("compare", path, *GIVEN, "--methods=icl,bc", "--json")
    (line,) = capsys.readouterr().out.splitlines()
    assert [result["method"] for result in json.loads(line)["results"]] == ["icl", "bc"]


def test_commands_read_one_file_with_the_same_flags(table, tmp_path, capsys):
    path, *_ = table
    text = path.read_text().splitlines()
    named = ["no,yes,label"]
    for line in text[1:]:
        cells = dict(zip(text[0].split(","), line.split(","), strict=True))
        named.append(f"{cells['no']},{cells['yes']},{cells['gold']}")
    (tmp_path / "l.csv").write_text("\n".join(named))
    for command in ("diagnose", "calibrate", "recommend", "compare"):
        flags = ["--methods=icl,bc"] if command == "compare" else []
        run(command, tmp_path / "l.csv", *flags)
        shown = capsys.readouterr()
        assert "is read as right labels (--gold)" in shown.err
        run(command, tmp_path / "l.csv", "--gold=label", "--quiet", *flags)
        quiet = capsys.readouterr()
        assert quiet.err == "" and quiet.out.splitlines()[:3] == shown.out.splitlines()[:3]


def test_convert_makes_what_programs_of_a_study_read(table, program, tmp_path, said):
    path, scores, _ = table
    work = tmp_path / "w"
    run("convert", path, *GIVEN, f"--workdir={work}")
    (stored,) = Store(work).tables()[0]
    np.testing.assert_allclose(stored.blocks["test"].log_probs, scores, atol=1e-5)
    for name in ("calibrate", "tables", "figures", "report"):
        program(name, f"--workdir={work}")
    assert "<h1>Label bias" in (work / "report.html").read_text()
    assert "-shot" not in (work / "report.html").read_text()
    run("convert", path, *GIVEN, f"--output={tmp_path / 't.safetensors'}")
    (reread,) = read(tmp_path / "t.safetensors")
    assert reread.id == stored.id


def test_the_page_has_all(table, tmp_path):
    path, *_ = table
    page = tmp_path / "page.html"
    run("report", path, *GIVEN, f"--output={page}")
    text = page.read_text()
    assert 'class="picture shares"' in text and "the scores favor" in text
    assert "With Batch Calibration (bc) accuracy goes from" in text
    assert f"<span>{path}</span>" in text  # the command has the real file
    assert re.search(r"<td><b>\d+\.\d</b><span> \[", text)
    # One log of one context is read in a few minutes.
    body = text.split("<body>")[1].split("<script>")[0]
    assert len(re.findall(r"[A-Za-z]{2,}", re.sub("<[^>]*>", " ", body))) <= 700
    assert "bc_running" in text and "bc_mean_prob" not in text and "bcl" not in text
    run("report", path, *GIVEN, "--methods=all", f"--output={page}")
    assert "bc_mean_prob" in page.read_text()


def test_a_page_without_matplotlib_has_words_and_tables(table, tmp_path, monkeypatch, said):
    path, *_ = table
    page = tmp_path / "page.html"
    for name in [name for name in sys.modules if name.startswith("batch_calibration.reporting.fi")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "batch_calibration.reporting.drawings", raising=False)
    monkeypatch.delattr("batch_calibration.reporting.drawings", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run("report", path, *GIVEN, f"--output={page}")
    text = page.read_text()
    assert "batch-calibration[plots]" in text
    assert "the scores favor" in text and "bc_running" in text
    refusal = said("diagnose", path, *GIVEN, f"--plot={tmp_path / 'p.png'}", code=2).err
    assert "batch-calibration[plots]" in refusal


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_figures(table, tmp_path, ending):
    path, *_ = table
    run("diagnose", path, *GIVEN, f"--plot={tmp_path / 'p'}.{ending}")
    assert (tmp_path / f"p.{ending}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["calibrate", "nix-*.csv"], "nix-*.csv: expected a file of scores; got none"),
        (["calibrate", "{}", "--prior=a,b"], "--prior: expected shares such as 0.8,0.2"),
        (["calibrate", "{}", "--output=x.doc"], "x.doc: expected a file that ends in .csv"),
        (
            ["diagnose", "{}", "--plot=x.doc"],
            "x.doc: expected a file that ends in .png, .pdf, .svg",
        ),
        (["calibrate", "{}", "--by=subject"], "subject"),
        (["calibrate", "{}", "--format=nix"], "There is no format named 'nix'"),
        (["score"], "the following arguments are required: --workdir"),
        (["calibrate"], "expected files of scores, or --workdir=DIR of a study, and not both"),
        (["report", "{}", "--workdir=W"], "expected files of scores, or --workdir=DIR"),
        (["calibrate", "{}", "--floor=-9"], "--floor goes with --workdir=DIR of a study"),
        (["calibrate", "--workdir=W", "--prior=1,2"], "--prior goes with files of scores"),
        (["sweep", "--workdir=W", "--workers=0"], "--workers: expected 1 or more; got 0"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(
    table, arguments, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    given = GIVEN if any("{}" in argument or "nix" in argument for argument in arguments) else ()
    run(*(argument.format(table[0]) for argument in arguments), *given, code=2)
    stderr = capsys.readouterr().err
    assert sentence in stderr and stderr.count("\n") == 1 and stderr.startswith("error: ")


def test_estimated_shares_need_labels(tmp_path, said):
    text, *_ = lines_of(np.random.default_rng(1), gold=False)
    (tmp_path / "s.csv").write_text(text)
    refusal = said("calibrate", tmp_path / "s.csv", "--ids=id", "--prior=estimated", code=2).err
    assert "labeled rows to count, which separate label shares from the bias" in refusal


def test_missing_labels_have_a_range(tmp_path, capsys, said):
    rng = np.random.default_rng(3)
    rows = [
        json.dumps({"a": rng.normal() - 1, "b": rng.normal() - 2 if i % 3 else None, "gold": i % 2})
        for i in range(30)
    ]
    path = tmp_path / "top.jsonl"
    path.write_text("\n".join(rows))
    run("diagnose", path, "--gold=gold", "--missing=bound")
    captured = capsys.readouterr()
    assert "The range that missing labels allow" in captured.out
    assert "10 of 30 rows lack the score of a label" in " ".join(captured.err.split())


def test_a_label_that_is_never_right_is_told(tmp_path, said):
    rng = np.random.default_rng(4)
    rows = [f"{rng.normal()},{rng.normal()},{rng.normal()},{'ab'[i % 2]}" for i in range(50)]
    path = tmp_path / "never.csv"
    path.write_text("a,b,c,gold\n" + "\n".join(rows))
    stdout = said("diagnose", path, "--gold=gold", "--labels=a,b,c").out
    assert "No labeled row has the right label 'c'" in stdout and "(a prior)" in stdout


def parquet(folder, scores, right):
    """A Parquet file of the scores, a subject and a text beside them."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"no": scores[:, 0], "yes": scores[:, 1], "gold": right, "text": ["t"] * len(right)}
    parquet.write_table(pa.table(columns), folder / "big.parquet", row_group_size=7)
    return folder / "big.parquet"


def test_parquet_is_corrected_batch_by_batch(table, tmp_path, capsys, said):
    from pyarrow.parquet import read_table

    _, scores, right = table
    path = parquet(tmp_path, scores, right)
    out = tmp_path / "out.parquet"
    flags = "--gold=gold", "--labels=no,yes", f"--output={out}"
    run("calibrate", path, *flags, "--prior=0.7,0.3")
    columns = read_table(out)
    new = scores - scores.mean(axis=0) + np.log([0.7, 0.3])
    np.testing.assert_allclose(np.stack([columns["no"], columns["yes"]], axis=1), new, atol=1e-5)
    assert columns["text"].to_pylist() == ["t"] * 60
    changed = int((scores.argmax(axis=1) != new.argmax(axis=1)).sum())
    stdout = capsys.readouterr().out
    assert f"bc changes the prediction of {changed} of 60 rows" in stdout
    assert f"Accuracy moves from {100 * (scores.argmax(axis=1) == right).mean():.1f}" in stdout
    (tmp_path / "probe.csv").write_text("no,yes\n-1.0,-0.5\n-3.0,-0.5\n")
    run("calibrate", path, *flags, "--method=cc", f"--probe={tmp_path / 'probe.csv'}")
    np.testing.assert_allclose(read_table(out)["no"], scores[:, 0] + 2.0, atol=1e-5)
    refusal = said("calibrate", path, *flags, f"--plot={tmp_path / 'p.png'}", code=2).err
    assert "--plot: Parquet that is read as a stream" in refusal


def test_more_rows_than_fit_must_be_written_as_parquet(table, tmp_path, monkeypatch, said):
    from batch_calibration.cli import output

    monkeypatch.setattr(output, "MAX_ROWS_IN_MEMORY", 59)
    refusal = said(
        "calibrate", parquet(tmp_path, *table[1:]), "--gold=gold", "--labels=no,yes", code=2
    ).err
    assert "expected at most 59 rows in memory; got 60" in refusal


def test_one_row_and_a_label_never_predicted(tmp_path, said):
    (tmp_path / "s.csv").write_text("no,yes\n-1.5,-0.5\n")
    assert "has one row to learn from" in said("diagnose", tmp_path / "s.csv").err
    (tmp_path / "s.csv").write_text("a,b,c,gold\n" + "-1.5,-0.5,-9.5,a\n-0.7,-1.5,-9.6,b\n" * 9)
    assert "bc" in said("compare", tmp_path / "s.csv", "--gold=gold", "--labels=a,b,c").out


def test_recommend_says_what_to_do_and_why(table, tmp_path, capsys, said):
    path, scores, _ = table
    stdout = said("recommend", path, *GIVEN).out
    # Of rows with right labels, the advice asks for none.
    *reason, more = recommend(scores.round(6), label_names=("no", "yes")).reason
    assert all(sentence in stdout for sentence in reason) and more not in stdout
    assert "With the 60 right labels of this file:" in stdout
    assert "not used by the recommendation" in stdout
    doubted = said("recommend", path, *GIVEN, "--prior=0.9,0.1").out
    assert "Do not match stated shares" in doubted and "--prior=0.9,0.1" not in doubted
    stated = said("recommend", path, *GIVEN, "--prior=0.55,0.45").out
    assert (
        f"calibrate {path} --gold=gold --ids=id --method=prior_matching --prior=0.55,0.45" in stated
    )
    (tmp_path / "few.csv").write_text(lines_of(np.random.default_rng(5), n=19)[0])
    run("recommend", tmp_path / "few.csv", *GIVEN)
    stdout = capsys.readouterr().out
    assert "leave the scores as they are" in " ".join(stdout.split())
    assert " --method=prior_matching --prior=balanced\n" in stdout
    stdout = said("recommend", tmp_path / "few.csv", *GIVEN, f"--labeled={path}").out
    assert "60 labeled rows" in stdout and "Labeled rows: cross-validated accuracy" in stdout
    refusal = said("recommend", path, f"--probe={path}", code=2).err
    assert "--probe: expected labeled rows for its methods" in refusal


def test_recommendations_of_many_contexts_are_rows_of_a_table(tmp_path, said):
    rng = np.random.default_rng(6)
    for i in range(4):
        _, scores, right = lines_of(rng, n=60 if i else 19)
        sure = np.round(scores + 3 * np.eye(2)[right], 6)
        rows = [f"{a},{b},{y}" for (a, b), y in zip(sure, right, strict=True)]
        (tmp_path / f"part-{i}.csv").write_text("\n".join(["no,yes,gold", *rows]))
    stdout = said("recommend", tmp_path / "part-*.csv", "--gold=gold").out
    assert "Recommended, of 4 contexts: estimated shares in 3; leave it in 1." in stdout
    assert "If you follow it: 4 contexts, 199 rows" in stdout
    stdout = said("diagnose", tmp_path / "part-*.csv", "--gold=gold").out
    assert "Recommended, of 4 contexts: " in stdout


def test_diagnose_and_the_page_end_with_the_recommendation(table, tmp_path, capsys):
    path, scores, _ = table
    run("diagnose", path, *GIVEN, "--changed=0")
    first = recommend(scores.round(6), label_names=("no", "yes")).reason[0]
    # Advice without labels might contradict advice with them.
    text = " ".join(capsys.readouterr().out.split())
    assert text.endswith("Advice with the right labels: batch-calibration recommend FILE.")
    assert "Recommended" not in text
    unlabeled = tmp_path / "unlabeled.csv"
    unlabeled.write_text(re.sub(r",\w+$", "", path.read_text(), flags=re.M))
    run("diagnose", unlabeled, "--labels=no,yes", "--changed=0")
    expected = f"Recommended: {first[0].lower()}{first[1:]}"
    assert " ".join(capsys.readouterr().out.split()).endswith(expected)
    run("report", path, *GIVEN, "--methods=icl,bc", f"--output={tmp_path / 'r.html'}")
    text = (tmp_path / "r.html").read_text()
    assert f"<dt>Advised</dt><dd>{escape(first)}</dd>" in text
    said = capsys.readouterr().out
    assert said.splitlines()[3].split() == ["task", "icl", "bc", "advised", "gain"]
    assert "The model answers 'yes' for 100 % of" in said
    assert "Do: `batch-calibration calibrate" in said


SMALL = ("--model=mini", "--data=mini", "--tasks=sst2", "--limit=20", "--labeled_per_class=4")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:constrained_layout")  # of figures of one task
def test_a_study_without_a_checkout(tmp_path, monkeypatch, capsys, said):
    """In an empty folder: no configs, no folder of experiments."""
    monkeypatch.chdir(tmp_path)
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    try:
        run("score", *SMALL, "--seeds=2", "--workdir=W")
    finally:
        jax.config.update("jax_numpy_dtype_promotion", "strict")
    assert "2 contexts: 154 rows scored" in capsys.readouterr().out
    stdout = said("calibrate", "--workdir=W", "--methods=icl,bc", "--tasks=sst2").out
    assert "2 score tables in" in stdout
    for command in ("tables", "figures", "report", "status"):
        run(command, "--workdir=W")
    text = capsys.readouterr().out
    assert "SST-2" in text and "2 done, 0 running" in text and "report:  W/report.html" in text
    assert Path("W/report.html").is_file() and list(Path("W/figures").glob("*.png"))
    assert "tokens of the first test row" in said("show", *SMALL, "--rows=1").out
    stdout = said("sweep", *SMALL, "--shots=1,2", "--workdir=W", "--dry-run").out
    assert "79 of 156 rows are left to score, by 2 workers" in stdout


def test_help_of_a_study_explains_every_setting(capsys):
    with pytest.raises(SystemExit):
        cli.run(["score", "--help"])
    stdout = " ".join(capsys.readouterr().out.split())
    for name, key in keys().items():
        if key.part != "calibration":
            assert f"--{name} " in stdout and key.help.split()[0] in stdout


@pytest.mark.parametrize("package", ["absl", "platformdirs"])
def test_what_is_not_installed_is_named(package, tmp_path):
    """A package that cannot be imported stands before the real one."""
    code = (
        "import runpy, sys\n"
        f"sys.modules[{package!r}] = None\n"
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda n, *a: None if n == {package!r} else find(n, *a)\n"
        "sys.argv[1:] = ['--help']\n"
        "runpy.run_module('experiments.score', run_name='__main__')\n"
    )
    done = python("-c", code, code=2)
    assert "Traceback" not in done.stderr
    assert f"error: {package} not installed; pip install 'batch-calibration[exp" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_have_every_command_and_flag(shell, capsys):
    run("completions", shell)
    lines = capsys.readouterr().out
    for name in ("compare", "sweep", "completions", "json", "workdir", "from-probs"):
        assert name in lines


def test_bash_completes_commands_flags_and_values(capsys):
    run("completions", "bash")
    words = ("dia", 1), ("compare --js", 2), ("score --scorer dual", 3)
    ask = (
        "COMP_WORDS=(x {}); COMP_CWORD={}; _shtab_batch_calibration; "
        'echo "${{COMPREPLY[@]}}"; COMPREPLY=()'
    )
    script = "\n".join([capsys.readouterr().out, *(ask.format(*pair) for pair in words)])
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["diagnose", "--json", "dual_encoder"]


def test_json_of_diagnose_and_recommend_holds_what_is_said(table, capsys):
    path, scores, _ = table
    run("diagnose", path, *GIVEN, "--json")
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["rows"] == 60 and diagnosis["label_names"] == ["no", "yes"]
    run("recommend", path, *GIVEN, "--json")
    *reason, _ = recommend(scores.round(6), label_names=("no", "yes")).reason
    found = json.loads(capsys.readouterr().out)
    assert found["reason"] == reason and found["by_labels"]["source"] == "labeled"


@pytest.mark.parametrize("command", ["diagnose", "recommend", "compare"])
def test_json_has_no_letter_that_steers_a_terminal(command, tmp_path, capsys):
    label = "no\x1b[2J\x9b31m\u202e\x7f"
    path = tmp_path / "rows.jsonl"
    lines = []
    for no, yes in np.random.default_rng(0).normal(-3, 1, (40, 2)).tolist():
        lines.append(json.dumps({label: no, "yes": yes, "gold": "yes"}))
    path.write_text("\n".join(lines))
    run(command, path, "--gold=gold", f"--task={label}", "--json")
    printed = capsys.readouterr().out
    assert not set(printed) & set("\x1b\x9b\u202e\x7f")
    assert json.loads(printed)["task"] == label


def test_lm_eval_without_the_harness_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        run("lm-eval", "--tasks=boolq", "--", "--model", "hf")
    assert "pip install lm-eval" in capsys.readouterr().err
