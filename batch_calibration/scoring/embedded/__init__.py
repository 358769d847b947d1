"""The embedded suite: a grammar, drawn images, and the three checkpoints trained on them."""

from pathlib import Path

MINI = "mini"  # what `config.data` calls the suite
CHECKPOINTS = {
    "mini": Path(__file__).parent / "language_model",
    "mini_small": Path(__file__).parent / "small_language_model",
    "mini_clip": Path(__file__).parent / "clip",
}
"""Checkpoints that come with the package, by what `config.model` calls them."""
