"""Finds settings of a column's function that can have no effect.

A setting belongs to some functions: ``list-agg-delimiter`` to ``listagg``, ``nested-key`` to
``nested_update``. Paimon reads only those of the column's own function.

1. The function of a column is found as in :mod:`tidelake.merge.column_rules`: none for the primary
   key and for the sequence of a group; ``last_value`` for a ``sequence.field``; else its own, or
   the default.
2. A setting is idle if it is for other functions. ``ignore-retract`` is for every function that may
   retract rows: under partial-update only inside sequence groups.
3. A flag that is ``false`` changes nothing, and is not idle.

Source: Paimon's field aggregator factories, ``AggregateMergeFunction`` and
``PartialUpdateMergeFunction`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.merge.column_rules import GROUP_SUFFIX, LAST_NON_NULL, LAST_VALUE, PREFIX, listed
from tidelake.merge.spec import AGGREGATION, PARTIAL_UPDATE
from tidelake.options import Options
from tidelake.options.declared import (
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    MERGE_ENGINE,
    SEQUENCE_FIELD,
)
from tidelake.options.key_pattern import AGGREGATION_SETTINGS
from tidelake.types import TableSchema

_FUNCTION = "aggregate-function"
_IGNORE_RETRACT = "ignore-retract"
_FUNCTIONS_OF = {
    "list-agg-delimiter": ("listagg",),
    "distinct": ("collect", "listagg"),
    "nested-key": ("nested_update",),
    "count-limit": ("nested_update",),
}
_FLAGS = (_IGNORE_RETRACT, "distinct")


@dataclass(frozen=True, slots=True)
class IdleSetting:
    """A setting that can have no effect.

    Parameters
    ----------
    setting : str
        The setting, without ``fields.<column>.``.
    merged_how : str
        How the column is merged, for a message: follows "column 'x' ".
    takes_function : bool
        Whether another function would make it work.
    """

    column: str
    setting: str
    value: str
    merged_how: str
    is_for: str
    takes_function: bool = False

    @property
    def key(self) -> str:
        """The option."""
        return f"{PREFIX}{self.column}.{self.setting}"


def idle_settings(schema: TableSchema, options: Options) -> tuple[IdleSetting, ...]:
    """Find the settings that can have no effect, in the order of the columns.

    Parameters
    ----------
    schema : TableSchema
        A table's schema. For an inconsistent one the result has no meaning, but it is not an
        error.

    Returns
    -------
    tuple of IdleSetting
        Empty for other merge engines than aggregation and partial-update.
    """
    engine = options.get(MERGE_ENGINE)
    if not schema.primary_keys or engine not in (AGGREGATION, PARTIAL_UPDATE):
        return ()
    return tuple(
        idle
        for field in schema.fields
        for setting in AGGREGATION_SETTINGS
        if (value := options.raw.get(f"{PREFIX}{field.name}.{setting}")) is not None
        and not (setting in _FLAGS and value.lower() == "false")
        and (idle := _idle(field.name, setting, value, schema, options)) is not None
    )


def _idle(
    column: str, setting: str, value: str, schema: TableSchema, options: Options
) -> IdleSetting | None:
    functions = _FUNCTIONS_OF.get(setting, ())
    is_for = " or ".join(f"'{name}'" for name in functions)

    def idle(how: str, is_for: str, *, takes_function: bool = False) -> IdleSetting:
        return IdleSetting(column, setting, value, how, is_for, takes_function)

    if column in schema.primary_keys:
        return idle("is in the primary key, which no function merges", is_for or "other columns")
    if setting == _FUNCTION:  # the rules refuse one that does not fit
        return None
    is_partial = options.get(MERGE_ENGINE) == PARTIAL_UPDATE
    groups = _groups(options.raw) if is_partial else {}
    own = options.raw.get(f"{PREFIX}{column}.{_FUNCTION}")
    name = own or options.get(FIELDS_DEFAULT_AGGREGATE_FUNCTION)
    is_sequence = not is_partial and column in listed(options.get(SEQUENCE_FIELD))
    if any(column in sequence for sequence in groups):
        name, how = None, "is the sequence of a group, which no function merges"
        is_sequence = True
    elif is_sequence:
        name, how = LAST_VALUE, f"is a 'sequence.field', aggregated by '{LAST_VALUE}'"
    elif name is not None:
        how = f"is aggregated by '{name}'"
    elif is_partial:
        how = "has no function"
    else:
        name, how = LAST_NON_NULL, f"has no function but '{LAST_NON_NULL}'"
    if setting != _IGNORE_RETRACT:
        return None if name in functions else idle(how, is_for, takes_function=not is_sequence)
    is_grouped = any(column in members for members in groups.values())
    if not is_partial or (name is not None and is_grouped):
        return None
    where = "" if name is None or is_grouped else " in no sequence group"
    return idle(f"{how}{where}", "any function of a column in a sequence group")


def _groups(raw: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The members of each sequence group, by its sequence."""
    return {
        listed(key.removeprefix(PREFIX).removesuffix(GROUP_SUFFIX)): listed(text)
        for key, text in raw.items()
        if key.startswith(PREFIX) and key.endswith(GROUP_SUFFIX)
    }
