"""From text to a statement.

Data definition, SHOW, CALL and the head of INSERT are read here, word by word, so that an error
shows the word. What is a query (SELECT, VALUES, WITH, the rest of INSERT and AS) is kept as it was
written: :mod:`tidelake.sql.query.query` looks into it, and Spark runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NoReturn

from tidelake.errors import InvalidInputError, near_names
from tidelake.sql.parser.alter import alter_table, comment_on
from tidelake.sql.parser.create import create_table
from tidelake.sql.parser.merge import merge
from tidelake.sql.parser.other_dialects import EACH_COMMITS, refuse_foreign
from tidelake.sql.parser.show import describe, show
from tidelake.sql.parser.update_delete import delete, expression, table_options, update
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
    SetOption,
    Statement,
    Truncate,
    Update,
    Use,
    WithQueries,
)
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.hint import check_hints
from tidelake.sql.syntax.literal import argument_of, literal_of, partition_of
from tidelake.sql.syntax.tokens import split_statements, words_of

__all__ = ["own_text", "parse"]

_STREAMS = (
    "Streaming statements are not covered yet: run the INSERT as a batch, and repeat it as new rows"
    " come."
)
_FUNCTIONS = "Functions are Spark's: use spark.sql, or spark.udf.register."


def parse(text: object) -> list[Statement]:
    """Read statements.

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
        The text is no SQL; the place is shown.
    UnsupportedError
        A clause or statement is not covered; what to write instead is said.

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
    statements = [_statement(Reader(text, words)) for words in split_statements(words_of(text))]
    if not statements:
        raise InvalidInputError("The text holds no statement.", kind="sql_syntax")
    return statements


def own_text(text: str, statement: Delete | Merge | Update | WithQueries) -> str:
    """The words of a statement that changes rows, out of a text of several.

    Examples
    --------
    >>> text = "DELETE FROM a; DELETE FROM b WHERE x = 1"
    >>> own_text(text, parse(text)[1])
    'DELETE FROM b WHERE x = 1'
    """
    inner = statement.statement if isinstance(statement, WithQueries) else statement
    for words in split_statements(words_of(text)):
        if words[0].start <= inner.name.start < words[-1].end:
            return text[words[0].start : words[-1].end]
    return text


def _statement(reader: Reader) -> Statement:
    refuse_foreign(reader)
    for keyword, read in _STATEMENTS.items():
        if reader.sees(keyword):
            return read(reader)
    word = reader.word
    assert word is not None, "a statement has words"
    if word.upper == "(":
        return _query(reader)
    known = [keyword for keyword in _STATEMENTS if keyword != "("]
    raise reader.fault(
        f"No statement begins with '{word.text}'.{near_names(word.upper, known)}",
        kind="sql_statement",
    )


def _query(reader: Reader) -> Query:
    start = reader.place
    reader.index = len(reader.words)
    return Query(reader.text, start, reader.end)


def _with(reader: Reader) -> Statement:
    """WITH before a query, which has it as a part, or before a change of rows."""
    read = _behind_with(reader)
    if read is None:
        return _query(reader)
    reader.need("WITH")
    if reader.sees("RECURSIVE"):
        raise reader.refusal("RECURSIVE is not covered here: CREATE TEMPORARY VIEW ... AS first.")
    queries: list[NamedQuery] = []
    while not queries or reader.take(","):
        start = reader.place
        name = reader.name("query's name")
        if name.casefold() in {q.name.casefold() for q in queries}:
            raise reader.fault(f"Two queries are named '{name}'.", start=start)
        columns: list[str] = []
        if reader.sees("(") and not _is_query(reader, 1):
            columns = reader.within("the columns", lambda: reader.name("column"))
        reader.take("AS")
        reader.need("(", why=" before the query")
        place = reader.place
        query = expression(reader, "WITH", stop=(")",), is_query=True)
        reader.need(")", why=" behind the query")
        queries.append(
            NamedQuery(name, tuple(columns), Query(reader.text, place, query.end), start)
        )
    statement = read(reader)
    assert isinstance(statement, (Delete, Merge, Update))
    return WithQueries(tuple(queries), statement)


def _behind_with(reader: Reader) -> Callable[[Reader], Statement] | None:
    """What reads the statement behind the queries of WITH; None where that is a query."""
    words = reader.words[reader.index :]
    depth = 0
    for number, word in enumerate(words[1:], 1):
        depth += (word.upper == "(") - (word.upper == ")")
        is_end = depth == 0 and word.upper == ")"
        following = words[number + 1].upper if is_end and number + 1 < len(words) else ""
        if is_end and following not in {",", "AS", "("}:  # behind the last query
            return _CHANGES.get(following)
    return None


def _explain(reader: Reader) -> Statement:
    start = reader.place
    reader.need("EXPLAIN")
    for mode in ("EXTENDED", "CODEGEN", "COST", "FORMATTED"):
        if reader.take(mode):
            break
    end = reader.place
    if not any(reader.sees(word) for word in ("SELECT", "WITH", "VALUES", "FROM", "(")):
        raise reader.refusal("EXPLAIN shows the plan of a query: SELECT, WITH or VALUES.")
    found = _query(reader)
    return Query(found.text, found.start, found.end, explain=reader.text[start:end])


def _insert(reader: Reader) -> Statement:
    reader.need("INSERT")
    overwrite = reader.choice(("INTO", "OVERWRITE"), "The word behind INSERT") == "OVERWRITE"
    if overwrite and reader.sees("DIRECTORY"):
        raise reader.refusal("To write files, use spark.sql, or df.write on the result of a query.")
    reader.take("TABLE")
    name = reader.table_name()
    options = table_options(reader)
    partition: dict[str, object] = {}
    dynamic: list[str] = []
    if reader.take("PARTITION"):

        def item() -> None:
            start = reader.place
            column = reader.name("partition column")
            if column in partition or column in dynamic:
                raise reader.fault(f"Partition column '{column}' is there twice.", start=start)
            if reader.take("="):
                partition[column] = literal_of(reader, f"value of '{column}'")
            else:
                dynamic.append(column)

        reader.within("the partition", item)
    if reader.sees("IF", "NOT", "EXISTS"):
        raise reader.refusal("IF NOT EXISTS of a partition is not covered: SHOW PARTITIONS first.")
    by_name = reader.take("BY", "NAME")
    columns: list[str] = []
    if reader.sees("(") and not _is_query(reader, 1):
        columns = reader.within("the columns", lambda: reader.name("column"))
    if reader.sees("REPLACE", "WHERE") or reader.sees("REPLACE", "USING"):
        raise reader.refusal("REPLACE WHERE is not covered: INSERT OVERWRITE t PARTITION (...).")
    if not _is_query(reader, 0):
        raise reader.fault("A query must stand here: SELECT, VALUES, WITH or FROM.")
    return Insert(
        name,
        _query(reader),
        overwrite=overwrite,
        columns=tuple(columns),
        partition=partition,
        dynamic=tuple(dynamic),
        options=options,
        by_name=by_name,
    )


def _is_query(reader: Reader, ahead: int) -> bool:
    following = reader.words[reader.index + ahead :]
    while following and following[0].upper == "(":
        following = following[1:]
    return bool(following) and following[0].upper in {
        "SELECT",
        "VALUES",
        "WITH",
        "FROM",
    }


def _create(reader: Reader) -> Statement:
    start = reader.place
    reader.need("CREATE")
    replace = reader.take("OR", "REPLACE")
    temporary = reader.take("TEMPORARY") or reader.take("TEMP")
    if reader.sees("GLOBAL"):
        raise reader.refusal("GLOBAL views are Spark's: use CREATE TEMPORARY VIEW.")
    if reader.take("EXTERNAL"):
        raise reader.refusal("Tables lie in the warehouse: leave EXTERNAL out.", start=reader.place)
    if reader.take("TABLE"):
        return create_table(
            reader, is_temporary=temporary, if_exists="replace" if replace else "error"
        )
    if reader.take("VIEW"):
        return _view(reader, replace=replace, temporary=temporary, start=start)
    if reader.take("DATABASE") or reader.take("SCHEMA"):
        return _database(reader)
    if reader.take("CATALOG"):
        return _catalog(reader)
    if reader.sees("FUNCTION") or reader.sees("TEMPORARY", "FUNCTION"):
        raise reader.refusal(_FUNCTIONS)
    if reader.sees("MATERIALIZED") or reader.sees("INDEX"):
        raise reader.refusal("There are tables, temporary views, databases and catalogs to create.")
    choices = ("TABLE", "TEMPORARY TABLE", "TEMPORARY VIEW", "DATABASE", "CATALOG")
    reader.choice(choices, "The word behind CREATE")
    raise AssertionError("a choice that nobody offers")


def _view(reader: Reader, *, replace: bool, temporary: bool, start: int) -> Statement:
    if not temporary:
        raise reader.refusal(
            "A warehouse in a file system holds tables, no views: CREATE TEMPORARY VIEW keeps one"
            " for this session.",
            start=start,
        )
    if_exists: Literal["error", "ignore", "replace"] = "replace" if replace else "error"
    if reader.take("IF", "NOT", "EXISTS"):
        if_exists = "ignore"
    place = reader.place
    name = reader.table_name("view")
    if len(name.parts) != 1:
        raise reader.fault("A temporary view is of the session and has no database.", start=place)
    columns: list[str] = []
    if reader.sees("("):

        def column() -> str:
            found = reader.name("column")
            if reader.take("COMMENT"):
                reader.string("comment")
            return found

        columns = reader.within("the columns", column)
    if reader.take("COMMENT"):
        reader.string("comment")
    if reader.sees("USING"):
        raise reader.refusal("A view over another source is Spark's: CREATE it by spark.sql.")
    reader.need("AS", why=" before the query of the view")
    return CreateView(name.parts[0], tuple(columns), _query(reader), if_exists, place)


def _database(reader: Reader) -> Statement:
    if_exists: Literal["error", "ignore"] = (
        "ignore" if reader.take("IF", "NOT", "EXISTS") else "error"
    )
    name = reader.table_name("database")
    if reader.sees("LOCATION"):
        raise reader.refusal("A database lies in the warehouse: leave LOCATION out.")
    if reader.sees("COMMENT") or reader.sees("WITH"):
        raise reader.refusal(
            "A database in a file system keeps no comment and no options: leave it out."
        )
    reader.finish()
    return CreateDatabase(name, if_exists)


def _catalog(reader: Reader) -> Statement:
    if_exists: Literal["error", "ignore"] = (
        "ignore" if reader.take("IF", "NOT", "EXISTS") else "error"
    )
    start = reader.place
    name = reader.name("catalog")
    reader.need("WITH", why=" behind the catalog's name")
    options = reader.options()
    reader.finish()
    return CreateCatalog(name, options, start, if_exists)


def _replace(reader: Reader) -> Statement:
    reader.need("REPLACE", "TABLE")
    return create_table(reader, if_exists="replace", must_exist=True)


def _drop(reader: Reader) -> Statement:
    reader.need("DROP")
    temporary = reader.take("TEMPORARY") or reader.take("TEMP")
    if reader.sees("FUNCTION"):
        raise reader.refusal(_FUNCTIONS)
    what = reader.choice(("TABLE", "VIEW", "DATABASE", "SCHEMA", "CATALOG"), "The word behind DROP")
    if_missing: Literal["error", "ignore"] = "ignore" if reader.take("IF", "EXISTS") else "error"
    if what == "CATALOG":
        raise reader.refusal(
            "A catalog is of this session and cannot be dropped; USE CATALOG another."
        )
    name = reader.table_name(what.lower())
    if what == "TABLE":
        reader.take("PURGE")
        reader.finish()
        return DropTable(name, if_missing, temporary)
    if what == "VIEW":
        reader.finish()
        return DropView(name, if_missing)
    cascade = reader.take("CASCADE")
    reader.take("RESTRICT")
    reader.finish()
    return DropDatabase(name, if_missing, cascade)


def _truncate(reader: Reader) -> Statement:
    reader.need("TRUNCATE", "TABLE")
    name = reader.table_name()
    partition = partition_of(reader) if reader.take("PARTITION") else None
    reader.finish()
    return Truncate(name, partition)


def _alter(reader: Reader) -> Statement:
    reader.need("ALTER")
    if reader.sees("DATABASE") or reader.sees("SCHEMA") or reader.sees("NAMESPACE"):
        raise reader.refusal(
            "A database in a file system keeps no options: give them to its tables."
        )
    if reader.sees("VIEW"):
        raise reader.refusal("A view is not altered: CREATE OR REPLACE TEMPORARY VIEW.")
    reader.need("TABLE")
    return alter_table(reader)


def _comment(reader: Reader) -> Statement:
    reader.need("COMMENT", "ON")
    return comment_on(reader)


def _use(reader: Reader) -> Statement:
    reader.need("USE")
    if reader.take("CATALOG"):
        start = reader.place
        name = reader.name("catalog")
        reader.finish()
        return Use((name,), is_catalog=True, start=start)
    for keyword in ("DATABASE", "SCHEMA", "NAMESPACE"):
        if reader.sees(keyword) and len(reader.words) > reader.index + 1:
            reader.index += 1
            break
    found = reader.table_name("database")
    if len(found.parts) > 2:  # catalog and database
        raise reader.fault("USE takes a database, or a catalog and a database.", start=found.start)
    reader.finish()
    return Use(found.parts, start=found.start)


def _set(reader: Reader) -> Statement:
    start = reader.place
    is_reset = reader.take("RESET")
    if not is_reset:
        reader.need("SET")
    if reader.word is None:
        return SetOption(None, None, is_reset, start)
    if reader.sees("-") or reader.sees("TIME", "ZONE"):
        raise reader.refusal("Write SET 'key' = 'value'.")
    start = reader.place
    key = reader.key()
    if is_reset or reader.word is None:
        reader.finish()
        return SetOption(key, None, is_reset, start)
    reader.need("=", why=" behind the option's name")
    word = reader.word
    if word is not None and word.is_string:
        value = reader.string("value")
    else:  # Spark takes all that follows
        value = reader.rest().strip()
        reader.index = len(reader.words)
        if not value:
            raise reader.fault("The value is missing here.")
    reader.finish()
    return SetOption(key, value, start=start)


def _call(reader: Reader) -> Statement:
    reader.need("CALL")
    found = reader.table_name("procedure")
    if len(found.parts) > 1 and found.parts[-2].lower() != "sys":
        raise reader.fault(
            "Procedures are in the database sys: CALL sys.compact(...).", start=found.start
        )
    positional: list[object] = []
    named: dict[str, object] = {}

    def item() -> None:
        start = reader.place
        following = reader.words[reader.index + 1 : reader.index + 3]
        is_named = following and (
            following[0].text == "=>" or [w.text for w in following] == ["=", ">"]
        )
        if not is_named:
            if following and following[0].text == "=":
                raise reader.fault("A name and its value are joined by =>, not by =.")
            if named:
                raise reader.fault("Arguments by position come before those by name.")
            positional.append(argument_of(reader, "argument"))
            return
        name = reader.name("argument's name")
        if not reader.take("=>"):
            reader.need("=", ">")
        if name in named:
            raise reader.fault(f"Argument '{name}' is given twice.", start=start)
        named[name] = argument_of(reader, f"argument '{name}'")

    if reader.sees("(", ")"):
        reader.index += 2
    else:
        reader.within("the arguments", item)
    reader.finish()
    catalog = found.parts[0] if len(found.parts) > 2 else None
    return Call(found.parts[-1].lower(), tuple(positional), named, found.start, catalog)


def _begin(reader: Reader) -> NoReturn:
    if reader.sees("BEGIN", "STATEMENT"):
        _stream(reader)
    raise reader.refusal(f"BEGIN of a block or a transaction is not known here: {EACH_COMMITS}")


def _stream(reader: Reader) -> NoReturn:
    if reader.sees("EXECUTE", "IMMEDIATE"):
        raise reader.refusal("Give the statement itself, with args= for its parameters.")
    raise reader.refusal(_STREAMS, kind="sql_streaming")


def _analyze(reader: Reader) -> Statement:
    reader.need("ANALYZE")
    if reader.sees("TABLES"):
        raise reader.refusal("ANALYZE takes one table: ANALYZE TABLE t COMPUTE STATISTICS.")
    reader.need("TABLE")
    name = reader.table_name()
    if reader.sees("PARTITION"):
        raise reader.refusal("Statistics are of a whole table: leave PARTITION out.")
    reader.need("COMPUTE", "STATISTICS")
    columns: tuple[str, ...] | None = ()
    if reader.take("FOR", "ALL", "COLUMNS"):
        columns = None
    elif reader.take("FOR", "COLUMNS"):
        found = [reader.name("column")]
        while reader.take(","):
            found.append(reader.name("column"))
        columns = tuple(found)
    elif reader.take("NOSCAN"):
        pass  # rows are counted by metadata where it can tell them
    reader.finish()
    return Analyze(name, columns)


def _refresh(reader: Reader) -> Statement:
    if not reader.sees("REFRESH", "TABLE"):
        _spark_only(reader)
    reader.need("REFRESH", "TABLE")
    name = reader.table_name()
    reader.finish()
    return Refresh(name)


def _copy(reader: Reader) -> NoReturn:
    raise reader.refusal(
        "COPY INTO is not covered. From files: INSERT INTO t SELECT * FROM parquet.`/path`, or"
        " spark.read and tl.write; to files: tl.sql('SELECT ...').write."
    )


def _spark_only(reader: Reader) -> NoReturn:
    word = reader.word
    raise reader.refusal(
        f"{word.upper if word else ''} is of Spark's own tables: use spark.sql. DataFrames that"
        " tl.sql and tl.table give can be cached."
    )


_CHANGES: dict[str, Callable[[Reader], Statement]] = {
    "UPDATE": update,
    "DELETE": delete,
    "MERGE": merge,
}

_STATEMENTS: dict[str, Callable[[Reader], Statement]] = {
    "SELECT": _query,
    "WITH": _with,
    "VALUES": _query,
    "FROM": _query,
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
    "EXECUTE": _stream,
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
