"""Which methods the blocks, the labels or the kind of scores of a context rule out, and why."""

from collections.abc import Collection, Iterable, Mapping

from batch_calibration.methods.table import METHODS, Options


def find_unusable(
    methods: Iterable[str],
    label_count: int,
    rows: Mapping[str, int],
    *,
    no_level: str = "",
    unlabeled: Collection[str] = (),
    options: Mapping[str, Options] | None = None,
) -> dict[str, str]:
    """Those of the methods that cannot be used: name -> why.

    Args:
        methods: names from `METHODS`.
        label_count: k.
        rows: block -> how many rows it has.
        no_level: why the scores are no log-probabilities over the vocabulary, "" where they are.
        unlabeled: blocks of which no right label is known.
        options: method -> its options, which may make it need what it does not by default.

    >>> find_unusable(["cc", "bc"], 2, {"test": 9})
    {'cc': "no block 'cc' in the table"}
    """
    reasons = {}
    for name in methods:
        method = METHODS[name]
        for block in method.probe.blocks:
            if block not in rows:
                reasons[name] = f"no block {block!r} in the table"
            elif (counts := method.probe.row_counts(rows["test"], label_count)) and (
                rows[block] not in counts
            ):
                expected = method.probe.describe_counts(rows["test"], label_count)
                reasons[name] = f"the block {block!r} has {rows[block]} rows, not {expected}"
            elif block in method.probe.labeled and block in unlabeled:
                reasons[name] = f"no row of the block {block!r} has a right label"
        if method.most_labels is not None and label_count > method.most_labels:
            reasons[name] = (
                f"{label_count} labels are more than the {method.most_labels} it can tell apart"
            )
        if no_level and method.needs_log_probs_with((options or {}).get(name)):
            reasons[name] = f"it needs log-probabilities over the whole vocabulary, and {no_level}"
    return reasons
