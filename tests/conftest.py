"""Shared by all tests: annotations that are executed, fixed examples, where the data lie."""

import gc
import io
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from fnmatch import fnmatch
from pathlib import Path
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")

# Before the first import: from here on a wrong shape or dtype is an error.
install_import_hook(
    [
        "batch_calibration.calibration",
        "batch_calibration.layer",
        "batch_calibration.methods.fitting",
        "batch_calibration.methods.table",
        "batch_calibration.metrics.boundary",
        "batch_calibration.metrics.table",
    ],
    "beartype.beartype",
)

settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("fixed")

MOST_MAPS = 40_000
ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PROGRAMS = ROOT / "tests" / "programs"


@pytest.fixture(scope="session")
def refuses() -> Callable:
    """Calls a function that has to raise an `InputError`, and returns the error."""

    from batch_calibration.errors import InputError

    def call(function: Callable, *arguments: object, **options: object) -> Exception:
        with pytest.raises(InputError) as caught:
            function(*arguments, **options)
        return caught.value

    return call


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data next to the checkout; a test that needs it says what is missing."""
    if not SHARED.is_dir():
        lacking = pytest.fail if os.environ.get("REQUIRE_SHARED") == "1" else pytest.skip
        lacking(f"needs the shared data, and {SHARED} is not there")
    return SHARED


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """Flax's own normalization promotes bfloat16; scorers run in threads, past any context."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_configure() -> None:
    """Keep compiled programs, small ones too, where each test process finds those of the others.

    JAX itself reads and writes in this folder: `keep_programs` would share them at the end alone.
    An entry that is half written is compiled anew.
    """
    from batch_calibration.cli.machine import programs_folder

    folder = programs_folder("programs-of-tests")
    # Where it cannot be made, nothing is kept.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # Their directory would be part of each program's key.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


@pytest.hookimpl(tryfirst=True)  # before -m selects by the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow the tests in programs/ and the cases that a `slow_except` does not name."""
    for item in items:
        quick = item.get_closest_marker("slow_except")
        case = item.name.partition("[")[2].removesuffix("]")
        is_left_out = quick and not any(fnmatch(case, pattern) for pattern in quick.args)
        if is_left_out or PROGRAMS in item.path.parents:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Freeze all that is imported and collected: the garbage collector need not look at it."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end it may free all."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of skipped tests, and why."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forgets compiled programs before the process has as many mapped pieces as Linux allows.

    Beyond 65,530 (`vm.max_map_count`) the compiler crashes; each program has several.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def quick_fonts() -> None:
    """PDFs get fonts that matplotlib writes by itself; cutting the usual ones takes half the time.

    The files of the paper keep the usual ones (test_paper.py).
    """
    from batch_calibration.reporting.figures import style

    style.STYLE["pdf.fonttype"] = 3


@pytest.fixture(scope="session")
def planted():
    """Scores [n, k] with a known bias, their gold labels, and the bias."""

    def plant(rows: int = 60, labels: int = 3, seed: int = 0):
        random = np.random.default_rng(seed)
        gold = np.arange(rows) % labels
        bias = random.normal(0.0, 1.5, labels)
        scores = random.normal(0.0, 0.6, (rows, labels)) + 2.0 * np.eye(labels)[gold] + bias - 6.0
        return jnp.asarray(scores, jnp.float32), jnp.asarray(gold, jnp.int32), bias

    return plant


@pytest.fixture
def saved(tmp_path):
    """Writes a text, bytes, or rows as JSON Lines."""
    from reading_files import lines

    def write(content, name="a.jsonl"):
        path = tmp_path / name
        content = content if isinstance(content, str | bytes) else lines(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(scope="session")
def tokenizer():
    """That of the embedded language model."""
    from batch_calibration.scoring.embedded import CHECKPOINTS
    from batch_calibration.scoring.models.files.checkpoint import load_tokenizer

    return load_tokenizer(CHECKPOINTS["mini"])


def _run_here(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """A command in this process: nothing is imported or compiled a second time."""
    from batch_calibration import cli

    stdout, stderr, code = io.StringIO(), io.StringIO(), 0
    strict = jax.config.jax_numpy_dtype_promotion
    # As in a process of its own: the checkout is the working directory, Flax may promote, and
    # warnings go to stderr, but for those that Python keeps to itself.
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    try:
        with (
            chdir(ROOT),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
            patch.object(sys, "argv", ["batch-calibration", *words]),  # kept by a workdir's runs
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.resetwarnings()
            for quiet in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
                warnings.simplefilter("ignore", quiet)
            cli.run(words)
    except SystemExit as end:
        code = int(end.code or 0)  # None after --help
    finally:
        jax.config.update("jax_numpy_dtype_promotion", strict)
    for warning in warned:
        stderr.write(f"{warning.category.__name__}: {warning.message}\n")
    return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())


@pytest.fixture(scope="session")
def program():
    """Runs a program with flags from the checkout and checks its exit code.

    A command of `batch-calibration` runs in this process, which takes a tenth of the time; what is
    no command, and with `process=True` all, as `python -m experiments.NAME`.
    """
    from batch_calibration.cli.options import COMMANDS

    def run(
        name: str, *flags: str, code: int | None = 0, process: bool = False
    ) -> subprocess.CompletedProcess[str]:
        if process or name not in COMMANDS:
            command = [sys.executable, "-m", f"experiments.{name}", *flags]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        else:
            done = _run_here((name, *flags))
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    return run
