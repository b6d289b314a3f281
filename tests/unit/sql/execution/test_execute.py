from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

import tidelake
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.sql import SqlSession, execute, parse
from tidelake.sql.execution.execute import NOTHING

FULL = """
CREATE TABLE shop.orders (
  id BIGINT, `user` STRING COMMENT 'it''s a \\\\ name', day DATE,
  place ROW<a INT NOT NULL, b ARRAY<MAP<STRING, DECIMAL(5, 2)>>>, at TIMESTAMP_LTZ(3),
  order_time TIMESTAMP(3) DEFAULT '2026-01-01 00:00:00',
  PRIMARY KEY (day, id) NOT ENFORCED,
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) COMMENT 'all of them' PARTITIONED BY (day) WITH ('bucket' = '2', 'merge-engine' = 'deduplicate')
"""


@pytest.fixture
def session(tmp_path):
    return SqlSession(tidelake.open(tmp_path / "warehouse"), name="lake")


@pytest.fixture
def run(session):
    def run(text):
        for statement in parse(text):
            answer = execute(statement, session)
        return answer.to_pylist()

    return run


def test_what_show_create_table_says_makes_the_same_table(session, run):
    run(FULL)
    first = session.catalog.table("shop.orders").table_schema
    (text,) = (row["createtab_stmt"] for row in run("SHOW CREATE TABLE shop.orders"))
    run("DROP TABLE shop.orders")
    run(text)
    second = session.catalog.table("shop.orders").table_schema
    assert second.fields == first.fields
    assert second.options == first.options
    assert (second.primary_keys, second.partition_keys) == (("day", "id"), ("day",))
    assert second.comment == first.comment == "all of them"


def test_a_watermark_is_kept_where_paimons_flink_catalog_keeps_it(session, run):
    run(FULL)
    options = session.catalog.table("shop.orders").table_schema.options
    assert {k: v for k, v in options.items() if k.startswith("schema.")} == {
        "schema.watermark.0.rowtime": "order_time",
        "schema.watermark.0.strategy.expr": "`order_time` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    }
    run("ALTER TABLE shop.orders MODIFY WATERMARK FOR at AS at")
    options = session.catalog.table("shop.orders").table_schema.options
    assert options["schema.watermark.0.rowtime"] == "at"
    assert options["schema.watermark.0.strategy.data-type"] == ("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    run("ALTER TABLE shop.orders DROP WATERMARK")
    assert not [
        k for k in session.catalog.table("shop.orders").table_schema.options if "watermark" in k
    ]


def test_sparks_properties_name_the_keys(session, run):
    run(
        "CREATE TABLE t (a INT, b INT, c INT) USING paimon"
        " TBLPROPERTIES ('primary-key' = 'a, b', 'partition' = 'b', 'bucket' = '1')"
    )
    schema = session.catalog.table("default.t").table_schema
    assert (schema.primary_keys, schema.partition_keys) == (("a", "b"), ("b",))
    assert dict(schema.options) == {"bucket": "1"}


def test_if_not_exists_looks_at_the_name_and_or_replace_begins_anew(session, run):
    run("CREATE TABLE t (a INT)")
    run("CREATE TABLE IF NOT EXISTS t (b STRING)")
    assert session.catalog.table("default.t").table_schema.field_names == ("a",)
    with pytest.raises(AlreadyExistsError):
        run("CREATE TABLE t (b STRING)")
    run("CREATE OR REPLACE TABLE t (b STRING)")
    assert session.catalog.table("default.t").table_schema.field_names == ("b",)
    with pytest.raises(NotFoundError):
        run("REPLACE TABLE u (b STRING)")


def test_databases(run):
    run("CREATE DATABASE a; CREATE DATABASE IF NOT EXISTS a; CREATE TABLE a.t (x INT)")
    assert run("SHOW DATABASES") == [{"namespace": "a"}]
    assert run("DESCRIBE DATABASE a")[0] == {"info_name": "Namespace Name", "info_value": "a"}
    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        run("DROP DATABASE a")
    run("DROP DATABASE a CASCADE; DROP DATABASE IF EXISTS a")
    with pytest.raises(NotFoundError):
        run("DROP DATABASE a")


def test_use_and_names_of_one_two_and_three_parts(session, run, tmp_path):
    run(f"CREATE CATALOG other WITH ('type'='paimon', 'warehouse'='{tmp_path}/other')")
    run("CREATE TABLE other.db.t (x INT); CREATE DATABASE mine; USE mine; CREATE TABLE t (y INT)")
    assert run("SHOW COLUMNS IN t") == [{"col_name": "y"}]
    assert run("SHOW COLUMNS IN lake.mine.t") == [{"col_name": "y"}]
    assert run("SHOW COLUMNS IN other.db.t") == [{"col_name": "x"}]
    run("USE CATALOG other; USE db")
    assert run("SHOW COLUMNS IN t") == [{"col_name": "x"}]
    run("USE lake.mine")
    assert (session.catalog_name, session.database) == ("lake", "mine")
    assert run("SHOW CATALOGS") == [{"catalog": "lake"}, {"catalog": "other"}]
    with pytest.raises(NotFoundError, match=r"no catalog 'othr'. Did you mean 'other'"):
        run("USE CATALOG othr")
    with pytest.raises(NotFoundError, match=r"no database 'mien'. Did you mean 'mine'"):
        run("USE mien")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("'type'='hive', 'warehouse'='/x'", InvalidInputError, "'type' = 'paimon', not 'hive'"),
        ("'warehouse'='/x'", InvalidInputError, "'type' = 'paimon'"),
        ("'type'='paimon'", InvalidInputError, "'warehouse'"),
        ("'type'='paimon', 'warehouse'='/x', 'metastore'='hive'", InvalidInputError, "'uri'"),
        ("'type'='paimon', 'warehouse'='/x', 'wat'='1'", InvalidInputError, "'wat'"),
    ],
)
def test_a_catalog_that_is_not_covered(run, options, error, message):
    with pytest.raises(error, match=message):
        run(f"CREATE CATALOG c WITH ({options})")
    assert run("SHOW CATALOGS") == [{"catalog": "lake"}]


def test_a_catalogs_defaults_are_those_of_its_new_tables(run, tmp_path):
    run(
        f"CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{tmp_path}/c',"
        " 'table-default.bucket'='3'); CREATE TABLE c.d.t (x INT, PRIMARY KEY (x) NOT ENFORCED)"
    )
    assert run("SHOW TBLPROPERTIES c.d.t") == [{"key": "bucket", "value": "3"}]


def test_alter_and_describe(run):
    run("CREATE TABLE t (a INT, b ROW<c INT>) COMMENT 'x' WITH ('bucket'='-1')")
    run("ALTER TABLE t ADD COLUMNS (d STRING COMMENT 'dd' FIRST, b.e DATE)")
    run("ALTER TABLE t RENAME COLUMN a TO aa; ALTER TABLE t ALTER COLUMN aa TYPE BIGINT")
    run("ALTER TABLE t SET ('snapshot.num-retained.max'='19'); COMMENT ON TABLE t IS 'y'")
    assert run("DESCRIBE t") == [
        {"col_name": "d", "data_type": "STRING", "comment": "dd"},
        {"col_name": "aa", "data_type": "BIGINT", "comment": None},
        {"col_name": "b", "data_type": "ROW<`c` INT, `e` DATE>", "comment": None},
    ]
    assert run("DESCRIBE t aa")[0]["data_type"] == "BIGINT"
    told = {row["col_name"]: row["data_type"] for row in run("DESCRIBE EXTENDED t")}
    assert told["Comment"] == "y"
    assert told["Table Properties"] == "[bucket=-1, snapshot.num-retained.max=19]"
    run("ALTER TABLE t RESET ('snapshot.num-retained.max')")
    assert run("SHOW TBLPROPERTIES t") == [{"key": "bucket", "value": "-1"}]
    with pytest.raises(NotFoundError, match=r"no column 'aaa'. Did you mean 'aa'"):
        run("DESCRIBE t aaa")
    run("ALTER TABLE IF EXISTS nothing SET ('a'='b')")


def test_partitions_tags_and_truncate(session, run):
    run("CREATE TABLE t (a INT, day DATE, h INT) PARTITIONED BY (day, h)")
    table = session.catalog.table("default.t")
    table.write([{"a": n, "day": date(2026, 1, n), "h": 1} for n in (1, 2)])
    run("ALTER TABLE t CREATE TAG one; ALTER TABLE t CREATE TAG IF NOT EXISTS one")
    assert run("SHOW PARTITIONS t") == [
        {"partition": "day=2026-01-01/h=1"},
        {"partition": "day=2026-01-02/h=1"},
    ]
    assert run("SHOW PARTITIONS t PARTITION (day='2026-01-02')") == [
        {"partition": "day=2026-01-02/h=1"}
    ]
    run("ALTER TABLE t DROP PARTITION (day='2026-01-01')")
    assert table.to_arrow().column("a").to_pylist() == [2]
    run("ALTER TABLE t CREATE TAG three; ALTER TABLE t DELETE TAG three")  # Paimon's word
    run("ALTER TABLE t DELETE TAG IF EXISTS three")
    run("ALTER TABLE t CREATE OR REPLACE TAG one AS OF VERSION 2; ALTER TABLE t CREATE TAG two")
    assert table.count(tag="one") == 1
    assert run("SHOW TAGS t") == [{"tag": "one"}, {"tag": "two"}]
    run("ALTER TABLE t DROP TAG two; ALTER TABLE t DROP TAG IF EXISTS two")
    with pytest.raises(NotFoundError, match=r"no tag 'ones'. Did you mean 'one'"):
        run("ALTER TABLE t REPLACE TAG ones")
    with pytest.raises(NotFoundError):
        run("ALTER TABLE t CREATE OR REPLACE TAG one AS OF VERSION 99")
    assert run("SHOW TAGS t") == [{"tag": "one"}]  # what fails removes nothing
    run("TRUNCATE TABLE t PARTITION (h=7)")
    assert table.count() == 1
    run("TRUNCATE TABLE t")
    assert table.count() == 0


def test_tables_get_other_names(session, run):
    run("CREATE TABLE a (x INT); CREATE TABLE d.b (x INT); ALTER TABLE a RENAME TO c")
    assert session.catalog.list_tables("default") == ["c"]
    run("ALTER TABLE d.b RENAME TO e")  # a name alone stays in the table's database
    assert session.catalog.list_tables("d") == ["e"]
    run("ALTER TABLE d.e RENAME TO default.b; ALTER TABLE lake.default.b RENAME TO lake.d.`f`")
    assert session.catalog.list_tables("d") == ["f"]
    run("ALTER TABLE IF EXISTS nowhere.t RENAME TO u; ALTER TABLE IF EXISTS t RENAME TO u")
    with pytest.raises(AlreadyExistsError, match=r"Table 'd\.f'"):
        run("ALTER TABLE c RENAME TO d.f")
    with pytest.raises(NotFoundError, match="Did you mean 'c'"):
        run("ALTER TABLE cc RENAME TO e")
    with pytest.raises(InvalidInputError, match=r"contains '\$'"):
        run("ALTER TABLE c RENAME TO `x$files`")


def test_what_cannot_get_another_name(session, run, tmp_path):
    run(f"CREATE CATALOG other WITH ('type'='paimon', 'warehouse'='{tmp_path}/other')")
    run("CREATE TABLE t (x INT)")
    with pytest.raises(UnsupportedError, match="in another catalog"):
        run("ALTER TABLE t RENAME TO other.default.t")
    place = f"{session.catalog.warehouse}/default.db/t"
    run(f"CREATE TEMPORARY TABLE tmp WITH ('connector'='paimon', 'path'='{place}')")
    with pytest.raises(UnsupportedError, match="'tmp' is temporary"):
        run("ALTER TABLE tmp RENAME TO u")
    assert session.catalog.list_tables("default") == ["t"]


def test_procedures_and_analyze(session, run, tmp_path):
    run("CREATE TABLE t (a INT)")
    table = session.catalog.table("default.t")
    for number in range(3):
        table.write([{"a": number}])
    told = run("CALL sys.create_tag(table => 't', tag => 'one', snapshot => 1)")
    assert run("SHOW TAGS t") == [{"tag": "one"}]
    assert told == [{"result": True}]
    run("ALTER TABLE t RENAME TAG one TO uno; ALTER TABLE t CREATE TAG dos RETAIN 1 DAYS")
    assert run("SHOW TAGS t") == [{"tag": "dos"}, {"tag": "uno"}]
    run("CALL sys.rollback('default.t', 'uno')")
    assert table.count() == 1
    run("CALL lake.sys.compact('lake.default.t')")
    run(f"CREATE CATALOG other WITH ('type'='paimon', 'warehouse'='{tmp_path}/other')")
    run("USE CATALOG other")
    run("CALL sys.create_tag('lake.default.t', 'tres')")
    assert table.handle.tags.names() == ["tres", "uno"]
    with pytest.raises(NotFoundError, match="Did you mean 'compact'"):
        run("CALL sys.compcat('t')")
    with pytest.raises(UnsupportedError, match="there is no Hive metastore"):
        run("CALL sys.migrate_table('hive', 't')")
    assert run("CALL sys.expire_snapshots('lake.default.t')") == [{"deleted_snapshots_count": 0}]
    with pytest.raises(InvalidInputError, match="tagg"):
        run("CALL sys.create_tag(table => 'lake.default.t', tagg => 'x')")
    run("ANALYZE TABLE lake.default.t COMPUTE STATISTICS FOR ALL COLUMNS")
    assert table.history().column("commit_kind")[-1].as_py() == "ANALYZE"


def test_a_temporary_table_at_a_path(session, run, tmp_path):
    create = (
        "CREATE TEMPORARY TABLE t (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('connector'='paimon', 'path'='{}', 'bucket'='1'{})"
    )
    path = tmp_path / "some where"
    with pytest.raises(NotFoundError, match="'auto-create' = 'true'"):
        run(create.format(path, ""))
    run(create.format(path, ", 'auto-create'='true'"))
    table = session.data_table(parse("DROP TABLE t")[0].name, use="read")
    table.write([{"id": 1, "v": "a"}])
    assert dict(table.table_schema.options) == {"bucket": "1"}
    run("ALTER TABLE t ADD COLUMN w INT; ALTER TABLE t DROP COLUMN w")
    table.alter(tidelake.RenameColumn("v", "vv"), tidelake.RenameColumn("vv", "v"))
    assert run("SHOW COLUMNS IN t") == [{"col_name": "id"}, {"col_name": "v"}]
    run("DROP TEMPORARY TABLE t")
    assert (path / "snapshot" / "snapshot-1").exists()  # the name is gone, the table is not
    run(create.format(f"file://{path}", ""))
    assert session.data_table(parse("DROP TABLE t")[0].name, use="read").count() == 1
    assert run("SHOW TABLES") == [{"namespace": "", "tableName": "t", "isTemporary": True}]
    with pytest.raises(AlreadyExistsError):
        run(create.format(path, ""))
    run("DROP TABLE t")
    other = create.replace("v STRING", "w INT")
    with pytest.raises(InvalidInputError, match="it has no column 'w'"):
        run(other.format(path, ""))
    with pytest.raises(NotFoundError, match="no temporary table 't'"):
        run("DROP TEMPORARY TABLE t")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'path'='/x'", "needs the options 'connector' = 'paimon'"),
        ("'connector'='paimon'", "needs the option 'path'"),
        ("'connector'='paimon', 'path'='/x', 'auto-create'='perhaps'", "must be true or false"),
        ("'connector'='paimon', 'path'='ftp://x/y'", "unknown storage"),
    ],
)
def test_a_temporary_table_that_lacks_something(run, options, message):
    with pytest.raises((InvalidInputError, UnsupportedError), match=message):
        run(f"CREATE TEMPORARY TABLE t (id INT) WITH ({options})")


def test_a_table_of_another_system_is_kept_and_not_read(session, run):
    run("CREATE TABLE k (a INT COMMENT 'x') WITH ('connector'='kafka', 'topic'='t')")
    assert run("DESCRIBE k") == [{"col_name": "a", "data_type": "INT", "comment": "x"}]
    with pytest.raises(UnsupportedError, match=r"connector 'kafka'.*SELECT and INSERT INTO"):
        run("TRUNCATE TABLE k")
    run("DROP TABLE k")
    assert run("SHOW TABLES") == []


def test_views_are_named_and_dropped(run):
    run("CREATE TEMPORARY VIEW v AS SELECT 1")
    with pytest.raises(AlreadyExistsError):
        run("CREATE TEMPORARY VIEW v AS SELECT 2")
    run("CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT 2")
    run("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 2")
    assert run("SHOW VIEWS") == [{"namespace": "", "viewName": "v", "isTemporary": True}]
    with pytest.raises(InvalidInputError, match="is a view: DROP VIEW v"):
        run("DROP TABLE v")
    with pytest.raises(InvalidInputError, match="is a view and cannot be altered"):
        run("ALTER TABLE v SET ('a'='b')")
    run("DROP VIEW v; DROP VIEW IF EXISTS v")
    with pytest.raises(NotFoundError, match="no view 'v'"):
        run("DROP VIEW v")


def test_settings_of_flinks_sessions(session, run):
    run("SET 'execution.runtime-mode' = 'batch'; SET 'table.local-time-zone' = 'UTC'")
    assert session.settings["table.local-time-zone"] == "UTC"
    run("SET 'execution.runtime-mode' = 'streaming'; SET 'execution.runtime-mode' = 'batch'")
    run("RESET 'table.local-time-zone'")
    assert run("SET") == [{"key": "execution.runtime-mode", "value": "batch"}]
    run("RESET")
    assert session.settings == {}


def test_misspelt_options_and_tables_get_suggestions(run):
    with pytest.raises(InvalidInputError, match=r"'bukcet'. Did you mean 'bucket'"):
        run("CREATE TABLE t (a INT) WITH ('bukcet'='1')")
    run("CREATE TABLE orders (a INT)")
    with pytest.raises(NotFoundError, match="Did you mean 'orders'"):
        run("DESCRIBE ordres")
    with pytest.raises(InvalidInputError, match="system table"):
        run("TRUNCATE TABLE orders$files")
    assert [r["col_name"] for r in run("DESCRIBE orders$tags")][:2] == ["tag_name", "snapshot_id"]


def test_a_query_needs_spark(session):
    (query,) = parse("SELECT 1")
    with pytest.raises(UnsupportedError, match="needs Spark"):
        execute(query, session)
    assert execute(parse("SET 'table.x' = 'y'")[0], session) is NOTHING


@pytest.mark.parametrize(
    "wrong", ["WITH ('bucket' = 'abc')", "WITH ('buckt' = '1')", "PARTITIONED BY (nothing)"]
)
def test_a_table_that_cannot_be_made_replaces_none(session, run, wrong):
    run("CREATE TABLE t (a INT)")
    session.catalog.table("default.t").write([{"a": 1}])
    with pytest.raises(TidelakeError):
        run(f"CREATE OR REPLACE TABLE t (b STRING) {wrong}")
    assert session.catalog.table("default.t").to_arrow().to_pylist() == [{"a": 1}]


def test_a_time_of_call_is_in_the_sessions_zone_where_it_names_none(tmp_path):
    shanghai = ZoneInfo("Asia/Shanghai")
    session = SqlSession(tidelake.open(tmp_path / "w"), name="lake", time_zone=lambda: shanghai)
    (create,) = parse("CREATE TABLE t (a INT)")
    execute(create, session)
    table = session.catalog.table("default.t")
    for a in range(4):
        table.write([{"a": a}])
        table.handle.env.clock.sleep_ms(2)  # times of commits differ
    times = table.history().column("commit_time").to_pylist()

    def rolled_back(argument):
        (statement,) = parse(f"CALL sys.rollback_to_timestamp({argument})")
        execute(statement, session)
        return table.latest_snapshot_id

    local = times[2].astimezone(shanghai).replace(tzinfo=None)
    assert rolled_back(f"'t', '{local}'") == 3
    assert rolled_back(f"`table` => 't', `timestamp` => '{times[1].isoformat()}'") == 2
    at_ms = round(times[0].timestamp() * 1000)
    assert rolled_back(f"`table` => 't', TIMESTAMP => '{at_ms}'") == 1
    with pytest.raises(InvalidInputError, match="'timestamp' as BIGINT or TIMESTAMP, not 'noon'"):
        rolled_back("'t', 'noon'")


def test_a_temporary_table_may_be_named_with_its_database(session, run, tmp_path):
    run("CREATE DATABASE shop; CREATE TABLE shop.x (b INT)")
    options = f"'connector' = 'paimon', 'path' = '{tmp_path}/x', 'auto-create' = 'true'"
    run(f"CREATE TEMPORARY TABLE shop.x (a INT) WITH ({options})")
    run("CREATE TABLE lake.shop.k (c INT) WITH ('connector' = 'kafka')")
    with pytest.raises(AlreadyExistsError):
        run(f"CREATE TEMPORARY TABLE lake.shop.x (a INT) WITH ({options})")
    with pytest.raises(NotFoundError, match="no catalog 'lkae'"):
        run(f"CREATE TEMPORARY TABLE lkae.shop.x (a INT) WITH ({options})")
    with pytest.raises(NotFoundError):
        run("SHOW COLUMNS IN x")  # the current database is another
    for name in ("shop.x", "lake.shop.x"):
        assert run(f"SHOW COLUMNS IN {name}") == [{"col_name": "a"}]
    assert run("DESCRIBE shop.k")[0]["col_name"] == "c"
    run("USE shop")
    assert run("SHOW COLUMNS IN x") == [{"col_name": "a"}]
    assert run("SHOW COLUMNS IN x$snapshots")[0] == {"col_name": "snapshot_id"}
    shown = [(r["namespace"], r["tableName"], r["isTemporary"]) for r in run("SHOW TABLES")]
    assert shown == [("shop", "x", False), ("shop", "k", True), ("shop", "x", True)]
    run("DROP TEMPORARY TABLE shop.x; DROP TABLE k")
    assert run("SHOW COLUMNS IN shop.x") == [{"col_name": "b"}]
    with pytest.raises(NotFoundError):
        run("DESCRIBE shop.k")


def test_tags_are_deleted_all_or_none(session, run):
    run("CREATE TABLE t (a INT)")
    session.catalog.table("default.t").write([{"a": 1}])
    run("ALTER TABLE t CREATE TAG one; ALTER TABLE t CREATE TAG two; ALTER TABLE t CREATE TAG tri")
    with pytest.raises(NotFoundError, match="four"):
        run("ALTER TABLE t DELETE TAG `one,four`")
    assert len(run("SHOW TAGS t")) == 3
    run("ALTER TABLE t DELETE TAG IF EXISTS `one,four`")
    assert run("SHOW TAGS t") == [{"tag": "tri"}, {"tag": "two"}]
    run("ALTER TABLE t DELETE TAG `two, tri`")
    assert run("SHOW TAGS t") == []


def test_a_table_like_another_has_its_columns_keys_and_options(session, run):
    run(FULL)
    run("CREATE TABLE shop.twin LIKE shop.orders TBLPROPERTIES ('bucket' = '4')")
    first, second = (session.catalog.table(f"shop.{n}").table_schema for n in ("orders", "twin"))
    assert second.fields == first.fields
    assert (second.primary_keys, second.partition_keys) == (("day", "id"), ("day",))
    assert second.options == {**first.options, "bucket": "4"}
    assert second.comment == "all of them"
    run("CREATE TABLE IF NOT EXISTS shop.twin LIKE shop.orders")
    with pytest.raises(AlreadyExistsError):
        run("CREATE TABLE shop.twin LIKE shop.orders")
    with pytest.raises(NotFoundError, match="Did you mean 'orders'"):
        run("CREATE TABLE shop.other LIKE shop.ordres")
    with pytest.raises(InvalidInputError, match="system table"):
        run("CREATE TABLE shop.other LIKE shop.orders$files")


def test_a_table_is_refreshed_where_it_is(run):
    run("CREATE TABLE t (a INT)")
    assert run("REFRESH TABLE t") == []
    with pytest.raises(NotFoundError, match="'u'"):
        run("REFRESH TABLE u")


def test_an_argument_that_is_no_literal_is_shown_by_the_procedure(run):
    run("CREATE TABLE t (a INT)")
    with pytest.raises(InvalidInputError, match=r"takes 'options' as STRING, not map\('a', 'b'\)"):
        run("CALL sys.compact(table => 't', options => map('a', 'b'))")
    with pytest.raises(InvalidInputError, match="takes 'options_map' as STRING"):
        run("CALL sys.migrate_table('hive', 't', options_map => map('a', 'b'), parallelism => 6)")
    with pytest.raises(InvalidInputError, match="name => value"):
        run("CALL sys.compact(table => 't', options = 'x')")
    with pytest.raises(InvalidInputError, match=r"This parenthesis is not closed"):
        run("CALL sys.compact(map('a'")


def test_show_partitions_looks_for_values(session, run):
    run("CREATE TABLE t (a INT, day DATE, h INT, c DECIMAL(4, 2), s STRING, b BOOLEAN)"
        " PARTITIONED BY (day, h, c, s, b)")  # fmt: skip
    table = session.catalog.table("default.t")
    key = {"day": date(2026, 1, 2), "h": 3, "c": Decimal("1.50"), "s": "x y", "b": True}
    table.write([{"a": 1, **key}, {"a": 2, **key, "h": 30, "s": None}])
    first = {"partition": "day=2026-01-02/h=3/c=1.50/s=x y/b=true"}
    second = {"partition": "day=2026-01-02/h=30/c=1.50/s=__DEFAULT_PARTITION__/b=true"}
    for wanted, found in (
        ("h = 3", [first]),
        ("h = '03'", [first]),
        ("c = 1.5, h = 3", [first]),
        ("c = '1.5', b = true", [first, second]),
        ("day = DATE '2026-01-02', s = 'x y'", [first]),
        ("s = NULL", [second]),
        ("s = '3'", []),
    ):
        assert run(f"SHOW PARTITIONS t PARTITION ({wanted})") == found, wanted
    with pytest.raises(InvalidInputError, match="'hh' is not a partition column"):
        run("SHOW PARTITIONS t PARTITION (hh = 3)")
    with pytest.raises(InvalidInputError):
        run("SHOW PARTITIONS t PARTITION (h = 'three')")


def test_show_partitions_tells_null_from_empty_and_blank_texts(session, run):
    run("CREATE TABLE t (a INT, `p.q` STRING, n INT) PARTITIONED BY (`p.q`, n)")
    table = session.catalog.table("default.t")
    texts = ["", " ", None, "null", "__DEFAULT_PARTITION__", "it's", "x"]
    table.write([{"a": n, "p.q": text, "n": 1} for n, text in enumerate(texts)])
    table.write([{"a": 9, "p.q": "x", "n": None}])
    name = "p.q={}/n=1".format
    shown = {
        "": name("''"),
        " ": name("' '"),
        None: name("__DEFAULT_PARTITION__"),
        "null": name("null"),
        "__DEFAULT_PARTITION__": name("'__DEFAULT_PARTITION__'"),
        "it's": name("it%27s"),
        "x": name("x"),
    }
    found = [row["partition"] for row in run("SHOW PARTITIONS t")]
    assert sorted(found) == sorted([*shown.values(), "p.q=x/n=__DEFAULT_PARTITION__"])
    for wanted, text in (("''", ""), ("' '", " "), ("NULL", None), ("'null'", "null")):
        assert run(f"SHOW PARTITIONS t PARTITION (`p.q` = {wanted})") == [
            {"partition": shown[text]}
        ], wanted


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_show_partitions_finds_times_and_texts_of_any_characters(session, run, legacy):
    odd = "a/b:c=d%e 2024-10-10 01:02:03"
    run("CREATE TABLE t (a INT, at TIMESTAMP(6), d DATE, s STRING, x DOUBLE)"
        f" PARTITIONED BY (at, d, s, x) WITH ('partition.legacy-name' = '{legacy}')")  # fmt: skip
    moments = [
        datetime(2024, 10, 10, 1, 2, 3),
        datetime(2024, 10, 10),
        datetime(1, 1, 1, 0, 0, 1, 5),
    ]
    table = session.catalog.table("default.t")
    for number, at in enumerate(moments):
        table.write([{"a": number, "at": at, "d": at.date(), "s": odd, "x": 1e10}])
    names = [
        "at=2024-10-10 01%3A02%3A03/d=2024-10-10",
        "at=2024-10-10 00%3A00%3A00/d=2024-10-10",
        "at=0001-01-01 00%3A00%3A01.000005/d=0001-01-01",
    ]
    rest = "/s=a%2Fb%3Ac%3Dd%25e 2024-10-10 01%3A02%3A03/x=1.0E10"
    shown = [{"partition": name + rest} for name in names]
    assert run("SHOW PARTITIONS t") == sorted(shown, key=str)
    for wanted, found in (
        ("at = '2024-10-10 01:02:03'", [shown[0]]),
        ("at = TIMESTAMP '2024-10-10 01:02:03'", [shown[0]]),
        ("at = '2024-10-10'", [shown[1]]),
        ("at = '0001-01-01 00:00:01.000005'", [shown[2]]),
        ("d = '2024-10-10'", sorted(shown[:2], key=str)),
        (f"s = '{odd}', d = DATE '0001-01-01'", [shown[2]]),
        ("x = 10000000000", sorted(shown, key=str)),
        ("s = 'a/b'", []),
    ):
        assert run(f"SHOW PARTITIONS t PARTITION ({wanted})") == found, wanted
    texts = session.catalog.table("default.t$partitions").to_arrow()["partition"].to_pylist()
    assert sorted(texts) == sorted(
        f"at={text}/s={odd}/x=1.0E10"
        for text in (
            "2024-10-10 01:02:03.000000/d=2024-10-10",
            "2024-10-10 00:00:00.000000/d=2024-10-10",
            "0001-01-01 00:00:01.000005/d=0001-01-01",
        )
    )


def test_show_partitions_shows_and_finds_instants_in_the_zone_of_the_session(session, run):
    run("CREATE TABLE t (a INT, at TIMESTAMP_LTZ(3)) PARTITIONED BY (at)")
    at = datetime(2024, 10, 10, 1, 2, 3, 500_000, tzinfo=UTC)
    session.catalog.table("default.t").write([{"a": 1, "at": at}, {"a": 2, "at": None}])
    here = at.astimezone(session.zone()).replace(tzinfo=None).isoformat(" ")[:-5]
    found = [{"partition": f"at={here.replace(':', '%3A')}"}]
    assert run("SHOW PARTITIONS t") == [*found, {"partition": "at=__DEFAULT_PARTITION__"}]
    for wanted in (f"'{here}'", f"TIMESTAMP '{here}'", f"'{at}'", f"'{at.isoformat()}'"):
        assert run(f"SHOW PARTITIONS t PARTITION (at = {wanted})") == found, wanted
    texts = session.catalog.table("default.t$partitions").to_arrow()["partition"].to_pylist()
    assert "at=2024-10-10 01:02:03.500" in texts


def test_a_watermark_keeps_its_columns(session, run):
    run("CREATE TABLE t (a INT, at TIMESTAMP(3), late INT, WATERMARK FOR at AS f(at, late))")
    for change in ("DROP COLUMN at", "RENAME COLUMN at TO x", "DROP late", "RENAME late TO l"):
        with pytest.raises(
            InvalidInputError, match=r"names column '\w+': drop the watermark first"
        ):
            run(f"ALTER TABLE t {change}")
    run("ALTER TABLE t DROP WATERMARK; ALTER TABLE t DROP COLUMN at")
    run("ALTER TABLE t RENAME COLUMN late TO l")
    assert [row["col_name"] for row in run("SHOW COLUMNS IN t")] == ["a", "l"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE w (a INT, b STRING, WATERMARK FOR b AS b)",
        "CREATE TEMPORARY TABLE w (b STRING, WATERMARK FOR b AS b) WITH ('connector' = 'kafka')",
        "ALTER TABLE t ADD WATERMARK FOR b AS b - INTERVAL '5' SECOND",
    ],
)
def test_a_watermark_needs_a_column_of_a_time(run, statement):
    run("CREATE TABLE t (b STRING)")
    with pytest.raises(InvalidInputError, match="has type STRING, but a watermark") as raised:
        run(statement)
    assert raised.value.kind == "watermark_type"


def test_columns_are_added_and_dropped_where_they_are_missing_and_there(session, run):
    run("CREATE TABLE c (id INT, n INT DEFAULT 3, place ROW<city STRING>)")
    schema = session.catalog.table("default.c").table_schema
    run("ALTER TABLE c ADD COLUMN IF NOT EXISTS N BIGINT DEFAULT 4")
    run("ALTER TABLE c ADD COLUMN IF NOT EXISTS place.City BIGINT")
    run("ALTER TABLE c DROP COLUMN IF EXISTS gone, IF EXISTS place.gone")
    same = session.catalog.table("default.c").table_schema
    assert same == schema  # nothing changed: no new schema either
    run("ALTER TABLE c ADD COLUMNS IF NOT EXISTS (n INT, m INT DEFAULT 5)")
    run("ALTER TABLE c DROP COLUMN IF EXISTS n")
    table = session.catalog.table("default.c")
    assert [(f.name, f.default_value) for f in table.table_schema.fields] == [
        ("id", None),
        ("place", None),
        ("m", "5"),
    ]
    with pytest.raises(NotFoundError, match="Did you mean 'id'"):
        run("ALTER TABLE c DROP COLUMN IF EXISTS ID")
    with pytest.raises(NotFoundError, match="'gone'"):
        run("ALTER TABLE c DROP COLUMN IF EXISTS gone.city")
    table.add_column("m", "INT", if_exists="ignore").drop_column("x", if_missing="ignore")
    assert table.table_schema.id == 2


@pytest.mark.parametrize(
    ("text", "error", "kind"),
    [
        ("CREATE TABLE t (a INT, A INT)", InvalidInputError, "column_case"),
        ("CREATE TABLE t (a INT, b ROW<x INT, X INT>)", InvalidInputError, "column_case"),
        ("CREATE TABLE t (a ARRAY<MAP<INT, ROW<x INT, X INT>>>)", InvalidInputError, "column_case"),
        ("ALTER TABLE known ADD COLUMN ID INT", AlreadyExistsError, "column_exists"),
        ("ALTER TABLE known ADD COLUMN place.CITY INT", AlreadyExistsError, "column_exists"),
        ("ALTER TABLE known RENAME COLUMN n TO Id", AlreadyExistsError, "column_exists"),
        ("ALTER TABLE known RENAME COLUMN place.zip TO City", AlreadyExistsError, "column_exists"),
        ("ALTER TABLE known ADD COLUMN w STRUCT<x: INT, X: INT>", InvalidInputError, "column_case"),
        ("ALTER TABLE known ADD COLUMNS (w INT, W INT)", AlreadyExistsError, "column_exists"),
    ],
)
def test_names_that_differ_in_case_alone_are_refused(session, run, text, error, kind):
    run("CREATE TABLE known (id INT, n INT, place ROW<city STRING, zip STRING>)")
    with pytest.raises(error, match=r"default\.(t|known)'.*only in case") as raised:
        run(text)
    assert raised.value.kind == kind
    assert session.catalog.table("default.known").table_schema.id == 0
    run("ALTER TABLE known RENAME COLUMN id TO ID")  # its own name in another case
    assert session.catalog.table("default.known").schema.names[0] == "ID"


def test_properties_of_ones_own_are_kept_shown_set_and_unset(session, run, tmp_path):
    run(
        "CREATE TABLE p (id INT) WITH ('bucket' = '-1', 'team.contact' = 'it''s ada',"
        " 'pii' = 'no'); ALTER TABLE p SET TBLPROPERTIES ('cost-center' = '7', 'pii' = 'yes')"
    )
    wanted = {"bucket": "-1", "team.contact": "it's ada", "pii": "yes", "cost-center": "7"}
    assert {row["key"]: row["value"] for row in run("SHOW TBLPROPERTIES p")} == wanted
    assert run("SHOW TBLPROPERTIES p ('pii')") == [{"key": "pii", "value": "yes"}]
    assert "team.contact=it's ada" in str(run("DESCRIBE EXTENDED p"))
    (text,) = (row["createtab_stmt"] for row in run("SHOW CREATE TABLE p"))
    run("CREATE TABLE q LIKE p; DROP TABLE p")
    run(text)
    for name in ("p", "q"):
        assert session.catalog.table(f"default.{name}").table_schema.options == wanted
    run("ALTER TABLE p UNSET TBLPROPERTIES ('pii', 'cost-center'); ALTER TABLE q RESET ('pii')")
    table = tidelake.open(tmp_path / "warehouse").table("default.p")
    assert table.table_schema.options == {"bucket": "-1", "team.contact": "it's ada"}
    table.write([{"id": 1}])
    table.set_options({"team.contact": "bob", "reviewed": True})
    assert table.table_schema.options["reviewed"] == "true"
    assert table.count() == 1
    with pytest.raises(InvalidInputError, match=r"unknown option 'snapshot-count'.*'my\.snap"):
        run("ALTER TABLE p SET ('snapshot-count' = '3')")
    with pytest.raises(InvalidInputError, match="Did you mean 'write-only'"):
        run("CREATE TABLE r (id INT) TBLPROPERTIES ('write-onyl' = 'true')")
