"""Scores labels with any language model that transformers loads, on torch.

For architectures without a network here; slower than `CausalLM`, which packs sequences. The
beginning that all prompts share is run once, and each row is run once for each path of its label
trie: for labels of one token, once.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.models.transformers_files import TransformersCheckpoint
from batch_calibration.scoring import (
    NOTHING_FINISHED,
    Finished,
    Identity,
    ImageInputs,
    Inputs,
    LabelScores,
    LabelTexts,
    label_texts,
)
from batch_calibration.scoring.batches import batches
from batch_calibration.scoring.label_paths import Path, padded, paths, read_labels
from batch_calibration.scoring.tokens import LabelTokens, encode, token_ids

VERSION = "1"
TOKENIZED_ROWS = 4096
"""Rows that are tokenized at a time; those of them that begin alike share that beginning."""
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
MOST_LOGITS = 1 << 27
"""Numbers of logits that a batch may hold: half a gigabyte in float32."""
STEP = 16


class TransformersLM:
    r"""Log-probabilities of labels under a causal or encoder-decoder model of transformers.

    Args:
        checkpoint: of `TransformersFiles(directory).load()`.
        batch_size: most sequences in a batch; memory decides for fewer where they are long.

    Example:
        scorer = TransformersLM(TransformersFiles("checkpoints/phi-2").load())
        scorer.score(["Review: fine\\nSentiment:"], [" negative", " positive"])
    """

    def __init__(self, checkpoint: TransformersCheckpoint, batch_size: int = 256):
        if batch_size < 1:
            raise InputError(where="batch_size", expected="1 or more rows", got=batch_size)
        self.checkpoint = checkpoint
        self.batch_size = batch_size
        self.notes: list[str] = []
        self._options = set(inspect.signature(checkpoint.model.forward).parameters)

    @property
    def identity(self) -> Identity:
        """All that decides the numbers; the batch size does not."""
        return {
            "kind": "transformers",
            "version": VERSION,
            "checkpoint": self.checkpoint.digest,
            "dtype": self.checkpoint.dtype,
        }

    def score(
        self,
        inputs: Inputs,
        labels: LabelTexts,
        *,
        progress: Callable[[int], None] | None = None,
        finished: Finished = NOTHING_FINISHED,
    ) -> LabelScores:
        """Score `labels` (continuations with their leading space) after each text of `inputs`.

        Returns:
            `log_probs [n k]` in nats and the prompts' token counts `[n]`, rows in the order given.

        Raises:
            InputError: images; a prompt and its labels exceed the model's positions; labels that
                are empty or equal as tokens; a score that is not a number.
        """
        if isinstance(inputs, ImageInputs):
            raise InputError(f"{self.checkpoint.directory}: it is asked about texts, not images.")
        forms, counts = label_texts.flatten(labels)
        log_probs = np.zeros((len(inputs), len(forms)), np.float32)
        tokens = np.zeros(len(inputs), np.int32)
        for row, row_scores in finished.rows.items():
            log_probs[row] = row_scores
        rows_done = len(finished.rows)
        for start in range(0, len(inputs), TOKENIZED_ROWS):
            prompts, label_tokens = self._encode(
                inputs[start : start + TOKENIZED_ROWS], forms, start
            )
            self._check(start, prompts, label_tokens)
            tokens[start : start + len(prompts)] = list(map(len, prompts))
            done = {row - start for row in finished.rows}
            for rows, scores in self._run(prompts, label_tokens, done):
                if not np.isfinite(scores).all():
                    row, form = np.argwhere(~np.isfinite(scores))[0]
                    raise InputError(
                        where=f"row {start + rows[row]}, label {forms[form]!r}",
                        expected="a finite log-probability", got=f"{scores[row, form]}",
                        remedy="the checkpoint's numbers overflow",
                    )  # fmt: skip
                numbers = [start + row for row in rows]
                log_probs[numbers] = scores
                finished.add(numbers, scores)
                rows_done += len(rows)
                if progress:
                    progress(rows_done)
        return LabelScores(label_texts.sum_probabilities(log_probs, counts), tokens)

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
                raise InputError(
                    f"row {start + row}: a prompt of {len(prompt)} tokens needs {need} positions "
                    f"with its labels, but the model has {most}; use fewer or shorter "
                    "demonstrations, or cut the text."
                )
            if not prompt or not all(labels):
                raise InputError(
                    where=f"row {start + row}", expected="a prompt and labels of a token or more",
                    got="an empty one", remedy="give it some text",
                )  # fmt: skip

    def _run(
        self, prompts: list[list[int]], label_tokens: list[LabelTokens], done: set[int]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Rows and their log-probabilities `[rows, k]`, batch by batch."""
        paths_of = [paths(row, labels) for row, labels in enumerate(label_tokens)]
        shared, prefix = 0, None
        if not self.checkpoint.is_encoder_decoder:
            shared, prefix = self._run_prefix(prompts)
        longest = max(len(path.tokens) for row_paths in paths_of for path in row_paths)
        most_paths = max(map(len, paths_of))
        lengths = [len(prompt) - shared + longest for prompt in prompts]
        device = self.checkpoint.model.device.type
        vocabulary = self.checkpoint.model.config.get_text_config().vocab_size
        # Padding within a batch is at most a bucket's, so that few logits beside those read come.
        fit = max(1, MOST_LOGITS // (vocabulary * (longest + 2 * STEP) * most_paths))
        budget = max(1, BATCH_TOKENS.get(device, 4096) // most_paths)
        size = max(1, min(self.batch_size // most_paths, fit))
        for rows, _, _ in batches(range(len(prompts)), lengths, size, budget, STEP):
            if done.issuperset(rows):
                continue
            batch = [path for row in rows for path in paths_of[row]]
            if self.checkpoint.is_encoder_decoder:
                token_scores = self._decode(rows, batch, prompts, label_tokens)
            else:
                token_scores = self._continue(batch, prompts, label_tokens, shared, prefix)
            scores = np.zeros((len(rows), len(label_tokens[0])), np.float32)
            place = {row: i for i, row in enumerate(rows)}
            for path, of_labels in zip(batch, token_scores, strict=True):
                scores[place[path.row], list(path.labels)] = of_labels
            yield rows, scores

    def _run_prefix(self, prompts: list[list[int]]) -> tuple[int, Any]:
        """How many tokens all prompts begin with alike, and the cache of them."""
        import torch

        first, last = min(prompts), max(prompts)
        most = min(map(len, prompts)) - 1  # a prompt keeps one token to read after
        shared = next((i for i in range(most) if first[i] != last[i]), most)
        if len(prompts) < 2 or shared < STEP:
            return 0, None
        with torch.inference_mode():
            output = self._forward(
                np.array([first[:shared]]), np.ones((1, shared), int), 0, None, 1
            )
        cache: Any = getattr(output, "past_key_values", None)
        try:
            copy.deepcopy(cache).batch_repeat_interleave(1)
        except (AttributeError, NotImplementedError):
            # Caches of some networks (state-space, convolution) cannot be repeated for many rows.
            return 0, None
        return shared, cache

    def _forward(
        self, ids: np.ndarray, mask: np.ndarray, shared: int, cache: Any, keep: int
    ) -> Any:
        """The network's output for `ids [b, t]` after `shared` cached tokens."""
        import torch

        model = self.checkpoint.model
        seen = np.concatenate([np.ones((len(ids), shared), int), mask], axis=1)
        options: dict[str, Any] = {}
        if "position_ids" in self._options:
            positions = np.broadcast_to(shared + np.arange(ids.shape[1]), ids.shape).copy()
            options["position_ids"] = torch.as_tensor(positions, device=model.device)
        if "logits_to_keep" in self._options:
            options["logits_to_keep"] = keep
        if cache is not None:
            options["past_key_values"] = cache
        return model(
            input_ids=torch.as_tensor(ids, device=model.device),
            attention_mask=torch.as_tensor(seen, device=model.device), use_cache=True, **options,
        )  # fmt: skip

    def _continue(
        self, batch: list[Path], prompts: list[list[int]], label_tokens: list[LabelTokens],
        shared: int, prefix: Any,
    ) -> list[list[float]]:  # fmt: skip
        """Log-probabilities of each path's labels, by a causal model."""
        import torch

        sequences = [[*prompts[path.row][shared:], *path.tokens] for path in batch]
        ids, mask = padded(sequences)
        first_reads = [len(prompts[path.row]) - shared - 1 for path in batch]
        keep = ids.shape[1] - min(first_reads)
        with torch.inference_mode():
            cache = copy.deepcopy(prefix)  # a call adds to its cache
            if cache is not None:
                cache.batch_repeat_interleave(len(batch))
            logits = self._forward(ids, mask, shared, cache, keep).logits
            skipped = ids.shape[1] - logits.shape[1]
            reads = [read - skipped for read in first_reads]
            return read_labels(logits, batch, label_tokens, reads)

    def _decode(
        self, rows: list[int], batch: list[Path], prompts: list[list[int]],
        label_tokens: list[LabelTokens],
    ) -> list[list[float]]:  # fmt: skip
        """Log-probabilities of each path's labels, by an encoder-decoder model."""
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        model = self.checkpoint.model
        ids, mask = padded([prompts[row] for row in rows])
        row_of_path = torch.as_tensor([rows.index(path.row) for path in batch])
        begin = model.config.decoder_start_token_id
        decoded, _ = padded([[begin, *path.tokens] for path in batch])
        with torch.inference_mode():
            seen = torch.as_tensor(mask, device=model.device)
            encoded = model.get_encoder()(
                input_ids=torch.as_tensor(ids, device=model.device), attention_mask=seen
            ).last_hidden_state
            row_of_path = row_of_path.to(model.device)
            logits = model(
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded[row_of_path]),
                attention_mask=seen[row_of_path],
                decoder_input_ids=torch.as_tensor(decoded, device=model.device),
            ).logits
            return read_labels(logits, batch, label_tokens, [0] * len(batch))
