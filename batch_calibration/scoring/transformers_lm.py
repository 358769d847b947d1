"""Scores labels with any language model that transformers loads, on torch.

For architectures without a network here; slower than `CausalLM`, which packs sequences. The
beginning that all prompts share is run once. Labels of several tokens go on from the cache of their
row; where the network's cache cannot be copied, a row is run once for each path of its label trie.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring import Identity
from batch_calibration.scoring.engine.batches import batches
from batch_calibration.scoring.engine.label_texts import LabelScorer, Part, too_long
from batch_calibration.scoring.engine.tokens import LabelTokens, encode, token_ids
from batch_calibration.scoring.engine.torch_network import (
    MOST_LOGITS,
    Path,
    Prefix,
    TorchNetwork,
    label_paths,
)
from batch_calibration.scoring.models.files.transformers_files import TransformersCheckpoint

VERSION = "1"
TOKENIZED_ROWS = 4096
"""Rows that are tokenized at a time; rows that begin alike share that beginning."""
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
STEP = 16


class TransformersLM(LabelScorer):
    r"""Log-probabilities of labels under a causal or encoder-decoder model of transformers.

    Args:
        checkpoint: of `TransformersFiles(directory).load()`.
        batch_size: most sequences in a batch; memory decides for fewer where they are long.

    Example:
        scorer = TransformersLM(TransformersFiles("checkpoints/phi-2").load())
        scorer.score(["Review: fine\\nSentiment:"], [" negative", " positive"])
    """

    def __init__(self, checkpoint: TransformersCheckpoint, batch_size: int = 256):
        super().__init__(f"{checkpoint.directory}: the network", batch_size)
        self.checkpoint = checkpoint
        self._network = TorchNetwork(checkpoint.model)

    @property
    def identity(self) -> Identity:
        """All that decides the numbers; the batch size does not."""
        return {
            "kind": "transformers",
            "version": VERSION,
            "checkpoint": self.checkpoint.digest,
            "dtype": self.checkpoint.dtype,
        }

    def _parts(self, texts: Sequence[str], forms: Sequence[str]) -> Iterator[Part]:
        for start in range(0, len(texts), TOKENIZED_ROWS):
            part = texts[start : start + TOKENIZED_ROWS]
            prompts, label_tokens = self._encode(part, forms, start)
            self._check(start, prompts, label_tokens)
            lengths = list(map(len, prompts))
            yield Part(start, lengths, partial(self._run, prompts, label_tokens))

    def _encode(
        self, texts: Sequence[str], forms: Sequence[str], first: int
    ) -> tuple[list[list[int]], list[LabelTokens]]:
        """Token ids of prompts, and of the labels after each."""
        info = self.checkpoint.info
        if not self.checkpoint.is_encoder_decoder:
            encoded = encode(info.tokenizer, texts, forms, info.bos, first, info.prefix)
            return encoded.prompts, encoded.labels
        # As lm-evaluation-harness: encoded apart, white space before a label is the label's.
        prompts = token_ids(info.tokenizer, [text.rstrip() for text in texts], special=True)
        ids_of_space: dict[str, LabelTokens] = {}
        labels = []
        for text in texts:
            space = text[len(text.rstrip()) :]
            if space not in ids_of_space:
                # `encode` checks that labels differ; a text of its own stands for the prompt.
                ids = token_ids(info.tokenizer, [space + form for form in forms])
                ids_of_space[space] = tuple(map(tuple, ids))
            labels.append(ids_of_space[space])
        return prompts, labels

    def _check(self, start: int, prompts: list[list[int]], label_tokens: list[LabelTokens]) -> None:
        most = self.checkpoint.info.positions
        for row, (prompt, labels) in enumerate(zip(prompts, label_tokens, strict=True)):
            fed = max(map(len, labels)) - 1  # a label's last token is never fed
            need = len(prompt) + (0 if self.checkpoint.is_encoder_decoder else fed)
            if need > most:
                raise too_long(start + row, len(prompt), need, most)
            if not prompt or not all(labels):
                raise InputError(
                    where=f"row {start + row}", expected="a prompt and labels of a token or more",
                    got="an empty one", remedy="give it some text",
                )  # fmt: skip

    def _run(
        self, prompts: list[list[int]], label_tokens: list[LabelTokens], done: set[int]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Rows and their log-probabilities `[rows, k]`, batch by batch."""
        paths_of = [label_paths(row, labels) for row, labels in enumerate(label_tokens)]
        prefix = Prefix(0, None)
        if not self.checkpoint.is_encoder_decoder:
            prefix = self._network.run_prefix(prompts, STEP)
            if max(map(len, paths_of)) > 1 and self._network.has_branching_cache:
                yield from self._run_branches(prompts, label_tokens, paths_of, done, prefix)
                return
        yield from self._run_paths(prompts, label_tokens, paths_of, done, prefix)

    def _run_branches(
        self, prompts: list[list[int]], label_tokens: list[LabelTokens],
        paths_of: list[list[Path]], done: set[int], prefix: Prefix,
    ) -> Iterator[tuple[list[int], np.ndarray]]:  # fmt: skip
        """Rows of equal length, each run once; the paths of its labels go on from its cache.

        Equal lengths leave no padding between a prompt and its labels, which networks that count
        places in the cache (GPT-Neo's windows, MPT's penalties) would take for tokens.
        """
        rows_by_length: dict[int, list[int]] = {}
        for row, prompt in enumerate(prompts):
            if row not in done:
                rows_by_length.setdefault(len(prompt), []).append(row)
        for length, rows in sorted(rows_by_length.items(), reverse=True):
            size = max(1, min(self.batch_size, self._budget // (length - prefix.length)))
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                batch_paths = list(chain.from_iterable(paths_of[row] for row in batch))
                yield batch, self._network.score_branches(
                    [prompts[row] for row in batch], [label_tokens[row] for row in batch],
                    [path._replace(row=batch.index(path.row)) for path in batch_paths], prefix,
                )  # fmt: skip

    def _run_paths(
        self, prompts: list[list[int]], label_tokens: list[LabelTokens],
        paths_of: list[list[Path]], done: set[int], prefix: Prefix,
    ) -> Iterator[tuple[list[int], np.ndarray]]:  # fmt: skip
        """Rows of like length, each run once for each path of its labels."""
        longest = max(len(path.tokens) for path in chain.from_iterable(paths_of))
        most_paths = max(map(len, paths_of))
        lengths = [len(prompt) - prefix.length + longest for prompt in prompts]
        # Padding within a batch is at most a bucket's, so that few logits beside those read come.
        most_logits = self._network.vocabulary * (longest + 2 * STEP) * most_paths
        fit = max(1, MOST_LOGITS // most_logits)
        budget = max(1, self._budget // most_paths)
        size = max(1, min(self.batch_size // most_paths, fit))
        for rows, _, _ in batches(range(len(prompts)), lengths, size, budget, STEP):
            if done.issuperset(rows):
                continue
            batch = list(chain.from_iterable(paths_of[row] for row in rows))
            if self.checkpoint.is_encoder_decoder:
                token_scores = self._network.decode(rows, batch, prompts, label_tokens)
            else:
                token_scores = self._network.score_paths(batch, prompts, label_tokens, prefix)
            scores = np.zeros((len(rows), len(label_tokens[0])), np.float32)
            place = {row: i for i, row in enumerate(rows)}
            for path, of_labels in zip(batch, token_scores, strict=True):
                scores[place[path.row], list(path.labels)] = of_labels
            yield rows, scores

    @property
    def _budget(self) -> int:
        """Tokens of a batch, padding included."""
        return BATCH_TOKENS.get(self.checkpoint.model.device.type, 4096)
