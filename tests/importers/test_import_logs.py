"""Logs of lm-evaluation-harness: each layout, each truth a log must be read with, each sentence."""

import json
import tracemalloc

import numpy as np
import pytest
from log_forms import CHOICES, HEAD, row, since_0_4_3, since_0_4_9
from reading_files import lines, notes, read_one, refused

from batch_calibration import importers
from batch_calibration.arrays.missing_scores import BELOW
from batch_calibration.importers import Reading, lm_eval
from batch_calibration.importers.questions import note_differing_demonstrations
from batch_calibration.studies import run_calibration


def rows(n=6, **more):
    return [row(i, (-1.0 - i / 8, -2.0 + i / 4), target=i % 2, **more) for i in range(n)]


def a_list(records):
    return json.dumps(records, indent=2)


LAYOUTS = {
    "0.4.0": (lambda line: line, a_list),
    "0.4.3": (since_0_4_3, lines),
    "0.4.13": (since_0_4_9, lines),
    "saved again in one line": (since_0_4_9, json.dumps),
}


@pytest.fixture
def log(saved):
    """Writes a log."""
    return lambda content, name="samples_toy_2026-11-21T00-10-36.197808.jsonl": saved(content, name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_says_the_same(layout, log):
    form, write = LAYOUTS[layout]
    table = read_one(log(write([form(line) for line in rows()])))
    block = table.blocks["test"]
    expected = [(-1.0 - i / 8, -2.0 + i / 4) for i in range(6)]
    np.testing.assert_array_equal(block.log_probs, np.float32(expected))
    assert block.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert block.row_ids == tuple("012345")
    assert table.label_names == CHOICES
    assert table.context["task"] == "toy" and "spec" not in table.context
    assert notes(table) == ""


def test_a_real_log_and_its_results(shared):
    folder = shared / "fixtures" / "lm_eval"
    table = read_one(next(folder.glob("samples_toy_min_*")))
    block = table.blocks["test"]
    assert table.label_names == ("negative", "positive")
    np.testing.assert_allclose(block.log_probs[0], [-0.10905784593110368, -0.5512672460905512])
    assert table.context["scorer"] == "lm-evaluation-harness 0.4.13"
    details = {"task": "toy_min", "shots": 2, "seed": 1234, "split": "validation", "data": "json"}
    assert {key: table.context[key] for key in details} == details
    accuracy = (block.log_probs.argmax(axis=1) == block.labels).mean()
    results = json.loads(next(folder.glob("results_*.json")).read_text())
    assert accuracy == results["results"]["toy_min"]["acc,none"]
    assert "demonstrations differ" in notes(table) and "sampler: first_n" in notes(table)
    assert "own accuracy" not in notes(table)


def test_unconditional_rows_of_a_real_log_are_a_block_and_no_labels(shared):
    folder = shared / "fixtures" / "lm_eval"
    table = read_one(next(folder.glob("samples_toy_sst_*")))
    assert table.label_names == ("negative", "positive")
    block, pmi = table.blocks["test"], table.blocks["pmi"].log_probs
    np.testing.assert_allclose(pmi[0], [-0.18939132855435614, -0.1867295282555551])
    results = json.loads(next(folder.glob("results_*.json")).read_text())["results"]["toy_sst"]
    scores = block.log_probs
    assert (scores.argmax(axis=1) == block.labels).mean() == results["acc,none"]
    ours = ((scores - pmi).argmax(axis=1) == block.labels).mean()
    assert ours == results["acc_mutual_info,none"]
    (record,) = run_calibration([table], ["pmi"])
    accuracy = record.methods["pmi"].metrics["accuracy"]
    assert accuracy == pytest.approx(results["acc_mutual_info,none"])


def with_empty_prompts(line, interleaved):
    """The line with requests of both choices after an empty prompt, too."""
    arguments = line["arguments"] + [["", "no"], ["", "yes"]]
    answers = line["filtered_resps"] + [[-0.5, False], [-0.25, False]]
    order = (0, 2, 1, 3) if interleaved else (0, 1, 2, 3)
    line["arguments"] = [arguments[i] for i in order]
    line["filtered_resps"] = [answers[i] for i in order]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("are_all_empty", [False, True])
def test_unconditional_rows_that_are_the_same_are_one_row(interleaved, are_all_empty, log):
    """0.4.0 and 0.4.1 sort the requests by choice; tasks such as BLiMP have no prompts at all."""
    log_rows = rows()
    for line in log_rows:
        if are_all_empty:
            line["arguments"] = [["", " no"], ["", " yes"]]
    table = read_one(log(log_rows))
    assert "pmi" not in table.blocks and table.label_names == CHOICES
    for line in log_rows:
        with_empty_prompts(line, interleaved)
        line["acc_mutual_info"] = 0.0
    table = read_one(log(log_rows))
    assert table.label_names == CHOICES
    assert table.blocks["test"].log_probs[1].tolist() == [-1.125, -1.75]
    assert table.blocks["pmi"].log_probs.tolist() == [[-0.5, -0.25]]


SECOND = [1, "1", "yes", " yes", [1], "[1]", "['yes']", True, "True"]


def test_a_target_is_an_index_a_text_or_a_list_of_one(log):
    for target in (*SECOND, "False", ["no"]):
        table = read_one(log([row(0, target=target), row(1, target=0)]))
        assert table.blocks["test"].labels.tolist() == [int(target in SECOND), 0], target
        assert "known" not in notes(table)


def test_a_target_of_several_or_none_is_unknown(log):
    targets = ["[0, 1]", [0, 1], "maybe", 7, -1, None, 0]
    table = read_one(log([row(i, target=target) for i, target in enumerate(targets)]))
    assert table.blocks["test"].labels.tolist() == [-1] * 6 + [0]
    assert "right choice of 6 of 7 rows is not known, 2 of them because several" in notes(table)


@pytest.mark.parametrize("meant", ["index", "text"])
def test_a_target_that_may_be_index_or_text_is_what_the_log_counts(meant, log):
    choices, log_rows = ("1", "0"), []
    for i, (scores, target) in enumerate([((-1.0, -2.0), "0"), ((-2.0, -1.0), "1")] * 3):
        best = int(np.argmax(scores))
        right = best == (int(target) if meant == "index" else choices.index(target))
        log_rows.append(row(i, scores, choices, target=target, acc=float(right)))
    table = read_one(log(log_rows))
    expected = [0, 1] * 3 if meant == "index" else [1, 0] * 3
    assert table.blocks["test"].labels.tolist() == expected
    assert {"index": "indices", "text": "texts"}[meant] in notes(table)


def test_choices_that_stand_in_the_prompt(log):
    """Winogrande: two prompts and one continuation; the target is the continuation."""
    log_rows = []
    for i, acc in enumerate((1.0, 0.0, 1.0)):
        line = row(i, (-2.0, -1.0), target="was late.", acc=acc)
        ends = ("Ann", "Bea")
        line["arguments"] = [[f"{HEAD}{i}: {end}", " was late."] for end in ends]
        log_rows.append(line)
    table = read_one(log(log_rows))
    assert table.label_names == ("A", "B")
    assert table.blocks["test"].labels.tolist() == [1, 0, 1]
    assert "does not name the right choice" in notes(table)


def test_choices_that_are_other_texts_are_named_by_their_place(log):
    choices = [(f"a{i}", f"b{i}", f"c{i}") for i in range(5)]
    log_rows = [row(i, (-3.0, -2.0, -4.0), own, target=i % 3) for i, own in enumerate(choices)]
    table = read_one(log(log_rows))
    assert table.label_names == ("A", "B", "C")
    assert "A is the first choice of each row" in notes(table)
    assert table.blocks["test"].labels.tolist() == [0, 1, 2, 0, 1]


def test_a_place_that_tells_the_answer_is_said(log):
    log_rows = [row(i, (-13.0 + i, -2.0), (f"a{i}", f"b{i}"), target=0) for i in range(10)]
    assert "right choice is A in every row" in notes(read_one(log(log_rows)))


def test_the_same_choice_twice_is_no_name(log):
    assert read_one(log([row(i, choices=("x", " x")) for i in range(2)])).label_names == ("A", "B")


def test_choices_of_varied_number_are_refused_or_grouped(log):
    sizes = enumerate((2, 3, 2, 3, 2))
    path = log([row(i, (-1.0, -2.0, -3.0)[:k], "abc"[:k], target=i % k) for i, k in sizes])
    message = refused(path)
    assert "2 in 3 rows, 3 in 2 rows" in message and "by='choices'" in message
    two, three = importers.read(path, Reading(by=("choices",)))
    assert (two.label_names, three.label_names) == (("a", "b"), ("a", "b", "c"))
    assert two.blocks["test"].row_ids == ("0", "2", "4")
    assert (two.context["task"], three.context["task"]) == ("toy 2", "toy 3")


def test_rows_are_grouped_by_a_field_of_their_documents(log, refuses):
    log_rows = rows()
    for line in log_rows:
        line["arguments"] += [["", f"{line['doc_id']} no"], ["", "yes"]]
        line["filtered_resps"] += [[-0.5 - line["doc_id"], False], [-0.25, False]]
    path = log(log_rows)
    even, odd = importers.read(path, Reading(by=("subject",)))
    assert even.context["task"] == "toy even" and odd.blocks["test"].row_ids == ("1", "3", "5")
    assert odd.blocks["pmi"].log_probs[:, 0].tolist() == [-1.5, -3.5, -5.5]
    assert importers.read(path, Reading(by=("doc.subject",)))[0].context["task"] == "toy even"
    assert "'level'" in str(refuses(read_one, path, by=("level",)))


def test_labels_are_chosen_and_ordered(log, refuses):
    path = log([row(i, (-1.0, -2.0, -3.0), ("a", "b", "c"), target=2 * (i % 2)) for i in range(3)])
    table = read_one(path, labels=("c", "a"))
    assert table.label_names == ("c", "a")
    assert table.blocks["test"].log_probs[0].tolist() == [-3.0, -1.0]
    assert table.blocks["test"].labels.tolist() == [1, 0, 1]
    for labels, got in ((("a", "d"), "'d'"), (("a", "b"), "label is 'c'")):
        assert got in str(refuses(read_one, path, labels=labels))


def test_rows_that_repeat_per_filter_are_kept_once(log, refuses):
    once = rows()
    assert len(read_one(log(once + rows())).blocks["test"].row_ids) == 6
    assert "names no filters" in str(refuses(read_one, log(once), filter="none"))
    named = [{**line, "filter": name} for name in ("none", "other") for line in rows()]
    assert len(read_one(log(named)).blocks["test"].row_ids) == 6
    named[-1]["filtered_resps"] = [[-9.0, False], [-1.0, False]]
    error = refuses(read_one, log(named))
    assert "doc_id 5" in str(error) and "filter='none' or filter='other'" in str(error)
    assert read_one(log(named), filter="other").blocks["test"].log_probs[5].tolist() == [-9.0, -1.0]
    assert refuses(read_one, log(named), filter="oter").got == "oter"


def test_an_accuracy_that_counts_something_else_is_said(log):
    log_rows = [row(i, (-1.0, -2.0), target=0, acc=float(i != 1)) for i in range(4)]
    message = notes(read_one(log(log_rows)))
    assert "log's own accuracy is 75.0 %, the highest score gives 100.0 %" in message
    assert "1 of 4 rows" in message
    log_rows = [row(i, (-1.0, -2.0), target=0, acc=0.3) for i in range(4)]
    assert "own accuracy" not in notes(read_one(log(log_rows)))


def test_results_of_0_4_0_stand_beside(log, tmp_path):
    configs = {"toy_a": {"dataset_path": "glue", "dataset_name": "sst2"}, "a": {}}
    config = {"model": "hf", "model_args": "pretrained=org/m,dtype=float32"}
    results = {"results": {}, "configs": configs, "n-shot": {"toy_a": 3}, "config": config}
    (tmp_path / "results.json").write_text(json.dumps(results))
    table = read_one(log(a_list(rows()), "pretrained__org__m_toy_a.jsonl"))
    expected = {"task": "toy_a", "model": "org/m", "data": "glue sst2", "shots": 3}
    assert {key: table.context[key] for key in expected} == expected
    named = read_one(log(rows(), "x.jsonl"), task="mine", model="ours")
    assert (named.context["task"], named.context["model"]) == ("mine", "ours")


@pytest.mark.parametrize("content", ["[1]", "{", "\ufeff{}", '{"configs": 3, "config": [1]}'])
def test_results_are_never_demanded(content, log, tmp_path):
    path = log(rows())
    path.with_name("results_2026-11-21T00-10-36.197808.json").write_text(content)
    assert read_one(path).context["task"] == "toy"


def test_results_in_place_of_samples(log):
    message = refused(log('{"results": {"a": {}}}', "results_x.json"))
    assert "averages" in message and "samples_*.jsonl" in message


OF_TEXTS = {"gen_args_0": {"arg_0": "a long text"}}


@pytest.mark.parametrize(
    ("arguments", "answers", "got"),
    [
        ([["Q", {"until": ["\n"]}]], ["four"], "generate_until"),
        ([["Q", " x"]], ["four"], "generate_until"),
        (OF_TEXTS, ["-31.2"], "loglikelihood_rolling"),
        ([["Q", " x"]], ["-31.2"], "1 of 1 rows"),
    ],
)
def test_a_log_of_other_kinds_is_refused(arguments, answers, got, log, refuses):
    path = log([row(0) | {"arguments": arguments, "filtered_resps": answers}])
    assert got in str(refuses(read_one, path))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), "nan", "-inf"])
def test_a_number_that_is_not_finite_is_refused(number, log, refuses):
    error = refuses(read_one, log([row(0), row(1, (-1.0, number))]))
    assert error.where.endswith("line 2") and error.got.startswith(str(number))


@pytest.mark.parametrize(("number", "got"), [(0.0, "score is 0"), (-9999.0, "has -9999 as")])
def test_servers_that_do_not_score_are_refused(number, got, log, refuses):
    path = log([row(i, (number, number)) for i in range(4)])
    assert got in str(refuses(read_one, path))


def test_minus_infinity_is_taken_where_a_rule_is_given(log):
    table = read_one(log([row(0), row(1, (-1.0, float("-inf")))]), missing="least")
    np.testing.assert_allclose(table.blocks["test"].log_probs[1], [-1.0, -1.0 - BELOW])


def test_files_of_other_systems_are_read(log):
    raw = lines(rows()).encode()
    expected = read_one(log(raw)).blocks["test"].log_probs
    for data in (b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"\r\n"), b"\n\n" + raw + b"\n"):
        np.testing.assert_array_equal(read_one(log(data)).blocks["test"].log_probs, expected)
    listed = b"\xef\xbb\xbf" + a_list(rows()).encode().replace(b"\n", b"\r\n")
    np.testing.assert_array_equal(read_one(log(listed)).blocks["test"].log_probs, expected)


def test_what_is_cut_short_or_damaged_is_refused(log, refuses):
    raw = lines(rows())
    assert refuses(read_one, log(raw[:-40])).where.endswith("line 6")
    assert "row 6" in str(refuses(read_one, log(a_list(rows())[:-40])))
    listed = '[{"doc_id": 0, "arguments": [["a", "b"]], "resps": [[[-1]]]}, 3]'
    assert refuses(read_one, log(listed)).got == "'3]'"
    first, long = lines(rows(1)).encode(), b'{"doc_id": 1, "doc": "' + b"x" * 10_000_000
    for line in (b"}{\n" + first, b"\xff\xfe", b'{"a": "\\ud800"}', b"[3]", b"[" * 99_999, long):
        error = refuses(read_one, log(first + line + b"\n"))
        assert "line 2" in error.where or "UTF-8" in error.expected
        assert len(str(error)) < 1000
    assert refuses(read_one, log(""), format="lm_eval").got == "none"
    absent = log("").with_name("x.jsonl")
    assert "No such file" in str(refuses(read_one, absent, format="lm_eval"))


OTHER_FORMS = [({"doc_id": None}, "['doc'"), ({"arguments": None}, "['doc_id'")]
OTHER_FORMS += [({"arguments": 3}, "3"), ({"arguments": [3, 3]}, "3")]
OTHER_FORMS += [({"arguments": [[1, 2], [3, 4]]}, "[1, 2]")]
OTHER_FORMS += [({"filtered_resps": [["-1", "False"]], "resps": []}, "1")]
OTHER_FORMS += [({"filtered_resps": [True, True]}, "True")]
OTHER_FORMS += [({"filtered_resps": [10**400, 0]}, "inf")]


@pytest.mark.parametrize(("change", "got"), OTHER_FORMS)
def test_a_line_of_another_form_is_refused(change, got, log, refuses):
    line = {key: value for key, value in (row(0) | change).items() if value is not None}
    error = refuses(read_one, log([line]), format="lm_eval")
    assert error.where.endswith("line 1") and error.got.startswith(got)


def test_a_long_log_is_read_line_by_line(tmp_path):
    path = tmp_path / "samples_long.jsonl"
    n, size = 400, 100_000
    with path.open("w") as file:
        for i in range(n):
            line = since_0_4_9(row(i, (-1.0 - i % 3, -2.0), head="x" * 100))
            line["doc"]["passage"] = f"{i} " * (size // 4)
            file.write(json.dumps(line) + "\n")
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    tables = lm_eval.read(path, Reading())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(tables[0].log_probs) == n and most < 8_000_000


ANEW = [f"Q: {i}?\nA: no\n\nQ: {i + 1}?\nA: yes\n\nQ: {i + 2}?\nA:" for i in range(20)]
SAME = [f"{HEAD}Q: {i}?\nA:" for i in range(20)]
NO_LINE = [f"{i} goes to sea. {i + 1} goes to town. {i * i} goes to" for i in range(2, 20)]


SHORT, NUMBERED = [f"Q: {i}?\nA:" for i in range(20)], [f"{i}\n\nsee {i}?\nA:" for i in range(20)]
DIFFER = [(NO_LINE, 2, True), (ANEW[:1], 2, False), (SHORT, None, False), (NUMBERED, 0, False)]
for prompts, differ in ((ANEW, True), (SAME, False)):
    DIFFER += [(prompts, 2, differ), (prompts, None, differ)]
    DIFFER += [([f"Be brief.\n\n{prompt}" for prompt in prompts], 2 if differ else None, differ)]
    DIFFER += [([f"{prompt} so {i}" for i, prompt in enumerate(prompts)], 2, differ)]
    DIFFER += [([prompt.replace("\n", " ") for prompt in prompts], None, differ)]


@pytest.mark.parametrize(("prompts", "shots", "differ"), DIFFER)
def test_whether_prompts_are_one_context(prompts, shots, differ):
    notes = note_differing_demonstrations(prompts, shots, "do so.")
    assert len(notes) == differ and all(note.endswith("do so.") for note in notes)


@pytest.mark.parametrize(
    ("full_name", "name"),
    [("meta/llama", "meta/llama"), ("/data/run/last", "run/last"), ("./run/last", "./run/last")],
)
def test_a_model_in_a_folder_has_the_end_of_its_path_as_name(full_name, name):
    assert lm_eval._model({"model_name": full_name}, {}) == name
