"""Every remedy of `refusals.toml` is applied to the input that was refused.

It leads to the right answer, or to a refusal for another reason where the table says so.
"""

import pytest
from calls import CASES, ask, remedies
from refusals import ANSWERS


def tries():
    for name, case in CASES.items():
        for remedy, call in remedies(case).items():
            if remedy in case.get("untried", ()):
                continue
            marks = [pytest.mark.slow] if "is_slow" in case else []
            if reason := case.get("fails", {}).get(remedy):
                marks.append(pytest.mark.xfail(strict=True, reason=reason))
            yield pytest.param(name, remedy, call, marks=marks, id=f"{name}: {remedy}")


@pytest.mark.parametrize(("name", "remedy", "call"), list(tries()))
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore")
def test_a_remedy_leads_to_the_right_answer_or_to_another_refusal(name, remedy, call, tmp_path):
    case = CASES[name]
    right = case.get("answers", {}).get(remedy, "all rows")
    reply = ask(call, tmp_path)
    assert reply.refusal != case["sentence"]
    assert bool(reply.refusal) == (right == "refused"), reply.refusal
    if reply.answer and right in ANSWERS:
        for got, truth in zip(reply.answer, ANSWERS[right], strict=True):
            assert got in (None, truth), f"{reply.answer} for {ANSWERS[right]}"


def test_every_refusal_has_a_remedy_that_is_tried_or_a_reason():
    for name, case in CASES.items():
        kept = {key for kind in ("answers", "fails") for key in case.get(kind, ())}
        assert remedies(case) or case.get("untried"), name
        assert kept <= remedies(case).keys(), name
        for remedy in case.get("remedies", {}):
            assert remedy in case["sentence"], f"{name}: no {remedy!r} in the sentence"
