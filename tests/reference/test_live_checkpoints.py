"""The page of checkpoints is what its program writes."""

import logging

import pytest

pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

import checkpoint_forms


def test_the_page_is_up_to_date():
    logging.disable(logging.WARNING)
    try:
        text = checkpoint_forms.page()
    finally:
        logging.disable(logging.NOTSET)
    assert text == checkpoint_forms.PAGE.read_text()
    section = text.split(f"**{checkpoint_forms.EQUAL}**")[1]
    assert "not tried" not in text and section.split("**")[0].count("/") > 35
