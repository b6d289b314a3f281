"""Spark reads tables with data evolution: the columns of a row lie in several files."""

from __future__ import annotations

import pytest
from proving.evolved_tables import evolve, make

from tidelake import UnsupportedError

READS = {
    "SELECT * FROM db.t": [(0, 30, 20), (1, 31, None), (2, 32, 22), (3, 33, 23)],
    "SELECT count(*), min(a), max(a), count(b), min(b) FROM db.t": [(4, 30, 33, 3, 20)],
    "SELECT a FROM db.t WHERE a > 31": [(32,), (33,)],
    "SELECT count(*) FROM db.t WHERE a < 5": [(0,)],
    "SELECT id FROM db.t WHERE b IS NULL": [(1,)],
    "SELECT id, _ROW_ID, _SEQUENCE_NUMBER FROM db.t WHERE _ROW_ID >= 2": [(2, 2, 3), (3, 3, 3)],
    "SELECT * FROM `db`.`t$row_tracking` WHERE id = 0": [(0, 30, 20, 0, 3)],
    "SELECT a FROM db.t VERSION AS OF 1": [(0,), (1,), (2,), (3,)],
    "SELECT count(*) FROM db.t VERSION AS OF 2 WHERE a = 13": [(1,)],
    "SELECT r.a FROM db.t l JOIN db.t r ON l.id = r.id WHERE r.b = 20": [(30,)],
    "SELECT sum(record_count), count(*) FROM `db`.`t$files`": [(12, 3)],
}
WRITES = (
    "INSERT INTO db.t VALUES (1, 2, 3)",
    "UPDATE db.t SET a = 1",
    "MERGE INTO db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = 1",
    "CALL sys.compact('db.t')",
)


def test_each_column_comes_from_the_newest_file_on_spark(lake):
    table = make(lake.catalog)
    evolve(table, 0, a=[10, 11, 12, 13])
    evolve(table, 0, b=[20, None, 22, 23], a=[30, 31, 32, 33])
    for query, wanted in READS.items():
        found = [tuple(row) for row in lake.sql(query).collect()]
        assert sorted(found, key=str) == wanted, query
    for statement in WRITES:
        with pytest.raises(UnsupportedError, match="does not write"):
            lake.sql(statement)
