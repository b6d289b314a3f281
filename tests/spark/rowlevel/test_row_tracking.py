"""Row tracking on Spark: updates, merges and deletes keep the ids of rows."""

from __future__ import annotations

import pytest

import tidelake.spark


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    return tidelake.spark.attach(spark, tmp_path_factory.mktemp("tracked"), catalog="tracked")


@pytest.mark.parametrize("marks", ["false", "true"])
def test_statements_keep_ids(spark, lake, marks):
    name = f"t_{marks}"
    lake.sql(
        f"CREATE TABLE {name} (id INT, data STRING)"
        f" WITH ('row-tracking.enabled' = 'true', 'deletion-vectors.enabled' = '{marks}')"
    )

    def found():
        columns = "id, data, _ROW_ID, _SEQUENCE_NUMBER"
        ours = lake.sql(f"SELECT {columns} FROM {name} ORDER BY id").collect()
        plain = f"SELECT {columns} FROM tracked.default.{name} WHERE _ROW_ID >= 0 ORDER BY id"
        view = lake.sql(f"SELECT * FROM `{name}$row_tracking` ORDER BY id").collect()
        rows = [tuple(row) for row in ours]
        assert [tuple(row) for row in spark.sql(plain).collect()] == rows
        assert [tuple(row) for row in view] == rows
        return rows

    lake.sql(f"INSERT INTO {name} VALUES (11, 'a'), (22, 'b')")
    first = found()
    assert sorted(row[2] for row in first) == [0, 1]
    ids = {row[0]: row[2] for row in first}
    lake.sql(f"UPDATE {name} SET data = concat(data, '-new') WHERE length(data) = 1 AND id = 11")
    assert found() == [(11, "a-new", ids[11], 2), (22, "b", ids[22], 1)]
    lake.sql(
        f"MERGE INTO {name} USING (SELECT * FROM VALUES (22, 'm'), (33, 'c') AS s(id, data)) s"
        f" ON {name}.id = s.id WHEN MATCHED THEN UPDATE SET data = s.data"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    rows = found()
    assert rows[:2] == [(11, "a-new", ids[11], 2), (22, "m", ids[22], 3)]
    assert rows[2][:2] == (33, "c")
    assert rows[2][2] not in ids.values()
    assert rows[2][3] == 3
    lake.sql(f"DELETE FROM {name} WHERE length(data) = 5")
    assert found() == rows[1:]
    lake.sql(f"CALL sys.compact(table => '{name}')")
    assert found() == rows[1:]
    assert lake.sql(f"SELECT * FROM {name}").columns == ["id", "data"]
