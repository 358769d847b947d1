"""The shelf of model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from types import ModuleType

from batch_calibration.models import bert, clip, gemma, gpt2, llama, neox, opt

FAMILIES: dict[str, ModuleType] = {
    "gpt2": gpt2,
    "llama": llama,
    "mistral": llama,
    "qwen2": llama,
    "qwen3": llama,
    "gemma2": gemma,
    "gemma3_text": gemma,
    "gemma3": gemma,
    "gpt_neox": neox,
    "opt": opt,
    "bert": bert,
    "clip": clip,
}
