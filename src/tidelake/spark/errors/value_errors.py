"""Errors of new values, with table, column and position.

Spark reports the failure (an overflow, text that is no number, a division by zero) and the failing
part of an expression's text. The statement shows the column that gets the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelake.errors import InvalidInputError, shortened
from tidelake.spark.expression.store_assignment import spark_overflow_error
from tidelake.sql.syntax.ast import Merge, Query, Update
from tidelake.sql.syntax.tokens import error_at

_VALUE_FAILURE = re.compile(
    r"\[((?:BINARY_)?ARITHMETIC_OVERFLOW|CAST_INVALID_INPUT|CAST_OVERFLOW|DATETIME_OVERFLOW"
    r"|CANNOT_PARSE_TIMESTAMP|DIVIDE_BY_ZERO|INVALID_ARRAY_INDEX|INVALID_DATETIME\w*"
    r"|INTERVAL_\w*OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|REMAINDER_BY_ZERO|USER_RAISED_EXCEPTION)"
    r"[\w.]*\]\s+(.*?)(?:\s*SQLSTATE|\n==|\n\s*at |\Z)",
    re.DOTALL,
)
_FRAGMENT = re.compile(r"\n== SQL[^\n]*==\n(.*?)\n(\s*\^+)", re.DOTALL)
_ADVICE = re.compile(
    r"\s*(Use [`'\"]?try_|If necessary|Correct the value as per|To tolerate).*", re.DOTALL
)


@contextmanager
def translate_column_errors(
    text: str, table: str, values: Mapping[str, Sequence[Query]]
) -> Iterator[None]:
    """Raise failures of new values as InvalidInputError, while a statement runs.

    Raises
    ------
    InvalidInputError
        A value cannot be computed, or does not fit its column.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        shown = str(error)
        refused = spark_overflow_error(shown)
        if refused is not None:
            column = str(refused.context["column"])
            own = values.get(column, ())
            if len(own) == 1:
                raise error_at(
                    text,
                    own[0].start,
                    refused.message,
                    kind=refused.kind,
                    table=table,
                    column=column,
                ) from error
            raise refused from error
        failure = _VALUE_FAILURE.search(shown)
        if failure is None:
            raise
        fragment = _FRAGMENT.search(shown)
        failed_text = fragment[1].strip() if fragment else ""
        found = _values_with(failed_text, values)
        if fragment and not found:  # a line of the whole statement: the failing part is marked
            marks = fragment[2]
            line = fragment[1].rpartition("\n")[2]
            failed_text = line[marks.index("^") : len(marks)].strip()
            found = _values_with(failed_text, values)
        # text of no value belongs to a condition or to the source
        columns = list(dict.fromkeys(c for c, _ in found)) or ([] if failed_text else list(values))
        reason = _ADVICE.sub("", " ".join(failure[2].split()))
        what = f"{_named(columns)} of table '{table}' cannot take a new value"
        if not columns:
            what = f"An expression of this statement on table '{table}' has no value"
        message = (
            f"{what}: {reason.rstrip('. ')}. Change the expression, or exclude rows by a condition."
        )
        context: dict[str, Any] = {"table": table}
        if len(columns) == 1:
            context["column"] = columns[0]
        if len(found) == 1:
            query = found[0][1]
            position = query.start + query.sql.index(failed_text)
            raise error_at(text, position, message, kind="value", **context) from error
        raise InvalidInputError(message, kind="value", **context) from error


def _values_with(text: str, values: Mapping[str, Sequence[Query]]) -> list[tuple[str, Query]]:
    """The new values that have a part of this text, with their columns."""
    return [(c, q) for c, given in values.items() for q in given if text and text in q.sql]


@contextmanager
def translate_table_errors(table: str) -> Iterator[None]:
    """Raise failures of values as InvalidInputError, while rows of a table are written.

    Raises
    ------
    InvalidInputError
        A value cannot be computed: a cast, a division, an invalid date.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        message = _no_value(str(error), table)
        if message is None:
            raise
        raise InvalidInputError(message, kind="value", table=table) from error


def _no_value(shown: str, table: str) -> str | None:
    """Message for Spark's failure of a value; None for another failure."""
    failure = _VALUE_FAILURE.search(shown)
    if failure is None:
        return None
    fragment = _FRAGMENT.search(shown)
    where = f" in {shortened(fragment[1].strip())}" if fragment else ""
    reason = _ADVICE.sub("", " ".join(failure[2].split())).rstrip(". ")
    return (
        f"A value{where} for table '{table}' cannot be computed: {reason}. Nothing was written:"
        " change the expression (try_cast gives NULL), or leave such rows out."
    )


def _named(columns: Sequence[str]) -> str:
    if len(columns) == 1:
        return f"Column '{columns[0]}'"
    shown = ", ".join(f"'{c}'" for c in columns)
    return f"One of the columns {shown}"


def values_of(statement: Merge | Update) -> dict[str, list[Query]]:
    """Return the expressions of a statement's new values, by columns."""
    clauses = [statement] if isinstance(statement, Update) else statement.clauses
    found: dict[str, list[Query]] = {}
    for clause in clauses:
        for column, value in (clause.values or {}).items():
            found.setdefault(column, []).append(value)
        for column, inside in clause.field_values.items():
            found.setdefault(column, []).extend(one.value for one in inside)
    return found
