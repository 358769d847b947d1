"""Which methods a score table rules out, and why."""

from collections.abc import Mapping, Sequence

from batch_calibration.methods import METHODS, Options, no_log_probs
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.table import SCORERS


def left_out(
    table: ScoreTable, methods: Sequence[str], options: Mapping[str, Options] | None = None
) -> dict[str, str]:
    """Those of `methods` that the table's blocks, labels or kind of scores rule out: name -> why.

    Options of a method may make it need what it does not by default.

    >>> from batch_calibration.scores import make_block
    >>> table = ScoreTable({}, ("no", "yes"), {"test": make_block([[-1.0, -3.0]])})
    >>> left_out(table, ["cc", "bc"])
    {'cc': "no block 'cc' in the table"}
    """
    many, other = len(table.label_names), _other_scores(table)
    rows = {name: len(block.row_ids) for name, block in table.blocks.items()}
    reasons = {}
    for name in methods:
        method = METHODS[name]
        for block in method.probe.blocks:
            if block not in table.blocks:
                reasons[name] = f"no block {block!r} in the table"
            elif method.probe.aligned and rows[block] not in (1, rows["test"]):
                reasons[name] = (
                    f"the block {block!r} has {rows[block]} rows, neither one nor one for each of "
                    f"the {rows['test']} test rows"
                )
            elif block in method.probe.labeled and (table.blocks[block].labels < 0).all():
                reasons[name] = f"no row of the block {block!r} has a right label"
        if method.most_labels is not None and many > method.most_labels:
            reasons[name] = (
                f"{many} labels are more than the {method.most_labels} it can tell apart"
            )
        if other and method.reads_level((options or {}).get(name)):
            reasons[name] = f"it needs log-probabilities over the whole vocabulary, and {other}"
    return reasons


def _other_scores(table: ScoreTable) -> str:
    """Why the scores are no log-probabilities, "" where they are: as their scorer says.

    The values of a table that names no scorer of ours are looked at.
    """
    scorer = table.context.get("scorer")
    about = scorer if isinstance(scorer, Mapping) else {"kind": scorer}
    if about.get("logits_only"):
        return "these are logits without the softmax's denominator (logits_only)"
    facts = SCORERS.get(str(about.get("kind")))
    if facts is not None and facts.why_no_log_probs is not None:
        return facts.why_no_log_probs
    found = (no_log_probs(block.log_probs) for block in table.blocks.values())
    return next((why for why in found if why), "")
