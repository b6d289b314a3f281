"""Enumerated faults: every FileIO call of a scenario fails in every mode, one after another.

For each (call, mode): run the scenario with that one fault; whatever happens, reopen on healthy
storage and check that what was acknowledged is there, that what was not is there wholly or not at
all, that the files pass fsck, and that the table still takes a commit.

Where two processes work at once, one acts in the midst of the other, and the calls of one of them
fail; a crash ends that one alone, and the other must come through.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import tidelake
from proving.changelog import replay
from proving.fsck import check_table, walk
from proving.interleave import Between
from proving.model import MergedTable, ModelTable
from proving.world import LOCATION, NAME, WAREHOUSE, Shape, arrow_of, content_of, open_catalog
from tidelake.errors import OutcomeUnknownError, TidelakeError
from tidelake.fileio import FaultMode, FaultyFileIO, FileIO, MemoryFileIO, SimulatedCrash, parent_of

PK = Shape(("k",), (), None, (("bucket", "1"), ("num-sorted-run.compaction-trigger", "2")))
PARTITIONED = Shape(("p", "k"), ("p",), None, (("bucket", "2"),))
APPEND = Shape((), (), None, (("bucket", "-1"),))
DYNAMIC = Shape(("k",), (), None, (("bucket", "-1"), ("dynamic-bucket.target-row-num", "3")))
INDEXED = Shape(
    (),
    (),
    None,
    (("file-index.bloom-filter.columns", "k"), ("file-index.in-manifest-threshold", "1 b")),
)
MARKED = Shape(
    (), (), None, (("deletion-vectors.enabled", "true"), ("compaction.min.file-num", "2"))
)
INPUT_LOG = Shape(("k",), (), None, (("bucket", "1"), ("changelog-producer", "input")))
LOOKUP_LOG = Shape(("k",), (), None, (("bucket", "1"), ("changelog-producer", "lookup")))
MARKED_KEYS = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("deletion-vectors.enabled", "true"),
        ("changelog-producer", "lookup"),
    ),
)
JOB = Shape(
    ("k",),
    (),
    None,
    (("bucket", "1"), ("write-only", "true"), ("changelog-producer", "lookup")),
)
FULL_LOG = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("changelog-producer", "full-compaction"),
        ("full-compaction.delta-commits", "1"),
    ),
)
POSTPONE = Shape(("k",), (), None, (("bucket", "-2"),))
GROUPED = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("merge-engine", "partial-update"),
        ("fields.n.sequence-group", "v"),
        ("partial-update.remove-record-on-sequence-group", "n"),
        ("changelog-producer", "lookup"),
    ),
)
SUMS = (
    ("bucket", "1"),
    ("merge-engine", "aggregation"),
    ("fields.n.aggregate-function", "sum"),
)
FULL_SUMS = Shape(("k",), (), None, (*SUMS, ("changelog-producer", "full-compaction")))
LOOKUP_SUMS = Shape(("k",), (), None, (*SUMS, ("changelog-producer", "lookup")))
JOB_SUMS = Shape(
    ("k",), (), None, (*SUMS, ("changelog-producer", "lookup"), ("write-only", "true"))
)
FIRST_ROW = Shape(
    ("k",),
    (),
    None,
    (("bucket", "1"), ("merge-engine", "first-row"), ("changelog-producer", "lookup")),
)


def _rows(shape: Shape, start: int, count: int, tag: str) -> list[dict]:
    rows = []
    for i in range(start, start + count):
        row: dict = {}
        if shape.partition_keys:
            row["p"] = "ab"[i % 2]
        rows.append({**row, "k": i, "v": f"{tag}{i}", "n": i, "x": None})
    return rows


@dataclass
class Step:
    """One operation of a scenario, on the engine and on the model."""

    name: str
    engine: Callable
    model: Callable[[ModelTable], None]


def _write(shape: Shape, rows, deletes=None) -> Step:
    kinds = None if deletes is None else ["-D" if d else "+I" for d in deletes]
    return Step(
        "write",
        lambda table: table.write(arrow_of(shape, rows), row_kinds=kinds),
        lambda model: model.apply(rows, deletes),
    )


def _overwrite(shape: Shape, rows) -> Step:
    return Step(
        "overwrite",
        lambda table: table.write(arrow_of(shape, rows), mode="overwrite"),
        lambda model: model.overwrite(rows, dynamic=True),
    )


def _compact(*, full: bool) -> Step:
    return Step("compact", lambda table: table.compact(full=full), lambda _: None)


def _drop(value: str) -> Step:
    def model(table: ModelTable) -> None:
        kept = [r for r in table.content() if r["p"] != value]
        table.overwrite(kept, dynamic=False)

    return Step("drop", lambda table: table.drop_partitions([{"p": value}]), model)


def _delete(key: int) -> Step:
    def model(table: ModelTable) -> None:
        gone = [r for r in table.content() if r["k"] == key]
        table.apply(gone, [True] * len(gone))

    return Step("delete", lambda table: table.delete(tidelake.col("k") == key), model)


def _delete_marked(key: int) -> Step:
    return Step(
        "delete",
        lambda table: table.delete(tidelake.col("k") == key),
        lambda model: model.remove("k", key),
    )


def _update(key: int, tag: str) -> Step:
    return Step(
        "update",
        lambda table: table.update({"v": tag}, tidelake.col("k") == key),
        lambda model: model.update("k", key, {"v": tag}),
    )


def _tag(name: str) -> Step:
    return Step("tag", lambda table: table.create_tag(name), lambda _: None)


def _roll_back(shape: Shape, rows: list[dict]) -> Step:
    """Back to the first snapshot, which these rows made."""

    def model(table: ModelTable) -> None:
        table.overwrite([], dynamic=False)
        table.apply(rows)

    return Step("rollback", lambda table: table.rollback_to(1), model)


def _truncate() -> Step:
    return Step(
        "truncate",
        lambda table: table.truncate(),
        lambda model: model.overwrite([], dynamic=False),
    )


def _rescale(buckets: int) -> Step:
    return Step("rescale", lambda table: table.rescale_bucket(buckets), lambda _: None)


def _renew(column: str, type_: str, after: str) -> Step:
    """ALTER: the column goes and another of its name comes, null in the rows there are."""
    changes = (
        tidelake.DropColumn(column),
        tidelake.AddColumn(column, type_, None, tidelake.Position.after(after)),
    )
    return Step(
        "alter",
        lambda table: table.alter(*changes),
        lambda model: model.renew(column),
    )


@dataclass
class Beside:
    """Another process, which acts in the midst of a scenario's steps."""

    step: Step
    moment: Callable[[str, bytes], bool]
    """As of `Between`."""
    fails: bool
    """Whether its calls are those that fail, and not those of the steps."""


@dataclass
class Scenario:
    """A table and the operations on it."""

    name: str
    shape: Shape
    steps: list[Step] = field(default_factory=list)
    settle: Callable | None = None
    """What makes all that was written visible, and a table that stopped half-way writable."""
    given: list[Step] = field(default_factory=list)
    """What was done before, without a fault; if there is any, the table is there too."""
    beside: Beside | None = None

    @cached_property
    def world(self) -> tuple[dict[str, bytes], ModelTable]:
        """What was given: the files there are, and the model."""
        files, model = MemoryFileIO(), _model_of(self.shape)
        if self.given:
            catalog = open_catalog(files, 3)
            self.shape.create(catalog)
            for step in self.given:
                step.engine(catalog.table(NAME))
                step.model(model)
        return {path: files.read_bytes(path) for path, _ in walk(files, WAREHOUSE)}, model


def _made_by_engines() -> list[Scenario]:
    """Parts of rows, sums and first rows, each merged, looked up and logged by a compaction."""
    parts = [
        {"k": 0, "v": None, "n": None, "x": 1.5},  # says nothing of the group
        {"k": 1, "v": "gone", "n": 9, "x": None},
        {"k": 2, "v": "new", "n": 9, "x": 0.5},
        {"k": 3, "v": "old", "n": 0, "x": 2.5},
        {"k": 7, "v": None, "n": None, "x": 3.5},
    ]
    return [
        Scenario(
            "partial update with lookups",
            GROUPED,
            [_write(GROUPED, parts, [row["k"] == 1 for row in parts])],
            settle=lambda table: table.compact(),
            given=[_write(GROUPED, _rows(GROUPED, 0, 60, "a"))],
        ),
        Scenario(
            "aggregation with full compactions",
            FULL_SUMS,
            [
                _write(FULL_SUMS, _rows(FULL_SUMS, 2, 4, "b"), [False, True, False, False]),
                _compact(full=True),
            ],
            given=[_write(FULL_SUMS, _rows(FULL_SUMS, 0, 4, "a")), _compact(full=True)],
        ),
        Scenario(
            "first rows with lookups",
            FIRST_ROW,
            [_write(FIRST_ROW, _rows(FIRST_ROW, 58, 4, "b"))],
            settle=lambda table: table.compact(),
            given=[_write(FIRST_ROW, _rows(FIRST_ROW, 0, 60, "a"))],
        ),
    ]


def _of_two_processes() -> list[Scenario]:
    """A writer commits to a bucket between a compaction's plan and its commit; sums tell of each.

    A job meets it when it begins its first file, and can keep what it compacts. A writer that
    compacts meets another such writer when it is about to publish, and has to let it go.
    """
    jobs, writers = [], []
    for fails in (False, True):
        who = "the other fails" if fails else "the first fails"
        jobs.append(
            Scenario(
                f"compaction job and writer, {who}",
                JOB_SUMS,
                [_compact(full=True)],
                settle=lambda table: table.compact(),
                given=[
                    _write(JOB_SUMS, _rows(JOB_SUMS, 0, 4, "a")),
                    _write(JOB_SUMS, _rows(JOB_SUMS, 2, 4, "b")),
                ],
                beside=Beside(_late(JOB_SUMS), lambda path, _: "/bucket-0/" in path, fails),
            )
        )
        writers.append(
            Scenario(
                f"two writers that compact, {who}",
                LOOKUP_SUMS,
                [_write(LOOKUP_SUMS, _rows(LOOKUP_SUMS, 2, 4, "b"))],
                settle=lambda table: table.compact(),
                given=[_write(LOOKUP_SUMS, _rows(LOOKUP_SUMS, 0, 4, "a"))],
                beside=Beside(_late(LOOKUP_SUMS), lambda _, data: b'"COMPACT"' in data, fails),
            )
        )
    return [*jobs, *writers]


def _late(shape: Shape) -> Step:
    """New rows, rows of old keys, and a row taken back."""
    return _write(shape, _rows(shape, 1, 6, "c"), [i == 2 for i in range(6)])


def scenarios() -> list[Scenario]:
    """Create, append, upsert, compact, overwrite, log, postpone, rescale, drop, alter, merge."""
    first, second = _rows(PK, 0, 6, "a"), _rows(PK, 3, 6, "b")
    return [
        Scenario("append", APPEND, [_write(APPEND, _rows(APPEND, 0, 4, "a"))] * 2),
        Scenario(
            "upsert with compaction",
            PK,
            [
                _write(PK, first),
                _write(PK, second, [i % 3 == 0 for i in range(6)]),
                _write(PK, _rows(PK, 1, 3, "c")),
                _compact(full=True),
            ],
        ),
        Scenario(
            "overwrite",
            PARTITIONED,
            [
                _write(PARTITIONED, _rows(PARTITIONED, 0, 4, "a")),
                _overwrite(
                    PARTITIONED, [r for r in _rows(PARTITIONED, 0, 4, "o") if r["p"] == "a"]
                ),
            ],
        ),
        Scenario(
            "postpone",
            POSTPONE,
            [
                _write(POSTPONE, _rows(POSTPONE, 0, 4, "a")),
                _write(POSTPONE, _rows(POSTPONE, 2, 4, "b"), [False, True, False, False]),
                _compact(full=True),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "rescale",
            PK,
            [_write(PK, _rows(PK, 0, 4, "a")), _rescale(2)],
            settle=lambda table: table.rescale_bucket(),
        ),
        Scenario(
            "drop and truncate",
            PARTITIONED,
            [
                _write(PARTITIONED, _rows(PARTITIONED, 0, 4, "a")),
                _drop("a"),
                _truncate(),
            ],
        ),
        Scenario(
            "dynamic buckets",
            DYNAMIC,
            [
                _write(DYNAMIC, _rows(DYNAMIC, 0, 5, "a")),
                _write(DYNAMIC, _rows(DYNAMIC, 3, 5, "b"), [False, True, False, False, False]),
            ],
        ),
        Scenario("index files", INDEXED, [_write(INDEXED, _rows(INDEXED, 0, 4, "a"))]),
        Scenario(
            "deletion vectors",
            MARKED,
            [
                _write(MARKED, _rows(MARKED, 0, 3, "a")),
                _write(MARKED, _rows(MARKED, 3, 3, "b")),
                _delete_marked(1),
                _delete_marked(4),
                _compact(full=False),
                _delete_marked(2),
                _update(5, "u"),
            ],
        ),
        Scenario(
            "rows rewritten",
            APPEND,
            [
                _write(APPEND, _rows(APPEND, 0, 3, "a")),
                _write(APPEND, _rows(APPEND, 3, 1, "b")),
                _update(1, "u"),
                _delete_marked(2),
                _delete_marked(3),
            ],
        ),
        Scenario(
            "changelog of the input",
            INPUT_LOG,
            [
                _write(INPUT_LOG, _rows(INPUT_LOG, 0, 4, "a")),
                _write(INPUT_LOG, _rows(INPUT_LOG, 2, 3, "b"), [False, True, False]),
            ],
        ),
        Scenario(
            "changelog of lookups",
            LOOKUP_LOG,
            [
                _write(LOOKUP_LOG, _rows(LOOKUP_LOG, 0, 60, "a")),
                _write(LOOKUP_LOG, _rows(LOOKUP_LOG, 58, 4, "b"), [False, True, False, False]),
            ],
        ),
        Scenario(
            "deletion vectors of lookups",
            MARKED_KEYS,
            [
                _write(MARKED_KEYS, _rows(MARKED_KEYS, 0, 60, "a")),
                _write(MARKED_KEYS, _rows(MARKED_KEYS, 58, 4, "b"), [False, True, False, False]),
                _delete(7),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "compaction as a job",
            JOB,
            [
                _write(JOB, _rows(JOB, 0, 6, "a")),
                _write(JOB, _rows(JOB, 3, 6, "b"), [i % 3 == 0 for i in range(6)]),
                _compact(full=True),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "changelog of full compactions",
            FULL_LOG,
            [
                _write(FULL_LOG, _rows(FULL_LOG, 0, 4, "a")),
                _write(FULL_LOG, _rows(FULL_LOG, 2, 3, "b"), [False, True, False]),
            ],
        ),
        Scenario(
            "rollback",
            APPEND,
            [
                _write(APPEND, _rows(APPEND, 0, 1, "a")),
                _write(APPEND, _rows(APPEND, 1, 1, "b")),
                _tag("t"),
                _roll_back(APPEND, _rows(APPEND, 0, 1, "a")),
            ],
        ),
        Scenario(
            "delete, update and tag",
            PK,
            [_write(PK, first), _tag("t"), _delete(2), _update(3, "u")],
        ),
        Scenario(
            "alter",
            PK,
            [
                _write(PK, first),
                _renew("n", "INT", "v"),
                _compact(full=True),
            ],
        ),
        *_made_by_engines(),
        *_of_two_processes(),
    ]


class FaultViolation(AssertionError):
    """A fault broke a promise."""


def calls_of(scenario: Scenario) -> list[str]:
    """The operations of a faultless run, in order: call N is the Nth."""
    inner = MemoryFileIO()
    fileio = FaultyFileIO(inner, {})
    _run(scenario, inner, fileio)
    return [entry.op for entry in fileio.trace]


def _run(scenario: Scenario, inner: FileIO, faulty: FaultyFileIO) -> tuple[list[ModelTable], bool]:
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
    except (SimulatedCrash, TidelakeError):
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


def _model_of(shape: Shape) -> ModelTable:
    if shape.engine in ("partial-update", "aggregation"):
        return MergedTable(shape.keys, options=dict(shape.options))
    return ModelTable(shape.keys, shape.partition_keys, shape.sequence_field, engine=shape.engine)


def _visible(faulty: FaultyFileIO, act: Callable[[], object]) -> tuple[bool, ...]:
    """Do something: whether it can be seen afterwards, or both answers where nobody knows."""
    try:
        act()
    except (SimulatedCrash, OutcomeUnknownError):
        return (False, True)
    except TidelakeError:
        if all(entry.mode is None for entry in faulty.trace):
            raise  # of the scenario's own making
        return (False,)  # a definite refusal: nothing may have become visible
    return (True,)


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
) -> None:
    """One fault, in memory or another empty store; raises FaultViolation for a broken promise.

    `recovered` remembers states from which recovery was seen to succeed, and is not to outlive a
    change of the engine: faults of one scenario that leave the same bytes under the same names, and
    the same answers allowed, recover in the same way, since recovery has a seed of its own.
    """
    inner = MemoryFileIO() if inner is None else inner
    where = f"{scenario.name}, call {call}, {mode.name}"
    faulty = FaultyFileIO(inner, {call: mode})
    try:
        allowed, must_exist = _run(scenario, inner, faulty)
        if recovered is not None:
            state = _state(inner, allowed, must_exist=must_exist)
            if state in recovered:
                return
        _recover(scenario, inner, allowed, must_exist=must_exist)
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


def _recover(scenario: Scenario, inner, allowed: list[ModelTable], *, must_exist: bool) -> None:
    catalog = open_catalog(inner, 2)
    if not must_exist and NAME.split(".")[1] not in _tables(catalog):
        scenario.shape.create(catalog)
    table = _settled(scenario, catalog)
    got = content_of(table)
    matching = [m for m in allowed if m.content() == got]
    if not matching:
        raise FaultViolation(f"{got} is none of {[m.content() for m in allowed]}")
    check_table(inner, LOCATION)
    check_changelog(table)
    model = matching[-1]
    rows = _rows(scenario.shape, 2, 5, "z")
    table.write(arrow_of(scenario.shape, rows))
    model.apply(rows)
    if content_of(_settled(scenario, catalog)) != model.content():
        raise FaultViolation("a commit after recovery reads wrong")
    check_table(inner, LOCATION)
    check_changelog(catalog.table(NAME))


def check_changelog(table) -> None:
    """What the table's changelog says, from its beginning, is what the table holds.

    That of full compactions is as far as the last level, that of lookups as far as level 0 is
    empty; the input is the whole story if its rows are applied one after the other.
    """
    producer = table.options.raw.get("changelog-producer", "none")
    if producer == "none":
        return
    state: dict = {}
    kinds = table.history()["commit_kind"].to_pylist()
    for snapshot_id in range(1, (table.latest_snapshot_id or 0) + 1):
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
            kinds[snapshot_id - 1] == "COMPACT" and _all_looked_up(table, snapshot_id)
        ):
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


def modes_in_turn(scenario: Scenario) -> Iterator[tuple[int, FaultMode]]:
    """Every call of a scenario once, each in another mode than the one of its kind before it."""
    turns: dict[str, int] = {}
    for number, op in enumerate(calls_of(scenario), start=1):
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
