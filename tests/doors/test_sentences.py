"""Every sentence of `refusals.toml` in full: where, what was expected, what came, what to do."""

import pytest
from calls import CASES, ask


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore")
def test_a_refusal_is_this_sentence(name, tmp_path):
    case = CASES[name]
    reply = ask(case["call"], tmp_path)
    assert (reply.notes if "is_note" in case else reply.refusal) == case["sentence"]
