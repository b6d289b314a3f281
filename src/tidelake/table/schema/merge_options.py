"""Refuses merge, changelog and function options that have no effect on a table or column.

Paimon accepts them and ignores them: a requested sum is then the newest value, an engine without a
primary key keeps all rows, the delimiter of a column without ``listagg`` is ignored. Here they are
refused when a user gives them. A table that already has them on disk is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelake.errors import InvalidInputError, shortened
from tidelake.merge.idle_settings import idle_settings
from tidelake.merge.spec import AGGREGATION, PARTIAL_UPDATE
from tidelake.options import Option, Options, declared
from tidelake.options.key_pattern import AGGREGATION_SETTINGS, columns_in
from tidelake.types import TableSchema

_BOTH = (AGGREGATION, PARTIAL_UPDATE)
_COMPARING = ("lookup", "full-compaction")
"""The changelog producers that compare a key's row before and after."""
_OF_KEYS: tuple[Option[Any], ...] = (
    declared.MERGE_ENGINE,
    declared.CHANGELOG_PRODUCER_ROW_DEDUPLICATE,
    declared.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
)
_ENGINES = {
    declared.FIELDS_DEFAULT_AGGREGATE_FUNCTION.key: _BOTH,
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key: (PARTIAL_UPDATE,),
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key: (PARTIAL_UPDATE,),
    declared.AGGREGATION_REMOVE_RECORD_ON_DELETE.key: (AGGREGATION,),
}


def check_engine_options(
    options: Options, *, has_primary_key: bool, table: str, before: Options | None = None
) -> None:
    """Refuse options of a merge engine or a changelog that the table does not have.

    Parameters
    ----------
    options : Options
        The options of a new table, or of an altered one after the change.
    has_primary_key : bool
        Whether the table has one; without it there is no merge engine.
    before : Options, optional
        The options before the change: those without effect may stay so.

    Raises
    ------
    InvalidInputError
        One is set; the message names the engine or the changelog to use.

    Examples
    --------
    >>> options = Options.parse({"fields.v.sequence-group": "a"}, table="db.t")
    >>> check_engine_options(options, has_primary_key=True, table="db.t")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Table 'db.t': option 'fields.v.sequence-group' would ...
    """
    known: set[tuple[str, str, str]] = set()
    if before is not None:
        known |= set(_idle_options(before, has_primary_key=has_primary_key))
    for idle in _idle_options(options, has_primary_key=has_primary_key):
        if idle in known:
            continue
        key, _, why = idle
        message = (
            f"Table '{table}': option '{shortened(key)}' would do nothing {why}, or leave the"
            " option out."
        )
        raise InvalidInputError(message, kind="merge_options", table=table, option=key)


def _idle_options(options: Options, *, has_primary_key: bool) -> Iterator[tuple[str, str, str]]:
    """Each option without effect, its value, and when that is so with what to do instead."""
    engine = options.get(declared.MERGE_ENGINE)
    own = f"of '{engine}'. Set" if has_primary_key else "without a primary key. Give it one and set"
    for key, value in options.raw.items():
        engines = _engines_of(key)
        is_idle = engines and not (has_primary_key and engine in engines)
        if is_idle and value.lower() != "false":
            wanted = " or ".join(map(repr, engines))
            yield key, value, f"on a table {own} 'merge-engine' = {wanted}"
    for option in _OF_KEYS:
        value = options.get(option)
        if value in (option.default, ""):
            continue
        if not has_primary_key:
            yield option.key, str(value), "on a table without a primary key. Give it one"
        elif option is not declared.MERGE_ENGINE:
            why = _untold(options, by=option)
            if why:
                yield option.key, str(value), why


def _untold(options: Options, *, by: Option[Any]) -> str:
    """Why an option of changelogs that compare rows has no effect; empty if it has one."""
    producer = options.get(declared.CHANGELOG_PRODUCER)
    deduplicate = declared.CHANGELOG_PRODUCER_ROW_DEDUPLICATE
    if producer not in _COMPARING:
        wanted = " or ".join(map(repr, _COMPARING))
        return f"with 'changelog-producer' = '{producer}'. Set that to {wanted}"
    if by is not deduplicate and not options.get(deduplicate):
        return f"with '{deduplicate.key}' = 'false'. Set that to 'true'"
    return ""


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
        A new schema. Requires: its columns and options are consistent.
    before : TableSchema, optional
        The schema before the change: settings without effect in it may stay so.

    Raises
    ------
    InvalidInputError
        One is set; the message names its column, the column's function and the right functions.
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
    """The engines of an option; empty if it is for all."""
    if columns_in(key) is not None:
        setting = key.rpartition(".")[2]
        if setting == "sequence-group":
            return (PARTIAL_UPDATE,)
        if setting in AGGREGATION_SETTINGS:
            return _BOTH
    return _ENGINES.get(key, ())
