"""Makes the paper's tables and figures from stored scores, and lists the scores still missing.

python -m experiments.paper --workdir=W
"""

from absl import app, flags

from batch_calibration.cli.machine import keep_programs
from experiments.guard import guarded, parse_flags

WORKDIR = flags.DEFINE_string("workdir", None, "folder with scores and records", required=True)
MODELS = flags.DEFINE_list("models", [], "models, the smallest first, for tables of several sizes")


def main() -> None:
    """Writes each table and figure into W/paper, and prints its files and the missing scores."""
    from batch_calibration.studies import Store
    from experiments.evidence import paper
    from experiments.evidence.paper_figures import PaperResults

    keep_programs()
    store = Store(WORKDIR.value)
    records = store.records()
    results = PaperResults(records, store.table_of, models=tuple(MODELS.value))
    for line in paper.write_paper(results, store.workdir):
        print(line)
    # The sentences name scores without a record and records without their scores.
    for sentence in store.unmatched(records):
        print(sentence)


if __name__ == "__main__":
    app.run(guarded(main), flags_parser=parse_flags)
