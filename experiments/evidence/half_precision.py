"""Predictions that bfloat16 flips, compared with float32, before and after BC.

python -m experiments.evidence.half_precision

Needs ../shared: stories260K, a real Llama of 260 thousand parameters, on validation rows of five
tasks, without demonstrations; and the embedded model on its own rows, one shot a class. A
prediction whose corrected margin is below twice the largest rounding error cannot be trusted in
bfloat16; `diagnose` counts rows by the sizes of their scores alone. The line ends with both counts
and how many of the flips are among the rows of `diagnose`.
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
"""Characters: stories260K has 512 positions, and tokens of a letter."""
NAMES = ("sst2", "rte", "mrpc", "wic", "copa")


def compare(name: str, model: Path, data: str, shots: int) -> None:
    """Print a line for a model: errors in nats, flips before and after BC."""
    scorers = [CausalLM(load_checkpoint(model, dtype)) for dtype in ("float32", "bfloat16")]
    errors, flips, corrected_flips, doubtful, rounded_rows = [], [], [], [], []
    for task_name in NAMES:
        task = TASKS[task_name]
        cell = Settings.of(data=data, shots=shots, limit=ROWS).cell(task_name)
        train = read(task, data, "train")
        context = render(task, cell, read(task, data, "validation", ROWS), train)
        inputs = context.blocks["test"].inputs
        assert not isinstance(inputs, ImageInputs)  # these are tasks of text
        texts = [text for text in inputs if len(text) < LONGEST]
        labels = context.label_texts
        exact, rounded = (scorer.score(texts, labels).log_probs for scorer in scorers)
        difference = rounded - exact
        difference -= difference.mean(axis=1, keepdims=True)  # a constant a row flips nothing
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
        f"{name}: {rows} rows of {len(NAMES)} tasks; error between labels of a row mean "
        f"{error.mean():.4f}, largest {error.max():.4f} nats; flips {np.sum(np.concatenate(flips))}"
        f" before BC, {np.sum(np.concatenate(corrected_flips))} after; margins after BC below "
        f"twice the largest error of the task: {np.sum(np.concatenate(doubtful))}; counted by "
        f"diagnose: {np.sum(is_counted)}, with {counted_flips} of the flips"
    )


def main() -> None:
    """Both models."""
    if not SHARED.is_dir():
        raise SystemExit(f"error: needs the shared data, and {SHARED} is not there.")
    sys.path.insert(0, str(ROOT / "tests"))
    from llama2c import convert

    with temporary_folder() as folder:
        stories = SHARED / "weights" / "stories260K"
        convert(stories / "stories260K.bin", stories / "tok512.bin", folder / "llama")
        compare("stories260K", folder / "llama", str(SHARED / "data"), shots=0)
    compare("embedded model", CHECKPOINTS[MINI], MINI, shots=1)


if __name__ == "__main__":
    main()
