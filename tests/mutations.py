"""Mutation testing of the core: breaks it in small ways, on a copy, and expects a test to go red.

    make mutations                       # a sample of 4
    python tests/mutations.py --sample=60 --seed=1 --python=.venv/bin/python [--files=shift]

Cosmic Ray lists the mutants, which needs it in the Python that runs this; the tests run in the
other. A sample is drawn by seed, evenly from the files, so that a run can be repeated. Mutants that
change no behavior are named in EXPLAINED. Exit code 1 if another survives.
"""

import argparse
import os
import random
import shutil
import subprocess
import tempfile
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ON_NUMBERS = {"Add", "Sub", "Mul", "Div"}
ENGINE = "test_engine test_causal_lm"
LAWS = "test_oracles test_laws test_contract"
PROTOTYPES = "test_prototypes test_prototypes_at_size"
# A file -> the tests that have to notice, the fastest first, by name or path.
TESTS = {
    "arrays/numbers.py": "test_arrays test_api test_frames",
    "metrics/boundary.py": "test_boundary",
    "arrays/alignment.py": "test_alignment test_estimator",
    "estimator.py": "test_estimator test_temperature",
    "arrays/frames.py": "test_frames",
    "metrics/intervals.py": "test_metrics",
    "metrics/table.py": "test_metrics",
    "methods/table.py": f"{LAWS} test_calibration_study",
    "methods/validation.py": ("batch_calibration/methods/validation.py test_api test_arrays"),
    "calibration/base.py": f"test_arrays {LAWS}",
    "calibration/learned_shift.py": LAWS,
    "calibration/mixture.py": PROTOTYPES,
    "calibration/objective.py": f"test_metrics {LAWS}",
    "calibration/prototypes.py": f"{PROTOTYPES} {LAWS}",
    "calibration/running.py": f"test_running {LAWS}",
    "calibration/shift.py": LAWS,
    "scoring/prompts/demonstrations.py": "test_prompts test_render",
    "scoring/prompts/length_limit.py": "test_prompts test_render",
    "scoring/prompts/render.py": ("test_render test_prompts test_unlike_runs"),
    "scoring/prompts/template.py": "test_prompts test_render",
    "scoring/engine/batches.py": f"batch_calibration/scoring/engine/batches.py {ENGINE}",
    "scoring/engine/label_texts.py": (
        "batch_calibration/scoring/engine/label_texts.py test_scorers test_longrope"
    ),
    "scoring/engine/packing.py": ENGINE,
    "scoring/engine/programs.py": ENGINE,
    "scoring/engine/tokens.py": f"test_tokens test_boundary_tokens {ENGINE}",
    "scoring/engine/trie.py": f"test_tokens {ENGINE}",
    "studies/calibration.py": ("test_calibration_study test_studies test_balanced_tasks"),
    "methods/run.py": "test_runner test_ensemble test_pooled_shares test_temperature",
    "studies/accuracy_by_rows.py": "test_over_stream test_calibration_study",
}
EXPLAINED = {
    "BLOCK = ": "the length of partial sums decides speed and the last bits alone",
    "SLOTS = ": "how many starts are worked on at a time decides speed alone",
    "MOST_PERMUTED = ": "from here on another algorithm finds the same assignment",
    "sorted(groups": "the order of groups decides when each is ready, not what comes out",
    "batch_size=32": "how many draws of a bootstrap are worked on at a time decides speed alone",
    "affinity.shape[-1]": "there are as many clusters as labels",
    "means.shape[-1]": "there are as many clusters as features",
    "1e-12": "keeps a division by zero finite; its size shows in no digit",
    "becomes if len(counts) >= len(embeddings)": "no label has less than one text",
    "fit ": "how many rows go at a time decides speed and memory alone",
    "len(counts) is not len(table": "of whole numbers below 257 there is one object each",
    "axis=+1": "of rows of one axis, stacked, the last axis is the second",
    "len(counts) == log_probs": "of whole numbers below 257 there is one object each",
    "positions.reshape(-1)": "jax takes any negative length for the one that is left",
    "where(total > 0, total, 2.0)": "where all weights are 0, so is what is divided",
    "affinity[orders, labels], axis=1": "of two axes the last is the second",
    "weight.shape), - 0.0": "a random number in 2^24 is 0, and ties with an absent row",
    "values[:, 1, -1]": "the weight of a position is the same in each group of heads",
    "scores.shape[1] == 2": "of two axes the last is the second",
    "lru_cache": "what is computed twice is the same",
    "stacklevel": "of the other callers' depth: the tests look at calibrate and fit",
}
"""Part of a line, or of what it becomes -> why no test can tell, or need."""


def list_mutants(file: str) -> list[tuple[str, int]]:
    """Every operator that can mutate the file, with the number of each occurrence."""
    # Imported here: what lists TESTS needs no Cosmic Ray.
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast((ROOT / "batch_calibration" / file).read_text())))
    mutants = []
    for operator in operator_names():
        kind, _, change = operator.removeprefix("core/").partition("_")
        if kind in ("VariableReplacer", "VariableInserter"):
            continue  # they have to be told which variable
        # Of the operators on two numbers those that numbers have; types are joined by others.
        if kind == "ReplaceBinaryOperator" and set(change.split("_")) - ON_NUMBERS:
            continue
        positions = get_operator(operator)().mutation_positions
        count = sum(len(list(positions(node))) for node in nodes)
        mutants += [(operator, occurrence) for occurrence in range(count)]
    return mutants


def changed_lines(source: str, mutant: str) -> tuple[str, str]:
    """The lines that differ, before and after."""
    lines = list(unified_diff(source.splitlines(), mutant.splitlines(), n=0))[2:]
    removed = " ".join(line[1:].strip() for line in lines if line[0] == "-")
    return removed, " ".join(line[1:].strip() for line in lines if line[0] == "+")


def find_tests(names: str) -> list[str]:
    """Returns the paths of test files from the checkout, in their order."""
    paths = {path.stem: str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")}
    return [paths.get(name, name) for name in names.split()]


def tests_pass(copy: Path, python: str, tests: str) -> bool:
    """Checks whether the tests pass within ten minutes."""
    command = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *find_tests(tests)]
    env = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        # What a mutant does not touch is compiled once.
        "JAX_COMPILATION_CACHE_DIR": str(copy.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    try:
        done = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 2:  # below 0 a signal ended it, as where memory ran out
        raise SystemExit(f"pytest could not run: {done.stdout}{done.stderr}")
    return done.returncode == 0


def main() -> int:
    """Draws a sample of mutants and prints what became of each."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--files", default="", help="parts of the files' names, with commas")
    flags = parser.parse_args()
    fragments = flags.files.split(",")
    files = [file for file in TESTS if any(piece in file for piece in fragments)]
    shuffled = {}
    for file in files:
        if mutants := list_mutants(file):
            # A file's own seed: its draw stays what it is where another file changes.
            draw = random.Random(f"{flags.seed} {file}")
            shuffled[file] = draw.sample(mutants, len(mutants))
    draw = random.Random(flags.seed)
    # In each turn one mutant of every file that has some left, the files in another order.
    chosen = []
    for turn in range(flags.sample):
        for file, mutants in draw.sample(list(shuffled.items()), len(shuffled)):
            if turn < len(mutants):
                chosen.append((file, *mutants[turn]))
    chosen = chosen[: flags.sample]
    count = {"killed": 0, "explained": 0, "SURVIVED": 0}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        skip = shutil.ignore_patterns("__pycache__", "reference", "golden*")
        for name in ("batch_calibration", "configs", "docs", "experiments", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", copy)
        print("| file | line | becomes | result |\n|---|---|---|---|")
        named = " ".join(TESTS[file] for file, *_ in chosen)
        if not tests_pass(copy, flags.python, f"--collect-only {named}"):
            raise SystemExit("tests cannot start in the copy, so that any mutant would seem killed")
        for file, operator, occurrence in chosen:
            target = copy / "batch_calibration" / file
            original = target.read_text()
            mutant = mutate_code(original, get_operator(operator)(), occurrence)
            try:
                compile(mutant, file, "exec")
            except SyntaxError:
                continue  # no program, so no mutant
            before, after = changed_lines(original, mutant)
            target.write_text(mutant)
            outcome = "SURVIVED" if tests_pass(copy, flags.python, TESTS[file]) else "killed"
            target.write_text(original)
            why = next(
                (EXPLAINED[part] for part in EXPLAINED if part in f"{before} becomes {after}"), ""
            )
            if outcome == "SURVIVED" and why:
                outcome = "explained"
            count[outcome] += 1
            shown = outcome + (f": {why}" if outcome == "explained" else "")
            cells = (f"`{text.replace('|', chr(92) + '|')}`" for text in (before, after))
            print(f"| {file} | {' | '.join(cells)} | {shown} |", flush=True)
    print(", ".join(f"{number} {name}" for name, number in count.items()))
    return 1 if count["SURVIVED"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
