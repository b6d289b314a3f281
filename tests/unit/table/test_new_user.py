"""What somebody tries in the first hour: slips of the hand get a clear answer, never a guess."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidelake
from tidelake import ClosedError, InvalidInputError, NotFoundError, col
from tidelake.errors import near_names
from tidelake.table.write.new_writer import new_writer

ROWS = [{"k": k, "v": f"v{k}", "n": k} for k in range(4)]
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))


@pytest.fixture
def typed(catalog):
    """An append table with one column of each type that Python values may not fit."""
    schema = pa.schema(
        {
            "i": pa.int64(),
            "f": pa.float32(),
            "d": pa.date32(),
            "at": pa.timestamp("us"),
            "at_ms": pa.timestamp("ms"),
            "utc": pa.timestamp("us", "UTC"),
            "time": pa.time32("ms"),
        }
    )
    return catalog.create_table("db.typed", schema)


# ---- rows as Python objects


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("i", 1.5),
        ("i", decimal.Decimal("1.5")),
        ("i", np.float64(2.5)),
        ("f", 1e300),
        ("d", dt.datetime(2024, 3, 1, 12)),
        ("d", 19_000),
        ("at", 5),
        ("at", 5.0),
        ("at", dt.datetime(2024, 3, 1, tzinfo=INDIA)),
        ("at_ms", dt.datetime(2024, 3, 1, 0, 0, 0, 1)),
        ("utc", dt.datetime(2024, 3, 1)),
        ("time", dt.time(1, 2, 3, 4)),
        ("time", 5),
    ],
)
def test_a_python_value_that_would_be_changed_is_refused(typed, column, value):
    row = dict.fromkeys(typed.schema.names)
    with pytest.raises(InvalidInputError, match=f"'{column}'") as caught:
        typed.write([row, {**row, column: value}])
    assert caught.value.kind == "bad_value"
    assert repr(value) in str(caught.value)
    assert typed.latest_snapshot_id is None


def test_python_values_that_fit_are_kept(typed):
    row = {
        "i": 2.0,
        "f": math.inf,
        "d": dt.datetime(2024, 3, 1),
        "at": dt.datetime(2024, 3, 1, 0, 0, 0, 1),
        "at_ms": dt.datetime(2024, 3, 1, 0, 0, 0, 1000),
        "utc": dt.datetime(2024, 3, 1, tzinfo=INDIA),
        "time": dt.time(1, 2, 3, 4000),
    }
    typed.write([row, dict.fromkeys(row), {**row, "i": np.int64(3), "f": 0.1, "d": None}])
    first, nulls, _ = typed.to_arrow().to_pylist()
    assert first == {**row, "i": 2, "d": dt.date(2024, 3, 1)}
    assert set(nulls.values()) == {None}


def test_a_key_to_delete_is_never_rounded(keyed):
    keyed.write(ROWS)
    with pytest.raises(InvalidInputError, match=r"2\.7"):
        keyed.delete([{"k": 2.7}])
    assert keyed.count() == len(ROWS)


def test_one_dict_is_one_row(keyed):
    keyed.write(ROWS[1])
    keyed.write({"k": (5, 6), "v": pd.Series(["a", "b"]), "n": np.array([5, 6], np.int32)})
    keyed.delete({"k": 5})
    assert sorted(keyed.to_arrow()["k"].to_pylist()) == [1, 6]


@pytest.mark.parametrize(
    "data",
    [
        [{"k": 1, "v": "\ud800", "n": 1}],
        [{"k": 1, "v": "a", "n": object()}],
        [{"k": np.datetime64("2024-01-01"), "v": "a", "n": 1}],
        {"k": 1, "v": ["a"], "n": [1]},
        pd.DataFrame([[1, 2, "a", 1]], columns=["k", "k", "v", "n"]),
        pd.DataFrame({"k": [1, "x"], "v": ["a", "b"], "n": [1, 2]}),
    ],
)
def test_values_that_arrow_cannot_take_are_refused_with_the_table(keyed, data):
    with pytest.raises(InvalidInputError, match=r"db\.keyed"):
        keyed.write(data)


@pytest.mark.parametrize("identifier", ["7", 1.0, None, True])
def test_a_commit_identifier_that_is_no_number_is_refused(keyed, identifier):
    with pytest.raises(InvalidInputError, match="commit_identifier"):
        keyed.write(ROWS, commit_user="me", commit_identifier=identifier)


def test_a_numpy_number_is_a_commit_identifier(keyed):
    keyed.write(ROWS, commit_user="me", commit_identifier=np.int64(7))
    again = keyed.write(ROWS, commit_user="me", commit_identifier=7)
    assert again.already_committed


# ---- reading


def test_a_filter_that_is_always_the_same_counts_on_every_table(keyed, appended):
    for table in (keyed, appended):
        table.write(ROWS)
        assert table.to_arrow(where="true").num_rows == len(ROWS)
        assert table.count(where="false") == 0
        assert table.count(where="true AND k < 2") == 2
        assert table.count(where="false OR k < 2") == 2
        assert table.to_arrow(where="true", columns=["v"]).num_rows == len(ROWS)


@pytest.mark.parametrize("limit", ["3", 3.5, -1, True])
@pytest.mark.parametrize("read", ["to_arrow", "count", "explain"])
def test_a_limit_that_is_no_count_is_refused(keyed, read, limit):
    keyed.write(ROWS)
    with pytest.raises(InvalidInputError, match="limit must be a number"):
        getattr(keyed, read)(limit=limit)


def test_a_limit_may_be_of_any_size_and_a_numpy_number(keyed):
    keyed.write(ROWS)
    assert keyed.to_arrow(limit=2**80).num_rows == len(ROWS)
    assert keyed.to_arrow(limit=np.int64(2)).num_rows == 2
    assert keyed.count(limit=np.int64(2)) == 2


def test_columns_are_names_each_once(keyed):
    keyed.write(ROWS)
    assert keyed.to_arrow(columns="v").schema.names == ["v"]
    assert keyed.changes(0, columns="v").schema.names == ["_row_kind", "v"]
    for read in (keyed.to_arrow, lambda columns: keyed.changes(0, columns=columns)):
        with pytest.raises(InvalidInputError, match="'k' more than once"):
            read(columns=["k", "k"])
        with pytest.raises(NotFoundError, match="'0'"):
            read(columns=[0])


def test_another_case_is_a_near_name(keyed):
    keyed.write(ROWS)
    with pytest.raises(NotFoundError, match="Did you mean 'k'"):
        keyed.to_arrow(where="K = 1")


def test_moments_may_come_out_of_a_data_frame(keyed):
    keyed.write(ROWS)
    keyed.write([{"k": 9, "v": "z", "n": 9}])
    first = keyed.history().to_pandas()["snapshot_id"].iloc[0]
    assert keyed.count(snapshot_id=first) == len(ROWS)
    assert keyed.changes(first).num_rows == 1


def test_a_tag_is_text(keyed):
    keyed.write(ROWS)
    with pytest.raises(NotFoundError, match="no tag '5'"):
        keyed.count(tag=5)
    with pytest.raises(NotFoundError, match="pass it as timestamp="):
        keyed.count(tag="2024-03-01 12:00:00")


def test_a_condition_in_one_tuple_deletes_as_it_reads(keyed):
    keyed.write(ROWS)
    assert keyed.count(where=("n", ">", 1)) == 2
    keyed.delete(("n", ">", 1))
    assert keyed.count() == 2


def test_a_column_shows_its_name():
    assert repr(col("price")) == "col('price')"


# ---- tables and writers


@pytest.mark.parametrize("warehouse", [5, b"/tmp/w"])
def test_a_warehouse_is_a_path(warehouse):
    with pytest.raises(InvalidInputError, match="is not a path"):
        tidelake.open(warehouse)


def test_a_warehouse_is_needed():
    with pytest.raises(InvalidInputError, match="has no 'warehouse': give the directory"):
        tidelake.open(None)


def test_a_partition_and_options_are_given_as_dicts(keyed):
    with pytest.raises(InvalidInputError, match=r"partition='k=1' is not a dict"):
        keyed.write(ROWS, mode="overwrite", partition="k=1")
    for options in (None, [("scan.snapshot-id", 1)], "scan.snapshot-id"):
        with pytest.raises(InvalidInputError, match="not a dict"):
            keyed.copy(options)


def test_a_dropped_table_is_not_an_empty_one(keyed, catalog):
    keyed.write(ROWS)
    catalog.drop_table("db.keyed")
    with pytest.raises(NotFoundError, match="dropped"):
        keyed.count()


@pytest.mark.parametrize("columns", [{"k": "no type"}, [("k",)], {"k": 5}])
def test_columns_that_are_no_schema_are_refused(catalog, columns):
    with pytest.raises(InvalidInputError, match=r"'db\.t'"):
        catalog.create_table("db.t", columns)


def test_an_option_may_be_a_list_of_columns(catalog):
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    table = catalog.create_table(
        "db.t", schema, primary_keys="k", options={"bucket": 1, "sequence.field": ["a", "b"]}
    )
    assert table.table_schema.options["sequence.field"] == "a,b"


def test_a_catalog_travels_to_another_process(catalog, keyed):
    keyed.write(ROWS)
    assert pickle.loads(pickle.dumps(catalog)).table("db.keyed").count() == len(ROWS)


def test_a_schema_file_with_a_broken_type_is_named(keyed, tmp_path):
    path = tmp_path / "warehouse/db.db/keyed/schema/schema-0"
    path.write_text(path.read_text().replace("STRING", "STRIzG"))
    with pytest.raises(tidelake.CorruptError, match="schema-0"):
        tidelake.open(tmp_path / "warehouse").table("db.keyed")


def test_a_closed_writer_gives_nothing_and_takes_nothing_away(keyed):
    writer = new_writer(keyed.handle)
    writer.write(pa.table({"k": [1], "v": ["a"], "n": [1]}))
    keyed.handle.committer().commit(writer.prepare_commit(), user="me", identifier=1)
    writer.close()
    with pytest.raises(ClosedError):
        writer.prepare_commit()
    with pytest.raises(ClosedError):
        writer.compact(b"", 0, full=True)
    writer.abort()
    assert keyed.to_arrow().num_rows == 1


def test_a_writer_takes_batches_only(keyed):
    writer = new_writer(keyed.handle)
    with pytest.raises(InvalidInputError, match="does not hold rows"):
        writer.write(ROWS)
    writer.abort()


# ---- what is shown


def test_a_delete_by_some_of_the_keys_is_told_which_are_missing(catalog):
    columns = {"day": "STRING", "id": "INT", "v": "STRING"}
    table = catalog.create_table(
        "db.days", columns, primary_keys=["day", "id"], partition_keys=["day"]
    )
    with pytest.raises(InvalidInputError) as missing:
        table.delete([{"id": 6}])
    assert "primary key: day, id. 'day' is missing." in str(missing.value)
    assert "nulls" not in str(missing.value)
    with pytest.raises(InvalidInputError) as unknown:
        table.delete([{"id": 6, "dai": "mon"}])
    assert "'dai' is not a column of the table. Did you mean 'day'?" in str(unknown.value)


def test_a_scan_shows_itself_in_a_line(keyed):
    keyed.write(ROWS)
    shown = repr(keyed.scan(columns=["k"], limit=3))
    assert "\n" not in shown
    assert "columns k, at most 3 rows; to_arrow()" in shown


def test_a_misspelt_system_table_is_told_of_all_of_them(keyed):
    told = r"Did you mean 'audit_log'\?.*snapshots.*binlog, ro, row_tracking\."
    with pytest.raises(NotFoundError, match=told):
        keyed.system_table("audit_logs")


def test_a_fault_of_a_type_reads_as_a_sentence(catalog):
    with pytest.raises(InvalidInputError) as caught:
        catalog.create_table("db.faulty", {"a": "INTT"})
    assert "'INTT' is not a Paimon type, such as INT, STRING" in str(caught.value)
    assert "TIMESTAMP(6): give a type as text" in str(caught.value)


def test_near_names_are_named_once():
    assert near_names("bukcet", ["bucket", "bucket"]) == " Did you mean 'bucket'?"


def test_the_first_database_comes_with_the_first_table(catalog):
    with pytest.raises(NotFoundError, match=r"There is none yet: create_table\(\) creates"):
        catalog.table("shop.orders")


def test_a_name_without_database_is_told_where_sql_looks(catalog):
    with pytest.raises(InvalidInputError, match=r"'database.table', such as 'default.orders'"):
        catalog.table("orders")
