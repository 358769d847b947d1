"""Scores labels with a causal language model that runs each unique token once.

The common prefix of all prompts runs once, and its keys and values are cached. A row then consists
of its own tokens, from where it differs from the row before it, and the trie of its label tokens.
Rows attend to the cached keys with one dense product, and to their sequence under a tree mask. The
two attention outputs are merged by their log-sum-exps.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import jax
import numpy as np
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring import NOTHING_FINISHED, Identity, LabelScores
from batch_calibration.scoring.engine import label_texts, trie
from batch_calibration.scoring.engine.batches import behind
from batch_calibration.scoring.engine.forward import Forward, PrefixCache
from batch_calibration.scoring.engine.label_texts import Batches
from batch_calibration.scoring.engine.tokens import Encoded, encode
from batch_calibration.scoring.models import llama
from batch_calibration.scoring.models.family import Config
from batch_calibration.scoring.models.files.checkpoint import Checkpoint

VERSION = "1"
TOKENIZED_ROWS = {"cpu": 1024}
"""Rows tokenized at a time, by backend, so that memory does not grow with the number of rows."""


class CausalLM(label_texts.LabelScorer):
    r"""Log-probability of each label as the continuation of each text.

    The score is `log p(label | text)`, summed over the label's tokens, in nats. For a label with
    several surface forms, the probabilities of the forms are summed. A label's text begins with its
    space.

    With `logits_only`, each label must be one token, and its score is its logit. Scores then lack
    one constant per row, the log of the softmax's denominator. The predictions of ICL, CC, DC, BC,
    PC and BCL do not depend on it, and the product with the whole vocabulary is saved.

    On a mesh (`load_checkpoint(..., mesh=...)`), the devices along `data` share the rows.

    Example:
        scorer = CausalLM(load_checkpoint("checkpoints/gpt2"))
        scorer.score(["Review: fine\nSentiment:"], [" negative", " positive"]).log_probs

    Args:
        checkpoint: A causal language model and its tokenizer.
        batch_size: Maximum rows in a batch. Batches of long rows are smaller if memory requires it.
        logits_only: Whether to leave out the softmax's denominator.

    Raises:
        InputError: the checkpoint is not of a causal family. `score` raises for images; for prompts
            that exceed the model's positions with their labels; for labels without tokens, with
            equal tokens, or of several tokens with `logits_only`; and for a sequence that exceeds
            the memory.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int = 1024, logits_only: bool = False):
        if checkpoint.kind != "causal_lm":
            expected, got = "a causal language model", f"a {checkpoint.model_type} network"
            raise InputError.at(checkpoint.directory, expected, got, "score with DualEncoder")
        super().__init__(f"{checkpoint.directory}: a {checkpoint.model_type} network", batch_size)
        self.checkpoint = checkpoint
        self.logits_only = logits_only
        tokens = checkpoint.tokenizer.get_added_tokens_decoder()
        # Gemma 3 has a token for images beyond its vocabulary.
        self._unembedded = {number for number in tokens if number >= checkpoint.config.vocab_size}
        self._forward = Forward(checkpoint, batch_size, normalized=not logits_only)
        self.notes = self._forward.notes
        self._long: Forward | None = None  # for sequences beyond `_first_length`
        if network := long_network(checkpoint.config, checkpoint.model):
            self._first_length, model = network
            longer = replace(checkpoint, model=model)
            self._long = Forward(longer, batch_size, normalized=not logits_only)
            self._long.notes = self.notes

    @property
    def identity(self) -> Identity:
        """Everything that determines the scores; batches and devices do not."""
        identity: Identity = {"kind": "causal_lm", "version": VERSION}
        identity |= {"checkpoint": self.checkpoint.digest, "dtype": self.checkpoint.dtype}
        return identity | ({"logits_only": True} if self.logits_only else {})

    def _score(self, asked: label_texts.Asked) -> LabelScores:
        if asked.finished is not NOTHING_FINISHED:
            # A prefix cached by an earlier call could change the last bits of stored scores.
            self._forward.prefix = PrefixCache([], ())
            if self._long is not None:
                self._long.prefix = PrefixCache([], ())
        return super()._score(asked)

    def _parts(self, texts: Sequence[str], forms: Sequence[str]) -> Iterator[label_texts.Part]:
        for start, encoded in self._encode(texts, forms):
            tries = list(map(trie.build_trie, encoded.labels))
            self._check(start, encoded.prompts, tries)
            lengths = list(map(len, encoded.prompts))
            yield start, lengths, partial(self._run, encoded, tries)

    def _run(self, encoded: Encoded, tries: Sequence[trie.Trie], done: set[int]) -> Batches:
        """Yields rows and their scores, as `Forward.run`."""
        long = self._long
        if long is None:
            return self._forward.run(encoded.prompts, tries, done)

        def run(is_wanted: np.ndarray, rows: list[int], done: set[int], beyond: bool) -> Batches:
            prompts, rows_tries = [encoded.prompts[r] for r in rows], [tries[r] for r in rows]
            return (long if beyond else self._forward).run(prompts, rows_tries, done)

        return label_texts.run_by_length(
            run, self._first_length, encoded.prompts, encoded.labels, done
        )

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> Iterator[tuple[int, Encoded]]:
        """Yields the token ids of some rows at a time; the next rows are tokenized meanwhile."""
        checkpoint = self.checkpoint
        bos, prefix = checkpoint.bos, checkpoint.prefix
        read = partial(encode, checkpoint.tokenizer, labels=labels, bos=bos, prefix=prefix)
        rows = TOKENIZED_ROWS.get(jax.default_backend(), 8192)  # rows at a time

        def begin(start: int) -> tuple[int, Future[Encoded]]:
            return start, pool.submit(read, texts[start : start + rows], first=start)

        with ThreadPoolExecutor(1) as pool:
            for start, future in behind(map(begin, range(0, len(texts), rows))):
                yield start, future.result()

    def _check(self, start: int, prompts: list[list[int]], tries: Sequence[trie.Trie]) -> None:
        most = self.checkpoint.config.positions
        for row, (prompt, labels) in enumerate(zip(prompts, tries, strict=True)):
            for token in sorted({*prompt, *labels.targets.tolist()} & self._unembedded):
                expected = f"embedded tokens, below {self.checkpoint.config.vocab_size}"
                got = f"{self.checkpoint.tokenizer.id_to_token(token)!r}, id {token}"
                raise InputError.at(f"row {start + row}", expected, got, "leave it out")
            need = len(prompt) + labels.paths.shape[1] - 1  # A label's last token is never fed.
            if need > most:
                raise label_texts.too_long(start + row, len(prompt), need, most)
            if self.logits_only and len(labels.tokens):  # An inner node means a label of 2 tokens.
                where, remedy = f"row {start + row}", "choose other words, or omit logits_only"
                got = f"{labels.paths.shape[1]} in one"
                raise InputError.at(where, "labels of one token for logits_only", got, remedy)


def long_network(config: Config, model: nnx.Module) -> tuple[float, llama.Model] | None:
    """Returns the network for long sequences and the length beyond which it runs.

    The network shares its weights with `model`. The result is None for a model with one network.
    """
    if not isinstance(model, llama.Model) or not isinstance(config, llama.Config):
        return None
    first_length = config.rope.original_max_position_embeddings
    if model.long_frequencies is None or config.positions <= first_length:
        return None
    longer = nnx.merge(*nnx.split(model))
    longer.frequencies = model.long_frequencies
    return first_length, longer
