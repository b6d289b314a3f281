"""Updates: rows by a model, other commits at the same moment, what a merge would not show."""

from __future__ import annotations

import contextlib
import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.fsck import check_table
from proving.interleave import Meddled
from sizes import examples

import tidelake
from tidelake.errors import ConflictError, InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.table.write import transaction
from tidelake.table.write.result import WriteResult, joined
from tidelake.telemetry import Env

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
DV = {"deletion-vectors.enabled": "true"}
DV_64 = DV | {"deletion-vectors.bitmap64": "true"}
MAGIC_32, MAGIC_64 = bytes.fromhex("5e43f2d0"), bytes.fromhex("d1d33964")
KEYED = {
    "fixed": (["k"], [], {"bucket": "2"}),
    "dynamic": (["k"], [], {"dynamic-bucket.target-row-num": "4"}),
    "partitioned": (["p", "k"], ["p"], {"bucket": "1"}),
    "keys that move": (["k"], ["p"], {}),
    "marked": (["k"], [], {"bucket": "1"} | DV),
    "marked, 64 bit": (["k"], [], {"bucket": "1"} | DV_64),
    "lookup": (["k"], [], {"bucket": "1", "changelog-producer": "lookup"}),
    "partial update": (["k"], [], {"bucket": "1", "merge-engine": "partial-update"}),
}
APPENDED = {
    "append": ([], [], {}),
    "append, partitioned": ([], ["p"], {}),
    "append, bucketed": ([], [], {"bucket": "2", "bucket-key": "k"}),
    "append, orc": ([], [], {"file.format": "orc"}),
    "append, marked": ([], [], DV),
    "append, marked, 64 bit": ([], [], DV_64),
    "append, marked, partitioned": ([], ["p"], DV),
    "append, marked, bucketed": ([], [], {"bucket": "2", "bucket-key": "k"} | DV),
}
LAYOUTS = KEYED | APPENDED
EXPRESSIONS = ["upper(s)", "n + 1", "n*2", "s || '!'", "concat(S, 'it''s (k)')", "k - n"]
TEXTS = [
    *("n", "new (n or k)", "well-known", "a + b", "(k)", "'n + 1'", "", "100%", "n/a"),
    *("s-17", "S-7", "p/42", "s-", "s%", "-s-", "s (p)", "k-", "-n", "2026-01-01", "n: 1"),
]


def row_of(k):
    return {"p": "ab"[k % 2], "k": k, "n": k, "s": f"s{k % 5}"}


def new_table(layout="fixed", *, fileio=None, schema=SCHEMA, options=None, name="db.t"):
    keys, partition_keys, own = LAYOUTS[layout]
    catalog = tidelake.open("/w", fileio=fileio or MemoryFileIO(), env=Env.seeded(1))
    return catalog.create_table(
        name,
        schema,
        primary_keys=keys,
        partition_keys=partition_keys,
        options=own | (options or {}),
    )


def filled(layout="fixed", *, files=3, rows=6, **more):
    table = new_table(layout, **more)
    for i in range(files):
        table.write([row_of(k) for k in range(i * rows, (i + 1) * rows)])
    return table


def rows_in(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


def keys_in(table, path):
    data = pa.BufferReader(table.fileio.read_bytes(path))
    return set(pq.read_table(data, columns=["k"])["k"].to_pylist())


def checked(table, expected):
    assert rows_in(table) == sorted(expected, key=repr)
    assert table.count() == len(expected)
    check_table(
        table.fileio, table.paths.location, read_data=not table.options.raw.get("file.format")
    )


def add(column, number):
    return lambda rows: pc.add(rows[column], number)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_match_have_their_new_values_and_no_others(layout):
    table = filled(layout)
    result = table.update({"n": add("n", 100), "s": "new"}, "s = 's3' or k = 7")
    assert result.rows == 4
    model = [row_of(k) for k in range(18)]
    for row in model:
        if row["s"] == "s3" or row["k"] == 7:
            row |= {"n": row["n"] + 100, "s": "new"}
    checked(table, model)
    newest = table.latest_snapshot_id
    assert table.update({"n": 1}, "k > 1000") == WriteResult()
    assert table.latest_snapshot_id == newest
    assert table.update({"n": lambda rows: rows["k"]}).rows == 18
    checked(table, [row | {"n": row["k"]} for row in model])
    assert rows_in(table, snapshot_id=newest) == sorted(model, key=repr)


@pytest.mark.parametrize("layout", APPENDED)
def test_an_update_of_an_append_table_is_one_commit_of_old_and_new_rows(layout):
    table = filled(layout)
    files = table.system_table("files").to_arrow().num_rows
    before = table.latest_snapshot_id
    result = table.update({"n": -1}, "k = 3")
    assert result.snapshot_ids == (before + 1,)
    snapshot = table.handle.snapshots.latest()
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    after = table.system_table("files").to_arrow().num_rows
    assert after == (files + 1 if "marked" in layout else files)
    changes = table.changes(before, columns=["k", "n"]).to_pylist()
    assert sorted(map(tuple, map(dict.values, changes))) == [("+I", 3, -1), ("-D", 3, 3)]


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "marked" in name])
def test_old_rows_are_marked_by_vectors_of_the_width_that_the_table_has(layout):
    """One file of rows, larger than what comes later: a compaction marks in it, too."""
    table = new_table(layout)
    table.write([row_of(k) for k in range(2_000)])
    table.compact(full=True)
    for number in range(2):  # the second update adds to the vectors that the first one made
        table.update({"n": -1}, f"k in ({number}, {number + 7})")
    checked(table, [row_of(k) | ({"n": -1} if k in (0, 1, 7, 8) else {}) for k in range(2_000)])
    index_dir = f"{table.paths.location}/index"
    files = [f"{index_dir}/{entry.name}" for entry in table.fileio.list_dir(index_dir)]
    magics = {table.fileio.read_bytes(file)[5:9] for file in files}  # behind version and size
    assert magics == {MAGIC_64 if "64 bit" in layout else MAGIC_32}


@pytest.mark.parametrize("layout", APPENDED)
def test_rows_of_an_append_table_move_with_their_partition_and_bucket_columns(layout):
    table = filled(layout)
    table.update({"p": "c", "k": add("k", 100)}, "k in (1, 2, 3)")
    moved = [row_of(k) | {"p": "c", "k": k + 100} for k in (1, 2, 3)]
    checked(table, [*moved, *(row_of(k) for k in (0, *range(4, 18)))])
    assert table.count(where="p = 'c'") == 3
    table.compact(full=True)
    assert [r["k"] for r in rows_in(table, where="p = 'c'")] == [101, 102, 103]


@pytest.mark.parametrize("layout", ["append", "append, partitioned", "append, bucketed"])
def test_a_delete_without_vectors_rewrites_the_files_that_hold_the_rows(layout):
    table = filled(layout)
    files = set(table.system_table("files").to_arrow().column("file_path").to_pylist())
    holders = {path for path in files if {1, 3} & keys_in(table, path)}
    assert table.delete("k in (1, 3)").rows == 2
    checked(table, [row_of(k) for k in (0, 2, *range(4, 18))])
    left = set(table.system_table("files").to_arrow().column("file_path").to_pylist())
    assert files - left == holders
    assert files & left
    assert len(left) == len(files)  # one each for those rewritten
    snapshot = table.handle.snapshots.latest()
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (16, -2)
    table.delete("k < 6")  # of a file without any row nothing is left
    checked(table, [row_of(k) for k in range(6, 18)])
    table.delete("n >= 0")
    checked(table, [])
    assert table.system_table("files").to_arrow().num_rows == 0


def test_a_condition_that_is_false_deletes_and_updates_nothing():
    for layout in ("fixed", "append", "append, marked", "append, partitioned"):
        table = filled(layout)
        for where in ("FALSE", "NOT TRUE", "TRUE AND FALSE"):
            assert table.delete(where) == WriteResult()
            assert table.update({"n": 0}, where) == WriteResult()
        assert table.count() == 18
        assert table.delete("NOT FALSE").snapshot_ids
        assert table.count() == 0


def test_a_row_that_moves_to_another_partition_is_in_one():
    table = filled("keys that move")
    assert table.update({"p": "z", "n": 0}, "k in (4, 5)").rows == 2
    changed = [row_of(k) | {"p": "z", "n": 0} for k in (4, 5)]
    checked(table, [*changed, *(row_of(k) for k in range(18) if k not in (4, 5))])


# ---- values


def test_values_are_cast_as_those_of_a_write_and_may_be_of_any_type():
    schema = {
        "k": "INT NOT NULL",
        "price": "DECIMAL(10, 2)",
        "at": "TIMESTAMP(3)",
        "tags": pa.list_(pa.string()),
        "who": pa.struct([("name", pa.string()), ("age", pa.int32())]),
        "f": "FLOAT",
        "day": "DATE",
    }
    table = new_table("append", schema=schema)
    empty = dict.fromkeys(list(schema)[1:])
    table.write([{"k": k} | empty for k in range(3)])
    row = {
        "price": 3,
        "at": dt.datetime(2026, 1, 2, 3, 4),
        "tags": ["a", "b"],
        "who": {"name": "x", "age": 1},
        "f": 1.5,
        "day": dt.date(2026, 1, 2),
    }
    table.update(row, "k = 1")
    assert table.to_arrow(where="k = 1", columns=list(row)).to_pylist() == [row]
    table.update({"tags": lambda rows: [["c"]] * rows.num_rows, "f": pa.scalar(2)}, "k = 2")
    got = table.to_arrow(where="k = 2", columns=["tags", "f"]).to_pylist()
    assert got == [{"tags": ["c"], "f": 2.0}]
    table.update({"k": lambda rows: np.arange(rows.num_rows), "who": None})
    assert table.to_arrow(columns=["who"]).column("who").null_count == 3
    table.update({"k": lambda rows: pc.max(rows["k"])})
    assert set(table.to_arrow(columns=["k"]).column("k").to_pylist()) == {2}


def test_functions_see_old_values_whatever_else_is_set():
    table = filled(files=1)
    table.update({"n": lambda rows: pc.add(rows["n"], 1), "s": lambda r: r["n"].cast(pa.string())})
    assert rows_in(table, where="k = 4") == [{"p": "a", "k": 4, "n": 5, "s": "4"}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, "bad_argument"),
        ([("n", 1)], "bad_argument"),
        ({"k": 9}, "update_key"),
        ({"m": 9}, "column_unknown"),
        ({"s.x": 9}, "column_unknown"),
        ({7: 9}, "column_unknown"),
        ({"n": "many"}, "bad_value"),
        ({"n": 1.5}, "bad_value"),
        ({"n": lambda rows: pc.add(rows["n"], 0.5)}, "column_type"),
        ({"n": lambda _: [1]}, "update_length"),
        ({"n": lambda _: "1"}, "update_length"),
        ({"n": lambda _: 1}, "update_length"),
        ({"n": pc.field("n") + 1}, "update_expression"),
        ({"n": tidelake.col("n") > 1}, "update_expression"),
        *(({"s": text}, "update_expression") for text in EXPRESSIONS),
    ],
)
def test_what_cannot_be_set_is_refused_and_changes_nothing(values, kind):
    table = filled()
    newest = table.latest_snapshot_id
    with pytest.raises((InvalidInputError, UnsupportedError)) as caught:
        table.update(values, "k < 4")
    assert caught.value.kind == kind
    assert table.latest_snapshot_id == newest


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_stored_that_computes_nothing(text):
    table = filled()
    table.update({"s": text}, "k < 4")
    assert set(table.to_arrow(where="k < 4")["s"].to_pylist()) == {text}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_arrow_scalar_says_that_an_expression_is_meant_as_text(text):
    table = filled()
    table.update({"s": pa.scalar(text)}, "k < 4")
    assert set(table.to_arrow(where="k < 4")["s"].to_pylist()) == {text}


def test_a_misspelt_column_is_told_its_name():
    table = new_table(schema={"k": "INT", "amount": "INT"})
    with pytest.raises(InvalidInputError, match="amount"):
        table.update({"amuont": 1})


def test_a_null_in_a_column_that_is_not_null_is_refused():
    for layout in ("fixed", "append"):
        table = new_table(layout, schema={"k": "INT", "n": "INT NOT NULL"})
        table.write([{"k": 1, "n": 1}])
        with pytest.raises(InvalidInputError, match="NOT NULL"):
            table.update({"n": None})
        with pytest.raises(InvalidInputError, match="NOT NULL"):
            table.update({"n": lambda rows: pa.nulls(rows.num_rows, pa.int32())})


def test_nulls_that_are_there_do_not_become_defaults():
    for layout in ("fixed", "append", "append, marked"):
        table = new_table(layout, schema={"k": "INT", "a": "INT", "b": "INT"})
        table.write([{"k": 1, "a": None, "b": 1}])
        table.alter(
            tidelake.UpdateColumnDefaultValue("a", "7"), tidelake.UpdateColumnDefaultValue("b", "8")
        )
        table.update({"k": 1} if layout != "fixed" else {"b": 2})
        assert table.to_arrow(columns=["a"]).to_pylist() == [{"a": None}]
        table.update({"b": None})  # as a write of a null does
        assert table.to_arrow(columns=["a", "b"]).to_pylist() == [{"a": None, "b": 8}]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_function_that_fails_leaves_no_file_behind(layout):
    table = filled(layout)

    def everything(path):
        entries = [(f"{path}/{e.name}", e.is_dir) for e in table.fileio.list_dir(path)]
        below = [name for name, is_dir in entries if is_dir for name in everything(name)]
        return sorted([name for name, is_dir in entries if not is_dir] + below)

    before = everything(table.paths.location)

    def fail(rows):
        if 15 in rows["k"].to_pylist():
            raise RuntimeError("no")
        return rows["n"]

    with pytest.raises(RuntimeError):
        table.update({"n": fail})
    assert everything(table.paths.location) == before


# ---- what a merge would not show


def test_a_row_written_back_with_an_equal_sequence_wins():
    table = filled(options={"sequence.field": "n"})
    table.update({"s": "x"}, "k = 3")
    table.write([{"p": "b", "k": 3, "n": 2, "s": "late"}])
    assert rows_in(table, where="k = 3")[0]["s"] == "x"
    table.update({"s": "y"}, "k = 3")
    table.compact(full=True)
    assert rows_in(table, where="k = 3")[0]["s"] == "y"


@pytest.mark.parametrize("layout", ["fixed", "marked", "lookup"])
def test_an_older_sequence_is_refused_because_the_update_would_be_lost(layout):
    table = filled(layout, options={"sequence.field": "n"})
    with pytest.raises(InvalidInputError, match="older") as caught:
        table.update({"n": add("n", -1)}, "k = 3")
    assert caught.value.kind == "update_lost"
    with pytest.raises(InvalidInputError):
        table.update({"n": None}, "k = 3")
    table.update({"n": add("n", 1), "s": "x"}, "k = 3")
    assert rows_in(table, where="k = 3") == [row_of(3) | {"n": 4, "s": "x"}]
    down = {"sequence.field": "n", "sequence.field.sort-order": "descending"}
    table = filled(layout, options=down, name="db.down")
    with pytest.raises(InvalidInputError):
        table.update({"n": add("n", 1)}, "k = 3")
    table.update({"n": add("n", -1)}, "k = 3")
    assert rows_in(table, where="k = 3") == [row_of(3) | {"n": 2}]


def test_partial_update_shows_values_and_refuses_nulls():
    table = filled("partial update")
    with pytest.raises(InvalidInputError, match="null") as caught:
        table.update({"s": None}, "k in (3, 4)")
    assert caught.value.kind == "update_lost"
    table.update({"s": "x"}, "k = 3")
    assert rows_in(table, where="k = 3") == [row_of(3) | {"s": "x"}]
    table.write([{"p": None, "k": 50, "n": None, "s": None}])
    table.update({"n": 1}, "k = 50")
    assert rows_in(table, where="k = 50") == [{"p": None, "k": 50, "n": 1, "s": None}]


def test_columns_of_a_sequence_group_are_updated_with_their_sequence():
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a,total",
        "fields.total.aggregate-function": "sum",
        "fields.total.ignore-retract": "true",
    }
    schema = {"k": "INT", "g": "INT", "a": "STRING", "total": "INT", "b": "STRING"}
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    plain = {key: options[key] for key in list(options)[:2]} | {"fields.g.sequence-group": "a"}
    table = catalog.create_table("db.g", schema, primary_keys=["k"], options=plain)
    rows = [
        {"k": 1, "g": 5, "a": "x", "total": 1, "b": "o"},
        {"k": 2, "g": None, "a": None, "total": 1, "b": "o"},
    ]
    table.write(rows)
    table.update({"a": "y"}, "k = 1")
    table.update({"a": None}, "k = 1")  # a group takes nulls
    assert rows_in(table, where="k = 1")[0]["a"] is None
    with pytest.raises(InvalidInputError, match="sequence"):
        table.update({"g": 4}, "k = 1")
    with pytest.raises(InvalidInputError):
        table.update({"a": "y"}, "k = 2")  # its group has no sequence
    table.update({"a": "y", "g": 1}, "k = 2")
    assert rows_in(table, where="k = 2") == [rows[1] | {"a": "y", "g": 1}]
    table = catalog.create_table("db.sum", schema, primary_keys=["k"], options=options)
    table.write(rows)
    with pytest.raises(InvalidInputError, match="total"):
        table.update({"a": "y"}, "k = 1")  # the sum would count twice
    table.update({"b": "p"}, "k = 2 and total is null")


@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_engines_that_do_not_show_what_is_written_are_refused(engine):
    table = filled(options={"merge-engine": engine})
    with pytest.raises(UnsupportedError, match=engine) as caught:
        table.update({"n": 1}, "k = 3")
    assert caught.value.kind == "update_engine"


def test_rows_that_wait_in_the_postpone_bucket_are_compacted_first():
    table = new_table(options={"bucket": "-2"})
    table.write([row_of(1), row_of(2)])
    with pytest.raises(UnsupportedError, match="compact"):
        table.update({"n": 9}, "k = 1")
    table.compact()
    assert table.update({"n": 9}, "k = 1").rows == 1
    table.compact()
    checked(table, [row_of(1) | {"n": 9}, row_of(2)])


def test_rows_that_wait_on_level_0_are_what_is_updated():
    table = filled("marked")
    table.write([row_of(3) | {"n": 33}], options={"write-only": "true"})
    as_java = table.with_options({"deletion-vectors.merge-on-read": "false"})
    assert rows_in(as_java, where="k = 3") == [row_of(3)]  # it waits
    assert rows_in(table, where="k = 3") == [row_of(3) | {"n": 33}]
    table.update({"s": "x"}, "k = 3")
    assert rows_in(table, where="k = 3") == [row_of(3) | {"n": 33, "s": "x"}]


def test_a_changelog_tells_updates():
    table = filled("lookup")
    before = table.latest_snapshot_id
    table.update({"n": 0}, "k = 3")
    got = table.changes(before, mode="changelog", columns=["k", "n"]).to_pylist()
    assert [tuple(row.values()) for row in got] == [("-U", 3, 3), ("+U", 3, 0)]
    table = filled(options={"changelog-producer": "input"}, name="db.input")
    before = table.latest_snapshot_id
    table.update({"n": 0}, "k = 3")
    got = table.changes(before, mode="changelog", columns=["k", "n"]).to_pylist()
    assert [tuple(row.values()) for row in got] == [("+U", 3, 0)]


# ---- others at the same moment


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_updates_of_one_row_both_count(layout):
    fileio = Meddled()
    table = filled(layout, fileio=fileio)
    fileio.meddle = lambda: table.update({"n": add("n", 100)}, "k in (3, 4)") and None
    assert table.update({"n": add("n", 1000)}, "k in (3, 5)").rows == 2
    assert fileio.meddle is None
    model = [row_of(k) for k in range(18)]
    for k, more in ((3, 1100), (4, 100), (5, 1000)):
        model[k]["n"] += more
    checked(table, model)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_brings_no_row_back_that_another_commit_deletes(layout):
    fileio = Meddled()
    table = filled(layout, fileio=fileio)
    if LAYOUTS[layout][2].get("merge-engine"):
        gone = lambda: table.truncate()  # noqa: E731 - its engine deletes no rows
        left = []
    else:
        gone = lambda: table.delete("k = 3")  # noqa: E731
        left = [row_of(k) for k in range(18) if k != 3]
    fileio.meddle = lambda: gone() and None
    table.update({"n": 0}, "k in (3, 5)")
    checked(table, [r | {"n": 0} if r["k"] == 5 else r for r in left])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_of_rows_that_a_compaction_moves_is_there_once(layout):
    fileio = Meddled()
    table = filled(layout, fileio=fileio)
    fileio.meddle = lambda: table.compact(full=True) and None
    assert table.update({"n": 0}, "k in (3, 5)").compactions_dropped == 0
    checked(table, [row_of(k) | ({"n": 0} if k in (3, 5) else {}) for k in range(18)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compaction_that_an_update_overtakes_loses_nothing(layout):
    fileio = Meddled()
    table = filled(layout, fileio=fileio, options={"num-sorted-run.compaction-trigger": "50"})
    fileio.meddle = lambda: table.update({"n": 0}, "k in (3, 5)") and None
    compacts = "marked" in layout or layout == "lookup"
    only_adds = layout in KEYED and not compacts  # rows of level 0
    # of the partitioned ones the other partition is compacted
    gives_way = not only_adds and "partitioned" not in layout
    with (
        pytest.raises(ConflictError, match="Nothing was changed")
        if gives_way
        else contextlib.nullcontext()
    ):
        table.compact(full=True)
    checked(table, [row_of(k) | ({"n": 0} if k in (3, 5) else {}) for k in range(18)])


@pytest.mark.parametrize("layout", ["append", "append, marked", "append, marked, 64 bit", "fixed"])
def test_rows_that_come_meanwhile_stay_as_they_are(layout):
    fileio = Meddled()
    table = filled(layout, fileio=fileio)
    fileio.meddle = lambda: table.write([row_of(50)]) and None
    table.update({"n": 0}, "k in (3, 50)")
    checked(table, [row_of(k) | ({"n": 0} if k == 3 else {}) for k in (*range(18), 50)])


def test_a_partition_that_is_overwritten_meanwhile_stays_so():
    fileio = Meddled()
    table = filled("partitioned", fileio=fileio)
    fileio.meddle = lambda: table.drop_partitions([{"p": "a"}]) and None
    table.update({"n": 0}, "k < 6")
    checked(table, [row_of(k) | ({"n": 0} if k < 6 else {}) for k in range(1, 18, 2)])


@pytest.mark.parametrize("layout", ["fixed", "append", "append, marked"])
def test_a_table_that_is_rolled_back_meanwhile_stays_so(layout):
    for later in (1, 2):
        table = filled(layout)
        calls = []

        def zero(rows, table=table, later=later, calls=calls):
            if not calls:
                table.rollback_to(2)
                for k in range(later):  # as many commits as were undone, or more
                    table.write([row_of(100 + k)])
            calls.append(1)
            return [0] * rows.num_rows

        assert table.update({"n": zero}, "k in (3, 15)").rows == 1
        model = [row_of(k) | ({"n": 0} if k == 3 else {}) for k in range(12)]
        checked(table, [*model, *(row_of(100 + k) for k in range(later))])


def test_an_update_gives_up_where_others_are_always_faster():
    class Always(MemoryFileIO):
        busy = True
        tries = 0

        def put_if_absent(self, path, data, **held):
            if "/snapshot-" in path and not self.busy:
                self.busy = True
                self.tries += 1
                table.update({"n": add("n", 1)}, "k = 3")
                self.busy = False
            return super().put_if_absent(path, data, **held)

    fileio = Always()
    table = filled(fileio=fileio)
    fileio.busy = False
    with pytest.raises(ConflictError) as caught:
        table.update({"s": "x"}, "k = 3")
    fileio.busy = True
    assert caught.value.kind == "rows_changed"
    assert fileio.tries == transaction.TRIES_MAX
    model = [row_of(k) for k in range(18)]
    model[3]["n"] += fileio.tries
    checked(table, model)


def test_keys_of_other_ranges_are_no_conflict():
    fileio = Meddled()
    table = filled(fileio=fileio, options={"bucket": "1"})
    calls = []
    fileio.meddle = lambda: table.write([row_of(17)]) and None
    table.update({"n": lambda rows: calls.append(1) or rows["n"], "s": "x"}, "k = 3")
    assert len(calls) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_with_an_identity_is_done_once(layout):
    table = filled(layout)
    identity = {"commit_user": "u", "commit_identifier": 1}
    assert table.update({"n": add("n", 1)}, "k = 3", **identity).rows == 1
    assert table.update({"n": add("n", 1)}, "k = 3", **identity).already_committed
    assert rows_in(table, where="k = 3")[0]["n"] == 4


@settings(deadline=None, max_examples=examples(40))
@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 20), st.integers(1, 8)),
            st.tuples(st.just("update"), st.integers(0, 20), st.integers(0, 8)),
            st.tuples(st.just("value"), st.integers(0, 4), st.integers(0, 3)),
            st.tuples(st.just("delete"), st.integers(0, 20), st.integers(0, 4)),
            st.tuples(st.just("compact"), st.booleans(), st.none()),
        ),
        max_size=8,
    ),
)
def test_any_updates_equal_those_of_a_list(layout, operations):
    table = new_table(layout, options={"compaction.min.file-num": "3"})
    keyed = bool(table.primary_keys)
    deletes = not table.options.raw.get("merge-engine")
    rows: list[dict] = []
    states = {}
    for name, first, second in operations:
        match name:
            case "write":
                new = [row_of(k) for k in range(first, first + second)]
                table.write(new)
                if keyed:
                    rows = [r for r in rows if not first <= r["k"] < first + second]
                rows += new
            case "update":
                wanted = range(first, first + second)
                count = sum(r["k"] in wanted for r in rows)
                where = f"k >= {first} and k < {first + second}"
                assert table.update({"n": add("n", 7)}, where).rows == count
                rows = [r | ({"n": r["n"] + 7} if r["k"] in wanted else {}) for r in rows]
            case "value":
                table.update({"s": f"s{second}", "n": lambda r: r["k"]}, f"s = 's{first}'")
                new = {"s": f"s{second}"}
                rows = [r | (new | {"n": r["k"]} if r["s"] == f"s{first}" else {}) for r in rows]
            case "delete" if deletes:
                table.delete(f"k >= {first} and k < {first + second}")
                rows = [r for r in rows if not first <= r["k"] < first + second]
            case "compact":
                table.compact(full=first)
        if table.latest_snapshot_id is not None:
            states[table.latest_snapshot_id] = sorted(rows, key=repr)
    if states:
        checked(table, rows)
    for snapshot_id, expected in states.items():
        assert rows_in(table, snapshot_id=snapshot_id) == expected


# ---- upserts of some columns


PLAIN = [name for name in KEYED if name != "partial update"]


@pytest.mark.parametrize("layout", PLAIN)
def test_an_upsert_of_some_columns_keeps_the_others(layout):
    table = filled(layout)
    model = {k: row_of(k) for k in range(18)}
    keys = table.primary_keys
    given = [row_of(k) | {"s": "new", "n": -1} for k in (3, 7, 40, 41)]
    wanted = [name for name in SCHEMA.names if name in {*keys, "s"}]
    result = table.upsert([{name: row[name] for name in wanted} for row in given], columns=["s"])
    assert result.rows == 4
    assert len([s for s in table.history().to_pylist() if s["commit_kind"] == "APPEND"]) == 4
    for row in given:
        new = dict.fromkeys(SCHEMA.names) | {name: row[name] for name in keys}
        model[row["k"]] = model.get(row["k"], new) | {"s": "new"}
    checked(table, list(model.values()))
    table.upsert(pa.Table.from_pylist(given), columns=["n"])  # what is not named is left out
    for row in given:
        model[row["k"]] |= {"n": -1}
    checked(table, list(model.values()))
    assert table.upsert([], columns=["n"]) == WriteResult()


@pytest.mark.parametrize("layout", PLAIN)
def test_an_upsert_of_some_columns_into_an_empty_table_inserts(layout):
    table = new_table(layout)
    keys = table.primary_keys
    table.upsert([{k: row_of(1)[k] for k in keys} | {"n": 5}], columns="n")
    assert rows_in(table)[0]["n"] == 5


@pytest.mark.parametrize("layout", ["fixed", "dynamic", "marked"])
@pytest.mark.parametrize("before", [0, 3])
def test_another_commit_at_the_same_moment_is_not_undone_by_some_columns(layout, before):
    fileio = Meddled()
    table = new_table(layout, fileio=fileio)
    if before:
        table.write([row_of(k) for k in range(before)])
    fileio.meddle = lambda: table.write([row_of(2) | {"s": "theirs"}])
    table.upsert([{"k": 2, "n": 20}, {"k": 9, "n": 90}], columns=["n"])
    assert rows_in(table, where="k = 2") == [row_of(2) | {"s": "theirs", "n": 20}]
    new = {"p": None, "k": 9, "n": 90, "s": None}
    assert rows_in(table, where="k = 9") == [new]


def test_new_keys_get_defaults_and_refuse_to_lack_what_is_not_null():
    table = new_table(schema={"k": "INT", "a": "INT", "b": "INT", "c": "INT NOT NULL"})
    table.write([{"k": 1, "a": None, "b": 2, "c": 3}])
    table.alter(tidelake.UpdateColumnDefaultValue("a", "7"))
    with pytest.raises(InvalidInputError, match=r"'k': 5.*'c' is NOT NULL without a default"):
        table.upsert([{"k": 1, "b": 1}, {"k": 5, "b": 1}], columns=["b"])
    assert rows_in(table) == [{"k": 1, "a": None, "b": 2, "c": 3}]
    table.upsert([{"k": 1, "b": None, "c": 4}, {"k": 5, "b": 1, "c": 9}], columns=["b", "c"])
    old = {"k": 1, "a": None, "b": None, "c": 4}
    assert rows_in(table) == [old, {"k": 5, "a": 7, "b": 1, "c": 9}]
    with pytest.raises(InvalidInputError, match="lacks the column 'a'"):
        table.upsert([{"k": 1}], columns=["a"])


@pytest.mark.parametrize(
    ("rows", "columns", "kind"),
    [
        ([{"k": 1, "n": 1}, {"k": 1, "n": 2}], ["n"], "key_twice"),
        ([{"k": 1, "n": 1}], ["m"], "column_unknown"),
        ([{"k": 1, "n": 1}], ["k"], "bad_argument"),
        ([{"k": 1, "n": 1}], [], "bad_argument"),
        ([{"k": 1, "n": 1}], ["n", "n"], "column_twice"),
        ([{"n": 1}], ["n"], "column_missing"),
        ([{"k": 1, "n": "x"}], ["n"], "bad_value"),
        ([{"k": None, "n": 1}], ["n"], "null_value"),
        ([{"k": 1, "n": 1}, {"k": 2}], ["n"], "column_missing"),
        ([{"k": 1, "n": 1, "x": 2}], ["n"], "column_unknown"),
    ],
)
def test_what_cannot_be_upserted_by_columns_is_refused(rows, columns, kind):
    table = filled()
    newest = table.latest_snapshot_id
    with pytest.raises(InvalidInputError, match=r"db\.t|columns=") as caught:
        table.upsert(rows, columns=columns)
    assert caught.value.kind == kind
    assert table.latest_snapshot_id == newest


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_other_engines_take_no_upsert_of_some_columns(engine):
    table = filled(options={"merge-engine": engine})
    with pytest.raises(UnsupportedError, match=engine) as caught:
        table.upsert([{"k": 3, "n": 1}], columns=["n"])
    assert caught.value.kind == "upsert_columns"


def test_an_upsert_of_an_older_sequence_is_refused():
    table = filled(options={"sequence.field": "n"})
    with pytest.raises(InvalidInputError, match="older"):
        table.upsert([{"k": 3, "n": 1}], columns=["n"])
    table.upsert([{"k": 3, "s": "x"}], columns=["s"])
    assert rows_in(table, where="k = 3") == [row_of(3) | {"s": "x"}]


def test_an_upsert_of_some_columns_is_committed_once():
    table = filled()
    once = {"commit_user": "me", "commit_identifier": 1}
    assert table.upsert([{"k": 3, "n": 1}], columns=["n"], **once).rows == 1
    assert table.upsert([{"k": 3, "n": 2}], columns=["n"], **once).already_committed
    assert rows_in(table, where="k = 3")[0]["n"] == 1


# ---- what a result knows


def counts(result):
    return result.rows_inserted, result.rows_updated, result.rows_deleted


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_result_says_what_became_of_rows_where_it_knows(layout):
    table = new_table(layout)
    keyed = layout in KEYED
    rows = [row_of(k) for k in range(6)]
    assert counts(table.write(rows)) == ((None,) * 3 if keyed else (6, 0, 0))
    assert counts(table.update({"n": 9}, "k < 2")) == (0, 2, 0)
    assert counts(table.update({"n": 9}, "k > 90")) == (0, 0, 0)
    if layout in {"fixed", "dynamic", "marked"}:
        given = [{"k": k, "n": 1} for k in (1, 2, 3, 70)]
        assert counts(table.upsert(given, columns=["n"])) == (1, 3, 0)
        assert counts(table.delete([{"k": 1}, {"k": 500}])) == (None, None, None)
        assert counts(table.delete("k = 2")) == (0, 0, 1)
    elif not keyed:
        assert counts(table.delete("k = 2")) == (0, 0, 1)
    assert counts(table.compact(full=True)) == (0, 0, 0)
    with table.writer() as out:
        out.write(rows)
    assert counts(out.result) == ((None,) * 3 if keyed else (6, 0, 0))
    if layout == "append":
        assert counts(table.write(rows, mode="overwrite")) == (6, 0, None)


def test_results_together_know_what_each_of_them_knows():
    known, unknown = WriteResult(rows_inserted=2), WriteResult(rows_inserted=None)
    assert joined([known, known]).rows_inserted == 4
    assert joined([known, unknown]).rows_inserted is None
    assert joined([known, unknown]).rows_updated == 0
