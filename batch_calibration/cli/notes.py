"""Notes of importers, grouped over contexts."""

from collections.abc import Sequence

from batch_calibration.cli.summaries import title
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.studies.calibration import order_flips


def of_block(block: Block) -> list[str]:
    """Notes of a block's importer."""
    messages = block.spec.get("notes")
    return list(map(str, messages)) if isinstance(messages, list) else []


def of_orders(table: ScoreTable) -> list[str]:
    """Rate at which the answer changes with the order of options, where every row has several."""
    rate, rows = order_flips(table), len(table.blocks["test"].log_probs)
    if rate is None:
        return []
    return [f"{rate} % of {rows:,} questions get another answer in another order of their options."]


def group(tables: Sequence[ScoreTable]) -> list[str]:
    """The importers' notes, those that differ in their numbers alone as one with an example.

    >>> from batch_calibration.scores import make_block
    >>> block = make_block([[-1.0, -3.0]], spec={"notes": ["Labels have 3 %."]})
    >>> table = ScoreTable({"task": "a"}, ("no", "yes"), {"test": block})
    >>> other = ScoreTable({"task": "b"}, ("no", "yes"), {"test": make_block([[-1.0, -3.0]])})
    >>> group([table, other, table._replace(context={"task": "c"})])
    ['2 of 3 contexts, such as a: Labels have 3 %.']
    """
    # What a note says without its numbers -> the contexts that have it, and their notes.
    by_kind: dict[str, dict[str, str]] = {}
    for table in tables:
        notes = of_orders(table)
        for block in table.blocks.values():
            notes += of_block(block)
        for note in notes:
            kind = ["#" if any(map(str.isdigit, token)) else token for token in note.split()]
            by_kind.setdefault(" ".join(kind), {}).setdefault(title(table), note)
    sentences = []
    for notes_of_kind in by_kind.values():
        example, note = next(iter(notes_of_kind.items()))
        is_of_all = len(notes_of_kind) == len(tables) and len(set(notes_of_kind.values())) == 1
        if is_of_all:
            sentences.append(note)
        elif len(notes_of_kind) == 1:
            sentences.append(f"{example}: {note}")
        else:
            count = f"{len(notes_of_kind):,} of {len(tables):,} contexts"
            sentences.append(f"{count}, such as {example}: {note}")
    return sentences
