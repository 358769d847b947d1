"""A judge of pairs: planted preferences and win rates, both orders, people's labels, files."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from batch_calibration.cli import judging, run
from batch_calibration.integrations import judges as judge
from batch_calibration.integrations.judges import read_judgments
from experiments.evidence import judge as evidence


def planted(preference, worth, pairs=400, both_orders=False, seed=0):
    """A judge that prefers the first place by so many nats, and a candidate of some worth."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(worth, 1.5, pairs)
    is_first = random.random(pairs) < 0.5
    question = np.arange(pairs)
    if both_orders:
        log_odds, question = np.tile(log_odds, 2), np.tile(question, 2)
        is_first = np.concatenate([is_first, ~is_first])
    margins = preference + np.where(is_first, log_odds, -log_odds)
    zeros = np.zeros(len(margins), int)
    return judge.Judgments(margins, is_first, zeros, question, zeros - 1, ("a",)), log_odds


def test_both_orders_take_the_preference_out_and_show_flips():
    judgments, log_odds = planted(-2.0, 0.5, both_orders=True)
    pairs = judge.swap_pairs(judgments)
    assert len(pairs.rows) == 400
    in_order = log_odds[pairs.rows[:, 0]]
    np.testing.assert_allclose(pairs.log_odds, in_order)
    np.testing.assert_array_equal(pairs.is_flipped, np.abs(in_order) < 2.0)
    # A judge without noise of its own says the same twice: a swapped pair is worth one call.
    assert judge.calls_per_swap(judgments, pairs) == pytest.approx(1.0, abs=0.1)


def test_the_place_that_people_prefer_is_the_candidate_s_by_the_order(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = ["true,first", "false,first", "true,second", "false,Second", "false,candidate"]
    path.write_text("candidate_first,human,p_first\n" + "".join(f"{row},0.4\n" for row in rows))
    assert read_judgments([path]).human.tolist() == [1, 0, 0, 1, 1]


def test_people_s_answers_that_contradict_each_other_are_said():
    judged, _ = planted(0.5, 1.0, pairs=20, both_orders=True)
    human = np.repeat([1, 0], 20)
    human[5:20], human[25] = -1, 1
    judged = judged._replace(human=human)
    lines = judging.sentences(judged, judge.swap_pairs(judged))
    assert "People's answers to 5 of these" in " ".join(lines)
    lines = judging.sentences(planted(0.5, 1.0)[0], judge.swap_pairs(judged))
    assert "contradict" not in " ".join(lines)


def test_the_preference_is_the_mean_of_both_places_means():
    """By loops: with 72 % shown first the mean of all margins takes worth for a preference."""
    random = np.random.default_rng(3)
    log_odds, is_first = random.normal(-2.0, 1.5, 4000), random.random(4000) < 0.72
    margins = -1.0 + np.where(is_first, log_odds, -log_odds)
    margins[5] = np.nan
    candidate = np.arange(4000) % 2
    others = candidate, np.arange(4000), np.full(4000, -1), ("a", "b")
    judgments = judge.Judgments(margins, is_first, *others)
    corrected = judge.remove_preference(judgments)
    for own in (0, 1):
        of_place = []
        for first in (True, False):
            rows = [i for i in range(4000) if candidate[i] == own and is_first[i] == first]
            of_place.append(np.mean([margins[i] for i in rows if not np.isnan(margins[i])]))
        removed = (margins - corrected)[(candidate == own) & ~np.isnan(margins)]
        np.testing.assert_allclose(removed, np.mean(of_place))
        assert np.mean(of_place) == pytest.approx(-1.0, abs=0.15)
    rate = judge.win_rate(judge.candidate_log_odds(corrected, is_first))
    assert rate.value == pytest.approx(expit(log_odds).mean(), abs=0.01)


def test_the_console_prints_the_figures_of_the_evidence(shared, tmp_path, capsys):
    judgments = evidence.read_judgments(shared / "scores")
    path = tmp_path / "judge.jsonl"
    lines = []
    for number in range(0, 60, 12):
        for question, margin in enumerate(judgments.margins[number]):
            row = {"candidate": f"{number:02}", "question": question}
            row["candidate_first"] = bool(judgments.is_first[question])
            row["log_odds_first"] = None if np.isnan(margin) else margin
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines))
    run(["judge", str(path), f"--output={tmp_path / 'rates.csv'}"])
    assert "prefers the answer shown second by" in capsys.readouterr().out
    margins = judgments.margins[::12]
    first = judgments.is_first
    by_place = [np.nanmean(margins[:, rows], axis=1, keepdims=True) for rows in (first, ~first)]
    corrected = margins - np.mean(by_place, axis=0)
    rates = evidence.win_rates(corrected, judgments.is_first)
    written = pd.read_csv(tmp_path / "rates.csv")  # plain numbers alone, and the candidates' names
    assert {str(kind) for kind in written.drop(columns="candidate").dtypes} <= {"int64", "float64"}
    assert (written["corrected_low"] <= written["corrected"]).all()
    places = written[["after_first", "after_second"]].to_numpy()[1:]
    np.testing.assert_allclose(places, rates, atol=0.0051)


def test_files_of_alpaca_eval_and_tables(tmp_path):
    path = tmp_path / "annotations.json"
    row = {"instruction": "Say hello", "generator_2": "m", "preference": 1.9}
    rows = [row, {**row, "is_switched_outputs": True}, {**row, "preference": None}]
    path.write_text(json.dumps(rows))
    judgments = read_judgments([path])
    assert judgments.names == ("m",) and np.isnan(judgments.margins[2]) and judgments.is_first[1]
    wins = judge.candidate_log_odds(judgments.margins, judgments.is_first)[:2]
    np.testing.assert_allclose(wins, np.log(9.0))
    # The rule of its own depends on the instruction alone.
    assert judgments.is_first[0] == judgments.is_first[2]
    table = tmp_path / "pairs.csv"
    table.write_text("candidate_first,p_first,human\ntrue,0.25,1\nfalse,0.5,\n")
    read = read_judgments([table])
    np.testing.assert_allclose(read.margins, [-np.log(3.0), 0.0])
    assert read.human.tolist() == [1, -1]


def test_what_is_no_judgment_is_a_sentence(tmp_path, refuses):
    path, head = tmp_path / "pairs.csv", "p_first,candidate_first\n"
    odds = head.replace("p_", "log_odds_", 1)
    texts = ["a,b\n1,2\n", "p_first\n0.5\n", "", head, f"{odds}inf,true\n", f"{odds},true\n"]
    texts += [head + row for row in ("2,true\n", "x,true\n", "0.5,maybe\n")]
    found = []
    for text in texts:
        path.write_text(text)
        found.append(refuses(read_judgments, [path]).got)
    assert found[:4] == ["['a', 'b']", "['p_first']", "nothing", "none"]
    assert found[4:] == ["'inf'", "none in any row", "2 to 2", "'x'", "'maybe'"]


def test_answers_with_line_ends_are_one_row(tmp_path):
    answer = 'first line\nsecond, "quoted"\u2028third'
    rows = [{"p_first": 0.25, "candidate_first": i, "answer": answer} for i in (0, 1)]
    table, lines = tmp_path / "pairs.csv", tmp_path / "pairs.jsonl"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows)
    lines.write_bytes(text.encode())
    for path in (table, lines):
        judgments = read_judgments([path])
        np.testing.assert_allclose(expit(judgments.margins), 0.25)
        assert judgments.is_first.tolist() == [False, True]


def write_pairs(path, margins, key="log_odds_first"):
    lines = []
    for number, margin in enumerate(margins):
        is_first = number % 2 == 0
        pair = {"question": number // 2, "candidate": "a", "candidate_first": is_first, key: margin}
        lines.append(json.dumps(pair))
    path.write_text("\n".join(lines))


def test_verdicts_are_not_taken_for_strengths(tmp_path, capsys):
    write_pairs(tmp_path / "hard.jsonl", [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], "p_first")
    run(["judge", str(tmp_path / "hard.jsonl")])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "All 8 scores have the same size: they are verdicts" in text
        and "nats, a factor" not in text
    )
    assert "The answer shown first wins 75.0 % of the pairs;" in text


def test_ties_among_verdicts_leave_them_verdicts(tmp_path, capsys):
    write_pairs(tmp_path / "ties.jsonl", [1.0, 1.0, 0.5, 0.0, 1.0, 0.5, 1.0, 0.5], "p_first")
    # Shown first the candidate wins 3.5 of 4 (at the odds of one in a thousand), second 2 of 4.
    run(["judge", str(tmp_path / "ties.jsonl")])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "All 5 scores have the same size: they are verdicts" in text
        and "nats, a factor" not in text
    )
    assert "wins 68.8 % of the pairs (3 ties count as half)" in text
    assert "87.4 / 50.0" in text


def test_probabilities_that_are_called_log_odds_are_refused(tmp_path, refuses):
    path = tmp_path / "pairs.jsonl"
    write_pairs(path, np.linspace(0.05, 0.95, 12).tolist())
    assert "0.05 to 0.95" in refuses(read_judgments, [path]).got
    write_pairs(path, np.linspace(0.05, 1.95, 12).tolist())
    assert read_judgments([path]).margins.max() == 1.95


def test_what_one_question_or_one_place_cannot_tell_is_refused_before_a_word(tmp_path, capsys):
    write_pairs(tmp_path / "one.jsonl", [0.5, -0.25])
    with pytest.raises(SystemExit):
        run(["judge", str(tmp_path / "one.jsonl")])
    said = capsys.readouterr()
    assert "two or more questions; got 1" in said.err and "prefers" not in said.out
    write_pairs(tmp_path / "three.jsonl", [0.5, -0.25, 0.75])
    run(["judge", str(tmp_path / "three.jsonl")])
    assert "nan" not in capsys.readouterr().out


def test_the_line_that_help_shows_is_read(tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(["judge", "--help"])
    text = capsys.readouterr().out
    line = " ".join(text[text.index("{") : text.index("}") + 1].split())
    lines = [line, line.replace("true", "false").replace("7", "8", 1)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    judged = read_judgments([tmp_path / "pairs.jsonl"])
    assert judged.margins.tolist() == pytest.approx([0.7, 0.7]) and judged.names == ("mine",)
    # The answer shown first is the candidate's in one of them.
    assert judged.human.tolist() == [1, 0]
