"""Two writers, one moment: another commit happens exactly when ours is about to be published.

The storage calls back before each `put_if_absent` of a snapshot, so the other writer's whole commit
falls between our check and our publication. Deterministic; no processes, no luck.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa

from proving.fsck import check_table
from proving.model import ModelTable
from proving.world import LOCATION, NAME, Shape, arrow_of, content_of, open_catalog
from tidelake.fileio import ByteRange, FileIO, MemoryFileIO, OpenDirectory, OutputFile
from tidelake.table.write.transaction import WriteTransaction

SHAPE = Shape(("k",), (), None, (("bucket", "2"), ("num-sorted-run.compaction-trigger", "2")))


class Meddled(MemoryFileIO):
    """A storage that lets somebody else act right before a snapshot is published, once."""

    def __init__(self, meddle: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.meddle = meddle

    def put_if_absent(self, path: str, data: bytes, **held: OpenDirectory) -> bool:
        if self.meddle is not None and "/snapshot-" in path:
            meddle, self.meddle = self.meddle, None
            meddle()
        return super().put_if_absent(path, data, **held)


class Between:
    """The storage of one process, in whose midst another one acts, once.

    `moment` is asked, with path and data, about each file that is read, opened, published or
    deleted.
    """

    def __init__(
        self, inner: FileIO, moment: Callable[[str, bytes], bool], act: Callable[[], None]
    ) -> None:
        self._inner, self._moment, self._act = inner, moment, act

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._inner, name)

    def read_bytes(self, path: str, **held: OpenDirectory) -> bytes:
        self._meet(path, b"")
        return self._inner.read_bytes(path, **held)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self._meet(path, b"")
        return self._inner.read_range(path, offset, length)

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self._meet(path, b"")
        return self._inner.read_ranges(path, ranges)

    def open_input(self, path: str) -> pa.NativeFile:
        self._meet(path, b"")
        return self._inner.open_input(path)

    def open_output(self, path: str) -> OutputFile:
        self._meet(path, b"")
        return self._inner.open_output(path)

    def put_if_absent(self, path: str, data: bytes, **held: OpenDirectory) -> bool:
        self._meet(path, data)
        return self._inner.put_if_absent(path, data, **held)

    def delete(self, path: str, **held: OpenDirectory) -> bool:
        self._meet(path, b"")
        return self._inner.delete(path, **held)

    def _meet(self, path: str, data: bytes) -> None:
        if self._moment(path, data):
            self._moment = lambda *_: False
            self._act()


def _rows(keys: range, tag: str) -> list[dict]:
    return [{"k": k, "v": f"{tag}{k}", "n": k, "x": None} for k in keys]


def check_two_writers() -> None:
    """Both commits are there, whatever each one's compaction wanted."""
    fileio = Meddled()
    SHAPE.create(open_catalog(fileio, 1))
    ours, theirs = (open_catalog(fileio, seed).table(NAME) for seed in (2, 3))
    model = ModelTable(SHAPE.keys)
    for turn in range(4):
        mine, other = _rows(range(turn * 4, turn * 4 + 3), "a"), _rows(range(50, 56), f"b{turn}")
        fileio.meddle = lambda other=other: theirs.write(arrow_of(SHAPE, other)) and None
        ours.write(arrow_of(SHAPE, mine))
        model.apply(other)
        model.apply(mine)
    got = content_of(open_catalog(fileio, 4).table(NAME))
    assert got == model.content(), f"{len(got)} rows for {len(model.content())}"
    check_table(fileio, LOCATION)


def check_two_lookups() -> None:
    """What another writer compacted since our compaction looked keys up is not hidden by it."""
    options = {
        "bucket": "1",
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
    }
    fileio = Meddled()
    Shape(("k",), (), None, tuple(options.items())).create(open_catalog(fileio, 1))
    ours, theirs = (open_catalog(fileio, seed).table(NAME) for seed in (2, 3))
    for base in (range(9000), range(2000)):
        ours.write(arrow_of(SHAPE, _rows(base, "a")))
    late = [*_rows(range(9000, 11_000), "b"), *_rows(range(1, 2), "b")]
    fileio.meddle = lambda: theirs.write(arrow_of(SHAPE, late)) and None
    written = ours.write(arrow_of(SHAPE, _rows(range(1, 2), "c")))
    log = theirs.handle.snapshots
    appended, *compacted = (log.load(number).commit_user for number in written.snapshot_ids)
    assert compacted, "what gave way was not tried again"
    assert appended not in compacted, "the levels that it saw are no more"
    sums = {row["k"]: row["n"] for row in content_of(open_catalog(fileio, 4).table(NAME))}
    assert (len(sums), sums[0], sums[1], sums[2]) == (11_000, 0, 4, 4), sums[1]
    check_table(fileio, LOCATION)


def check_zombie() -> None:
    """A job and its twin commit under one identity at once: it is applied once."""
    fileio = Meddled()
    SHAPE.create(open_catalog(fileio, 1))
    ours, twin = (open_catalog(fileio, seed).table(NAME) for seed in (2, 3))
    rows = arrow_of(SHAPE, _rows(range(5), "z"))
    identity = {"commit_user": "job", "commit_identifier": 7}
    fileio.meddle = lambda: twin.write(rows, **identity) and None
    ours.write(rows, **identity)
    check_table(fileio, LOCATION)  # refuses an identity that is there twice
    assert open_catalog(fileio, 4).table(NAME).count() == 5


def check_hints() -> None:
    """A hint that lies (behind, ahead, garbage, gone) changes nothing."""
    fileio = MemoryFileIO()
    SHAPE.create(open_catalog(fileio, 1))
    table = open_catalog(fileio, 2).table(NAME)
    for turn in range(3):
        table.write(arrow_of(SHAPE, _rows(range(turn * 3, turn * 3 + 3), "h")))
    for hint in (b"1", b"99", b"garbage", b""):
        fileio.replace(f"{LOCATION}/snapshot/LATEST", hint)
        fileio.replace(f"{LOCATION}/snapshot/EARLIEST", hint)
        again = open_catalog(fileio, 3).table(NAME)
        assert again.count() == 9, f"hint {hint!r}: {again.count()} rows"
    again.write(arrow_of(SHAPE, _rows(range(20, 22), "h")))
    assert again.count() == 11
    check_table(fileio, LOCATION)


def check_first_rows_beside_an_overwrite() -> None:
    """Rows that came second to what is overwritten meanwhile are first then: none is left out."""
    options = (("bucket", "-1"), ("merge-engine", "first-row"), ("ignore-delete", "true"))
    shape = Shape(("k",), ("p",), None, options)  # keys that move: what is known is left out early
    fileio = Meddled()
    shape.create(open_catalog(fileio, 1))
    ours, theirs = (open_catalog(fileio, seed).table(NAME) for seed in (2, 3))
    whole = {"dynamic-partition-overwrite": "false"}

    def rows(keys: range, tag: str) -> object:
        return arrow_of(shape, [{"p": "a", **row} for row in _rows(keys, tag)])

    ours.write(rows(range(2), "a"))
    fileio.meddle = lambda: theirs.write(rows(range(50, 51), "b"), mode="overwrite", options=whole)
    ours.write(rows(range(4), "c"))
    found = [row["v"] for row in content_of(open_catalog(fileio, 4).table(NAME))]
    assert sorted(found) == ["b50", "c0", "c1", "c2", "c3"], f"half of a commit is there: {found}"
    check_table(fileio, LOCATION)


def check_base_of_another_history() -> None:
    """A rollback, and as many commits again, come right before our put: none of them is lost."""
    shape = Shape(("k",), (), None, (("bucket", "1"), ("write-only", "true")))
    fileio = Meddled()
    shape.create(open_catalog(fileio, 1))
    ours, theirs = (open_catalog(fileio, seed).table(NAME) for seed in (2, 3))
    for turn in range(3):
        ours.write(arrow_of(shape, _rows(range(turn * 10, turn * 10 + 2), "a")))

    def meddle() -> None:
        theirs.rollback_to(snapshot_id=1)
        for turn in (5, 6):
            theirs.write(arrow_of(shape, _rows(range(turn * 10, turn * 10 + 2), "b")))

    fileio.meddle = meddle
    ours.write(arrow_of(shape, _rows(range(90, 92), "c")), mode="append")
    keys = [row["k"] for row in content_of(open_catalog(fileio, 4).table(NAME))]
    assert sorted(keys) == [0, 1, 50, 51, 60, 61, 90, 91], f"a commit is lost, or came back: {keys}"
    check_table(fileio, LOCATION)


def check_base_that_expires() -> None:
    """A base whose files an expiry removes while we read them is a race that we lost."""
    write_only = Shape(("k",), (), None, (("bucket", "2"), ("write-only", "true")))
    for shape, of_delta, at_commit in itertools.product(
        (write_only, SHAPE), (False, True), (False, True)
    ):
        _check_base_that_expires(shape, of_delta=of_delta, at_commit=at_commit)


def _check_base_that_expires(shape: Shape, *, of_delta: bool, at_commit: bool) -> None:
    """The base is the one that a writer begins with, or a later one that its commit meets."""
    fileio = MemoryFileIO()
    shape.create(open_catalog(fileio, 1))
    theirs = open_catalog(fileio, 2).table(NAME)
    theirs.write(arrow_of(shape, _rows(range(2), "a")))
    missing: list[str] = []

    def arm() -> None:
        base = theirs.handle.snapshots.latest()
        missing.append(base.delta_manifest_list if of_delta else base.base_manifest_list)

    def expire() -> None:
        theirs.write(arrow_of(shape, _rows(range(10, 12), "b")))
        now = theirs.handle.snapshots.latest().time_ms
        theirs.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=now + 1)
        assert not fileio.exists(f"{LOCATION}/manifest/{missing[0]}")
        missing.append("gone")

    armed = Between(fileio, lambda path, _: path.endswith(tuple(missing)), expire)
    if not at_commit:
        arm()
    with WriteTransaction(open_catalog(armed, 3).table(NAME).handle) as ours:
        ours.add(arrow_of(shape, _rows(range(20, 22), "c")))
        if at_commit:
            theirs.write(arrow_of(shape, _rows(range(30, 32), "d")))
            arm()
        ours.commit()
    keys = {row["k"] for row in content_of(open_catalog(fileio, 4).table(NAME))}
    assert missing[1:] == ["gone"], "nobody expired the base"
    assert {0, 1, 10, 11, 20, 21} == keys - {30, 31}, f"a commit is lost: {keys}"
    check_table(fileio, LOCATION)


def check_inputs_that_expire() -> None:
    """A write whose compaction reads files that others replaced, and that expired, begins again."""
    for options in (
        {},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"deletion-vectors.enabled": "true"},
    ):
        given = {"bucket": "1", "num-sorted-run.compaction-trigger": "2", **options}
        _check_inputs_that_expire(Shape(("k",), (), None, tuple(given.items())))


def _check_inputs_that_expire(shape: Shape) -> None:
    fileio = MemoryFileIO()
    shape.create(open_catalog(fileio, 1))
    theirs = open_catalog(fileio, 2).table(NAME)
    theirs.write(arrow_of(shape, _rows(range(2), "a")))
    acted = []

    def expire() -> None:
        theirs.write(arrow_of(shape, _rows(range(10, 12), "b")))
        theirs.compact(full=True)
        now = theirs.handle.snapshots.latest().time_ms
        theirs.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=now + 1)
        acted.append(True)

    reads = Between(fileio, lambda path, _: "/data-" in path and fileio.exists(path), expire)
    ours = open_catalog(reads, 3).table(NAME)
    ours.write(arrow_of(shape, _rows(range(20, 22), "c")))
    keys = [row["k"] for row in content_of(open_catalog(fileio, 4).table(NAME))]
    assert acted, "the write compacted nothing"
    assert sorted(keys) == [0, 1, 10, 11, 20, 21], f"a commit is lost: {keys}"
    check_table(fileio, LOCATION)


CHECKS = (
    check_two_writers,
    check_two_lookups,
    check_zombie,
    check_hints,
    check_base_of_another_history,
    check_first_rows_beside_an_overwrite,
    check_base_that_expires,
    check_inputs_that_expire,
)
