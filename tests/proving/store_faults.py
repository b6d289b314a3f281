"""What a store may say of a put that is not so: it conflicts where nothing is, or comes late.

And a put that comes late because its writer was: into a table created again under the name.

Each is tried on every put of a table's life, in memory; `tests/unit/fileio/object_store` does the
same to the client on the wire. Last a put under a number that others had, and that has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proving.fsck import check_table, walk
from proving.interleave import Meddled
from proving.world import LOCATION, NAME, WAREHOUSE, Shape, arrow_of, content_of, open_catalog
from tidelake.errors import ConflictError, OutcomeUnknownError, TidelakeError
from tidelake.fileio import FileIO, MemoryFileIO, OpenDirectory
from tidelake.telemetry import ManualClock
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

SHAPE = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("changelog-producer", "input"),
        ("changelog.num-retained.max", "30"),
    ),
)
DELAYS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 1000)
"""Calls that see nothing of the put; the last one lasts until the commit has ended."""


def _rows(key: int) -> list[dict]:
    return [{"k": key, "v": f"v{key}", "n": key, "x": None}]


def _life(fileio: FileIO) -> list[int]:
    """Each thing that is put under a name that is not random; the keys in the end."""
    catalog = open_catalog(fileio, 1)
    SHAPE.create(catalog)
    table = catalog.table(NAME)
    for key in range(2):
        table.write(arrow_of(SHAPE, _rows(key)))
    table.tags.create("a")
    table.tags.rename("a", "b")
    table.write(arrow_of(SHAPE, _rows(2)))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)  # its changelogs are kept
    table.rollback_to(tag="b")  # whose snapshot has expired, and is put back
    table.write(arrow_of(SHAPE, _rows(3)))
    return [row["k"] for row in content_of(table)]


def check_conflicts_where_nothing_is() -> None:
    """A put that conflicts with nothing changes nothing: no "exists", and nothing is left out."""
    trace = FaultyFileIO(MemoryFileIO())
    expected = _life(trace)
    assert expected == [0, 1, 3]
    ops = {"put_if_absent", "write_once"}
    for entry in trace.trace:
        if entry.op not in ops:
            continue
        inner = MemoryFileIO()
        try:
            found = _life(FaultyFileIO(inner, {entry.call: FaultMode.CONFLICT}))
        except TidelakeError as error:
            raise AssertionError(f"{entry.path} conflicts with nothing, and {error!r}") from error
        assert found == expected, f"{entry.path}: {found}"
        check_table(inner, LOCATION)
        for name in ("tag/tag-b", "schema/schema-0", "changelog/changelog-1"):
            assert inner.exists(f"{LOCATION}/{name}"), f"{name} was left out after {entry.path}"


def _late_puts() -> Iterator[tuple[MemoryFileIO, FaultyFileIO]]:
    """A table and its storage, on which the put of the next snapshot is late, by each delay."""
    for rival in (False, True):
        for delay in DELAYS:
            inner = Meddled()
            SHAPE.create(open_catalog(inner, 1))
            theirs = open_catalog(inner, 3).table(NAME)
            theirs.write(arrow_of(SHAPE, _rows(0)))
            call = _call_of_the_put(inner)
            if rival:
                inner.meddle = lambda theirs=theirs: theirs.write(arrow_of(SHAPE, _rows(7)))
            yield inner, FaultyFileIO(inner, {call: FaultMode.LATE}, late_calls=delay)


def _call_of_the_put(inner: MemoryFileIO) -> int:
    copy = MemoryFileIO()
    for path, _ in walk(inner, WAREHOUSE):
        copy.write_once(path, inner.read_bytes(path))
    trace = FaultyFileIO(copy)
    open_catalog(trace, 2).table(NAME).write(arrow_of(SHAPE, _rows(1)))
    return next(e.call for e in trace.trace if e.op == "put_if_absent" and "/snapshot-" in e.path)


def check_late_puts() -> None:
    """What was refused never appears, what was acknowledged is there once, whenever the put lands.

    A rival's commit may have the number meanwhile, or take the next one.
    """
    for inner, faulty in _late_puts():
        try:
            open_catalog(faulty, 2).table(NAME).write(arrow_of(SHAPE, _rows(1)))
            said = "acknowledged"
        except OutcomeUnknownError:
            said = "unknown"
        except TidelakeError:
            said = "refused"
        _judge(inner, said)
        faulty.settle()
        _judge(inner, said)
        open_catalog(inner, 4).table(NAME).write(arrow_of(SHAPE, _rows(9)))
        _judge(inner, said)


def _judge(inner: MemoryFileIO, said: str) -> None:
    keys = [row["k"] for row in content_of(open_catalog(inner, 5).table(NAME))]
    counts = {"acknowledged": (1,), "refused": (0,), "unknown": (0, 1)}[said]
    assert keys.count(1) in counts, f"{said}, and there are {keys}"
    check_table(inner, LOCATION)


class _PathsOnly(Meddled):
    """A store: a directory is only a path."""

    @property
    def holds_directories(self) -> bool:
        return False

    def _resolved(self, path: str, within: OpenDirectory | None) -> str:
        return super()._resolved(path, None)


def check_late_commits_to_dropped_tables() -> None:
    """Right before its put the table goes, and comes again: nobody takes what lands there.

    The new table has fewer snapshots, as many, or none. Its writers and readers act right behind
    the put, before the writer looks again; and when it died there.
    """
    for dies in (False, True):
        for new_rows in (0, 1, 2):
            _late_commit(new_rows, dies=dies)


def _late_commit(new_rows: int, *, dies: bool) -> None:
    files = _PathsOnly()
    clock = ManualClock(tick_ms=1)
    catalog = open_catalog(files, 1, clock=clock)
    SHAPE.create(catalog)
    catalog.table(NAME).write(arrow_of(SHAPE, _rows(0)))
    catalog.table(NAME).write(arrow_of(SHAPE, _rows(1)))
    own: list[int] = []

    def others() -> None:
        other = open_catalog(files, 3, clock=clock)
        other.drop_table(NAME)
        SHAPE.create(other)
        for key in range(10, 10 + new_rows):
            other.table(NAME).write(arrow_of(SHAPE, _rows(key)))
            own.append(key)

    def behind() -> None:
        other = open_catalog(files, 4, clock=clock).table(NAME)
        assert [row["k"] for row in content_of(other)] == own
        kind = None
        try:
            other.with_options({"commit.max-retries": "0"}).write(arrow_of(SHAPE, _rows(20)))
            own.append(20)
        except ConflictError as error:
            kind = error.kind
        assert kind == ("snapshot_of_dropped_table" if new_rows == 2 else None)
        assert [row["k"] for row in content_of(other)] == own

    late = _Around(files, "/snapshot-3", before=others, behind=behind, dies=dies)
    ended: BaseException | None = None
    try:
        open_catalog(late, 2, clock=clock).table(NAME).write(arrow_of(SHAPE, _rows(2)))
    except (TidelakeError, SimulatedCrash) as error:
        ended = error
    assert ended is not None, "a commit to a dropped table is acknowledged"
    table = open_catalog(files, 5, clock=clock).table(NAME)
    assert [row["k"] for row in content_of(table)] == own
    if dies:  # else its writer took it back
        table.rollback_to(table.latest_snapshot_id)
    table.write(arrow_of(SHAPE, _rows(30)))
    assert [row["k"] for row in content_of(table)] == [*own, 30]
    check_table(files, LOCATION)


class _Around:
    """The storage of a writer; others act right before and right behind one put, once."""

    def __init__(
        self,
        inner: FileIO,
        name: str,
        *,
        before: Callable[[], None],
        behind: Callable[[], None],
        dies: bool,
    ) -> None:
        self._inner, self._name, self._dies = inner, name, dies
        self._before, self._behind = before, behind

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: bytes, **held: OpenDirectory) -> bool:
        if not path.endswith(self._name):
            return self._inner.put_if_absent(path, data, **held)
        self._before()
        done = self._inner.put_if_absent(path, data, **held)
        assert done, "the name is free in the new table"
        try:
            self._behind()
        except TidelakeError as error:  # the writer whose put this is would take it for its own
            raise AssertionError(f"whoever came behind it met {error!r}") from error
        if self._dies:
            raise SimulatedCrash
        return done


def check_numbers_that_expired() -> None:
    """Right before a put others take its number, and their snapshot expires: it is made again."""
    for files in (Meddled, _PathsOnly):
        for before in (0, 2):
            _number_that_expired(files(), before)


def _number_that_expired(files: Meddled, before: int) -> None:
    shape = Shape(("k",), (), None, (("bucket", "1"), ("write-only", "true")))
    shape.create(open_catalog(files, 1))
    ours = open_catalog(files, 2).table(NAME)
    for key in range(before):
        ours.write(arrow_of(shape, _rows(key)))

    def others() -> None:
        theirs = open_catalog(files, 3).table(NAME)
        for key in (50, 51, 52):
            theirs.write(arrow_of(shape, _rows(key)))
        theirs.maintenance.expire_snapshots(retain_max=1, retain_min=1)

    files.meddle = others
    ours.write(arrow_of(shape, _rows(90)))
    keys = [row["k"] for row in content_of(open_catalog(files, 4).table(NAME))]
    assert sorted(keys) == [*range(before), 50, 51, 52, 90], f"a commit is lost: {keys}"
    check_table(files, LOCATION)


CHECKS = (
    check_conflicts_where_nothing_is,
    check_late_puts,
    check_late_commits_to_dropped_tables,
    check_numbers_that_expired,
)
