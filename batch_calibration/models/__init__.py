"""All model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from batch_calibration.models import (
    bert,
    bloom,
    clip,
    cohere,
    falcon,
    gemma,
    gpt2,
    gptj,
    llama,
    mixture,
    neox,
    opt,
    phi,
    roberta,
    stablelm,
)
from batch_calibration.models.family import Family

FAMILIES: dict[str, Family] = {
    "gpt2": gpt2.FAMILY,
    **llama.FAMILIES,
    **mixture.FAMILIES,
    "gemma": gemma.FIRST,
    "gemma2": gemma.FAMILY,
    "gemma3_text": gemma.FAMILY,
    "gemma3": gemma.FAMILY,
    "cohere": cohere.FIRST,
    "cohere2": cohere.FAMILY,
    "falcon": falcon.FAMILY,
    "gptj": gptj.FAMILY,
    "bloom": bloom.FAMILY,
    "gpt_neox": neox.FAMILY,
    "phi": phi.FAMILY,
    "stablelm": stablelm.FAMILY,
    "opt": opt.FAMILY,
    "bert": bert.FAMILY,
    "roberta": roberta.FAMILY,
    "xlm-roberta": roberta.FAMILY,
    "clip": clip.FAMILY,
}
