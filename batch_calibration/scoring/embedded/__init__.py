"""The embedded suite: a grammar, drawn images, and the three checkpoints trained on them."""

from pathlib import Path

MINI = "mini"  # the value of `config.data` for this suite
FOLDERS = {"mini": "language_model", "mini_small": "small_language_model", "mini_clip": "clip"}
CHECKPOINTS = {name: Path(__file__).parent / folder for name, folder in FOLDERS.items()}
"""Directories of the checkpoints that come with the package, keyed by `config.model`."""
