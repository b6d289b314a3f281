"""Compactions that sort files by other columns than the key, bucket by bucket."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from unit.store.bucket_world import Bucket, kinds, schema_of
from unit.store.lsm.test_marking_compaction import histories

from tidelake.codec.binary_row import decode_row
from tidelake.store import ClusteredBucketWriter
from tidelake.types import RowKind, parse_type

ORDER = (parse_type("STRING"), parse_type("INT"))
OPTIONS = {
    "pk-clustering-override": "true",
    "clustering.columns": "name,v",
    "num-sorted-run.compaction-trigger": "3",
}
MARKS = {"deletion-vectors.enabled": "true"}
FIRST = {"merge-engine": "first-row"}
ADD, GONE = int(RowKind.INSERT), int(RowKind.DELETE)


class ClusteredBucket(Bucket):
    """A bucket whose files above level 0 are sorted by the columns that its options name."""

    def writer(self, **options: str):
        schema = schema_of(options={**self.schema.options, **options})
        self.schema, kept = schema, self.schema
        writer = ClusteredBucketWriter(
            self.context,
            b"\0" * 12,
            0,
            total_buckets=1,
            live_files=tuple(self.live),
            vectors=tuple(self.vectors),
        )
        self.schema = kept
        return writer

    def do(self, rows=(), kind=None, *, compact: bool | None = None, **options: str):
        """One commit; `compact` says whether fully."""
        writer = self.writer(**options)
        if rows:
            writer.write(self.batch(rows), None if kind is None else kinds(*kind))
        if compact is not None:
            writer.compact(compact)
        message = writer.prepare_commit()
        writer.close()
        self.commit(message)
        return message

    def held(self) -> dict[int, tuple[str | None, int | None]]:
        """What is seen above level 0 without a merge: sorted, no delete, each key once."""
        rows = self.raw()
        assert {row["_VALUE_KIND"] for row in rows} <= {0, 2}
        found = {row["k"]: (row["name"], row["v"]) for row in rows}
        assert len(found) == len(rows)
        for file in self.live:
            if file.level:
                places = [_place(row["name"], row["v"]) for row in self.stored(file)]
                assert places == sorted(places)
                ends = [_place(*decode_row(end, ORDER)) for end in (file.min_key, file.max_key)]
                assert ends == [places[0], places[-1]]
        return found


def _place(name, v):
    return (name is not None, name or "", v is not None, v or 0)


def bucket(spill_dir=None, **options: str) -> ClusteredBucket:
    given = {**OPTIONS, **(MARKS if "merge-engine" not in options else {}), **options}
    return ClusteredBucket(schema_of(options=given), spill_dir=spill_dir)


def test_a_write_sorts_its_rows_by_the_columns_and_marks_those_it_replaces():
    table = bucket()
    table.do([(1, "b", 1), (2, "a", 1), (3, None, 1)])
    (older,) = table.live
    assert [row["k"] for row in table.stored(older)] == [3, 2, 1]
    assert older.level == 1
    table.do([(2, "z", 2), (4, "c", 2)])
    assert older in table.live
    assert table.deleted(older) == [1]
    assert table.held() == {1: ("b", 1), 2: ("z", 2), 3: (None, 1), 4: ("c", 2)}


def test_a_delete_marks_its_row_and_does_not_stay():
    table = bucket()
    table.do([(k, "n", k) for k in range(4)])
    message = table.do([(1, None, None), (9, None, None)], kind=(GONE, GONE))
    assert message.compact_after == ()
    assert set(table.held()) == {0, 2, 3}


def test_first_rows_stay_and_later_ones_are_left_out():
    table = bucket(**FIRST)
    table.do([(1, "a", 1), (2, "b", 1)])
    message = table.do([(1, "z", 9), (3, "c", 2)])
    assert [f.row_count for f in message.compact_after] == [1]
    assert message.deletions is None
    assert table.held() == {1: ("a", 1), 2: ("b", 1), 3: ("c", 2)}


def test_a_row_that_another_writer_compacted_stays_if_its_number_is_larger():
    table = bucket()
    table.do([(k, "old", k) for k in range(3)])
    mine = table.writer()
    theirs = table.do([(1, "x", 1), (1, "theirs", 2)])  # two numbers, of which the last counts
    mine.write(table.batch([(1, "mine", 3)]))
    late = mine.prepare_commit()
    table.live += late.new_files  # its compaction gives way, as the looked-up files have changed
    assert theirs.compact_seen is not None
    assert table.do(compact=False).compact_before
    assert table.held()[1] == ("theirs", 2)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@given(history=histories())
@settings(max_examples=25, deadline=None)
def test_every_history_gives_the_rows_of_a_dict(engine, history):
    first = engine == "first-row"
    table = bucket(**(FIRST if first else {}))
    expected: dict[int, tuple[str | None, int | None]] = {}
    for how, rows in history:
        if how in ("compact", "full"):
            table.do(compact=how == "full")
        else:
            given_kinds = [GONE if gone and not first else ADD for *_, gone in rows]
            only = {"write-only": "true"} if how == "write-only" else {}
            table.do([row[:3] for row in rows], given_kinds, **only)
            for (k, name, v, _), kind in zip(rows, given_kinds, strict=True):
                if first:
                    expected.setdefault(k, (name, v))
                elif kind == ADD:
                    expected[k] = (name, v)
                else:
                    expected.pop(k, None)
        if how != "write-only":
            assert table.held() == expected
    table.do(compact=True)
    assert table.held() == expected


def test_rows_beyond_the_buffer_are_sorted_by_way_of_local_disk(tmp_path):
    spills = tmp_path / "spills"
    table = bucket(str(spills), **{"write-buffer-size": "64 kb"})
    for start in (0, 5_000):
        table.do([(k, f"n{k * 7919 % 10_007:05}", k) for k in range(start, start + 10_000)])
    table.do(compact=True)
    assert set(table.held()) == set(range(15_000))
    assert len(table.live) == 1
    assert spills.exists()
    assert not list(spills.iterdir())
