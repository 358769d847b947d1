"""Writes a study's tables and figures to a folder, and its parts of a page between marks."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.figures.style import save
from batch_calibration.studies import csv_text

PARTS = ("findings", "section")
"""Names of a study's parts of the page: the findings, and the section."""


class Written(NamedTuple):
    """Findings, tables and figures of a study.

    Attributes:
        findings: sentences with the most important numbers.
        section: the whole section in Markdown; it refers to figures as `figures/SLUG.png`.
        tables: slug -> cells of a CSV file. Tables that the section links to as `evidence/SLUG.csv`
            are also written next to the page.
        figures: slug -> function that draws the figure.
    """

    findings: list[str]
    section: str
    tables: Mapping[str, Cells]
    figures: Mapping[str, Callable[[], Figure]]


def write(written: Written, study: str, workdir: Path, page: Path | None) -> list[Path]:
    """Writes a study's tables and figures, fills its parts of the page, and returns the paths.

    Raises:
        InputError: the page lacks the marks of this study.
    """
    texts = {
        "findings": "\n".join(f"- {sentence}" for sentence in written.findings),
        "section": written.section,
    }
    # Filled first, so that a page without marks is refused before anything is written.
    filled = None if page is None else fill(page, study, texts)
    files = []
    for slug, cells in written.tables.items():
        folders = [workdir]
        if page is not None and f"({csv_link(slug)})" in written.section:
            folders.append(page.parent / "evidence")
        for folder in folders:
            files.append(folder / f"{slug}.csv")
            write_whole(files[-1], csv_text(cells).encode())
    for slug, draw in written.figures.items():
        drawn = save(draw(), workdir / slug)
        files += drawn
        # The page gets smaller copies; the workdir keeps the full figures.
        if page is not None:
            files.append(page.parent / "figures" / f"{slug}.png")
            write_whole(files[-1], fewer_colors(drawn[0]))
    if page is not None and filled is not None:
        files.append(page)
        write_whole(page, filled.encode())  # last, because it refers to the figures
    return files


def csv_link(slug: str) -> str:
    """Returns the path of a table relative to the page."""
    return f"evidence/{slug}.csv"


def fewer_colors(path: Path) -> bytes:
    """Converts a PNG to a palette of 256 colors, which takes a third of the bytes."""
    from PIL import Image

    png_file = io.BytesIO()
    with Image.open(path) as image:
        # RGB, because quantization by median cut does not support transparency.
        image.convert("RGB").quantize(256).save(png_file, "png", optimize=True)
    return png_file.getvalue()


def fill(page: Path, study: str, texts: dict[str, str]) -> str:
    """Returns the page with each part of a study replaced between its two marks.

    Raises:
        InputError: the page does not exist, or lacks the marks.
    """
    if not page.is_file():
        raise InputError.at(f"--page={page}", "a Markdown page", "no file", "give an existing page")
    text = page.read_text(encoding="utf-8")
    for part_name in PARTS:
        begin = f"<!-- evidence {study} {part_name}: begin -->"
        end = f"<!-- evidence {study} {part_name}: end -->"
        # partition returns an empty separator if the mark is missing.
        before, marker, after_begin = text.partition(begin)
        _, closed, after = after_begin.partition(end)
        if not marker or not closed:
            raise InputError.at(
                f"--page={page}", f"the lines {begin} and {end}", "none", "add them"
            )
        text = f"{before}{begin}\n{texts[part_name]}\n{end}{after}"
    return text
