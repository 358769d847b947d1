"""Breaks the core twelve ways on a copy, and expects the named test to go red each time.

    python tests/mutations.py            # all, some minutes; prints the table of mutations.md
    python tests/mutations.py gamma axis # some

Exit code 1 if a mutation survives, 2 if its text no longer occurs exactly once.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CORE = "batch_calibration/calibration"


class Mutation(NamedTuple):
    """One text put for another in one file, and the test that must notice."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS = (
    Mutation(
        "sign",
        f"{CORE}/shift.py",
        "jnp.asarray(log_probs) - state.strength * state.bias",
        "jnp.asarray(log_probs) + state.strength * state.bias",
        "tests/test_laws.py::test_bc_predicts_the_same_under_per_label_constants",
    ),
    Mutation(
        "axis",
        f"{CORE}/base.py",
        "return jnp.sum(masked, axis=0) / jnp.where(total > 0, total, 1.0)",
        "return jnp.sum(masked) * jnp.ones(masked.shape[-1]) / jnp.where(total > 0, total, 1.0)",
        "tests/test_laws.py::test_a_planted_bias_is_recovered",
    ),
    Mutation(
        "gamma",
        f"{CORE}/shift.py",
        "fit_with(estimate, strength, lambda: log",
        "fit_with(estimate, 0.9 * strength, lambda: log",
        "tests/test_laws.py::test_bc_after_bc_predicts_as_bc",
    ),
    Mutation(
        "mean-of-p",
        f"{CORE}/shift.py",
        "return weighted_mean(log_probs, weight)",
        "return log_mean_prob(log_probs, weight)",
        "tests/test_laws.py::test_bc_predicts_the_same_under_per_row_constants",
    ),
    Mutation(
        "ignored-weight",
        f"{CORE}/base.py",
        "if weight is None else jnp.asarray(weight)",
        "if weight is None else jnp.ones_like(jnp.asarray(weight))",
        "tests/test_contract.py::test_weight_zero_is_absent_even_where_the_row_is_nan",
    ),
    Mutation(
        "wrong-tie",
        f"{CORE}/base.py",
        "return jnp.argmax(scores, axis=-1).astype(jnp.int32)",
        "return (scores.shape[-1] - 1 - jnp.argmax(scores[..., ::-1], axis=-1)).astype(jnp.int32)",
        "tests/test_oracles.py::test_equal_scores_predict_the_lowest_index",
    ),
    Mutation(
        "last-start",
        f"{CORE}/prototypes.py",
        "best = jnp.argmax(jnp.where(jnp.isfinite(merit), merit, -jnp.inf))",
        "best = merit.shape[0] - 1",
        "tests/test_prototypes.py::test_the_best_start_wins_wherever_it_stands",
    ),
    Mutation(
        "stale-count",
        f"{CORE}/running.py",
        "jnp.where(total < one.count, full, total)",
        "jnp.where(total < one.count, full, jnp.maximum(one.count, other.count))",
        "tests/test_laws.py::test_running_over_any_chunks_is_the_whole",
    ),
    Mutation(
        "transposed-assignment",
        f"{CORE}/assignment.py",
        "affinity[orders, labels]",
        "affinity[labels, orders]",
        "tests/test_prototypes.py::test_assignment_is_scipy_s",
    ),
    Mutation(
        "aliasing",
        "batch_calibration/api.py",
        "rows, k = array.shape[-2:]",
        "array -= array.max(axis=-1, keepdims=True)\n    rows, k = array.shape[-2:]",
        "tests/test_api.py::test_the_input_is_not_changed",
    ),
    Mutation(
        "float16",
        f"{CORE}/base.py",
        "values = jnp.asarray(rows)",
        "values = jnp.asarray(rows).astype(jnp.float16).astype(jnp.float32)",
        "tests/test_laws.py::test_mean_is_exact_to_a_millionth_over_many_rows",
    ),
    Mutation(
        "off-by-one-shot",
        "batch_calibration/prompts/demonstrations.py",
        "rng.choice(pool, shots, replace=False)",
        "rng.choice(pool, max(shots - 1, 0), replace=False)",
        "tests/test_prompts.py::test_shots_are_per_class_distinct_and_seeded",
    ),
)


def run(copy: Path, test: str) -> int:
    """pytest's exit code: 0 green, 1 red, anything else a test that could not run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *test.split()]
    return subprocess.run(command, cwd=copy, capture_output=True, check=False).returncode


def main(names: list[str]) -> int:
    """Tries each mutation on its own copy of the package and the tests."""
    chosen = [m for m in MUTATIONS if not names or m.name in names]
    for mutation in chosen:
        found = (ROOT / mutation.file).read_text().count(mutation.old)
        if found != 1:
            print(
                f"{mutation.name}: {mutation.old!r} was expected once in {mutation.file} and "
                f"occurs {found} times: write the mutation anew for the code as it is now."
            )
            return 2
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        skip = shutil.ignore_patterns("__pycache__", "checkpoint", "reference", "golden")
        for part in ("batch_calibration", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", copy)
        print("| mutation | file | test | result |\n|---|---|---|---|")
        for mutation in chosen:
            target = copy / mutation.file
            original = target.read_text()
            green = run(copy, mutation.test)
            target.write_text(original.replace(mutation.old, mutation.new))
            red = run(copy, mutation.test)
            target.write_text(original)
            killed = green == 0 and red == 1
            survived += not killed
            result = "killed" if killed else f"SURVIVED (exit codes {green} before, {red} after)"
            test = mutation.test.split("/")[-1]
            print(f"| {mutation.name} | {mutation.file} | {test} | {result} |", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
