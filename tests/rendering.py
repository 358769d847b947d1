"""Renders one context of a config with some settings changed, as tests need it."""

from pathlib import Path

from batch_calibration.cli.study_options import read_config
from batch_calibration.scoring.inputs import ImageInputs
from batch_calibration.settings import Settings
from batch_calibration.studies.scoring import render_contexts

CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def settings_of(config, **values):
    """The settings of a config file, with some values changed."""
    return Settings.of(**read_config(str(CONFIGS / config))).replace(**values)


def rendered(config, task="sst2", seed=0, **values):
    """One context of a config."""
    settings = settings_of(config, **values)
    (context,) = render_contexts(settings, [settings.cell(task, seed)])
    return context


def label_texts(context):
    """The texts of all labels in sequence."""
    return [text for texts in context.label_texts for text in texts]


def images(block):
    """The references of a block of images."""
    assert isinstance(block.inputs, ImageInputs)
    return block.inputs.refs
