"""Scores labels with any language model that transformers loads, on torch.

For architectures without a network here; slower than `CausalLM`, which packs sequences. The
beginning that all prompts share is run once. Labels of several tokens go on from the cache of their
row; where the network's cache cannot be copied, a row is run once for each path of its label trie.
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
"""Rows that are tokenized at a time; rows that begin alike share that beginning."""
BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
STEP = 16
MOST_LOGITS = 1 << 27
"""Numbers of logits that a batch may hold: half a gigabyte in float32."""
CACHED_TOKENS = 1 << 15
"""Tokens that the caches of label paths may hold at a time, with the tokens of their rows."""


class Path(NamedTuple):
    """A row with the beginning of some of its labels: one sequence that is run.

    Attributes:
        row: which prompt.
        prompt: its token ids.
        tokens: label tokens that are fed after it.
        labels: the labels whose tokens but the last begin these.
        targets: the token ids of each of these labels.
    """

    row: int
    prompt: list[int]
    tokens: tuple[int, ...]
    labels: tuple[int, ...]
    targets: LabelTokens


class Prefix(NamedTuple):
    """The beginning that all prompts share: how many tokens, and the network's cache of them."""

    length: int
    cache: "Cache | None"

    def repeat(self, rows: int) -> "Cache | None":
        """A copy of the cache for that many rows, as a call adds to its cache."""
        cache = copy.deepcopy(self.cache)
        if cache is not None:
            cache.batch_repeat_interleave(rows)
        return cache


class TransformersLM(label_texts.LabelScorer):
    r"""Log-probabilities of labels under a causal or encoder-decoder model of transformers.

    Args:
        checkpoint: of `TransformersFiles(directory).load()`.
        batch_size: most sequences in a batch; memory decides for fewer where they are long.

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
        """All that decides the numbers; the batch size does not."""
        # Version 1 turned cached beginnings of long sequences as if they were short.
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
                raise label_texts.too_long(start + row, len(prompt), need, most)
            if not prompt or not all(labels):
                expected = "a prompt and labels of a token or more"
                remedy = "give it some text"
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
            # What is cached was turned for short sequences.
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
        """Rows of equal length, each run once; the paths of its labels go on from its cache.

        Equal lengths leave no padding between a prompt and its labels, which networks that count
        places in the cache (GPT-Neo's windows, MPT's penalties) would take for tokens.
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
        """Rows of like length, each run once for each path of its labels."""
        longest = max(len(path.tokens) for path in chain.from_iterable(paths_of))
        most_paths = max(map(len, paths_of))
        lengths = [len(paths[0].prompt) - prefix.length + longest for paths in paths_of]
        # Padding within a batch is at most a bucket's, so that few logits beside those read come.
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
        """Tokens of a batch, padding included."""
        return BATCH_TOKENS.get(self.checkpoint.model.device.type, 4096)


class TorchNetwork:
    """Runs a model of transformers with the options that it takes.

    Args:
        model: causal or encoder-decoder, in evaluation mode.
    """

    def __init__(self, model: "PreTrainedModel"):
        self.model = model
        self.vocabulary = int(model.config.get_text_config().vocab_size)

    def run_prefix(self, prompts: list[list[int]], least: int) -> Prefix:
        """The common prefix of all prompts, if it is long enough, and its cache."""
        import torch

        first, last = min(prompts), max(prompts)
        most = min(map(len, prompts)) - 1  # a prompt keeps one token to read after
        shared = next((i for i in range(most) if first[i] != last[i]), most)
        if len(prompts) < 2 or shared < least or not self.has_branching_cache:
            return Prefix(0, None)
        ids = np.array([first[:shared]])
        with torch.inference_mode():
            output = self._forward(self.model, ids, np.ones_like(ids), 0, None)
        return Prefix(shared, output.past_key_values)

    @cached_property
    def first_length(self) -> float:
        """Tokens beyond which `longrope` turns all positions of a sequence otherwise."""
        ropes = getattr(self.model.config.get_text_config(), "rope_parameters", None) or {}
        for rope in (ropes, *ropes.values()):  # one of all layers, or one for each type of layer
            if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
                return float(rope["original_max_position_embeddings"])
        return np.inf

    @cached_property
    def has_branching_cache(self) -> bool:
        """True where the network keeps keys and values alone, so that a row's cache can be copied.

        States of recurrent and convolutional layers are kept in other ways, and some layers
        (Falcon-H1) have states and keys.
        """
        import torch

        with torch.inference_mode():
            output = self._forward(self.model, np.zeros((1, 1), int), np.ones((1, 1), int), 0, None)
        layers = getattr(getattr(output, "past_key_values", None), "layers", [])
        keyed = [hasattr(layer, "keys") and not hasattr(layer, "conv_states") for layer in layers]
        return bool(keyed) and all(keyed)

    @cached_property
    def _has_plain_head(self) -> bool:
        """True where logits are the unembedding of the base model's hidden states, to the last bit.

        Then only states that are read are unembedded: each costs more than a layer.
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
        """Log-probabilities `[rows, k]` of prompts of equal length: first they, then the paths."""
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
        """Log-probabilities of each path's labels, each path run after its prompt."""
        import torch

        sequences = [[*path.prompt[prefix.length :], *path.tokens] for path in batch]
        ids, mask = padded(sequences)
        reads = []
        for sequence, path in zip(sequences, batch, strict=True):
            # The prompt's last token, and the path's.
            reads.append(range(len(sequence) - len(path.tokens) - 1, len(sequence)))
        with torch.inference_mode():
            log_probs, _ = self._read(ids, mask, prefix.length, prefix.repeat(len(batch)), reads)
            return sum_label_tokens(log_probs, batch, reads)

    def decode(self, batch: list[Path]) -> list[list[float]]:
        """Log-probabilities of each path's labels, by an encoder-decoder model."""
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
        """The token that decoding begins with, where transformers' `generate` finds it."""
        config, generation = self.model.config, self.model.generation_config
        start, bos = "decoder_start_token_id", "bos_token_id"  # the second of T5Gemma
        places = [(config, start), (generation, start), (generation, bos), (config, bos)]
        for place, key in places:
            if (token := getattr(place, key, None)) is not None:
                return int(token)
        raise InputError.at("config.json", f"{start} or {bos}", "neither", "add it")

    def _read(
        self, ids: np.ndarray, mask: np.ndarray, cached: int, cache: "Cache | None",
        reads: Sequence[Sequence[int]],
    ) -> tuple["torch.Tensor", Any]:  # fmt: skip
        """Log-probabilities `[n, v]` of next tokens, and the cache of all that was run.

        Args:
            ids: tokens `[b, t]` after those cached, padded on the right.
            mask: which of them are real.
            cached: how many tokens the cache holds.
            cache: what a call adds to, or None.
            reads: the positions in `t` that are read of each row; in this order they make up `n`.
        """
        import torch

        rows, columns = _indices(reads)
        length, is_plain = ids.shape[1], self._has_plain_head
        model = self.model.base_model if is_plain else self.model
        output = self._forward(model, ids, mask, cached, cache, length - min(columns))
        states = output.last_hidden_state if is_plain else output.logits  # [b, t or fewer, ...]
        skipped = length - states.shape[1]  # a model may keep them all
        logits = states[rows, [column - skipped for column in columns]]
        if is_plain:
            logits = self.model.get_output_embeddings()(logits)
        # In float32, as half precision rounds.
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        return log_probs, getattr(output, "past_key_values", None)

    def _forward(
        self, model: "PreTrainedModel", ids: np.ndarray, mask: np.ndarray, cached: int,
        cache: "Cache | None", keep: int = 1,
    ) -> Any:  # fmt: skip
        """The output for `ids [b, t]` after so many cached tokens; logits of the last `keep`."""
        import torch

        device = self.model.device
        seen = np.concatenate([np.ones((len(ids), cached), int), mask], axis=1)
        options: dict[str, Any] = {}
        names = inspect.signature(model.forward).parameters
        if "position_ids" in names:
            # Padding has its row's last position: longrope goes by the furthest of the batch.
            positions = np.minimum(np.arange(ids.shape[1]), mask.sum(axis=1, keepdims=True) - 1)
            options["position_ids"] = torch.as_tensor(cached + positions, device=device)
        if "logits_to_keep" in names:
            options["logits_to_keep"] = keep
        if cache is not None:
            options["past_key_values"] = cache
        tokens, real = (torch.as_tensor(array, device=device) for array in (ids, seen))
        return model(input_ids=tokens, attention_mask=real, use_cache=True, **options)


def _indices(reads: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The row and the column of each position that is read, row after row."""
    rows, columns = list[int](), list[int]()
    for row, positions in enumerate(reads):
        rows += [row] * len(positions)
        columns += positions
    return rows, columns


def label_paths(
    row: int, prompt: list[int], labels: LabelTokens, wanted: Iterable[int]
) -> list[Path]:
    """The sequences that a row is run with: the longest beginnings of the labels wanted.

    >>> [path.tokens for path in label_paths(0, [1], ((7, 8), (7, 9), (5,)), range(3))]
    [(7,)]
    """
    labels_of: dict[tuple[int, ...], list[int]] = {}
    # From the longest on, each label is read from the first path that begins as it does.
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
    """The log-probability of each label of each path.

    Args:
        log_probs: `[n, v]`, of the next token at every position that is read, path after path.
        batch: the paths.
        reads: the positions that are read of each path; a label's tokens are read at the first.
        after: how many of a label's tokens are read elsewhere.
    """
    import torch

    chosen: list[tuple[int, int]] = []  # a read and a token
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
    """Token ids `[b, t]`, padded on the right, and which of them are real.

    >>> padded([[1, 2], [3]])[0].tolist()
    [[1, 2], [3, 0]]
    """
    length = max(map(len, lists))
    ids, mask = np.zeros((2, len(lists), length), int)
    for row, tokens in enumerate(lists):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return ids, mask
