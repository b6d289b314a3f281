"""``$audit_log``, ``$binlog`` and ``$ro``: the rows of a table, seen another way."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake import NotFoundError, UnsupportedError
from tidelake.table.handle.time_travel import TimeTravel

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("l", pa.list_(pa.int32()))]
)


@pytest.fixture
def make(tmp_path):
    catalog = tidelake.open(tmp_path)

    def make_table(*, primary_keys=("k",), schema=SCHEMA, **options):
        return catalog.create_table(
            "db.t", schema, primary_keys=primary_keys, options={"bucket": "1", **options}
        )

    return make_table


def upsert(table, rows, kinds=None, **how):
    table.write([{"k": k, "v": v, "l": [v]} for k, v in rows], row_kinds=kinds, **how)


def rows_of(read):
    return [tuple(row.values()) for row in read.to_pylist()]


def view(table, name, **scan):
    return rows_of(table.system_table(name).to_arrow(**scan))


@pytest.fixture
def table(make):
    table = make(**{"changelog-producer": "input"})
    upsert(table, [(1, 10), (2, 20), (3, 30)])
    upsert(table, [(1, 10), (1, 11), (2, 20)], ["-U", "+U", "-D"])
    return table


def test_the_audit_log_of_a_state_has_the_kinds_as_they_were_written(table):
    log = table.system_table("audit_log")
    assert log.schema.names == ["rowkind", "k", "v", "l"]
    state = [("+U", 1, 11, [11]), ("-D", 2, 20, [20]), ("+I", 3, 30, [30])]
    assert view(table, "audit_log") == state
    assert log.count() == 3
    table.compact(full=True)
    assert view(table, "audit_log") == [state[0], state[2]]
    assert view(table, "audit_log", snapshot_id=1) == [
        ("+I", 1, 10, [10]),
        ("+I", 2, 20, [20]),
        ("+I", 3, 30, [30]),
    ]


def test_columns_filter_and_limit_of_the_audit_log(table):
    assert view(table, "audit_log", columns=["v", "rowkind"], where="k >= 2") == [
        (20, "-D"),
        (30, "+I"),
    ]
    assert view(table, "audit_log", columns=["k"], where="rowkind = '-D'") == [(2,)]
    assert view(table, "audit_log", columns=["v"], where="rowkind <> '-D' AND v > 11") == [(30,)]
    assert view(table, "audit_log", columns=["rowkind"], limit=2) == [("+U",), ("-D",)]
    assert view(table, "audit_log", limit=0) == []
    with pytest.raises(NotFoundError, match="Its columns are rowkind, k"):
        view(table, "audit_log", columns=["kind"])


def test_the_audit_log_follows_the_changes(table):
    log = table.system_table("audit_log")
    changes = [
        ("+I", 1, 10, [10]),
        ("+I", 2, 20, [20]),
        ("+I", 3, 30, [30]),
        ("-U", 1, 10, [10]),
        ("+U", 1, 11, [11]),
        ("-D", 2, 20, [20]),
    ]
    assert rows_of(log.changes(0)) == changes
    assert rows_of(log.changes(1, where="rowkind = '-U'", columns=["k"])) == [(1,)]
    assert rows_of(log.changes(1, mode="diff")) == changes[3:]
    assert rows_of(log.changes(0, 1, where="v > 10", columns=["v", "rowkind"])) == [
        (20, "+I"),
        (30, "+I"),
    ]


def test_the_binlog_holds_an_update_in_one_row(table):
    log = table.system_table("binlog")
    assert [str(f.type) for f in log.schema][:2] == ["string", "list<element: int64>"]
    assert view(table, "binlog") == [
        ("+U", [1], [11], [[11]]),
        ("-D", [2], [20], [[20]]),
        ("+I", [3], [30], [[30]]),
    ]
    assert rows_of(log.changes(1)) == [
        ("+U", [1, 1], [10, 11], [[10], [11]]),
        ("-D", [2], [20], [[20]]),
    ]
    assert rows_of(log.changes(1, where="rowkind = '+U'", columns=["v"])) == [([10, 11],)]


def test_the_binlog_pairs_updates_over_batches_and_leaves_lone_halves_alone(make):
    table = make(**{"changelog-producer": "input"})
    upsert(table, [(1, 1)], ["-U"])
    upsert(table, [(1, 2)], ["+U"])
    upsert(table, [(1, 2), (2, 5)], ["-U", "-D"])
    upsert(table, [(7, 7)], ["-U"])
    assert rows_of(table.system_table("binlog").changes(0, columns=["rowkind", "v"])) == [
        ("+U", [1, 2]),
        ("-U", [2]),
        ("-D", [5]),
        ("-U", [7]),
    ]


def test_the_read_optimised_view_is_the_last_level_alone(make):
    table = make()
    upsert(table, [(1, 10), (2, 20)])
    assert view(table, "ro") == []
    table.compact(full=True)
    upsert(table, [(1, 11), (3, 30)])
    assert view(table, "ro") == [(1, 10, [10]), (2, 20, [20])]
    scan = table.system_table("ro").scan(where="v >= 20", columns=["k"])
    assert [split.raw for split in scan.plan.splits] == [True]
    assert rows_of(scan.reader().read_all()) == [(2,)]
    assert table.system_table("ro").count() == 2
    with pytest.raises(UnsupportedError, match="system table"):
        table.system_table("ro").changes(0)


def test_views_of_an_append_table_are_its_rows(make):
    table = make(primary_keys=(), bucket="-1")
    upsert(table, [(1, 10)])
    assert view(table, "ro") == [(1, 10, [10])]
    assert view(table, "audit_log") == [("+I", 1, 10, [10])]
    assert view(table, "binlog", columns=["rowkind", "k"]) == [("+I", [1])]
    assert rows_of(table.system_table("audit_log").changes(0)) == [("+I", 1, 10, [10])]


def test_a_view_shows_what_it_is_without_being_read(table):
    assert repr(table.system_table("audit_log")) == "View db.t$audit_log of rowkind, k, v, l"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("", [(7,)]),
        ("$audit_log", [("+I", 7)]),
        ("$binlog", [("+I", [7])]),
        ("$ro", []),
        ("$files", [(1,)]),
        ("$buckets", [(1,)]),
    ],
)
def test_a_read_plans_again_where_the_newest_snapshot_expires_meanwhile(
    table, tmp_path, monkeypatch, name, rows
):
    resolve, planned = TimeTravel.resolve, []

    def resolve_and_expire(self, **asked):
        planned.append(resolve(self, **asked))
        if len(planned) == 1:
            table.write([{"k": 7, "v": 70, "l": []}], mode="overwrite")
            table.maintenance.expire_snapshots(retain_min=1, retain_max=1)
        return planned[-1]

    monkeypatch.setattr(TimeTravel, "resolve", resolve_and_expire)
    opened = tidelake.open(tmp_path).table(f"db.t{name}")  # no manifest is decoded yet
    columns = ["rowkind", "k"] if rows and len(rows[0]) > 1 else ["k"]
    if name in {"$files", "$buckets"}:
        columns = ["record_count"]
    assert rows_of(opened.to_arrow(columns=columns)) == rows
    assert (planned[0].id, planned[-1].id) == (2, 3)
