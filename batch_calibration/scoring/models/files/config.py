"""Reads a checkpoint's `config.json` into its family's config, and rejects unknown keys."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any, get_type_hints

from batch_calibration.errors import InputError, answering, spell
from batch_calibration.files import parse_json
from batch_calibration.scoring.models.family import Config, Family, RawConfig, misfit, misread
from batch_calibration.scoring.models.rotary import Rope

BOOKKEEPING = (
    "architectures auto_map model_type name_or_path _name_or_path _commit_hash "
    "transformers_version _*_version tokenizer_class dtype torch_dtype id2label label2id "
    "num_labels _num_labels problem_type finetuning_task task_specific_params custom_pipelines "
    "transformers.js_config unsloth_*"
)
TRAINING = (
    "*dropout *dropout_prob *_pdrop layerdrop initializer_range initializer_factor init_std "
    "gradient_checkpointing bias_dropout_fusion"
)
RUNTIME = (
    "use_cache cache_implementation pretraining_tp return_dict use_return_dict output_attentions "
    "output_hidden_states output_past torchscript use_bfloat16 chunk_size_feed_forward "
    "attn_implementation _attn_implementation* reorder_and_upcast_attn tf_legacy_loss "
    "is_encoder_decoder tie_encoder_decoder cross_attention_hidden_size"
)
GENERATION = (
    "*_token_id prefix max_length min_length do_sample early_stopping num_beams num_beam_groups "
    "diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty "
    "no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
    "output_scores return_dict_in_generate remove_invalid_values exponential_decay_length_penalty "
    "suppress_tokens begin_suppress_tokens"
)
INERT = tuple(" ".join((BOOKKEEPING, TRAINING, RUNTIME, GENERATION)).split())
"""Patterns of keys that change no score of any family: about the file, training or generation."""
QUANTIZED = ("quantization_config", "compression_config")


def read_json(path: Path, role: str) -> dict[str, object]:
    """Reads the JSON object in `path`.

    Raises:
        InputError: The file is missing or is not a JSON object.
    """
    if not path.is_file():
        wanted = "a Hugging Face checkpoint directory (config.json, *.safetensors, tokenizer.json)"
        expected = f"{role} in {path.name}"
        raise InputError.at(path.parent, expected, "no file", f"give {wanted}")
    with answering(ValueError, path, "JSON", "fetch the file again"):
        content: object = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(where=path, expected="a JSON object", got=f"{type(content).__name__}")
    return content


def read_config(
    family: Family, raw: RawConfig, where: Path, accepted: Sequence[str] = ()
) -> Config:
    """Converts a raw `config.json` to the family's config; drops keys that change no score.

    Args:
        family: The family of the architecture.
        raw: The content of the file.
        where: The directory, for error messages.
        accepted: Unknown keys that, according to the user, change no score.

    Raises:
        InputError: A key is missing, is unknown to the network, or has a wrong type or a value that
            is out of range or that the network does not support.
    """
    refuse_unknown(family._replace(inert=(*family.inert, *map(escape, accepted))), raw, where)
    raw = family.flatten(raw)  # unknown keys must be rejected before this renames keys
    config_fields = fields(family.config)
    missing = [f.name for f in config_fields if f.name not in raw and f.default is MISSING]
    if missing:
        raise InputError(f"{where}: config.json lacks {', '.join(missing)}; is it the right file?")
    for key, setting in family.fixed.items():
        if raw.get(key, setting) != setting:
            only = f"{setting!r}, the only value that this {family.name} network supports"
            raise misread(key, raw[key], only, "use another checkpoint", str(where))
    types = get_type_hints(family.config)  # the allowed types of each field
    settings: dict[str, Any] = {f.name: raw[f.name] for f in config_fields if f.name in raw}
    for name, setting in settings.items():
        # `flatten` has already checked the parameters of ropes.
        if expected := not isinstance(setting, Rope) and misfit(types[name], setting):
            raise misread(name, setting, expected, where=str(where))
    config = family.config(**settings)
    # Only in a family with `head_dim` may heads times head size differ from the hidden size.
    if not settings.get("head_dim") and config.width % config.heads:
        got, expected = f"{config.heads} attention heads", f"a divisor of the width {config.width}"
        raise InputError.at(f"{where}: config.json", expected, got, "fetch the file again")
    groups = settings.get("num_key_value_heads") or 1  # null: as many as heads
    if config.heads % groups:
        got, expected = f"{config.heads} attention heads", f"a multiple of {groups} key-value heads"
        raise InputError.at(f"{where}: config.json", expected, got, "fetch the file again")
    return config


def is_known(family: Family, key: str) -> bool:
    """Checks whether the family reads a key of `config.json`, fixes its value, or may ignore it.

    In nested objects such as `text_config`, the same keys are known as at the top level.
    """
    honored = {*family.config.__dataclass_fields__, *family.fixed, *family.keys}
    return key in honored or any(fnmatchcase(key, inert) for inert in (*INERT, *family.inert))


def refuse_unknown(family: Family, raw: RawConfig, where: Path, at: str = "") -> None:
    """Checks that a raw config, with its nested objects, has no keys of unknown effect.

    A null, and an empty text, list or object, have no effect and are skipped.

    Raises:
        InputError: The weights are quantized, or the family does not know a key.
    """
    settings = {key: setting for key, setting in raw.items() if setting not in (None, "", [], {})}
    quantized = [key for key in QUANTIZED if key in settings and key not in family.parts]
    if quantized:
        raise InputError(
            f"{where}: config.json has {at}{quantized[0]}: its weights are quantized, expected "
            "float32, float16 or bfloat16; use the unquantized checkpoint, or score this "
            f"one with {spell('scorer', 'transformers')}."
        )
    for key, setting in settings.items():
        part_keys = family.parts.get(at + key)  # None: the object is one setting
        if isinstance(setting, dict) and part_keys is not None:
            refuse_unknown(family._replace(keys=part_keys), setting, where, f"{at}{key}.")
    unknown = sorted(key for key in settings if at + key not in family.parts)
    unknown = [key for key in unknown if not is_known(family, key)]
    if unknown:
        listed = ", ".join(f"{at}{key} = {str(settings[key])[:60]}" for key in unknown[:5])
        raise InputError(
            f"{where}: config.json has {listed}; this {family.name} network does not know these "
            "keys, and they may change scores; use a checkpoint without them, or accept the keys "
            f"that change no score ({spell('accept_keys', unknown[0])})."
        )
