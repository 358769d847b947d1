"""Other labels and words on demonstrations: what is rendered, stored, counted and said."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import product

import figures
import numpy as np
import pytest
from making import make_record
from rendering import label_texts, rendered, settings_of
from tokenizers import Tokenizer

from batch_calibration.cli.study_options import read_config, read_study
from batch_calibration.reporting import writing
from batch_calibration.reporting.tables import make_tables
from batch_calibration.scoring import NOTHING_FINISHED, LabelScores
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.embedded import CHECKPOINTS, label_words, suite
from batch_calibration.scoring.embedded.label_words import HELD_OUT, TRAINING
from batch_calibration.scoring.prompts.demonstrations import flipped_labels, random_labels
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Store, calibrate_store, run_scoring
from batch_calibration.studies.scoring import render_contexts
from experiments.evidence import demonstration_labels as reading
from experiments.evidence.paper_figures import PaperResults
from experiments.pretrain import label_words as chosen_words
from experiments.pretrain.documents import VERBALIZERS

CONFIG = "configs/demo_labels.py"
POOLS = {"training": TRAINING, "held_out": HELD_OUT}


def made(**values):
    return rendered("demo_labels.py:smoke", **{"model": "", "limit": 3, **values})


def shown(context):
    """The label words of the demonstrations, in the order in which they stand."""
    return [text.rsplit(" ", 1)[1] for text in context.blocks["test"].inputs[0].split("\n\n")[:-1]]


@pytest.mark.parametrize("task", ["sst2", "mnli"])
def test_flipped_labels_are_those_of_no_demonstration(task):
    names = load_task(task).label_words
    gold, flipped = (made(task=task, shots=2, demonstration_labels=how) for how in LABELS[:2])
    assert sorted(shown(gold)) == sorted(2 * names)
    for right, wrong in zip(shown(gold), shown(flipped), strict=True):
        assert wrong == names[(names.index(right) + 1) % len(names)] != right
    assert gold.context["demonstrations"] == flipped.context["demonstrations"]
    assert flipped.context["options"] == {"demonstration_labels": "flipped"}
    # All else is the same: the texts, and what is scored and right.
    assert label_texts(gold) == label_texts(flipped)
    assert gold.blocks["test"].labels == flipped.blocks["test"].labels
    assert flipped.blocks["looc"].labels == flipped_labels(gold.blocks["looc"].labels, len(names))


LABELS = ("gold", "flipped", "random")


def test_random_labels_are_even_and_belong_to_the_rows():
    drawn = [random_labels([3, 8, 21, 40], 3, seed) for seed in range(300)]
    counts = Counter(label for labels in drawn for label in labels)
    assert sorted(counts) == [0, 1, 2] and min(counts.values()) > 340
    assert drawn[0] == random_labels([3, 8, 21, 40], 3, 0) != random_labels([4, 9, 22, 41], 3, 0)
    context = made(shots=4, demonstration_labels="random", seed=1)
    assert shown(context) != shown(made(shots=4, seed=1)) and set(shown(context)) <= {*OWN}


def test_without_demonstrations_their_labels_are_nothing():
    plain, flipped = (made(shots=0, demonstration_labels=how) for how in LABELS[:2])
    assert plain.context == flipped.context


@pytest.mark.parametrize("pool", ["training", "held_out"])
def test_drawn_words_stand_in_demonstrations_and_are_scored(pool):
    context = made(shots=2, label_words=pool, seed=3)
    drawn = label_words.draw_words(pool, TASKS["sst2"], seed=3)
    assert label_texts(context) == [f" {label}" for label in drawn]
    assert Counter(shown(context)) == dict.fromkeys(drawn, 2)
    assert set(drawn) <= set(POOLS[pool]) and len(set(drawn)) == 2
    assert context.context["options"] == {"label_words": pool}
    assert context.blocks["test"].labels == made(shots=2, seed=3).blocks["test"].labels
    # They depend on the seed alone, whatever the task and the shots.
    assert label_texts(made(task="rte", shots=0, label_words=pool, seed=3)) == label_texts(context)
    assert len({label_words.draw_words(pool, TASKS["sst2"], seed) for seed in range(20)}) > 15


def test_words_of_the_task_are_passed_over():
    usual = label_words.draw_words("held_out", TASKS["sst2"], seed=0)
    names = dict(zip(TASKS["sst2"].label_names, usual, strict=True))
    task = TASKS["sst2"]._replace(zero_shot_verbalizer=names)
    assert not set(label_words.draw_words("held_out", task, seed=0)) & set(usual)


def test_lists_of_words():
    pool = TRAINING + HELD_OUT
    assert len(set(pool)) == len(pool) and len(HELD_OUT) == 60 and len(TRAINING) >= 300
    assert list(TRAINING) == sorted(TRAINING) and list(HELD_OUT) == sorted(HELD_OUT)
    in_use = {label for name in VERBALIZERS for label in TASKS[name].own_words}
    in_use = in_use.union(*(pool for verbalizer in VERBALIZERS.values() for pool in verbalizer))
    assert not in_use & set(pool)
    tokenizer = Tokenizer.from_file(str(CHECKPOINTS["mini"] / "tokenizer.json"))
    tokens = [tokenizer.encode(f" {w}", add_special_tokens=False).tokens for w in pool]
    assert tokens == [[f"Ġ{label}"] for label in pool]


def test_the_rule_that_chose_the_words():
    tokenizer = Tokenizer.from_file(str(CHECKPOINTS["mini"] / "tokenizer.json"))
    tasks = [TASKS[name] for name in VERBALIZERS]
    texts = [f"It was {label} ." for label in (*TRAINING, *HELD_OUT)]
    excluded = ["It was bad but wonderful , Rome is it , an awfully zigzagging maybe ."]
    assert chosen_words.choose(texts + excluded, tokenizer, tasks) == (TRAINING, HELD_OUT)


def test_a_seed_for_every_draw_of_words():
    usual = settings_of("demo_labels.py", seeds=3, tasks="sst2")
    assert len(list(usual.replace(shots=0).grid())) == 1
    assert len(list(usual.replace(shots=0, label_words="held_out").grid())) == 3


def test_refusals(refuses):
    assert refuses(made, label_words="held_out", verbalizer="2", task="rte").key == "verbalizer"
    assert refuses(made, label_words="heldout").got == "heldout"
    assert refuses(made, demonstration_labels="wrong").key == "demonstration_labels"
    compares = {"label_words": "training", "scorer": "dual_encoder", "shots": 0}
    assert refuses(made, **compares).key == "label_words"
    names = tuple(f"label {i}" for i in range(61))
    task = TASKS["sst2"]._replace(name="many", label_names=names)
    assert "got 60 in 'held_out'" in str(refuses(label_words.draw_words, "held_out", task, seed=0))


def test_the_config_makes_each_condition_once():
    settings, cells = read_study(CONFIG, read_config(CONFIG))
    assert settings.tasks == ("sst2", "rte", "mrpc") and len(set(cells)) == len(cells) == 3 * 91
    conditions = Counter(
        (c.prompt.shots, c.prompt.demonstration_labels, c.prompt.label_words) for c in cells
    )
    assert conditions.pop((0, "gold", "own")) == 3
    assert set(conditions.values()) == {3 * 5} and len(conditions) == 3 * 6
    assert {shots for shots, _, _ in conditions} == {1, 2, 4}


ROWS = {split: suite.read_rows("sst2", split) for split in ("train", "validation")}
CLASSES = {
    split: {row["sentence"]: label for row, label in zip(rows.rows, rows.labels, strict=True)}
    for split, rows in ROWS.items()
}
"""Split -> sentence -> label; of a sentence that comes twice with two labels, the last."""
TEST = [CLASSES["validation"][row["sentence"]] for row in ROWS["validation"].rows[:60]]
ANSWERS = np.array([label if i % 10 else 1 - label for i, label in enumerate(TEST)])
"""Of a model that knows these labels, and is wrong in every tenth row."""
RIGHT = float((np.array(ROWS["validation"].labels[:60]) == ANSWERS).mean())
OWN = TASKS["sst2"].label_words


class Reader:
    """Copies the label word of the demonstration of the same class; wrong in every tenth row."""

    def __init__(self):
        self.notes, self.identity = [], {"kind": "causal_lm", "version": type(self).__name__}

    def score(self, inputs, labels, *, progress=None, finished=NOTHING_FINISHED):
        candidates = [texts[0].strip() for texts in labels]
        rows = [self.one(text, candidates) for text in inputs]
        noise = np.array([number % 10 == 0 for number in range(len(rows))])
        scores = np.array(rows, np.float32)
        scores[noise] = scores[noise][:, ::-1]
        finished.add(list(range(len(rows))), scores)
        return LabelScores(scores - 3.0, np.full(len(rows), 9, np.int32))

    def one(self, text, candidates):
        *blocks, query = text.split("\n\n")
        pairs = [block.removeprefix("Review: ").split("\nSentiment: ") for block in blocks]
        sentence = query.removeprefix("Review: ").removesuffix("\nSentiment:")
        shown = [(CLASSES["train"][s], label) for s, label in pairs]
        label = self.word(CLASSES["validation"].get(sentence), shown)
        return [float(candidate == label) for candidate in candidates]

    def word(self, gold, demonstrations):
        return dict(demonstrations).get(gold)


class Ignorer(Reader):
    """Knows the task's own words and no others, whatever the demonstrations say."""

    def one(self, text, labels):
        if set(labels) == set(OWN):
            return super().one(text, labels)
        query = text.split("\n\n")[-1]
        return [sha256(f"{candidate} {query}".encode()).digest()[0] / 256 for candidate in labels]

    def word(self, gold, demonstrations):
        return None if gold is None else OWN[gold]


class KnowsWords(Ignorer):
    """Copies labels as long as they are the task's own words."""

    def word(self, gold, demonstrations):
        return Reader.word(self, gold, demonstrations) if demonstrations else OWN[gold or 0]


def study(scorer, workdir, is_asked=lambda cell: True):
    """The store with records of the study, or of some of its contexts, by a fake model."""
    config = read_config(CONFIG)
    config |= dict(model="fake", tasks=("sst2",), limit=60, seeds=3, shots=2, dc_texts=1)
    settings, cells = read_study(CONFIG, config)
    settings = settings.replace(model="")
    store = Store(workdir, create=True)
    run_scoring(settings, list(filter(is_asked, cells)), store, scorer=scorer)
    calibrate_store(store, ("icl", "bc"))
    return store


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scorer", "verdict"), [(Reader, "yes"), (Ignorer, "no"), (KnowsWords, "partly")]
)
def test_the_verdict_on_models_of_which_it_is_known(scorer, verdict, tmp_path):
    store = study(scorer(), tmp_path)
    (found,) = reading.find_studies(store.records())
    assert reading.judge(found) == verdict
    assert f"Reads its demonstrations: {verdict}." in reading.verdict(found)
    means = {}
    for method, name in product(("icl", "bc"), found.conditions[1:]):
        points = [reading.Point("sst2", n, name, method) for n in (1, 2)]
        means[method, name] = [found.mean([point]) for point in points]
    assert [mean.value for mean in means["icl", "gold"]] == pytest.approx([RIGHT] * 2)
    flipped = RIGHT if scorer is Ignorer else 1 - RIGHT
    assert [mean.value for mean in means["icl", "flipped"]] == pytest.approx([flipped] * 2)
    assert all(mean.low <= mean.value <= mean.high for group in means.values() for mean in group)
    if scorer is Reader:
        assert [mean.value for mean in means["icl", "held-out words"]] == pytest.approx([RIGHT] * 2)
    gold, other = (reading.Point("sst2", 1, name, "icl") for name in ("gold", "flipped"))
    differs = found.mean([gold], [other])
    assert differs.value == pytest.approx(RIGHT - flipped)


def test_tables_and_the_figure_of_a_study(tmp_path, capsys):
    reading.run(study(Reader(), tmp_path).workdir)
    printed, folder = capsys.readouterr().out, tmp_path / "demonstration_labels"
    assert "Reads its demonstrations: yes." in printed and str(folder) in printed
    (figure,) = folder.glob("*.png")
    assert figure.with_suffix(".csv").exists() and figure.with_suffix(".tex").exists()
    cells = {}
    for kind in ("", "-differences", "-likelier"):
        lines = (folder / f"{figure.stem}{kind}.md").read_text().replace("\\", "").splitlines()
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
        cells[kind] = [rows[0], *rows[2:]]  # without the line below the header
    expected = "difference|bc - icl, 1 shot|bc - icl, 2 shots|icl, 2 - 1 shots|bc, 2 - 1 shots"
    gained = cells["-differences"]
    assert "|".join(row[1] for row in gained) == expected
    assert gained[3][2] == "-" and gained[3][3].startswith("+0.0 [")
    header, *rows = cells[""]
    expected = "task|shots|method|chance|none|gold|random|flipped|training words|held-out words|"
    expected += "held-out words, flipped|gold - flipped|held-out words - flipped"
    assert "|".join(header) == expected
    named = product(["SST-2"], "12", ("icl", "bc"), ["50.0"])
    assert [tuple(row[:4]) for row in rows] == list(named)
    percent = f"{100 * RIGHT:.1f}"
    assert rows[0][5] == percent and rows[0][7] == f"{100 - 100 * RIGHT:.1f}"
    assert rows[0][11].startswith(f"{200 * RIGHT - 100:+.1f} [") and rows[0][11].endswith("]*")
    # By the grammar's own answer: of the rows whose drawn label is another one, the contrary.
    share = np.mean(np.array(suite.likelier("sst2", "validation")[:60]) == ANSWERS)
    assert cells["-likelier"][1][5] == f"{100 * share:.1f}" != percent
    csv = figure.with_suffix(".csv").read_text().splitlines()
    assert csv[0] == "task,shots,method,condition,value,low,high"
    assert csv[2].startswith(f"sst2,1,icl,gold,{100 * RIGHT:.4g},")


def test_the_figure_has_the_mean_of_each_condition(tmp_path):
    (found,) = reading.find_studies(study(Reader(), tmp_path).records())
    drawn = reading.draw(found)
    (axes,) = drawn.figure.axes
    names = [text.get_text().replace("\n", " ") for text in axes.get_xticklabels()]
    assert names == found.conditions
    cells = figures.columns([drawn.cells[0], *(row for row in drawn.cells if row[1] == "all")])
    assert cells["condition"] == 2 * found.conditions
    assert cells["method"] == ["icl"] * len(names) + ["bc"] * len(names)
    dots = np.concatenate([one.get_offsets() for one in axes.collections if len(one.get_offsets())])
    for name, right in (("gold", RIGHT), ("flipped", 1 - RIGHT)):
        at = names.index(name)
        assert float(cells["value"][at]) == pytest.approx(100 * right, abs=0.01)
        heights = dots[np.abs(dots[:, 0] - at) < 0.5][:, 1]
        # Of each method a small dot, the only task, and a large one.
        np.testing.assert_allclose(heights, 4 * [100 * right], 1e-4)
    figures.check(drawn.figure)


def test_contexts_with_other_labels_differ_in_these_factors(tmp_path):
    store = study(Reader(), tmp_path)
    results = PaperResults(store.records(), store.table_of)
    (group,) = results.studies.values()
    contexts = group.where(shots="1").by("demonstration_labels", "label_words")
    others = {("flipped", "own"), ("random", "own"), ("own", "training"), ("own", "held_out")}
    assert set(contexts) == {("own", "own"), *others, ("flipped", "held_out")}
    assert {len(part) for part in contexts.values()} == {3}
    # The main contexts, and the figures of the paper, are those of the task's own labels.
    assert {(r.context.shots, *r.context.options) for r in results.main.records} == {(1,)}
    views = [*make_tables(results), *writing.make_figures(results)]
    assert not [view for view in views if view.number in ("Table 7", "Figure 6", "Figure 8")]
    rows = store.records().rows()
    assert {row["option_label_words"] for row in rows} == {None, "training", "held_out"}


def test_a_workdir_without_such_contexts_is_a_sentence(tmp_path, refuses):
    workdir = study(Reader(), tmp_path, lambda cell: cell.prompt.shots == 0).workdir
    assert refuses(reading.run, workdir).where == str(workdir)


def test_without_score_tables_the_likelier_label_is_not_judged(tmp_path):
    records = study(Reader(), tmp_path).records()
    assert reading.find_studies(records, reading.right_by_likelier_label(lambda record: None)) == []


def record(task, bc, icl=None, *, shots=1, seed=0, **options):
    """The record of a context of 300 rows, of which these shares are right."""
    context = {"shots": shots, "seed": seed, "options": options}
    return make_record(
        task, {"icl": bc if icl is None else icl, "bc": bc}, rows=300, context=context
    )


FLIP, NEW = {"demonstration_labels": "flipped"}, {"label_words": "held_out"}


def records(task, gold, flipped, own_words=None, words_flipped=None, *, seeds=3, **options):
    """Records of a study of one task; numbers are how many of 300 rows are right."""
    counts = [(gold, {}), (flipped, FLIP), (own_words, NEW), (words_flipped, NEW | FLIP)]
    made = []
    for right, kind in counts:
        own = range(seeds if right is not None else 0)
        made += [record(task, right / 300, seed=seed, **kind, **options) for seed in own]
    return made


def one_study(study_records):
    (found,) = reading.find_studies(study_records)
    return found


def test_the_verdict_needs_every_task():
    reads, ignores = records("sst2", 270, 30, 240, 60), records("rte", 270, 270, 180, 180)
    assert reading.judge(one_study(reads)) == "yes"
    assert reading.judge(one_study(ignores)) == "no"
    whole_study = one_study(reads + ignores)
    assert reading.judge(whole_study) == "partly"
    assert "above 0 beyond noise on 1 of 2 tasks" in reading.verdict(whole_study)
    assert "below chance beyond noise on 1 of 2 tasks" in reading.verdict(whole_study)
    # A few rows that happen to agree are no proof that nothing is read.
    few = one_study(records("sst2", 270, 265, seeds=2) + records("rte", 265, 270, seeds=2))
    assert "Reads its demonstrations: no." in reading.verdict(few)
    wide = one_study([*records("sst2", 180, 160, seeds=1)[:1], *FLIPPED_DRAWS])
    assert "unknown, because seeds or rows are too few." in reading.verdict(wide)
    assert reading.judge(one_study(records("sst2", 270, None, 240, 60))) == "yes"
    nothing = one_study(records("sst2", 270, None, 240) + RANDOM)
    assert reading.verdict(nothing) == ""


FLIPPED_DRAWS = [record("sst2", 0.9, **FLIP), record("sst2", 0.9, seed=1)]
FLIPPED_DRAWS.append(record("sst2", 0.4, seed=1, **FLIP))
RANDOM = [record("sst2", 0.5, demonstration_labels="random")]


def test_usual_records_alone_are_no_study_and_templates_are_studies_of_their_own():
    usual = records("sst2", 270, None)
    assert reading.find_studies(usual) == []
    with_template = records("sst2", 240, 60, template="1")
    plain, second = reading.find_studies(usual + RANDOM + with_template)
    assert "template" not in dict(plain.fixed) and dict(second.fixed)["template"] == "1"
    assert second.slug.endswith("-template-1") and "template 1" in second.heading
    # The main contexts are the usual ones alone.
    main = PaperResults(RANDOM + records("sst2", 270, 30)[3:] + usual).main
    assert [record.context.options for record in main.records] == [{}] * 3


def test_gold_is_of_the_seeds_and_shots_that_were_asked_otherwise_too():
    asked = [(0, 0), (1, 5), (1, 6), (2, 5), (2, 6)]
    usual = [record("sst2", 0.5, shots=shots, seed=seed) for shots, seed in asked]
    found = one_study(records("sst2", 270, 30) + usual)
    assert found.shots("sst2") == [1]
    gold = found.mean([reading.Point("sst2", 1, "gold", "icl")])
    assert gold.value == pytest.approx(0.9)
    assert found.mean([reading.Point("sst2", 0, "none", "icl")]).value == pytest.approx(0.5)


def test_a_condition_that_was_not_asked_is_a_dash():
    found = one_study(records("sst2", 270, 30, seeds=2) + RANDOM)
    header, *_ = reading.condition_cells(found)
    assert header[4:] == ["gold", "random", "flipped", "gold - flipped"]
    study_of_both = one_study([*records("sst2", 270, 30), *records("rte", 270, None, 240)])
    cells = {(row[0], row[2]): row for row in reading.condition_cells(study_of_both)}
    column = cells["task", "method"].index("flipped")
    assert cells["RTE", "icl"][column] == "-" and cells["SST-2", "icl"][column] == "10.0"


def test_gains_are_paired_and_their_average_is_of_tasks_that_were_all_asked():
    more = []
    for seed in range(2):
        more += [record("rte", 0.8, 0.5, seed=seed), record("rte", 0.6, 0.5, seed=seed, **FLIP)]
    cells = reading.difference_cells(one_study([*records("sst2", 270, None, 240), *more]))
    label = "bc - icl, 1 shot"
    assert [row[:2] for row in cells[1:]] == [["SST-2", label], ["RTE", label], ["average", label]]
    gold = cells[0].index("gold")
    label = [row[gold].split()[0] for row in cells[1:]]
    assert label == ["+0.0", "+30.0", "+15.0"] and cells[2][gold].endswith("*")
    assert cells[1][gold + 1] == cells[3][gold + 1] == "-"


def test_more_shots_are_compared_with_the_fewest_of_the_same_seed():
    study_records = []
    for seed, shots, options in product(range(2), (1, 2, 4), ({}, FLIP)):
        made = record("sst2", 0.5 + shots / 10, 0.5, shots=shots, seed=seed, **options)
        study_records.append(made)
    cells = reading.difference_cells(one_study(study_records))
    assert [row[1] for row in cells[4:]] == ["icl, 4 - 1 shots", "bc, 4 - 1 shots"]
    assert [row[2].split()[0] for row in cells[4:]] == ["+0.0", "+30.0"]


def test_seeds_are_the_unit_of_the_interval_over_shots():
    """Contexts of one seed share drawn words: more numbers of shots are no more draws."""
    first, two = records("sst2", 270, 30, 240, 60), records("sst2", 270, 30, 240, 60)
    more = [replace(r, id=f"{r.id}-2", context=replace(r.context, shots=2)) for r in two]
    narrow, wide = (reading.read_flips(one_study(group)) for group in (first, first + more))
    assert narrow == wide


def test_every_context_renders_for_all_tasks():
    config = read_config(f"{CONFIG}:smoke")
    config |= dict(model="", limit=2, seeds=1, dc_texts=1, tasks=("mnli", "copa", "wic"), shots=2)
    contexts = render_contexts(*read_study(CONFIG, config))
    assert len({context.context["shown"] for context in contexts}) >= 3 * 9
