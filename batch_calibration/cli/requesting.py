"""The commands `requests` and `answers`: scores from any engine that reads and writes files."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, cast

from batch_calibration.cli import study_options, summaries
from batch_calibration.cli.asking import forms_of, read_prompts, split_labels
from batch_calibration.cli.inputs import expand
from batch_calibration.cli.progress import Waiting
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.files import Json, object_at, parse_json, temporary_folder, write_whole
from batch_calibration.importers.gold import gold_indices
from batch_calibration.scoring.api import request_files
from batch_calibration.scoring.api.answers import Brought
from batch_calibration.scoring.api.client import MOST_USELESS, ApiCost
from batch_calibration.scoring.api.request_files import FORMS, Unusable
from batch_calibration.scoring.api.scorer import ApiScorer, PlannedRequest
from batch_calibration.scoring.inputs import joined
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext, text_digest
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import Settings
from batch_calibration.studies import Store
from batch_calibration.studies.context_scores import Context, plan, score_context
from batch_calibration.studies.loading import load_token_budget, open_model
from batch_calibration.studies.scoring import describe_failures, render_contexts

REQUESTS, PLAN = "requests", "plan.json"
"""The folder of a workdir with the files of requests, and the file in it with the flags."""
AT_ONCE = 10_000  # ids or answers that are stored in one transaction
OF_PROMPTS = ("prompts", "labels", "prompt", "ids", "gold")
"""Flags for files of prompts, which replace the settings of a study."""
OF_STUDY = ("", "data", "prompt")
"""Parts of the settings that describe the prompts of a study."""


class RequestPlan(NamedTuple):
    """The contexts to score by files of requests and answers, with their scorer and store."""

    contexts: list[Context]
    scorer: ApiScorer
    store: Store

    def requests(self, *, again: bool = False) -> Iterator[PlannedRequest]:
        """Yields the requests of all blocks that are not scored yet; see `plan_requests`."""
        for context in self.contexts:
            inputs = [context.rendered.blocks[name].inputs for name in context.missing]
            if inputs:
                labels = context.rendered.label_texts
                yield from self.scorer.plan_requests(joined(inputs), labels, again=again)


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
    if not (texts or args.config or args.prompts) and (folder / PLAN).exists():
        args = _read_plan(folder / PLAN, again=args.again, dry_run=args.dry_run)
    refuse_unknown("form", args.form, list(FORMS), where="--form")
    form = FORMS[args.form]
    args.api_scores = args.api_scores or form.api_scores[0]
    if args.api_scores not in form.api_scores:
        expected = f"{' or '.join(form.api_scores)}, for --form={args.form}"
        raise InputError.at("--api_scores", expected, args.api_scores)
    if args.shard_size < 1:
        raise InputError.at("--shard-size", "1 request or more", args.shard_size)
    planned = make_plan(args)
    answers, counts, seen = planned.scorer.answers, Counter[str](), set[bytes]()

    def unanswered() -> Iterator[PlannedRequest]:
        requests = planned.requests(again=args.again)
        while batch := list(islice(requests, AT_ONCE)):
            ids = [request.id for request in batch]
            # Contexts may share requests. A dry run lists them in memory.
            is_new = [name not in seen for name in ids] if args.dry_run else answers.expect(ids)
            seen.update(ids if args.dry_run else ())
            for request, is_first in zip(batch, is_new, strict=True):
                counts["answered"] += is_first and request.is_answered
                if is_first and not request.is_answered:
                    counts["requests"] += 1
                    counts["tokens"] += request.tokens
                    yield request

    if args.dry_run:
        for _ in unanswered():
            pass
    else:
        with answers.opened():
            answers.forget_expected()
            paths = request_files.write_files(unanswered(), folder, form, args.shard_size)
    dollars = counts["tokens"] / 1e6 * planned.scorer.settings.price
    print(ApiCost(counts["requests"], counts["tokens"], counts["answered"], dollars))
    if args.dry_run:
        return
    print(f"{len(paths):,} files of requests: {folder}")
    _write_plan(folder / PLAN, args)
    if paths:
        line = form.next_step.replace("FILE", str(paths[0])).replace("MODEL", args.model or "")
        print(f"for each file: {line}")
    print(f"then: batch-calibration answers {args.workdir}{' ANSWERS ...' * bool(paths)}")


def bring_answers(args: Namespace) -> None:
    """Stores the answers of files, scores each context that has all its answers, and counts.

    Raises:
        InputError: Some contexts lack answers; raised after all others are scored.
    """
    workdir, *files = args.files
    planned = make_plan(_read_plan(Path(workdir) / REQUESTS / PLAN))
    paths = sorted({path for file in files for path in _expand_answers(file)})
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
    missing = total - answered - refused
    print(f"{total:,} requests: {answered:,} answered, {refused:,} refused, {missing:,} missing")
    if missing:
        print(f"ask for them again: batch-calibration requests --workdir={workdir}")
    failed = _score_contexts(planned)
    stored = planned.store.workdir / "scores"
    complete = len(planned.contexts) - len(failed)
    print(f"{complete:,} of {len(planned.contexts):,} contexts have scores: {stored}")
    if failed:
        raise InputError(describe_failures(failed, planned.contexts))
    print(f"next: batch-calibration calibrate --workdir={workdir}")


def _score_contexts(planned: RequestPlan) -> dict[str, str]:
    """Scores the contexts with all their answers; maps the ids of the others to a reason."""
    failed = dict[str, str]()
    with Waiting("scoring", len(planned.contexts)) as waiting:
        for number, context in enumerate(planned.contexts, 1):
            try:
                score_context(context, planned.scorer, planned.store)
                summaries.say_notes(planned.scorer.notes)
            except InputError as error:
                failed[context.id] = str(error)
            waiting.move(number)
    return failed


def make_plan(args: Namespace) -> RequestPlan:
    """Plans the contexts of a study or of files of prompts, as the flags describe them."""
    workdir = Path(args.workdir)
    store = Store(workdir, create=True)
    args.scorer = args.scorer or "api"
    if args.prompts:
        settings, rendered = _prompt_contexts(args)
        files = None
    else:
        for name in OF_PROMPTS:
            if getattr(args, name):
                raise InputError.at(f"--{name}", "--prompts=FILE with this flag", "none")
        ((settings, cells),) = study_options.chosen_studies(args)
        files = open_model(settings)
        budget = load_token_budget(settings, files) if files else None
        notify = summaries.say_notes
        rendered = render_contexts(
            settings, cells, notify=lambda note: notify([note]), files=files, budget=budget
        )
    scorer = cast("ApiScorer", SCORERS["api"].load(settings, files, workdir))
    scorer.is_offline = True
    return RequestPlan(plan(rendered, scorer, settings.model.model, store), scorer, store)


def _prompt_contexts(args: Namespace) -> tuple[Settings, list[RenderedContext]]:
    """Reads files of prompts; each is a context."""
    if args.config or study_options.given_keys(args, OF_STUDY):
        expected = "no settings of a study with it, because prompts are complete"
        raise InputError.at("--prompts", expected, remedy="leave out --prompts, or these settings")
    texts = study_options.given_keys(args, ("model", "api"))
    given = {name: study_options.read_value(name, text) for name, text in texts.items()}
    labels, rendered = split_labels(args.labels), list[RenderedContext]()
    for path in _expand_prompts(args.prompts):
        prompts, gold_name = read_prompts(path, args.prompt, args.ids, args.gold)
        gold = [-1] * len(prompts)
        if gold_name:
            cells = [prompt.gold for prompt in prompts]
            gold = gold_indices(f"{path}, {gold_name}", cells, labels).tolist()
        inputs = [prompt.text for prompt in prompts]
        spec: dict[str, Json] = {"texts": text_digest(inputs)}
        block = RenderedBlock(inputs, gold, [prompt.id for prompt in prompts], spec)
        context: dict[str, Json] = {
            "task": path.stem,
            "labels": list(labels),
            "prompts": spec["texts"],
        }
        forms = tuple((form,) for form in forms_of(labels))
        rendered.append(RenderedContext(context, tuple(labels), forms, {"test": block}))
    return Settings.of(**given), rendered


def _expand_prompts(names: str) -> list[Path]:
    """Returns the files of a comma-separated list of files and globs."""
    return [*chain.from_iterable(map(expand, names.split(",")))]


def _expand_answers(name: str) -> list[Path]:
    """Returns the files of answers that an argument names: a file, a glob, or a folder's files."""
    if Path(name).is_dir():
        files = [path for path in Path(name).rglob("*") if path.suffix in request_files.ENDINGS]
        return files
    return expand(name)


def _write_plan(path: Path, args: Namespace) -> None:
    facts = {name: value for name, value in vars(args).items() if name not in ("again", "dry_run")}
    write_whole(path, json.dumps({**facts, "folder": str(Path.cwd())}, indent=1).encode())


def _read_plan(path: Path, *, again: bool = False, dry_run: bool = False) -> Namespace:
    """Reads the flags of the command that wrote the requests of a workdir."""
    if not path.exists():
        remedy = "batch-calibration requests --workdir=DIR writes them"
        raise InputError.at(path.parent.parent, "a workdir with requests", "none", remedy)
    facts = parse_json(path.read_text())
    return Namespace(**object_at(facts), again=again, dry_run=dry_run)
