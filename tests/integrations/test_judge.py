"""A judge of pairs: planted preferences and win rates, both orders, people's labels, files."""

import csv
import json
from itertools import product

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
    assert "The answer shown first wins 75.0 [29.1, 100.0] % of the pairs. No verdict" in text
    assert "corrected calls" not in text and "pooled" not in text  # both would need strengths


def test_ties_among_verdicts_leave_them_verdicts(tmp_path, capsys):
    write_pairs(tmp_path / "ties.jsonl", [1.0, 1.0, 0.5, 0.0, 1.0, 0.5, 1.0, 0.5], "p_first")
    # Shown first the candidate wins 3.5 of 4, second 2 of 4.
    run(["judge", str(tmp_path / "ties.jsonl")])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "All 5 scores have the same size: they are verdicts" in text
        and "nats, a factor" not in text
    )
    assert "wins 68.8 [18.7, 100.0] % of the pairs (3 ties count as half)" in text
    assert "87.5 / 50.0" in text


@pytest.mark.parametrize("words", [("A", "B", "tie"), ("second", "first", "Tie")])
def test_verdicts_in_words_of_both_orders(words, tmp_path, capsys, refuses):
    """Shares, flips, ties and agreed wins by hand, of 30 questions in both orders."""
    verdicts = np.random.default_rng(3).integers(0, 3, (30, 2))  # 0: shown first, 1: second, 2: tie
    named = words if words[0] == "A" else (words[1], words[0], words[2])
    lines = []
    for question, order in product(range(30), (0, 1)):
        winner = named[verdicts[question, order]]
        lines.append({"question": question, "candidate_first": order == 0, "winner": winner})
    path = tmp_path / "words.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    run(["judge", str(path), f"--output={tmp_path / 'rates.csv'}"])
    text = " ".join(capsys.readouterr().out.split())
    score = np.array([1.0, 0.0, 0.5])[verdicts]
    wins = np.stack([score[:, 0], 1 - score[:, 1]], axis=1)  # of the candidate
    agreed = wins[(wins[:, 0] == wins[:, 1]) & (wins[:, 0] != 0.5) | (verdicts == 2).all(axis=1), 0]
    flipped = (np.abs(wins[:, 0] - wins[:, 1]) == 1).mean()
    assert f"The answer shown first wins {100 * score.mean():.1f} [" in text
    assert f"{100 * flipped:.1f} % change the preferred answer" in text
    (row,) = csv.DictReader((tmp_path / "rates.csv").read_text().splitlines())
    for column, expected in (("as_judged", wins), ("both_orders", wins), ("agreed", agreed)):
        assert float(row[column]) == pytest.approx(100 * expected.mean(), abs=0.01)
    assert float(row["agreed_low"]) < float(row["agreed"]) < float(row["agreed_high"])
    odd = [line | {"winner": "cannot decide"} if line["question"] == 3 else line for line in lines]
    path.write_text("\n".join(map(json.dumps, odd)))
    error = refuses(read_judgments, [path])
    assert error.got == "['cannot decide']" and error.where.endswith(": winner")
    empty = [line | {"winner": ""} if line["question"] == 3 else line for line in lines]
    path.write_text("\n".join(map(json.dumps, empty)))
    assert len(read_judgments([path]).margins) in (58, 60)
    two = [line | {"choice": line["winner"]} for line in lines]
    path.write_text("\n".join(map(json.dumps, two)))
    assert refuses(read_judgments, [path]).expected == "one column of verdicts"


def test_verdicts_for_the_candidate_are_those_of_its_position(tmp_path):
    rows, margins = [], []
    for words in (("first", "second"), ("candidate", "reference")):
        path = tmp_path / f"{words[0]}.jsonl"
        for i in range(8):
            shown_first = (i // 2 + i) % 2 == 0
            is_won = i % 3 > 0
            index = int(not is_won) if words[0] == "candidate" else int(is_won != shown_first)
            rows.append({"question": i, "candidate_first": shown_first, "verdict": words[index]})
        path.write_text("\n".join(map(json.dumps, rows[-8:])))
        margins.append(read_judgments([path]).margins)
    np.testing.assert_allclose(margins[0], margins[1])


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


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def both_orders(pairs, **others):
    """Rows of pairs that were judged in both orders, with the scores of each order by key."""
    rows = []
    for question, scores in enumerate(pairs):
        for is_first, score in zip((True, False), scores, strict=True):
            rows.append({"question": question, "candidate_first": is_first, **score, **others})
    return rows


@pytest.mark.parametrize(
    ("key", "first", "tie", "word"),
    [("p_first", 0.8, 0.5, "tie"), ("log_odds_first", 2.5, 0.0, " Tied"),
     ("p_candidate", 0.9, 0.5, "TIE"), ("preference", 1.7, 1.5, "ties")],
)  # fmt: skip
def test_a_tie_in_one_order_is_no_flip(tmp_path, capsys, key, first, tie, word):
    one, other = first, 2 * tie - first
    swapped = key in ("p_candidate", "preference")  # scores of the candidate, not of a position
    flip = (one, other if swapped else one)
    same = (one, one if swapped else other)
    pairs = [(tie, one), flip, same, (tie, word), (other, word)]
    rows = both_orders([[{key: score} for score in scores] for scores in pairs])
    path = write_rows(tmp_path / "ties.jsonl", rows)
    swaps = judge.swap_pairs(read_judgments([path]))
    assert swaps.is_flipped.tolist() == [False, True, False, False, False]
    assert swaps.is_tied.tolist() == [True, False, False, False, True]
    run(["judge", str(path)])
    text = " ".join(capsys.readouterr().out.split())
    assert "20.0 % change the preferred answer" in text
    assert "40.0 % have a tie in one order" in text


def test_a_third_probability_is_of_ties(tmp_path, refuses):
    shares = [(0.3, 0.1, 0.6), (0.48, 0.32, 0.2), (0.0, 0.25, 0.75), (0.35, 0.35, 0.3)]
    rows = [
        {"p_first": a, "p_second": b, "p_tie": tie, "candidate_first": True} for a, b, tie in shares
    ]
    expected = [np.log(3.0), np.log(1.5), np.log(0.1 / 0.25), 0.0]  # 0 becomes the smallest, 0.1
    judged = read_judgments([write_rows(tmp_path / "all.jsonl", rows)])
    np.testing.assert_allclose(judged.margins, expected, atol=1e-12)
    assert judged.is_tie.tolist() == [True, False, True, True]
    without = [{key: row[key] for key in row if key != "p_second"} for row in rows]
    judged = read_judgments([write_rows(tmp_path / "rest.jsonl", without)])
    np.testing.assert_allclose(judged.margins, expected, atol=1e-12)
    names = {"p_first": "p_candidate", "p_second": "p_reference"}
    of_candidate = [{names.get(key, key): row[key] for key in row} for row in rows]
    for row in of_candidate:
        row["candidate_first"] = False
    judged = read_judgments([write_rows(tmp_path / "candidate.jsonl", of_candidate)])
    np.testing.assert_allclose(judged.margins, -np.array(expected), atol=1e-12)
    # Probabilities of separate questions have a sum above 1; both remedies are followed.
    rows = [{**row, "p_tie": row["p_tie"] + 0.5} for row in rows]
    error = refuses(read_judgments, [write_rows(tmp_path / "above.jsonl", rows)])
    assert error.remedy == "divide them by their sum, or remove p_second and p_tie"
    keys = ("p_first", "p_second", "p_tie")
    divided = [{**row, **{key: row[key] / sum(map(row.get, keys)) for key in keys}} for row in rows]
    judged = read_judgments([write_rows(tmp_path / "divided.jsonl", divided)])
    np.testing.assert_allclose(judged.margins[:2], expected[:2])
    removed = [{key: row[key] for key in ("p_first", "candidate_first")} for row in rows]
    judged = read_judgments([write_rows(tmp_path / "removed.jsonl", removed)])
    assert judged.margins[1] == pytest.approx(np.log(0.48 / 0.52))


def judged_by(column, names, is_shared, questions=60, seed=4):
    """Rows of judges with preferences of 2, -1, -4 nats; each question has one judge or all."""
    random, rows = np.random.default_rng(seed), []
    for question in range(questions):
        worth = float(random.normal(0.7, 0.5))
        for number, name in enumerate(names):
            if is_shared or question % len(names) == number:
                is_first = bool((question // len(names) + number) % 2)
                margin = 2.0 - 3.0 * number + (worth if is_first else -worth)
                row = {"question": question, "candidate_first": is_first}
                rows.append({**row, "log_odds_first": margin, column: name})
    return rows


@pytest.mark.parametrize(
    ("column", "is_shared"),
    [("judge", False), ("annotator", True), ("judge_model", False), ("model", True),
     ("evaluator", True), ("prompt_version", True)],
)  # fmt: skip
def test_each_judge_has_its_own_preference(tmp_path, capsys, column, is_shared):
    rows = judged_by(column, ("x", "y", "z"), is_shared)
    path = write_rows(tmp_path / "judges.jsonl", rows)
    judged = read_judgments([path])
    assert judged.names == tuple(f"candidate, {column} {name}" for name in "xyz")
    shared = judge.remove_preference(judged, by_candidate=False)
    np.testing.assert_array_equal(shared, judge.remove_preference(judged))
    for number, name in enumerate("xyz"):
        of_place = {True: [], False: []}
        for row in rows:
            if row[column] == name:
                of_place[row["candidate_first"]].append(row["log_odds_first"])
        preference = np.mean([np.mean(of_place[True]), np.mean(of_place[False])])
        margins = judged.margins[judged.judge == number]
        removed = margins - shared[judged.judge == number]
        np.testing.assert_allclose(removed, preference)
    run(["judge", str(path)])
    said = capsys.readouterr()
    text = " ".join(said.out.split())
    assert f"The judge ({column} z) prefers the answer shown second by {-preference:.2f}" in text
    assert f"Each value of {column!r} is read as a judge" in " ".join(said.err.split())
    assert "have the same name" not in text


def test_columns_that_are_no_judges(tmp_path):
    rows = judged_by("judge", ("x", "y"), is_shared=True)
    random = np.random.default_rng(0)
    for number, row in enumerate(rows):
        # The winner, a name for each row, a number of tokens, and one value.
        row |= {"winner": "AB"[row["log_odds_first"] > 0], "annotator": f"person {number}"}
        row |= {"tokens": int(random.integers(200, 260)), "model": "m"}
    judged = read_judgments([write_rows(tmp_path / "pairs.jsonl", rows)])
    assert judged.judges == ("judge x", "judge y")
    for row in rows:
        del row["judge"]
    judged = read_judgments([write_rows(tmp_path / "pairs.jsonl", rows)])
    assert judged.judges == ("",)
    listed = "['winner', 'annotator', 'tokens', 'model']"
    assert judged.notes == (f"Columns that are not read: {listed}.",)
    # A second name of the candidate is no judge.
    for number, row in enumerate(rows):
        row |= {"candidate": "ab"[number % 2], "model": ("llama", "qwen")[number % 2]}
    judged = read_judgments([write_rows(tmp_path / "pairs.jsonl", rows)])
    assert judged.names == ("a", "b")


@pytest.mark.parametrize("orders", [("AB", "BA"), ("A-B", "B-A"), ("1,2", "2,1"), ("12", "21")])
@pytest.mark.parametrize("names", [("logprob_A", "logprob_B"), ("lp.first", "lp.second")])
def test_log_probabilities_and_an_order(tmp_path, orders, names):
    rows = [",".join(["question", "shown", *names, "length"])]
    for question, (first, second) in enumerate([(-0.25, -1.5), (-2.0, -0.125)]):
        rows += [f'{question},"{orders[question]}",{first},{second},7']
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join([*rows, ""]))
    judged = read_judgments([path])
    assert judged.margins.tolist() == [1.25, -1.875]
    assert judged.is_first.tolist() == [True, False]
    assert judged.notes[0].endswith("log-probability of the answer shown first.")


def test_log_probabilities_of_candidates_and_of_unknown_names(tmp_path, refuses):
    path = tmp_path / "pairs.csv"
    body = "\ntrue,-0.25,-1.5\nfalse,-0.25,-1.5\n"
    path.write_text(f"candidate_first,lp_candidate,lp_reference{body}")
    assert read_judgments([path]).margins.tolist() == [1.25, -1.25]
    path.write_text(f"candidate_first,lp_yes,lp_no{body}")
    error = refuses(read_judgments, [path])
    assert "logprob_A and logprob_B" in error.expected and error.remedy == "rename a column"
    path.write_text(f"candidate_first,logprob_A,logprob_B{body}")
    assert read_judgments([path]).margins.tolist() == [1.25, 1.25]


def by_verdict(grade):
    return 0.5 + 0.5 * np.sign(grade - 3)


def by_odds(log_odds):
    return 1 / (1 + np.exp(-log_odds))


@pytest.mark.parametrize(
    ("key", "numbers", "remedy"),
    [("preference", [1, 4, 5, 2, 3] * 6, by_verdict), ("p_first", [1, 4, 5, 2, 3] * 6, by_verdict),
     ("log_odds_first", [1, 4, 5, 2, 3] * 6, by_verdict),
     ("log_odds_first", [1.5, 4.25, 0.5, 3.0] * 8, by_odds),
     ("log_odds_first", [-1.5, -4.25, -0.5, -3.0] * 50 + [0.25, 0.0], by_odds),
     ("log_odds_first", [-1.5, -0.125, -0.5, -3.0] * 8, np.exp),
     ("log_odds_first", [0.125, 0.5, 0.75, 1.0] * 8, float),
     ("p_first", [63.5, 20.0, 99.5, 50.0] * 2, lambda percent: percent / 100),
     ("p_candidate", [-1.5, -0.25, 0.5, 3.0] * 2, by_odds)],
)  # fmt: skip
def test_other_numbers_are_refused_and_the_remedy_is_read(tmp_path, refuses, key, numbers, remedy):
    path = tmp_path / "pairs.jsonl"
    write_pairs(path, numbers, key)
    error = refuses(read_judgments, [path])
    assert error.where.endswith(f"row 1: {key}")
    assert error.got == f"{min(numbers):g} to {max(numbers):g}"
    assert "grades" in error.remedy and "p_first" in error.remedy
    probs = [float(remedy(number)) for number in numbers]
    write_pairs(path, probs, "p_first")
    is_inside = (np.array(probs) > 0) & (np.array(probs) < 1)
    read = expit(read_judgments([path]).margins)
    np.testing.assert_allclose(read[is_inside], np.array(probs)[is_inside])


def test_a_strong_preference_with_some_of_the_other_sign_is_read(tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", [*([2.5, 1.25] * 20), -0.25, -0.5])
    assert len(read_judgments([tmp_path / "pairs.jsonl"]).margins) == 42


def test_scores_that_contradict_each_other(tmp_path, refuses):
    path = tmp_path / "pairs.jsonl"
    rows = both_orders([[{"log_odds_first": 2.0, "p_first": 0.88}] * 2] * 3)
    assert read_judgments([write_rows(path, rows)]).margins.tolist() == [2.0] * 6
    rows[3]["p_first"] = 0.12
    error = refuses(read_judgments, [write_rows(path, rows)])
    assert error.where.endswith("row 4: p_first") and "2.00 nats" in error.expected
    assert error.remedy == "remove the column that is wrong"
    for key, margin in (("p_first", 2.0), ("log_odds_first", np.log(0.12 / 0.88))):
        kept = [{name: row[name] for name in row if name != key} for row in rows]
        margins = read_judgments([write_rows(path, kept)]).margins
        assert margins[3] == pytest.approx(margin)
    # Verdicts have no strengths; texts and grades under another name are not read.
    for others in ({"p_first": 1}, {"preference": "A"}, {"preference": 4}):
        rows = both_orders([[{"log_odds_first": 0.25, **others}] * 2] * 3)
        assert read_judgments([write_rows(path, rows)]).margins.tolist() == [0.25] * 6


def test_weights_that_differ_are_refused(tmp_path, refuses):
    path = tmp_path / "pairs.jsonl"
    rows = both_orders([[{"p_first": 0.75}] * 2] * 3, weight=2)
    read_judgments([write_rows(path, rows)])
    rows[1]["weight"] = 1
    error = refuses(read_judgments, [write_rows(path, rows)])
    assert error.where.endswith("weight")
    assert error.remedy == "remove the column: each pair then counts once"
    for row in rows:
        del row["weight"]
    read_judgments([write_rows(path, rows)])


def test_people_s_ties_are_no_labels(tmp_path):
    rows = both_orders([[{"p_first": 0.75}] * 2] * 2, human="tie")
    rows[0]["human"] = "second"
    judged = read_judgments([write_rows(tmp_path / "pairs.jsonl", rows)])
    assert judged.human.tolist() == [0, -1, -1, -1]


def test_a_shared_correction_that_turns_a_comparison_is_said(tmp_path, capsys):
    """By hand: "a" is first in 7 of 10 pairs and worth 0, "b" in 3 of 10 and worth 0.5 nats."""
    rows = []
    for name, firsts, worth in (("a", 7, 0.0), ("b", 3, 0.5)):
        for number in range(10):
            is_first = number < firsts
            margin = 2.0 + (worth if is_first else -worth)
            row = {"candidate": name, "question": f"{name}{number}", "candidate_first": is_first}
            rows.append({**row, "log_odds_first": margin + 0.01 * (number % 3 - 1)})
    for row in rows[:1]:
        row["log_odds_first"] = -0.1  # log-odds have both signs
    run(["judge", str(write_rows(tmp_path / "pairs.jsonl", rows))])
    text = " ".join(capsys.readouterr().out.split())
    of_a, of_b = np.repeat([2.0, -2.0], [7, 3]), np.repeat([2.5, -1.5], [3, 7])
    of_a[0] = -0.1
    before = " and ".join(f"{100 * expit(part).mean():.1f}" for part in (of_a, of_b))
    assert "turns comparisons of two candidates, 1 in all, such as 'a' and 'b'" in text
    assert f"'a' and 'b': {before} % as judged" in text
    rows = [{**row, "candidate": "a"} for row in rows]
    run(["judge", str(write_rows(tmp_path / "pairs.jsonl", rows))])
    assert "turns" not in capsys.readouterr().out


def test_the_reported_files_of_judges(shared, refuses):
    """Files of public reports; their right values are in EXPECTED.md beside them."""
    folder = shared / "cases" / "reports" / "G_judge"
    swaps = judge.swap_pairs(read_judgments([folder / "ties.jsonl"]))
    assert (swaps.is_flipped.mean(), swaps.is_tied.mean()) == (0.35, 0.4)
    for name in ("likert_1_to_5", "likert_1_to_5_as_log_odds"):
        assert "grades" in refuses(read_judgments, [folder / f"{name}.jsonl"]).remedy
    judged = read_judgments([folder / "logprob_A_logprob_B.csv"])
    assert judge.position_preference(judged)[0] == pytest.approx(0.887, abs=5e-4)
    judged = read_judgments([folder / "two_annotators.json"])
    assert judged.judges == ("annotator gpt4_turbo_fn", "annotator weighted")
    faults = shared / "cases" / "faults"
    judged = read_judgments([faults / "04_judge_three_way" / "j.jsonl"])
    assert judge.position_preference(judged)[0] == pytest.approx(0.0, abs=0.02)
    log_odds = judge.candidate_log_odds(judge.remove_preference(judged), judged.is_first)
    assert judge.win_rate(log_odds).value == pytest.approx(0.641, abs=5e-4)
    judged = read_judgments([faults / "05_judge_two_judges" / "j.jsonl"])
    preference = judge.place_preference(judged).nats
    assert preference[judged.judge == 0] == pytest.approx(2.96, abs=0.005)
    assert preference[judged.judge == 1] == pytest.approx(-3.0, abs=0.2)
    log_odds = judge.candidate_log_odds(judge.remove_preference(judged), judged.is_first)
    assert judge.win_rate(log_odds).value == pytest.approx(0.8, abs=0.01)
    of_x = judge.win_rate(log_odds, inside=judged.judge == 0).value
    assert of_x == pytest.approx(0.805, abs=5e-4)
