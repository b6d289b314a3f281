import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.table_clause import Incremental, Window

COLUMNS = ["id", "day", "item", "price", "order_time", "k"]


def read(text):
    return parse_query(Query(text, 0, len(text)))


def names(text):
    return [(str(r.name), r.alias) for r in read(text).references]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM t", [("t", "t")]),
        ("SELECT * FROM a.b.t AS x", [("a.b.t", "x")]),
        ("SELECT * FROM `a b`.`c.d` x", [("a b.c.d", "x")]),
        ("SELECT * FROM t$files", [("t$files", "t$files")]),
        ("SELECT * FROM `t$files` f, u", [("t$files", "f"), ("u", "u")]),
        ("SELECT * FROM t JOIN u USING (id) LEFT JOIN v ON v.id = t.id", [*"tuv"]),
        ("SELECT (SELECT max(a) FROM t) FROM u WHERE x IN (SELECT y FROM v)", [*"tuv"]),
        ("SELECT * FROM t UNION ALL SELECT * FROM u EXCEPT SELECT * FROM v", [*"tuv"]),
        ("FROM t SELECT id", [*"t"]),
        ("SELECT * FROM (SELECT * FROM t) x", [*"t"]),
        ("SELECT * FROM range(3)", []),
        ("SELECT * FROM t, range(3) r", [*"t"]),
        ("VALUES (1, 2)", []),
        ("SELECT * FROM (VALUES (1)) v(a), t", [*"t"]),
        ("WITH t AS (SELECT 1) SELECT * FROM t", []),
        ("WITH t AS (SELECT 1) SELECT * FROM db.t", [("db.t", "t")]),
        ("WITH T AS (SELECT 1) SELECT * FROM t", []),
        # a CTE does not see itself, nor later ones
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", [*"t"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", [*"b"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", []),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) x, t", [*"t"]),
        ("SELECT * FROM t LATERAL VIEW explode(xs) e AS x", [*"t"]),
    ],
)
def test_tables_of_a_query(text, found):
    assert names(text) == [(f, f) if isinstance(f, str) else f for f in found]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("SELECT id FROM t", ["id"]),
        ("SELECT ID, t.Price FROM t", ["id", "price"]),
        ("SELECT count(*) FROM t", []),
        ("SELECT count(*), max(k) FROM t", ["k"]),
        ("SELECT * FROM t", COLUMNS),
        ("SELECT t.* FROM t", COLUMNS),
        ("SELECT struct(*) FROM t", COLUMNS),
        ("SELECT count(t.*) FROM t", COLUMNS),
        ("SELECT * EXCEPT (id) FROM t", COLUMNS),
        ("SELECT t FROM t", COLUMNS),
        ("SELECT id FROM t AS x(id, b, c, d, e, f)", COLUMNS),
        ("SELECT id FROM t NATURAL JOIN u", COLUMNS),
        ("SELECT id FROM t WHERE price > 1 ORDER BY day", ["id", "day", "price"]),
        ("SELECT 1 AS id FROM t GROUP BY k HAVING max(price) > 1", ["price", "k"]),
        ("SELECT row_number() OVER (PARTITION BY k ORDER BY day) FROM t", ["day", "k"]),
        ("SELECT 1 FROM t JOIN u USING (k)", ["k"]),
        ("SELECT u.id FROM t JOIN u ON t.k = u.k", ["k"]),
        ("SELECT u.* FROM t JOIN u ON t.k = u.k", ["k"]),
        ("SELECT item.name.first FROM t", ["item"]),
        ("SELECT t.item.name FROM t", ["item"]),
        ("SELECT a.b.t.id FROM a.b.t", ["id"]),
        ("SELECT x.id FROM t x WHERE EXISTS (SELECT 1 FROM u WHERE u.k = x.k)", ["id", "k"]),
        ("SELECT 1 FROM t WHERE k IN (SELECT id FROM u)", ["id", "k"]),
        ("SELECT transform(item, x -> x + price) FROM t", ["item", "price"]),
        ("SELECT 1 FROM t LATERAL VIEW explode(item) e AS y", ["item"]),
        ("WITH a AS (SELECT id FROM t) SELECT price FROM a", ["id"]),
        ("SELECT price FROM (SELECT id FROM t) x", ["id"]),
        ("SELECT id FROM t UNION SELECT price FROM u", ["id"]),
        # a star that an outer query chooses from
        ("SELECT x.id FROM (SELECT * FROM t) x WHERE x.k = 1", ["id", "k"]),
        ("WITH a AS (SELECT * FROM t) SELECT id FROM a", ["id"]),
        ("WITH a AS (SELECT * FROM t) SELECT z.id FROM a z JOIN a y USING (k)", ["id", "k"]),
        ("WITH a AS (SELECT * FROM t), b AS (SELECT * FROM a) SELECT price FROM b", ["price"]),
        ("WITH a AS (SELECT t.* FROM t JOIN u USING (k)) SELECT u.id FROM a u", ["id", "k"]),
        ("WITH a AS (SELECT *, k + 1 AS id FROM t) SELECT count(*) FROM a", ["k"]),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a", COLUMNS),
        ("WITH t AS (SELECT * FROM t) SELECT id FROM t", COLUMNS),
        ("WITH a AS (SELECT * FROM t), t AS (SELECT * FROM a) SELECT id FROM t", COLUMNS),
        ("WITH a AS (SELECT * FROM t) SELECT a.* FROM a", COLUMNS),
        ("WITH a AS (SELECT * FROM t) SELECT a FROM a", COLUMNS),
        ("WITH a AS (SELECT * FROM t) SELECT id FROM a UNION SELECT * FROM a", COLUMNS),
        ("WITH a AS (SELECT * FROM t), b AS (SELECT * FROM a) SELECT b.* FROM b", COLUMNS),
        ("WITH a (b, c, d, e, f, g) AS (SELECT * FROM t) SELECT b FROM a", COLUMNS),
        ("WITH a AS (SELECT DISTINCT * FROM t) SELECT id FROM a", COLUMNS),
        ("WITH a AS (SELECT * FROM t GROUP BY ALL) SELECT id FROM a", COLUMNS),
        ("SELECT x.k FROM (SELECT * FROM t ORDER BY 1 LIMIT 1) x", COLUMNS),
        ("SELECT x.k FROM (SELECT * FROM t ORDER BY ALL LIMIT 1) x", COLUMNS),
        ("SELECT x.k FROM (SELECT * FROM t SORT BY 2 DESC) x", COLUMNS),
        ("SELECT x.k FROM (SELECT * FROM t ORDER BY id LIMIT 1) x", ["id", "k"]),
        ("SELECT count(*) FROM t GROUP BY window(day, '10 minutes')", ["day"]),
        ("WITH a AS (SELECT * FROM t UNION SELECT * FROM u) SELECT id FROM a", COLUMNS),
        ("WITH a AS (SELECT * FROM t) SELECT id FROM a NATURAL JOIN u", COLUMNS),
        ("WITH a AS (SELECT * EXCEPT (id) FROM t) SELECT k FROM a", COLUMNS),
        ("SELECT b FROM (SELECT * FROM t) x(b, c, d, e, f, g)", COLUMNS),
        ("SELECT id FROM (SELECT * FROM t) x PIVOT (sum(k) FOR day IN (1))", COLUMNS),
        ("SELECT id FROM u WHERE (k, id) IN (SELECT * FROM t)", COLUMNS),
        ("SELECT id FROM u WHERE EXISTS (SELECT * FROM t WHERE t.k = u.k)", ["id", "k"]),
        ("SELECT u.id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k)", ["k"]),
    ],
)
def test_columns_that_a_query_looks_at(text, needed):
    parsed = read(text)
    reference = next(r for r in parsed.references if r.name.parts[-1] == "t")
    assert parsed.used_columns(reference, COLUMNS) == needed


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("SELECT id FROM t", "SELECT id FROM R AS `t`"),
        ("SELECT x.id FROM db.t AS x", "SELECT x.id FROM R AS x"),
        ("SELECT a.t.id FROM a.t WHERE a.t.k=1", "SELECT t.id FROM R AS `t` WHERE t.k=1"),
        ("SELECT c.a.t.id, a.t.k, t.k FROM c.a.t", "SELECT t.id, t.k, t.k FROM R AS `t`"),
        ("SELECT `a b`.t.id FROM `a b`.t", "SELECT t.id FROM R AS `t`"),
        ("SELECT * FROM t VERSION AS OF 3", "SELECT * FROM R AS `t`"),
        ("SELECT * FROM t FOR VERSION AS OF 'v' x", "SELECT * FROM R x"),
        ("SELECT * FROM t WITH ('a'='b') WHERE k", "SELECT * FROM R AS `t` WHERE k"),
        ("SELECT t$files.x FROM t$files", "SELECT `t$files`.x FROM R AS `t$files`"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS)", "SELECT * FROM R TABLESAMPLE (5 ROWS) AS `t`"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x", "SELECT * FROM R TABLESAMPLE (5 ROWS) x"),
        ("SELECT CAST(k AS TIMESTAMP(3)) FROM t", "SELECT CAST(k AS TIMESTAMP_NTZ) FROM R AS `t`"),
        ("SELECT 't', `t` FROM t -- t\n", "SELECT 't', `t` FROM R AS `t` -- t\n"),
        ("SELECT /*+ BROADCAST(t) */ 1 FROM t", "SELECT /*+ BROADCAST(t) */ 1 FROM R AS `t`"),
        ("SELECT x :: INT FROM t", "SELECT x :: INT FROM R AS `t`"),
    ],
)
def test_only_the_table_is_written_anew(text, rewritten):
    parsed = read(text)
    (reference,) = parsed.references
    assert parsed.rewrite({reference: "R"}) == rewritten


def test_tables_that_are_left_out_stay():
    parsed = read("SELECT * FROM a.t, u")
    assert parsed.rewrite({parsed.references[1]: "R"}) == "SELECT * FROM a.t, R AS `u`"


def test_a_query_inside_a_statement_keeps_its_place():
    text = "INSERT INTO x SELECT id FROM t ; DROP TABLE t"
    parsed = parse_query(Query(text, 14, 30))
    assert [str(r.name) for r in parsed.references] == ["t"]
    assert parsed.rewrite({parsed.references[0]: "R"}) == "SELECT id FROM R AS `t`"


@pytest.mark.parametrize(
    ("said", "options", "version", "timestamp"),
    [
        ("WITH ('a'='b')", {"a": "b"}, None, None),
        ("/*+ OPTIONS('a'='b', 'c'='d') */", {"a": "b", "c": "d"}, None, None),
        ("VERSION AS OF 3 WITH ('a'='b')", {"a": "b"}, 3, None),
        ("VERSION AS OF 'tag'", {}, "tag", None),
        ("FOR SYSTEM_VERSION AS OF 3", {}, 3, None),
        ("TIMESTAMP AS OF '2026-01-01'", {}, None, "2026-01-01"),
        ("TIMESTAMP AS OF TIMESTAMP '2026-01-01 10:00:00'", {}, None, "2026-01-01 10:00:00"),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 10:00:00'", {}, None, "2026-01-01 10:00:00"),
        ("TIMESTAMP AS OF 1767225600", {}, None, 1767225600000),
        ("TIMESTAMP AS OF 1767225600123", {}, None, 1767225600123),
        ("TIMESTAMP AS OF 1767225600.25", {}, None, 1767225600250),
        ("FOR TIMESTAMP AS OF '1767225600123'", {}, None, "1767225600123"),
    ],
)
@pytest.mark.parametrize(
    "around", ["FROM t {} x", "FROM u JOIN db.t {} x ON u.k = x.k", "FROM (SELECT * FROM t {}) y"]
)
def test_what_is_said_behind_a_table(said, options, version, timestamp, around):
    parsed = read(f"SELECT 1 {around.format(said)}")
    reference = next(r for r in parsed.references if r.name.parts[-1] == "t")
    clause = reference.clause
    assert (dict(clause.options), clause.version, clause.timestamp) == (options, version, timestamp)
    assert "R" in parsed.rewrite({reference: "R"})


@pytest.mark.parametrize(
    ("function", "window"),
    [
        (
            "TUMBLE(TABLE a.t, DESCRIPTOR(order_time), INTERVAL '10' MINUTES)",
            Window("TUMBLE", "order_time", 600_000, 600_000),
        ),
        (
            "TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(order_time), SIZE => INTERVAL '1' HOUR,"
            " OFFSET => INTERVAL '5' MINUTE)",
            Window("TUMBLE", "order_time", 3_600_000, 3_600_000, 300_000),
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(order_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)",
            Window("HOP", "order_time", 600_000, 300_000),
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(`order_time`), INTERVAL '2' SECOND, INTERVAL 1 DAY)",
            Window("CUMULATE", "order_time", 86_400_000, 2000),
        ),
        (
            "SESSION(TABLE a.t PARTITION BY k, id, DESCRIPTOR(order_time), INTERVAL '5' MINUTE)",
            Window("SESSION", "order_time", 300_000, 300_000, keys=("k", "id")),
        ),
        (
            "SESSION(DATA => TABLE a.t PARTITION BY (k), TIMECOL => DESCRIPTOR(order_time),"
            " GAP => INTERVAL '5' MINUTE)",
            Window("SESSION", "order_time", 300_000, 300_000, keys=("k",)),
        ),
    ],
)
def test_windowing_functions(function, window):
    parsed = read(f"SELECT window_start, count(id) FROM TABLE({function}) w GROUP BY window_start")
    (reference,) = parsed.references
    assert reference.function.window == window
    assert reference.name.parts[-1] == "t"
    used = {"id", "order_time", *window.keys}
    assert parsed.used_columns(reference, COLUMNS) == [c for c in COLUMNS if c in used]
    assert parsed.rewrite({reference: "R"}) == (
        "SELECT window_start, count(id) FROM R w GROUP BY window_start"
    )


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        ("SESSION(TABLE t, DESCRIPTOR(k))", InvalidInputError, "SESSION takes the intervals GAP."),
        (
            "TUMBLE(TABLE t PARTITION BY id, DESCRIPTOR(k), INTERVAL '1' HOUR)",
            InvalidInputError,
            "only SESSION does",
        ),
        ("TUMBLE(t, DESCRIPTOR(k), INTERVAL '1' HOUR)", InvalidInputError, "'TABLE' is expected"),
        ("TUMBLE(TABLE t, k, INTERVAL '1' HOUR)", InvalidInputError, "'DESCRIPTOR' is expected"),
        ("TUMBLE(TABLE t, DESCRIPTOR(k))", InvalidInputError, "TUMBLE takes the intervals SIZE"),
        ("HOP(TABLE t, DESCRIPTOR(k), INTERVAL '1' HOUR)", InvalidInputError, "SLIDE, SIZE"),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(k), INTERVAL '1' MONTH)",
            UnsupportedError,
            "unit of a window",
        ),
        ("TUMBLE(TABLE t, DESCRIPTOR(k), INTERVAL '0' DAY)", InvalidInputError, "positive"),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(k), INTERVAL '7' SECOND, INTERVAL '10' SECOND)",
            InvalidInputError,
            "multiple",
        ),
    ],
)
def test_windowing_functions_that_are_wrong(function, error, message):
    with pytest.raises(error, match=message):
        read(f"SELECT * FROM TABLE({function})")


def test_incremental_queries():
    (found,) = read("SELECT id FROM paimon_incremental_query('db.t', 3, 'tag') q").references
    assert found.function.incremental == Incremental(3, "tag")
    assert (found.name.parts, found.alias) == (("db", "t"), "q")
    (found,) = read(
        "SELECT * FROM paimon_incremental_between_timestamp('t', '2026-01-01', '2026-01-02')"
    ).references
    assert found.function.incremental == Incremental("2026-01-01", "2026-01-02", times=True)
    with pytest.raises(UnsupportedError, match="paimon_incremental_query"):
        read("SELECT * FROM paimon_incremental_to_auto_tag('t', '2026-01-01')")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT a FROM WHERE x", 15),
        ("SELECT id FROM t SELECT", 18),
        ("SELECT (id FROM t", 12),
        ("SELECT a\nFROM t JOIN", None),
        ("SELECT * FROM t GROUP x", None),
        ("SELECT /*+ OPTIONS('a'='b') */ * FROM t", None),
    ],
)
def test_what_is_no_query_is_shown(text, column):
    with pytest.raises(
        InvalidInputError, match=r"The query cannot be parsed here|Options and VERSION"
    ) as e:
        read(text)
    if column is not None:
        assert f"line 1, column {column}:" in str(e.value)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT INTO t WITH ... SELECT"),
        ("FROM t INSERT INTO u SELECT 1", "begin with SELECT"),
    ],
)
def test_what_is_no_query_is_refused(text, remedy):
    with pytest.raises(UnsupportedError) as raised:
        read(text)
    assert remedy in str(raised.value)


def test_a_query_that_is_nested_too_deeply_is_refused():
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        read("SELECT " + "(" * 3000 + "1" + ")" * 3000)


@pytest.mark.parametrize(
    ("written", "lookup"),
    [
        ("o.proc_time", ("o", "proc_time")),
        ("PROCTIME()", ("PROCTIME",)),
        ("CURRENT_TIMESTAMP", ("CURRENT_TIMESTAMP",)),
    ],
)
def test_a_lookup_names_the_time_at_which_a_table_is_looked_at(written, lookup):
    parsed = read(f"SELECT * FROM o JOIN t FOR SYSTEM_TIME AS OF {written} AS c ON c.k = o.k")
    assert [(str(r.name), r.clause.lookup) for r in parsed.references] == [("o", ()), ("t", lookup)]
    assert parsed.rewrite({parsed.references[1]: "R"}) == "SELECT * FROM o JOIN R AS c ON c.k = o.k"


def test_a_moment_that_is_computed_is_refused():
    with pytest.raises(UnsupportedError, match="must be a literal"):
        read("SELECT * FROM t FOR SYSTEM_TIME AS OF now()")
    with pytest.raises(UnsupportedError, match="must be a literal"):
        read("SELECT * FROM t TIMESTAMP AS OF o.at")


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        (
            "SELECT a.t.id, b.t.* FROM a.t JOIN b.t ON a.t.id = b.t.id",
            "SELECT `a.t`.id, `b.t`.* FROM R AS `a.t` JOIN R AS `b.t` ON `a.t`.id = `b.t`.id",
        ),
        (
            "SELECT c.a.t.id, a.t.item.name FROM c.a.t, t",
            "SELECT `c.a.t`.id, `c.a.t`.item.name FROM R AS `c.a.t`, R AS `t`",
        ),
        # the inner table would have hidden the outer one
        (
            "SELECT t.id FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE t.k = a.t.k)",
            "SELECT `a.t`.id FROM R AS `a.t` WHERE EXISTS (SELECT 1 FROM R AS `b.t` WHERE `b.t`.k ="
            " `a.t`.k)",
        ),
        (
            "SELECT 1 FROM a.t WHERE EXISTS (SELECT 1 FROM b.u AS t WHERE a.t.id = t.id)",
            "SELECT 1 FROM R AS `a.t` WHERE EXISTS (SELECT 1 FROM R AS t WHERE `a.t`.id = t.id)",
        ),
        (
            "WITH t AS (SELECT 1 AS id) SELECT a.t.id FROM t JOIN a.t USING (id)",
            "WITH t AS (SELECT 1 AS id) SELECT `a.t`.id FROM t JOIN R AS `a.t` USING (id)",
        ),
        ("SELECT a.t.* FROM a.t", "SELECT t.* FROM R AS `t`"),
        (
            "SELECT a.t.id FROM a.t UNION SELECT a.t.id FROM a.t",
            "SELECT t.id FROM R AS `t` UNION SELECT t.id FROM R AS `t`",
        ),
    ],
)
def test_tables_of_one_name_are_distinguished(text, rewritten):
    parsed = read(text)
    assert parsed.rewrite(dict.fromkeys(parsed.references, "R")) == rewritten


def test_a_name_that_may_mean_two_tables_is_refused_where_it_stands():
    parsed = read("SELECT t.id FROM a.t JOIN b.t USING (id)")
    with pytest.raises(InvalidInputError, match=r"a\.t, b\.t.*line 1, column 8:"):
        parsed.rewrite(dict.fromkeys(parsed.references, "R"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 +",
        "SELECT * FROM t WHERE a =",
        "SELECT x FROM t LIMIT",
        "SELECT trim() FROM t",
        "SELECT * FROM t WHERE a BETWEEN 1",
    ],
)
def test_what_is_missing_is_said_without_names_of_the_parser(text):
    with pytest.raises(InvalidInputError, match="something is missing") as raised:
        read(text)
    assert "sqlglot" not in str(raised.value)
    assert "class" not in str(raised.value)


def test_values_without_a_table_are_not_parsed():
    assert read("VALUES (1, 'SELECT'), (2 +, ]").references == ()  # Spark says what is wrong
    assert names("VALUES ((SELECT max(a) FROM t))") == [("t", "t")]


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("SELECT id FROM STREAM a.t /*+ OPTIONS('x'='y') */ o JOIN STREAM q ON o.k = q.k", "to, q"),
        ("SELECT id FROM stream `where` WHERE 1 = 1", "where"),
        ("SELECT stream FROM stream WHERE stream.id > 1", ""),
        ("SELECT * FROM stream AS s JOIN stream ON true", ""),
        ("SELECT * FROM `stream` s, t stream", ""),
        ("SELECT id FROM STREAM(a.t) o JOIN stream ( q /*+ OPTIONS('x'='y') */ ) ON true", "to, q"),
        ("SELECT id FROM STREAM(`where`) WITH ('x'='y') AS s WHERE 1 = 1", "where"),
    ],
)
def test_the_word_stream_before_a_table_is_no_name(text, streams):
    parsed = parse_query(Query(text, 0, len(text)))
    found = [r for r in parsed.references if r.clause.stream is not None]
    assert ", ".join(r.name.parts[-1] + ("o" if r.alias == "o" else "") for r in found) == streams
    shown = parsed.rewrite(dict.fromkeys(parsed.references, "{x}"))
    assert "{x}" in shown
    assert "STREAM" not in shown.split("{x}")[0].split("FROM")[-1].upper()
    assert "(" not in shown.split("FROM")[1]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM STREAM(SELECT 1)",
        "SELECT * FROM STREAM(WITH c AS (SELECT 1) SELECT * FROM c)",
        "SELECT * FROM STREAM((SELECT 1))",
        "SELECT * FROM STREAM()",
        "SELECT * FROM STREAM(t, u)",
        "SELECT * FROM STREAM(t",
        "SELECT * FROM STREAM(range(3))",
    ],
)
def test_the_parentheses_of_stream_hold_a_tables_name(text):
    with pytest.raises(InvalidInputError, match="STREAM takes the name of a table"):
        parse_query(Query(text, 0, len(text)))


def test_options_of_a_stream_stand_behind_the_name_or_the_parenthesis():
    text = "SELECT * FROM STREAM(t WITH ('a'='1', 'b'='1')) WITH ('b'='2')"
    found = parse_query(Query(text, 0, len(text))).references[0]
    assert dict(found.clause.options) == {"a": "1", "b": "2"}
    assert (found.start, found.clause.end) == (text.index("STREAM"), len(text))


def test_a_query_that_with_names_is_no_stream():
    text = "WITH c AS (SELECT 1) SELECT * FROM STREAM c"
    with pytest.raises(InvalidInputError, match="not of a query that WITH names"):
        parse_query(Query(text, 0, len(text)))
