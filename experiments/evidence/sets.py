"""Sets of real label scores with right labels, read from a folder of NumPy archives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scores import Block, ScoreTable, make_block
from batch_calibration.studies import Store

FILES = {
    "orig": "mmlu_base/orig.npz",
    "neverA": "mmlu_base/neverA.npz",
    "neverB": "mmlu_base/neverB.npz",
    "content_free": "mmlu_base/control_content_free.npz",
    "mmbench": "vlm/mmbench.npz",
    "oodcv": "vlm/oodcv.npz",
    "bear": "bear_gpt2/bear_gpt2.npz",
    "demonstrations": "llama13b_demonstrations/mmlu16_1shot_10prompts.npz",
    "judge": "judge/gpt4_turbo_60models.npz",
    "small_model": str(Path(__file__).with_name("small_model.npz")),
    "small_model_prompts": str(Path(__file__).with_name("small_model_prompts.npz")),
}
"""Where each archive lies in the folder; `pack_scores` wrote the last two, which lie here."""

BALANCED_TASKS = (
    "sst2", "mnli", "qnli", "rte", "wic", "copa", "anli_r1", "anli_r2", "anli_r3", "mr", "agnews",
)  # fmt: skip
"""The tasks of the small model whose labels are right about equally often."""

LOGITS: dict[str, Json] = {"kind": "logits", "logits_only": True}
"""The scorer of scores that are known up to a constant a row."""


PROMPTS = 10
"""Demonstrations in turn of each subject in the archive `demonstrations`."""


def shared_scores() -> Path:
    """The folder of scores beside the repository; a program ends with a sentence without it."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "scores"
    if not folder.is_dir():
        raise SystemExit(f"error: needs the shared scores, and {folder} is not there.")
    return folder


class ScoreSet(NamedTuple):
    """Contexts of one kind, which one mean is taken over.

    Attributes:
        name: of the set, as flags and files call it.
        title: the same in words.
        about: what its contexts are, in a sentence.
        tables: one score table a context, model by model, and in each the same tasks.
        models: how many models; the tables are models x tasks.
    """

    name: str
    title: str
    about: str
    tables: list[ScoreTable]
    models: int

    @property
    def shape(self) -> tuple[int, int]:
        """Models and tasks."""
        return self.models, len(self.tables) // self.models


class Archive(NamedTuple):
    """An archive of scores: `scores[models, rows, labels]`, the right labels, the tasks of rows."""

    scores: np.ndarray
    gold: np.ndarray
    models: tuple[str, ...]
    labels: tuple[str, ...]
    task: np.ndarray
    tasks: tuple[str, ...]


def read_sets(folder: Path, names: Sequence[str]) -> list[ScoreSet]:
    """The sets of those names, in the order given.

    Raises:
        InputError: the set is unknown; an archive that is missing.
    """
    for name in names:
        if name not in SETS:
            raise InputError.unknown("set", name, SETS)
    return [SETS[name](folder, name) for name in names]


def arrays(folder: Path, name: str) -> Mapping[str, np.ndarray]:
    """The arrays of one archive of `FILES`."""
    path = folder / FILES[name]
    if not path.is_file():
        raise InputError.at(
            f"--scores={folder}",
            f"{FILES[name]} in it",
            "none",
            "name the folder of label scores that the README of the evidence describes",
        )
    with np.load(path) as archive:
        return dict(archive)


def read_archive(folder: Path, name: str) -> Archive:
    """One archive; where its rows have no subjects, all are of one task."""
    archive_arrays = arrays(folder, name)
    # [models, rows, labels]
    scores = archive_arrays["scores"] if "scores" in archive_arrays else archive_arrays["logits"]
    gold = archive_arrays["gold"].astype(np.int32)
    return Archive(
        scores.astype(np.float32), gold, tuple(map(str, archive_arrays["models"])),
        tuple(map(str, archive_arrays["labels"])),
        # Without subjects all rows are of one task.
        archive_arrays.get("subject", np.zeros_like(gold)),
        tuple(map(str, archive_arrays.get("subjects", (name,)))),
    )  # fmt: skip


def _mmlu(file: str, by_subject: bool) -> Callable[[Path, str], ScoreSet]:
    def read(folder: Path, name: str) -> ScoreSet:
        archive = read_archive(folder, file)
        if not by_subject:
            # One task of all rows.
            archive = archive._replace(task=np.zeros_like(archive.task), tasks=("all subjects",))
        # One block for each model, in the order of the archive's models.
        probes = [{"cc": make_block(rows)} for rows in arrays(folder, "content_free")["scores"]]
        never = {"orig": "", "neverA": ", A never right", "neverB": ", B never right"}[file]
        batch = "" if by_subject else ", one batch"
        description = (
            f"{len(archive.models)} base models x {len(archive.tasks)} "
            f"{'subjects' if by_subject else 'batch'}, {len(archive.gold):,} questions, options A "
            f"to D{never}"
        )
        tables = _tables(archive, {"kind": "causal_lm"}, probes)
        return ScoreSet(name, f"MMLU{never}{batch}", description, tables, len(archive.models))

    return read


def _vlm(file: str, labels: int) -> Callable[[Path, str], ScoreSet]:
    def read(folder: Path, name: str) -> ScoreSet:
        archive = read_archive(folder, file)
        # The files have six options; E and F are never right.
        few = archive._replace(scores=archive.scores[..., :labels], labels=archive.labels[:labels])
        rows, end = len(archive.gold), archive.labels[labels - 1]
        never = ", E and F never right" if labels > 4 else ""
        description = (
            f"{len(few.models)} vision-language models, {rows:,} rows, options A to {end}{never}"
        )
        # The space keeps the brace of the dict apart from that of the f-string.
        title = f"{ {'mmbench': 'MMBench', 'oodcv': 'OOD-CV'}[file] }, A to {end}{never}"
        tables = _tables(few, LOGITS, [{}] * len(few.models))
        return ScoreSet(name, title, description, tables, len(few.models))

    return read


def _pairs(folder: Path, file: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Task, scores and right labels of an archive of arrays TASK_scores and TASK_gold."""
    archive_arrays = arrays(folder, file)
    for key, scores in archive_arrays.items():
        if key.endswith("_scores"):
            task = key.removesuffix("_scores")
            gold = archive_arrays[f"{task}_gold"].astype(np.int32)
            yield task, scores.astype(np.float32), gold


def _bear(folder: Path, name: str) -> ScoreSet:
    tables = []
    for relation, scores, gold in _pairs(folder, "bear"):
        block = make_block(scores, gold)
        context: dict[str, Json] = {"task": relation, "model": "GPT-2", "scorer": LOGITS}
        # The archive has no names of labels.
        numbers = tuple(map(str, range(scores.shape[1])))
        tables.append(ScoreTable(context, numbers, {"test": block}))
    widths = [len(table.label_names) for table in tables]
    description = f"GPT-2, {len(tables)} relations, {min(widths)} to {max(widths)} labels each"
    return ScoreSet(name, "BEAR", description, tables, 1)


def _demonstrations(folder: Path, name: str) -> ScoreSet:
    # Normalized over the four letters: no log-probabilities of the whole vocabulary.
    tables = _by_prompt(folder, name, {"model": "LLaMA-13B", "scorer": LOGITS})
    rows = sum(len(table.blocks["test"].labels) for table in tables) // PROMPTS
    description = (
        f"LLaMA-13B, {len(tables) // PROMPTS} MMLU subjects, {rows:,} questions, each asked with "
        f"{PROMPTS} different demonstrations, 1-shot"
    )
    return ScoreSet(name, "MMLU, ten demonstrations", description, tables, 1)


def _small_model(folder: Path, name: str) -> ScoreSet:
    shares = name.split("_")[-1]
    has_prompts = "prompts" in name
    causal: dict[str, Json] = {"kind": "causal_lm"}
    described: dict[str, Json] = {"model": "SmolLM2-135M-Instruct", "scorer": causal}
    file = "small_model_prompts" if has_prompts else "small_model"
    tables = _by_prompt(folder, file, described)
    is_balanced = shares == "balanced"
    tables = [table for table in tables if (task_of(table) in BALANCED_TASKS) == is_balanced]
    tasks = len(set(map(task_of, tables)))
    varied = "shots, prompts and chat" if has_prompts else "one shot, draws of it"
    about = f"SmolLM2-135M-Instruct, {tasks} task{'s' * (tasks > 1)} of the paper's kind, {varied}"
    title = f"SmolLM2, {'prompts of ' * has_prompts}{shares} tasks"
    return ScoreSet(name, title, about, tables, 1)


def _by_prompt(folder: Path, file: str, described: dict[str, Json]) -> list[ScoreTable]:
    """The tables of an archive whose scores are [prompts, rows, k]: the rows are the same ones."""
    tables = []
    for task, by_prompt, gold in _pairs(folder, file):
        for prompt, scores in enumerate(by_prompt):
            context = {"task": f"{task}, prompt {prompt}"} | described
            names = tuple("ABCDEF"[: scores.shape[1]])
            tables.append(ScoreTable(context, names, {"test": make_block(scores, gold)}))
    return tables


def pack_scores(workdir: str, file: str = "small_model") -> None:
    """Write scores of a workdir of configs/real_paper.py as an archive of `FILES`.

    Arrays TASK_scores [contexts, rows, k] in nats and TASK_gold [rows]; no text. `small_model` has
    the draws of one shot, `small_model_prompts` all contexts of tasks with four or more.

    Example:
        python -c "from experiments.evidence.sets import pack_scores; pack_scores('W')"
    """
    tables, _ = Store(workdir).tables()
    scores, gold = dict[str, list[np.ndarray]](), dict[str, np.ndarray]()
    for table in sorted(tables, key=lambda table: str(table.context["seed"])):
        test, task = table.blocks["test"], str(table.context["task"])
        is_draw = table.context["shots"] == 1 and "labeled" in table.blocks
        if is_draw or file != "small_model":
            scores.setdefault(task, []).append(test.log_probs)
            gold[task] = test.labels
    kept = [task for task in scores if file == "small_model" or len(scores[task]) >= 4]
    packed = {f"{task}_gold": gold[task] for task in kept}
    packed |= {f"{task}_scores": np.stack(scores[task]) for task in kept}
    np.savez_compressed(FILES[file], allow_pickle=False, **dict(sorted(packed.items())))


def _tables(
    archive: Archive, scorer: dict[str, Json], probes: Sequence[Mapping[str, Block]]
) -> list[ScoreTable]:
    """A table for each model and task."""
    tables = []
    for model, scores, probe in zip(archive.models, archive.scores, probes, strict=True):
        for i, task in enumerate(archive.tasks):
            rows = archive.task == i
            test = make_block(scores[rows], archive.gold[rows])
            context: dict[str, Json] = {"task": task, "model": model, "scorer": scorer}
            # One probe serves all tasks of a model.
            tables.append(ScoreTable(context, archive.labels, {"test": test, **probe}))
    return tables


SETS: dict[str, Callable[[Path, str], ScoreSet]] = {
    "mmlu": _mmlu("orig", True),
    "mmlu_neverA": _mmlu("neverA", True),
    "mmlu_neverB": _mmlu("neverB", True),
    "mmlu_batch": _mmlu("orig", False),
    "mmlu_neverA_batch": _mmlu("neverA", False),
    "mmlu_neverB_batch": _mmlu("neverB", False),
    "mmbench": _vlm("mmbench", 4),
    "mmbench_AF": _vlm("mmbench", 6),
    "oodcv": _vlm("oodcv", 4),
    "oodcv_AF": _vlm("oodcv", 6),
    "bear": _bear,
    "demonstrations": _demonstrations,
    "smollm_balanced": _small_model,
    "smollm_uneven": _small_model,
    "smollm_prompts_balanced": _small_model,
    "smollm_prompts_uneven": _small_model,
}
"""Readers of sets: folder and name -> the set."""


def task_of(table: ScoreTable) -> str:
    """The task of a context, the same for all its demonstrations.

    >>> task_of(ScoreTable({"task": "anatomy, prompt 3"}, ("A", "B"), {}))
    'anatomy'
    """
    return str(table.context["task"]).split(", prompt")[0]


def set_apart(table: ScoreTable, most: int, seed: Sequence[int]) -> ScoreTable:
    """The table with some of its test rows as a labeled block; the others stay the test rows.

    So many rows, a quarter at most, drawn by the seed without a look at the labels; 0 for none.

    >>> rows = make_block(np.zeros((8, 2)), np.arange(8) % 2)
    >>> split = set_apart(ScoreTable({}, ("no", "yes"), {"test": rows}), 32, [0])
    >>> {name: len(block.labels) for name, block in split.blocks.items()}
    {'test': 6, 'labeled': 2}
    """
    if not most:
        return table
    test = table.blocks["test"]
    rows = len(test.labels)
    drawn = np.zeros(rows, bool)  # whether set apart
    random = np.random.default_rng(list(seed))
    drawn[random.choice(rows, min(most, rows // 4), replace=False)] = True
    blocks = dict(table.blocks)
    for name, in_block in (("test", ~drawn), ("labeled", drawn)):
        blocks[name] = make_block(test.log_probs[in_block], test.labels[in_block])
    return table._replace(blocks=blocks)
