"""Enumerated faults: every FileIO call of a scenario fails in every mode, one after another.

For each (call, mode): run the scenario with that one fault; whatever happens, reopen on healthy
storage and check that what was acknowledged is there, that what was not is there wholly or not at
all, that the files pass fsck, and that the table still takes a commit.

An effect that comes late comes after :data:`LATE_CALLS` further calls, or in the midst of the
recovery. What was refused must not appear then either, and what was acknowledged must stay.

Where two processes work at once, one acts in the midst of the other, and the calls of one of them
fail; a crash ends that one alone, and the other must come through.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator

from proving import steps
from proving.changelog import replay
from proving.fsck import check_table, walk
from proving.interleave import Between
from proving.model import ModelTable
from proving.reach import missing
from proving.scenario import Scenario
from proving.scenarios import scenarios
from proving.steps import Step
from proving.world import LOCATION, NAME, WAREHOUSE, arrow_of, content_of, open_catalog
from tidelake.errors import AlreadyExistsError, OutcomeUnknownError, TidelakeError
from tidelake.fileio import FileIO, MemoryFileIO, parent_of
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

LATE_CALLS = (1, 2, 4, 8, 16, 10_000)
"""Calls that see nothing of a late effect; the last one lasts until the recovery."""
OF_A_FILE = "file_exists"
"""Says that a unique name is taken: of a file alone, not of a thing that a user named."""


class FaultViolation(AssertionError):
    """A fault broke a promise."""


def calls_of(scenario: Scenario) -> list[str]:
    """The operations of a faultless run, in order: call N is the Nth."""
    inner = MemoryFileIO()
    fileio = FaultyFileIO(inner, {})
    run(scenario, inner, fileio)
    return [entry.op for entry in fileio.trace]


def run(scenario: Scenario, inner: FileIO, faulty: FaultyFileIO) -> tuple[list[ModelTable], bool]:
    """Run until the end or the first failure; the states that may now be visible.

    Returns the allowed models and whether the table must exist.
    """
    given, model = scenario.world
    for path, data in given.items():
        inner.make_dirs(parent_of(path))
        inner.write_once(path, data)
    models, beside = [model.copy()], scenario.beside
    theirs: tuple[bool, ...] | None = None

    def act() -> None:
        nonlocal theirs
        files = faulty if beside.fails else inner
        theirs = _visible(faulty, lambda: beside.step.engine(open_catalog(files, 4).table(NAME)))

    files: FileIO = faulty
    if beside is not None:
        files = Between(inner if beside.fails else faulty, beside.moment, act)
    created, ours = bool(scenario.given), (True,)
    try:
        catalog = open_catalog(files, 1)
        if not created:
            scenario.shape.create(catalog)
        created = True
        table = catalog.table(NAME)
    except (SimulatedCrash, TidelakeError) as error:
        _check_said(error, faulty)
        return models, created
    for step in scenario.steps:
        ours = _visible(faulty, lambda step=step: step.engine(table))
        models = _after(step, models, ours)
        if ours != (True,):
            break
    if beside is not None:
        if (ours if beside.fails else theirs) not in (None, (True,)):
            raise FaultViolation("the process without a fault did not come through")
        models = _after(beside.step, models, theirs or (False,))
    return models, True


def _visible(faulty: FaultyFileIO, act: Callable[[], object]) -> tuple[bool, ...]:
    """Do something: whether it can be seen afterwards, or both answers where nobody knows."""
    try:
        act()
    except (SimulatedCrash, OutcomeUnknownError):
        return (False, True)
    except TidelakeError as error:
        if not faulty.is_hit():
            raise  # of the scenario's own making
        _check_said(error, faulty)
        return (False,)  # a definite refusal: nothing may have become visible
    return (True,)


def _check_said(error: BaseException, faulty: FaultyFileIO) -> None:
    """Refuse the word "exists" about what is not there: no scenario makes anything twice."""
    is_of_a_name = isinstance(error, AlreadyExistsError) and error.kind != OF_A_FILE
    # a call that is sent twice meets its own file: only a store with marks can tell
    if is_of_a_name and all(e.mode in {None, FaultMode.CONFLICT} for e in faulty.trace):
        raise FaultViolation(f"nothing is there, and it was said: {error!r}")


def _after(step: Step, models: list[ModelTable], visible: tuple[bool, ...]) -> list[ModelTable]:
    """The states that may be there after a step."""
    after = []
    for model in models:
        for is_visible in visible:
            after.append(model.copy())
            if is_visible:
                step.model(after[-1])
    return after


def run_fault(
    scenario: Scenario,
    call: int,
    mode: FaultMode,
    inner: FileIO | None = None,
    *,
    recovered: set[bytes] | None = None,
    late_calls: int | None = None,
) -> None:
    """One fault, in memory or another empty store; raises FaultViolation for a broken promise.

    A late effect has the delay given, or one that the call's number chooses.

    `recovered` remembers states from which recovery was seen to succeed, and is not to outlive a
    change of the engine: faults of one scenario that leave the same bytes under the same names, and
    the same answers allowed, recover in the same way, since recovery has a seed of its own.
    """
    inner = MemoryFileIO() if inner is None else inner
    late_calls = LATE_CALLS[call % len(LATE_CALLS)] if late_calls is None else late_calls
    where = f"{scenario.name}, call {call}, {mode.name}"
    if mode is FaultMode.LATE:
        where, recovered = f"{where} by {late_calls} calls", None  # the state is not all there is
    faulty = FaultyFileIO(inner, {call: mode}, late_calls=late_calls)
    try:
        allowed, must_exist = run(scenario, inner, faulty)
        if recovered is not None:
            state = _state(inner, allowed, must_exist=must_exist)
            if state in recovered:
                return
        recover(scenario, inner, allowed, must_exist=must_exist, settle=faulty.settle)
    except FaultViolation as error:
        raise FaultViolation(f"{where} ({faulty.trace[-1:]}): {error}") from error
    except AssertionError as error:
        raise FaultViolation(f"{where} ({faulty.trace[-1:]}): {error}") from error
    except TidelakeError as error:
        raise FaultViolation(f"{where}: recovery failed: {error!r}") from error
    if recovered is not None:
        recovered.add(state)


def _state(inner: FileIO, allowed: list[ModelTable], *, must_exist: bool) -> bytes:
    """A digest of all that recovery begins with."""
    digest = hashlib.sha256(pickle.dumps((allowed, must_exist)))
    for path, size in walk(inner, WAREHOUSE):
        digest.update(f"{path}\0{size}\0".encode())
        digest.update(inner.read_bytes(path))
    return digest.digest()


def recover(
    scenario: Scenario,
    inner: FileIO,
    allowed: list[ModelTable],
    *,
    must_exist: bool,
    settle: Callable[[], bool],
) -> None:
    catalog = open_catalog(inner, 2)
    if not must_exist and NAME.split(".")[1] not in _tables(catalog):
        scenario.shape.create(catalog)
    table = _settled(scenario, catalog)
    matching = _those_that_are(allowed, table)
    if settle():  # what comes late comes behind the back of who has read already
        table = _settled(scenario, catalog)
        matching = _those_that_are(allowed, table)
    check_table(inner, LOCATION)
    check_changelog(table)
    check_nothing_lost(scenario, inner)
    model = matching[-1]
    rows = steps.rows(scenario.shape, 2, 5, "z")
    table.write(arrow_of(scenario.shape, rows))
    model.apply(rows)
    if content_of(_settled(scenario, catalog)) != model.content():
        raise FaultViolation("a commit after recovery reads wrong")
    check_table(inner, LOCATION)
    check_changelog(catalog.table(NAME))
    check_nothing_lost(scenario, inner)


def _those_that_are(allowed: list[ModelTable], table) -> list[ModelTable]:
    got = content_of(table)
    matching = [m for m in allowed if m.content() == got]
    if not matching:
        raise FaultViolation(f"{got} is none of {[m.content() for m in allowed]}")
    return matching


def check_nothing_lost(scenario: Scenario, inner: FileIO) -> None:
    """Of a table that expires: what snapshots, tags and kept changelogs need is there."""
    if scenario.shape.option("snapshot.num-retained.max") is None:
        return
    lost = missing(inner, LOCATION)
    if lost:
        raise FaultViolation(f"gone, and needed: {lost}")


def check_changelog(table) -> None:
    """What the table's changelog says, from its beginning, is what the table holds.

    That of full compactions is as far as the last level, that of lookups as far as level 0 is
    empty; the input is the whole story if its rows are applied one after the other.
    """
    producer = table.options.raw.get("changelog-producer", "none")
    if producer == "none":
        return
    state: dict = {}
    log = table.handle.snapshots
    newest = table.latest_snapshot_id or 0
    told = [number for number in range(1, newest + 1) if log.is_kept(number)]
    if told != list(range(newest - len(told) + 1, newest + 1)):
        raise FaultViolation(f"the changelogs there are, {told}, have gaps before {newest}")
    if told and told[0] > 1:
        return  # what came before has expired
    for snapshot_id in told:
        read = table.changes(snapshot_id - 1, snapshot_id, mode="changelog").to_pylist()
        changes = [tuple(row.values()) for row in read]
        if producer == "input":
            for kind, key, *row in changes:
                state.pop(key, None)
                if kind in ("+I", "+U"):
                    state[key] = (key, *row)
        else:
            state = replay(state, changes)
        if producer == "lookup" and not (
            log.load_or_changelog(snapshot_id).commit_kind == "COMPACT"
            and _all_looked_up(table, snapshot_id)
        ):
            continue
        if not table.fileio.exists(table.handle.paths.snapshot(snapshot_id)):
            continue
        view = table.system_table("ro") if producer == "full-compaction" else table
        rows = map(tuple, map(dict.values, view.to_arrow(snapshot_id=snapshot_id).to_pylist()))
        held = {row[0]: row for row in rows}
        if state != held:
            raise FaultViolation(f"snapshot {snapshot_id}: {state} is logged and {held} is there")


def _all_looked_up(table, snapshot_id: int) -> bool:
    """Whether level 0 is empty: another process may have committed since a compaction began."""
    files = table.system_table("files").to_arrow(snapshot_id=snapshot_id, columns=["level"])
    return 0 not in files["level"].to_pylist()


def _settled(scenario: Scenario, catalog):
    table = catalog.table(NAME)
    if scenario.settle is None:
        return table
    scenario.settle(table)
    return catalog.table(NAME)


def _tables(catalog) -> list[str]:
    return catalog.list_tables("db") if "db" in catalog.list_databases() else []


def faults_of(
    scenario: Scenario, modes: Iterable[FaultMode] | None = None
) -> Iterator[tuple[int, FaultMode]]:
    """Every (call, mode) of a scenario in which the call fails at all."""
    for number, op in enumerate(calls_of(scenario), start=1):
        for mode in modes or list(FaultMode):
            if mode.affects(op):
                yield number, mode


def modes_in_turn(scenario: Scenario, step: int = 1) -> Iterator[tuple[int, FaultMode]]:
    """Every so manieth call once, each in another mode than the one of its kind before it."""
    turns: dict[str, int] = {}
    for number, op in itertools.islice(enumerate(calls_of(scenario), start=1), None, None, step):
        modes = [mode for mode in FaultMode if mode.affects(op)]
        turn = turns.get(op, 0)
        turns[op] = turn + 1
        yield number, modes[turn % len(modes)]


def all_faults(
    modes: Iterable[FaultMode] | None = None,
) -> Iterator[tuple[Scenario, int, FaultMode]]:
    """Every (scenario, call, mode)."""
    for scenario in scenarios():
        for call, mode in faults_of(scenario, modes):
            yield scenario, call, mode
