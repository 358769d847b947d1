"""The commands `requests` and `answers`: scores from any engine that reads and writes files."""

import glob
import json
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, cast

from batch_calibration.cli import study_options, summaries
from batch_calibration.cli.asking import forms_of, read_prompts, refuse_messages, split_labels
from batch_calibration.cli.progress import Waiting
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.files import Json, object_at, parse_json, temporary_folder, write_whole
from batch_calibration.importers.gold import gold_indices
from batch_calibration.scoring.api import request_files
from batch_calibration.scoring.api.answers import Answers, Brought
from batch_calibration.scoring.api.client import MOST_USELESS, ApiCost
from batch_calibration.scoring.api.request_files import FORMS, Unusable
from batch_calibration.scoring.api.scorer import ApiScorer, PlannedRequest
from batch_calibration.scoring.data.task_file import ENDING
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext, text_digest
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import Settings
from batch_calibration.studies import Store
from batch_calibration.studies.context_scores import Context, missing, plan, score_context
from batch_calibration.studies.loading import load_token_budget, open_model
from batch_calibration.studies.scoring import describe_failures, render_contexts

REQUESTS, PLAN = "requests", "plan.json"
"""The folder of a workdir with the files of requests, and the file in it with the flags."""
AT_ONCE = 10_000  # ids or answers that are stored in one transaction
NEXT_STEPS = {
    "openai": "upload each file as a batch (python examples/batch_api.py WORKDIR --server=URL)",
    "vllm": "vllm run-batch -i FILE -o answers.jsonl --model MODEL --max-logprobs 20",
    "ray": "python examples/ray_scoring.py FOLDER answers MODEL",
    "sglang": "send each body to SERVER/v1/score, and add its custom_id to the answer",
}
"""Form of requests -> the user's next step, for each file if it names one."""
OF_PROMPTS = ("prompts", "labels", "prompt", "ids", "gold")
"""Flags for files of prompts, which replace the settings of a study."""
FILES = ("prompts", "config", "data", "tokenizer", "tasks")
"""Flags that name files, which the plan keeps as absolute paths; tasks also have plain names."""
OF_STUDY = ("", "data", "prompt")
"""Parts of the settings that describe the prompts of a study."""


class RequestPlan(NamedTuple):
    """The contexts to score by files of requests and answers.

    Attributes:
        render: renders the contexts, one at a time for files of prompts.
        scorer: makes the requests, and reads the answers.
        store: holds the score tables.
    """

    render: Callable[[], Iterable[RenderedContext]]
    scorer: ApiScorer
    store: Store

    def contexts(self) -> Iterator[Context]:
        """Yields each context with the blocks that are not scored yet."""
        for context in self.render():
            yield from plan([context], self.scorer, self.scorer.model, self.store)

    def requests(self, *, again: bool = False) -> Iterator[PlannedRequest]:
        """Yields the requests of all blocks; those of scored blocks count as answered.

        With `again`, refusals, useless answers and blocks with rows without scores do not count.
        """
        for context in self.contexts():
            labels, blocks = context.rendered.label_texts, context.rendered.blocks
            stored = self.store.get(context.description)
            lacking = missing(context.rendered, stored, with_unreadable=again)
            for name in sorted(blocks, key=lambda name: name not in lacking):
                is_scored = name not in lacking
                requests = self.scorer.plan_requests(blocks[name].inputs, labels, again=again)
                for request in requests:
                    yield request._replace(is_answered=is_scored or request.is_answered)


def write_requests(args: Namespace) -> None:
    """Writes the requests without an answer to files, and prints their number and cost."""
    if args.dry_run and not (Path(args.workdir) / "scores").is_dir():
        with temporary_folder() as empty:  # A dry run leaves nothing in a new workdir.
            _write_requests(Namespace(**vars(args) | {"workdir": str(empty)}))
    else:
        _write_requests(args)


def _write_requests(args: Namespace) -> None:
    folder = Path(args.workdir) / REQUESTS
    texts = study_options.given_keys(args, study_options.SCORING)
    is_new = bool(texts or args.config or args.prompts)
    if not is_new:
        args = _read_plan(folder.parent, again=args.again, dry_run=args.dry_run)
    refuse_unknown("form", args.form, list(FORMS), where="--form")
    form = FORMS[args.form]
    args.api_scores = args.api_scores or form.api_scores[0]
    if args.api_scores not in form.api_scores:
        fitting = f"{' or '.join(form.api_scores)}, for --form={args.form}"
        raise InputError.at("--api_scores", fitting, args.api_scores)
    if args.shard_size < 1:
        raise InputError.at("--shard-size", "1 request or more", args.shard_size)
    planned = make_plan(args)
    answers, counts = planned.scorer.answers, Counter[str]()
    # Contexts may share requests. A dry run lists their ids in memory.
    expected = Answers(None) if args.dry_run else answers

    def unanswered() -> Iterator[PlannedRequest]:
        requests = planned.requests(again=args.again)
        while batch := list(islice(requests, AT_ONCE)):
            is_new_id = expected.expect([request.id for request in batch])
            for request, is_listed_first in zip(batch, is_new_id, strict=True):
                counts["answered"] += is_listed_first and request.is_answered
                if is_listed_first and not request.is_answered:
                    counts["requests"] += 1
                    counts["tokens"] += request.tokens
                    yield request

    with expected.planned():
        answered, refused, total = expected.count_expected()
        if is_new and (unsettled := total - answered - refused):
            note = f"{unsettled:,} requests of an earlier plan have no answer yet; bring answers"
            summaries.say_notes([f"{note} that you have before these are sent, too."])
        if args.dry_run:
            paths = list[Path]()
            deque(unanswered(), maxlen=0)
        else:
            paths = request_files.write_files(unanswered(), folder, form, args.shard_size)
    dollars = counts["tokens"] / 1e6 * planned.scorer.settings.price
    print(ApiCost(counts["requests"], counts["tokens"], counts["answered"], dollars))
    if args.dry_run:
        return
    print(f"files of requests: {len(paths):,} in {folder}")
    _write_plan(folder / PLAN, args)
    if paths:
        line = NEXT_STEPS[args.form].replace("FILE", str(paths[0])).replace("FOLDER", str(folder))
        print(f"next: {line.replace('WORKDIR', args.workdir).replace('MODEL', args.model)}")
    print(f"then: batch-calibration answers {args.workdir}{' ANSWERS ...' * bool(paths)}")


def bring_answers(args: Namespace) -> None:
    """Stores the answers of files, scores each context that has all its answers, and counts.

    Raises:
        InputError: Some contexts lack answers; raised after all others are scored.
    """
    workdir, *files = args.files
    args = _read_plan(Path(workdir))
    for file in args.plugin:
        study_options.load_module(file, "plugin")
    planned = make_plan(args)
    paths = sorted({*chain.from_iterable(map(_expand, files))})
    counts, reasons, answers = Counter[str](), dict[str, str](), planned.scorer.answers
    with answers.opened(), Waiting("reading answers") as waiting:
        for path in paths:
            lines = request_files.read_answers(path)
            while batch := list(islice(lines, AT_ONCE)):
                brought = [line for line in batch if isinstance(line, Brought)]
                for line in batch:
                    if isinstance(line, Unusable):
                        counts[line.kind] += 1
                        reasons.setdefault(line.kind, line.reason)
                    elif line.reason:
                        reasons.setdefault("refused", line.reason)
                counts += answers.keep_brought(brought)
                waiting.move(counts.total())
        answered, refused, total = answers.count_expected()
        if refused > MOST_USELESS * answered:
            answers.forget_refusals()
            refused, reasons["refused"] = 0, f"{reasons.get('refused', '')} (too many to leave out)"
    kinds = [f"{counts[kind]:,} {kind}" for kind in counts]
    print(f"{counts.total():,} lines of {len(paths):,} files: {', '.join(kinds) or 'no answer'}")
    for kind, reason in reasons.items():
        summaries.print_filled(f"the first {kind} line: {reason}")
    unsettled = total - answered - refused
    print(f"{total:,} requests: {answered:,} answered, {refused:,} refused, {unsettled:,} missing")
    if unsettled:
        print(f"ask for them again: batch-calibration requests --workdir={workdir}")
    names, failed = _score_contexts(planned)
    stored = planned.store.workdir / "scores"
    print(f"{len(names) - len(failed):,} of {len(names):,} contexts have scores: {stored}")
    if refused or (failed and not unsettled):
        command = f"batch-calibration requests --workdir={workdir} --again"
        print(f"ask for refused requests and useless answers once more: {command}")
    if failed:
        raise InputError(describe_failures(failed, names))
    step_name = "recommend" if args.prompts else "calibrate"
    print(f"next: batch-calibration {step_name} --workdir={workdir}")


def _score_contexts(planned: RequestPlan) -> tuple[dict[str, str], dict[str, str]]:
    """Scores the contexts that have all their answers.

    Returns:
        The name of each context by its id, and the reasons of those without scores.
    """
    names, failed, notes = dict[str, str](), dict[str, str](), dict[str, None]()
    with Waiting("scoring contexts") as waiting:
        for context in planned.contexts():
            names[context.id] = context.planned.name
            try:
                # Rows that had no score may have an answer now.
                score_context(context, planned.scorer, planned.store, with_unreadable=True)
                notes |= dict.fromkeys(planned.scorer.notes)
            except InputError as error:
                failed[context.id] = str(error)
            waiting.move(len(names))
    summaries.say_notes(notes)
    return names, failed


def make_plan(args: Namespace) -> RequestPlan:
    """Plans the contexts of a study or of files of prompts, as the flags describe them."""
    workdir = Path(args.workdir)
    store = Store(workdir, create=True)
    args.scorer = args.scorer or "api"
    files = None
    render: Callable[[], Iterable[RenderedContext]] = partial(_prompt_contexts, args)
    if args.prompts:
        split_labels(args.labels)  # A mistake is reported before any file is read.
        settings = _prompt_settings(args)
        files = open_model(settings)  # the tokenizer
    else:
        for name in OF_PROMPTS:
            if getattr(args, name):
                raise InputError.at(f"--{name}", "--prompts=FILE with this flag", "none")
        ((settings, cells),) = study_options.chosen_studies(args)
        files = open_model(settings)
        budget = load_token_budget(settings, files) if files else None
        notes = list[str]()
        rendered = render_contexts(settings, cells, notify=notes.append, files=files, budget=budget)
        summaries.say_notes(notes)
        render = partial(iter, rendered)
    scorer = cast("ApiScorer", SCORERS["api"].load(settings, files, workdir))
    scorer.is_offline = True
    return RequestPlan(render, scorer, store)


def _prompt_settings(args: Namespace) -> Settings:
    """Returns the settings of the model and the requests, for files of prompts."""
    if args.config or study_options.given_keys(args, OF_STUDY):
        expected = "no settings of a study with it, because prompts are complete"
        raise InputError.at("--prompts", expected, remedy="leave out --prompts, or these settings")
    texts = study_options.given_keys(args, ("model", "api"))
    given = {name: study_options.read_value(name, text) for name, text in texts.items()}
    return Settings.of(**given)


def _prompt_contexts(args: Namespace) -> Iterator[RenderedContext]:
    """Reads files of prompts one at a time; each is a context."""
    labels = split_labels(args.labels)
    forms = tuple((form,) for form in forms_of(labels))
    for path in chain.from_iterable(map(_expand, args.prompts.split(","))):
        prompts, gold_name = read_prompts(path, args.prompt, args.ids, args.gold)
        refuse_messages(prompts, args.api_scores)
        gold = [-1] * len(prompts)
        if gold_name:
            cells = [prompt.gold for prompt in prompts]
            gold = gold_indices(f"{path}, {gold_name}", cells, labels).tolist()
        inputs = [prompt.text for prompt in prompts]
        # Files with the same name in different folders are different contexts.
        digest: dict[str, Json] = {"texts": text_digest(inputs)}
        block = RenderedBlock(inputs, gold, [prompt.id for prompt in prompts], digest)
        context: dict[str, Json] = {"task": path.stem, "labels": list(labels), **digest}
        yield RenderedContext(context, tuple(labels), forms, {"test": block})


def _expand(name: str) -> list[Path]:
    """Returns the files that an argument names: a file, the matches of a glob, a folder's files."""
    if Path(name).is_dir():
        endings = request_files.ENDINGS
        return sorted(path for path in Path(name).rglob("*") if path.suffix in endings)
    paths = [Path(match) for match in sorted(glob.glob(name))]
    if not paths:
        raise InputError.at(name, "a file", "none", "correct the path")
    return paths


def _absolute(names: str, *, are_files: bool) -> str:
    """Returns a comma-separated list with absolute paths for its paths and globs of files."""
    found = list[str]()
    for name in names.split(","):
        file, colon, preset = name.partition(":")  # as in config.py:smoke
        is_path = file not in CHECKPOINTS and (are_files or Path(file).suffix == ENDING)
        found.append(f"{Path(file).absolute()}{colon}{preset}" if is_path else name)
    return ",".join(found)


def _write_plan(path: Path, args: Namespace) -> None:
    facts = {name: value for name, value in vars(args).items() if name not in ("again", "dry_run")}
    for name in FILES:
        if facts[name]:
            facts[name] = _absolute(facts[name], are_files=name != "tasks")
    write_whole(path, json.dumps(facts, indent=1).encode())


def _read_plan(workdir: Path, *, again: bool = False, dry_run: bool = False) -> Namespace:
    """Reads the flags of the command that wrote the requests of a workdir."""
    path = workdir / REQUESTS / PLAN
    if not path.exists():
        remedy = "write them by batch-calibration requests, of a study (--tasks or --config) or of "
        remedy += f"--prompts=FILES, with --workdir={workdir}"
        raise InputError.at(workdir, "a workdir with requests", "none", remedy)
    facts = object_at(parse_json(path.read_text())) | {"workdir": str(workdir)}
    return Namespace(**facts, again=again, dry_run=dry_run)
