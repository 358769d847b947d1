"""The embedded world: fair rows, honest hold-out, text with statistics."""

import csv
import hashlib
import json
import math
import random
import re
from collections import Counter
from functools import lru_cache, partial
from itertools import combinations, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from batch_calibration.scoring.embedded import images
from batch_calibration.scoring.embedded import suite as shipped
from batch_calibration.scoring.prompts import template as templates
from batch_calibration.scoring.prompts.template import Shown, plain_text
from batch_calibration.scoring.tasks import RTE, TASKS
from batch_calibration.settings import Settings
from batch_calibration.studies.loading import load_scorer, load_token_budget
from experiments.pretrain import captions, documents, prose, vocabulary, write_suite
from experiments.pretrain.documents import Recipe
from experiments.pretrain.grammar import sampling, suite, world

MINI = {name: TASKS[name] for name in suite.GRAMMARS}
PAIRED = [name for name in MINI if len(MINI[name].fields) > 1]
RECIPE = Recipe(tuple((name, 1.0) for name in MINI), shots=4)
PLAIN = RECIPE._replace(
    own_template=1.0, own_words=1.0, concentration=math.inf, skew=0.0, sticky=0.0
)


@lru_cache
def examples(task, test, count=4000):
    """Examples, and their labels as drawn."""
    rng = random.Random(int(test))
    sample = [suite.example(task, rng, test) for _ in range(count)]
    return sample, [sampling.categorical(example.probabilities, rng) for example in sample]


def words(text):
    return re.findall(r"\w+", text.lower())


@pytest.mark.slow
@pytest.mark.parametrize("task", MINI)
def test_train_and_test_share_no_word_pair(task):
    pairs = [{p for ex in examples(task, test)[0] for p in ex.pairs} for test in (False, True)]
    assert pairs[0] and pairs[1] and not pairs[0] & pairs[1]
    texts = [{str(row) for row in shipped.read_rows(task, split).rows} for split in suite.SIZES]
    assert not texts[0] & texts[1]


@pytest.mark.slow
@pytest.mark.parametrize("task", MINI)
def test_every_person_and_topic_of_a_row_is_a_pair_of_the_split(task):
    """Read from the text itself: what is said of somebody, asked of, happened, or a word used."""
    met = [set(), set()]
    for test in (False, True):
        for example in examples(task, test)[0]:
            text = words(" ".join(example.row.values()))
            assert all(pair[0] in text for pair in example.pairs)
            for field in example.row.values():
                for clause in re.split(r" and the |[.:?] ?", field):
                    people = set(words(clause)) & set(world.PEOPLE)
                    if len(people) == 1:
                        met[test] |= {(*people, t) for p, t in PHRASES.items() if p in clause}
    assert not met[0] & met[1]
    if task in ("mnli", "anli_r3", "rte", "mrpc", "boolq", "qnli"):
        assert len(met[0]) > 40 and len(met[1]) > 40


@pytest.mark.slow
@pytest.mark.parametrize("task", MINI)
def test_probabilities_are_a_distribution_and_labels_are_balanced(task):
    sample, labels = examples(task, True)
    assert all(abs(sum(example.probabilities) - 1) < 1e-9 for example in sample)
    shares = np.mean([example.probabilities for example in sample], axis=0)
    np.testing.assert_allclose(shares, 1 / len(shares), atol=0.03)
    assert len(shares) == len(MINI[task].label_names) == len(set(labels))


@pytest.mark.parametrize("task", MINI)
def test_best_accuracy_is_known_and_below_one(task):
    assert 0.7 < suite.best_accuracy(task, "validation") < 0.9
    rows = shipped.read_rows(task, "validation")
    assert len(rows.rows) == suite.SIZES["validation"]
    assert set(rows.rows[0]) == set(MINI[task].fields)
    sample, labels = examples(task, True)
    chances = np.array([example.probabilities for example in sample])
    reached = np.mean(chances.argmax(axis=1) == labels)
    assert abs(reached - chances.max(axis=1).mean()) < 0.02


@pytest.mark.slow
def test_the_docs_say_what_is_to_expect_and_what_these_rows_allow():
    page = Path(__file__).parents[3] / "docs/evidence/mini_best.csv"
    _, *lines = csv.reader(page.read_text(encoding="utf-8").splitlines())
    assert sorted(name for name, *_ in lines) == sorted(MINI)
    for name, *figures in lines:
        for figure, accuracy_of in zip(
            figures, (suite.best_accuracy, suite.realized_accuracy), strict=True
        ):
            assert float(figure) == round(100 * accuracy_of(name, "validation"), 1)


@pytest.mark.slow
def test_the_realized_accuracy_is_of_the_rows_that_are_scored():
    """The drawn and the more probable labels are the shipped rows' labels."""
    sampled, _ = suite.examples("mnli", "validation")
    likelier = [np.argmax(example.probabilities) for example in sampled]
    assert likelier == list(shipped.likelier("mnli", "validation"))
    right = np.mean(np.array(likelier) == shipped.read_rows("mnli", "validation").labels)
    assert right == suite.realized_accuracy("mnli", "validation")


@pytest.mark.slow
def test_grades_rise_from_mnli_to_anli():
    mean = {t: np.mean([example.grade for example in examples(t, True)[0]]) for t in MINI}
    assert mean["mnli"] < mean["anli_r1"] < mean["anli_r2"] < mean["anli_r3"]
    assert {example.grade for example in examples("mnli", True)[0]} == {1, 2, 3}


def beyond_chance(task, probe, features):
    """How far from chance a probe is right on held-out rows, by features of a row."""
    (sample, labels), (test_sample, truth) = (examples(task, test) for test in (False, True))
    probe.fit([features(example.row) for example in sample], labels)
    right = probe.score([features(example.row) for example in test_sample], truth)
    return abs(right - 1 / len(MINI[task].label_names))


@pytest.mark.slow
@pytest.mark.parametrize("task", PAIRED)
def test_no_field_alone_tells_the_label(task):
    """Nor does it tell the wrong one: held-out rows turn nothing round that train rows teach."""
    for field in MINI[task].fields:
        seen = CountVectorizer(token_pattern=r"\w+", ngram_range=(1, 3), min_df=2)
        probe = make_pipeline(seen, LogisticRegression(C=0.3, max_iter=300))
        assert beyond_chance(task, probe, itemgetter(field)) < 0.05, field


PHRASES = {phrase.format(topic_words[form]): name for name, topic in world.TOPICS.items()
           for topic_words in topic.words for form, phrase in enumerate(topic.frames)}  # fmt: skip


def shape(text):
    """Of one field: people, topics spoken of, the most mentions of one, each topic's mentions."""
    named = Counter(topic for phrase, topic in PHRASES.items() if phrase in text)
    people = len(set(words(text)) & set(world.PEOPLE))
    return [people, len(named), max(named.values(), default=0), *(named[t] for t in world.TOPICS)]


@pytest.mark.slow
@pytest.mark.parametrize("task", PAIRED)
def test_no_pattern_of_topics_in_one_field_tells_the_label(task):
    """As would, say, two people with one topic, were the second one's chosen with the claim."""
    for field in MINI[task].fields:
        probe = DecisionTreeClassifier(min_samples_leaf=100)
        far = beyond_chance(task, probe, lambda row, field=field: shape(row[field]))
        assert far < 0.05, field


def overlap(row):
    """Shared words of each pair of fields: as a set, as counts, as a share of both."""
    features = []
    for first, second in combinations(map(words, row.values()), 2):
        shared_words = set(first) & set(second)
        counted = (Counter(first) & Counter(second)).total()
        features += [len(shared_words), counted, len(shared_words) / len({*first, *second})]
    return features


@pytest.mark.slow
@pytest.mark.parametrize("task", PAIRED)
def test_shared_words_do_not_tell_the_label(task):
    assert beyond_chance(task, DecisionTreeClassifier(min_samples_leaf=100), overlap) < 0.06


@pytest.mark.slow
def test_a_text_and_its_claim_never_repeat_a_word_of_a_value():
    names = {w for topic in world.TOPICS.values() for forms in topic.words for w in forms}
    for task in ("mnli", "anli_r3", "rte", "boolq", "mrpc"):
        for example in examples(task, True)[0]:
            text_words, claimed = (set(re.findall(r"\w+", text)) for text in example.row.values())
            assert not text_words & claimed & names, example.row


@pytest.mark.slow
@pytest.mark.parametrize("share", [2, 4])
def test_every_word_meets_as_many_in_one_split_as_any_other(share):
    options = [f"w{i}" for i in range(8)]
    for person in world.PEOPLE:
        out, in_train = (sampling.allowed(person, options, test, share) for test in (True, False))
        assert len(out) == 8 // share and sorted({*out, *in_train}) == options
        assert len(in_train) == 8 - len(out)


@pytest.mark.slow
def test_the_shipped_rows_are_those_that_the_grammar_generates(tmp_path, monkeypatch, capsys):
    assert write_suite.stale_files() == []
    assert [*map(shipped.split_names, ("sst2", "mr"))] == [("train", "validation"), ()]
    # A file of another content, and one of no task, are named.
    for task, split, path in write_suite.paths():
        copied = tmp_path / task / path.name
        copied.parent.mkdir(exist_ok=True)
        source = path.with_name("train.jsonl.gz") if (task, split) == ("cb", "validation") else path
        copied.write_bytes(source.read_bytes())
    (tmp_path / "sst2" / "test.jsonl.gz").write_bytes(b"")
    monkeypatch.setattr(write_suite, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["write_suite", "--check"])
    with pytest.raises(SystemExit) as exit_code:
        write_suite.main()
    assert exit_code.value.code == 1
    names = capsys.readouterr().out.splitlines()
    stale = [tmp_path / "cb" / "validation.jsonl.gz", tmp_path / "sst2" / "test.jsonl.gz"]
    assert names == [*map(str, stale), "2 stale files"]


@pytest.mark.slow
def test_only_the_rows_that_are_used_are_parsed(monkeypatch):
    parsed = []
    loads = json.loads
    monkeypatch.setattr(shipped.json, "loads", lambda line: parsed.append(line) or loads(line))
    shipped._columns.cache_clear()
    first = shipped.read_rows("sst2", "validation", 3)
    assert len(parsed) == len(first.rows) == 3
    assert first == shipped.read_rows("sst2", "validation").limited(3, "first")


GOLDEN = json.loads((Path(__file__).with_name("golden_embedded.json")).read_text())
"""Digests of texts; of images the mean color of each quarter, as drawing rounds by machine."""


def digest(texts):
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("split", suite.SIZES)
@pytest.mark.parametrize("task", MINI)
def test_rows_are_those_that_the_docs_were_measured_on(task, split):
    assert digest(shipped.read_rows(task, split)[:3]) == GOLDEN["rows"][f"{task}/{split}"]


@pytest.mark.slow
def test_pretraining_text_is_what_the_shipped_model_learned_from():
    mix = (*((name, 1.0) for name in MINI), ("prose", 2.0), ("thesaurus", 2.0))
    rng = random.Random(0)
    documents_written = [documents.written(MINI, Recipe(mix, shots=4), rng) for _ in range(200)]
    told = [
        [doc.name, doc.text, [(span.begin, span.stop) for span in doc.spans]]
        for doc in documents_written
    ]
    assert digest(told) == GOLDEN["documents"]


def quarters(image):
    return image.reshape(2, 24, 2, 24, 3).mean(axis=(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("split", images.SIZES)
@pytest.mark.parametrize("task", images.TASKS)
def test_drawn_images_are_those_that_the_docs_were_measured_on(task, split):
    references, classes = zip(*images.image_rows(task, split, 20), strict=True)
    golden = GOLDEN["images"][f"{task}/{split}"]
    assert list(classes) == golden["classes"]
    means = [quarters(images.draw_image(reference)) for reference in references]
    np.testing.assert_allclose(means, golden["means"], atol=0.5)


@pytest.mark.slow
def test_captions_are_what_the_shipped_clip_learned_from():
    _, texts = captions.caption_batch(np.random.default_rng(0), 256)
    assert digest(texts) == GOLDEN["captions"]


def labels_of(recipe, count=1500, task="sst2"):
    rng = random.Random(0)
    for _ in range(count):
        text, spans = documents.text(MINI[task], recipe, rng)
        assert all(text[span.stop : span.stop + 2] in ("\n\n", "") for span in spans)
        yield text, [text[span.begin : span.stop].strip() for span in spans]


def runs(recipe):
    """Share of labels that repeat the one before."""
    repeats = [a == b for _, labels in labels_of(recipe) for a, b in pairwise(labels)]
    return np.mean(repeats)


@pytest.mark.slow
def test_each_knob_turns_its_statistic():
    plain = PLAIN
    share = {}
    for name, recipe in {"plain": plain, "skew": plain._replace(skew=1.0)}.items():
        seen = Counter(label for _, labels in labels_of(recipe) for label in labels)
        share[name] = seen["positive"] / seen.total()
        assert set(seen) == {"positive", "negative"}
    assert abs(share["plain"] - 0.5) < 0.03 and abs(share["skew"] - 0.65) < 0.03
    assert abs(runs(plain) - 0.5) < 0.03
    assert abs(runs(plain._replace(sticky=0.3)) - 0.65) < 0.03
    # With two labels and shares of 1/2, a beta(1, 1): two draws agree two times in three.
    assert abs(runs(plain._replace(concentration=2.0)) - 2 / 3) < 0.03
    seen = {label for _, labels in labels_of(plain._replace(own_words=0.5)) for label in labels}
    assert seen == {"positive", "negative", "good", "bad", "great", "terrible"}
    begun = {text.split(" ")[0] for text, _ in labels_of(plain)}
    assert begun == {"Review:"}
    assert "Text:" in {text.split(" ")[0] for text, _ in labels_of(plain._replace(own_template=0))}


def test_noise_parts_labels_from_texts():
    plain = PLAIN._replace(shots=1)

    def agreement(noise):
        right = []
        for text, labels in labels_of(plain._replace(noise=noise)):
            for block, label in zip(text.split("\n\n"), labels, strict=True):
                if " loved " in block or " hated " in block:
                    right.append((" loved " in block) == (label == "positive"))
        return np.mean(right)

    assert agreement(0.0) > 0.9 and abs(agreement(1.0) - 0.5) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prose", "thesaurus"])
def test_prose_says_what_follows_from_what_stands_before(kind):
    rng = random.Random(0)
    seen = Counter()
    for _ in range(400):
        text, spans = prose.GENERATORS[kind](rng, 5)
        assert len(spans) == text.count("\n") + 1 <= 5
        for line, span in zip(text.split("\n"), spans, strict=True):
            assert span.known and span.label == -1
            label_text = text[span.begin : span.stop]
            assert line.endswith(label_text) and label_text[0] == " "
            seen[label_text.strip()] += 1
    if kind == "thesaurus":
        assert set(seen) == {prose.SAME, prose.OTHER, prose.APART}


@pytest.mark.slow
def test_prose_keeps_to_the_words_of_training():
    """No sentence of prose brings a person together with a topic held out for the test rows."""
    topics = {f.format(w[i]): (t, i) for t, topic in world.TOPICS.items()
              for w in topic.words for i, f in enumerate(topic.frames)}  # fmt: skip
    rng = random.Random(0)
    met = set()
    for _ in range(2000):
        for sentence in re.split(r"[.:?]\s", prose.passage(rng, 3)[0]):
            person = next((p for p in world.PEOPLE if f" {p} " in sentence), None)
            met |= {(person, t) for p, (t, _) in topics.items() if person and p in sentence}
    unseen = {(p, t) for p in world.PEOPLE for t in world.topics(p, test=True)}
    assert len(met) > 30 and not met & unseen


@pytest.mark.parametrize("task", MINI)
def test_templates_and_label_words_fit_the_task(task):
    for template in documents.TEMPLATES[task]:
        assert all(f"{{{field}}}" in template for field in (*MINI[task].fields, "label"))
    assert all(len(names) == len(MINI[task].label_names) for names in documents.VERBALIZERS[task])
    assert sum(documents.FREQUENCIES[task]) == pytest.approx(1)


@pytest.mark.slow
def test_tokens_of_labels_are_marked_and_any_text_encodes():
    tokenizer = vocabulary.train_tokenizer(MINI, RECIPE, size=600, texts=200, seed=0)
    source = documents.documents(MINI, RECIPE, tokenizer, random.Random(2))
    document = next(source)
    of_label = np.array(document.tokens)[np.array(document.label) >= 0]
    marked = tokenizer.decode(of_label.tolist())
    assert set(marked.split()) <= {w for t in MINI for w in MINI[t].label_words} | {
        w for sets in documents.VERBALIZERS.values() for verbalizer in sets for w in verbalizer
    }
    (number,) = set(document.label) - {-1}
    name = documents.names(MINI)[number]
    assert set(marked.split()) <= {*MINI[name].label_words, *sum(documents.VERBALIZERS[name], ())}
    packed = documents.pack(source, rows=3, length=64)
    assert packed.tokens.shape == (3, 64) and packed.document.min() == 0
    starts = packed.positions == 0
    np.testing.assert_array_equal(np.cumsum(starts, axis=1) - 1, packed.document)
    for text in ("👍🏽 ✔️", "naïve café", "\x00\t", "日本語"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.slow
def test_every_second_document_takes_a_stretch_of_all_positions():
    tokenizer = vocabulary.train_tokenizer(MINI, RECIPE, size=600, texts=200, seed=0)
    recipe = RECIPE._replace(shots=0, reach=200)
    source = documents.documents(MINI, recipe, tokenizer, random.Random(0))
    sample = [next(source) for _ in range(400)]
    starts = np.array([doc.start for doc in sample])
    assert 150 < (starts == 0).sum() < 250 and starts.max() > 120
    assert all(doc.start + len(doc.tokens) <= 200 or doc.start == 0 for doc in sample)
    row = documents.pack(iter(sample), rows=1, length=len(sample[0].tokens) + 5)
    np.testing.assert_array_equal(row.positions[0, -5:], sample[1].start + np.arange(5))


@pytest.mark.slow
@pytest.mark.parametrize("task", MINI)
def test_four_shots_per_class_fit_the_shipped_model(task):
    """The longest of many documents of four shots a class and a test row, by the own template."""
    budget, rng, own = load_token_budget(Settings.of(model="mini")), random.Random(0), MINI[task]
    texts = []
    for _ in range(300):
        shown = [suite.labeled(task, rng, i, 3).row for i in range(len(own.label_words))] * 4
        query, text_of = partial(templates.query, own.few_shot), plain_text(own.few_shot)
        demonstrations = [Shown(query(row), own.label_words[0]) for row in shown]
        texts.append(text_of(demonstrations)(query(suite.example(task, rng, True).row)))
    assert max(budget.positions_needed(texts, own.label_words)) <= budget.positions


@pytest.mark.slow
def test_unseen_label_words_and_any_text_score_finite():
    scorer = load_scorer(Settings.of(model="mini"))
    texts = ["👍🏽", "naïve café 日本語\nAnswer:", "\x00\t\n"]
    for pairs in (*RTE.verbalizers.values(), {"a": "ja", "b": "нет"}, {"a": "🟥", "b": "🟦🟦"}):
        scores = scorer.score(texts, [f" {label_word}" for label_word in pairs.values()]).log_probs
        assert np.isfinite(scores).all() and (scores < 0).all()
