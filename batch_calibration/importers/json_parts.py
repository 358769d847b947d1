"""Parts of a JSON value that is not of our making: an empty one where it is of another type."""

from batch_calibration.files import Json


def fields(value: Json) -> dict[str, Json]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    """A JSON list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Json) -> str:
    """A JSON text, or an empty one."""
    return value if isinstance(value, str) else ""
