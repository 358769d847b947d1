"""Shared parts of tests of the scorer "api": texts, a clock that waits for nobody, a scorer."""

import asyncio

import numpy as np
from api_server import LABELS, first_tokens, nats, summed, token_of

from batch_calibration.scoring.api.client import Pace
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.settings import ApiSettings

TEXTS = [f"Review: film {i}\nSentiment:" for i in range(12)]


class Time:
    """A clock that goes on to when the first of those who sleep wakes."""

    def __init__(self):
        self.now, self.slept, self._until = 0.0, [], []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        until = self.now + seconds
        self._until.append(until)
        while self.now < until:
            await asyncio.sleep(0)
            if min(self._until) == until:
                self.now = max(self.now, until)
        self._until.remove(until)

    def pace(self, per_minute=0):
        return Pace(per_minute, self.sleep, lambda: self.now)


def scorer(address, way="echo", time=None, answers=None, tokenizer=None, **settings):
    api = ApiSettings(server=address, api_scores=way, **settings)
    return ApiScorer(api, "m", tokenizer, answers, (time or Time()).pace(api.per_minute))


def want(texts=TEXTS, labels=LABELS):
    return np.array([[summed(text, label) for label in labels] for text in texts])


def want_first(texts=TEXTS):
    return np.array([[first_tokens(text)[label] for label in LABELS] for text in texts])


def want_ids(tokenizer, texts=TEXTS):
    rows = []
    for prompt, labels in zip(
        *encode(tokenizer.tokenizer, texts, LABELS, tokenizer.bos), strict=True
    ):
        rows.append([nats(str(prompt), token_of(ids[0])) - 1 for ids in labels])
    return np.array(rows)
