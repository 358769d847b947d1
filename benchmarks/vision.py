"""Compares the speed of our CLIP with transformers' on the same images and cores.

    make bench                 # FLAGS=--quick for a sample; at most 15 minutes on two cores
    python -m benchmarks.vision --quick

Needs torch and transformers, which `make bench` sets up. Both sides run in turn. Prints one table
and, unless quick, writes it to benchmarks/RESULTS.md.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from absl import app
from flax import nnx

from batch_calibration.scoring.data.images import read_images
from batch_calibration.scoring.models import clip
from batch_calibration.scoring.models.files import tokenizer_files, weights
from batch_calibration.scoring.models.files.config import read_config
from batch_calibration.scoring.tasks import TASKS
from benchmarks import report, scoring
from benchmarks.worker import Worker
from experiments.guard import guarded, parse_flags

GOAL = 1.5
"""Target speedup over transformers."""
AGREE = 1e-4
"""Tolerance between the sides' embeddings, which have length one."""
BATCHES = (1, 8, 32)
"""Batch sizes for transformers; the fastest one counts. Our scorer has its default."""
REPEATS = 3
SHAPES = {"ViT-B/32": (32, 64), "ViT-B/16": (16, 32)}
"""CLIP -> patch size in pixels, and number of images in one call."""
PACKAGES = ("jax", "flax", "torch", "transformers", "tokenizers", "pillow")
COLUMNS = (
    "CLIP", "images", "transformers/s (batch)", "ours/s", "ours/s, cold", "times as fast",
    "goal", "memory, GB: theirs, ours", "47 statements, s: theirs, ours", "max Δ",
)  # fmt: skip
LEGEND = """\
Both sides read the same JPEG files of DTD from disk, decode, resize, crop, normalize and embed \
them, in turn, each in its own process on the same cores; loading is not timed. Rates are images \
per second, the median of three calls, each on new images; ours cold is the first call of a \
process with its compilation. transformers: `CLIPImageProcessorPil` and \
`CLIPModel.get_image_features` at the fastest batch size of 1, 8 and 32. Statements are encoded \
once per task; their time is of the second call. Δ is the difference between embeddings of length \
one. Memory is the peak of the process."""


class Side(NamedTuple):
    """One side's answers: one on the statements, several on images."""

    statements: dict[str, Any]
    calls: list[dict[str, Any]]

    @property
    def seconds(self) -> float:
        """Median time of the calls on images, in seconds."""
        return median(call["seconds"] for call in self.calls)

    @property
    def vectors(self) -> np.ndarray:
        """The embeddings of all statements and images."""
        return np.concatenate([answer["vectors"] for answer in [self.statements, *self.calls]])


def main() -> None:
    """Measures each shape, prints the table and stores it."""
    began = time.monotonic()
    needs = "torch", "transformers"
    photos, tokenizer = scoring.check(needs, "data/extra_dtd10", "tokenizers/clip")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = TASKS["dtd"]
        images = read_images(task, str(photos), "test").images
        case = folder / "case.json"
        case.write_text(
            json.dumps({
                "texts": [str(ref) for ref in images],
                "labels": [task.statement.replace("{label}", w) for w in task.label_names],
            })
        )  # fmt: skip
        lines = []
        for shape, (edge, count) in SHAPES.items():
            directory = checkpoint(folder / str(edge), tokenizer, edge)
            lines.append(compare(shape, directory, case, 16 if scoring.QUICK.value else count))
    cut = ", QUICK: one call each" if scoring.QUICK.value else ""
    report.publish(
        "vision", "images compared with transformers' CLIP",
        f"`make bench`: CLIP's shapes with random weights in float32, images of DTD{cut}.",
        report.table([COLUMNS, *lines]), LEGEND,
        device={"backend": "cpu"}, threads=scoring.THREADS.value, began=began,
        quick=scoring.QUICK.value, packages=PACKAGES,
    )  # fmt: skip


def checkpoint(directory: Path, tokenizer: Path, edge: int) -> Path:
    """Writes a Hugging Face checkpoint with CLIP's tokenizer and initial weights."""
    directory.mkdir()
    raw = {"model_type": "clip", "text_config": {}, "vision_config": {"patch_size": edge}}
    config = read_config(clip.FAMILY, raw, directory)
    weights.save(directory, clip.Model(config, rngs=nnx.Rngs(0)), clip.FAMILY, raw)
    vocabulary = tokenizer_files.load(tokenizer / tokenizer_files.FILES[1])
    vocabulary.save(str(directory / "tokenizer.json"))
    (directory / "preprocessor_config.json").write_text(
        json.dumps({"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}})
    )
    return directory


def compare(shape: str, directory: Path, case: Path, rows: int) -> list[str]:
    """Measures one shape with both sides; returns cells in the order of `COLUMNS`."""
    repeats = 1 if scoring.QUICK.value else REPEATS
    with start("ours", directory, case) as ours, start("theirs", directory, case) as peer:
        peer.ask(rows=(0, 1))  # the first call warms up
        tried = {batch: peer.ask(rows=(0, 32), batch=batch)["seconds"] for batch in BATCHES}
        batch = min(tried, key=tried.__getitem__)
        for size, seconds in tried.items():
            print(f"{shape}: transformers at batch {size}: {32 / seconds:.2f}/s", flush=True)
        cold = ours.ask(rows=(0, rows))
        ours.ask()  # the first calls on statements warm up
        peer.ask()
        own, peers = Side(ours.ask(), []), Side(peer.ask(), [])
        for first in range(rows, (repeats + 1) * rows, rows):
            own.calls.append(ours.ask(rows=(first, first + rows)))
            peers.calls.append(peer.ask(rows=(first, first + rows), batch=batch))
    gap = float(np.abs(own.vectors - peers.vectors).max())
    if gap > AGREE:
        sys.exit(
            f"error: {shape}: ours and transformers' embeddings differ by {gap:.2g}, which is "
            f"more than {AGREE:g}; their times cannot be compared."
        )
    faster = peers.seconds / own.seconds
    print(f"{shape}: ours {rows / own.seconds:.2f}/s, transformers {rows / peers.seconds:.2f}/s")
    return [
        shape,
        f"{repeats} x {rows}",
        f"{rows / peers.seconds:.2f} ({batch})",
        f"{rows / own.seconds:.2f}",
        f"{rows / cold['seconds']:.2f}",
        f"{faster:.2f}",
        f"≥ {GOAL:g}: {report.verdict(faster >= GOAL)}",
        f"{peers.calls[-1]['memory'] / 1e9:.2f}, {own.calls[-1]['memory'] / 1e9:.2f}",
        f"{peers.statements['seconds']:.2f}, {own.statements['seconds']:.2f}",
        f"{gap:.1e}",
    ]


def start(side: str, directory: Path, case: Path) -> Worker:
    """Starts a worker of one side with empty caches."""
    caches = Path(tempfile.mkdtemp(dir=case.parent))
    return Worker(f"benchmarks.vision_{side}", caches, scoring.THREADS.value, directory, case)


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)
