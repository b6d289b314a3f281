"""UPDATE and DELETE of tl.sql that look into other tables."""

from __future__ import annotations

import pytest

import tidelake.spark
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.spark.rowlevel import delete_update
from tidelake.spark.sql import table_sources

TABLES = {
    "keyed": ", PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')",
    "marked": ") WITH ('deletion-vectors.enabled' = 'true')",
    "rewritten": ") WITH ('bucket' = '-1')",
}


def rows(lake, text):
    return sorted(tuple(row) for row in lake.sql(text).collect())


def make(lake, kind):
    lake.sql(f"CREATE TABLE t (id INT, item STRING, n INT{TABLES[kind]}")
    lake.sql("INSERT INTO t SELECT id, concat('i', id % 3), id FROM range(1, 13)")
    lake.sql("CREATE TABLE u (id INT, n INT, extra STRING)")
    lake.sql("INSERT INTO u VALUES (2, 20, 'x'), (4, 40, 'x'), (6, NULL, 'y')")
    lake.sql("INSERT INTO u VALUES (8, 80, 'z'), (NULL, 5, 'x')")


@pytest.mark.parametrize("kind", TABLES)
def test_conditions_and_values_look_into_other_tables(lake, kind):
    make(lake, kind)
    # an unqualified column is first the inner table's; `t.` is the outer row's, whatever it is
    lake.sql("DELETE FROM t WHERE t.id IN (SELECT u.id FROM u WHERE n >= 40) AND n > 4")
    model = {i: [f"i{i % 3}", i] for i in range(1, 13) if i != 8}
    assert rows(lake, "SELECT id, n FROM t") == [(i, i) for i in model]
    lake.sql(
        "UPDATE t SET n = (SELECT max(u.n) FROM u WHERE u.id = t.id), item = upper(item)"
        " WHERE EXISTS (SELECT * FROM u WHERE u.id = t.id AND extra = 'x')"
    )
    for i in (2, 4):
        model[i] = [f"I{i % 3}", i * 10]
    lake.sql("UPDATE t AS o SET n = -1 WHERE o.n > (SELECT avg(n) FROM default.t VERSION AS OF 1)")
    model |= {i: [item, -1] for i, (item, n) in model.items() if n > 6.5}
    lake.sql("DELETE FROM default.t WHERE default.t.id NOT IN (SELECT id FROM t WHERE n = -1)")
    model = {i: row for i, row in model.items() if row[1] == -1}
    assert rows(lake, "SELECT * FROM t") == sorted((i, *row) for i, row in model.items())
    shown = lake.spark.sql("SHOW TABLES").collect()
    assert not [v for v in shown if v.tableName.startswith("__tidelake")]


def test_subqueries_are_pruned_and_read_again_where_another_commit_was_faster(lake, monkeypatch):
    make(lake, "keyed")
    asked = []
    frame_of = table_sources.table_frame

    def frame(spark, found, name, **given):
        asked.append((name, given["columns"], str(given["where"])))
        return frame_of(spark, found, name, **given)

    monkeypatch.setattr(table_sources, "table_frame", frame)
    write = delete_update.write_made_rows
    others = [[2, 3]]

    def late(handle, made, **given):
        if others:  # another writer changes what both tables say, once
            ids = others.pop()
            lake.catalog.table("default.t").write([{"id": i, "item": "new", "n": 7} for i in ids])
            lake.catalog.table("default.u").write([{"id": 3, "n": 1, "extra": "x"}])
        return write(handle, made, **given)

    monkeypatch.setattr(delete_update, "write_made_rows", late)
    lake.sql("UPDATE t SET n = 0 WHERE id IN (SELECT id FROM u WHERE u.extra = 'x' AND id < 4)")
    assert asked
    assert all(given == ("u", ["id", "extra"], "extra == 'x' AND id < 4") for given in asked)
    zeros = lake.catalog.table("default.t").to_arrow(where="n = 0").sort_by("id")
    assert zeros.to_pylist() == [
        {"id": 2, "item": "new", "n": 0},
        {"id": 3, "item": "new", "n": 0},
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("DELETE FROM t WHERE id IN (SELECT id FROM uu)", NotFoundError, "Did you mean 'u'"),
        ("DELETE FROM t WHERE id IN (SELECT idd FROM u)", InvalidInputError, "idd"),
        ("UPDATE t SET n = (SELECT n FROM u LIMIT) + 1", InvalidInputError, "column 40:"),
        ("UPDATE t SET n = 1 WHERE id = 3 LIMIT 1", UnsupportedError, "nothing after"),
        ("UPDATE t SET n = 1 WHERE iid = 3", InvalidInputError, "Did you mean 'id'"),
        ("UPDATE t SET n = (SELECT n, id FROM u)", InvalidInputError, "column"),
    ],
)
def test_mistakes_in_subqueries_are_errors_of_ours(shop, text, error, message):
    with pytest.raises(error, match=message) as raised:
        shop.sql(text)
    assert isinstance(raised.value, TidelakeError)
    assert "__tidelake" not in str(raised.value)
    assert shop.catalog.table("default.t").latest_snapshot_id == 1


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("shop"))
    make(lake, "marked")
    return lake
