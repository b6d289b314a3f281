import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql import parse
from tidelake.sql.syntax import ast as s
from tidelake.sql.syntax.ast import AddConstraint, DropConstraint
from tidelake.sql.syntax.name import TableName
from tidelake.types import parse_type
from tidelake.types import schema_change as c


def one(text):
    (statement,) = parse(text)
    return statement


def test_flinks_create_table():
    made = one(
        """
        CREATE TABLE IF NOT EXISTS `my cat`.db.t (
            `user` BIGINT COMMENT 'who',
            dt STRING,
            order_time TIMESTAMP(3),
            WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND,
            PRIMARY KEY (dt, `user`) NOT ENFORCED
        ) COMMENT 'orders' PARTITIONED BY (dt) WITH (
            'bucket' = '4', -- a comment
            'merge-engine' = 'partial-update'
        );
        """
    )
    assert made.name.parts == ("my cat", "db", "t")
    assert [(f.name, f.type, f.description) for f in made.fields] == [
        ("user", parse_type("BIGINT"), "who"),
        ("dt", parse_type("STRING"), None),
        ("order_time", parse_type("TIMESTAMP(3)"), None),
    ]
    assert made.primary_keys == ("dt", "user")
    assert made.partition_keys == ("dt",)
    assert made.options == {"bucket": "4", "merge-engine": "partial-update"}
    assert made.comment == "orders"
    assert made.watermark == s.Watermark("order_time", "`order_time` - INTERVAL '5' SECOND")
    assert made.if_exists == "ignore"


def test_sparks_create_table():
    made = one(
        "CREATE TABLE db.t (id INT NOT NULL, at TIMESTAMP, day DATE DEFAULT '2026-01-01') USING"
        " tidelake PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day', bucket = 2)"
    )
    assert [str(f.type) for f in made.fields] == [
        "INT NOT NULL",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "DATE",
    ]
    assert made.fields[2].default_value == "'2026-01-01'"
    assert made.options == {"primary-key": "id,day", "bucket": "2"}


@pytest.mark.parametrize(
    ("form", "root"),
    [
        ("CREATE TABLE t (at TIMESTAMP) WITH ('a' = 'b')", "TIMESTAMP(6)"),
        ("CREATE TABLE t (at TIMESTAMP, PRIMARY KEY (at) NOT ENFORCED)", "TIMESTAMP(6)"),
        ("CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at)", "TIMESTAMP(6)"),
        ("CREATE TABLE t (at TIMESTAMP)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (
            "CREATE TABLE t (at TIMESTAMP, PRIMARY KEY (at) NOT ENFORCED) TBLPROPERTIES ('a'='b')",
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        ),
        (
            "CREATE TABLE t (at TIMESTAMP, PRIMARY KEY (at) NOT ENFORCED) USING tidelake",
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        ),
        ("CREATE TABLE t (at TIMESTAMP) USING paimon", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ],
)
def test_the_form_of_a_statement_decides_what_a_timestamp_is(form, root):
    assert str(one(form).fields[0].type) == root


def test_a_key_of_one_column_may_stand_with_it():
    assert one("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT)").primary_keys == ("id",)


def test_partition_columns_may_be_declared_where_they_are_named():
    made = one("CREATE TABLE t (id INT) USING paimon PARTITIONED BY (dt STRING, h INT)")
    assert [f.name for f in made.fields] == ["id", "dt", "h"]
    assert made.partition_keys == ("dt", "h")


def test_create_table_as():
    made = one("CREATE OR REPLACE TABLE t TBLPROPERTIES ('a'='b') AS SELECT 1 AS x")
    assert made.if_exists == "replace"
    assert made.query.sql == "SELECT 1 AS x"
    assert one("REPLACE TABLE t AS WITH a AS (SELECT 1) SELECT * FROM a").must_exist


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t", "needs columns"),
        ("CREATE TABLE t (id INT, id INT)", "'id' is listed twice"),
        ("CREATE TABLE t (id INT PRIMARY KEY, PRIMARY KEY (id))", "one primary key"),
        ("CREATE TABLE t (id INT", "is expected here after the columns"),
        ("CREATE TABLE t (id)", "The type is missing"),
        ("CREATE TABLE t (id INT) WITH ('a')", "'=' is expected here|value of 'a' is missing"),
        ("CREATE TABLE t (id INT) WITH ('a'='b', 'a'='c')", "given twice"),
        ("CREATE TABLE t (id INT) WITH (...)", "stands for omitted text"),
        ("CREATE TABLE t (id INT) WITH ('connector' = 'kafka'...)", "omitted text"),
        ("CREATE TABLE t (a INT, WATERMARK FOR b AS b)", "unknown column"),
        ("CREATE TABLE a.b.c.d (id INT)", "three parts"),
        ("CREATE TABLE t (id INT) BUCKETS 4", "'BUCKETS' follows"),
    ],
)
def test_a_wrong_create_table_is_shown(text, message):
    with pytest.raises(InvalidInputError, match=message) as raised:
        parse(text)
    assert "At line 1, column " in str(raised.value)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("CREATE TABLE t (id INT) USING parquet", "spark.sql"),
        ("CREATE TABLE t (id INT) USING paimon LOCATION '/x'", "warehouse"),
        ("CREATE TABLE t (id INT) CLUSTERED BY (id) INTO 4 BUCKETS", "'bucket'"),
        ("CREATE TABLE t (id INT, b AS id + 1)", "in queries or in the INSERT"),
        ("CREATE TABLE t (id INT) PARTITIONED BY (d INT METADATA)", "METADATA"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (id) ENFORCED)", "NOT ENFORCED"),
        ("CREATE TABLE t (id INT, CHECK (id > 0))", "PRIMARY KEY"),
        ("CREATE TABLE t (at DATE) USING paimon PARTITIONED BY (years(at))", "add a column"),
        ("CREATE TABLE t (id INT) AS SELECT 1", "leave out the columns"),
        ("CREATE FUNCTION f AS 'x'", "spark.sql"),
        ("CREATE DATABASE d LOCATION '/x'", "leave out LOCATION"),
        ("DROP FUNCTION f", "spark.sql"),
        ("ALTER NAMESPACE d SET PROPERTIES ('a'='b')", "tables"),
        ("COPY INTO t FROM '/x' FILE_FORMAT = (TYPE = CSV)", "parquet.`/path`"),
        ("REFRESH '/x'", "spark.sql"),
        ("OPTIMIZE t ZORDER BY (a)", "CALL sys.compact"),
        ("VACUUM t RETAIN 168 HOURS", "commits expire snapshots"),
        ("RESTORE TABLE t TO VERSION AS OF 1", "CALL sys.rollback"),
        ("DESCRIBE HISTORY t", "t$snapshots"),
        ("DESC DETAIL d.t", "t$files"),
        ("show snapshots t", "t$snapshots"),
        ("UPSERT INTO t VALUES (1)", "INSERT INTO a table with a primary key"),
        ("REPLACE INTO t VALUES (1)", "INSERT INTO a table with a primary key"),
        ("START TRANSACTION", "each statement is one commit"),
        ("BEGIN TRANSACTION", "no transactions of several statements"),
        ("BEGIN", "CALL sys.rollback(table => 't', version => 'before')"),
        ("BEGIN WORK; DELETE FROM t; COMMIT", "no transactions of several statements"),
        ("CREATE TABLE t (a INT, d DATE DEFAULT current_date())", "one literal"),
        ("CREATE TABLE t (a INT, d DATE DEFAULT current_date)", "one literal"),
        ("CREATE TABLE t (a INT DEFAULT 1 + 2)", "one literal"),
        ("CREATE TABLE t (a INT DEFAULT (3), b INT)", "one literal"),
        ("CREATE TABLE t (a STRING DEFAULT 'a' || 'b')", "one literal"),
        ("ALTER TABLE t ADD COLUMN u STRING DEFAULT uuid()", "one literal"),
        ("ALTER TABLE t ALTER COLUMN u SET DEFAULT -abs(3)", "one literal"),
        ("GRANT SELECT ON t TO u", "file system"),
        ("ALTER TABLE t ADD CHECK (a > 1)", "needs a name"),
        ("SHOW TABLE EXTENDED LIKE 't*'", "t$partitions"),
        ("CREATE TABLE t LIKE u (INCLUDING ALL)", "leave out INCLUDING"),
        ("CREATE TABLE t LIKE u PARTITIONED BY (a)", "after LIKE"),
        ("CREATE OR REPLACE TABLE t LIKE u", "DROP the old table"),
        ("CREATE TABLE t (LIKE u)", "CREATE TABLE t LIKE other"),
        ("ALTER TABLE t ADD PARTITION (dt='1')", "INSERT INTO"),
        ("ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (id)", "create a new table"),
        ("ALTER DATABASE d SET DBPROPERTIES ('a'='b')", "tables"),
        ("ANALYZE TABLES COMPUTE STATISTICS", "one table"),
        ("ANALYZE TABLE t PARTITION (dt) COMPUTE STATISTICS", "leave PARTITION out"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "Give the statement itself"),
        ("STOP JOB 'a' WITH SAVEPOINT", "a stopped job keeps its checkpoint"),
        ("STOP JOB 'a' WITH DRAIN", "a stopped job keeps its checkpoint"),
        ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", "spark.sql"),
        ("INSERT INTO t REPLACE WHERE x = 1 SELECT 1", "INSERT OVERWRITE"),
        ("CACHE TABLE t", "spark.sql"),
        ("SHOW FUNCTIONS", "spark.sql"),
        ("SHOW PROCEDURES", "compact, "),
        ("EXPLAIN INSERT INTO t SELECT 1", "takes a query"),
    ],
)
def test_a_clause_that_is_not_covered_is_refused_with_the_alternative(text, remedy):
    with pytest.raises(UnsupportedError) as raised:
        parse(text)
    assert remedy in str(raised.value)
    assert "At line 1, column " in str(raised.value)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("SET TBLPROPERTIES ('a'='b', c.d=1)", [c.SetOption("a", "b"), c.SetOption("c.d", "1")]),
        ("SET ('comment'='words')", [c.UpdateComment("words")]),
        ("UNSET TBLPROPERTIES IF EXISTS ('a', 'b')", [c.RemoveOption("a"), c.RemoveOption("b")]),
        ("RESET ('a')", [c.RemoveOption("a")]),
        (
            "ADD CONSTRAINT c CHECK ( (a > 1 OR b = ')') AND `x(` < 2 )",
            [AddConstraint("constraint.c", "(a > 1 OR b = ')') AND `x(` < 2")],
        ),
        ("DROP CONSTRAINT IF EXISTS c", [DropConstraint("constraint.c", "ignore")]),
        ("ADD COLUMN a INT", [c.AddColumn("a", parse_type("INT"))]),
        (
            "ADD COLUMNS (a INT COMMENT 'x' FIRST, b.c STRING AFTER d)",
            [
                c.AddColumn("a", parse_type("INT"), "x", c.Position.first()),
                c.AddColumn(("b", "c"), parse_type("STRING"), None, c.Position.after("d")),
            ],
        ),
        ("ADD a TIMESTAMP", [c.AddColumn("a", parse_type("TIMESTAMP(6)"))]),
        (
            "ADD COLUMN a TIMESTAMP",
            [c.AddColumn("a", parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"))],
        ),
        (
            "ADD COLUMN a INT DEFAULT 7",
            [c.AddColumn("a", parse_type("INT"), default="7")],
        ),
        (
            "ADD COLUMN IF NOT EXISTS a INT DEFAULT -7 FIRST",
            [c.AddColumn("a", parse_type("INT"), None, c.Position.first(), "-7", "ignore")],
        ),
        (
            "ADD COLUMNS IF NOT EXISTS (a INT, b.c INT)",
            [
                c.AddColumn("a", parse_type("INT"), if_exists="ignore"),
                c.AddColumn(("b", "c"), parse_type("INT"), if_exists="ignore"),
            ],
        ),
        (
            "ADD COLUMNS (IF NOT EXISTS a INT, b INT)",
            [
                c.AddColumn("a", parse_type("INT"), if_exists="ignore"),
                c.AddColumn("b", parse_type("INT")),
            ],
        ),
        ("DROP COLUMN IF EXISTS a", [c.DropColumn("a", "ignore")]),
        (
            "DROP COLUMNS IF EXISTS (a, b.c)",
            [c.DropColumn("a", "ignore"), c.DropColumn(("b", "c"), "ignore")],
        ),
        ("DROP COLUMN a", [c.DropColumn("a")]),
        ("DROP COLUMNS (a, b.c)", [c.DropColumn("a"), c.DropColumn(("b", "c"))]),
        ("DROP (a, b)", [c.DropColumn("a"), c.DropColumn("b")]),
        ("DROP a", [c.DropColumn("a")]),
        ("RENAME COLUMN a TO b", [c.RenameColumn("a", "b")]),
        ("RENAME a.x TO y", [c.RenameColumn(("a", "x"), "y")]),
        ("ALTER COLUMN a TYPE BIGINT", [c.UpdateColumnType("a", parse_type("BIGINT"))]),
        (
            "ALTER COLUMN a.element TYPE INT",
            [c.UpdateColumnType(("a", "element"), parse_type("INT"))],
        ),
        ("ALTER COLUMN a COMMENT 'x'", [c.UpdateColumnComment("a", "x")]),
        ("ALTER COLUMN a SET NOT NULL", [c.UpdateColumnNullability("a", nullable=False)]),
        ("ALTER COLUMN a DROP NOT NULL", [c.UpdateColumnNullability("a", nullable=True)]),
        ("ALTER COLUMN a SET DEFAULT 'x'", [c.UpdateColumnDefaultValue("a", "'x'")]),
        ("ALTER COLUMN a DROP DEFAULT", [c.UpdateColumnDefaultValue("a", None)]),
        ("ALTER COLUMN a AFTER b", [c.UpdateColumnPosition("a", c.Position.after("b"))]),
        ("ALTER a FIRST", [c.UpdateColumnPosition("a", c.Position.first())]),
        (
            "MODIFY (a BIGINT NOT NULL COMMENT 'x', b DATE FIRST)",
            [
                c.UpdateColumnType("a", parse_type("BIGINT NOT NULL"), keep_nullability=False),
                c.UpdateColumnComment("a", "x"),
                c.UpdateColumnType("b", parse_type("DATE"), keep_nullability=False),
                c.UpdateColumnPosition("b", c.Position.first()),
            ],
        ),
        (
            "CHANGE COLUMN a b BIGINT",
            [c.UpdateColumnType("a", parse_type("BIGINT")), c.RenameColumn("a", "b")],
        ),
        (
            "ADD WATERMARK FOR ts AS ts - INTERVAL '1' HOUR",
            [
                c.SetOption("schema.watermark.0.rowtime", "ts"),
                c.SetOption("schema.watermark.0.strategy.expr", "`ts` - INTERVAL '1' HOUR"),
            ],
        ),
        (
            "DROP WATERMARK",
            [
                c.RemoveOption("schema.watermark.0.rowtime"),
                c.RemoveOption("schema.watermark.0.strategy.expr"),
                c.RemoveOption("schema.watermark.0.strategy.data-type"),
            ],
        ),
    ],
)
def test_alter_table(text, changes):
    altered = one(f"ALTER TABLE db.t {text}")
    assert altered.name.parts == ("db", "t")
    assert list(altered.changes) == changes


def test_alter_table_of_partitions_and_tags():
    assert one("ALTER TABLE t DROP IF EXISTS PARTITION (dt='1', h=2), PARTITION (dt=NULL)") == (
        s.DropPartitions(TableName(("t",), 12), ({"dt": "1", "h": 2}, {"dt": None}))
    )
    tag = one("ALTER TABLE t CREATE OR REPLACE TAG `v1` AS OF VERSION 3")
    assert (tag.tag, tag.action, tag.snapshot_id) == ("v1", "create_or_replace", 3)
    assert one("ALTER TABLE t DROP TAG IF EXISTS v1").if_exists == "ignore"
    assert one("ALTER TABLE t CREATE TAG v1 RETAIN 3 DAYS").time_retained == "3 days"
    assert one("ALTER TABLE t RENAME TAG `v1` TO 'v2'").new_name == "v2"


def test_comment_on_table():
    assert one("COMMENT ON TABLE t IS 'x'").changes == (c.UpdateComment("x"),)
    assert one("COMMENT ON TABLE t IS NULL").changes == (c.UpdateComment(None),)


def test_insert():
    found = one(
        "INSERT OVERWRITE TABLE a.b /*+ OPTIONS('x'='y') */ PARTITION (dt='1', h) (id, v)"
        " SELECT id, v FROM u"
    )
    assert found.name.parts == ("a", "b")
    assert found.overwrite
    assert (found.partition, found.dynamic) == ({"dt": "1"}, ("h",))
    assert found.columns == ("id", "v")
    assert found.options == {"x": "y"}
    assert found.query.sql == "SELECT id, v FROM u"
    assert one("INSERT INTO t VALUES (1), (2)").query.sql == "VALUES (1), (2)"
    assert one("INSERT INTO t (SELECT 1)").columns == ()
    assert one("INSERT INTO t ((SELECT 1))").query.sql == "((SELECT 1))"
    assert one("INSERT INTO t BY NAME SELECT 1 AS id").by_name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT t SELECT 1", "must be one of INTO, OVERWRITE"),
        ("INSERT INTO t", "A query is expected here"),
        ("INSERT INTO t (a, b) (c)", "A query is expected here"),
        ("INSERT INTO t PARTITION (a=1, a=2) SELECT 1", "'a' is listed twice"),
        ("DORP TABLE t", "Unknown statement 'DORP'. Did you mean 'DROP'"),
        ("DROP TABEL t", "Did you mean 'TABLE'"),
        ("DROP TABLE", "The table is missing"),
        ("SHOW TABLE", "Did you mean 'TABLES'"),
        ("ALTER TABLE t FROBNICATE", "ALTER TABLE continues with"),
        ("ALTER TABLE t ALTER COLUMN a", "after the column"),
        ("USE a.b.c", "a catalog and a database"),
        ("CALL db.compact('t')", "to the database sys"),
        ("CALL sys.compact(a => 1, 2)", "Positional arguments come before"),
        ("CALL sys.compact(a => 1, a => 2)", "given twice"),
        ("SET 'a' 'b'", "'=' is expected here"),
        ("", "holds no statement"),
        ("  ;  ; -- nothing", "holds no statement"),
    ],
)
def test_wrong_statements_say_what_is_wrong(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE DATABASE IF NOT EXISTS d", s.CreateDatabase(TableName(("d",), 30), "ignore")),
        ("DROP SCHEMA d CASCADE", s.DropDatabase(TableName(("d",), 12), cascade=True)),
        ("TRUNCATE TABLE t", s.Truncate(TableName(("t",), 15))),
        (
            "TRUNCATE TABLE t PARTITION (dt=DATE '2026-01-01')",
            s.Truncate(TableName(("t",), 15), {"dt": "2026-01-01"}),
        ),
        ("DROP VIEW IF EXISTS v", s.DropView(TableName(("v",), 20), "ignore")),
        ("DROP TEMPORARY TABLE t", s.DropTable(TableName(("t",), 21), is_temporary=True)),
        ("USE CATALOG `a b`", s.Use(("a b",), is_catalog=True, start=12)),
        ("USE a.b", s.Use(("a", "b"), start=4)),
        ("SHOW DATABASES LIKE 'a*'", s.ShowNames("databases", None, "a*")),
        ("SHOW TABLES IN d 'x|y'", s.ShowNames("tables", TableName(("d",), 15), "x|y")),
        ("SHOW CREATE TABLE t", s.ShowCreate(TableName(("t",), 18))),
        ("SHOW TBLPROPERTIES t ('a.b')", s.ShowOptions(TableName(("t",), 19), "a.b")),
        ("SHOW TAGS t", s.ShowPartitions(TableName(("t",), 10), tags=True)),
        ("DESC EXTENDED t", s.Describe(TableName(("t",), 14), extended=True)),
        ("DESCRIBE TABLE t col", s.Describe(TableName(("t",), 15), column="col")),
        ("SET 'a.b'='c'", s.SetProperty("a.b", "c", start=4)),
        ("SET a.b-c = 5 gb", s.SetProperty("a.b-c", "5 gb", start=4)),
        ("RESET a.b", s.SetProperty("a.b", None, is_reset=True, start=6)),
        (
            "CALL sys.compact(`table` => 'db.t', dry_run => true, n => -1, x => 1.5)".replace(
                "x => 1.5", "m => NULL"
            ),
            s.Call("compact", (), {"table": "db.t", "dry_run": True, "n": -1, "m": None}, 5),
        ),
        ("CALL cat.sys.rollback('db.t', 3)", s.Call("rollback", ("db.t", 3), {}, 5, "cat")),
        ("ANALYZE TABLE t COMPUTE STATISTICS", s.Analyze(TableName(("t",), 14))),
        (
            "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b",
            s.Analyze(TableName(("t",), 14), ("a", "b")),
        ),
        (
            "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS",
            s.Analyze(TableName(("t",), 14), None),
        ),
    ],
)
def test_other_statements(text, statement):
    assert one(text) == statement


def test_queries_are_kept_as_they_were_written():
    text = "  SELECT  a,b\nFROM t -- all\n ;"
    found = one(text)
    assert found.sql == "SELECT  a,b\nFROM t"
    explained = one("EXPLAIN EXTENDED SELECT 1")
    assert (explained.explain, explained.sql) == ("EXPLAIN EXTENDED ", "SELECT 1")
    for text in ("WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "(SELECT 1)", "FROM t"):
        assert isinstance(one(text), s.Query)


def test_text_is_text():
    with pytest.raises(InvalidInputError, match="is text, not int"):
        parse(5)


@pytest.mark.parametrize(
    ("text", "alias", "where"),
    [
        ("DELETE FROM a.t", None, None),
        ("DELETE FROM a.t WHERE id = 1 AND x", None, "id = 1 AND x"),
        ("DELETE FROM a.t AS o WHERE o.id = 1 AND f(o.x.y)", "o", "o.id = 1 AND f(o.x.y)"),
        ("DELETE FROM a.t o WHERE O.`id`=1 OR t.x", "o", "O.`id`=1 OR t.x"),
        (
            "DELETE FROM a.t WHERE id IN (SELECT u.id FROM u JOIN v USING (id) LIMIT 3) -- all",
            None,
            "id IN (SELECT u.id FROM u JOIN v USING (id) LIMIT 3)",
        ),
    ],
)
def test_delete(text, alias, where):
    found = one(text)
    assert (found.name, found.alias) == (TableName(("a", "t"), 12), alias)
    assert (None if found.where is None else found.where.sql) == where


def test_update():
    found = one(
        "UPDATE t /*+ OPTIONS('a'='b') */ AS o SET o.x = o.x + f(o.y, 1), `y` = CASE WHEN o.z THEN"
        " 'a,b' END, z = (SELECT max(z), 1 FROM u WHERE u.id = o.id) WHERE o.id IN (1, 2)"
    )
    assert {column: value.sql for column, value in found.values.items()} == {
        "x": "o.x + f(o.y, 1)",
        "y": "CASE WHEN o.z THEN 'a,b' END",
        "z": "(SELECT max(z), 1 FROM u WHERE u.id = o.id)",
    }
    assert found.where is not None
    assert (found.where.sql, found.options, found.alias) == ("o.id IN (1, 2)", {"a": "b"}, "o")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("DELETE t", InvalidInputError, "'FROM' is expected here"),
        ("DELETE FROM t WHERE", InvalidInputError, "An expression is missing"),
        ("DELETE FROM t x y", InvalidInputError, "'y' follows"),
        ("UPDATE t WHERE x", InvalidInputError, "'SET' is expected here"),
        ("UPDATE t SET a = 1, a = 2", InvalidInputError, "set twice"),
        ("UPDATE t SET a", InvalidInputError, "'=' is expected here"),
        ("UPDATE t SET a.b = 1, x = 2, A.B = 3", InvalidInputError, r"Field 'A\.B' is set twice"),
        ("UPDATE t SET a.b.c = 1, a.b = 3", InvalidInputError, "overlap: set one"),
        ("UPDATE t SET a = 1, t.a.b = 3", InvalidInputError, "overlap: set one"),
        ("UPDATE t SET a = 1, A = 2", InvalidInputError, "'A' is set twice"),
        ("UPDATE t SET a = , b = 1", InvalidInputError, "expression is missing"),
    ],
)
def test_row_level_statements_that_are_wrong_or_not_covered(text, error, message):
    with pytest.raises(error, match=message) as raised:
        parse(text)
    assert "At line 1, column " in str(raised.value)


def test_fields_inside_columns_are_set():
    found = one("UPDATE d.t SET a.b.c = x + 1, d.t.a.d = 2, t.e = 3, A.f = 4 WHERE x > 1")
    inside = {
        c: [(f.path, f.value.sql) for f in fields] for c, fields in found.field_values.items()
    }
    assert inside == {"a": [(("b", "c"), "x + 1"), (("d",), "2"), (("f",), "4")]}
    assert {c: v.sql for c, v in found.values.items()} == {"e": "3"}
    found = one("MERGE INTO t AS x USING s ON x.k = s.k WHEN MATCHED THEN UPDATE SET x.a.b = s.v")
    (clause,) = found.clauses
    assert clause.values == {}
    assert [(f.path, f.value.sql) for f in clause.field_values["a"]] == [(("b",), "s.v")]


@pytest.mark.parametrize(
    "behind",
    [
        "LIMIT 1",
        "ORDER BY id LIMIT 1",
        "OFFSET 2",
        "GROUP BY id",
        "HAVING count(*) > 5",
        "|> LIMIT 1",
    ],
)
@pytest.mark.parametrize("what", ["DELETE FROM t", "UPDATE t SET a = 1"])
def test_nothing_stands_behind_the_condition_of_a_delete_or_an_update(what, behind):
    """It would be passed over, and more rows would go than were meant."""
    with pytest.raises(UnsupportedError, match="nothing after its condition"):
        parse(f"{what} WHERE id > 0 {behind}")


def test_a_condition_may_hold_such_words_inside():
    for condition in ("a IS DISTINCT FROM 3", "`limit` > 3", "b = 'LIMIT 1'"):
        [statement] = parse(f"DELETE FROM t WHERE {condition}")
        assert statement.where.sql == condition


def test_with_stands_before_changes_of_rows():
    found = one("WITH a (x) AS (SELECT 1 LIMIT 1), b AS ((SELECT 2)) DELETE FROM t WHERE id = 1")
    assert [(q.name, q.columns, q.query.sql) for q in found.queries] == [
        ("a", ("x",), "SELECT 1 LIMIT 1"),
        ("b", (), "(SELECT 2)"),
    ]
    assert isinstance(found.statement, s.Delete)
    for text in (
        "WITH a AS (SELECT 1) SELECT x AS delete FROM a",
        "WITH a (x) AS (SELECT 1), b (SELECT 2) SELECT (x) update FROM a",
    ):
        assert isinstance(one(text), s.Query)
    assert isinstance(one("WITH a (x) (SELECT 1), b (SELECT 2) UPDATE t SET x = 1"), s.WithQueries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("WITH a AS (SELECT 1), A AS (SELECT 2) DELETE FROM t", "Two queries are named 'A'"),
        ("WITH RECURSIVE a AS (SELECT 1) DELETE FROM t", "RECURSIVE is not supported"),
    ],
)
def test_queries_before_a_change_that_are_wrong(text, message):
    with pytest.raises((InvalidInputError, UnsupportedError), match=message):
        one(text)


@pytest.mark.parametrize(
    ("text", "table", "column"),
    [
        ("DESCRIBE HISTORY", "HISTORY", None),
        ("DESCRIBE history id", "history", "id"),
        ("DESC `HISTORY` id", "HISTORY", "id"),
    ],
)
def test_a_table_may_be_named_like_a_statement_of_another_system(text, table, column):
    (statement,) = parse(text)
    assert isinstance(statement, s.Describe)
    assert (statement.name.parts, statement.column) == ((table,), column)


@pytest.mark.parametrize("words", ["INTO", "OVERWRITE"])
@pytest.mark.parametrize("options", ["", " WITH ('write-buffer-size' = '1 mb')"])
def test_a_query_of_insert_may_begin_with_names_for_others(words, options):
    made = one(
        f"INSERT {words} t{options} WITH q (a) AS (SELECT 1), r AS (SELECT 2) SELECT * FROM q"
    )
    assert made.query.sql == "WITH q (a) AS (SELECT 1), r AS (SELECT 2) SELECT * FROM q"
    assert made.overwrite is (words == "OVERWRITE")
    assert made.options == ({"write-buffer-size": "1 mb"} if options else {})
    hinted = one(
        f"INSERT {words} t /*+ OPTIONS('a' = 'b') */ WITH q AS (SELECT 1) TABLE q".replace(
            "TABLE q", "SELECT * FROM q"
        )
    )
    assert (hinted.options, hinted.query.sql[:6]) == ({"a": "b"}, "WITH q")


def test_a_byte_order_mark_before_a_text_is_no_part_of_it():
    assert [type(found) for found in parse("\ufeffSHOW TABLES;\nDROP TABLE t")] == [
        s.ShowNames,
        s.DropTable,
    ]
    assert one("\ufeffSELECT 1").sql == "SELECT 1"
    with pytest.raises(InvalidInputError) as raised:
        parse("\ufeffSHOWW TABLES")
    assert str(raised.value).endswith("At line 1, column 1:\n  SHOWW TABLES\n  ^")
    with pytest.raises(InvalidInputError, match="line 2, column 6"):
        parse("\ufeffSHOW TABLES;\nDROP TABEL t")


def test_metadata_columns_say_what_they_are_of():
    (statement,) = parse(
        "CREATE TABLE k (a INT, `offset` BIGINT METADATA VIRTUAL,"
        " ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka')"
    )
    found = {name: (one.key, one.is_virtual) for name, one in statement.metadata.items()}
    assert found == {"offset": ("offset", True), "ts": ("timestamp", False)}
    assert [f.name for f in statement.fields] == ["a", "offset", "ts"]
