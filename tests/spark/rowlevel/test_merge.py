"""MERGE on the executors, against its definition on lists of rows (``proving.merge_oracle``)."""

from __future__ import annotations

import random

import pytest
from proving import doors
from proving.fsck import check_table
from proving.merge_oracle import (
    KeyTwice,
    NullKey,
    Twice,
    col,
    merged,
    some_clauses,
    to_sql,
)
from pyspark.sql import functions as F
from sizes import FULL, SIZE

import tidelake.spark
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.spark.rowlevel import merge_by_join
from tidelake.spark.sql import table_sources
from tidelake.table.rowlevel import append_change

DV = {"deletion-vectors.enabled": "true"}
COLUMNS = ["p", "k", "v", "w"]
LAYOUTS = {
    "keyed": ([], ["k"], {"bucket": "2"}),
    "keyed, by joins": ([], ["k"], {"bucket": "2"}),
    "keyed, partitioned": (["p"], ["p", "k"], {"bucket": "1"}),
    "keyed, dynamic buckets": ([], ["k"], {}),
    "keyed, keys that move": (["p"], ["k"], {}),
    "keyed, partial-update": (
        [],
        ["k"],
        {
            "bucket": "1",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    ),
    "keyed, marked": ([], ["k"], DV | {"bucket": "1", "changelog-producer": "lookup"}),
    "append": ([], [], {}),
    "append, marked": ([], [], DV),
    "append, partitioned": (["p"], [], {}),
    "append, marked, bucketed": (["p"], [], DV | {"bucket": "2", "bucket-key": "k"}),
}
ERRORS = {Twice: "merge_row_twice", KeyTwice: "merge_key_twice", NullKey: "null"}


def some_rows(rng, count, keys, *, nulls, unique):
    """Rows with keys of a small range, so that sides meet."""
    rows, seen = [], set()
    for _ in range(count):
        row = {
            "p": rng.choice("ab"),
            "k": rng.randrange(14),
            "v": rng.randrange(60),
            "w": rng.choice(["x", "y", None] if nulls else ["x", "y"]),
        }
        key = tuple(row[k] for k in keys or ["k"])
        if unique and key in seen:
            continue
        seen.add(key)
        rows.append(row)
    return rows


def some_merge(rng, keys, *, nulls):
    """Target, source, condition and clauses."""
    target = some_rows(rng, 14, keys, nulls=nulls, unique=bool(keys))
    source = some_rows(rng, 9, keys, nulls=nulls, unique=rng.random() < 0.75)
    if nulls and rng.random() < 0.3:
        source.append({"p": "a", "k": None, "v": 50, "w": "x"})
    key = ("=", col("t", "k"), col("s", "k"))
    both = ("AND", key, ("=", col("t", "p"), col("s", "p")))
    conditions = [both] * 4 if "p" in keys else [key] * 4
    conditions += [("AND", conditions[0], (">", col("t", "v"), ("lit", 20)))]
    clauses = some_clauses(rng)
    stars = any(c.action == "update" and c.values is None for c in clauses)
    if not nulls:
        conditions = conditions[
            :4
        ]  # partial-update would merge what is inserted under a key that is there
    elif not stars or not keys:  # a key may only be set to what ON says it is
        conditions += [
            ("AND", key, (">", col("s", "v"), ("lit", 20))),
            ("=", col("t", "v"), col("s", "v")),
        ]
    return target, source, rng.choice(conditions), clauses


def literal(value):
    return "CAST(NULL AS STRING)" if value is None else repr(value)


def values_of(source):
    if not source:
        return "(SELECT '' AS p, 0 AS k, 0 AS v, '' AS w WHERE false)"
    rows = ", ".join(
        f"({literal(r['p'])}, {'CAST(NULL AS INT)' if r['k'] is None else r['k']}, {r['v']},"
        f" {literal(r['w'])})"
        for r in source
    )
    return f"(SELECT * FROM VALUES {rows} AS r (p, k, v, w))"


def make(lake, name, layout, rows):
    partition_keys, keys, options = layout
    table = lake.catalog.create_table(
        f"default.{name}",
        {"p": "STRING", "k": "INT", "v": "INT", "w": "STRING"},
        primary_keys=keys,
        partition_keys=partition_keys,
        options=options,
    )
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            table.write(part)
    return table


def bag(rows):
    return sorted(tuple(repr(r[c]) for c in COLUMNS) for r in rows)


@pytest.mark.share(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_merges_at_random_do_what_the_definition_says(lake, monkeypatch, layout):
    if layout == "keyed, by joins":
        monkeypatch.setattr(merge_by_join, "by_bucket", lambda *_, **__: None)
    _, keys, options = LAYOUTS[layout]
    nulls = "merge-engine" not in options  # partial-update takes a null for "not given"
    went = 0
    first = list(LAYOUTS).index(layout)
    for number in range(FULL.merges):
        if went and number >= SIZE.merges:
            break
        seed = (first + number) % FULL.merges
        rng = random.Random(f"{layout} {seed}")
        target, source, on, clauses = some_merge(rng, keys, nulls=nulls)
        name = f"t{seed}"
        table = make(lake, name, LAYOUTS[layout], target)
        text = f"MERGE INTO {name} AS t USING {values_of(source)} AS s ON {to_sql(on)} " + " ".join(
            c.sql for c in clauses
        )
        before = table.latest_snapshot_id
        door = doors.DOORS[(first + number) % len(doors.DOORS)]
        try:
            expected, either = merged(target, source, on, clauses, columns=COLUMNS, keys=keys)
        except (Twice, KeyTwice, NullKey) as wrong:
            with pytest.raises(InvalidInputError) as raised:
                doors.run(lake, text, door)
            kinds = {ERRORS[type(wrong)], *(ERRORS.values() if keys else ())}
            assert raised.value.kind in kinds or "null" in str(raised.value), text
            assert lake.catalog.table(f"default.{name}").latest_snapshot_id == before, text
            expected, either = target, []
        else:
            doors.run(lake, text, door)
            went += 1
        found = lake.catalog.table(f"default.{name}").to_arrow().to_pylist()
        for candidates in either:
            key = [candidates[0][k] for k in keys]
            one = [r for r in found if [r[k] for k in keys] == key]
            assert len(one) == 1, text
            assert one[0] in candidates, text
            found.remove(one[0])
        assert bag(found) == bag(expected), text
        # one commit, and that of the compaction which a keyed table with deletion vectors needs
        commits = 2 if keys and "deletion-vectors.enabled" in options else 1
        after = lake.catalog.table(f"default.{name}").latest_snapshot_id
        assert after <= before + commits, text
    check_table(LocalFileIO(), table.paths.location)
    assert went, "not every merge is wrong"


def rows(lake, text):
    return [tuple(row) for row in lake.sql(text).collect()]


def bought(lake, values):
    """A keyed table of items, one column with a default."""
    lake.sql(
        "CREATE TABLE stock (id INT, place STRING, n INT, note STRING,"
        " PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
    )
    lake.sql(f"INSERT INTO stock VALUES {values}")
    lake.sql("ALTER TABLE stock ALTER COLUMN note SET DEFAULT 'none'")


def test_sources_of_all_kinds_and_names_of_all_lengths(lake, monkeypatch):
    bought(lake, "(1, 'a', 1, 'x'), (2, 'a', 2, 'x'), (3, 'b', 3, 'x')")
    lake.sql("CREATE DATABASE o")
    lake.sql("CREATE TABLE o.stock (id INT, n BIGINT, kind STRING, big STRING)")
    lake.sql("INSERT INTO o.stock VALUES (1, 10, 'add', 'z'), (4, 40, 'new', 'z')")
    lake.sql("INSERT INTO o.stock VALUES (9, 90, 'late', 'z')")
    read = []
    frame_of = table_sources.table_frame

    def frame(spark, found, name, **given):
        read.append((name, given["columns"]))
        return frame_of(spark, found, name, **given)

    monkeypatch.setattr(table_sources, "table_frame", frame)
    lake.sql(
        "MERGE INTO default.stock USING o.stock VERSION AS OF 1 AS s ON default.stock.id = s.id"
        " WHEN MATCHED THEN UPDATE SET stock.n = default.stock.n + s.n"
        " WHEN NOT MATCHED THEN INSERT (id, N, place) VALUES (s.id, n, kind)"
    )
    assert set(map(str, read)) == {str(("o.stock", ["id", "n", "kind"]))}
    assert rows(lake, "SELECT * FROM stock ORDER BY id") == [
        (1, "a", 11, "x"),
        (2, "a", 2, "x"),
        (3, "b", 3, "x"),
        (4, "new", 40, "none"),
    ]
    lake.sql("CREATE TEMPORARY VIEW few AS SELECT id FROM o.stock WHERE kind = 'add'")
    lake.sql(
        "WITH less (key) AS (SELECT id FROM few), less2 AS (SELECT key + 1 AS key FROM less)"
        " MERGE INTO stock t USING less2 ON t.id = key AND t.n > (SELECT min(n) - 9 FROM stock)"
        " WHEN MATCHED AND EXISTS (SELECT 1 FROM less WHERE less.key = t.id - 1) THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND id IN (SELECT max(id) FROM stock) THEN UPDATE SET n = 0"
    )
    assert rows(lake, "SELECT id, n FROM stock ORDER BY id") == [(1, 11), (3, 3), (4, 0)]
    lake.sql("CREATE TABLE empty (id INT, n INT)")
    for _ in range(2):  # into a table without a snapshot, and into one with
        lake.sql(
            "MERGE INTO empty t USING (VALUES (1, 2), (3, CAST(NULL AS INT))) AS s (id, n)"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1"
            " WHEN NOT MATCHED THEN INSERT *"
        )
    assert rows(lake, "SELECT * FROM empty ORDER BY id") == [(1, 3), (3, None)]


def test_files_are_pruned_and_columns_left_out(lake, monkeypatch):
    table = lake.catalog.create_table(
        "default.t",
        {"day": "STRING", "k": "INT", "v": "INT", "w": "STRING"},
        primary_keys=["day", "k"],
        partition_keys=["day"],
        options={"bucket": "1"},
    )
    for day in "abc":
        table.write([{"day": day, "k": k, "v": k, "w": "x"} for k in range(20)])
    scans = []
    frame_of = merge_by_join.frame_of

    def read(spark, scan, *, table):
        scans.append((scan.columns, len(scan.plan.splits), str(scan.predicate)))
        return frame_of(spark, scan, table=table)

    monkeypatch.setattr(merge_by_join, "frame_of", read)
    monkeypatch.setattr(merge_by_join, "by_bucket", lambda *_, **__: None)
    lake.sql(
        "MERGE INTO t USING (VALUES ('b', 3, 30, 'n'), ('b', 50, 50, 'n')) AS s (day, k, v, w)"
        " ON t.day = s.day AND t.k = s.k AND t.k < 100"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert scans == [(("day", "k"), 1, "k < 100 AND day IN ('b') AND k IN (3, 50)")]
    found = lake.catalog.table("default.t").to_arrow(where="w = 'n'").sort_by("k").to_pylist()
    assert [(r["day"], r["k"], r["v"]) for r in found] == [("b", 3, 30), ("b", 50, 50)]


def test_a_merge_is_done_again_where_another_commit_was_faster(lake, monkeypatch):
    bought(lake, "(1, 'a', 1, 'x'), (2, 'a', 2, 'x')")
    table = lake.catalog.table("default.stock")
    marked = lake.catalog.create_table(
        "default.marked", {"id": "INT", "n": "INT"}, options={"deletion-vectors.enabled": "true"}
    )
    marked.write([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    late = []

    def then(write):
        def wrapped(*given, **named):
            if late:
                late.pop()()
            return write(*given, **named)

        return wrapped

    monkeypatch.setattr(merge_by_join, "write_made_rows", then(merge_by_join.write_made_rows))
    monkeypatch.setattr(append_change, "joined_messages", then(append_change.joined_messages))
    text = (
        "MERGE INTO {} AS t USING (VALUES (1, 10), (5, 50)) AS s (id, n) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET n = t.n + s.n"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
    )
    late.append(lambda: table.write([{"id": i, "place": "b", "n": 7} for i in (1, 5)]))
    lake.sql(text.format("stock"))
    # what the other commit wrote is changed, and not written over
    assert rows(lake, "SELECT id, n FROM stock ORDER BY id") == [(1, 17), (2, 2), (5, 57)]
    late.append(lambda: lake.catalog.table("default.marked").update({"n": 100}, "id < 3"))
    lake.sql(text.format("marked"))
    assert rows(lake, "SELECT * FROM marked ORDER BY id") == [(1, 110), (2, 100), (5, 50)]
    assert not late


def test_merges_from_python(spark, lake):
    bought(lake, "(1, 'a', 1, 'x'), (2, 'a', 2, 'x'), (3, 'b', 3, 'x')")
    source = spark.sql(
        "SELECT 1 AS id, 'q' AS place, 10 AS n, '' AS note UNION ALL SELECT 7, 'q', 70, 'new'"
    )
    once = {"commit_user": "job", "commit_identifier": 1}
    merging = (
        lake.merge("default.stock", source, on="id")
        .when_matched_update(
            {"n": F.col("t.n") + F.col("s.n"), "place": "upper(t.place)"}, "s.n > 3"
        )
        .when_not_matched_insert()
        .when_not_matched_by_source_delete(F.col("t.n") == 2)
        .when_not_matched_by_source_update({"n": 0, "note": None})
    )
    result = merging.execute(**once)
    assert (result.rows, len(result.snapshot_ids)) == (4, 1)
    expected = [(1, "A", 11, "x"), (3, "b", 0, None), (7, "q", 70, "new")]
    assert rows(lake, "SELECT * FROM stock ORDER BY id") == expected
    assert merging.execute(**once).already_committed
    assert rows(lake, "SELECT * FROM stock ORDER BY id") == expected
    removed = lake.merge("default.stock", source, "tt.id = src.id", alias="tt", source_alias="src")
    assert removed.when_matched_delete("tt.n = 70").execute().rows == 1
    both = lake.merge("default.stock", source, ["ID", "place"]).when_matched_update()
    assert both.execute().snapshot_ids == ()
    assert rows(lake, "SELECT id FROM stock ORDER BY id") == [(1,), (3,)]
    for wrong, message in (
        (lake.merge("default.stock", source, "id"), "has no clause: add one"),
        (lake.merge("default.stock", source, ["id", "idd"]).when_matched_delete(), "'idd'"),
        (lake.merge("default.stock", source, "t.idd = s.id").when_matched_delete(), "idd"),
        (lake.merge("default.stock", source, "id").when_matched_update({"m": 1}), "no column 'm'"),
        (
            lake.merge("default.stock", source, "id").when_matched_delete().when_matched_update(),
            "never apply",
        ),
    ):
        with pytest.raises(InvalidInputError, match=message):
            wrong.execute()


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("shop"))
    bought(lake, "(1, 'a', 1, 'x'), (2, 'a', 2, 'x')")
    lake.sql("CREATE TABLE s (id INT, place STRING, n STRING)")
    lake.sql("INSERT INTO s VALUES (1, 'b', '5'), (1, 'c', '6'), (3, 'c', '6'), (3, 'd', '7')")
    lake.sql(
        "CREATE TABLE sums (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum')"
    )
    return lake


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("text", "error", "message", "shown"),
    [
        ("stock t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
         InvalidInputError, "no column 'note'", "INSERT *"),
        ("stock t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET m = 1", InvalidInputError,
         "no column 'm'", "m = 1"),
        ("stock t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n", InvalidInputError,
         r"write CAST\(\.\.\. AS INT\)", "n = s.n"),
        ("stock t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 4", InvalidInputError,
         "primary key", "id = 4"),
        ("stock t USING s ON t.id > s.id WHEN MATCHED THEN UPDATE SET id = s.id",
         InvalidInputError, "primary key", "id = s.id"),
        ("stock t USING s ON t.id = s.id WHEN MATCHED AND place = 'b' THEN DELETE",
         InvalidInputError, "ambiguous", "place"),
        ("stock t USING s ON t.id = s.id WHEN NOT MATCHED AND t.n > 1 THEN INSERT (id) VALUES (1)",
         InvalidInputError, "t.*n", "t.n"),
        ("stock t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND s.n > '' THEN DELETE",
         InvalidInputError, "s.*n", "s.n"),
        ("stock t USING s ON t.idd = s.id WHEN MATCHED THEN DELETE", InvalidInputError,
         "Did you mean 'id'", "t.idd"),
        ("stock t USING ss ON t.id = ss.id WHEN MATCHED THEN DELETE", NotFoundError,
         "Did you mean 'sums' or 's'", "ss ON"),
        ("stok t USING s ON t.id = s.id WHEN MATCHED THEN DELETE", NotFoundError,
         "Did you mean 'stock'", "stok"),
        ("stock USING stock ON true WHEN MATCHED THEN DELETE", InvalidInputError, "an alias", None),
        ("sums t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1", UnsupportedError,
         "aggregat", None),
        ("stock t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET place = s.place",
         InvalidInputError, "2 rows of the source match one row", None),
        ("stock t USING (SELECT *, id AS id FROM s) s ON true WHEN MATCHED THEN DELETE",
         InvalidInputError, "two columns 'id'", None),
        ("stock t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (place) VALUES ('x')",
         InvalidInputError, "id", None),
    ],
)  # fmt: skip
def test_mistakes_are_errors_of_ours_and_change_nothing(shop, text, error, message, shown):
    text = f"MERGE INTO {text}"
    before = shop.catalog.table("default.stock").latest_snapshot_id
    with pytest.raises(error, match=message) as raised:
        shop.sql(text)
    said = str(raised.value)
    assert "__tidelake" not in said
    assert "SQLSTATE" not in said
    assert shown is None or f"column {text.rindex(shown) + 1}:" in said
    assert shop.catalog.table("default.stock").latest_snapshot_id == before


def test_merges_and_writes_bring_new_columns_along_where_they_may(spark, lake):
    lake.sql("CREATE TABLE t (id INT, n INT, w STRING, PRIMARY KEY (id) NOT ENFORCED)")
    lake.sql("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x')")
    merge_all = (
        "MERGE {} INTO t USING (SELECT 2 AS id, 5000000000 AS n, 0.5D AS more UNION ALL"
        " SELECT 3, 3, 1.5D) AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED {} THEN INSERT *"
    )
    with pytest.raises(InvalidInputError, match="no column 'w'"):
        lake.sql(merge_all.format("", ""))
    with pytest.raises(InvalidInputError, match="column"):
        lake.sql(merge_all.format("WITH SCHEMA EVOLUTION", "AND s.nope > 3"))
    assert lake.catalog.table("default.t").table_schema.id == 0
    lake.sql(merge_all.format("WITH SCHEMA EVOLUTION", ""))
    schema = lake.catalog.table("default.t").table_schema
    assert {f.name: str(f.type) for f in schema.fields} == {
        "id": "INT NOT NULL",
        "n": "BIGINT",
        "w": "STRING",
        "more": "DOUBLE",
    }
    assert schema.id == 1
    state = [(1, 1, "x", None), (2, 5_000_000_000, "x", 0.5), (3, 3, None, 1.5)]
    assert rows(lake, "SELECT * FROM t ORDER BY id") == state
    hint = "/*+ OPTIONS('write.merge-schema'='true') */"
    lake.sql(f"INSERT INTO t {hint} SELECT 4, 4, 'y', 2.5, DATE '2026-01-01' AS day")
    lake.sql(f"INSERT INTO t {hint} BY NAME SELECT 5 AS id, array(1) AS list, NULL AS w")
    wider = spark.sql("SELECT 6 AS ID, named_struct('a', 1) AS nested")
    lake.write(wider, "default.t", options={"write.merge-schema": "true"})
    wider = spark.sql("SELECT 7 AS id, named_struct('a', 5000000000, 'b', 'z') AS nested")
    lake.write(wider, "default.t", options={"write.merge-schema": "true"})
    found = lake.catalog.table("default.t")
    assert found.table_schema.id == 5
    last = found.to_arrow(where="id >= 4").sort_by("id").to_pylist()
    assert [(r["day"] is None, r["list"], r["nested"]) for r in last] == [
        (False, None, None),
        (True, [1], None),
        (True, None, {"a": 1, "b": None}),
        (True, None, {"a": 5_000_000_000, "b": "z"}),
    ]
    for wrong, message in (
        ("INSERT INTO t {} BY NAME SELECT 'x' AS n, 1 AS id", "n"),
        ("INSERT INTO t {} BY NAME SELECT 5000000000 AS id", "primary key"),
        ("INSERT INTO t {} SELECT 1, 2", "2 columns"),
    ):
        with pytest.raises(TidelakeError, match=message):
            lake.sql(wrong.format(hint))
    with pytest.raises(InvalidInputError, match="extra"):
        lake.sql("INSERT INTO t BY NAME SELECT 1 AS id, 2 AS extra")
    assert lake.catalog.table("default.t").table_schema.id == 5
    source = spark.sql("SELECT 1 AS id, 'new' AS late")
    options = {"write.merge-schema": "true"}
    merging = lake.merge("default.t", source, "id", options=options).when_matched_update()
    assert merging.execute().rows == 1
    assert rows(lake, "SELECT n, late FROM t WHERE id = 1") == [(1, "new")]
