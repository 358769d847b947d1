"""The settings of a sentence-transformers directory: texts, pooling, layers after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.scoring.models.family import RawConfig
from batch_calibration.scoring.models.files.config import read_json, read_value
from batch_calibration.scoring.models.files.tensors import shards

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
TEXTS = "sentence_bert_config.json"
FIXED: dict[str, Mapping[str, object]] = {
    SETTINGS: {"model_type": "SentenceTransformer", "truncate_dim": None},
    TEXTS: {
        "transformer_task": "feature-extraction",
        "module_output_name": "token_embeddings",
        **dict.fromkeys(("query_length", "document_length", "query_expansion")),
        **{key: {} for key in ("processor_kwargs", "tokenizer_args", "config_kwargs")},
        **{key: {} for key in ("config_args", "processing_kwargs")},
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
    },
}
"""Keys of each file and the only value that each may have here, null being left out."""
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The poolings, by the flags of the older spelling of `pooling_mode`."""


class Module(NamedTuple):
    """One line of `modules.json`: what it is and the folder that it lies in."""

    kind: str
    folder: str


@dataclass(frozen=True)
class SentenceConfig:
    """The steps from a text to its embedding.

    Attributes:
        pooling: One of the values of `FLAGS`.
        modules: The lines of `modules.json`; none where there is no file.
        prompt: The text before each text and each statement: the default prompt, which
            sentence-transformers puts before all that it encodes.
        max_tokens: Where texts are cut, or None for the network's positions.
        lower_case: Whether texts are lowered before they are tokenized.
    """

    pooling: str = "mean"
    modules: tuple[Module, ...] = ()
    prompt: str = ""
    max_tokens: int | None = None
    lower_case: bool = False

    @property
    def note(self) -> str:
        """The steps, in a sentence."""
        if not self.modules:
            return f"pooling: {self.pooling}, as sentence-transformers does without {MODULES}"
        following = "".join(f", then {module.folder}" for module in self.modules[2:])
        clauses = [f"pooling: {self.pooling}{following}, as {MODULES} says"]
        clauses += [f"{self.prompt!r} precedes each text"] if self.prompt else []
        clauses += ["texts are in lower case"] if self.lower_case else []
        if self.max_tokens:
            clauses.append(f"texts are cut at {self.max_tokens} tokens or before")
        return "; ".join(clauses)

    def files(self, directory: Path) -> list[str]:
        """The files that decide it, weights included."""
        if not self.modules:
            return []
        files = [MODULES, SETTINGS, TEXTS]
        for kind, folder in self.modules[1:]:
            weight_files = shards(directory / folder) if kind == "Dense" else []
            files += [f"{folder}/{name}" for name in ("config.json", *weight_files)]
        return files


def read(directory: Path, width: int) -> SentenceConfig:
    """Read what a directory says of an encoder of that width; its weights may be absent.

    Raises:
        InputError: a file is broken, or asks for what this encoder does not do.
    """
    modules = _modules(directory)
    if not modules:
        return SentenceConfig(max_tokens=_max_tokens(directory, {}))
    settings, texts = (read_fixed(directory / name, FIXED[name]) for name in (SETTINGS, TEXTS))
    unit = modules[-1].kind == "Normalize"  # then a dot product is a cosine
    similarity = settings.get("similarity_fn_name")
    if similarity not in (None, "cosine") and not (unit and similarity == "dot"):
        raise InputError(
            f"{directory / SETTINGS}: similarity_fn_name = {similarity!r} of embeddings that are "
            "not of length one; expected 'cosine', which is what labels are scored by."
        )
    prompt = _prompt(directory / SETTINGS, settings)
    pooling = _pooling(directory / modules[1].folder / "config.json", width, prompt)
    most, is_lower = _max_tokens(directory, texts), bool(texts.get("do_lower_case"))
    return SentenceConfig(pooling, modules, prompt, most, is_lower)


def _modules(directory: Path) -> tuple[Module, ...]:
    """The lines of `modules.json`: a transformer, a pooling, then dense layers and lengths."""
    path = directory / MODULES
    if not path.is_file():
        if (directory / "1_Pooling").is_dir():
            raise InputError(
                f"{directory}: 1_Pooling says how to pool, but there is no {MODULES}, without "
                "which sentence-transformers does not read it; fetch that file too."
            )
        return ()
    lines = read_value(path, "the modules of a sentence encoder")
    modules = []
    for line in lines if isinstance(lines, list) else []:
        if isinstance(line, dict):
            kind, folder = str(line.get("type")), str(line.get("path"))
            modules.append(Module(kind, folder))
    kinds = [kind.rsplit(".", 1)[-1] for kind, _ in modules]  # the classes' names
    is_known = (
        all(kind.startswith("sentence_transformers.") for kind, _ in modules)
        and kinds[:2] == ["Transformer", "Pooling"]
        and set(kinds[2:]) <= {"Dense", "Normalize"}
        and modules[0].folder == ""  # the transformer lies beside modules.json
        and all(folder == Path(folder).name not in ("", "..") for _, folder in modules[1:])
    )
    if not is_known:
        named = ", ".join(f"{kind} in {folder!r}" for kind, folder in modules)
        raise InputError.at(
            path,
            "a Transformer in this folder, a Pooling, and Dense and Normalize "
            "modules of sentence_transformers in folders of it",
            named or repr(lines),
            "use another checkpoint",
        )
    return tuple(Module(kind, module.folder) for kind, module in zip(kinds, modules, strict=True))


def read_fixed(path: Path, fixed: Mapping[str, object]) -> RawConfig:
    """A file that may be absent.

    Raises:
        InputError: it is broken, or asks by one of the keys for what this encoder does not do.
    """
    raw = read_json(path, "settings of a sentence encoder") if path.is_file() else {}
    for key, expected in fixed.items():
        if raw.get(key) not in (None, expected):
            raise InputError(
                f"{path}: {key} = {raw[key]!r}; this encoder is written for {expected!r} alone, "
                "and would score wrongly; use another checkpoint."
            )
    return raw


def _pooling(path: Path, width: int, prompt: str) -> str:
    raw = read_json(path, "a pooling")
    modes = raw.get("pooling_mode")
    if modes is None:
        unknown = {key for key in raw if key.startswith("pooling_mode_") and raw[key]} - set(FLAGS)
        modes = [*(mode for key, mode in FLAGS.items() if raw.get(key)), *sorted(unknown)]
        modes = modes or ["mean"]  # as sentence-transformers where no flag is set
    modes = [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]
    if len(modes) != 1 or modes[0] not in FLAGS.values():
        raise InputError(
            f"{path}: pooling by {' and '.join(modes) or 'nothing'}; expected one alone of "
            f"{', '.join(FLAGS.values())}; use another checkpoint."
        )
    stated_width = raw.get("embedding_dimension", raw.get("word_embedding_dimension", width))
    if stated_width != width:
        raise InputError(
            f"{path}: pools embeddings of width {stated_width}, but the network's is {width}; the "
            "files belong to different checkpoints."
        )
    if prompt and not raw.get("include_prompt", True):
        raise InputError(
            f"{path}: include_prompt is false, so the tokens of {prompt!r} would have to be left "
            "out of the pooling, which this encoder does not do; use another checkpoint."
        )
    return modes[0]


def _prompt(path: Path, settings: Mapping[str, object]) -> str:
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts")
    if name is None:
        return ""
    prompt = prompts.get(str(name)) if isinstance(prompts, dict) else None
    if not isinstance(prompt, str):
        raise InputError(
            f"{path}: default_prompt_name is {name!r}, but prompts has no text of that name; "
            "fetch the file again."
        )
    return prompt


def _max_tokens(directory: Path, texts: Mapping[str, object]) -> int | None:
    """`max_seq_length`, or else the tokenizer's own `model_max_length`, where there is one."""
    path = directory / "tokenizer_config.json"
    tokenizer = read_json(path, "a tokenizer config") if path.is_file() else {}
    key, number = TEXTS, texts.get("max_seq_length")
    if number is None:
        key, number = path.name, tokenizer.get("model_max_length")
    if number is None:
        return None
    if not isinstance(number, int | float) or not number >= 3:
        raise InputError(
            f"{directory / key}: texts are cut at {number!r} tokens, expected 3 or more (one of "
            "the text and two specials); fetch the file again."
        )
    return int(min(number, 1 << 30))  # 1e30 stands for no limit
