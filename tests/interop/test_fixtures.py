"""Tables that real Java Paimon wrote, read at every snapshot and compared with what it read."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from proving.fsck import check_table

import tidelake
from interop.expected import explained_rows
from tidelake import UnsupportedError

pytestmark = pytest.mark.oracle

TABLES = [
    "agg_all",
    "append_bucketed",
    "append_unaware",
    "cl_input",
    "cl_lookup",
    "cl_none",
    "pk_dv",
    "dedup_seqfield",
    "merge_into",
    "rowkind_field",
    "pk_dynamic",
    "pk_fixed",
    "pk_partitioned",
    "tags_branches",
    "evo_parquet",
    "first_row",
    "pu_plain",
    "types_append_parquet",
    "types_pk_parquet",
]
SYSTEM = {"snapshots", "files", "tags", "buckets", "manifests", "audit_log", "binlog", "ro"}


@pytest.fixture(scope="module")
def catalog(oracle_dir):
    return tidelake.open(oracle_dir / "fixtures/warehouse")


def coded(value):
    """A value as the fixtures write it."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, decimal.Decimal):
        return {"dec": str(value)}
    if isinstance(value, dt.datetime):
        return {"t": value.replace(tzinfo=None).isoformat()}
    if isinstance(value, dt.date):
        return {"t": value.isoformat()}
    if isinstance(value, float) and math.isnan(value):
        return {"f": "nan"}
    if isinstance(value, dict):
        return {"row": [coded(v) for v in value.values()]}
    if isinstance(value, list):
        return [coded(v) for v in value]
    return value


def coded_column(column):
    """The values of a column; maps, which look like lists of pairs in Python, are told by type."""
    if pa.types.is_map(column.type):
        return [
            None if row is None else {"map": [[coded(k), coded(v)] for k, v in row]}
            for row in column.to_pylist()
        ]
    return [coded(value) for value in column.to_pylist()]


def read(table, columns, **scan):
    got = table.to_arrow(columns=columns, **scan)
    return sorted(map(list, zip(*map(coded_column, got.columns), strict=True)), key=repr)


def expected(oracle_dir, name):
    return json.loads((oracle_dir / f"fixtures/expected/{name}.json").read_text())["queries"]


def java_rows(name, query):
    return sorted(explained_rows(name, query), key=repr)


@pytest.mark.parametrize("name", TABLES)
def test_every_listed_state_reads_equal(catalog, oracle_dir, name):
    """Java leaves out what is not compacted, and so do we if the table's option says it."""
    as_java = {"deletion-vectors.merge-on-read": "false"}
    table = catalog.table(f"db.{name}").with_options(as_java)
    compared = 0
    for query in expected(oracle_dir, name):
        text = query["query"]
        want = java_rows(name, query)
        if match := re.fullmatch(rf"SELECT \* FROM {name} VERSION AS OF (\d+)", text):
            assert read(table, query["columns"], snapshot_id=int(match[1])) == want, text
        elif match := re.fullmatch(rf"SELECT \* FROM {name} VERSION AS OF '(\w+)'", text):
            assert read(table, query["columns"], tag=match[1]) == want, text
        elif match := re.fullmatch(rf"SELECT \* FROM {name}(?: WHERE (.*))?", text):
            assert read(table, query["columns"], where=match[1]) == want, text
            assert table.count(where=match[1]) == len(want)
        else:
            continue
        compared += 1
    assert compared >= 2


@pytest.mark.parametrize("name", TABLES)
def test_system_tables_read_equal(catalog, oracle_dir, name):
    compared = 0
    for query in expected(oracle_dir, name):
        match = re.search(rf"FROM `{name}\$(\w+)`$", query["query"])
        if match is None or match[1] not in SYSTEM:
            continue
        system = catalog.table(f"db.{name}${match[1]}")
        warehouse = str(oracle_dir / "fixtures/warehouse")
        got = [
            [
                coded(v.replace(warehouse, "WAREHOUSE") if isinstance(v, str) else v)
                for v in row.values()
            ]
            for row in system.to_arrow(columns=query["columns"]).to_pylist()
        ]
        assert sorted(got, key=repr) == sorted(query["rows"], key=repr), query["query"]
        compared += 1
    assert compared >= 2


def test_index_files_are_shown_as_java_shows_them(catalog, oracle_dir):
    """The columns that 2.1 has beyond those of 1.3.1 tell of indexes that this table has not."""
    shown = catalog.table("db.pk_dv$table_indexes").to_arrow()
    (query,) = (q for q in expected(oracle_dir, "pk_dv") if q["query"].endswith("$table_indexes`"))
    java = [dict(zip(query["columns"], row, strict=True)) for row in query["rows"]]
    unset = dict.fromkeys(query["columns"][len(shown.column_names) :])
    assert [row | unset for row in shown.to_pylist()] == java
    assert len(java) == 1


@pytest.mark.parametrize("name", ["pk_fixed", "append_unaware", "cl_none", "pk_dv", "first_row"])
def test_net_changes_equal_javas_diff(catalog, oracle_dir, name):
    """Java's `diff` gives +I/+U rows of the end state that differ; ours has the old rows too.

    With deletion vectors and under first-row Java's `diff` sees level 0, as we do.
    """
    table = catalog.table(f"db.{name}")
    last = table.history().column("snapshot_id").to_pylist()[-1]
    states = [table.to_arrow(snapshot_id=i).to_pylist() for i in (1, last)]
    changes = table.changes(1, last).to_pylist()
    rows = [tuple(r.values()) for r in states[0]]
    for change in changes:
        kind, *row = change.values()
        if kind in {"-U", "-D"}:
            rows.remove(tuple(row))
        else:
            rows.append(tuple(row))
    assert sorted(rows, key=repr) == sorted((tuple(r.values()) for r in states[1]), key=repr)
    document = json.loads((oracle_dir / f"fixtures/expected/changelog_{name}.json").read_text())
    java = document[f"incremental diff 1,{last}"]["rows"]
    if table.primary_keys:
        ours = [list(c.values())[1:] for c in changes if c["_row_kind"] in {"+I", "+U"}]
        assert sorted(ours, key=repr) == sorted((r[1:] for r in java), key=repr)


CHANGELOGS = [
    "cl_none",
    "cl_input",
    "cl_lookup",
    "rowkind_field",
    "pk_fixed",
    "append_unaware",
    "first_row",
    "pk_dv",
]


@pytest.mark.parametrize("name", CHANGELOGS)
def test_changes_read_as_java_reads_them(catalog, oracle_dir, name):
    """Java's incremental reads; where there is no changelog it gives no row."""
    table = catalog.table(f"db.{name}")
    document = json.loads((oracle_dir / f"fixtures/expected/changelog_{name}.json").read_text())
    compared = 0
    for read, java in document.items():
        match = re.fullmatch(r"incremental (changelog|delta|auto) (\d+),(\d+)", read)
        if match is None:
            continue
        mode, start, end = match[1], int(match[2]), int(match[3])
        compared += 1
        if not java["rows"]:
            with pytest.raises(UnsupportedError, match="changelog-producer"):
                table.changes(start, end, mode=mode)
            continue
        changes = table.changes(start, end, mode=mode)
        ours = [list(change.values()) for change in changes.to_pylist()]
        assert sorted(ours, key=repr) == sorted(java["rows"], key=repr), read
    assert compared == 6


@pytest.mark.parametrize(("name", "count"), [("cl_none", 4), ("cl_input", 4), ("cl_lookup", 7)])
def test_an_incremental_query_gives_the_rows_of_the_changes(catalog, oracle_dir, name, count):
    """Java's SQL function leaves the kinds out and gives rows that go like those that come."""
    text = f"SELECT * FROM paimon_incremental_query('{name}', '1', '4')"
    (query,) = (q for q in expected(oracle_dir, name) if q["query"] == text)
    changes = catalog.table(f"db.{name}").changes(1, 4, mode="auto").select(query["columns"])
    ours = [list(row.values()) for row in changes.to_pylist()]
    assert sorted(ours, key=repr) == sorted(query["rows"], key=repr)
    assert len(ours) == count


@pytest.mark.parametrize("name", CHANGELOGS)
def test_changes_are_the_rows_that_java_streams(catalog, oracle_dir, name):
    """Java's stream from snapshot 1 on, without kinds; the rows of a key in their order."""
    table = catalog.table(f"db.{name}")
    document = json.loads((oracle_dir / f"fixtures/expected/changelog_{name}.json").read_text())
    java = [row for batch in document["stream"] for row in batch["rows"]]
    changes = table.changes(0, mode="auto").drop_columns(["_row_kind"]).to_pylist()
    ours = [list(row.values()) for row in changes]
    assert java
    columns = document["stream"][0]["columns"]
    keys = table.primary_keys or tuple(columns)  # without a key: rows in any order
    places = [columns.index(name) for name in keys]

    def key(row: list[object]) -> str:
        return repr([row[place] for place in places])

    assert sorted(ours, key=key) == sorted(java, key=key)  # stable


@pytest.fixture(scope="module")
def old_catalog(oracle_dir, tmp_path_factory):
    """The 1.3.1 warehouse lies under another name than `<db>.db` of its parent."""
    warehouse = tmp_path_factory.mktemp("w")
    # a copy: what is written here must not reach the fixtures
    source = oracle_dir / "fixtures/warehouse_1_3_1.db"
    shutil.copytree(source, warehouse / "old.db", copy_function=shutil.copyfile)
    for place, _, _ in os.walk(warehouse):
        Path(place).chmod(0o755)
    return tidelake.open(warehouse)


def test_tables_of_java_1_3_1_read_equal(old_catalog):
    null_parts = old_catalog.table("old.append_nullpart").to_arrow().sort_by("a").to_pylist()
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 123000)
    epoch = dt.datetime(1970, 1, 1)
    assert [tuple(r.values()) for r in null_parts] == [
        (1, None, None, None),
        (2, "", True, moment),
        (3, "  ", False, epoch),
        (4, "a=b/c%d'[x]{y}^~中", False, epoch),
    ]
    indexed = old_catalog.table("old.append_idx").to_arrow().to_pylist()
    assert sorted(indexed, key=repr) == sorted(
        [
            {"a": 1, "s": "x"},
            {"a": 2, "s": "y"},
            {"a": None, "s": None},
            {"a": 1, "s": "zzzzzzzzzz"},
        ],
        key=repr,
    )
    dynamic = old_catalog.table("old.pk_dyn")
    assert dynamic.to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "v": "a"},
        {"k": 2, "v": "b"},
        {"k": 3, "v": "c"},
    ]
    assert dynamic.to_arrow(snapshot_id=1).num_rows == 2
    orc = old_catalog.table("old.append_emb_orc").to_arrow().sort_by("a")
    assert orc.to_pylist() == [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}]
    avro = old_catalog.table("old.append_bucket_avro")
    rows = [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}, {"a": 42, "s": None}]
    assert avro.to_arrow().sort_by("a").to_pylist() == rows
    for row in rows:  # each is alone in its bucket
        assert avro.to_arrow(where=f"a = {row['a']}").to_pylist() == [row]
    assert old_catalog.table("old.pk_postpone").count() == 0  # rows wait for their buckets
    dynamic.write([{"k": 1, "v": "z"}])
    assert dynamic.count() == 3
    assert dynamic.to_arrow(where="k = 1").to_pylist() == [{"k": 1, "v": "z"}]


def test_a_row_that_a_lookup_found_in_a_higher_level_counts_once(old_catalog):
    """Java compacted 10 + 5 into level 4 and left the 10 in level 5."""
    table = old_catalog.table("old.pk_agg_lookup")
    states = [table.to_arrow(snapshot_id=n).sort_by("k").to_pylist() for n in range(1, 7)]
    assert [state[0]["v"] for state in states] == [10, 10, 15, 15, 0, 0]
    assert all(state[1] == {"k": 2, "v": 20} for state in states)
    result = table.write([{"k": 1, "v2": 7}, {"k": 3, "v2": 1}])
    assert table.to_arrow().sort_by("k").column("v2").to_pylist() == [7, 20, 1]
    changes = table.changes(6, result.snapshot_ids[-1], mode="changelog").to_pylist()
    assert [(c["_row_kind"], c["k"], c["v2"]) for c in changes] == [
        ("-U", 1, 0),
        ("+U", 1, 7),
        ("+I", 3, 1),
    ]


@pytest.mark.parametrize("name", ["pk_dv", "pk_dv64"])
def test_rows_that_deletion_vectors_name_are_gone(old_catalog, name):
    table = old_catalog.table(f"old.{name}")
    assert [table.count(snapshot_id=n) for n in range(1, 5)] == [100, 100, 99, 99]
    rows = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert len(rows) == table.to_arrow().num_rows == table.count() == 99
    assert rows[5] == "n5"
    assert 7 not in rows
    assert {k: v for k, v in rows.items() if k != 5} == {
        k: v
        for k, v in zip(*table.to_arrow(snapshot_id=2).to_pydict().values(), strict=True)
        if k not in {5, 7}
    }
    assert table.count(where="k < 8") == table.to_arrow(where="k < 8").num_rows == 7
    assert table.to_arrow(where="k = 7").num_rows == 0
    assert table.to_arrow(where="v = 'n5'").to_pylist() == [{"k": 5, "v": "n5"}]
    assert table.to_arrow(limit=99).num_rows == 99  # rows that are deleted fill no limit
    assert "2, by the deletion vectors of 1 files" in str(table.explain())
    changes = table.changes(2, 4).to_pylist()
    assert [(c["_row_kind"], c["k"]) for c in changes] == [("-U", 5), ("+U", 5), ("-D", 7)]
    assert table.changes(2, 3).to_pylist() == changes  # what is on level 0 is merged
    assert table.changes(3, 4).num_rows == 0
    log = old_catalog.table(f"old.{name}$audit_log").to_arrow().to_pylist()
    assert sorted((r["k"], r["v"]) for r in log) == sorted(rows.items())
    assert {r["rowkind"] for r in log} == {"+I"}


@pytest.mark.parametrize("name", ["pk_dv", "pk_dv64"])
def test_tables_with_deletion_vectors_of_java_are_written_on(old_catalog, name):
    """Rows that wait in level 0, rows that Java marked, rows that are new, a delete."""
    table = old_catalog.table(f"old.{name}")
    expected = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    old_snapshot = table.latest_snapshot_id
    table.write([{"k": 1, "v": "z"}, {"k": 7, "v": "back"}, {"k": 5_000, "v": "new"}])
    expected |= {1: "z", 7: "back", 5_000: "new"}

    def check() -> None:
        rows = table.to_arrow().to_pylist()
        assert {row["k"]: row["v"] for row in rows} == expected
        assert len(rows) == table.count() == len(expected)
        check_table(table.handle.fileio, table.paths.location)

    check()
    assert table.delete("k IN (2, 5)").rows == 2
    del expected[2], expected[5]
    check()
    table.compact()
    check()
    table.compact(full=True)
    check()
    assert "rows deleted" not in str(table.explain())
    assert table.count(snapshot_id=old_snapshot) == 99


def test_nested_columns_of_java_1_3_1_read_equal(old_catalog):
    table = old_catalog.table("old.pk_all")
    first = table.to_arrow(snapshot_id=1, columns=["k", "arr", "m", "r", "ts9", "t"])
    moment = np.datetime64("2023-11-14T22:13:20.123456789")
    assert first.column("ts9").to_numpy()[0] == moment
    assert first.drop_columns(["ts9"]).to_pylist() == [
        {"k": 1, "arr": [1, None, 3], "m": [("kk", 9)], "r": {"x": 5, "y": "yy"}, "t": dt.time(1)},
        {"k": 2, "arr": None, "m": None, "r": None, "t": None},
    ]
    assert [r["s"] for r in table.to_arrow().sort_by("k").to_pylist()] == ["upd", None]


def test_every_type_of_java_1_3_1_has_an_arrow_type(old_catalog):
    table = old_catalog.table("old.types")
    assert table.to_arrow().num_rows == 0
    kinds = {f.name: str(f.type) for f in table.schema}
    assert kinds["c8"] == "map<string, int32>"
    assert kinds["c9"] == "list<element: struct<p: int32 not null, q: map<int32, string>>>"
    assert kinds["c10"] == "struct<value: binary not null, metadata: binary not null>"


def test_a_table_of_java_1_3_1_with_tracked_and_evolved_rows_reads_and_is_not_written(old_catalog):
    table = old_catalog.table("old.append_rt")
    rows = table.system_table("row_tracking").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, "x", 0, 1),
        (2, "y", 1, 1),
        (3, "z", 2, 2),
    ]
    assert table.to_arrow().to_pylist() == [
        {"a": a, "s": s} for a, s, _, _ in map(dict.values, rows)
    ]
    with pytest.raises(UnsupportedError, match="data-evolution"):
        table.write([{"a": 4, "s": "w"}])
