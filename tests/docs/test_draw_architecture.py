"""The diagram of who imports whom: read from the code, and refused where it is out of date."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "draw_architecture.py"


@pytest.fixture
def drawing(tmp_path, monkeypatch):
    """The script on a package of three components, and its file."""
    spec = importlib.util.spec_from_file_location("draw_architecture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in {
        "batch_calibration/__init__.py": "from batch_calibration.api import calibrate\n",
        "batch_calibration/api.py": "import jax\nfrom batch_calibration.errors import InputError\n",
        "batch_calibration/errors.py": "",
        "batch_calibration/attic/one.py": "def f():\n    import batch_calibration.api\n",
        "experiments/run.py": "from batch_calibration import attic, calibrate\n",
        "configs/base.py": "",
        "docs/imports.mmd": "old",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "DIAGRAM", tmp_path / "docs" / "imports.mmd")
    return module


def run(module, monkeypatch, *flags):
    monkeypatch.setattr(sys, "argv", ["draw_architecture.py", *flags])
    module.main()


def test_arrows_are_the_imports_and_every_component_is_drawn(drawing):
    components, arrows = drawing.arrows()
    assert components == {drawing.FACE, "api", "attic", "experiments", "configs"}
    from_programs = {("experiments", "attic"), ("experiments", drawing.FACE)}
    assert arrows == {(drawing.FACE, "api"), ("attic", "api")} | from_programs
    diagram = drawing.draw()
    assert "  attic --> api\n" in diagram and 'in no layer yet"]\n    attic' in diagram
    # Programs may import all, so that their arrows would tell nothing.
    assert '    experiments["experiments"]\n' in diagram and "experiments -->" not in diagram


def test_the_file_is_written_and_checked(drawing, monkeypatch):
    with pytest.raises(SystemExit, match="does not show the current imports; run python"):
        run(drawing, monkeypatch, "--check")
    assert drawing.DIAGRAM.read_text() == "old"
    run(drawing, monkeypatch)
    run(drawing, monkeypatch, "--check")
    assert drawing.DIAGRAM.read_text() == drawing.draw()
    drawing.DIAGRAM.unlink()
    with pytest.raises(SystemExit, match="does not show the current imports"):
        run(drawing, monkeypatch, "--check")
