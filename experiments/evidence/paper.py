"""Makes the paper's tables and figures from results, and lists missing scores; files and a page."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batch_calibration.files import write_whole
from batch_calibration.reporting import writing
from batch_calibration.reporting.cells import LATEX, markdown
from batch_calibration.reporting.frame import group_by
from batch_calibration.reporting.items import Drawing, Table
from batch_calibration.reporting.tables import make_tables
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.scoring.tasks.base import LabelWords, Task, first_form
from experiments.evidence.paper_figures import PaperResults, paper_figures
from experiments.evidence.paper_tables import paper_tables

MINI_DATA = "mini"  # data name of the embedded suite, which has other configs
FORMATS = ("png", "pdf")  # the page in LaTeX includes the PDFs
LATEX_HEAD = r"""\documentclass{article}
\usepackage[a3paper,landscape,margin=15mm]{geometry}
\usepackage{amssymb,booktabs,graphicx}
\pagestyle{empty}
\setlength{\parindent}{0pt}
\begin{document}
"""
UNLIKE = "The paper's numbers are for {}; these are for another setting and not comparable."
SAME = "The setting is the paper's ({}); the table includes the paper's numbers."


class Lack(NamedTuple):
    """Missing scores, and the configs that make them."""

    words: str  # name of the missing scores
    real: str  # config for real data, with further flags
    mini: str  # config for the embedded suite, with further flags


class Item(NamedTuple):
    """One table or figure of the paper."""

    number: str  # kind and number in the paper, such as "Table 1"
    shows: str  # its title
    setting: str  # model and shots of its numbers in the paper; empty if there are no such numbers
    needs: str  # name of the scores it is made from
    real: str  # config for real data, with further flags
    mini: str  # config for the embedded suite, with further flags
    # Returns the name of scores that the results lack for the complete item, or "".
    lacks: Callable[[PaperResults], str] = lambda study: ""
    # Tasks on real data and on the embedded suite for which calibration needs the config, too.
    curves: tuple[str, str] = ("", "")


class ItemState(NamedTuple):
    """The artifacts of an item, and its missing scores."""

    item: Item
    artifacts: list[Table | Drawing]  # tables or figures, in the order of the catalogue
    lacks: list[Lack]

    @property
    def lacking(self) -> str:
        """The names of the missing scores, or an empty text."""
        return " and ".join(lack.words for lack in self.lacks)

    def commands(self, workdir: Path, data: str) -> list[str]:
        """Lists the commands that make the missing scores."""
        is_mini, at = data == MINI_DATA, f"--workdir={workdir}"
        configs = [f"--config=configs/{lack.mini if is_mini else lack.real}" for lack in self.lacks]
        commands = [f"python -m experiments.score {config} {at}" for config in configs]
        tasks = self.item.curves[is_mini]
        curves = f"{configs[0]} --tasks={tasks} --shots=1 " if tasks else ""
        return [*commands, f"python -m experiments.calibrate {curves}{at}"]


def _lacks_second(study: PaperResults) -> str:
    return "" if len(study.sizes) > 1 else "a second model"


def _lacks_zero_shot(study: PaperResults) -> str:
    zero_shot = set(chain.from_iterable(group.tasks for group in study.by_model("0")))
    missing = [task for task in _main_tasks(study) if task in TASKS and task not in zero_shot]
    return f"{_titles(missing)} without demonstrations" if missing else ""


def _lacks(*names: str) -> Callable[[PaperResults], str]:
    return lambda study: _titles([name for name in names if name not in _main_tasks(study)])


def _titles(tasks: Sequence[str]) -> str:
    return ", ".join(TASKS[task].title for task in tasks)


def _main_tasks(study: PaperResults) -> list[str]:
    return list(study.main.tasks) if study.main else []


TEXT_TASKS = [name for name, task in TASKS.items() if task.test_rows]  # the paper's tasks of text
TWO_LABELS = [name for name in TEXT_TASKS if len(TASKS[name].label_names) == 2]
TEXT, IMAGES = "scores of text with one shot per class", "scores of images"
S, SL, CLIP = "PaLM 2-S, 1 shot", "PaLM 2-S and 2-L, 1 shot", "CLIP ViT-B/16, zero-shot"


def _real(config: str, model: str = "DIR") -> str:
    return f"{config} --config.model={model} --config.data=DATA"


MAIN = _real("main_table.py"), "mini.py"
OTHER = _real("main_table.py", "OTHER"), "mini.py --config.model=mini_small"
ROBUST = _real("robustness.py"), "robustness.py:mini"
VISION = _real("vision.py"), "vision.py:mini"
# Table 5 also needs a model of medium size.
MIDDLE = Lack("a model between two others in size", OTHER[0], "mini.py --config.model=DIR")
# The tables and figures of the paper (Zhou et al. 2024), in its order.
ITEMS = (
    Item("Table 1", "Methods: cost, form, boundary", "", TEXT, *MAIN),
    Item("Table 2", "13 tasks, two sizes of model", SL, "two models", *OTHER, _lacks_second),
    Item("Table 3", "BC and BCL", S, "a labeled set", _real("bcl.py"), MAIN[1]),
    Item("Table 4", "Data: texts, labels, rows", "", TEXT, *MAIN, _lacks(*TEXT_TASKS)),
    Item("Table 5", "Zero-shot, and the size in the middle", "PaLM 2-S, 0 shots; 2-M, 1 shot",
         "scores of text without demonstrations", _real("zero_shot.py"), "zero_shot.py:mini",
         _lacks_zero_shot),
    Item("Table 6", "Images, zero-shot", CLIP, IMAGES, *VISION),
    Item("Table 7", "Templates and verbalizers of RTE", S, "numbered choices", *ROBUST),
    Item("Table 8", "Templates and label words with demonstrations", "", "", *MAIN),
    Item("Table 9", "Templates of the robustness study", "", "", *ROBUST),
    Item("Table 10", "Verbalizers of the robustness study", "", "", *ROBUST),
    Item("Table 11", "Templates and label words without demonstrations", "", "", *MAIN),
    Item("Figure 1", "Accuracy averaged over the tasks", SL, "two models", *OTHER, _lacks_second),
    Item("Figure 2", "Decision boundaries, two tasks", S, TEXT, *MAIN, _lacks("sst2", "qnli")),
    Item("Figure 3", "Distributions of scores after CC and DC", S, TEXT, *MAIN, _lacks("qnli")),
    Item("Figure 4", "The method, illustrated", "", TEXT, *MAIN),
    Item("Figure 5", "Strength of BC, two tasks", S, "a labeled set", *MAIN, _lacks("qqp", "cb")),
    Item("Figure 6", "Shots", "PaLM 2-S, 0 to 4 shots", "scores with several numbers of shots",
         _real("shots.py"), "shots.py:mini"),
    Item("Figure 7", "Images before and after BC", CLIP, IMAGES, *VISION),
    Item("Figure 8", "Robustness: choices, orders, templates", S, "varied prompts", *ROBUST),
    Item("Figure 9", "Rows that the bias is learned from", S, "calibration with probe sizes",
         _real("probe_size.py"), "probe_size.py:mini", curves=("rte", "sst2,mnli")),
    Item("Figure 10", "Decision boundaries, all tasks", S, TEXT, *MAIN, _lacks(*TWO_LABELS)),
    Item("Figure 11", "Strength of BC, all tasks", S, "a labeled set", *MAIN, _lacks(*TEXT_TASKS)),
)  # fmt: skip


Row = tuple[str, str, str]


def prompt_tables() -> Iterator[Table]:
    """Yields Tables 8 to 11: templates and verbalizers of the tasks, independent of the scores."""
    tasks = [TASKS[name] for name in TEXT_TASKS]
    few_shot, templates, verbalizers, zero_shot = (list[Row]() for _ in range(4))
    for task in tasks:
        few_shot.append((task.title, task.few_shot, _words(task, task.verbalizer)))
        words = _words(task, task.zero_shot_verbalizer or task.verbalizer)
        zero_shot.append((task.title, task.zero_shot, words))
        templates += [(task.title, *item) for item in task.templates.items()]
        for name, named in task.verbalizers.items():
            verbalizers.append((task.title, name, _words(task, named)))
    whole = ("task", "template", "label words")
    headers = whole, ("task", "number", "template"), ("task", "number", "label words"), whole
    tables = (few_shot, templates, verbalizers, zero_shot)
    for number, header, rows in zip(range(8, 12), headers, tables, strict=True):
        heading = next(item.shows for item in ITEMS if item.number == f"Table {number}")
        cells = [list(header)]
        for title, *texts in rows:
            # Shows a line break as the two characters of its Python escape.
            cells.append([title, *(text.replace("\n", "\\n") for text in texts)])
        yield Table("", "", heading, cells, unit="", number=f"Table {number}")


def _words(task: Task, named: Mapping[str, LabelWords]) -> str:
    return " / ".join(_in_letters(first_form(named[name])) for name in task.label_names)


def _in_letters(word: str) -> str:
    """Returns a label word, or the Unicode names of its symbols if it is not ASCII (for LaTeX)."""
    if word.isascii():
        return word
    names = [unicodedata.name(sign).lower() for sign in word if unicodedata.category(sign) == "So"]
    return ", ".join(names)


def _catalogue(study: PaperResults) -> dict[str, list[Table | Drawing]]:
    """Groups the tables and figures of all studies by their numbers in the paper."""
    artifacts: list[Table | Drawing] = [*make_tables(study), *writing.make_figures(study)]
    return group_by(artifacts, lambda artifact: artifact.number)


def find_states(study: PaperResults) -> list[ItemState]:
    """Finds the artifacts and the missing scores of each item."""
    by_number, states = _catalogue(study), []
    if study.main:
        # Most items show one model, and those of one prompt its contexts with its own prompts.
        model = study.main.records[0].context.model
        of_model = [record for record in study.records if record.context.model == model]
        for records in (of_model, study.main.records):
            of_one = _catalogue(replace(study, records=records))
            by_number |= of_one
    own: list[Table | Drawing] = [*paper_tables(study), *prompt_tables(), *paper_figures(study)]
    by_number |= group_by(own, lambda artifact: artifact.number)
    for item in ITEMS:
        artifacts = by_number.get(item.number, [])
        # An item without artifacts lacks all of its scores.
        missing = item.lacks(study) if artifacts else item.needs
        lacks = [Lack(missing, item.real, item.mini)] if missing else []
        if item.number == "Table 5" and not study.middle:
            lacks.append(MIDDLE)
        states.append(ItemState(item, artifacts, lacks))
    return states


def write_item(state: ItemState, folder: Path) -> list[Path]:
    """Writes the artifacts of an item under its number, and returns the first file of each."""
    name = state.item.number.lower().replace(" ", "-")
    firsts = []
    for number, artifact in enumerate(state.artifacts, 1):
        path = folder / (name if number == 1 else f"{name}-{number}")
        if isinstance(artifact, Table):
            firsts.append(writing.write_table(artifact, path)[0])
        else:
            # `to_markdown` shows the PNG, `to_latex` the PDF.
            firsts.append(writing.write_figure(artifact, path, ("png", "pdf"))[0])
    return firsts


def write_paper(study: PaperResults, workdir: Path) -> Iterator[str]:
    """Writes all items and the page (Markdown, LaTeX) into `paper`; yields a line for each item."""
    folder, files, states = workdir / "paper", {}, find_states(study)
    data = study.main.records[0].context.data if study.main else ""
    for state in states:
        files[state.item] = write_item(state, folder)
        lines = [f"{state.item.number:<9}  {state.item.shows}"]
        if files[state.item]:
            lines.append(f"drawn: {', '.join(map(str, files[state.item]))}")
        if state.lacks:
            lines += [f"needs {state.lacking}:", *state.commands(workdir, data)]
        yield "\n    ".join(lines) + "\n" * (len(lines) == 1)
    for ending, text in (("md", to_markdown(states, files)), ("tex", to_latex(states, files))):
        write_whole(folder / f"paper.{ending}", text.encode())
    count = sum(not state.lacks for state in states)
    yield f"{count} of {len(states)} are complete; {folder}/paper.md and .tex show all that exist"


def comparison_note(item: Item, artifact: Table | Drawing) -> str:
    """Returns a note on whether the paper's numbers are comparable; empty if it has none."""
    if not item.setting:
        return ""
    header = artifact.cells[0] if isinstance(artifact, Table) else []
    has_paper = any(name.startswith("paper") for name in header)
    return (SAME if has_paper else UNLIKE).format(item.setting)


def to_markdown(states: Sequence[ItemState], files: Mapping[Item, Sequence[Path]]) -> str:
    """Formats the paper's tables and figures in Markdown, with a list of the scores they lack."""
    lines = ["# The paper's tables and figures, from these scores", ""]
    for state in states:
        lines += [f"## {state.item.number}: {state.item.shows}", ""]
        for artifact, path in zip(state.artifacts, files[state.item], strict=True):
            if isinstance(artifact, Table):
                lines += [f"{artifact.title}:", "", markdown(artifact.cells, artifact.note)]
            else:
                heading = artifact.draw().heading
                lines += [f"{heading}:", "", f"![{heading}]({path.name})", ""]
            note = comparison_note(state.item, artifact)
            lines += [note, ""] if note else []
        lines += [f"It needs {state.lacking}.", ""] if state.lacks else []
    return "\n".join(lines)


def to_latex(states: Sequence[ItemState], files: Mapping[Item, Sequence[Path]]) -> str:
    """Formats a LaTeX document that includes the tables and figures from files in its folder."""
    size = r"width=0.98\linewidth,height=0.8\textheight,keepaspectratio"
    lines = [LATEX_HEAD]
    for state in states:
        heading = f"{state.item.number}: {state.item.shows}".translate(LATEX)
        lines.append(rf"\section*{{{heading}}}")
        for artifact, path in zip(state.artifacts, files[state.item], strict=True):
            if isinstance(artifact, Table):
                lines += [artifact.title.translate(LATEX), r"\par\medskip"]
                lines.append(rf"{{\small\input{{{path.stem}.tex}}}}")
            else:
                lines.append(rf"\includegraphics[{size}]{{{path.stem}.pdf}}")
            note = comparison_note(state.item, artifact).translate(LATEX)
            lines += [r"\par\medskip", note, r"\par\bigskip"]
        lines += [rf"It needs {state.lacking.translate(LATEX)}."] if state.lacks else []
        lines.append(r"\clearpage")
    return "\n".join([*lines, r"\end{document}", ""])
