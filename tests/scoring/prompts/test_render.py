"""One context rendered: each setting changes what it says, and the context names it."""

from itertools import product

import numpy as np
import pytest
from rendering import label_texts, rendered, settings_of
from tiny import GPT2, write

from batch_calibration.methods import METHODS
from batch_calibration.reporting import writing
from batch_calibration.reporting.items import Results
from batch_calibration.scores import context_id
from batch_calibration.scoring.engine.token_budget import TokenBudget
from batch_calibration.scoring.inputs import LazyTexts
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint, load_tokenizer
from batch_calibration.scoring.prompts.length_limit import UNLIKE_CONTEXTS
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, calibrate_store, run_calibration, run_scoring
from batch_calibration.studies import scoring as studies_scoring
from batch_calibration.studies.scoring import render_contexts

PROBES = {name: method.probe for method in METHODS.values() for name in method.probe.blocks}


def made(**values):
    return rendered("mini.py:smoke", **{"model": "", **values})


def test_usual_settings_leave_no_trace_in_the_context():
    names = "balanced data demonstrations labels limit rows seed shots shown split task template "
    assert " ".join(sorted(made().context)) == f"{names}train_labels"
    # Stored labeled sets of 128 rows a class name no number.
    for block in made(labeled_per_class=128).blocks.values():
        assert set(block.spec) == {"texts"}
    assert made(labeled_per_class=4).blocks["labeled"].spec["options"] == {"labeled_per_class": 4}
    assert "labeled" not in made(labeled_per_class=0).blocks
    assert Settings.of().data.labeled_per_class == 0


def test_a_context_of_few_prompts_is_rendered_once(monkeypatch):
    kept = made()
    monkeypatch.setattr(studies_scoring, "KEPT_PROMPTS", 0)
    rendered_again = made()
    assert kept.context == rendered_again.context
    for name, block in kept.blocks.items():
        assert isinstance(block.inputs, list)
        again = rendered_again.blocks[name]
        assert isinstance(again.inputs, LazyTexts)  # memory does not grow with its texts
        assert list(again.inputs) == block.inputs and again.spec == block.spec


def test_total_selection_and_its_orders():
    drawn = made(selection="total", shots=4)
    assert len(drawn.context["demonstrations"]) == 4
    assert drawn.context["options"] == {"selection": "total"}
    orders = [made(selection="total", shots=4, order=i) for i in range(24)]
    assert orders[0].context["demonstrations"] == drawn.context["demonstrations"]
    assert len({tuple(p.context["demonstrations"]) for p in orders}) == 24
    assert len({frozenset(p.context["demonstrations"]) for p in orders}) == 1
    assert len({context_id(p.context) for p in orders}) == 24


def test_explicit_selection_shows_those_rows_in_that_order():
    chosen = ("mini/sst2/train/5", 2)
    planned = made(selection="explicit", demonstrations=chosen, shots=2)
    assert planned.context["demonstrations"] == ["mini/sst2/train/5", "mini/sst2/train/2"]


def test_round_robin_selection():
    shown = made(selection="round_robin", shots=2).blocks["test"].inputs[0].split("\n\n")[:-1]
    label_words = [text.rsplit(" ", 1)[1] for text in shown]
    assert label_words == ["negative", "positive"] * 2


def test_a_literal_template_is_used_as_it_is():
    planned = made(template="{sentence}\nGood or bad?\n{label}")
    assert planned.blocks["test"].inputs[0].endswith("\nGood or bad?")
    assert label_texts(planned) == ["\nnegative", "\npositive"]
    assert planned.context["template"] == "{sentence}\nGood or bad?\n{label}"


def test_numbered_templates_and_verbalizers(shared):
    rte = {"task": "rte", "data": str(shared / "data"), "limit": 2}
    for name, form in TASKS["rte"].templates.items():
        planned = made(**rte, template=name)
        assert planned.context["template"] == form
        assert planned.context["options"] == {"template": name}
    for name, label_words in TASKS["rte"].verbalizers.items():
        planned = made(**rte, verbalizer=name)
        assert label_texts(planned) == [" " + label_words[label] for label in planned.label_names]
        shown = planned.blocks["test"].inputs[0].split("\n\n")[0]
        assert any(shown.endswith(text) for text in label_texts(planned))


def test_zero_shot_words_of_wic(shared):
    wic = {"task": "wic", "data": str(shared / "data"), "limit": 2}
    assert label_texts(made(**wic, shots=0)) == [" no", " yes"]
    assert label_texts(made(**wic, shots=1)) == [" false", " true"]


def test_probe_options_change_their_block_alone():
    usual, altered = made(task="mnli"), made(task="mnli", cc_fill="whole_input", dc_texts=4)
    assert usual.context == altered.context
    assert altered.blocks["cc"].inputs[0].endswith("\n\nPremise: N/A\nAnswer:")
    assert usual.blocks["cc"].inputs[0].endswith("\n\nPremise: N/A\nHypothesis: N/A\nAnswer:")
    assert altered.blocks["cc"].spec["options"] == {"cc_fill": "whole_input"}
    assert (altered.blocks["dc"].spec["options"], altered.blocks["dc"].size) == ({"dc_texts": 4}, 4)
    changed = {x for x, block in usual.blocks.items() if block.spec != altered.blocks[x].spec}
    assert changed == {"cc", "dc"}


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("demonstrations", {"selection": "explicit"}),
        ("order", {"order": 2}),
        ("template of sst2", {"template": "30"}),
        ("verbalizer of sst2", {"verbalizer": "yes"}),
        ("template '{sentence}'", {"template": "{sentence}"}),
        ("over_long", {"over_long": "drop_shots"}),
        ("template", {"scorer": "dual_encoder", "shots": 0, "template": "{label}"}),
        ("shots", {"scorer": "dual_encoder"}),
    ],
)
def test_wrong_settings(key, settings, refuses):
    error = refuses(made, **settings)
    assert key == (error.key or error.where)


def test_a_dual_encoder_fills_the_whole_input_too():
    planned = made(scorer="dual_encoder", shots=0, cc_fill="whole_input", task="mnli")
    assert list(planned.blocks["cc"].inputs) == ["N/A", "", "[MASK]"]
    assert made(scorer="dual_encoder", shots=0, task="mnli").blocks["cc"].inputs[0] == "N/A\nN/A"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write(tmp_path_factory.mktemp("tiny"), GPT2)


def test_a_tokenizer_is_read_without_weights(checkpoint, tmp_path, refuses):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((checkpoint / name).read_bytes())
    reader = load_tokenizer(tmp_path)
    assert reader.positions == 160 and reader.bos == load_checkpoint(checkpoint).bos
    assert refuses(load_tokenizer, tmp_path / "nowhere").where == f"{tmp_path}/nowhere"


def test_rows_that_fit_whatever_their_tokens_are_count_a_token_a_byte(checkpoint):
    budget = TokenBudget(load_tokenizer(checkpoint))
    labels = [" no", " yes indeed"]
    rng = np.random.default_rng(0)

    def draw(letters):
        return "".join(map(chr, rng.integers(32, 127, letters))) + "?"

    short = [draw(size) for size in range(1, budget.positions - 20)]
    exact = []
    for text in short:
        prompt, label_tokens = budget.boundary(text, labels)
        exact.append(len(prompt) + max(map(len, label_tokens)) - 1)
    assert (np.array(budget.positions_needed(short, labels)) >= exact).all()
    assert max(budget.positions_needed(short, labels)) <= budget.positions
    for odd in (draw(budget.positions), "é" * 150):
        mixed = [*short, odd]
        assert budget.positions_needed(mixed, labels)[:-1] == exact


@pytest.mark.parametrize("policy", ["drop_shots", "truncate_left"])
def test_over_long_prompts_fit_are_counted_and_scored(checkpoint, tmp_path, policy):
    budget = TokenBudget(load_tokenizer(checkpoint))
    values = {"shots": 8, "limit": 6, "labeled_per_class": 2, "dc_texts": 2, "over_long": policy}
    planned = made(model=str(checkpoint), **values)
    assert planned.context["options"] == {"over_long": policy}
    dropped = 6 * (policy == "drop_shots")
    counts = {"dropped": dropped, "truncated": 6 - dropped}
    assert counts.items() <= planned.blocks["test"].spec.items()
    texts, labels = planned.blocks["test"].inputs, label_texts(planned)
    assert max(budget.positions_needed(texts, labels)) <= budget.positions
    full_texts = made(shots=8, limit=6).blocks["test"].inputs
    assert all(long.endswith(short) for long, short in zip(full_texts, texts, strict=True))
    if policy == "drop_shots":
        assert all(text.startswith("Review: ") for text in texts)
    else:
        assert min(budget.positions_needed(texts, labels)) > budget.positions - 8
    settings = settings_of("mini.py:smoke", model=str(checkpoint), **values)
    store = Store(tmp_path, create=True)
    report = run_scoring(settings, [settings.cell("sst2")], store)
    ((table,), _) = store.tables()
    assert report.ids == (table.id,) and report.scored == planned.size
    needs = budget.positions_needed(texts, labels)
    longest = max(len(label) for label in budget.boundary(texts[0], labels)[1])
    assert (table.blocks["test"].tokens + longest - 1 == needs).all()
    (record,) = run_calibration([table], ("icl", "bc"))
    action = "dropped" if policy == "drop_shots" else "truncated"
    assert record.over_long["test"] == {action: 6}


@pytest.mark.parametrize("policy", ["drop_shots", "same_context"])
def test_one_context_holds_for_test_rows_and_probes_or_the_reader_is_told(
    checkpoint, tmp_path, policy
):
    notes = []
    values = {"shots": 2, "limit": 6, "labeled_per_class": 2, "dc_texts": 2, "over_long": policy}
    settings = settings_of("mini.py:smoke", model=str(checkpoint), **values)
    (planned,) = render_contexts(settings, [settings.cell("sst2")], notify=notes.append)
    stable = {name: planned.blocks[name] for name in planned.blocks if name not in ("pmi", "looc")}
    texts = [text for block in stable.values() for text in block.inputs]
    contexts = {text.rpartition("\n\n")[0] for text in texts}
    run_scoring(settings, [settings.cell("sst2")], Store(tmp_path, create=True))
    (record,) = calibrate_store(tmp_path, ["icl", "cc", "bc"]).records
    if policy == "drop_shots":
        assert len(contexts) > 1 and record.notes == planned.notes == (UNLIKE_CONTEXTS,)
        assert UNLIKE_CONTEXTS in notes
    else:
        assert len(contexts) == 1 and record.notes == ()
        cut = 4 - len([text for text in contexts.pop().split("\n\n") if text])
        assert f"{cut} of 4 demonstrations are left out of every prompt" in notes[1] and cut > 0
        sizes = {name: block.size for name, block in planned.blocks.items() if name != "pmi"}
        assert {name: c["dropped"] for name, c in record.over_long.items()} == sizes
        # All four are asked; those that the context keeps do not stand before themselves.
        prompts = [text.split("\n\n") for text in planned.blocks["looc"].inputs]
        assert [len(p) - 1 for p in prompts] == [4 - cut] * cut + [3 - cut] * (4 - cut)
    results = Results([record])
    shown = " ".join(table.note for table in writing.make_tables(results))
    assert ("over_long=same_context keeps one" in shown) == (policy == "drop_shots")


def test_cost_counts_shared_tokens_once(checkpoint):
    budget = TokenBudget(load_tokenizer(checkpoint))
    planned = made(limit=8)
    texts, labels = list(planned.blocks["test"].inputs), label_texts(planned)
    cost = budget.cost(texts, labels)
    prompts = [len(budget.boundary(text, labels)[0]) for text in texts]
    assert cost.prompts == sum(prompts)
    assert cost.computed < cost.prompts / 2


def test_surface_forms_of_a_label_are_texts_of_it(monkeypatch, checkpoint):
    verbalizer = {"negative": ("bad", "poor"), "positive": "good"}
    monkeypatch.setitem(TASKS, "sst2", TASKS["sst2"]._replace(verbalizer=verbalizer))
    planned = made(limit=3)
    assert planned.label_texts == ((" bad", " poor"), (" good",))
    assert planned.context["forms"] == [2, 1]
    assert planned.context["labels"] == [" bad", " poor", " good"]
    assert " poor\n\n" not in planned.blocks["test"].inputs[0]


def test_a_file_of_rows_is_read_once_and_a_context_rendered_once(shared, monkeypatch):
    from batch_calibration.scoring.data import texts
    from batch_calibration.studies import scoring

    read, rendered_cells = [], []
    read_file, once = texts.read, scoring.render
    monkeypatch.setattr(texts, "read", lambda *a: read.append(a) or read_file(*a))
    monkeypatch.setattr(scoring, "render", lambda *a: rendered_cells.append(a) or once(*a))
    values = {"data": f"{shared}/data", "seeds": 5, "tasks": "rte,cb", "over_long": "error"}
    settings = settings_of("main_table.py:smoke", **values)
    assert len(render_contexts(settings)) == len(rendered_cells) == 10
    names = sorted((task.name, split) for task, _, split, _ in read)
    assert names == [*product(("cb", "rte"), ("train", "validation"))]


def test_probes_cost_what_they_say():
    blocks = made(task="copa", limit=60).blocks
    own = PROBES.keys() - {"test", "labeled"}
    counted = {name: PROBES[name] for name in own if PROBES[name].forwards}
    assert set(counted) == {"cc", "dc", "cc_original", "dc_original", "pmi"}
    for name, probe in counted.items():
        assert len(blocks[name].inputs) == probe.forwards
    assert blocks["looc"].size == 2 and blocks["permutations"].size == 3 * 2


def test_published_presets_fill_the_whole_input_as_their_code_does():
    usual, blocks = made(task="mnli"), made(task="mnli", dc_texts=2, cc_fill="whole_input").blocks
    context = usual.blocks["test"].inputs[0].rsplit("\n\n", 1)[0]
    start = f"{context}\n\nPremise: "
    fills = [f"{start}{fill}\nAnswer:" for fill in ("N/A", "", "[MASK]")]
    assert list(blocks["cc_original"].inputs) == fills
    texts = [x.removeprefix(start).removesuffix("\nAnswer:") for x in blocks["dc_original"].inputs]
    assert len(texts) == 20
    inputs = [x.removeprefix(start).removesuffix("\nAnswer:") for x in usual.blocks["test"].inputs]
    tokens = [text.lower().split() for text in inputs]
    # The published code, which draws from one list of words under a seed of numpy's own.
    bag = [token for tokens_of_text in tokens for token in tokens_of_text]
    random = np.random.RandomState(0)
    length = int(np.mean([len(tokens_of_text) for tokens_of_text in tokens])) + 1
    expected = [" ".join(random.choice(bag, size=length).tolist()) + " ." for _ in range(20)]
    assert texts == expected and "hypothesis:" in bag
    for name in ("cc_original", "dc_original"):
        assert usual.blocks[name].spec == blocks[name].spec


def test_a_domain_premise_is_what_follows_the_input(shared):
    assert list(made().blocks["pmi"].inputs) == ["\nSentiment:"]
    data = {"data": str(shared / "data"), "limit": 2}
    assert list(made(**data, task="rte", shots=0).blocks["pmi"].inputs) == [" yes or no?\nAnswer:"]
    assert list(made(template="{sentence}\n{label}").blocks["pmi"].inputs) == [":"]
    assert list(made(template="Is {sentence} {label}").blocks["pmi"].inputs) == [":"]


def test_each_demonstration_is_asked_without_itself():
    planned = made(task="mnli", shots=2)
    block = planned.blocks["looc"]
    shown = planned.blocks["test"].inputs[0].split("\n\n")[:-1]
    assert block.row_ids == planned.context["demonstrations"] and block.size == 6
    assert sorted(block.labels) == [0, 0, 1, 1, 2, 2]
    for i, (text, label) in enumerate(zip(block.inputs, block.labels, strict=True)):
        *context_shown, query = text.split("\n\n")
        assert context_shown == shown[:i] + shown[i + 1 :]
        assert query + label_texts(planned)[label] == shown[i]
    assert made(selection="total", shots=2).blocks["looc"].size == 2
    for few in ({"shots": 0}, {"selection": "total", "shots": 1}):
        assert "looc" not in made(**few).blocks


def test_options_are_moved_round_on_one_row_in_twenty():
    planned = made(task="copa", limit=40)
    block, ids = planned.blocks["permutations"], planned.blocks["test"].row_ids
    rows = [row.rsplit("/", 1) for row in block.row_ids]
    assert [shift for _, shift in rows] == ["0", "1"] * 2 and block.together == 2
    assert [row for row, _ in rows[::2]] == sorted((row for row, _ in rows[::2]), key=ids.index)
    pairs = zip(block.inputs[::2], block.inputs[1::2], strict=True)
    for (row, _), (straight, turned) in zip(rows[::2], pairs, strict=True):
        assert straight == planned.blocks["test"].inputs[ids.index(row)]
        *before, premise, first, two, answer = straight.split("\n")
        swapped = first.replace("Choice1", "Choice2"), two.replace("Choice2", "Choice1")
        assert turned.split("\n") == [*before, premise, swapped[1], swapped[0], answer]
    assert made(task="copa", limit=40, seed=1).blocks["permutations"].row_ids != block.row_ids
    assert made(task="copa", limit=3).blocks["permutations"].size == 2
    first = "{premise}\n{choice1}\nAnswer: {label}"
    assert "permutations" not in made(task="copa", template=first).blocks


def test_blocks_that_cannot_be_used_are_not_rendered():
    assert {"cc_original", "dc_original", "pmi"} <= set(made().blocks)
    assert set(made(logits_only=True).blocks) == {"test", "cc", "dc", "pmi", "looc", "labeled"}
    encoder = made(task="copa", scorer="dual_encoder", shots=0)
    assert set(encoder.blocks) == {"test", "cc", "dc", "labeled"}
