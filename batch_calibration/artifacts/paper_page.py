"""One page of the paper's tables and figures, as Markdown and as a LaTeX document."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from batch_calibration.artifacts import paper
from batch_calibration.artifacts.cells import LATEX, markdown
from batch_calibration.artifacts.items import Drawing, Results, Table
from batch_calibration.artifacts.paper import Item, State
from batch_calibration.files import write_whole

BEFORE = r"""\documentclass{article}
\usepackage[a3paper,landscape,margin=15mm]{geometry}
\usepackage{amssymb,booktabs,graphicx}
\pagestyle{empty}
\setlength{\parindent}{0pt}
\begin{document}
"""
OTHER = "The paper's numbers are of {}; these are of another setting, so they do not stand beside."
SAME = "The setting is the paper's ({}): its numbers stand beside."


def compared(item: Item, one: Table | Drawing) -> str:
    """Whether the paper's numbers stand beside ours, and why not; nothing where it has none."""
    if not item.setting:
        return ""
    beside = isinstance(one, Table) and any(name.startswith("paper") for name in one.cells[0])
    return (SAME if beside else OTHER).format(item.setting)


def write(results: Results, workdir: Path) -> Iterator[str]:
    """Write every item, and the page in both forms, into `paper`; a line on each as it is done."""
    folder, files, found = workdir / "paper", {}, paper.states(results)
    data = results.main.setting.data if results.main else ""
    for state in found:
        files[state.item] = paper.write(state, folder)
        drawn = ", ".join(str(path) for path in files[state.item])
        said = [f"drawn: {drawn}"] if drawn else []
        if state.lacks:
            said += [f"lacks {state.lacking}:", *state.commands(workdir, data)]
        yield f"{state.item.number:<9}  {state.item.shows}\n" + "\n".join(f"    {s}" for s in said)
    for ending, form in (("md", in_markdown), ("tex", in_latex)):
        write_whole(folder / f"paper.{ending}", form(found, files).encode())
    whole = sum(not state.lacks for state in found)
    yield f"{whole} of {len(found)} are whole; all that is drawn is in {folder}/paper.md and .tex"


def in_markdown(states: Sequence[State], files: Mapping[Item, Sequence[Path]]) -> str:
    """Every item under its number: its tables, its figures by file name, and what it lacks."""
    parts = ["# The paper's tables and figures, from these scores", ""]
    for state in states:
        parts += [f"## {state.item.number}: {state.item.shows}", ""]
        for one, path in zip(state.found, files[state.item], strict=True):
            parts += [f"{one.title if isinstance(one, Table) else one.heading}:", ""]
            if isinstance(one, Table):
                parts.append(markdown(one.cells, one.note))
            else:
                parts += [f"![{one.heading}]({path.name})", ""]
            parts += [said, ""] if (said := compared(state.item, one)) else []
        parts += [f"It lacks {state.lacking}.", ""] if state.lacks else []
    return "\n".join(parts)


def in_latex(states: Sequence[State], files: Mapping[Item, Sequence[Path]]) -> str:
    """A document that takes in the tables and figures from the files beside it."""
    parts = [BEFORE]
    for state in states:
        parts.append(rf"\section*{{{_plain(f'{state.item.number}: {state.item.shows}')}}}")
        for one, path in zip(state.found, files[state.item], strict=True):
            if isinstance(one, Table):
                parts += [
                    _plain(one.title),
                    r"\par\medskip",
                    rf"{{\small\input{{{path.stem}.tex}}}}",
                ]
            else:
                size = r"width=0.98\linewidth,height=0.8\textheight,keepaspectratio"
                parts.append(rf"\includegraphics[{size}]{{{path.stem}.pdf}}")
            parts += [r"\par\medskip", _plain(compared(state.item, one)), r"\par\bigskip"]
        parts += [rf"It lacks {_plain(state.lacking)}."] if state.lacks else []
        parts.append(r"\clearpage")
    return "\n".join([*parts, r"\end{document}", ""])


def _plain(text: str) -> str:
    return text.translate(LATEX)
