"""Measures division by label lengths (NCC) with ICL, CC and BC.

python -m experiments.evidence.label_lengths

NCC (arXiv:2511.14385) divides a label's log-probability by its number of tokens and subtracts the
same quotient of content-free inputs. This needs labels of different lengths and content-free
inputs. The embedded models read label words from demonstrations, so the program draws label words
for each task: the k labels have one to k words each, in an order drawn by the seed. There are five
seeds, one shot per class, 200 rows, thirteen tasks and two models. The output is mean accuracy in
percent, and the change by the division with its 95 % t interval over tasks.
"""

from itertools import islice

import numpy as np

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.embedded import CHECKPOINTS, label_words
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.prompts.render import render
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS, Task
from batch_calibration.settings import Settings
from experiments.evidence.statistics import t_interval_cell

MODELS = ("mini", "mini_small")
ROWS, SEEDS = 200, range(5)
NAMES = ("icl", "cc", "bc")


def with_long_labels(task: Task, seed: int) -> Task:
    """Replaces the task's label words by drawn ones, of one to k words in a drawn order."""
    random = np.random.default_rng([seed, 11])
    lengths = random.permutation(len(task.label_names)) + 1
    drawn = iter(random.choice(label_words.TRAINING, int(lengths.sum()), replace=False))
    texts = [" ".join(islice(drawn, int(length))) for length in lengths]
    return task._replace(verbalizer=dict(zip(task.label_names, texts, strict=True)))


def measure(scorer: CausalLM, name: str, seed: int) -> np.ndarray:
    """Measures accuracy [3, 2] in percent by method, without and with division by lengths."""
    task = with_long_labels(TASKS[name], seed)
    cell = Settings.of(data="mini", shots=1, limit=ROWS).cell(name, seed)
    context = render(
        task, cell, read(task, "mini", "validation", ROWS),
        read(task, "mini", "train"),
    )  # fmt: skip
    labels = context.label_texts
    blocks = context.blocks
    rows = np.asarray(scorer.score(blocks["test"].inputs, labels).log_probs, np.float64)
    free = np.asarray(scorer.score(blocks["cc"].inputs, labels).log_probs, np.float64)
    gold = np.asarray(blocks["test"].labels)
    # Each label has one text here. Its length is its number of tokens, as in the paper.
    encode = scorer.checkpoint.tokenizer.encode
    lengths = np.array([len(encode(text, add_special_tokens=False).ids) for (text,) in labels])
    accuracy = np.zeros((len(NAMES), 2))
    for column, divisor in enumerate((np.ones(len(lengths)), lengths)):
        scores = rows / divisor
        for line, bias in enumerate((0.0, (free / divisor).mean(axis=0), scores.mean(axis=0))):
            accuracy[line, column] = 100 * ((scores - bias).argmax(axis=1) == gold).mean()
    return accuracy


def main() -> None:
    """Prints a line for each model and method."""
    print(f"{'model':12}{'method':>8}{'as it is':>10}{'divided':>10}   change, 95 %")
    for model in MODELS:
        scorer = CausalLM(load_checkpoint(CHECKPOINTS[model]))
        means = []
        for name in PAPER_LANGUAGE:
            by_seed = [measure(scorer, name, seed) for seed in SEEDS]
            means.append(np.mean(by_seed, axis=0))
        by_task = np.array(means)  # [tasks, 3, 2]
        for line, method in enumerate(NAMES):
            plain, divided = by_task[:, line].T
            ends = t_interval_cell(divided - plain)
            print(f"{model:12}{method:>8}{plain.mean():10.1f}{divided.mean():10.1f}   {ends}")


if __name__ == "__main__":
    main()
