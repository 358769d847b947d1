"""Writes what a study found: figures and tables in a folder, its part of the page between marks."""

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
"""A study's part of the page: its findings on top, and its section."""


class Written(NamedTuple):
    """Findings, tables and figures of a study.

    Attributes:
        findings: sentences with the numbers that decide.
        section: Markdown, all of it, with figures named as `figures/SLUG.png`.
        tables: slug -> cells, written as CSV; those that the section links to as
            `evidence/SLUG.csv` lie beside the page, too.
        figures: slug -> draws it.
    """

    findings: list[str]
    section: str
    tables: Mapping[str, Cells]
    figures: Mapping[str, Callable[[], Figure]]


def write(written: Written, study: str, workdir: Path, page: Path | None) -> list[Path]:
    """Write a study's tables and figures, and its parts of the page where there is one.

    Raises:
        InputError: a page without the marks of this study.
    """
    texts = {
        "findings": "\n".join(f"- {sentence}" for sentence in written.findings),
        "section": written.section,
    }
    # Read first: a page that cannot be filled is refused before anything is written.
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
        # Beside the page lie smaller copies; the workdir keeps the full ones.
        if page is not None:
            files.append(page.parent / "figures" / f"{slug}.png")
            write_whole(files[-1], fewer_colors(drawn[0]))
    if page is not None and filled is not None:
        files.append(page)
        write_whole(page, filled.encode())  # last: it names the figures
    return files


def csv_link(slug: str) -> str:
    """Where a table lies, seen from the page."""
    return f"evidence/{slug}.csv"


def fewer_colors(path: Path) -> bytes:
    """A PNG with a palette of 256 colors, a third of its size."""
    from PIL import Image

    png_file = io.BytesIO()
    with Image.open(path) as image:
        # RGB: a palette by median cut takes no transparency.
        image.convert("RGB").quantize(256).save(png_file, "png", optimize=True)
    return png_file.getvalue()


def fill(page: Path, study: str, texts: dict[str, str]) -> str:
    """The page with each part of a study between its two marks, all else as it was.

    Raises:
        InputError: the page is missing, or lacks these marks.
    """
    if not page.is_file():
        raise InputError.at(f"--page={page}", "a Markdown page", "none", "name one")
    text = page.read_text(encoding="utf-8")
    for part_name in PARTS:
        begin = f"<!-- evidence {study} {part_name}: begin -->"
        end = f"<!-- evidence {study} {part_name}: end -->"
        # Partition leaves the marker empty where it is missing.
        before, marker, after_begin = text.partition(begin)
        _, closed, after = after_begin.partition(end)
        if not marker or not closed:
            raise InputError.at(
                f"--page={page}", f"the lines {begin} and {end}", "none", "add them"
            )
        text = f"{before}{begin}\n{texts[part_name]}\n{end}{after}"
    return text
