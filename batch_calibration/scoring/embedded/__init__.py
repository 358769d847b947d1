"""The embedded suite: a grammar, drawn images, and the three checkpoints trained on them."""

from pathlib import Path

MINI = "mini"  # what `config.data` calls the suite
FOLDERS = {"mini": "language_model", "mini_small": "small_language_model", "mini_clip": "clip"}
CHECKPOINTS = {name: Path(__file__).parent / folder for name, folder in FOLDERS.items()}
"""Checkpoints that come with the package, by what `config.model` calls them."""
