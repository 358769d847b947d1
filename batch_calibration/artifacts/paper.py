"""The paper's tables and figures: which the results give, what others lack, and their files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from batch_calibration.artifacts import catalogue, writing
from batch_calibration.artifacts.items import Drawing, Results, Table
from batch_calibration.tasks import TASKS

MINI = "mini"
"""The data of the embedded suite, whose studies have configs of their own."""


class Lack(NamedTuple):
    """Something that is missing, and what to score for it.

    Attributes:
        words: what is missing.
        real: the config that scores it on real data, and what else to give.
        mini: likewise on the embedded suite.
    """

    words: str
    real: str
    mini: str


class Item(NamedTuple):
    """One table or figure of the paper.

    Attributes:
        number: its kind and its number in the paper.
        shows: what it shows.
        setting: what its numbers are of in the paper; empty where it has none that compare.
        needs: what it is made of.
        real: the config that scores it on real data, and what else to give.
        mini: likewise on the embedded suite.
        lacks: what results lack for the whole of it, in words; nothing where they lack nothing.
        also: what else they lack, which another config scores.
        curves: where that config is to be given to calibration, too, for which tasks: of real
            data, and of the embedded suite.
    """

    number: str
    shows: str
    setting: str
    needs: str
    real: str
    mini: str
    lacks: Callable[[Results], str] = lambda results: ""
    curves: tuple[str, str] = ("", "")
    also: Callable[[Results], list[Lack]] = lambda results: []


class State(NamedTuple):
    """What there is of an item.

    Attributes:
        item: which.
        found: its tables or figures, in the order of the catalogue.
        lacks: what is missing.
    """

    item: Item
    found: list[Table | Drawing]
    lacks: list[Lack]

    @property
    def lacking(self) -> str:
        """What is missing, in words; nothing where nothing is."""
        return " and ".join(lack.words for lack in self.lacks)

    def commands(self, workdir: Path, data: str) -> list[str]:
        """What to run for what is missing."""
        mini = data == MINI
        configs = [f"--config=configs/{lack.mini if mini else lack.real}" for lack in self.lacks]
        tasks, at = self.item.curves[mini], f"--workdir={workdir}"
        given = f"{configs[0]} --tasks={tasks} --shots=1 " if tasks else ""
        return [
            *(f"python -m experiments.score {config} {at}" for config in configs),
            f"python -m experiments.calibrate {given}{at}",
        ]


def _second_model(results: Results) -> str:
    return "" if len(results.sizes) > 1 else "a second model"


def _zero_shot(results: Results) -> str:
    known = {task for one in results.groups if one.setting.shots == 0 for task in one.records}
    rest = [TASKS[t].title for t in _tasks(results) if t in TASKS and t not in known]
    return f"{', '.join(rest)} without demonstrations" if rest else ""


def _middle(results: Results) -> list[Lack]:
    return (
        []
        if results.middle
        else [Lack("a model between two others in size", OTHER[0], "mini.py --config.model=DIR")]
    )


def _those(*names: str) -> Callable[[Results], str]:
    def lacks(results: Results) -> str:
        return ", ".join(TASKS[name].title for name in names if name not in _tasks(results))

    return lacks


def _tasks(results: Results) -> list[str]:
    return list(results.main.records) if results.main else []


TWO = [name for name, task in TASKS.items() if len(task.label_names) == 2 and task.test_rows]
"""The paper's tasks of two labels."""
ALL = [name for name, task in TASKS.items() if task.test_rows]
"""The paper's tasks of text."""
TEXT, IMAGES = "scores of text with one shot per class", "scores of images"
S, SL, CLIP = "PaLM 2-S, 1 shot", "PaLM 2-S and 2-L, 1 shot", "CLIP ViT-B/16, zero-shot"


def _real(config: str, model: str = "DIR") -> str:
    return f"{config} --config.model={model} --config.data=DATA"


MAIN = _real("main_table.py"), "mini.py"
OTHER = _real("main_table.py", "OTHER"), "mini.py --config.model=mini_small"
ROBUST = _real("robustness.py"), "mini_robustness.py"
VISION = _real("vision.py"), "mini_vision.py"
ITEMS = (
    Item("Table 1", "Methods: cost, form, boundary", "", TEXT, *MAIN),
    Item("Table 2", "13 tasks, two sizes of model", SL, "two models", *OTHER, _second_model),
    Item("Table 3", "BC and BCL", S, "a labeled set", _real("bcl.py"), MAIN[1]),
    Item("Table 4", "Data: texts, labels, rows", "", TEXT, *MAIN, _those(*ALL)),
    Item("Table 5", "Zero-shot, and the size in the middle", "PaLM 2-S, 0 shots; 2-M, 1 shot",
         "scores of text without demonstrations", _real("zero_shot.py"), "mini_zero_shot.py",
         _zero_shot, also=_middle),
    Item("Table 6", "Images, zero-shot", CLIP, IMAGES, *VISION),
    Item("Table 7", "Templates and verbalizers of RTE", S, "numbered choices", *ROBUST),
    Item("Figure 1", "Accuracy averaged over the tasks", SL, "two models", *OTHER, _second_model),
    Item("Figure 2", "Decision boundaries, two tasks", S, TEXT, *MAIN, _those("sst2", "qnli")),
    Item("Figure 3", "Distributions of scores after CC and DC", S, TEXT, *MAIN, _those("qnli")),
    Item("Figure 4", "The method, illustrated", "", TEXT, *MAIN),
    Item("Figure 5", "Strength of BC, two tasks", S, "a labeled set", *MAIN, _those("qqp", "cb")),
    Item("Figure 6", "Shots", "PaLM 2-S, 0 to 4 shots", "scores with several numbers of shots",
         _real("shots.py"), "mini_shots.py"),
    Item("Figure 7", "Images before and after BC", CLIP, IMAGES, *VISION),
    Item("Figure 8", "Robustness: choices, orders, templates", S, "varied prompts", *ROBUST),
    Item("Figure 9", "Rows that the bias is learned from", S, "calibration with probe sizes",
         _real("probe_size.py"), "mini_probe_size.py", curves=("rte", "sst2,mnli")),
    Item("Figure 10", "Decision boundaries, all tasks", S, TEXT, *MAIN, _those(*TWO)),
    Item("Figure 11", "Strength of BC, all tasks", S, "a labeled set", *MAIN, _those(*ALL)),
)  # fmt: skip
"""Every table and figure of the paper (Zhou et al. 2024) that shows results, in its order."""


def states(results: Results) -> list[State]:
    """What there is of each item, and what it lacks."""
    made: list[Table | Drawing] = [*catalogue.tables(results), *catalogue.figures(results)]
    found = {item: [one for one in made if one.number == item.number] for item in ITEMS}
    return [State(item, some, _lacks(item, some, results)) for item, some in found.items()]


def _lacks(item: Item, found: Sequence[Table | Drawing], results: Results) -> list[Lack]:
    words = item.lacks(results) if found else item.needs
    return [*([Lack(words, item.real, item.mini)] if words else []), *item.also(results)]


def write(state: State, folder: Path) -> list[Path]:
    """Write what there is of an item under its number; hands back the first file of each."""
    name = state.item.number.lower().replace(" ", "-")
    firsts = []
    for place, one in enumerate(state.found, 1):
        path = folder / (name if place == 1 else f"{name}-{place}")
        if isinstance(one, Table):
            firsts.append(writing.write_table(one, path)[0])
        else:
            firsts.append(writing.write_figure(one, path)[0])
    return firsts
