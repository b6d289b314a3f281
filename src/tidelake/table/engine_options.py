"""Options of merge engines and functions, on a table or column that has others.

Paimon takes them and does nothing with them: a sum that was asked for is then the newest value, the
delimiter of a column that is no ``listagg`` is nowhere to be seen. Here they are refused where a
user gives them. A table that has them on disk is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import InvalidInputError, shortened
from tidelake.merge.idle_settings import idle_settings
from tidelake.merge.spec import AGGREGATION, PARTIAL_UPDATE
from tidelake.options import Options, declared
from tidelake.options.key_pattern import AGGREGATION_SETTINGS, columns_in
from tidelake.types import TableSchema

__all__ = ["check_engine_options", "check_function_settings"]

_BOTH = (AGGREGATION, PARTIAL_UPDATE)
_ENGINES = {
    declared.FIELDS_DEFAULT_AGGREGATE_FUNCTION.key: _BOTH,
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key: (PARTIAL_UPDATE,),
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key: (PARTIAL_UPDATE,),
    declared.AGGREGATION_REMOVE_RECORD_ON_DELETE.key: (AGGREGATION,),
}


def check_engine_options(given: Mapping[str, str], *, engine: str | None, table: str) -> None:
    """Refuse options of another engine than the table's.

    Parameters
    ----------
    given : mapping of str to str
        What the user sets.
    engine : str or None
        The table's merge engine; None for a table without a primary key.
    table : str
        Its name, for messages.

    Raises
    ------
    InvalidInputError
        One is given; the engine to take is said.

    Examples
    --------
    >>> check_engine_options({"fields.v.sequence-group": "a"}, engine="deduplicate", table="db.t")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Table 'db.t': option 'fields.v.sequence-group' would ...
    """
    for key, value in given.items():
        engines = _engines_of(key)
        if not engines or engine in engines or value.lower() == "false":
            continue
        own = f"of '{engine}'" if engine else "without a primary key"
        message = (
            f"Table '{table}': option '{shortened(key)}' would do nothing on a table {own}. Set"
            f" 'merge-engine' = {' or '.join(map(repr, engines))}, or leave the option out."
        )
        raise InvalidInputError(message, kind="merge_options", table=table, option=key)


def check_function_settings(
    schema: TableSchema,
    options: Options,
    *,
    table: str,
    before: TableSchema | None = None,
) -> None:
    """Refuse settings of functions that a column does not have.

    Parameters
    ----------
    schema : TableSchema
        A new schema. Requires: its columns and options hang together.
    options : Options
        Its options.
    table : str
        The table's name, for messages.
    before : TableSchema, optional
        The schema that is altered: what does nothing in it may do nothing afterwards.

    Raises
    ------
    InvalidInputError
        One is set; its column, that column's function and the functions that it is for are said.
    """
    known: set[tuple[int, str, str]] = set()
    if before is not None:
        ids = {field.name: field.id for field in before.fields}
        idle_before = idle_settings(before, Options.parse(before.options, table=table))
        known = {(ids[idle.column], idle.setting, idle.value) for idle in idle_before}
    ids = {field.name: field.id for field in schema.fields}
    for idle in idle_settings(schema, options):
        if (ids[idle.column], idle.setting, idle.value) in known:
            continue
        advice = (
            f", or set 'fields.{idle.column}.aggregate-function'" if idle.takes_function else ""
        )
        message = (
            f"Table '{table}': option '{shortened(idle.key)}' would do nothing: column"
            f" '{shortened(idle.column)}' {idle.merged_how}, and the option is for {idle.is_for}."
            f" Leave the option out{advice}."
        )
        raise InvalidInputError(
            message, kind="merge_options", table=table, option=idle.key, column=idle.column
        )


def _engines_of(key: str) -> tuple[str, ...]:
    """The engines that an option is for; none where it is for all."""
    if columns_in(key) is not None:
        setting = key.rpartition(".")[2]
        if setting == "sequence-group":
            return (PARTIAL_UPDATE,)
        if setting in AGGREGATION_SETTINGS:
            return _BOTH
    return _ENGINES.get(key, ())
