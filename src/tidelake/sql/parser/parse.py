"""Parses a text into statements.

Data definition, SHOW, CALL and the head of INSERT are parsed token by token, so that an error
shows the token. A query (SELECT, VALUES, WITH, the rest of INSERT and AS) stays text:
:mod:`tidelake.sql.query.query` analyses it, and Spark runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NoReturn

from tidelake.errors import InvalidInputError, near_names
from tidelake.sql.parser.alter import alter_table, comment_on
from tidelake.sql.parser.create import create_table
from tidelake.sql.parser.jobs import statement_set, stop_job
from tidelake.sql.parser.merge import merge
from tidelake.sql.parser.other_dialects import EACH_COMMITS, refuse_other_dialects
from tidelake.sql.parser.show import describe, show
from tidelake.sql.parser.update_delete import delete, read_expression, table_options, update
from tidelake.sql.syntax.ast import (
    Analyze,
    Call,
    CreateCatalog,
    CreateDatabase,
    CreateView,
    Delete,
    DropDatabase,
    DropTable,
    DropView,
    Insert,
    Merge,
    NamedQuery,
    Query,
    Refresh,
    SetProperty,
    Statement,
    Truncate,
    Update,
    Use,
    WithQueries,
)
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.hint import check_hints
from tidelake.sql.syntax.literal import read_argument, read_literal, read_partition
from tidelake.sql.syntax.tokens import split_statements, tokenize

_FUNCTIONS = "Functions are Spark's: use spark.sql, or spark.udf.register."


def parse(text: object) -> list[Statement]:
    """Parse statements.

    Parameters
    ----------
    text : str
        One statement, or several with semicolons between.

    Returns
    -------
    list of Statement

    Raises
    ------
    InvalidInputError
        The text is not SQL; the message shows the position.
    UnsupportedError
        A clause or statement is not supported; the message says what to write instead.

    Examples
    --------
    >>> parse("DROP TABLE IF EXISTS shop.orders")
    [DropTable(name=TableName(parts=('shop', 'orders'), start=21), if_missing='ignore', \
is_temporary=False)]
    """
    if not isinstance(text, str):
        message = f"A statement is text, not {type(text).__name__}."
        raise InvalidInputError(message, kind="sql_syntax")
    check_hints(text)
    statements = [_statement(Cursor(text, tokens)) for tokens in split_statements(tokenize(text))]
    if not statements:
        raise InvalidInputError("The text holds no statement.", kind="sql_syntax")
    return statements


def statement_text(text: str, statement: Delete | Merge | Update | WithQueries) -> str:
    """Return the text of one row-level statement out of a text of several.

    Examples
    --------
    >>> text = "DELETE FROM a; DELETE FROM b WHERE x = 1"
    >>> statement_text(text, parse(text)[1])
    'DELETE FROM b WHERE x = 1'
    """
    inner = statement.statement if isinstance(statement, WithQueries) else statement
    for tokens in split_statements(tokenize(text)):
        if tokens[0].start <= inner.name.start < tokens[-1].end:
            return text[tokens[0].start : tokens[-1].end]
    return text


def _statement(cursor: Cursor) -> Statement:
    refuse_other_dialects(cursor)
    for keyword, read in _STATEMENTS.items():
        if cursor.peek(keyword):
            return read(cursor)
    token = cursor.token
    assert token is not None, "a statement has words"
    if token.upper == "(":
        return _query(cursor)
    known = [keyword for keyword in _STATEMENTS if keyword != "("]
    raise cursor.error(
        f"Unknown statement '{token.text}'.{near_names(token.upper, known)}",
        kind="sql_statement",
    )


def _query(cursor: Cursor) -> Query:
    start = cursor.position
    cursor.index = len(cursor.tokens)
    return Query(cursor.text, start, cursor.end)


def _with(cursor: Cursor) -> Statement:
    """Parse WITH before a row-level statement; before a query it is part of the query."""
    after = _end_of_with(cursor)
    if after < len(cursor.tokens) and cursor.tokens[after].upper == "INSERT":
        return _with_insert(cursor, after)
    read = _CHANGES.get(cursor.tokens[after].upper) if after < len(cursor.tokens) else None
    if read is None:
        return _query(cursor)
    cursor.expect("WITH")
    if cursor.peek("RECURSIVE"):
        raise cursor.unsupported(
            "RECURSIVE is not supported here: CREATE TEMPORARY VIEW ... AS first."
        )
    queries: list[NamedQuery] = []
    while not queries or cursor.accept(","):
        start = cursor.position
        name = cursor.name("query's name")
        if name.casefold() in {q.name.casefold() for q in queries}:
            raise cursor.error(f"Two queries are named '{name}'.", start=start)
        columns: list[str] = []
        if cursor.peek("(") and not _is_query(cursor, 1):
            columns = cursor.parenthesized("the columns", lambda: cursor.name("column"))
        cursor.accept("AS")
        cursor.expect("(", why=" before the query")
        query_start = cursor.position
        query = read_expression(cursor, "WITH", stop=(")",), is_query=True)
        cursor.expect(")", why=" after the query")
        queries.append(
            NamedQuery(name, tuple(columns), Query(cursor.text, query_start, query.end), start)
        )
    statement = read(cursor)
    assert isinstance(statement, (Delete, Merge, Update))
    return WithQueries(tuple(queries), statement)


def _end_of_with(cursor: Cursor) -> int:
    """Return the index of the token after WITH's queries; the end if there is none."""
    depth = 0
    for number in range(cursor.index + 1, len(cursor.tokens) - 1):
        depth += cursor.tokens[number].nesting
        is_end = depth == 0 and cursor.tokens[number].upper == ")"
        if is_end and cursor.tokens[number + 1].upper not in {",", "AS", "("}:
            return number + 1  # after the last query
    return len(cursor.tokens)


def _with_insert(cursor: Cursor, after: int) -> Insert:
    """Parse WITH before INSERT: it becomes a part of the query."""
    start, end = cursor.position, cursor.tokens[after - 1].end
    is_recursive = cursor.accept("WITH", "RECURSIVE")
    named = cursor.text[cursor.position if is_recursive else start + len("WITH") : end]
    cursor.index = after
    found = _insert(cursor)
    words = [w for w in cursor.tokens if w.start >= found.query.start]
    text, joint = found.query.sql, "\n"
    if words[0].upper == "WITH":
        is_nested = words[1].upper == "RECURSIVE"
        is_recursive |= is_nested
        text, joint = text[words[is_nested].end - found.query.start :], ",\n"
    text = f"WITH{' RECURSIVE' * is_recursive} {named.strip()}{joint}{text.strip()}"
    return replace(found, query=Query(text, 0, len(text)))


def _explain(cursor: Cursor) -> Statement:
    start = cursor.position
    cursor.expect("EXPLAIN")
    for mode in ("EXTENDED", "CODEGEN", "COST", "FORMATTED"):
        if cursor.accept(mode):
            break
    end = cursor.position
    heads = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
    if not any(cursor.peek(token) for token in heads):
        raise cursor.unsupported("EXPLAIN takes a query: SELECT, WITH or VALUES.")
    found = _query(cursor)
    return Query(found.text, found.start, found.end, explain=cursor.text[start:end])


def _insert(cursor: Cursor) -> Insert:
    cursor.expect("INSERT")
    overwrite = cursor.choice(("INTO", "OVERWRITE"), "The word after INSERT") == "OVERWRITE"
    if overwrite and cursor.peek("DIRECTORY"):
        raise cursor.unsupported("To write files, use spark.sql, or df.write on a query's result.")
    cursor.accept("TABLE")
    name = cursor.table_name()
    options = table_options(cursor)
    partition: dict[str, object] = {}
    dynamic: list[str] = []
    if cursor.accept("PARTITION"):

        def item() -> None:
            start = cursor.position
            column = cursor.name("partition column")
            if column in partition or column in dynamic:
                raise cursor.error(f"Partition column '{column}' is listed twice.", start=start)
            if cursor.accept("="):
                partition[column] = read_literal(cursor, f"value of '{column}'")
            else:
                dynamic.append(column)

        cursor.parenthesized("the partition", item)
    if cursor.peek("IF", "NOT", "EXISTS"):
        raise cursor.unsupported(
            "IF NOT EXISTS for a partition is not supported: check SHOW PARTITIONS first."
        )
    by_name = cursor.accept("BY", "NAME")
    columns: list[str] = []
    if cursor.peek("(") and not _is_query(cursor, 1):
        columns = cursor.parenthesized("the columns", lambda: cursor.name("column"))
    if cursor.peek("REPLACE", "WHERE") or cursor.peek("REPLACE", "USING"):
        raise cursor.unsupported(
            "REPLACE WHERE is not supported: use INSERT OVERWRITE t PARTITION (...)."
        )
    if not _is_query(cursor, 0):
        raise cursor.error("A query is expected here: SELECT, VALUES, WITH or FROM.")
    return Insert(
        name,
        _query(cursor),
        overwrite=overwrite,
        columns=tuple(columns),
        partition=partition,
        dynamic=tuple(dynamic),
        options=options,
        by_name=by_name,
    )


def _is_query(cursor: Cursor, ahead: int) -> bool:
    following = cursor.tokens[cursor.index + ahead :]
    while following and following[0].upper == "(":
        following = following[1:]
    return bool(following) and following[0].upper in {
        "SELECT",
        "VALUES",
        "WITH",
        "FROM",
        "TABLE",
    }


def _create(cursor: Cursor) -> Statement:
    start = cursor.position
    cursor.expect("CREATE")
    replace = cursor.accept("OR", "REPLACE")
    temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.peek("GLOBAL"):
        raise cursor.unsupported("GLOBAL views are not supported: use CREATE TEMPORARY VIEW.")
    if cursor.accept("EXTERNAL"):
        raise cursor.unsupported(
            "All tables are in the warehouse: leave out EXTERNAL.", start=cursor.position
        )
    if cursor.accept("TABLE"):
        return create_table(
            cursor, is_temporary=temporary, if_exists="replace" if replace else "error"
        )
    if cursor.accept("VIEW"):
        return _view(cursor, replace=replace, temporary=temporary, start=start)
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        return _database(cursor)
    if cursor.accept("CATALOG"):
        return _catalog(cursor)
    if cursor.peek("FUNCTION") or cursor.peek("TEMPORARY", "FUNCTION"):
        raise cursor.unsupported(_FUNCTIONS)
    if cursor.peek("MATERIALIZED") or cursor.peek("INDEX"):
        raise cursor.unsupported("CREATE makes tables, temporary views, databases and catalogs.")
    choices = ("TABLE", "TEMPORARY TABLE", "TEMPORARY VIEW", "DATABASE", "CATALOG")
    cursor.choice(choices, "The word after CREATE")
    raise AssertionError("a choice that is not offered")


def _view(cursor: Cursor, *, replace: bool, temporary: bool, start: int) -> Statement:
    del start
    if_exists: Literal["error", "ignore", "replace"] = "replace" if replace else "error"
    if cursor.accept("IF", "NOT", "EXISTS"):
        if_exists = "ignore"
    name_start = cursor.position
    name = cursor.table_name("view")
    if temporary and len(name.parts) != 1:
        raise cursor.error(
            "A temporary view has no database: write its name alone.", start=name_start
        )
    columns: list[str] = []
    if cursor.peek("("):

        def column() -> str:
            found = cursor.name("column")
            if cursor.accept("COMMENT"):
                cursor.string("comment")
            return found

        columns = cursor.parenthesized("the columns", column)
    comment = cursor.string("comment") if cursor.accept("COMMENT") else None
    if cursor.peek("USING"):
        raise cursor.unsupported("Create a view over another source by spark.sql.")
    cursor.expect("AS", why=" before the query of the view")
    return CreateView(
        name.parts[-1],
        tuple(columns),
        _query(cursor),
        if_exists,
        name_start,
        None if temporary else name,
        comment,
    )


def _database(cursor: Cursor) -> Statement:
    if_exists = cursor.if_not_exists()
    name = cursor.table_name("database")
    if cursor.peek("LOCATION"):
        raise cursor.unsupported("All databases are in the warehouse: leave out LOCATION.")
    if cursor.peek("COMMENT") or cursor.peek("WITH"):
        raise cursor.unsupported("A database has no comment and no options: leave them out.")
    cursor.expect_end()
    return CreateDatabase(name, if_exists)


def _catalog(cursor: Cursor) -> Statement:
    if_exists = cursor.if_not_exists()
    start = cursor.position
    name = cursor.name("catalog")
    cursor.expect("WITH", why=" after the catalog's name")
    options = cursor.options()
    cursor.expect_end()
    return CreateCatalog(name, options, start, if_exists)


def _replace(cursor: Cursor) -> Statement:
    cursor.expect("REPLACE", "TABLE")
    return create_table(cursor, if_exists="replace", must_exist=True)


def _drop(cursor: Cursor) -> Statement:
    cursor.expect("DROP")
    temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.peek("FUNCTION"):
        raise cursor.unsupported(_FUNCTIONS)
    what = cursor.choice(("TABLE", "VIEW", "DATABASE", "SCHEMA", "CATALOG"), "The word after DROP")
    if_missing = cursor.if_exists()
    if what == "CATALOG":
        raise cursor.unsupported(
            "A catalog cannot be dropped; it ends with the session. USE CATALOG switches to"
            " another."
        )
    name = cursor.table_name(what.lower())
    if what == "TABLE":
        cursor.accept("PURGE")
        cursor.expect_end()
        return DropTable(name, if_missing, temporary)
    if what == "VIEW":
        cursor.expect_end()
        return DropView(name, if_missing)
    cascade = cursor.accept("CASCADE")
    cursor.accept("RESTRICT")
    cursor.expect_end()
    return DropDatabase(name, if_missing, cascade)


def _truncate(cursor: Cursor) -> Statement:
    cursor.expect("TRUNCATE", "TABLE")
    name = cursor.table_name()
    partition = read_partition(cursor) if cursor.accept("PARTITION") else None
    cursor.expect_end()
    return Truncate(name, partition)


def _alter(cursor: Cursor) -> Statement:
    cursor.expect("ALTER")
    if cursor.peek("DATABASE") or cursor.peek("SCHEMA") or cursor.peek("NAMESPACE"):
        raise cursor.unsupported("A database has no options: set them on its tables.")
    if cursor.peek("VIEW"):
        raise cursor.unsupported(
            "A view cannot be altered: use CREATE OR REPLACE VIEW, or CALL sys.alter_view_dialect."
        )
    cursor.expect("TABLE")
    return alter_table(cursor)


def _comment(cursor: Cursor) -> Statement:
    cursor.expect("COMMENT", "ON")
    return comment_on(cursor)


def _use(cursor: Cursor) -> Statement:
    cursor.expect("USE")
    if cursor.accept("CATALOG"):
        start = cursor.position
        name = cursor.name("catalog")
        cursor.expect_end()
        return Use((name,), is_catalog=True, start=start)
    for keyword in ("DATABASE", "SCHEMA", "NAMESPACE"):
        if cursor.peek(keyword) and len(cursor.tokens) > cursor.index + 1:
            cursor.index += 1
            break
    found = cursor.table_name("database")
    if len(found.parts) > 2:  # catalog and database
        raise cursor.error("USE takes a database, or a catalog and a database.", start=found.start)
    cursor.expect_end()
    return Use(found.parts, start=found.start)


def _set(cursor: Cursor) -> Statement:
    start = cursor.position
    is_reset = cursor.accept("RESET")
    if not is_reset:
        cursor.expect("SET")
    if cursor.token is None:
        return SetProperty(None, None, is_reset, start)
    if cursor.peek("-") or cursor.peek("TIME", "ZONE"):
        raise cursor.unsupported("Write SET 'key' = 'value'.")
    start = cursor.position
    key = cursor.option_key()
    if is_reset or cursor.token is None:
        cursor.expect_end()
        return SetProperty(key, None, is_reset, start)
    cursor.expect("=", why=" after the option's name")
    token = cursor.token
    if token is not None and token.is_string:
        value = cursor.string("value")
    else:  # Spark takes all that follows
        value = cursor.rest().strip()
        cursor.index = len(cursor.tokens)
        if not value:
            raise cursor.error("The value is missing here.")
    cursor.expect_end()
    return SetProperty(key, value, start=start)


def _call(cursor: Cursor) -> Statement:
    cursor.expect("CALL")
    found = cursor.table_name("procedure")
    if len(found.parts) > 1 and found.parts[-2].lower() != "sys":
        raise cursor.error(
            "Procedures belong to the database sys: CALL sys.compact(...).", start=found.start
        )
    positional: list[object] = []
    named: dict[str, object] = {}

    def item() -> None:
        start = cursor.position
        following = cursor.tokens[cursor.index + 1 : cursor.index + 3]
        is_named = following and (
            following[0].text == "=>" or [w.text for w in following] == ["=", ">"]
        )
        if not is_named:
            if following and following[0].text == "=":
                raise cursor.error("Write name => value, not name = value.")
            if named:
                raise cursor.error("Positional arguments come before named ones.")
            positional.append(read_argument(cursor, "argument"))
            return
        name = cursor.name("argument's name")
        if not cursor.accept("=>"):
            cursor.expect("=", ">")
        if name in named:
            raise cursor.error(f"Argument '{name}' is given twice.", start=start)
        named[name] = read_argument(cursor, f"argument '{name}'")

    if cursor.peek("(", ")"):
        cursor.index += 2
    else:
        cursor.parenthesized("the arguments", item)
    cursor.expect_end()
    catalog = found.parts[0] if len(found.parts) > 2 else None
    return Call(found.parts[-1].lower(), tuple(positional), named, found.start, catalog)


def _begin(cursor: Cursor) -> Statement:
    if cursor.peek("BEGIN", "STATEMENT"):
        return statement_set(cursor, _insert)
    raise cursor.unsupported(f"BEGIN of a block or a transaction is not known here: {EACH_COMMITS}")


def _execute(cursor: Cursor) -> Statement:
    if cursor.peek("EXECUTE", "INSERT"):
        cursor.index += 1
        return _insert(cursor)
    if cursor.peek("EXECUTE", "STATEMENT"):
        return statement_set(cursor, _insert)
    raise cursor.unsupported("Give the statement itself, with args= for its parameters.")


def _analyze(cursor: Cursor) -> Statement:
    cursor.expect("ANALYZE")
    if cursor.peek("TABLES"):
        raise cursor.unsupported("ANALYZE takes one table: ANALYZE TABLE t COMPUTE STATISTICS.")
    cursor.expect("TABLE")
    name = cursor.table_name()
    if cursor.peek("PARTITION"):
        raise cursor.unsupported("Statistics are of a whole table: leave PARTITION out.")
    cursor.expect("COMPUTE", "STATISTICS")
    columns: tuple[str, ...] | None = ()
    if cursor.accept("FOR", "ALL", "COLUMNS"):
        columns = None
    elif cursor.accept("FOR", "COLUMNS"):
        found = [cursor.name("column")]
        while cursor.accept(","):
            found.append(cursor.name("column"))
        columns = tuple(found)
    elif cursor.accept("NOSCAN"):
        pass  # rows are counted by metadata where it has the number
    cursor.expect_end()
    return Analyze(name, columns)


def _refresh(cursor: Cursor) -> Statement:
    if not cursor.peek("REFRESH", "TABLE"):
        _spark_only(cursor)
    cursor.expect("REFRESH", "TABLE")
    name = cursor.table_name()
    cursor.expect_end()
    return Refresh(name)


def _copy(cursor: Cursor) -> NoReturn:
    raise cursor.unsupported(
        "COPY INTO is not supported. From files: INSERT INTO t SELECT * FROM parquet.`/path`, or"
        " spark.read and tl.write; to files: tl.sql('SELECT ...').write."
    )


def _spark_only(cursor: Cursor) -> NoReturn:
    token = cursor.token
    raise cursor.unsupported(
        f"{token.upper if token else ''} works on Spark's own tables: use spark.sql. DataFrames"
        " from tl.sql and tl.table can be cached."
    )


_CHANGES: dict[str, Callable[[Cursor], Statement]] = {
    "UPDATE": update,
    "DELETE": delete,
    "MERGE": merge,
}

_STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "SELECT": _query,
    "WITH": _with,
    "VALUES": _query,
    "FROM": _query,
    "TABLE": _query,
    "EXPLAIN": _explain,
    "INSERT": _insert,
    "CREATE": _create,
    "REPLACE": _replace,
    "DROP": _drop,
    "ALTER": _alter,
    "TRUNCATE": _truncate,
    "COMMENT": _comment,
    "SHOW": show,
    "DESCRIBE": describe,
    "DESC": describe,
    "USE": _use,
    "SET": _set,
    "RESET": _set,
    "CALL": _call,
    "UPDATE": update,
    "DELETE": delete,
    "MERGE": merge,
    "EXECUTE": _execute,
    "STOP": stop_job,
    "BEGIN": _begin,
    "ANALYZE": _analyze,
    "CACHE": _spark_only,
    "UNCACHE": _spark_only,
    "REFRESH": _refresh,
    "MSCK": _spark_only,
    "LOAD": _spark_only,
    "ADD": _spark_only,
    "COPY": _copy,
}
