"""Reads a checkpoint's `config.json` into its family's config; which keys change no score."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any, get_type_hints

from batch_calibration.errors import InputError, answering, spell
from batch_calibration.files import parse_json
from batch_calibration.scoring.models.family import Config, Family, RawConfig, misfit
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
"""Patterns of keys that change no score of any family: of the file, of training, of generation."""
QUANTIZED = ("quantization_config", "compression_config")


def read_json(path: Path, role: str) -> dict[str, object]:
    """The JSON object in `path`, or a sentence that says what is missing or broken."""
    if not path.is_file():
        wanted = "a Hugging Face checkpoint directory (config.json, *.safetensors, tokenizer.json)"
        expected = f"{role} in {path.name}"
        raise InputError.at(path.parent, expected, "no such file", f"give {wanted}")
    with answering(ValueError, path, "JSON", "fetch the file again"):
        content: object = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(where=path, expected="a JSON object", got=f"{type(content).__name__}")
    return content


def read_config(
    family: Family, raw: RawConfig, where: Path, accepted: Sequence[str] = ()
) -> Config:
    """The family's config from a raw `config.json`; keys that change no score are left out.

    Args:
        family: the architecture's.
        raw: what the file says.
        where: for error sentences.
        accepted: unknown keys that the user says change no score.

    Raises:
        InputError: keys that are missing, of another type, out of range, of a value that the
            network is not written for, or unknown to it.
    """
    refuse_unknown(family._replace(inert=(*family.inert, *map(escape, accepted))), raw, where)
    raw = family.flatten(raw)  # after unknown keys were refused, under the names of the file
    config_fields = fields(family.config)
    missing = [f.name for f in config_fields if f.name not in raw and f.default is MISSING]
    if missing:
        raise InputError(f"{where}: config.json lacks {', '.join(missing)}; is it the right file?")
    for key, setting in family.fixed.items():
        if raw.get(key, setting) != setting:
            raise InputError(
                f"{where}: config.json says {key} = {raw[key]!r:.200}; this {family.name} network "
                f"is written for {setting!r} alone, and would score wrongly; use another "
                "checkpoint."
            )
    types = get_type_hints(family.config)  # what each field may be
    settings: dict[str, Any] = {f.name: raw[f.name] for f in config_fields if f.name in raw}
    for name, setting in settings.items():
        # `flatten` made the parameters of ropes.
        if expected := not isinstance(setting, Rope) and misfit(types[name], setting):
            raise InputError(
                f"{where}: config.json says {name} = {setting!r:.200}; expected {expected}; fetch "
                "the file again."
            )
    config = family.config(**settings)
    # Only a family with `head_dim` may have heads that do not make up the hidden size.
    if not settings.get("head_dim") and config.width % config.heads:
        raise InputError(
            f"{where}: config.json says {config.heads} attention heads of a width of "
            f"{config.width}, expected heads that divide it; fetch the file again."
        )
    groups = settings.get("num_key_value_heads") or 1  # null: as many as heads, which fits
    if config.heads % groups:
        raise InputError(
            f"{where}: config.json says {config.heads} attention heads over {groups} of keys and "
            "values, expected a multiple; fetch the file again."
        )
    return config


def is_known(family: Family, key: str) -> bool:
    """True where the family honors a key of `config.json`, refuses other values, or may skip it.

    In nested parts, the key of a part such as `text_config` is known like one of the top.
    """
    honored = {*family.config.__dataclass_fields__, *family.fixed, *family.keys}
    return key in honored or any(fnmatchcase(key, inert) for inert in (*INERT, *family.inert))


def refuse_unknown(family: Family, raw: RawConfig, where: Path, at: str = "") -> None:
    """Refuse a raw config, its nested parts too, that has keys of unknown effect.

    A null, and an empty text, list or object, say nothing and are skipped.

    Raises:
        InputError: quantized weights; keys that the family does not know.
    """
    settings = {key: setting for key, setting in raw.items() if setting not in (None, "", [], {})}
    quantized = [key for key in QUANTIZED if key in settings and key not in family.parts]
    if quantized:
        raise InputError(
            f"{where}: config.json has {at}{quantized[0]}: its weights are quantized, expected "
            "float32, float16 or bfloat16; use the checkpoint that is not quantized, or score this "
            f"one with {spell('scorer', 'transformers')}."
        )
    for key, setting in settings.items():
        part_keys = family.parts.get(at + key)  # None: a setting whose value is an object
        if isinstance(setting, dict) and part_keys is not None:
            refuse_unknown(family._replace(keys=part_keys), setting, where, f"{at}{key}.")
    unknown = sorted(key for key in settings if at + key not in family.parts)
    unknown = [key for key in unknown if not is_known(family, key)]
    if unknown:
        listed = ", ".join(f"{at}{key} = {str(settings[key])[:60]}" for key in unknown[:5])
        raise InputError(
            f"{where}: config.json says {listed}, unknown to this {family.name} network, which may "
            "change scores; use a checkpoint without, or say which of them change none "
            f"({spell('accept_keys', unknown[0])})."
        )
