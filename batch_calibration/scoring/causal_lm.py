"""Scores labels with a causal language model that runs each unique token once.

What all prompts begin with is run once and its keys and values cached. Then each row is its own
tokens, from where it branches off the row before it, followed by the trie of its label tokens;
rows attend to the cached keys with one dense product, to their sequence under a tree mask, and the
two are merged by their log-sum-exps.
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
"""Rows tokenized at a time, by backend: memory does not grow with the number of rows."""


class CausalLM(label_texts.LabelScorer):
    r"""Log-probability of each label as the continuation of each text.

    `log p(label | text)`, summed over the label's tokens, in nats. A label of several texts, its
    surface forms, has the sum of their probabilities. Labels begin with their space.

    With `logits_only`, labels must be one token each, and scores are their bare logits: they miss
    one constant per row, the log of the softmax's denominator, which no prediction of ICL, CC, DC,
    BC, PC or BCL depends on, and the product with the whole vocabulary is saved.

    On a mesh (`load_checkpoint(..., mesh=...)`) the devices along `data` share the rows.

    Example:
        scorer = CausalLM(load_checkpoint("checkpoints/gpt2"))
        scorer.score(["Review: fine\nSentiment:"], [" negative", " positive"]).log_probs

    Args:
        checkpoint: A causal language model and its tokenizer.
        batch_size: Most rows in a batch; memory decides for fewer where rows are long.
        logits_only: Leave the softmax's denominator out.

    Raises:
        InputError: the checkpoint is not of a causal family. `score` refuses images; prompts that
            exceed the model's positions with their labels; labels that are empty or equal as
            tokens, or of several tokens with `logits_only`; a sequence that exceeds the memory.
    """

    def __init__(self, checkpoint: Checkpoint, batch_size: int = 1024, logits_only: bool = False):
        if checkpoint.kind != "causal_lm":
            raise InputError(
                f"{checkpoint.directory}: a {checkpoint.model_type} network has no next-token "
                "head; give a causal language model, or score with DualEncoder."
            )
        super().__init__(f"{checkpoint.directory}: a {checkpoint.model_type} network", batch_size)
        self.checkpoint = checkpoint
        self.logits_only = logits_only
        tokens = checkpoint.tokenizer.get_added_tokens_decoder()
        # Gemma 3 has one, of images.
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
        """All that decides the numbers; batches and devices do not."""
        identity: Identity = {"kind": "causal_lm", "version": VERSION}
        identity |= {"checkpoint": self.checkpoint.digest, "dtype": self.checkpoint.dtype}
        return identity | ({"logits_only": True} if self.logits_only else {})

    def _score(self, asked: label_texts.Asked) -> LabelScores:
        if asked.finished is not NOTHING_FINISHED:
            # What was scored before must not decide the last bits of what is kept.
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
        """Rows and their scores, as `Forward.run`."""
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
        """Some rows at a time as token ids, the next ones tokenized while these are scored."""
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
            need = len(prompt) + labels.paths.shape[1] - 1  # a label's last token is never fed
            if need > most:
                raise label_texts.too_long(start + row, len(prompt), need, most)
            if self.logits_only and len(labels.tokens):  # an inner node: some label has two tokens
                raise InputError(
                    f"row {start + row}: with logits_only every label must be one token, but one "
                    f"has {labels.paths.shape[1]}; choose other label words, or leave it off."
                )


def long_network(config: Config, model: nnx.Module) -> tuple[float, llama.Model] | None:
    """Returns the network for long sequences, its weights shared with that for short ones.

    Before it stands the number of tokens beyond which it counts; None where there is no other.
    """
    if not isinstance(model, llama.Model) or not isinstance(config, llama.Config):
        return None
    first_length = config.rope.original_max_position_embeddings
    if model.long_frequencies is None or config.positions <= first_length:
        return None
    longer = nnx.merge(*nnx.split(model))
    longer.frequencies = model.long_frequencies
    return first_length, longer
