"""Scores one sequence at a time: the oracle of the engine that scores by shared prefix."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny import CORPUS

from batch_calibration.scoring.models.attention import causal

SHOTS = "".join(CORPUS)
LABELS = [" positive", " negative"]
UP_TO_SEVEN_TOKENS = ["\nq", "\nqx", "\nqxz", "\nqxzj", "\nqxzjk", "\nqxzjkw", "\nqxzjkv"]
UP_TO_SEVEN_TOKENS += [" pos", " positive"]
WORDS = "slow fine bleak and funny acting even very journey zebra quixotic it's"


def queries(rows: int, seed: int = 0) -> list[str]:
    """Draws film reviews of 1 to 7 words that ask for a sentiment."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 8, rows)
    return [f"Review: {' '.join(random.choice(WORDS.split(), n))}\nSentiment:" for n in lengths]


@jax.jit
def whole_log_softmax(model, tokens):
    positions = jnp.arange(tokens.shape[1])[None]
    return jax.nn.log_softmax(model.unembed(model.hidden(tokens, positions, causal)))


def naive(checkpoint, texts, labels):
    """Scores every text with every label by itself, from a whole log-softmax; [n, k] in nats."""
    tokenizer, bos = checkpoint.tokenizer, checkpoint.bos
    most = checkpoint.config.positions
    scores = np.zeros((len(texts), len(labels)))
    for row, text in enumerate(texts):
        prompt = tokenizer.encode(text.rstrip(), add_special_tokens=False).ids
        start = [] if bos is None else [bos]
        for column, label in enumerate(labels):
            ids = tokenizer.encode(text + label, add_special_tokens=False).ids[len(prompt) :]
            sequence = start + prompt + ids
            padded = np.array([sequence + [0] * (most - len(sequence))], np.int32)
            log_probs = np.asarray(whole_log_softmax(checkpoint.model, padded))[0]
            ends = range(len(sequence) - len(ids) - 1, len(sequence) - 1)
            scores[row, column] = sum(float(log_probs[end, sequence[end + 1]]) for end in ends)
    return scores
