"""A run without the shared data tells how many tests it skipped, or fails where they must be."""

import shutil
from pathlib import Path

import pytest
from processes import python

HERE = Path(__file__).resolve().parents[1]
TESTS = """
import pytest


@pytest.mark.parametrize("n", range(3))
def test_shared(shared, n):
    assert shared.is_dir()


def test_other():
    pytest.importorskip("no_such_module", reason="needs no_such_module")
"""


@pytest.mark.parametrize(
    ("required", "code", "summary"), [("0", 0, "3 skipped: "), ("1", 1, "3 errors")]
)
def test_skips_for_want_of_the_shared_data_are_told_or_fail(tmp_path, required, code, summary):
    where = tmp_path / "checkout" / "tests"
    where.mkdir(parents=True)
    shutil.copy(HERE / "conftest.py", where)
    (where / "test_it.py").write_text(TESTS)
    env = {"REQUIRE_SHARED": required, "PYTHONPATH": str(HERE.parent)}
    words = "-m", "pytest", "-q", "-p", "no:cacheprovider", "."
    done = python(*words, code=code, cwd=where, env=env)
    reason = f"needs the shared data, and {tmp_path / 'shared'} is not there"
    assert summary in done.stdout and reason in done.stdout
    assert "1 skipped: needs no_such_module" in done.stdout
    if required == "0":
        assert f"3 skipped: {reason}" in done.stdout


def test_ci_requires_the_shared_data():
    assert "export REQUIRE_SHARED=1" in (HERE.parent / ".ci" / "run").read_text()
