"""Draws the imports between components into docs/imports.mmd, from the code with `ast`.

python docs/draw_architecture.py            # writes the diagram
python docs/draw_architecture.py --check    # exits 1 if the file is out of date

A component is the first part of a module's path below batch_calibration/; experiments/ and configs/
are one component each. The diagram omits `version`, and `typing` and `errors`, which nearly all
components import. It also omits the arrows from programs, which import nearly all components.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIAGRAM = ROOT / "docs" / "imports.mmd"
PACKAGE = "batch_calibration"
FACE = "batch_calibration (what a user imports)"
LEFT_OUT = {"typing", "errors", "version"}
LAYERS = {
    "programs": ("experiments", "configs", "cli", "__main__"),
    "studies, and what is shown of them": ("integrations", "reporting", "studies"),
    "calibration: pure JAX, no Flax, no files": (
        FACE, "api", "layer", "estimator", "diagnosis", "metrics", "methods", "calibration",
        "arrays",
    ),
    "between the two": ("scores", "importers", "responses"),
    "scoring: from rows to label scores": ("scoring",),
    "below all": ("settings", "files"),
}  # fmt: skip
"""Layer of the diagram -> its components, from the top; missing components are not drawn."""


def component_of(path: Path) -> str:
    """Returns the component of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != PACKAGE:
        return parts[0]
    return FACE if parts[1] == "__init__" else parts[1]


def imported(tree: ast.AST) -> Iterator[str]:
    """Yields the components that a module imports, at its top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            component = rest.partition(".")[0]
            if first in ("experiments", "configs"):
                yield first
            elif first == PACKAGE:
                folder = ROOT / PACKAGE
                exists = (folder / component).is_dir() or (folder / f"{component}.py").is_file()
                yield component if component and exists else FACE


def arrows() -> tuple[set[str], set[tuple[str, str]]]:
    """Returns all components, and the pairs of importing and imported component."""
    components, found = set[str](), set[tuple[str, str]]()
    for folder in (PACKAGE, "experiments", "configs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            component = component_of(path)
            components.add(component)
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            found |= {(component, other) for other in imported(tree) if other != component}
    # Results import reporting lazily, only to print themselves.
    found.discard(("diagnosis", "reporting"))
    components -= LEFT_OUT
    return components, {(one, other) for one, other in found if not {one, other} & LEFT_OUT}


def draw() -> str:
    """Draws the diagram in Mermaid, with an arrow from each component to each one it imports."""
    components, found = arrows()
    placed = {component for layer in LAYERS.values() for component in layer}
    layers = LAYERS | {"in no layer yet": tuple(sorted(components - placed))}
    ids = {component: "face" if component == FACE else component for component in components}
    lines = ["%% Drawn by docs/draw_architecture.py.", "flowchart TD"]
    for number, (layer, members) in enumerate(layers.items()):
        present = [component for component in members if component in components]
        if present:
            lines += [f'  subgraph layer{number}["{layer}"]']
            lines += [f'    {ids[component]}["{component}"]' for component in present]
            lines += ["  end"]
    for component in sorted(components - set(LAYERS["programs"])):
        others = sorted(ids[other] for one, other in found if one == component)
        if others:
            lines.append(f"  {ids[component]} --> {' & '.join(others)}")
    return "\n".join([*lines, ""])


def main() -> None:
    """Writes the diagram, or checks that the file has the current one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if out of date")
    check = parser.parse_args().check
    diagram = draw()
    if not check:
        DIAGRAM.write_text(diagram, encoding="utf-8")
    elif not DIAGRAM.exists() or DIAGRAM.read_text(encoding="utf-8") != diagram:
        sys.exit(
            f"error: {DIAGRAM.relative_to(ROOT)} does not show the current imports; run "
            "python docs/draw_architecture.py and commit the file."
        )


if __name__ == "__main__":
    main()
