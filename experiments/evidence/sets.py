"""Reads sets of real label scores, with right labels, from a folder of NumPy archives."""

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
}
"""Name of an archive -> path in the folder."""

BALANCED_TASKS = (
    "sst2", "mnli", "qnli", "rte", "wic", "copa", "anli_r1", "anli_r2", "anli_r3", "mr", "agnews",
)  # fmt: skip
"""The tasks of the small models with about equally frequent labels."""


class SmallModel(NamedTuple):
    """Contexts of a small model that `pack_scores` stored beside this file.

    Attributes:
        model: name of the model.
        file: stem of the archive's name.
        varied: the parts of the prompts that vary.
        is_balanced: whether to read the tasks of `BALANCED_TASKS`, or the others.
    """

    model: str
    file: str
    varied: str
    is_balanced: bool


SMOLLM, GEMMA = "SmolLM2-135M-Instruct", "Gemma-3-270M"
SMALL_MODELS = {
    "smollm_balanced": SmallModel(SMOLLM, "small_model", "draws of one shot", True),
    "smollm_uneven": SmallModel(SMOLLM, "small_model", "draws of one shot", False),
    "smollm_prompts_balanced": SmallModel(SMOLLM, "small_model_prompts", "prompts", True),
    "smollm_prompts_uneven": SmallModel(SMOLLM, "small_model_prompts", "prompts", False),
    "gemma_balanced": SmallModel(GEMMA, "small_model_gemma", "shots and draws", True),
    "gemma_uneven": SmallModel(GEMMA, "small_model_gemma", "shots and draws", False),
    "gemma_prompts_balanced": SmallModel(GEMMA, "small_model_gemma_prompts", "prompts", True),
}
"""Name of a set -> its contexts."""
FILES |= {row.file: f"{row.file}.npz" for row in SMALL_MODELS.values()}

LOGITS: dict[str, Json] = {"kind": "logits", "logits_only": True}
"""The scorer of scores that are known up to a constant for each row."""


PROMPTS = 10
"""Number of prompts of each subject in the archive `demonstrations`."""


def shared_scores() -> Path:
    """Returns the folder of shared scores next to the repository; exits if it does not exist."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "scores"
    if not folder.is_dir():
        raise SystemExit(f"error: needs the shared scores, but {folder} does not exist.")
    return folder


class ScoreSet(NamedTuple):
    """Contexts of one kind, which are averaged together.

    Attributes:
        name: name of the set in configs and files.
        title: title of the set in tables and figures.
        about: description of its contexts.
        tables: a score table for each context, ordered by model, then task.
        models: number of models; all have the same tasks.
    """

    name: str
    title: str
    about: str
    tables: list[ScoreTable]
    models: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of models and tasks."""
        return self.models, len(self.tables) // self.models


class Archive(NamedTuple):
    """An archive: `scores[models, rows, labels]`, and the right label and task of each row."""

    scores: np.ndarray
    gold: np.ndarray
    models: tuple[str, ...]
    labels: tuple[str, ...]
    task: np.ndarray
    tasks: tuple[str, ...]


def read_sets(folder: Path, names: Sequence[str]) -> list[ScoreSet]:
    """Reads the sets with these names, in this order.

    Raises:
        InputError: a set is unknown, or an archive is missing.
    """
    for name in names:
        if name not in SETS:
            raise InputError.unknown("set", name, SETS)
    return [SETS[name](folder, name) for name in names]


def arrays(folder: Path, name: str) -> Mapping[str, np.ndarray]:
    """Reads the arrays of one archive of `FILES`."""
    path = folder / FILES[name]
    if not path.is_file():
        raise InputError.at(
            f"--scores={folder}",
            f"{FILES[name]} in it",
            "none",
            "give the folder of label scores",
        )
    with np.load(path) as archive:
        return dict(archive)


def read_archive(folder: Path, name: str) -> Archive:
    """Reads one archive of several models; without subjects all rows belong to one task."""
    archive_arrays = arrays(folder, name)
    # [models, rows, labels]
    scores = archive_arrays["scores"] if "scores" in archive_arrays else archive_arrays["logits"]
    gold = archive_arrays["gold"].astype(np.int32)
    return Archive(
        scores.astype(np.float32), gold, tuple(map(str, archive_arrays["models"])),
        tuple(map(str, archive_arrays["labels"])),
        # Without subjects all rows belong to task 0.
        archive_arrays.get("subject", np.zeros_like(gold)),
        tuple(map(str, archive_arrays.get("subjects", (name,)))),
    )  # fmt: skip


def _mmlu(file: str, by_subject: bool) -> Callable[[Path, str], ScoreSet]:
    def read(folder: Path, name: str) -> ScoreSet:
        archive = read_archive(folder, file)
        if not by_subject:
            # Merges all rows to one task.
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
        # The space separates the dict's brace from the brace of the f-string.
        title = f"{ {'mmbench': 'MMBench', 'oodcv': 'OOD-CV'}[file] }, A to {end}{never}"
        tables = _tables(few, LOGITS, [{}] * len(few.models))
        return ScoreSet(name, title, description, tables, len(few.models))

    return read


def _pairs(folder: Path, file: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yields task, scores and right labels of an archive with arrays TASK_scores and TASK_gold."""
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
        # The archive does not name the labels.
        numbers = tuple(map(str, range(scores.shape[1])))
        tables.append(ScoreTable(context, numbers, {"test": block}))
    widths = [len(table.label_names) for table in tables]
    description = f"GPT-2, {len(tables)} relations, {min(widths)} to {max(widths)} labels each"
    return ScoreSet(name, "BEAR", description, tables, 1)


def _demonstrations(folder: Path, name: str) -> ScoreSet:
    # The scores are normalized over the four letters, not over the vocabulary.
    tables = _by_prompt(folder, name, {"model": "LLaMA-13B", "scorer": LOGITS})
    rows = sum(len(table.blocks["test"].labels) for table in tables) // PROMPTS
    description = (
        f"LLaMA-13B, {len(tables) // PROMPTS} MMLU subjects, {rows:,} questions, each asked with "
        f"{PROMPTS} different demonstrations, 1-shot"
    )
    return ScoreSet(name, "MMLU, ten demonstrations", description, tables, 1)


def _small_model(folder: Path, name: str) -> ScoreSet:
    row = SMALL_MODELS[name]
    described: dict[str, Json] = {"model": row.model, "scorer": {"kind": "causal_lm"}}
    tables = _by_prompt(Path(__file__).parent, row.file, described)
    tables = [table for table in tables if (task_of(table) in BALANCED_TASKS) == row.is_balanced]
    tasks = len(set(map(task_of, tables)))
    about = f"{row.model}, {tasks} task{'s' * (tasks > 1)} of the paper's kind, {row.varied}"
    kind = "balanced" if row.is_balanced else "uneven"
    return ScoreSet(name, f"{row.model}, {row.varied}, {kind} tasks", about, tables, 1)


def _by_prompt(folder: Path, file: str, described: dict[str, Json]) -> list[ScoreTable]:
    """Makes a table for each task and prompt of an archive with scores [prompts, rows, k]."""
    tables = []
    for task, by_prompt, gold in _pairs(folder, file):
        for prompt, scores in enumerate(by_prompt):
            context = {"task": f"{task}, prompt {prompt}"} | described
            names = tuple("ABCDEF"[: scores.shape[1]])
            tables.append(ScoreTable(context, names, {"test": make_block(scores, gold)}))
    return tables


def pack_scores(workdir: str, model: str, file: str) -> None:
    """Writes a model's scores in a workdir of configs/real_paper.py as two archives of `FILES`.

    An archive has arrays TASK_scores [contexts, rows, k] in nats and TASK_gold [rows], but no text.
    The first archive holds the shots and draws, the second (`file`_prompts) the varied prompts.

    Example:
        python -c "from experiments.evidence.sets import pack_scores as p; p('W', MODEL, FILE)"
    """
    tables, _ = Store(workdir).tables()
    archives: dict[str, dict[str, list[np.ndarray]]] = {file: {}, f"{file}_prompts": {}}
    gold = dict[str, np.ndarray]()
    for table in sorted(tables, key=lambda table: str(table.context["seed"])):
        test, task = table.blocks["test"], str(table.context["task"])
        options = table.context["options"]
        assert isinstance(options, dict)
        if table.context["model"] == model:
            name = file if {*options} == {"over_long"} else f"{file}_prompts"
            archives[name].setdefault(task, []).append(test.log_probs)
            gold[task] = test.labels
    for name, scores in archives.items():
        packed = {f"{task}_gold": gold[task] for task in scores}
        packed |= {f"{task}_scores": np.stack(scores[task]) for task in scores}
        path = Path(__file__).with_name(FILES[name])
        np.savez_compressed(path, allow_pickle=False, **dict(sorted(packed.items())))


def _tables(
    archive: Archive, scorer: dict[str, Json], probes: Sequence[Mapping[str, Block]]
) -> list[ScoreTable]:
    """Makes a table for each model and task."""
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
    **dict.fromkeys(SMALL_MODELS, _small_model),
}
"""Name of a set -> its reader, which maps folder and name to the set."""


def task_of(table: ScoreTable) -> str:
    """Returns the task of a context, without the number of its prompt.

    >>> task_of(ScoreTable({"task": "anatomy, prompt 3"}, ("A", "B"), {}))
    'anatomy'
    """
    return str(table.context["task"]).split(", prompt")[0]


def set_apart(table: ScoreTable, most: int, seed: Sequence[int]) -> ScoreTable:
    """Moves some test rows of a table to a labeled block.

    It draws `most` rows, but at most a quarter, by the seed and independently of their labels. With
    0 the table is unchanged.

    >>> rows = make_block(np.zeros((8, 2)), np.arange(8) % 2)
    >>> split = set_apart(ScoreTable({}, ("no", "yes"), {"test": rows}), 32, [0])
    >>> {name: len(block.labels) for name, block in split.blocks.items()}
    {'test': 6, 'labeled': 2}
    """
    if not most:
        return table
    test = table.blocks["test"]
    rows = len(test.labels)
    drawn = np.zeros(rows, bool)  # True for labeled rows
    random = np.random.default_rng(list(seed))
    drawn[random.choice(rows, min(most, rows // 4), replace=False)] = True
    blocks = dict(table.blocks)
    for name, in_block in (("test", ~drawn), ("labeled", drawn)):
        blocks[name] = make_block(test.log_probs[in_block], test.labels[in_block])
    return table._replace(blocks=blocks)
