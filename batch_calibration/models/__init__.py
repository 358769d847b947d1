"""All model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from batch_calibration.models import bert, clip, gemma, gpt2, llama, neox, opt
from batch_calibration.models.family import Family

FAMILIES: dict[str, Family] = {
    "gpt2": gpt2.FAMILY,
    "llama": llama.FAMILY,
    "mistral": llama.FAMILY,
    "qwen2": llama.FAMILY,
    "qwen3": llama.FAMILY,
    "gemma2": gemma.FAMILY,
    "gemma3_text": gemma.FAMILY,
    "gemma3": gemma.FAMILY,
    "gpt_neox": neox.FAMILY,
    "opt": opt.FAMILY,
    "bert": bert.FAMILY,
    "clip": clip.FAMILY,
}
