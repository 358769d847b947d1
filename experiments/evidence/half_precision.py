"""Counts predictions that change between float32 and bfloat16, before and after BC.

python -m experiments.evidence.half_precision

Needs ../shared. Scores five tasks with stories260K (a real Llama of 260 thousand parameters,
validation rows without demonstrations) and with the embedded model (its own rows, one shot per
class). A prediction is not reliable in bfloat16 if its corrected margin is below twice the largest
rounding error. `diagnose` counts these rows from the size of their scores only. Each printed line
ends with both counts, and with the number of flips among the rows that `diagnose` counts.
"""

import sys
from pathlib import Path

import numpy as np

from batch_calibration import calibrate, diagnose, predict
from batch_calibration.files import temporary_folder
from batch_calibration.scoring import ImageInputs
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.embedded import CHECKPOINTS, MINI
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.prompts.render import render
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
ROWS = 200
LONGEST = 450
"""Characters of the longest text: stories260K has 512 positions, and some tokens are one letter."""
NAMES = ("sst2", "rte", "mrpc", "wic", "copa")


def compare(name: str, model: Path, data: str, shots: int) -> None:
    """Prints a line for a model: errors in nats, flips before and after BC."""
    scorers = [CausalLM(load_checkpoint(model, dtype)) for dtype in ("float32", "bfloat16")]
    errors, flips, corrected_flips, doubtful, rounded_rows = [], [], [], [], []
    for task_name in NAMES:
        task = TASKS[task_name]
        cell = Settings.of(data=data, shots=shots, limit=ROWS).cell(task_name)
        train = read(task, data, "train")
        context = render(task, cell, read(task, data, "validation", ROWS), train)
        inputs = context.blocks["test"].inputs
        assert not isinstance(inputs, ImageInputs)  # all of these tasks have text inputs
        texts = [text for text in inputs if len(text) < LONGEST]
        labels = context.label_texts
        exact, rounded = (scorer.score(texts, labels).log_probs for scorer in scorers)
        difference = rounded - exact
        # A constant added to a row's scores does not change its prediction.
        difference -= difference.mean(axis=1, keepdims=True)
        errors.append(np.abs(difference).ravel())
        flips.append(predict(rounded) != predict(exact))
        corrected = np.asarray(calibrate(exact))
        corrected_flips.append(predict(calibrate(rounded)) != predict(corrected))
        two_best = np.sort(corrected, axis=1)[:, -2:]
        doubtful.append(two_best[:, 1] - two_best[:, 0] < 2 * np.abs(difference).max())
        is_rounded = np.zeros(len(texts), bool)
        is_rounded[diagnose(rounded, dtype="bfloat16").rounded] = True
        rounded_rows.append(is_rounded)
    error, rows = np.concatenate(errors), sum(map(len, flips))
    is_counted = np.concatenate(rounded_rows)
    counted_flips = np.sum(is_counted & np.concatenate(corrected_flips))
    print(
        f"{name}: {rows} rows of {len(NAMES)} tasks; error of a row's centered scores: mean "
        f"{error.mean():.4f}, largest {error.max():.4f} nats; flips {np.sum(np.concatenate(flips))}"
        f" before BC, {np.sum(np.concatenate(corrected_flips))} after; margins after BC below "
        f"twice the largest error of the task: {np.sum(np.concatenate(doubtful))}; counted by "
        f"diagnose: {np.sum(is_counted)}, including {counted_flips} of the flips"
    )


def main() -> None:
    """Compares both models."""
    if not SHARED.is_dir():
        raise SystemExit(f"error: this program needs the shared data, but {SHARED} does not exist.")
    sys.path.insert(0, str(ROOT / "tests"))
    from llama2c import convert

    with temporary_folder() as folder:
        stories = SHARED / "weights" / "stories260K"
        convert(stories / "stories260K.bin", stories / "tok512.bin", folder / "llama")
        compare("stories260K", folder / "llama", str(SHARED / "data"), shots=0)
    compare("embedded model", CHECKPOINTS[MINI], MINI, shots=1)


if __name__ == "__main__":
    main()
