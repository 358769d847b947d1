"""The shelf of model families, keyed by the `model_type` of a checkpoint's `config.json`."""

from types import ModuleType

from batch_calibration.models import bert, gpt2

FAMILIES: dict[str, ModuleType] = {"gpt2": gpt2, "bert": bert}
