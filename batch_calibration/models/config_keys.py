"""Which keys of a `config.json` change no score, and what to say of keys that nobody knows."""

from fnmatch import fnmatchcase
from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.models.family import Family, RawConfig

BOOKKEEPING = (
    "architectures", "auto_map", "model_type", "name_or_path", "_name_or_path", "_commit_hash",
    "transformers_version", "_*_version", "tokenizer_class", "dtype", "torch_dtype",
    "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task",
    "task_specific_params", "custom_pipelines", "transformers.js_config", "unsloth_*",
)  # fmt: skip
TRAINING = (
    "*dropout", "*dropout_prob", "*_pdrop", "layerdrop", "initializer_range",
    "initializer_factor", "init_std", "gradient_checkpointing", "bias_dropout_fusion",
)  # fmt: skip
RUNTIME = (
    "use_cache", "cache_implementation", "pretraining_tp", "return_dict", "use_return_dict",
    "output_attentions", "output_hidden_states", "output_past", "torchscript", "use_bfloat16",
    "chunk_size_feed_forward", "attn_implementation", "_attn_implementation*",
    "reorder_and_upcast_attn", "tf_legacy_loss", "is_encoder_decoder", "tie_encoder_decoder",
    "cross_attention_hidden_size",
)  # fmt: skip
GENERATION = (
    "*_token_id", "prefix", "max_length", "min_length", "do_sample", "early_stopping",
    "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens",
)  # fmt: skip
INERT = (*BOOKKEEPING, *TRAINING, *RUNTIME, *GENERATION)
"""Patterns of keys that change no score of any family: of the file, of training, of generation."""
QUANTIZED = ("quantization_config", "compression_config")


def is_known(family: Family, key: str) -> bool:
    """Whether the family honors a key of `config.json`, refuses its other values, or may skip it.

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
            "one with --config.scorer=transformers."
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
            f"(config.accept_keys={unknown[0]})."
        )
