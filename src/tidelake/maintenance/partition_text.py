"""Parses partition arguments of procedures: ``'dt=2024-01-01,hh=8;dt=2024-01-02'``.

A comma is AND, a semicolon OR. Values are texts of the columns' types, quoted or not; the path's
name of null (``__DEFAULT_PARTITION__``) means null. Source: Paimon's
``ParameterUtils.getPartitions`` (1.3.1).
"""

from __future__ import annotations

from tidelake.engine.tables import Table
from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.types.default_value import default_scalar


def partitions_of(table: Table, text: str) -> list[dict[str, object]]:
    """Parse partitions for :meth:`tidelake.Table.compact` and others.

    Raises
    ------
    InvalidInputError
        The text is malformed, names another column, or a value has the wrong type.
    """
    partitions = []
    for part in text.split(";"):
        partition: dict[str, object] = {}
        for name, value in pairs_of(part, "partitions", example="dt=2024-01-01,hh=8").items():
            if name not in table.partition_keys:
                keys = ", ".join(table.partition_keys) or "none"
                message = (
                    f"'{shortened(name)}' is not a partition column of table '{table.identifier}',"
                    f" which has {keys}.{near_names(name, table.partition_keys)}"
                )
                raise InvalidInputError(message, kind="bad_partition", table=table.identifier)
            partition[name] = _value(table, name, value)
        partitions.append(partition)
    return partitions


def pairs_of(text: str, what: str, *, example: str) -> dict[str, str]:
    """Parse ``'a=1,b=2'``.

    Raises
    ------
    InvalidInputError
        The text is malformed, or has a name twice.
    """
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or name.strip() in pairs:
            message = (
                f"'{shortened(text)}' is invalid for {what}: write each name once with its value,"
                f" as in '{example}'."
            )
            raise InvalidInputError(message, kind="procedure_argument", argument=what)
        pairs[name.strip()] = value.strip()
    return pairs


def options_of(text: str | None) -> dict[str, object] | None:
    """Parse options ``'a=1,b=2'``; None for a blank text.

    Raises
    ------
    InvalidInputError
        The text is malformed, or has a name twice.
    """
    if text is None or not text.strip():
        return None
    return dict(pairs_of(text.strip(), "options", example="a=1,b=2"))


def _value(table: Table, name: str, text: str) -> object:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    text = text[1:-1] if quoted else text
    if text == table.paths.default_partition_name:
        return None
    scalar = default_scalar(text, table.table_schema.field(name).type, zone=None)
    return scalar.as_py()
