"""Rows of a deletion vector are left out, whatever else a read leaves out or asks for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.format.rows import batch_of, field, write

from tidelake.format import FormatOptions, read_batches
from tidelake.format.parquet import reader
from tidelake.types.predicate import Compare

ROWS = 200
FIELDS = (field(0, "k", "BIGINT"), field(1, "t", "STRING"))
BATCH = batch_of(FIELDS, [list(range(ROWS)), [f"row {i // 10}" for i in range(ROWS)]])
FILES = {}


def files_of(file_format):
    """One file per format, of several row groups or blocks."""
    if file_format not in FILES:
        path = f"/t/bucket-0/data-1.{file_format}"
        options = FormatOptions(file_format, row_group_rows=30)
        FILES[file_format] = write(BATCH, FIELDS, path=path, options=options)[0], path
    return FILES[file_format]


@settings(deadline=None, max_examples=examples(40))
@given(
    st.sampled_from(["parquet", "orc", "avro"]),
    st.sets(st.integers(0, ROWS - 1)) | st.just(set(range(ROWS))) | st.just(set(range(60, 150))),
    st.none() | st.integers(-5, ROWS + 5),
    st.integers(1, 70),
    st.sampled_from([("k", "t"), ("t",), ()]),
    st.none() | st.sets(st.integers(0, ROWS - 1)) | st.just(set(range(60, 150))),
)
def test_deleted_rows_are_left_out(file_format, deleted, bound, batch_rows, names, wanted):
    files, path = files_of(file_format)
    predicate = None if bound is None else Compare(">=", "k", bound)
    batches = list(
        read_batches(
            files,
            path,
            [f for f in FIELDS if f.name in names],
            predicate=predicate,
            predicate_fields=FIELDS,
            batch_rows=batch_rows,
            deleted=np.array(sorted(deleted), np.int64),
            wanted=None if wanted is None else np.array(sorted(wanted), np.int64),
        )
    )
    asked = set(range(ROWS)) if wanted is None else wanted
    left = [i for i in sorted(asked - deleted) if bound is None or i >= bound]
    assert sum(b.num_rows for b in batches) == len(left)
    for name in names:
        got = [v for b in batches for v in b.column(name).to_pylist()]
        values = BATCH.column(name).to_pylist()
        assert got == [values[i] for i in left]


def test_a_skipped_row_group_moves_the_ordinals_of_those_behind_it():
    files, path = files_of("parquet")
    got = read_batches(
        files,
        path,
        FIELDS[:1],
        predicate=Compare(">=", "k", 90),
        deleted=np.array([0, 89, 90, 92, 120, 199]),
    )
    rows = [v for b in got for v in b.column("k").to_pylist()]
    assert rows == [k for k in range(90, 199) if k not in {90, 92, 120}]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_of_which_every_row_is_deleted_gives_none(file_format):
    files, path = files_of(file_format)
    assert list(read_batches(files, path, FIELDS, deleted=np.arange(ROWS))) == []


def test_row_groups_without_a_row_asked_for_are_not_read(monkeypatch):
    files, path = files_of("parquet")
    read = []
    real = reader._raw_batches

    def counted(file, groups, *how):
        read.extend(groups)
        return real(file, groups, *how)

    monkeypatch.setattr(reader, "_raw_batches", counted)
    got = read_batches(files, path, FIELDS[:1], wanted=np.array([29, 60, 199]))
    assert [v for b in got for v in b.column("k").to_pylist()] == [29, 60, 199]
    assert read == [0, 2, 6]
    assert list(read_batches(files, path, FIELDS, wanted=np.array([], np.int64))) == []
