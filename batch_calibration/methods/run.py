"""The runner: applies methods to score tables, each table separately and in compiled programs.

A program corrects one context, or in studies a block of `CONTEXTS` small contexts, all padded to a
size that depends only on the number of rows. Contexts of a block do not touch each other. So a
table's results do not depend, to the last bit, on the other tables and methods of the run.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from batch_calibration.arrays.numbers import check_key, usual_jax
from batch_calibration.calibration.base import Calibrator
from batch_calibration.calibration.ensemble import average_contexts
from batch_calibration.calibration.shift import Shift, apply
from batch_calibration.calibration.temperature import folds
from batch_calibration.errors import InputError
from batch_calibration.methods.fitting import Corrected, Evidence, gather
from batch_calibration.methods.options import check_chosen, with_common
from batch_calibration.methods.table import METHODS, Method, Options, in_place, in_table_order
from batch_calibration.methods.validation import look_like_cosines, no_log_probs
from batch_calibration.scores import POOLED_AS, WHY_NO_LOG_PROBS, ScoreTable
from batch_calibration.typing import Key

OptionPairs = tuple[tuple[str, Any], ...]
"""The options of one method as a tuple, which is part of the key of a compiled program."""
LEVEL = "xla_backend_optimization_level"
WITHOUT_EMITTERS: dict[str, Any] = {LEVEL: 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options for short programs: they compile in two thirds of the time, and the results
differ only in the last bits."""
LOOP_LEVEL = 1
"""The optimization level for loops of seconds; the default 2 compiles longer on CPUs and runs no
faster."""
THREADS = 2
"""The number of methods at the same time: one is traced or compiled while another one runs."""
FEWEST_PADDED_ROWS = 16
"""The fewest rows of a padded block, so that small probes share their programs."""
CONTEXTS = 8
"""The number of contexts in a block, full or not: sums of 4 contexts have other last bits."""
MOST_SCORES = 2048
"""The most scores, padded rows times labels, of a context in a block. On CPUs larger contexts are
corrected no faster in a block, and some methods take three times as long."""

Function = TypeVar("Function", bound=Callable[..., object])


class Corrections(NamedTuple):
    """A run of methods on tables.

    Attributes:
        results: for each table, method name -> state and corrected scores, in the order of
            `METHODS`. A table is computed when it is read, while the next one is computed ahead.
        skipped: for each table, the methods that it rules out: name -> reason.
        options: method -> options that differ from the defaults.
    """

    results: Iterator[dict[str, Corrected]]
    skipped: list[dict[str, str]]
    options: dict[str, dict[str, object]]


def run_methods(
    tables: Sequence[ScoreTable],
    methods: Sequence[str] | None = None,
    *,
    options: Mapping[str, Options] | None = None,
    floor: float | None = None,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
    common: Sequence[Options] | None = None,
    in_blocks: bool = False,
) -> Corrections:
    """Runs methods on tables; no model is needed.

    Args:
        tables: score tables with a block "test".
        methods: names from `METHODS`, by default all.
        options: method -> options of its `make`.
        floor: lower scores are raised to it, in nats; None leaves them unchanged.
        seed: the seed of methods that start at random.
        groups: for each table a value that is equal for tables of one task with the same label
            shares. Methods that pool contexts (`Method.together`) learn from all tables of a group.
            By default each table is a group.
        common: for each table the options of all methods that accept them, such as the shares of
            its labels (target_prior); `options` take precedence.
        in_blocks: correct contexts of one shape in blocks of `CONTEXTS`, which is faster for many
            tables and slower for one. The last bits then differ from `correct_context`.

    Raises:
        InputError: a method that does not exist; options that a method does not accept; tables with
            different labels in one group.

    >>> from batch_calibration.scores import make_block
    >>> table = ScoreTable({}, ("no", "yes"), {"test": make_block([[-1.0, -3.0], [-2.0, -2.5]])})
    >>> found = run_methods([table], ["bc", "cc"])
    >>> next(found.results)["bc"].scores.tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    >>> found.skipped
    [{'cc': "no block 'cc' in the table"}]
    """
    names = in_table_order(methods)
    chosen = check_chosen(options, names, {len(table.label_names) for table in tables})
    skipped = [find_skipped(table, names, chosen) for table in tables]
    # A key is made only if needed, because this compiles another program.
    key = check_key(seed) if any(METHODS[name].needs_key for name in names) else None

    members = _members(tables, groups)
    for place, reasons in enumerate(skipped):
        others = [tables[member] for member in members.get(place, ())]
        for name in [name for name in names if METHODS[name].averages]:
            if len(others) < 2 or not have_same_rows(others):
                reasons[name] = "no other context of the task is known to have the same rows"

    own = [with_common(chosen, names, given) for given in common or [{}] * len(tables)]
    beside = dict[tuple[str, int], tuple[int, ...]]()  # method, table -> corrected with these
    for place, group in members.items():
        if len(group) > 1:
            beside |= {(name, place): group for name in names if METHODS[name].together}
    if in_blocks:
        beside |= _find_blocks(tables, names, skipped, own)
    threads = ThreadPoolExecutor(THREADS)
    several = dict[tuple[str, tuple[int, ...]], Future[dict[int, Corrected]]]()

    def correct_several(name: str, places: tuple[int, ...]) -> dict[int, Corrected]:
        """Corrects the tables of a group or of a block: index -> result."""
        method, chosen_tables = METHODS[name], [tables[place] for place in places]
        options = [own[place].get(name) for place in places]
        if method.together is not None:
            found = correct_group(method, chosen_tables, options=options[0], floor=floor)
        else:
            found = _correct_block(method, chosen_tables, options, floor, key)
        return dict(zip(places, found, strict=True))

    def begin(place: int) -> dict[str, Callable[[], Corrected]]:
        """Sends a table's methods to the threads: name -> function that waits for the result."""
        begun = dict[str, Callable[[], Corrected]]()
        for name in [name for name in names if name not in skipped[place]]:
            if (places := beside.get((name, place))) is None:
                alone = partial(correct_context, options=own[place].get(name), floor=floor, key=key)
                evidence = _evidence(tables[place])
                begun[name] = threads.submit(usual_jax(alone), METHODS[name], evidence).result
                continue
            if (name, places) not in several:
                several[name, places] = threads.submit(usual_jax(correct_several), name, places)
            begun[name] = partial(_take_result, several[name, places], place)
        return begun

    def results() -> Iterator[dict[str, Corrected]]:
        begun = map(begin, range(len(tables)))
        try:
            now = next(begun, None)
            while now is not None:
                later = next(begun, None)  # runs while the results of this table are used
                yield {name: result() for name, result in now.items()}
                now = later
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    return Corrections(results(), skipped, chosen)


def _take_result(several: Future[dict[int, Corrected]], place: int) -> Corrected:
    """Removes one table's result from those of several and returns it, which frees its memory."""
    return several.result().pop(place)


def _members(
    tables: Sequence[ScoreTable], groups: Sequence[Hashable] | None
) -> dict[int, tuple[int, ...]]:
    """Maps each table's index to the indices of its group."""
    places = dict[Hashable, list[int]]()
    for place, group in enumerate(groups or ()):
        places.setdefault(group, []).append(place)
        first = tables[places[group][0]]
        if tables[place].label_names != first.label_names:
            expected = f"the labels of the group {group!r}, {', '.join(first.label_names)}"
            got = ", ".join(tables[place].label_names)
            remedy = "group only tables of one task, with labels in the same order"
            raise InputError.at(f"groups, table {place}", expected, got, remedy)
    return {place: tuple(places[group]) for place, group in enumerate(groups or ())}


def correct_group(
    method: Method,
    tables: Sequence[ScoreTable],
    *,
    options: Options | None = None,
    floor: float | None = None,
) -> list[Corrected]:
    """Corrects all contexts of one task with a method that pools them.

    If there are too few contexts to pool, each is corrected separately.

    Args:
        method: a row of `METHODS` with `together`.
        tables: tables with a block "test", all with the same labels.
        options: the options of `METHODS[name].make`.
        floor: lower scores are raised to it, in nats.
    """
    tests = [table.blocks["test"].log_probs for table in tables]
    rows, weight = stack_contexts(tables, floor)
    program = _jit(method.together, (), 0)
    numbers = {name: np.asarray(option, np.float32) for name, option in (options or {}).items()}
    pooled = jax.device_get(program(rows, weight, have_same_rows(tables), **numbers))
    corrected = []
    for place, test in enumerate(tests):
        if pooled.used.any():
            state = Shift(pooled.shifts[place], cast(jax.Array, np.float32(1.0)))
            scores = rows[place, : len(test)] - np.asarray(state.bias)
            one = Corrected(state, cast(jax.Array, scores))
        else:
            one = correct_context(method, {"test": Evidence(test)}, options=options, floor=floor)
        corrected.append(one)
    if not method.averages:
        return corrected
    for place, one in enumerate(corrected):
        rows[place, : len(one.scores)] = one.scores
    gate = {name: numbers[name] for name in numbers if name == "least_information"}
    mean = jax.device_get(_jit(average_contexts, (), 0)(rows, weight, **gate))
    return [one._replace(scores=mean[: len(one.scores)]) for one in corrected]


def stack_contexts(
    tables: Sequence[ScoreTable], floor: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Stacks the test rows of several tables [c n k] and their weights [c n], with padding."""
    tests = [table.blocks["test"].log_probs for table in tables]
    shape = (1 << (len(tests) - 1).bit_length(), padded_rows(max(map(len, tests))))
    rows = np.zeros((*shape, tests[0].shape[-1]), np.float32)
    weight = np.zeros(shape, np.float32)
    for place, test in enumerate(tests):
        rows[place, : len(test)] = test if floor is None else np.maximum(test, np.float32(floor))
        weight[place, : len(test)] = 1.0
    return rows, weight


def have_same_rows(tables: Sequence[ScoreTable]) -> bool:
    """Checks whether row i is the same question in every table.

    The tables must have the same row ids, the same digest of the rows, and the same gold labels if
    these are known. Ids that only count rows are not enough without a digest.
    """
    tests = [table.blocks["test"] for table in tables]
    labels = {test.labels.tobytes() for test in tests if (test.labels >= 0).all()}
    rows = {(table.context.get("rows"), table.blocks["test"].row_ids) for table in tables}
    (digest, ids), *others = rows
    is_named = digest is not None or ids != tuple(map(str, range(len(ids))))
    return not others and len(labels) < 2 and is_named


def task_of(table: ScoreTable) -> tuple[str, tuple[str, ...]]:
    """Returns a group for `run_methods`: the task, or else the table's id, and the labels."""
    name = table.context.get(POOLED_AS) or table.context.get("task")
    return str(name or table.id), table.label_names


def correct_context(
    method: Method,
    blocks: Mapping[str, Evidence],
    log_probs: np.ndarray | None = None,
    *,
    options: Options | None = None,
    floor: float | None = None,
    key: Key | None = None,
) -> Corrected:
    """Corrects one context of numpy arrays, as `correct` does, in one compiled program.

    Without it, the operations would be compiled one by one for each number of rows.

    Args:
        method: a row of `METHODS`.
        blocks: name -> its rows; blocks that the method does not read are ignored.
        log_probs: [n, k], the rows to correct; by default the block "test".
        options: the options of `METHODS[name].make`.
        floor: lower scores are raised to it, in nats.
        key: a `jax.random` key, for methods that need a key.

    Returns:
        Scores [n, k], and a state whose arrays of rows may be padded.

    >>> rows = np.array([[-1.0, -3.0], [-2.0, -2.5]], np.float32)
    >>> correct_context(METHODS["bc"], {"test": Evidence(rows)}).scores.tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    rows = np.asarray(blocks["test"].log_probs if log_probs is None else log_probs)
    inputs, pairs = _inputs(method, blocks, rows, options, floor)
    program = _jit(_correct, ("factory", "options"), LOOP_LEVEL if method.looped else 0)
    key = key if method.needs_key else None
    found = program(*inputs, key, factory=method.factory, options=pairs)
    corrected = jax.device_get(found)
    return Corrected(corrected.state, corrected.scores[: len(rows)])


def _correct_block(
    method: Method,
    tables: Sequence[ScoreTable],
    options: Sequence[Options | None],
    floor: float | None,
    key: Key | None,
) -> list[Corrected]:
    """Corrects the tables of one block (`_find_blocks`) in one compiled program."""
    rows, inputs = [table.blocks["test"].log_probs for table in tables], []
    for table, test, of_table in zip(tables, rows, options, strict=True):
        of_context, pairs = _inputs(method, _evidence(table), test, of_table, floor)
        inputs.append(of_context)
    # Copies of the last context fill the block, because they make no loop longer.
    inputs += inputs[-1:] * (CONTEXTS - len(inputs))
    stacked = jax.tree.map(lambda *arrays: np.stack(arrays), *inputs)
    program, key = _jit(_correct_each, ("factory", "options"), 0), key if method.needs_key else None
    found = jax.device_get(program(key, *stacked, factory=method.factory, options=pairs))
    corrected = []
    for place, test in enumerate(rows):
        state, scores = jax.tree.map(itemgetter(place), found)
        corrected.append(Corrected(state, scores[: len(test)]))
    return corrected


def _find_blocks(
    tables: Sequence[ScoreTable],
    names: Sequence[str],
    skipped: Sequence[Mapping[str, str]],
    options: Sequence[Mapping[str, Options]],
) -> dict[tuple[str, int], tuple[int, ...]]:
    """Divides tables into blocks: method and index of a table -> indices of its block.

    The contexts of a block have the same number of labels, of padded rows, and options except for
    the shares of labels. Methods that are looped, `one_by_one` or pool contexts have no blocks, and
    neither have contexts of more than `MOST_SCORES`.
    """
    alike = dict[tuple[str, Hashable], list[int]]()
    for place, table in enumerate(tables):
        rows, k = table.blocks["test"].log_probs.shape
        for name in [name for name in names if name not in skipped[place]]:
            method = METHODS[name]
            read = method.probe.blocks or ("test",)
            count = sum(len(table.blocks[block].log_probs) for block in read)
            shape = _padded_count(method, count, rows, k), padded_rows(rows)
            is_alone = method.looped or method.one_by_one or method.together is not None
            if is_alone or k * max(shape) > MOST_SCORES:
                continue
            pairs, shares, _ = _divide(options[place].get(name))
            kind = k, shape, pairs, shares is None
            alike.setdefault((name, kind), []).append(place)
    blocks = dict[tuple[str, int], tuple[int, ...]]()
    for (name, _), places in alike.items():
        for start in range(0, len(places), CONTEXTS):
            block = tuple(places[start : start + CONTEXTS])
            blocks |= {(name, place): block for place in block}
    return blocks


def correct_labeled(
    method: Method,
    blocks: Mapping[str, Evidence],
    corrected: Corrected,
    *,
    options: Options | None = None,
    floor: float | None = None,
    key: Key | None = None,
) -> np.ndarray:
    """Corrects the labeled rows of a context by the bias of its test rows.

    A method that learns from the labeled rows corrects each fold after it has learned from the
    others.

    Args:
        method: a row of `METHODS`.
        blocks: name -> its rows, with a block "labeled".
        corrected: the correction of the test rows.
        options: see `correct_context`.
        floor: see `correct_context`.
        key: see `correct_context`.

    Returns:
        Scores [m, k].

    Raises:
        InputError: the method corrects each row by probes of that row.

    >>> rows = np.array([[-1.0, -3.0], [-2.0, -2.5]], np.float32)
    >>> blocks = {"test": Evidence(rows), "labeled": Evidence(rows[:1], np.array([0]))}
    >>> found = correct_context(METHODS["bc"], blocks)
    >>> correct_labeled(METHODS["bc"], blocks, found).tolist()
    [[0.5, -0.25]]
    """
    labeled, probe = blocks["labeled"], method.probe
    rows = np.asarray(labeled.log_probs)
    correct = partial(correct_context, method, options=options, floor=floor, key=key)
    if probe.in_orders or (probe.aligned and len(blocks[probe.blocks[0]].log_probs) > 1):
        expected = "a method with one bias for all rows"
        got = f"{probe.description}, which labeled rows lack"
        raise InputError.at("labeled rows", expected, got, "use a method such as bc")
    if "labeled" in probe.blocks:
        held_out = np.empty(rows.shape, np.float32)
        for is_out in folds(len(rows)):
            learned = {**blocks, "labeled": labeled._replace(weight=(~is_out).astype(np.float32))}
            held_out[is_out] = np.asarray(correct(learned, rows).scores)[is_out]
        return held_out
    if method.own_rows:  # these rows are a batch of their own
        return np.asarray(correct({**blocks, "test": labeled}).scores)
    if method.together and isinstance(corrected.state, Shift):  # learned from several contexts
        return np.asarray(apply(corrected.state, rows))
    return np.asarray(correct(blocks, rows).scores)


def pad_context(
    method: Method, blocks: Mapping[str, Evidence], rows: np.ndarray
) -> tuple[Evidence, np.ndarray]:
    """Pads the rows that a method learns from and the rows to correct."""
    # A method without a probe only reads the number of labels from the rows.
    learned = gather(method, blocks, arrays=np) if method.probe.blocks else Evidence(rows)
    count = _padded_count(method, len(learned.log_probs), *rows.shape)
    return pad_rows(learned, count), np.asarray(pad_rows(Evidence(rows)).log_probs)


def _evidence(table: ScoreTable) -> dict[str, Evidence]:
    return {name: Evidence(*block[:2]) for name, block in table.blocks.items()}


def _inputs(
    method: Method, blocks: Mapping[str, Evidence], rows: np.ndarray,
    options: Options | None, floor: float | None,
) -> tuple[tuple[Evidence, np.ndarray, np.ndarray | None], OptionPairs]:  # fmt: skip
    """Returns the arrays of `_correct` for one context, and its static options."""
    pairs, shares, own_floor = _divide(options)
    learned, padded = pad_context(method, blocks, rows)
    for lowest in (floor, own_floor):
        if lowest is not None:
            least = np.asarray(lowest, np.float32)
            padded = np.maximum(padded, least)
            learned = learned._replace(log_probs=np.maximum(learned.log_probs, least))
    return (learned, padded, shares), pairs


def _divide(options: Options | None) -> tuple[OptionPairs, np.ndarray | None, Any]:
    """Divides options into static ones, the shares of labels, and the floor.

    Each context may have its own shares, which are no reason to compile another program.
    """
    settings = in_place(options or {})
    floor, shares = settings.pop("floor", None), settings.pop("target_prior", None)
    pairs = tuple(zip(settings, map(_hashable, settings.values()), strict=True))
    return pairs, None if shares is None else np.asarray(shares, np.float32), floor


def _correct(
    learned: Evidence, rows: jax.Array, shares: jax.Array | None, key: Key | None, *,
    factory: Callable[..., Calibrator], options: OptionPairs,
) -> Corrected:  # fmt: skip
    stated = {} if shares is None else {"target_prior": shares}
    fit, apply = factory(**dict(options), **stated)
    state = fit(*learned, key=key)
    return Corrected(state, apply(state, rows))


def _correct_each(key: Key | None, *inputs: Any, **static: Any) -> Corrected:
    """Corrects each context of a block, whose arrays have one more axis, the first."""
    found: Corrected = jax.vmap(partial(_correct, key=key, **static))(*inputs)
    return found


def _hashable(setting: object) -> object:
    """Converts an option, such as an array of start means, to nested tuples of numbers."""
    nested = setting.tolist() if hasattr(setting, "tolist") else setting
    return tuple(map(_hashable, nested)) if isinstance(nested, list | tuple) else nested


def _padded_count(method: Method, count: int, rows: int, labels: int) -> int:
    """Computes the padded number of rows that a method learns from.

    A method may read rows by position. So the padded number stays a multiple of the padded rows to
    correct if the probe has rows for each of these, and otherwise a multiple of the labels.
    """
    if method.probe.blocks == ("test",) or not method.probe.blocks:
        return padded_rows(count)
    if method.probe.row_counts(rows, labels) and not count % rows:
        return count // rows * padded_rows(rows)
    if method.in_order and count % labels:
        return count  # `fit` refuses this number of rows, or the probe is a single row
    return labels * padded_rows(-(-count // labels))


def padded_rows(count: int) -> int:
    """Rounds a number of rows up to a power of two, at least 16.

    >>> padded_rows(3), padded_rows(500)
    (16, 512)
    """
    return max(FEWEST_PADDED_ROWS, 1 << (count - 1).bit_length())


def pad_rows(block: Evidence, count: int | None = None) -> Evidence:
    """Pads a block [m k] to `count` rows, by default `padded_rows`, with label -1 and weight 0.

    Blocks of different lengths then share compiled programs.

    >>> block = pad_rows(Evidence(np.zeros((3, 2), np.float32), np.array([0, 1, 1], np.int32)), 4)
    >>> block.labels.tolist(), block.weight.tolist()
    ([0, 1, 1, -1], [1.0, 1.0, 1.0, 0.0])
    """
    rows, k = np.shape(block.log_probs)
    padded = padded_rows(rows) if count is None else count
    log_probs = np.zeros((padded, k), np.float32)
    labels, weight = np.full(padded, -1, np.int32), np.zeros(padded, np.float32)
    log_probs[:rows] = block.log_probs
    weight[:rows] = 1.0 if block.weight is None else block.weight
    labels[:rows] = -1 if block.labels is None else block.labels
    return Evidence(log_probs, labels, weight)


def jit_quickly(function: Function, *static: str) -> Function:
    """Compiles a function of milliseconds of work like `jax.jit`, in two thirds of the time.

    Args:
        function: a function of module level, because its compiled programs are cached.
        *static: the names of its static arguments.
    """
    return cast(Function, _jit(function, static, 0))


@cache  # keeps each jitted function, and with it the compiled programs
def _jit(function: Callable[..., Any], static: tuple[str, ...], level: int) -> Callable[..., Any]:
    options = _quick_options() if level == 0 else {LEVEL: level}
    return jax.jit(function, static_argnames=static, compiler_options=options)


@cache
def _quick_options() -> dict[str, Any]:
    """Returns the compiler options `WITHOUT_EMITTERS`, or only the level if XLA refuses them."""
    try:
        jax.jit(lambda: 0.0).lower().compile(WITHOUT_EMITTERS)
    except jax.errors.JaxRuntimeError:
        return {LEVEL: 0}
    return WITHOUT_EMITTERS


def find_skipped(
    table: ScoreTable, methods: Sequence[str], options: Mapping[str, Options] | None = None
) -> dict[str, str]:
    """Finds the methods that a table's blocks, labels or kind of scores rule out: name -> reason.

    Args:
        table: a table with a block "test".
        methods: names from `METHODS`.
        options: method -> its options, which may make it need log-probabilities.

    >>> from batch_calibration.scores import make_block
    >>> table = ScoreTable({}, ("no", "yes"), {"test": make_block([[-1.0, -3.0]])})
    >>> find_skipped(table, ["cc", "bc"])
    {'cc': "no block 'cc' in the table"}
    """
    k, reasons = len(table.label_names), dict[str, str]()
    rows = {name: len(block.row_ids) for name, block in table.blocks.items()}
    why = _why_no_log_probs(table)
    for name in methods:
        method = METHODS[name]
        for block in method.probe.blocks:
            if block not in rows:
                reasons[name] = f"no block {block!r} in the table"
            elif (counts := method.probe.row_counts(rows["test"], k)) and rows[block] not in counts:
                expected = method.probe.describe_counts(rows["test"], k)
                reasons[name] = f"the block {block!r} has {rows[block]} rows, not {expected}"
            elif block in method.probe.labeled and (table.blocks[block].labels < 0).all():
                reasons[name] = f"no row of the block {block!r} has a right label"
        if method.most_labels is not None and k > method.most_labels:
            reasons[name] = f"{k} labels are more than the {method.most_labels} it can tell apart"
        if why and method.needs_log_probs_with((options or {}).get(name)):
            reasons[name] = f"it needs log-probabilities over the whole vocabulary, and {why}"
        # Two orders of three or more options do not put each option in each place.
        if method.probe.in_each_place and k > 2 and _has_two_orders(table):
            reasons[name] = (
                "its questions have two orders (option_orders), and it reads all of them"
            )
    return reasons


def _has_two_orders(table: ScoreTable) -> bool:
    """Checks whether the permuted questions of a table have their options in two orders."""
    block = table.blocks.get("permutations")
    options = block.spec.get("options") if block is not None else None
    return isinstance(options, dict) and options.get("option_orders") == "two"


def _why_no_log_probs(table: ScoreTable) -> str:
    """Returns the reason why the scores are not log-probabilities, "" if they are.

    The scorer of a table decides; the values decide if the scorer is not one of this package.
    """
    identity = _scorer_of(table)
    if identity.get("logits_only"):
        return "these are logits without the softmax's denominator (logits_only)"
    if (reason := WHY_NO_LOG_PROBS.get(str(identity.get("kind")))) is not None:
        return reason
    reasons = (no_log_probs(block.log_probs) for block in table.blocks.values())
    return next(filter(None, reasons), "")


def holds_cosines(table: ScoreTable) -> bool:
    """Checks whether a table's scores are cosines, scaled or not, by its scorer or its values."""
    kind = str(_scorer_of(table).get("kind"))
    if kind in WHY_NO_LOG_PROBS:
        return kind == "dual_encoder"
    return look_like_cosines(table.blocks["test"].log_probs)


def _scorer_of(table: ScoreTable) -> Mapping[str, object]:
    scorer = table.context.get("scorer")
    return scorer if isinstance(scorer, Mapping) else {"kind": scorer}
