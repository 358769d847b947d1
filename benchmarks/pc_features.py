"""PC on label-normalized log-probabilities and on raw ones, beside plain ICL and BC.

python -m benchmarks.pc_features [WORKDIR]

Needs ../shared/scores: MMLU, seven models, every fourth subject, log-probabilities of the whole
vocabulary; with all four labels, and with two of them on the rows where one of these is right. A
workdir with score tables adds its tasks. 100 starts, key 0.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from batch_calibration.calibration.prototypes import FEATURES, prototypes
from batch_calibration.store import Store

SCORES = Path(__file__).resolve().parents[2] / "shared" / "scores"
Context = tuple[np.ndarray, np.ndarray]


def mmlu(columns: tuple[int, ...]) -> Iterator[tuple[str, list[Context]]]:
    """Of each model its contexts, cut to some labels."""
    with np.load(SCORES / "mmlu_base" / "orig.npz") as held:
        for name, scores in zip(held["models"], held["scores"], strict=True):
            contexts = []
            for subject in range(0, 56, 4):
                rows = (held["subject"] == subject) & np.isin(held["gold"], columns)
                gold = np.searchsorted(columns, held["gold"][rows])
                contexts.append((scores[rows][:, columns], gold))
            yield f"MMLU {''.join('ABCD'[i] for i in columns)}, {name}", contexts


def stored(workdir: str) -> Iterator[tuple[str, list[Context]]]:
    """The contexts of each task of a workdir."""
    tasks: dict[str, list[Context]] = {}
    for table in Store(workdir).tables()[0]:
        block = table.blocks["test"]
        tasks.setdefault(str(table.context["task"]), []).append((block.log_probs, block.labels))
    yield from tasks.items()


def accuracies(context: Context) -> list[float]:
    """Percent right of ICL, BC and PC with each kind of features."""
    scores, gold = context
    rows = np.asarray(scores, np.float32)
    # Contexts of about one length share a program.
    missing = (1 << (len(rows) - 1).bit_length()) - len(rows)
    padded = np.pad(rows, ((0, missing), (0, 0)))
    weight = np.pad(np.ones(len(rows), np.float32), (0, missing))
    found = [rows, rows - rows.mean(axis=0)]
    for features in FEATURES:
        made = prototypes(features=features)
        state = made.fit(padded, None, weight, key=jax.random.key(0))
        found.append(np.asarray(made.apply(state, rows)))
    return [100 * float((one.argmax(axis=-1) == gold).mean()) for one in found]


def main() -> None:
    """One line for each model and task; of all contexts, raw less normalized with its error."""
    if not SCORES.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {SCORES} is not there.")
    groups = {"MMLU, 4 labels": mmlu((0, 1, 2, 3)), "MMLU, 2 labels": mmlu((0, 1))}
    groups |= {workdir: stored(workdir) for workdir in sys.argv[1:]}
    for group, several in groups.items():
        every = []
        for name, contexts in several:
            each = np.array([accuracies(context) for context in contexts])
            every.append(each)
            told = zip(("icl", "bc", *(f"pc {one}" for one in FEATURES)), each.mean(0), strict=True)
            print(f"{name}: " + ", ".join(f"{a} {b:.1f}" for a, b in told), flush=True)
        table = np.concatenate(every)
        gain = table[:, 3] - table[:, 2]
        error = gain.std(ddof=1) / len(gain) ** 0.5
        print(f"{group}, {len(table)} contexts: {table.mean(0).round(2).tolist()}; raw less "
              f"normalized {gain.mean():+.2f} ± {error:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
