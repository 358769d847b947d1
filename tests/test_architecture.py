"""Who may import whom, read from the source: an arrow that runs the wrong way fails here."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "batch_calibration"

# room -> rooms of ours it may import; its own room is always allowed.
ARROWS = {
    "typing": set(),
    "probes": set(),
    "calibration": {"typing"},
    "methods": {"typing", "calibration", "probes"},
    "metrics": {"typing", "calibration"},
    "boundary": {"typing", "calibration"},
    "checks": {"typing"},
    "door": {"typing", "checks", "methods"},
    "layer": {"typing", "calibration"},
    "estimator": {"typing", "calibration", "methods", "checks"},
    "files": set(),
    "scores": {"typing", "files"},
    "store": {"typing", "scores", "files"},
    "tasks": {"typing", "mini.suite", "mini.pictures", "prompts.template"},
    "prompts": {"typing", "tasks", "probes"},
    "models": {"typing", "files"},
    "scoring": {"typing", "models", "scores"},
    "mini": {"typing", "files", "tasks", "prompts", "models"},
    "plan": {"typing", "tasks", "prompts"},
    "pipeline": None,
    "artifacts": {
        "typing",
        "methods",
        "metrics",
        "boundary",
        "store",
        "scores",
        "tasks",
        "calibration",
    },
    "__init__": {"typing", "calibration", "door", "methods", "metrics", "scores"},
}
# Who may import these packages at the top of a module.
OUTSIDE = {
    "flax": {"models", "scoring", "layer", "mini"},
    "optax": {"mini"},
    "matplotlib": {"artifacts"},
    "sklearn": {"estimator"},
    "absl": set(),
    "ml_collections": set(),
    "rich": set(),
    "tensorflow": set(),
    "tensorflow_datasets": set(),
    "pyarrow": set(),
    "PIL": set(),
    "torch": set(),
    "transformers": set(),
}


def room(path: Path) -> str:
    """The room a file of the package stands in."""
    return path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, *, top: bool) -> set[str]:
    """Full names of the modules a file imports; with `top` only those outside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if top and id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


FILES = sorted((ROOT / PACKAGE).rglob("*.py"))
ROOMS = {room(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_down(path):
    here = room(path)
    assert here in ARROWS, f"{here} is a new room: say in ARROWS what it may import"
    allowed = ARROWS[here]
    if allowed is None:
        return
    for name in imports(path, top=False):
        if not name.startswith(PACKAGE + "."):
            continue
        inner = name.removeprefix(PACKAGE + ".")
        parts = inner.split(".")
        assert parts[0] in ROOMS, f"{path.relative_to(ROOT)} imports {name} from the face"
        fine = parts[0] == here or any(
            inner == right or inner.startswith(right + ".") for right in allowed
        )
        # `from batch_calibration.mini import suite` names the room on the way.
        fine = fine or any(right.startswith(inner + ".") for right in allowed)
        assert fine, f"{path.relative_to(ROOT)} may not import {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_stay_behind_their_walls(path):
    for name in imports(path, top=True):
        package = name.split(".")[0]
        if package in OUTSIDE:
            assert room(path) in OUTSIDE[package], f"{path.relative_to(ROOT)} imports {package}"


def test_only_programs_import_absl_and_nobody_imports_configs():
    for path in (ROOT / "configs").glob("*.py"):
        outside = {name.split(".")[0] for name in imports(path, top=False)}
        assert outside <= {"ml_collections", "collections"}, path
    for path in [*FILES, *(ROOT / "experiments").glob("*.py")]:
        assert not any(n.split(".")[0] == "configs" for n in imports(path, top=False)), path


def test_no_drawers():
    drawers = {"utils", "helpers", "common", "misc"}
    assert not [p for p in ROOT.rglob("*.py") if p.stem in drawers and ".venv" not in str(p)]


def test_modules_say_what_they_are_and_stay_short():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") <= 350, path
