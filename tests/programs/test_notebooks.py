"""The notebook runs as it is stored; `plot` shows one figure in a cell, with pyplot and without."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "quickstart.ipynb"
FIRST = """from batch_calibration import diagnose, plot
found = diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]])"""
DRAW = "plot(found)"
PYPLOT = "import matplotlib.pyplot as plt"
KEPT = "print(plt.get_fignums())"


def execute(notebook):
    """Runs all cells in a kernel; an error in one of them is an error here."""
    from nbconvert.preprocessors import ExecutePreprocessor

    ExecutePreprocessor(timeout=300, kernel_name="python3").preprocess(notebook, {})
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
def test_a_cell_shows_one_figure_and_keeps_none():
    import nbformat

    notebook = nbformat.v4.new_notebook()
    for source in (FIRST, DRAW, PYPLOT, DRAW, f"{DRAW};", KEPT):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    cells = execute(notebook)
    assert [pictures(cell) for cell in cells] == [0, 1, 0, 1, 0, 0]
    assert cells[-1].outputs[0].text == "[]\n"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_gives_what_it_shows():
    import nbformat

    stored = nbformat.read(NOTEBOOK, as_version=4)
    shown = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert sum(map(pictures, shown)) == 2 and NOTEBOOK.stat().st_size < 200_000
    for was, cell in zip(shown, execute(nbformat.read(NOTEBOOK, as_version=4)), strict=True):
        assert pictures(cell) == pictures(was)
        printed = ["".join(output.get("text", "")) for output in cell.outputs]
        assert printed == ["".join(output.get("text", "")) for output in was.outputs]
