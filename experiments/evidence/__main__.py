"""Effect of label-bias corrections on stored scores of real models: tables, figures, a page.

python -m experiments.evidence --config=configs/evidence_real.py --scores=DIR --workdir=W
"""

import time
from pathlib import Path

from absl import flags

from batch_calibration.cli.compilation_cache import keep_programs
from experiments import cli

CONFIG = cli.config_flag("the study", "configs/evidence_real.py")
SCORES = cli.folder_flag("folder of label scores of real models", "scores")
WORKDIR = cli.folder_flag("folder for tables and figures")
PAGE = flags.DEFINE_string("page", None, "Markdown page whose part of this study is written anew")


def main() -> None:
    """Run one study, and say how long it took."""
    from experiments.evidence import studies

    keep_programs()
    start = time.perf_counter()
    page = Path(PAGE.value) if PAGE.value else None
    files = studies.run(CONFIG.value.to_dict(), Path(SCORES.value), Path(WORKDIR.value), page)
    print(*files, sep="\n")
    # The second: of all threads, since the process began.
    spent = time.perf_counter() - start, time.process_time()
    print("{:.1f} s, {:.1f} s of processor time, compilation included".format(*spent))


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
