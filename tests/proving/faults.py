"""Enumerated faults: every FileIO call of a scenario fails in every mode, one after another.

For each (call, mode): run the scenario with that one fault; whatever happens, reopen on healthy
storage and check that what was acknowledged is there, that what was not is there wholly or not at
all, that the files pass fsck, and that the table still takes a commit.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import tidelake
from proving.changelog import replay
from proving.fsck import check_table, walk
from proving.model import ModelTable
from proving.world import LOCATION, NAME, WAREHOUSE, Shape, arrow_of, content_of, open_catalog
from tidelake.errors import OutcomeUnknownError, TidelakeError
from tidelake.fileio import FaultMode, FaultyFileIO, FileIO, MemoryFileIO, SimulatedCrash

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
class Scenario:
    """A table and the operations on it."""

    name: str
    shape: Shape
    steps: list[Step] = field(default_factory=list)
    settle: Callable | None = None
    """What makes all that was written visible, and a table that stopped half-way writable."""


def scenarios() -> list[Scenario]:
    """Create, append, upsert, compact, overwrite, log, postpone, rescale, drop, alter."""
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
    ]


class FaultViolation(AssertionError):
    """A fault broke a promise."""


def calls_of(scenario: Scenario) -> list[str]:
    """The operations of a faultless run, in order: call N is the Nth."""
    fileio = FaultyFileIO(MemoryFileIO(), {})
    _run(scenario, fileio)
    return [entry.op for entry in fileio.trace]


def _run(scenario: Scenario, fileio) -> tuple[list[ModelTable], bool]:
    """Run until the end or the first failure; the states that may now be visible.

    Returns the allowed models and whether the table must exist.
    """
    model = ModelTable(
        scenario.shape.keys, scenario.shape.partition_keys, scenario.shape.sequence_field
    )
    created = False
    try:
        catalog = open_catalog(fileio, 1)
        scenario.shape.create(catalog)
        created = True
        table = catalog.table(NAME)
    except (SimulatedCrash, TidelakeError):
        return [model], created
    for step in scenario.steps:
        after = model.copy()
        step.model(after)
        try:
            step.engine(table)
        except (SimulatedCrash, OutcomeUnknownError):
            return [model, after], True
        except TidelakeError:
            # a definite refusal: nothing may have become visible
            return [model], True
        model = after
    return [model], True


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
        allowed, must_exist = _run(scenario, faulty)
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
        if (
            producer == "lookup"
            and table.history()["commit_kind"][snapshot_id - 1].as_py() != "COMPACT"
        ):
            continue
        view = table.system_table("ro") if producer == "full-compaction" else table
        rows = map(tuple, map(dict.values, view.to_arrow(snapshot_id=snapshot_id).to_pylist()))
        held = {row[0]: row for row in rows}
        if state != held:
            raise FaultViolation(f"snapshot {snapshot_id}: {state} is logged and {held} is there")


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
