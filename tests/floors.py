"""Installs the lowest versions that pyproject.toml declares, and runs tests with them.

python tests/floors.py [TEST ...]

Each `name>=version` becomes `name==version`; what these need in turn, pip chooses. Without
arguments the tests are `TESTS`, of which each library is used by some.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-floors"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?>=([\d.]+)")
TOPICS = """
    api api_scorer configs estimator frames images layer report results settings sources tokens
    train_mini
"""
TESTS = [next(ROOT.glob(f"tests/**/test_{topic}.py")) for topic in TOPICS.split()]


BEYOND = "tests/arrays/test_frames.py::test_a_column_that_numpy_has_no_type_for_is_refused"
"""Left out: polars before 2.1 panics on integers of 128 bits; with 2.1 scikit-learn must be 1.9."""


def read_floors() -> str:
    """`name==version` of each direct requirement, of users and of tests, a line each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floors = set[str]()
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in requirements:
            if requirement.startswith("batch-calibration["):
                continue  # our own extras, which are read themselves
            floor = REQUIREMENT.fullmatch(requirement)
            if floor is None:
                sys.exit(f"error: pyproject.toml: {requirement}: expected name>=version.")
            floors.add(f"{floor[1]}=={floor[2]}")
    return "\n".join(sorted(floors))


def install(floors: str) -> None:
    """Make the environment, unless it is there with these floors."""
    installed = ENVIRONMENT / "floors.txt"
    if installed.is_file() and installed.read_text() == floors:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
    constraints = ENVIRONMENT / "constraints/package.txt"
    constraints.write_text(floors)
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--constraint", constraints)
    subprocess.run([*pip, "--editable", f"{ROOT}[test]"], check=True)
    constraints.rename(installed)  # once all of it is there


if __name__ == "__main__":
    install(read_floors())
    pytest = [PYTHON, "-m", "pytest", "-m", "not slow", "--deselect", BEYOND]
    # Old libraries call what newer ones of others deprecate, which is no fault of ours.
    pytest += ["-W", "ignore::DeprecationWarning"]
    tests = sys.argv[1:] or TESTS
    sys.exit(subprocess.run([*pytest, *tests], cwd=ROOT, check=False).returncode)
