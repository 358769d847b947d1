"""Who may import whom, read from the source: an arrow that runs the wrong way fails here."""

import ast
import importlib.util
import re
from pathlib import Path

from processes import python

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "batch_calibration"

# component -> components of ours it may import, from the bottom up: a component names only those
# above it here, so no circle can be. Its own is always allowed; `component.module` allows that
# module alone.
ARROWS = {
    "version": "",
    "errors": "",
    "typing": "",
    "files": "errors",
    "settings": "errors",
    "arrays": "errors typing",
    "calibration": "errors typing arrays",
    "metrics": "errors typing arrays calibration",
    "scores": "errors files arrays",
    "methods": "errors typing arrays calibration scores",
    "api": "errors typing arrays calibration methods scores",
    "diagnosis": "errors typing files arrays calibration methods metrics scores api",
    "layer": "errors typing arrays calibration methods diagnosis.advice",
    "estimator": "errors typing arrays calibration methods diagnosis.advice",
    "responses": "errors files arrays",
    "importers": "errors files arrays scores responses",
    "scoring": "errors files settings arrays scores responses",
    "studies": "errors typing version files settings arrays calibration methods metrics scores "
    "scoring",
    "reporting": "errors typing files settings arrays calibration methods metrics diagnosis scores "
    "studies scoring.tasks scoring.embedded.suite",
    "__init__": "errors typing version calibration api diagnosis methods metrics scores importers "
    "studies reporting",
    "integrations": "errors typing files arrays calibration api methods metrics scores "
    "diagnosis.advice responses importers",
    "cli": "errors version files settings arrays calibration methods metrics diagnosis scores "
    "importers scoring studies reporting integrations",
    "__main__": "cli",
}
# The rooms of scoring/ in the same way: prompts know no network, and networks no task.
SCORING = {
    "inputs": "",
    "tasks": "",
    "embedded": "tasks",
    "prompts": "inputs tasks embedded",
    "data": "inputs tasks prompts embedded",
    "models": "",
    "__init__": "inputs",
    "engine": "models",
    "api": "engine models",
    "causal_lm": "engine models",
    "dual_encoder": "engine models",
    "transformers_lm": "engine models",
    "table": "api causal_lm dual_encoder transformers_lm engine models",
}
# Who may import these packages at the top of a module; nobody, those that stand first.
NOWHERE = """
    optax pandas absl ml_collections tensorflow tensorflow_datasets pyarrow PIL torch httpx2 ray
    submitit transformers
"""
OUTSIDE = dict.fromkeys(NOWHERE.split(), "") | {
    "flax": "scoring layer",
    "matplotlib": "reporting",
    "sklearn": "estimator",
}


def component(path: Path) -> str:
    """The component a file of the package stands in."""
    return path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, *, top: bool) -> set[str]:
    """Full names of the modules a file imports; with `top` those that importing it loads."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    names = set()
    for node in ast.walk(tree):
        if top and id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


# Flags of other programs, which remedies may name: of the harness, Inspect, TFDS and git.
OTHERS = re.compile(
    r"--(log_samples|include_path|save-details|(top-)?logprobs|scorer|action|to|output-dir|file_format"
    r"|data_dir|error-unmatch|always|dirty|abbrev|exclude|page|grid)"  # the last two: colors in CSS
)
OURS = re.compile(r"(?<![-\w])--[a-z][a-z_-]+|\bexperiments\.[a-z]\w+|\bbatch-calibration [a-z]+")
"""Flags, and programs of ours: a library knows keys, and each door spells them."""

FILES = sorted((ROOT / PACKAGE).rglob("*.py"))
COMPONENTS = {component(path) for path in FILES}


def test_no_component_may_import_one_that_may_import_it():
    order = list(ARROWS)
    for position, component_name in enumerate(order):
        below = set(order[:position])
        names = ARROWS[component_name].split()
        assert {name.split(".")[0] for name in names} <= below, component_name


def test_only_doors_name_flags_and_programs():
    named = set()
    for path in FILES:
        if component(path) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = [x for x in OURS.findall(node.value) if not OTHERS.fullmatch(x)]
                named |= {f"{path.relative_to(ROOT)}:{node.lineno}: {word}" for word in words}
    assert not named


def test_arrows_point_down():
    for path in FILES:
        source = component(path)
        assert source in ARROWS, f"{source} is a new component: say in ARROWS what it may import"
        rights = ARROWS[source].split()
        for name in imports(path, top=False):
            if not name.startswith(PACKAGE + "."):
                continue
            inner = name.removeprefix(PACKAGE + ".")
            rooms = inner.split(".")
            assert rooms[0] in COMPONENTS, f"{path.relative_to(ROOT)} imports {name} from the face"
            allowed = rooms[0] == source
            allowed |= any(inner == right or inner.startswith(right + ".") for right in rights)
            # `from x.scoring import tasks` names the component on the way.
            allowed = allowed or any(right.startswith(inner + ".") for right in rights)
            assert allowed, f"{path.relative_to(ROOT)} may not import {name}"


def test_arrows_in_scoring_point_down():
    for path in sorted((ROOT / PACKAGE / "scoring").rglob("*.py")):
        source_room = path.relative_to(ROOT / PACKAGE / "scoring").parts[0].removesuffix(".py")
        for name in imports(path, top=False):
            room, _, remainder = name.removeprefix(PACKAGE + ".").partition(".")
            target_room = remainder.partition(".")[0]
            if name.startswith(PACKAGE) and room == "scoring" and target_room in SCORING:
                allowed = target_room == source_room or target_room in SCORING[source_room].split()
                assert allowed, f"{path.relative_to(ROOT)} may not import {name}"


def test_only_figures_import_matplotlib():
    for path in FILES:
        packages = {name.split(".")[0] for name in imports(path, top=True)}
        assert "matplotlib" not in packages or path.parent.name == "figures", path


def test_heavy_packages_stay_behind_their_walls():
    for path in FILES:
        for name in imports(path, top=True):
            package = name.split(".")[0]
            where = f"{path.relative_to(ROOT)} imports {package}"
            assert package not in OUTSIDE or component(path) in OUTSIDE[package].split(), where


def test_only_programs_import_absl_and_nobody_imports_configs():
    for path in (ROOT / "configs").glob("*.py"):
        outside = {name.split(".")[0] for name in imports(path, top=False)}
        assert outside <= {"ml_collections", "collections", "configs", "batch_calibration"}, path
        ours = {n for n in imports(path, top=False) if n.startswith(PACKAGE + ".")}
        # The keys, and the paper's tasks.
        rooms = (PACKAGE + ".settings", PACKAGE + ".scoring.tasks")
        assert all(name.startswith(rooms) for name in ours), path
    for path in [*FILES, *(ROOT / "experiments").rglob("*.py")]:
        assert not any(n.split(".")[0] == "configs" for n in imports(path, top=False)), path


def test_no_drawers():
    drawers = {"utils", "helpers", "common", "misc"}
    assert not [p for p in ROOT.rglob("*.py") if p.stem in drawers and ".venv" not in str(p)]


def test_modules_say_what_they_are():
    for path in [*FILES, *(ROOT / "experiments").rglob("*.py")]:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def test_comprehensions_are_one_line_with_one_loop():
    for path in [*FILES, *(ROOT / "experiments").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, COMPREHENSIONS):
                inner = [n for n in ast.walk(node) if isinstance(n, COMPREHENSIONS)]
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                assert inner == [node], f"{where}: one comprehension in another"
                assert len(node.generators) == 1, f"{where}: two loops"
                assert node.lineno == node.end_lineno, f"{where}: several lines"


def test_mains_are_one_library_call():
    for path in (ROOT / "experiments").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if 'if __name__ == "__main__"' in text:
            assert text.count("\n") <= 40, path


def public_annotations(path):
    """Function name and annotation of all that a user sees in a signature."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (isinstance(node, ast.FunctionDef) or node.name.startswith("_"))
        for inner in ast.walk(node)
        if inner is not node
    }
    for node in ast.walk(tree):
        public = isinstance(node, ast.FunctionDef) and id(node) not in hidden
        if public and (not node.name.startswith("_") or node.name in ("__init__", "__call__")):
            a = node.args
            arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
            for annotation in [arg.annotation for arg in arguments if arg] + [node.returns]:
                if annotation is not None:
                    yield node.name, ast.unparse(annotation)


def test_no_public_signature_says_any():
    for path in FILES:
        for name, annotation in public_annotations(path):
            names = annotation.replace("[", " ").replace("]", " ").replace(",", " ").split()
            assert "Any" not in names, f"{path.relative_to(ROOT)}: {name} says {annotation}"


def test_the_diagram_of_the_architecture_is_up_to_date():
    python("docs/draw_architecture.py", "--check")


def test_benchmarks_import_names_that_exist():
    """They are not run here, and some need torch: what they import from us is looked up."""
    missing = []
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(PACKAGE):
                continue
            module = importlib.import_module(node.module)
            for name in node.names:
                is_there = hasattr(module, name.name)
                if not is_there and hasattr(module, "__path__"):  # a module of a package
                    is_there = importlib.util.find_spec(f"{node.module}.{name.name}") is not None
                if not is_there:
                    missing.append(f"{path.name}: {node.module}.{name.name}")
    assert missing == []
