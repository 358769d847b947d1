"""What the embedded model takes from demonstrations: right, wrong and random labels, or none.

    python docs/examples/demonstration_labels.py [SEEDS [TASK ...]]

Accuracy in %, mean over SEEDS draws of demonstrations (5), 500 rows. Where a model learns the task
from its demonstrations, wrong labels cost accuracy (Min et al. 2022, "Rethinking the Role of
Demonstrations", measure larger models in this way).
"""

import random
import sys

import numpy as np

from batch_calibration.data import RowReader, load_task
from batch_calibration.prompts.render import render
from batch_calibration.settings import Settings
from batch_calibration.study.loading import load_scorer

settings = Settings.of(model="mini", data="mini", labeled_per_class=0, dc_texts=1)
scorer, reader = load_scorer(settings), RowReader()


def accuracy(name, labels_of, shots, seeds):
    """Of ICL and of BC; `labels_of` says what labels the training rows are shown with."""
    task = load_task(name)
    test, train = (reader.texts(task, "mini", split) for split in ("validation", "train"))
    train = train._replace(labels=tuple(labels_of(train.labels, len(task.label_names))))
    found = []
    for seed in range(seeds):
        context = render(task, settings.cell(name, seed=seed, shots=shots), test, train)
        scores = scorer.score(context.blocks["test"].inputs, context.label_texts).log_probs
        predicted = [each.argmax(axis=1) for each in (scores, scores - scores.mean(axis=0))]
        found.append([100 * np.mean(one == np.array(test.labels)) for one in predicted])
    return np.mean(found, axis=0)


def gold(labels, _):
    """The rows' own labels."""
    return labels


def wrong(labels, k):
    """Of each row the next label."""
    return [(label + 1) % k for label in labels]


def drawn(labels, k):
    """Labels at random."""
    rng = random.Random(0)
    return [rng.randrange(k) for _ in labels]


seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
print("task   shots labels   ICL   BC")
for name in sys.argv[2:] or ("sst2", "mnli", "rte", "qnli", "mrpc"):
    for shots, labels_of in ((0, gold), *((n, of) for n in (1, 2) for of in (gold, wrong, drawn))):
        icl, bc = accuracy(name, labels_of, shots, seeds if shots else 1)
        said = labels_of.__name__ if shots else "none"
        print(f"{name:6} {shots:5} {said:7} {icl:5.1f} {bc:5.1f}", flush=True)
