"""Damages files and arrays at random and checks the law: the same values, or one sentence.

python tests/doors/fuzz.py --seconds=600 --seed=0
python tests/doors/fuzz.py --seed=0 --kind=records --case=17

Each case depends on seed, kind and number alone. What is neither the same nor an `InputError` of
one line is a failure, printed with its command. Where a damaged text still means something, "the
same values" is that what was read is whole: it can be written, drawn, or scored. Generators of
`fuzz_logs.py` know the truth of what they write: what is another number is a failure, too.
"""

import argparse
import io
import itertools
import json
import math
import random
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import fuzz_logs
import log_forms
import numpy as np
import response_forms as forms
import safetensors.numpy
import table_forms
import truths
from damage import VALUES, as_text, maybe, other
from making import make_by_rows, make_curve, make_record
from tiny import GPT2, write

from batch_calibration import calibrate, importers, scores
from batch_calibration.cli import commands, options
from batch_calibration.errors import InputError
from batch_calibration.files import csv_text
from batch_calibration.importers import Reading, frames
from batch_calibration.importers import read as read_tables
from batch_calibration.integrations.streams import correct_stream
from batch_calibration.reporting import page, words, writing
from batch_calibration.reporting.cells import latex, markdown
from batch_calibration.reporting.items import Results
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.data import texts
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Store, tidy
from batch_calibration.studies.records import ContextInfo

LIMIT = 30
"""Seconds a case may take."""
PIECES = b"|\0|\xff|\xed\xa0\x80|\xef\xbb\xbf|\n|\r|\"|'|,|{|}|[|=|\\ud800|\\u0000".split(b"|")
PIECES += [b"nan", b"-1", b"1e999", b"true", b"null", b"9" * 5000, b"0x" + b"f" * 5000]
PIECES += [b"[" * 5000, b"a." * 5000, b'"' + b"x" * 200_000, b"\xc2\xb2"]


def damaged(chance, data):
    """Bytes with one to three changes: a bit, a byte, a piece cut, copied, put in, or the end."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, size = chance.randrange(len(data) + 1), chance.choice((1, 1, 2, 8, 40))
        how = chance.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif how == 2:
            del data[at : at + size]
        elif how == 3:
            data[at:at] = data[at : at + size]
        elif how == 4:
            data[at : at + chance.choice((0, size))] = chance.choice(PIECES)
        elif chance.random() < 0.3:
            del data[at:]
    return bytes(data)


class Kinds:
    """A method for each kind of case: it damages something that is whole, and reads it.

    Each returns whether what it read is the same as before, and raises `InputError` where it is
    refused.
    """

    def __init__(self, folder):
        self.folder = folder
        block = make_block(np.linspace(-9, -0.1, 12).reshape(6, 2), [0, 1, 0, 1, -1, 0], range(6))
        context = {"task": "sst2", "seed": 0, "shots": 1, "scorer": {"kind": "causal_lm"}}
        ScoreTable(context, ("no", "yes"), {"test": block, "cc": block}).save(folder / "whole")
        self.scores = (folder / "whole").read_bytes()
        self.arrays = safetensors.numpy.load(self.scores)
        size = int.from_bytes(self.scores[:8], "little")
        self.header = json.loads(json.loads(self.scores[8 : 8 + size])["__metadata__"][scores.KEY])
        methods = {"icl": 0.5, "bc": 0.6, "cc": 0.4, "bc_mean_prob": 0.5}
        curve, sizes = make_curve([0.5] * 101), make_by_rows([2, 4], bc=[[0.4, 0.5], [0.5, 0.6]])
        context = {"options": {"template": "1"}, "demonstrations": ("a", "b")}
        more = {"bias": {"bc": (0.1, -2.0)}, "strength": 0.5, "curve": curve, "probe_size": sizes}
        self.record = make_record("rte", methods, context=context, **more)
        sentences = [f"it is {tone} \U0001f600" for tone in ("dull", "fine", "a, b", 'say "x"')]
        self.rows = [{"sentence": text, "label": i % 2} for i, text in enumerate(sentences)]
        self.checkpoint = write(folder / "checkpoint", GPT2)
        settings = {"add_bos_token": False, "bos_token": "<|end|>", "model_max_length": 99}
        (self.checkpoint / "tokenizer_config.json").write_text(json.dumps(settings))
        config = self.checkpoint / "config.json"
        self.found = self._with(config, config.read_bytes(), config.read_bytes())

    def score_file(self, chance):
        path = self.folder / "t.safetensors"
        data = damaged(chance, self.scores)
        path.write_bytes(data)
        table = scores.load(path)
        assert data == self.scores, "other bytes were read"
        return self._same(table)

    def score_header(self, chance):
        path = self.folder / "t.safetensors"
        path.write_bytes(scores.seal(self.arrays, as_text(other(chance, self.header))))
        table = scores.load(path)
        table.save(path)
        ContextInfo.from_table(table)
        return self._same(table)

    def _same(self, table):
        table.save(self.folder / "again")
        return (self.folder / "again").read_bytes() == self.scores

    def records(self, chance):
        records = []
        store = Store(self.folder / "w", create=True)
        for seed in range(2):
            r = replace(self.record, context=replace(self.record.context, seed=seed), id=f"{seed}")
            if seed:
                r = replace(r, context=replace(r.context, options={}))
            store.put_record(r)
            path = self.folder / f"w/records/{seed}.json"
            if chance.random() < 0.3:
                path.write_bytes(damaged(chance, path.read_bytes()))
            elif chance.random() < 0.9:
                value = other(chance, json.loads(r.to_json()))
                if isinstance(value, dict) and chance.random() < 0.8:
                    value.pop("checksum", None)
                    value["checksum"] = scores.digest(value)
                path.write_text(as_text(value))
            records.append(r)
        stored_records = store.records()
        tidy.to_csv(tidy.typed_columns(stored_records.rows())).encode()
        stored_records.to_arrow()
        results = Results(stored_records)
        for table in writing.make_tables(results):
            lines = csv_text(table.cells)
            for text in (markdown(table.cells), latex(table.cells, table.note), lines):
                text.encode()
            page.make_page([page.Section("a", [table])]).encode()
        for group in results.studies.values():
            words.outliers(group).encode()
        writing.make_figures(results)
        return list(stored_records) == records

    def task_file(self, chance):
        path = self.folder / "task.toml"
        (self.folder / "rows.csv").write_text("text,label\na fine day,no\ndull,yes\n")
        path.write_bytes(damaged(chance, TASK_FILE))
        task = load_task(str(path))
        rows = texts.read(task, "", "test").rows if "test" in task.files else ()
        return rows == ({"text": "a fine day"}, {"text": "dull"})

    def json_lines(self, chance):
        lines = [as_text(other(chance, row) if chance.random() < 0.4 else row) for row in self.rows]
        data = "\n".join(lines).encode()
        return self._read("jsonl", damaged(chance, data) if chance.random() < 0.5 else data)

    def csv(self, chance):
        data = b'sentence,label\n"a, b",1\n"say ""x""\nagain",0\nfine,-1\n\xe2\x9c\x93,1\n'
        return self._read("csv", damaged(chance, data))

    def _read(self, ending, data):
        path = self.folder / f"data/sst2/validation.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        try:
            rows = texts.read(TASKS["sst2"], str(self.folder / "data"), "validation")
        finally:
            path.unlink()
        for row, label in zip(rows.rows, rows.labels, strict=True):
            assert isinstance(row["sentence"], str) and row["sentence"].encode() is not None
            assert type(label) is int and -1 <= label <= 1
        return False

    def files_of_scores(self, chance):
        """Tables, arrays and columns, some as a stream."""
        name, data = chance.choice(list(table_forms.FORMS.items()))
        if name == "a.parquet" and chance.random() < 0.5:
            path = self.folder / name
            path.write_bytes(damaged(chance, data))
            done = correct_stream(path, self.folder / "out", chance.choice(table_forms.READINGS))
            assert all(np.isfinite(bias).all() for bias in done.bias.values())
            return False
        return self._file_of_scores(chance, name, data)

    def json_scores(self, chance):
        name = chance.choice(list(table_forms.VALUES))
        value = maybe(chance, table_forms.VALUES[name])
        return self._file_of_scores(chance, name, table_forms.as_json(name, value, as_text))

    def frames_of_scores(self, chance):
        frame = other(chance, chance.choice((*table_forms.VALUES.values(), table_forms.SCORES)))
        return self._sound(frames.tables_of(frame, chance.choice(table_forms.READINGS)))

    def _file_of_scores(self, chance, name, data):
        path = self.folder / name
        path.write_bytes(damaged(chance, data) if chance.random() < 0.8 else data)
        return self._sound(read_tables(path, chance.choice(table_forms.READINGS)))

    def _sound(self, tables):
        assert tables
        for table in tables:
            table.save(self.folder / "table")
            assert scores.load(self.folder / "table").id == table.id
            assert np.isfinite(table.blocks["test"].log_probs).all()
        return [t.blocks["test"].log_probs.tolist() for t in tables] == [table_forms.SCORES]

    def config(self, chance):
        return self._scored(chance, "config.json")

    def tokenizer_config(self, chance):
        return self._scored(chance, "tokenizer_config.json")

    def _scored(self, chance, name):
        path = self.checkpoint / name
        content = path.read_bytes()
        data = self._changed(chance, content, 0.7)
        return np.array_equal(self._with(path, content, data), self.found)

    def tensors_header(self, chance):
        path = self.checkpoint / "model.safetensors"
        content = path.read_bytes()
        size = 8 + int.from_bytes(content[:8], "little")
        header, rest = content[8:size], content[size:]
        header = self._changed(chance, header, 0.5)
        size = len(header) if chance.random() < 0.7 else size - 8
        data = size.to_bytes(8, "little") + header + rest
        assert np.array_equal(self._with(path, content, data), self.found), "other scores"
        return True

    def _changed(self, chance, content, share):
        """JSON of which values are changed in a share of the cases, and bytes in the others."""
        if chance.random() < share:
            return as_text(other(chance, json.loads(content))).encode()
        return damaged(chance, content)

    def _with(self, path, content, data):
        """Score with a checkpoint one of whose files holds other data."""
        path.write_bytes(data)
        try:
            scorer = CausalLM(load_checkpoint(self.checkpoint))
            log_probs = scorer.score(["it is"], [("fine",), ("dull",)]).log_probs
        finally:
            path.write_bytes(content)
        assert log_probs.shape == (1, 2) and np.isfinite(log_probs).all()
        return log_probs

    def logs(self, chance):
        """Logs of evaluations, damaged in bytes or values, with results that may be damaged."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        results_path = folder / "results_2026-01-02T03-04-05.6.json"
        results_path.write_text(as_text(maybe(chance, log_forms.results())))
        name = chance.choice(list(log_forms.NAMES))
        data = log_forms.as_log(name, maybe(chance, log_forms.VALUES[name]), as_text)
        if chance.random() < 0.4:
            data = damaged(chance, data)
        path = folder / log_forms.NAMES[name]
        path.write_bytes(data)
        reading = chance.choice(log_forms.READINGS)
        whose = next(form for form in log_forms.FORMATS if name.startswith(form))
        is_recognized = importers.IMPORTERS[whose].recognizes(path, data[:65_536])
        if not is_recognized or chance.random() < 0.5:
            reading = replace(reading, format=whose)
        for table in importers.read(path, reading):
            table.save(folder / "table")
            stored = scores.load(folder / "table")
            assert stored.blocks["test"].row_ids == table.blocks["test"].row_ids
            assert np.isfinite(stored.blocks["test"].log_probs).all() or reading.missing is None
        return False

    def api(self, chance):
        rows = [[-1.0, -2.0], [-3.0, -0.5], [-1.5, -1.0]]
        scores = chance.choice((rows, [rows, rows], [row[:1] for row in rows]))
        scores = other(chance, scores) if chance.random() < 0.7 else scores
        if chance.random() < 0.5:
            kinds = "f2 f4 f8 >f4 i1 u8 ? c8 M8[s] m8[s] U9 S9 O V4 i4,f4"
            kind = chance.choice(kinds.split())
            try:
                scores = np.array(scores, kind)
                if chance.random() < 0.1:
                    mask = np.arange(scores.size).reshape(scores.shape) == 0
                    scores = np.ma.array(scores, mask=mask)
            except (TypeError, ValueError, OverflowError):
                return False
        method = chance.choice(("icl", "bc", "bc_mean_prob", "bc_running"))
        corrected = np.asarray(calibrate(scores, method))
        assert corrected.shape == np.shape(scores) and np.isfinite(corrected).all(), corrected
        return False

    def responses(self, chance):
        responses = chance.choice(RESPONSES)
        lines = [as_text(other(chance, r) if chance.random() < 0.4 else r) for r in responses]
        data = "\n".join(lines).encode()
        path = self.folder / "responses.jsonl"
        path.write_bytes(damaged(chance, data) if chance.random() < 0.5 else data)
        missing = chance.choice((None, "least", "drop", -30.0))
        form = chance.choice(("", "vllm", "openai", "sglang", "llama.cpp"))
        gold = chance.choice(("", "", "gold", "gold.x"))
        reading = Reading(form, labels=("yes", "no"), gold=gold, missing=missing)
        for table in read_tables(path, reading):
            table.save(self.folder / "t.safetensors")
            for block in table.blocks.values():
                assert np.isfinite(block.log_probs).all() and block.log_probs.shape[1] == 2
        return False

    def program(self, chance):
        """The console program on a damaged table, with options that fit and others."""
        rows = [f"r{i},{-1 - i / 9:.4f},{-2 + i / 7:.4f},{i % 2},s{i % 3}" for i in range(12)]
        data = "\n".join(["id,no,yes,gold,by", *rows, ""]).encode()
        path = self.folder / "rows.csv"
        path.write_bytes(damaged(chance, data) if chance.random() < 0.6 else data)
        arguments = [chance.choice(("calibrate", "diagnose", "diagnose", "convert")), str(path)]
        arguments += ["--gold=gold", "--ids=id"] if chance.random() < 0.8 else []
        arguments += [chance.choice(OPTIONS) for _ in range(chance.randrange(4))]
        output = f"--output={self.folder / chance.choice(OUTPUTS)}"
        arguments += [output] * (arguments[0] != "diagnose")
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            try:
                args = options.parse(arguments)
            except SystemExit as error:
                raise InputError(str(error)) from error
            commands.RUN[args.command](args)
        return False

    def missing(self, chance):
        scores = [[-1.0, -2.0, -math.inf], [-3.0, math.nan, -0.5], [-9999.0, -1.5, -1.0]]
        bound = chance.choice((None, [-3.0, -4.0, -5.0]))
        how = chance.random()
        scores = other(chance, scores) if how < 0.4 else scores
        bound = other(chance, bound) if how > 0.7 and bound else bound
        fill = chance.choice(("least", -30.0, "drop", chance.choice(VALUES)))
        corrected = np.asarray(calibrate(scores, missing=fill, bound=bound))
        assert corrected.shape == np.shape(scores) and np.isfinite(corrected).all(), corrected
        return False


CHATS = forms.chat(yes=0.6, no=0.1), forms.chat(no=0.6, x=0.1)
RESPONSES = (
    [{"gold": 0, "response": {"body": body}} for body in CHATS],
    [forms.completion(yes=0.6, no=p) for p in (0.2, 0.1)],
    [forms.echoed(["Q", label], [None, nats]) for label, nats in ((" yes", -1.0), (" no", -2.0))],
    [forms.prompted([None, forms.place(7, *label)]) for label in ((" yes", -1.0), (" no", -2.0))],
    [forms.generated([[-0.5, 7, " yes"], [x, 8, " no"]]) for x in (-1.5, -2.0)],
    [{"scores": [[0.9, 0.1], [0.2, 0.8]], "object": "scoring"}],
    [forms.llama(yes=0.6, no=p) for p in (0.2, 0.05)],
    [forms.old_llama(yes=0.5, no=p) for p in (0.25, 0.0)],
)
OUTPUTS = ("o.csv", "o.tsv", "o.jsonl", "o.npz", "o.parquet", "o.doc", "o.safetensors", "no/o.csv")
OPTIONS = """
    by=by by=gold by=none labels=no,yes labels=yes,no labels=no labels=a,b from-probs no-from-probs
    missing=least missing=drop missing=bound missing=-30 missing=nan prior=0.8,0.2 prior=1,0
    prior=nan,1 prior=-1,2 prior=inf,1 prior=estimated prior=/dev/null method=icl
    method=bc_mean_prob method=bc_running method=cc method=x strength=0 strength=nan strength=1e30
    strength=x changed=-1 changed=2 task=\0 task=../x model=\ud800 format=json format=npz
    probe=/dev/null labeled=nix.csv tokens=no=| filter=none seed=-1 seed=99999999999 gold=by ids=by
"""
OPTIONS = [f"--{option}" for option in OPTIONS.split()]
TASK_FILE = b"""name = "tickets"
fields = ["text"]
label_names = ["no", "yes"]
labels_are = "names"
template = "Text: {text}\\nKind: {label}"
zero_shot = "{text} {label}"
title = "Tickets"
[verbalizer]
no = "bad"
yes = ["good", "fine"]
[statement_words]
no = "a"
yes = "b"
[files]
test = "rows.csv"
"""
GENERATORS = {generator.__name__: generator for generator in fuzz_logs.GENERATORS}
"""Kind -> a generator of cases of which the truth is known, as `truths.py` has them."""
KINDS = [*(name for name in vars(Kinds) if not name.startswith("_")), *GENERATORS]


class TimeLimit(BaseException):
    """A case takes too long."""


@contextmanager
def limited():
    """Raise where the program stands after `LIMIT` seconds."""

    def stop(*_):
        raise TimeLimit

    signal.signal(signal.SIGALRM, stop)
    # Again and again: a hook of the garbage collector swallows what is raised in it.
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(kinds, kind, seed, case):
    """Outcome of one case: `same`, `read`, `refused`, or a sentence that begins `FAILED`."""
    chance = random.Random(f"{seed}/{kind}/{case}")
    try:
        with warnings.catch_warnings(), limited():
            warnings.simplefilter("ignore")
            if kind in GENERATORS:
                return truths.check(GENERATORS[kind], chance, kinds.folder)
            return "same" if getattr(kinds, kind)(chance) else "read"
    except TimeLimit:
        return f"FAILED: it takes longer than {LIMIT} s"
    except InputError as error:
        is_sentence = "\n" not in str(error) and len(str(error)) < 2000
        return "refused" if is_sentence else f"FAILED: no sentence: {str(error)[:300]!r}"
    except Exception as error:  # whatever else comes is what is looked for
        at = traceback.extract_tb(error.__traceback__)
        ours = [f for f in at if "batch_calibration" in f.filename] or [at[-1]]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return f"FAILED: {where}: {type(error).__name__}: {str(error)[:200]}"


def main():
    """Run cases of every kind in turn until the time is over, and print what became of them."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--seconds", type=float, default=60)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--kind", choices=KINDS)
    flags.add_argument("--case", type=int)
    args = flags.parse_args()
    names = [args.kind] if args.kind else KINDS
    counts, failed = {name: Counter() for name in names}, Counter()
    with tempfile.TemporaryDirectory() as folder:
        kinds, end = Kinds(Path(folder)), time.monotonic() + args.seconds
        if args.case is not None:
            print(run(kinds, args.kind, args.seed, args.case))
            return
        # As much time for each kind: those that compile programs are slow.
        for name in itertools.cycle(names):
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                case = counts[name].total()
                outcome = run(kinds, name, args.seed, case)
                counts[name][outcome.partition(":")[0]] += 1
                failed[f"{name} {outcome}"] += outcome.startswith("FAILED")
                if failed[f"{name} {outcome}"] == 1:
                    print(f"--kind={name} --seed={args.seed} --case={case}: {outcome}", flush=True)
            if time.monotonic() > end:
                break
    for outcome, number in (+failed).items():
        print(f"{number} times {outcome}")
    for name, counter in counts.items():
        print(f"{name}: {counter.total()} cases,", dict(sorted(counter.items())))


if __name__ == "__main__":
    main()
