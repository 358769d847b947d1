"""Scores labels with any language model that transformers loads, on torch.

For architectures that this package does not implement. It is slower than `CausalLM`, which packs
sequences. The common prefix of all prompts runs once. The later tokens of a label run after the
cache of their row. If the network's cache cannot be copied, a row runs once for each path of its
label trie.
"""

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring import Identity
from batch_calibration.scoring.engine import label_texts
from batch_calibration.scoring.engine.batches import batches
from batch_calibration.scoring.engine.label_texts import Batches
from batch_calibration.scoring.engine.tokens import LabelTokens, encode, token_ids
from batch_calibration.scoring.models.files.transformers_files import TransformersCheckpoint

if TYPE_CHECKING:
    import torch
    from transformers import Cache, PreTrainedModel

VERSION = "1"
TOKENIZED_ROWS = 4096
"""Rows tokenized at a time; only these rows share a common prefix."""
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
STEP = 16
MOST_LOGITS = 1 << 27
"""Maximum logits of a batch: half a gigabyte in float32."""
CACHED_TOKENS = 1 << 15
"""Maximum tokens in the caches of label paths at a time, with the tokens of their rows."""


class Path(NamedTuple):
    """A row with the first tokens of some of its labels: one sequence to run.

    Attributes:
        row: index of the prompt.
        prompt: token ids of the prompt.
        tokens: label tokens that are fed after the prompt.
        labels: indices of the labels that this path scores.
        targets: the token ids of each of these labels.
    """

    row: int
    prompt: list[int]
    tokens: tuple[int, ...]
    labels: tuple[int, ...]
    targets: LabelTokens


class Prefix(NamedTuple):
    """The length of the common prefix of all prompts, and the network's cache of it."""

    length: int
    cache: "Cache | None"

    def repeat(self, rows: int) -> "Cache | None":
        """Copies the cache for that many rows, because a call extends its cache."""
        cache = copy.deepcopy(self.cache)
        if cache is not None:
            cache.batch_repeat_interleave(rows)
        return cache


class TransformersLM(label_texts.LabelScorer):
    r"""Log-probabilities of labels under a causal or encoder-decoder model of transformers.

    Args:
        checkpoint: of `TransformersFiles(directory).load()`.
        batch_size: maximum sequences in a batch. Batches of long sequences are smaller if memory
            requires it.

    Example:
        scorer = TransformersLM(TransformersFiles("checkpoints/phi-2").load())
        scorer.score(["Review: fine\\nSentiment:"], [" negative", " positive"])
    """

    def __init__(self, checkpoint: TransformersCheckpoint, batch_size: int = 1024):
        super().__init__(f"{checkpoint.directory}: the network", batch_size)
        self.checkpoint = checkpoint
        self._network = TorchNetwork(checkpoint.model)

    @property
    def identity(self) -> Identity:
        """Everything that determines the scores; the batch size does not."""
        # Version 1 used short rotary frequencies for the cached prefixes of long sequences.
        version = "2" if self._network.first_length < np.inf else VERSION
        identity: Identity = {"kind": "transformers", "version": version}
        return identity | {"checkpoint": self.checkpoint.digest, "dtype": self.checkpoint.dtype}

    def _parts(self, texts: Sequence[str], forms: Sequence[str]) -> Iterator[label_texts.Part]:
        for start in range(0, len(texts), TOKENIZED_ROWS):
            part = texts[start : start + TOKENIZED_ROWS]
            prompts, label_tokens = self._encode(part, forms, start)
            self._check(start, prompts, label_tokens)
            lengths = list(map(len, prompts))
            yield start, lengths, partial(self._run, prompts, label_tokens)

    def _encode(
        self, texts: Sequence[str], forms: Sequence[str], first: int
    ) -> tuple[list[list[int]], list[LabelTokens]]:
        """Encodes the prompts, and the labels after each prompt."""
        info = self.checkpoint.info
        if not self.checkpoint.is_encoder_decoder:
            encoded = encode(info.tokenizer, texts, forms, info.bos, first, info.prefix)
            return encoded.prompts, encoded.labels
        # As in lm-evaluation-harness, prompts and labels are encoded separately, and white space
        # before a label belongs to the label.
        prompts = token_ids(info.tokenizer, [text.rstrip() for text in texts], special=True)
        ids_of_space: dict[str, LabelTokens] = {}
        labels = []
        for text in texts:
            space = text[len(text.rstrip()) :]
            if space not in ids_of_space:
                ids = token_ids(info.tokenizer, [space + form for form in forms])
                ids_of_space[space] = tuple(map(tuple, ids))
            labels.append(ids_of_space[space])
        return prompts, labels

    def _check(self, start: int, prompts: list[list[int]], label_tokens: list[LabelTokens]) -> None:
        most = self.checkpoint.info.positions
        for row, (prompt, labels) in enumerate(zip(prompts, label_tokens, strict=True)):
            fed = max(map(len, labels)) - 1  # A label's last token is never fed.
            need = len(prompt) + (0 if self.checkpoint.is_encoder_decoder else fed)
            if need > most:
                raise label_texts.too_long(start + row, len(prompt), need, most)
            if not prompt or not all(labels):
                expected = "a prompt and labels of a token or more"
                remedy = "add text to it"
                raise InputError.at(f"row {start + row}", expected, "an empty one", remedy)

    def _run(
        self, prompts: list[list[int]], label_tokens: list[LabelTokens], done: set[int]
    ) -> Batches:
        def run(is_wanted: np.ndarray, rows: list[int], done: set[int], beyond: bool) -> Batches:
            paths_of = []
            for number, row in enumerate(rows):
                wanted = np.flatnonzero(is_wanted[number])
                paths_of.append(label_paths(number, prompts[row], label_tokens[row], wanted))
            prefix, labels = Prefix(0, None), is_wanted.shape[1]
            # The cached prefix uses the short rotary frequencies.
            if not self.checkpoint.is_encoder_decoder and not beyond:
                prefix = self._network.run_prefix([prompts[row] for row in rows], STEP)
                if max(map(len, paths_of)) > 1 and self._network.has_branching_cache:
                    return self._run_branches(paths_of, labels, done, prefix)
            return self._run_paths(paths_of, labels, done, prefix)

        return label_texts.run_by_length(
            run, self._network.first_length, prompts, label_tokens, done
        )

    def _run_branches(
        self, paths_of: list[list[Path]], labels: int, done: set[int], prefix: Prefix
    ) -> Batches:
        """Runs each row once, in batches of equal length; its label paths continue from its cache.

        Equal lengths avoid padding between a prompt and its labels. Networks that count cache
        positions (GPT-Neo's windows, MPT's penalties) would treat this padding as tokens.
        """
        rows_by_length: dict[int, list[int]] = {}
        for row, paths in enumerate(paths_of):
            if row not in done:
                rows_by_length.setdefault(len(paths[0].prompt), []).append(row)
        for length, rows in sorted(rows_by_length.items(), reverse=True):
            size = max(1, min(self.batch_size, self._budget // (length - prefix.length)))
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                own = chain.from_iterable(paths_of[row] for row in batch)
                renumbered = [path._replace(row=batch.index(path.row)) for path in own]
                yield batch, self._network.score_branches(renumbered, labels, prefix)

    def _run_paths(
        self, paths_of: list[list[Path]], labels: int, done: set[int], prefix: Prefix
    ) -> Batches:
        """Runs each row once for each of its label paths, in batches of similar length."""
        longest = max(len(path.tokens) for path in chain.from_iterable(paths_of))
        most_paths = max(map(len, paths_of))
        lengths = [len(paths[0].prompt) - prefix.length + longest for paths in paths_of]
        # A batch pads to the end of its bucket at most, so it computes few unread logits.
        most_logits = self._network.vocabulary * (longest + 2 * STEP) * most_paths
        fit = max(1, MOST_LOGITS // most_logits)
        budget = max(1, self._budget // most_paths)
        size = max(1, min(self.batch_size // most_paths, fit))
        for rows, _, _ in batches(range(len(lengths)), lengths, size, budget, STEP):
            if done.issuperset(rows):
                continue
            batch = list(chain.from_iterable(paths_of[row] for row in rows))
            if self.checkpoint.is_encoder_decoder:
                token_scores = self._network.decode(batch)
            else:
                token_scores = self._network.score_paths(batch, prefix)
            scores = np.zeros((len(rows), labels), np.float32)
            place = {row: i for i, row in enumerate(rows)}
            for path, of_labels in zip(batch, token_scores, strict=True):
                scores[place[path.row], list(path.labels)] = of_labels
            yield rows, scores

    @property
    def _budget(self) -> int:
        """Looks up the maximum number of tokens in a batch, with padding."""
        return BATCH_TOKENS.get(self.checkpoint.model.device.type, 4096)


class TorchNetwork:
    """A model of transformers, with the options that its `forward` takes.

    Args:
        model: a causal or encoder-decoder model in evaluation mode.
    """

    def __init__(self, model: "PreTrainedModel"):
        self.model = model
        self.vocabulary = int(model.config.get_text_config().vocab_size)

    def run_prefix(self, prompts: list[list[int]], least: int) -> Prefix:
        """Runs the common prefix of all prompts, if it is long enough, and returns it."""
        import torch

        first, last = min(prompts), max(prompts)
        most = min(map(len, prompts)) - 1  # Labels are read after a token outside the prefix.
        shared = next((i for i in range(most) if first[i] != last[i]), most)
        if len(prompts) < 2 or shared < least or not self.has_branching_cache:
            return Prefix(0, None)
        ids = np.array([first[:shared]])
        with torch.inference_mode():
            output = self._forward(self.model, ids, np.ones_like(ids), 0, None)
        return Prefix(shared, output.past_key_values)

    @cached_property
    def first_length(self) -> float:
        """Reads the number of tokens beyond which `longrope` changes its frequencies.

        It is infinite for other networks.
        """
        ropes = getattr(self.model.config.get_text_config(), "rope_parameters", None) or {}
        for rope in (ropes, *ropes.values()):  # for all layers, or for each type of layer
            if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
                return float(rope["original_max_position_embeddings"])
        return np.inf

    @cached_property
    def has_branching_cache(self) -> bool:
        """Checks whether the cache holds only keys and values, so that a row's cache can be copied.

        Recurrent and convolutional layers keep their states in other ways, and some layers
        (Falcon-H1) have both states and keys.
        """
        import torch

        with torch.inference_mode():
            output = self._forward(self.model, np.zeros((1, 1), int), np.ones((1, 1), int), 0, None)
        layers = getattr(getattr(output, "past_key_values", None), "layers", [])
        keyed = [hasattr(layer, "keys") and not hasattr(layer, "conv_states") for layer in layers]
        return bool(keyed) and all(keyed)

    @cached_property
    def _has_plain_head(self) -> bool:
        """Checks whether unembedding the base model's hidden states gives exactly the logits.

        If so, only hidden states that are read are unembedded: unembedding costs more than a layer.
        """
        import torch

        base, head = self.model.base_model, self.model.get_output_embeddings()
        if base is self.model or head is None:
            return False
        ids = torch.arange(4, device=self.model.device)[None]
        with torch.inference_mode():
            try:
                hidden = base(input_ids=ids).last_hidden_state
                return bool(torch.equal(head(hidden), self.model(input_ids=ids).logits))
            except (AttributeError, RuntimeError, TypeError, ValueError):
                return False

    def score_branches(self, paths: list[Path], labels: int, prefix: Prefix) -> np.ndarray:
        """Computes log-probabilities `[rows, k]`: prompts of equal length run first, then paths."""
        import torch

        prompts = {path.row: path.prompt for path in paths}
        ids = np.array([prompt[prefix.length :] for prompt in prompts.values()])
        scores = np.zeros((len(prompts), labels), np.float32)
        branches = [path for path in paths if path.tokens]
        longest = max((len(path.tokens) for path in branches), default=1)
        length = len(prompts[0])
        size = min(MOST_LOGITS // (self.vocabulary * longest), CACHED_TOKENS // (length + longest))
        size = max(1, size)
        with torch.inference_mode():
            last = [[ids.shape[1] - 1]] * len(prompts)
            first, row_cache = self._read(
                ids, np.ones_like(ids), prefix.length, prefix.repeat(len(prompts)), last
            )
            rows_read, labels_read, tokens_read = list[int](), list[int](), list[int]()
            for path in paths:
                rows_read += [path.row] * len(path.labels)
                labels_read += path.labels
                tokens_read += [tokens[0] for tokens in path.targets]
            scores[rows_read, labels_read] = first[rows_read, tokens_read].cpu().numpy()
            for start in range(0, len(branches), size):
                chunk = branches[start : start + size]
                cache = copy.deepcopy(row_cache)
                rows = torch.as_tensor([path.row for path in chunk], device=self.model.device)
                cache.batch_select_indices(rows)
                ids, mask = padded([path.tokens for path in chunk])
                reads = [list(range(len(path.tokens))) for path in chunk]
                log_probs, _ = self._read(ids, mask, length, cache, reads)
                sums = sum_label_tokens(log_probs, chunk, reads, after=1)
                for path, of_labels in zip(chunk, sums, strict=True):
                    scores[path.row, list(path.labels)] += of_labels
        return scores

    def score_paths(self, batch: list[Path], prefix: Prefix) -> list[list[float]]:
        """Computes the log-probabilities of each path's labels; each path runs after its prompt."""
        import torch

        sequences = [[*path.prompt[prefix.length :], *path.tokens] for path in batch]
        ids, mask = padded(sequences)
        reads = []
        for sequence, path in zip(sequences, batch, strict=True):
            # Labels are read at the prompt's last token and at the path's tokens.
            reads.append(range(len(sequence) - len(path.tokens) - 1, len(sequence)))
        with torch.inference_mode():
            log_probs, _ = self._read(ids, mask, prefix.length, prefix.repeat(len(batch)), reads)
            return sum_label_tokens(log_probs, batch, reads)

    def decode(self, batch: list[Path]) -> list[list[float]]:
        """Computes the log-probabilities of each path's labels with an encoder-decoder model."""
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        prompts = {path.row: path.prompt for path in batch}
        ids, mask = padded(list(prompts.values()))
        rows = list(prompts)
        row_of_path = torch.as_tensor([rows.index(path.row) for path in batch])
        decoded, _ = padded([[self._begin, *path.tokens] for path in batch])
        device = self.model.device
        with torch.inference_mode():
            seen = torch.as_tensor(mask, device=device)
            encoded = self.model.get_encoder()(
                input_ids=torch.as_tensor(ids, device=device), attention_mask=seen
            ).last_hidden_state
            row_of_path = row_of_path.to(device)
            logits = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded[row_of_path]),
                attention_mask=seen[row_of_path],
                decoder_input_ids=torch.as_tensor(decoded, device=device),
            ).logits
            reads = [list(range(len(path.tokens) + 1)) for path in batch]
            log_probs = torch.log_softmax(logits[_indices(reads)].float(), dim=-1)
            return sum_label_tokens(log_probs, batch, reads)

    @cached_property
    def _begin(self) -> int:
        """Finds the token that decoding begins with, as transformers' `generate` does."""
        config, generation = self.model.config, self.model.generation_config
        start, bos = "decoder_start_token_id", "bos_token_id"  # T5Gemma sets the second.
        places = [(config, start), (generation, start), (generation, bos), (config, bos)]
        for place, key in places:
            if (token := getattr(place, key, None)) is not None:
                return int(token)
        raise InputError.at("config.json", f"{start} or {bos}", "neither", "add it")

    def _read(
        self, ids: np.ndarray, mask: np.ndarray, cached: int, cache: "Cache | None",
        reads: Sequence[Sequence[int]],
    ) -> tuple["torch.Tensor", Any]:  # fmt: skip
        """Computes log-probabilities `[n, v]` of next tokens, and the extended cache.

        Args:
            ids: tokens `[b, t]` that follow the cached tokens, padded on the right.
            mask: `[b, t]`, 1 for real tokens and 0 for padding.
            cached: number of tokens in the cache.
            cache: the cache to extend, or None.
            reads: the positions in `t` to read in each row; the `n` results follow this order.
        """
        import torch

        rows, columns = _indices(reads)
        length, is_plain = ids.shape[1], self._has_plain_head
        model = self.model.base_model if is_plain else self.model
        output = self._forward(model, ids, mask, cached, cache, length - min(columns))
        states = output.last_hidden_state if is_plain else output.logits  # [b, t or fewer, ...]
        skipped = length - states.shape[1]  # A model may ignore `keep`.
        logits = states[rows, [column - skipped for column in columns]]
        if is_plain:
            logits = self.model.get_output_embeddings()(logits)
        # The softmax runs in float32, because half precision rounds too much.
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        return log_probs, getattr(output, "past_key_values", None)

    def _forward(
        self, model: "PreTrainedModel", ids: np.ndarray, mask: np.ndarray, cached: int,
        cache: "Cache | None", keep: int = 1,
    ) -> Any:  # fmt: skip
        """Runs `ids [b, t]` after `cached` tokens and returns the output, with `keep` logits."""
        import torch

        device = self.model.device
        seen = np.concatenate([np.ones((len(ids), cached), int), mask], axis=1)
        options: dict[str, Any] = {}
        names = inspect.signature(model.forward).parameters
        if "position_ids" in names:
            # Padding repeats its row's last position, because the largest position of the batch
            # decides longrope's frequencies.
            positions = np.minimum(np.arange(ids.shape[1]), mask.sum(axis=1, keepdims=True) - 1)
            options["position_ids"] = torch.as_tensor(cached + positions, device=device)
        if "logits_to_keep" in names:
            options["logits_to_keep"] = keep
        if cache is not None:
            options["past_key_values"] = cache
        tokens, real = (torch.as_tensor(array, device=device) for array in (ids, seen))
        return model(input_ids=tokens, attention_mask=real, use_cache=True, **options)


def _indices(reads: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Returns the row and the column of each position that is read, row by row."""
    rows, columns = list[int](), list[int]()
    for row, positions in enumerate(reads):
        rows += [row] * len(positions)
        columns += positions
    return rows, columns


def label_paths(
    row: int, prompt: list[int], labels: LabelTokens, wanted: Iterable[int]
) -> list[Path]:
    """Returns the sequences to run for a row: the longest proper prefixes of its wanted labels.

    >>> [path.tokens for path in label_paths(0, [1], ((7, 8), (7, 9), (5,)), range(3))]
    [(7,)]
    """
    labels_of: dict[tuple[int, ...], list[int]] = {}
    # Long labels come first. A label joins the first path that starts with its proper prefix.
    for number in sorted(wanted, key=lambda number: (-len(labels[number]), number)):
        inner = labels[number][:-1]
        longer = [tokens for tokens in labels_of if tokens[: len(inner)] == inner]
        labels_of.setdefault(longer[0] if longer else inner, []).append(number)
    paths = []
    for tokens, numbers in sorted(labels_of.items()):
        targets = tuple(labels[number] for number in sorted(numbers))
        paths.append(Path(row, prompt, tokens, tuple(sorted(numbers)), targets))
    return paths


def sum_label_tokens(
    log_probs: "torch.Tensor", batch: list[Path], reads: Sequence[Sequence[int]], after: int = 0
) -> list[list[float]]:
    """Sums the token log-probabilities of each label of each path.

    Args:
        log_probs: `[n, v]` of the next token at every position that is read, path by path.
        batch: the paths.
        reads: the positions that are read in each path; a label uses the first of them.
        after: number of first label tokens that are read elsewhere.
    """
    import torch

    chosen: list[tuple[int, int]] = []  # pairs of a read and a token
    spans = []
    start = 0
    for path, positions in zip(batch, reads, strict=True):
        for target in path.targets:
            tokens = target[after:]
            spans.append(range(len(chosen), len(chosen) + len(tokens)))
            chosen += [(start + i, token) for i, token in enumerate(tokens)]
        start += len(positions)
    rows, tokens_read = torch.as_tensor(chosen, dtype=torch.long).reshape(-1, 2).T
    values = log_probs[rows, tokens_read].cpu().numpy()
    label_sums = iter([float(values[span.start : span.stop].sum()) for span in spans])
    return [list(islice(label_sums, len(path.labels))) for path in batch]


def padded(lists: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Pads token ids on the right to `[b, t]`, and returns a mask of the real tokens.

    >>> padded([[1, 2], [3]])[0].tolist()
    [[1, 2], [3, 0]]
    """
    length = max(map(len, lists))
    ids, mask = np.zeros((2, len(lists), length), int)
    for row, tokens in enumerate(lists):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return ids, mask
