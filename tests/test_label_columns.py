"""Which columns are labels and which rows are whose: read as the file means it, or a sentence."""

import numpy as np
import pytest

from batch_calibration.importers import Reading, read, tables_of
from batch_calibration.scores import load


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# A row keeps its place and number in the file


BY = "s,no,yes\n" + "".join(f"{'xy'[i % 2]},-{i + 1}.5,-1.5\n" for i in range(6))


def test_rows_of_several_contexts_keep_their_numbers_in_the_file(tmp_path):
    contexts = read(write(tmp_path, BY), Reading(by=("s",)))
    for start, table in enumerate(contexts):
        block = table.blocks["test"]
        assert block.row_ids == tuple(map(str, range(start, 6, 2)))
        assert block.file_rows == tuple(range(start, 6, 2))
        np.testing.assert_array_equal(block.log_probs[:, 0], -1.5 - np.arange(start, 6, 2))
        table.save(tmp_path / f"{start}.safetensors")
        assert load(tmp_path / f"{start}.safetensors").blocks["test"].file_rows == block.file_rows


def test_rows_beside_dropped_ones_keep_their_numbers(tmp_path):
    path = write(tmp_path, BY.replace("x,-3.5", "x,").replace("y,-2.5", "y,"))
    x, y = read(path, Reading(by=("s",), missing="drop"))
    assert x.blocks["test"].row_ids == ("0", "4") and y.blocks["test"].row_ids == ("3", "5")
    named = {"id": list("abcd"), "s": list("xyxy"), "no": [-1.5, -2.5, -3.5, -4.5]}
    named["yes"] = [-1.0] * 4
    x, y = tables_of(named, Reading(by=("s",), ids="id", labels=("no", "yes")))
    assert y.blocks["test"].row_ids == ("b", "d") and y.blocks["test"].file_rows == (1, 3)
    (whole,) = tables_of(named, Reading(ids="id", labels=("no", "yes")))
    assert whole.blocks["test"].file_rows == (0, 1, 2, 3) and not whole.blocks["test"].spec


def test_a_sentence_names_the_row_of_the_file(tmp_path):
    with pytest.raises(ValueError, match="row 4 has nan as the score of 'no'"):
        read(write(tmp_path, BY.replace("x,-5.5", "x,")), Reading(by=("s",)))
