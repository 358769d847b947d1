"""Fetches, scores and calibrates a small real language model on real sentences of four domains.

    python -m experiments.real --workdir=runs/real --model=gemma3

`make real MODEL=gemma3` runs this program. It runs configs/real.py with SmolLM2-135M-Instruct
(smollm2), Gemma 3 270M (gemma3), a GGUF file or a checkpoint folder. It prints a table of each
model that the workdir has, writes the page of all, and opens the page in a browser if the terminal
is interactive. Finished scores are kept: a stopped run resumes, and a second run scores nothing.
`--preset=smoke` takes a minute.
"""

from pathlib import Path

from absl import app, flags

from batch_calibration.cli import machine
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", "runs/real", "folder for model, tasks, scores and page")
MODEL = flags.DEFINE_string(
    "model", "smollm2", "smollm2, gemma3, FILE.gguf, or a checkpoint folder"
)
PRESET = flags.DEFINE_string("preset", "", "preset of configs/real.py; smoke is a small run")


def main() -> None:
    """Fetches, scores and calibrates, writes the page and prints the table."""
    from experiments.evidence import small_model

    machine.set_up()
    small_model.open_page(small_model.run(Path(WORKDIR.value), MODEL.value, PRESET.value))


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
