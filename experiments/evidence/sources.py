"""Reads the sources of the study "recommend": real scores, uneven draws of them, workdirs."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.methods.run import holds_cosines
from batch_calibration.reporting.frame import group_by
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store
from experiments.evidence.sets import SMALL_MODELS, ScoreSet, read_sets

BALANCED, BY_NATURE, MADE = "balanced by nature", "uneven by nature", "made uneven"
"""Kinds of label frequencies of language: about equal; some labels are rare or never right in the
original benchmark; or uneven because options were moved or rows drawn unevenly."""
IMAGES, MADE_IMAGES, GRADES = "images", "images made uneven", "simulated grades"
"""Kinds of other scores: cosines with about equally frequent labels, uneven draws of them, and
about equally frequent grades."""
LANGUAGE = BALANCED, BY_NATURE, MADE
KINDS = *LANGUAGE, IMAGES, MADE_IMAGES, GRADES
OF_BALANCE = {True: BALANCED, False: BY_NATURE}
SETS = {
    "mmlu": {
        "mmlu": BALANCED, "mmlu_batch": BALANCED, "mmlu_neverA": MADE, "mmlu_neverB": MADE,
        "mmlu_neverA_batch": MADE, "mmlu_neverB_batch": MADE,
    },
    "mmbench": {"mmbench": BALANCED, "mmbench_AF": BY_NATURE},
    "oodcv": {"oodcv": BALANCED, "oodcv_AF": BY_NATURE},
    "bear": {"bear": BALANCED},
    "demonstrations": {"demonstrations": BALANCED},
    "small models": {name: OF_BALANCE[row.is_balanced] for name, row in SMALL_MODELS.items()},
}  # fmt: skip
"""Name of the rows -> set made from these rows -> kind."""
UNEVEN = {"mmlu": "mmlu_batch", "mmbench": "mmbench", "oodcv": "oodcv"}
"""Name of the rows -> set from which `draw_uneven` draws."""
UNEVEN_ROWS = 600
UNEVEN_DRAWS = 4
SURENESS, GRADE_SEEDS, GRADE_ROWS = (0.25, 0.5, 1.0, 2.0), 20, 500
READING_ERROR, SCORE_NOISE, PLANTED = 0.45, 0.3, 1.5
"""Standard deviations of a simulated rater's reading, in grades, and of scores, in nats; the bias
in nats."""


class Source(NamedTuple):
    """A set of contexts with its kind of label frequencies.

    Attributes:
        set: the contexts, models x tasks.
        rows: name of the rows; cross-validation leaves out all sources with the same rows.
        kind: one of `KINDS`.
    """

    set: ScoreSet
    rows: str
    kind: str


def read_sources(folder: Path, embedded: Sequence[Path] = (), seed: int = 0) -> list[Source]:
    """Reads all sources, ordered by kind.

    Raises:
        InputError: an archive is missing, or a workdir has no scores.
    """
    sources = []
    for rows, kinds in SETS.items():
        for score_set, kind in zip(read_sets(folder, [*kinds]), kinds.values(), strict=True):
            sources.append(Source(score_set, rows, kind))
            if UNEVEN.get(rows) == score_set.name:
                sources.append(Source(draw_uneven(score_set, seed), rows, MADE))
    for workdir in embedded:
        for source in read_models(workdir):
            sources.append(source)
            if source.kind == IMAGES:
                uneven = draw_uneven(source.set, seed)
                sources.append(Source(uneven, source.rows, MADE_IMAGES))
    sources += [Source(simulate_grades(seed, bias), "grades", GRADES) for bias in (0.0, PLANTED)]
    return sorted(sources, key=lambda source: KINDS.index(source.kind))


def draw_uneven(score_set: ScoreSet, seed: int) -> ScoreSet:
    """Draws contexts with label shares from a uniform Dirichlet distribution.

    A context has at most `UNEVEN_ROWS` different rows, the same for every model.
    """
    tables = []
    for table in score_set.tables:
        test = table.blocks["test"]
        by_label = [np.flatnonzero(test.labels == j) for j in range(len(table.label_names))]
        for number in range(UNEVEN_DRAWS):
            random = np.random.default_rng([seed, number])
            shares = random.dirichlet(np.ones(len(by_label)))
            # The scarcest label limits the number of rows, so that the drawn shares hold.
            available = float(np.min(list(map(len, by_label)) / shares))
            counts = np.floor(shares * min(UNEVEN_ROWS, available)).astype(int)
            drawn = []
            for label_rows, count in zip(by_label, counts, strict=True):
                order = random.permutation(label_rows)
                drawn.append(order[:count])
            rows = np.sort(np.concatenate(drawn))
            block = make_block(test.log_probs[rows], test.labels[rows])
            context = {**table.context, "task": f"{table.context['task']}, draw {number}"}
            tables.append(ScoreTable(context, table.label_names, {"test": block}))
    title = f"{score_set.title.removesuffix(', one batch')}, uneven shares"
    about = f"{UNEVEN_DRAWS} draws of {score_set.about}"
    return ScoreSet(f"{score_set.name}_uneven", title, about, tables, score_set.models)


def simulate_grades(seed: int, bias: float) -> ScoreSet:
    """Simulates raters who give grades 1 to 5, a context for each sureness a and seed.

    s_j = -a (j - h)^2 + noise, where h is a reading of the true grade. In the contexts of one a the
    `bias` is on each grade in turn.
    """
    grades, tables = np.arange(5), []
    for sureness in SURENESS:
        for number in range(GRADE_SEEDS):
            random = np.random.default_rng([seed, number])
            gold = random.integers(0, 5, GRADE_ROWS).astype(np.int32)
            heard = gold + READING_ERROR * random.standard_normal(GRADE_ROWS)
            noise = SCORE_NOISE * random.standard_normal((GRADE_ROWS, 5))
            scores = noise - sureness * (grades - heard[:, None]) ** 2
            scores[:, number % 5] += bias
            context: dict[str, Json] = {
                "task": f"a = {sureness:g}, seed {number}",
                "model": "rater",
            }
            names = tuple(map(str, grades + 1))
            tables.append(ScoreTable(context, names, {"test": make_block(scores, gold)}))
    title = "Simulated grades" + f", {bias:+g} nats on one" * (bias != 0)
    return ScoreSet(f"grades_{bias:g}", title, f"{len(tables)} simulated raters", tables, 1)


def read_models(workdir: Path) -> list[Source]:
    """Reads the stored scores of each model; scores of a dual encoder are of images."""
    score_set, sources = read_workdir(workdir), []
    for model, tables in group_by(
        score_set.tables, lambda table: str(table.context["model"])
    ).items():
        images = holds_cosines(tables[0])
        title = f"Embedded {'images' if images else 'suite'}, {model}"
        named = score_set._replace(name=model, title=title, tables=tables)
        kind = IMAGES if images else BALANCED
        sources.append(Source(named, "images" if images else "embedded", kind))
    return sources


def read_workdir(workdir: Path) -> ScoreSet:
    """Reads the stored scores of one model; each task and draw of demonstrations is a context."""
    tables, _ = Store(workdir).tables()
    if not tables:
        raise InputError.at(
            f"workdir {workdir}",
            "stored scores",
            "none",
            "run experiments.score with this --workdir first",
        )
    model = str(tables[0].context["model"])
    about = f"{model}, {len(tables)} contexts of the embedded suite"
    return ScoreSet(model, f"Embedded suite, {model}", about, tables, 1)
