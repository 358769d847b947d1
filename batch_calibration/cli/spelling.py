"""How the programs spell the library's keys and steps: as flags, and as commands."""

from batch_calibration.errors import Spelling

HYPHENATED = {"from_probs": "from-probs"}


def flag(key: str, setting: object = None) -> str:
    """A key as a flag, of a bool with or without `no`, of several names with commas.

    >>> flag("gold", "label"), flag("labels", ("no", "yes")), flag("from_probs", False)
    ('--gold=label', '--labels=no,yes', '--no-from-probs')
    """
    name = HYPHENATED.get(key, key)
    if isinstance(setting, bool):
        return f"--{name}" if setting else f"--no-{name}"
    text = ",".join(setting) if isinstance(setting, tuple) else setting
    return f"--{name}" if text is None else f"--{name}={text}"


def _command(step: str) -> str:
    return f"run batch-calibration {step}"


CONSOLE = Spelling(flag, _command)
"""Of the console program `batch-calibration`."""
