"""All model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from batch_calibration.scoring.models import clip, gemma, gpt2, llama, mixture, neox, siglip
from batch_calibration.scoring.models.family import Family

FAMILIES: dict[str, Family] = {
    "gpt2": gpt2.FAMILY,
    **llama.FAMILIES,
    **mixture.FAMILIES,
    "gemma": gemma.FIRST,
    **dict.fromkeys(("gemma2", "gemma3_text", "gemma3"), gemma.FAMILY),
    "gpt_neo": gpt2.GPT_NEO,
    "gpt_oss": mixture.GPT_OSS,
    "gptj": neox.GPTJ,
    "gpt_neox": neox.FAMILY,
    "phi": neox.PHI,
    "opt": gpt2.OPT,
    "clip": clip.FAMILY,
    "siglip": siglip.FAMILY,
}
