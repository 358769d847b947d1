"""All model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from batch_calibration.scoring.models import (
    bert,
    bloom,
    clip,
    cohere,
    gemma,
    gpt2,
    llama,
    mixture,
    modernbert,
    neox,
    siglip,
    stablelm,
)
from batch_calibration.scoring.models.family import Family

FAMILIES: dict[str, Family] = {
    "gpt2": gpt2.FAMILY,
    **llama.FAMILIES,
    **mixture.FAMILIES,
    "gemma": gemma.FIRST,
    **dict.fromkeys(("gemma2", "gemma3_text", "gemma3"), gemma.FAMILY),
    "cohere": cohere.FIRST,
    "cohere2": cohere.FAMILY,
    "falcon": bloom.FALCON,
    "gpt_neo": gpt2.GPT_NEO,
    "gpt_oss": mixture.GPT_OSS,
    "gptj": neox.GPTJ,
    "bloom": bloom.FAMILY,
    "gpt_neox": neox.FAMILY,
    "phi": neox.PHI,
    "stablelm": stablelm.FAMILY,
    "opt": gpt2.OPT,
    "bert": bert.FAMILY,
    **dict.fromkeys(("roberta", "xlm-roberta"), bert.ROBERTA),
    "mpnet": bert.MPNET,
    "modernbert": modernbert.FAMILY,
    "clip": clip.FAMILY,
    "siglip": siglip.FAMILY,
}
