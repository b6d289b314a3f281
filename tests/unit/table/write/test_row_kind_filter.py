from __future__ import annotations

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO

COLUMNS = {"k": "INT", "v": "INT", "rk": "STRING"}


def table_of(**options):
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    return catalog.create_table(
        "db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1, **options}
    )


def row(k, v, rk="+I"):
    return {"k": k, "v": v, "rk": rk}


def rows_of(table):
    return [tuple(r.values()) for r in table.to_arrow().sort_by("k").to_pylist()]


def test_a_column_says_what_a_row_does():
    """Research notes 13.1, "rowkind.field"."""
    table = table_of(**{"rowkind.field": "rk"})
    table.write([row(1, 1), row(2, 2)])
    table.write([row(1, 1, "-D")])
    assert rows_of(table) == [(2, 2, "+I")]
    table.write([row(2, 3, "-u"), row(2, 4, "+U")])
    assert rows_of(table) == [(2, 4, "+U")]


def test_kinds_beside_the_rows_win_over_the_column():
    table = table_of(**{"rowkind.field": "rk"})
    table.write([row(1, 1), row(2, 2, "-D")], row_kinds=["+I", "+I"])
    assert rows_of(table) == [(1, 1, "+I"), (2, 2, "-D")]
    table.delete("k = 2")
    assert rows_of(table) == [(1, 1, "+I")]


@pytest.mark.parametrize("wrong", [None, "", "insert"])
def test_a_text_that_is_no_kind_is_refused(wrong):
    table = table_of(**{"rowkind.field": "rk"})
    with pytest.raises(InvalidInputError, match=r"Column 'rk'.*write one of \+I, -U, \+U, -D"):
        table.write([row(1, 1), row(2, 2, wrong)])
    assert rows_of(table) == []


def test_the_column_must_be_there_and_hold_text():
    with pytest.raises(InvalidInputError, match=r"'rkk', which its option 'rowkind.field'"):
        table_of(**{"rowkind.field": "rkk"})
    with pytest.raises(InvalidInputError, match="'v' of type INT: take a text column"):
        table_of(**{"rowkind.field": "v"})


@pytest.mark.parametrize("bucket", [1, -1])
def test_old_halves_of_updates_are_left_out(bucket):
    table = table_of(**{"ignore-update-before": "true", "bucket": bucket})
    table.write([row(1, 1), row(2, 2)])
    table.write([row(1, 1), row(2, 2)], row_kinds=["-U", "-D"])
    assert rows_of(table) == [(1, 1, "+I")]


@pytest.mark.parametrize("bucket", [1, -1, -2])
def test_deletes_are_left_out(bucket):
    table = table_of(**{"ignore-delete": "true", "bucket": bucket})
    table.write([row(1, 1)])
    table.write([row(1, 1), row(2, 2)], row_kinds=["-D", "+I"])
    table.compact()
    assert rows_of(table) == [(1, 1, "+I"), (2, 2, "+I")]


def test_rescaling_asks_no_column_for_kinds():
    table = table_of(**{"rowkind.field": "rk"})
    table.write([row(1, 1), row(2, 2, "-D")], row_kinds=["+I", "+I"])
    table.rescale_bucket(3)
    assert rows_of(table) == [(1, 1, "+I"), (2, 2, "-D")]


def grouped(**options):
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    engine = {
        "bucket": 1,
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        "fields.h.sequence-group": "w",
        "fields.v.aggregate-function": "max",
    }
    columns = {"k": "INT", "v": "INT", "g": "INT", "w": "INT", "h": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=engine | options)
    table.write([{"k": 1, "v": 5, "g": 1, "w": 6, "h": 1}])
    return table


REMOVES = {"partial-update.remove-record-on-sequence-group": "h"}


@pytest.mark.parametrize(
    ("kind", "g", "h", "options"),
    [("-D", 2, 2, {}), ("-U", 2, None, {}), ("-U", 2, 2, REMOVES), ("-D", 2, None, REMOVES)],
)
def test_a_row_is_not_taken_back_from_a_group_that_cannot(kind, g, h, options):
    table = grouped(**options)
    with pytest.raises(InvalidInputError, match=r"'db\.t': Column 'v' is aggregated by 'max'"):
        table.write([{"k": 1, "v": 5, "g": g, "w": 6, "h": h}], row_kinds=[kind])
    assert table.latest_snapshot_id == 1
    assert rows_of(table) == [(1, 5, 1, 6, 1)]


@pytest.mark.parametrize(
    ("kind", "g", "h", "options", "left"),
    [
        ("-D", None, 2, {}, [(1, 5, 1, None, 2)]),
        ("-U", None, 2, REMOVES, [(1, 5, 1, None, 2)]),
        ("-D", 2, 2, REMOVES, []),
        ("-D", 2, 2, {"fields.v.ignore-retract": "true"}, [(1, 5, 2, None, 2)]),
        ("-D", 2, 2, {"ignore-delete": "true"}, [(1, 5, 1, 6, 1)]),
    ],
)
def test_a_row_is_taken_back_where_that_asks_no_function(kind, g, h, options, left):
    table = grouped(**options)
    table.write([{"k": 1, "v": 5, "g": g, "w": 6, "h": h}], row_kinds=[kind])
    assert rows_of(table) == left


@pytest.mark.parametrize("bucket", [1, -2])
def test_rows_that_are_ignored_come_into_no_file_and_are_not_numbered(bucket):
    table = table_of(**{"bucket": bucket, "ignore-delete": True, "write-only": True})
    table.write([row(k, 1) for k in (1, 2, 3)], row_kinds=["-D", "+I", "-U"])
    if bucket == -2:
        table.compact()
    [file] = table.system_table("files").to_arrow().to_pylist()
    numbers = file["min_sequence_number"], file["max_sequence_number"]
    assert (file["record_count"], numbers) == (1, (0, 0))
    assert rows_of(table) == [(2, 1, "+I")]
