"""Tables of others and copies on Spark: executors do the work, and Spark reads and writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidelake.spark.write import maintenance

POINT = pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())})
ROWS = pa.table(
    {
        "k": [1, 2, 3],
        "p": ["a b", "c", None],
        "s": pa.array([{"x": 1, "y": ["u", None]}, None, {"x": None, "y": []}], POINT),
        "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    }
)


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_migrated_tables_and_clones_are_read_and_written_on_spark(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance, "DRIVER_BYTES_MAX", 0)  # these files are small
    place = str(tmp_path / "delta")
    write_deltalake(place, ROWS, partition_by=["p"])
    wide = ROWS.slice(0, 1).append_column("z", pa.array([7], pa.int64()))
    write_deltalake(place, wide, mode="append", schema_mode="merge", partition_by=["p"])
    DeltaTable(place).delete("k = 2")
    done = lake.migrate_table("delta", place, "db.t", tasks=2)
    assert (done.rows_count, done.linked_count, done.files_count) == (3, 3, 3)
    query = "SELECT k, p, s.x, s.y, m['a'], z FROM {} WHERE k > 0"
    wanted = [
        (1, "a b", 1, ["u", None], 1, None),
        (1, "a b", 1, ["u", None], 1, 7),
    ]
    found = lake.sql(query.format("db.t")).collect()
    assert sorted((tuple(r) for r in found if r.k == 1), key=str) == sorted(wanted, key=str)
    assert [tuple(r) for r in found if r.k == 3] == [(3, None, None, [], None, None)]
    lake.sql("ALTER TABLE db.t RENAME COLUMN s.x TO u")
    lake.sql(
        "INSERT INTO db.t (k, p, s, m, z)"
        " SELECT 4, 'q', named_struct('u', 5, 'y', array('w')), NULL, 8"
    )
    lake.sql("UPDATE db.t SET z = 9 WHERE k = 3")
    assert rows(lake.sql("SELECT k, s.u, z FROM db.t WHERE k >= 3")) == [(3, None, 9), (4, 5, 8)]

    lake.clone_table("db.t", "db.c", tasks=2)
    lake.sql("ALTER TABLE db.c SET ('file-index.bloom-filter.columns' = 'k')")
    assert lake.rewrite_file_index("db.c", where="p = 'q'", dry_run=True).files_count == 1
    indexed = lake.rewrite_file_index("db.c", tasks=2)
    files = {row.file_path: row for row in lake.sql("SELECT * FROM `db`.`c$files`").collect()}
    assert indexed.files_count == len(files)
    lake.sql("DELETE FROM db.c WHERE k = 1")
    assert rows(lake.sql("SELECT k FROM db.c")) == [(3,), (4,)]
    assert lake.sql("SELECT k FROM db.t").count() == 4

    answer = lake.sql(
        f"CALL sys.migrate_table('delta', 'db.u', source_path => '{place}', dry_run => true)"
    ).collect()[0]
    assert (answer.result, answer.rowsCount, answer.notCarried) == (False, 3, None)
    with pytest.raises(Exception, match="exists"):
        lake.migrate_table("delta", place, "db.t")
