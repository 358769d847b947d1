"""Measures label-bias corrections on stored scores of real models: tables, figures, a page.

python -m experiments.evidence --config=configs/evidence_real.py --scores=DIR --workdir=W
"""

from pathlib import Path

from absl import app, flags
from ml_collections import config_flags

from experiments.guard import guarded, parse_flags

CONFIG = config_flags.DEFINE_config_file("config", None, "the study", lock_config=True)
SCORES = flags.DEFINE_string("scores", None, "folder of label scores of real models", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "folder for tables and figures", required=True)
PAGE = flags.DEFINE_string("page", None, "Markdown page in which this study's part is rewritten")
flags.mark_flag_as_required("config")


def main() -> None:
    """Runs one study, and prints its duration."""
    # Imported here because JAX takes a second to load and parsing the flags does not need it.
    from experiments.evidence import studies

    page = Path(PAGE.value) if PAGE.value else None
    studies.run_timed(CONFIG.value.to_dict(), Path(SCORES.value), Path(WORKDIR.value), page)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
