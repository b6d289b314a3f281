"""What ALTER may do to a table's options, and what a column's new name does to them.

Source: Paimon's ``SchemaManager`` (1.3.1): ``checkAlterTableOption``, ``checkResetTableOption``,
``applyRenameColumnsToOptions``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.options.declared.registry import BY_KEY
from tidelake.options.key_pattern import AGGREGATION_SETTINGS
from tidelake.table.dynamic_buckets import DYNAMIC

__all__ = ["check_option_change", "options_of_then", "renamed_in_options"]

# fixed for one use, where files of both kinds would meet; for all later uses they may change
ALTERABLE = frozenset(
    {
        declared.BUCKET.key,  # by rules of its own
        declared.FIELDS_DEFAULT_AGGREGATE_FUNCTION.key,
        declared.SEQUENCE_FIELD.key,
        declared.SEQUENCE_FIELD_SORT_ORDER.key,
    }
)
NAMES_COLUMNS = (
    declared.BUCKET_KEY.key,
    declared.SEQUENCE_FIELD.key,
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
    declared.RECORD_LEVEL_TIME_FIELD.key,
)
KEYED_BY_COLUMN = (*AGGREGATION_SETTINGS, "stats-mode")  # ``nested-key`` names fields of its rows
FILE_INDEX_COLUMNS = re.compile(r"file-index\..+\.columns")
FILE_INDEX_SETTING = re.compile(
    r"(?P<kind>file-index\.[a-z-]+)\.(?P<column>[^.]+)\.(?P<setting>[a-z-]+)"
)
FIELDS = "fields."
GROUP_SUFFIX = ".sequence-group"


def check_option_change(key: str, old: str | None, new: str | None, *, table: str) -> None:
    """Refuse to change an option that is fixed once a table was written to.

    Parameters
    ----------
    key : str
        The option.
    old, new : str or None
        Its text before and after; None where it is not set.
    table : str
        The table's name, for messages.

    Raises
    ------
    UnsupportedError
        The option is fixed.
    """
    if old == new:
        return
    option = BY_KEY.get(key)
    if option is None:
        return
    if not option.mutable and key not in ALTERABLE:
        message = (
            f"Option '{key}' of table '{table}' says how its files are laid out or merged and is"
            " fixed since the table was first written to: make a new table with it."
        )
        raise UnsupportedError(message, kind="option_fixed", table=table, option=key)
    if key == declared.BUCKET.key:
        _check_buckets(old, new, table)


def _check_buckets(old: str | None, new: str | None, table: str) -> None:
    before = declared.BUCKET.default if old is None else int(old)
    why = ""
    if new is None:
        why = "cannot be removed from a table that was written to"
    elif not new.lstrip("-").isdecimal():
        message = f"Option 'bucket' of table '{table}' is a number, not '{new}'."
        raise InvalidInputError(message, kind="option_value", table=table, option="bucket")
    elif before == DYNAMIC:
        why = "cannot be changed where it is -1, for files have no fixed buckets"
    elif before == POSTPONE_BUCKET:
        why = "cannot be changed where it is -2: each partition has a number of its own"
    elif int(new) == DYNAMIC:
        why = "cannot become -1, for files lie in fixed buckets"
    if why:
        message = f"Option 'bucket' of table '{table}' {why}: make a new table."
        raise UnsupportedError(message, kind="option_fixed", table=table, option="bucket")


def renamed_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Give the options with a column's new name where they name the column.

    Examples
    --------
    >>> renamed_in_options({"bucket-key": "a,b", "fields.a.aggregate-function": "sum"}, "a", "x")
    {'bucket-key': 'x,b', 'fields.x.aggregate-function': 'sum'}
    >>> bitmaps = {"file-index.bitmap.columns": "a", "file-index.bitmap.a.version": "1"}
    >>> renamed_in_options(bitmaps, "a", "x")
    {'file-index.bitmap.columns': 'x', 'file-index.bitmap.x.version': '1'}
    """

    def names(text: str) -> str:
        return ",".join(new if name.strip() == old else name for name in text.split(","))

    result = {}
    for key, value in options.items():
        if key in NAMES_COLUMNS:
            result[key] = names(value)
        elif key.startswith(FIELDS) and key.endswith(GROUP_SUFFIX):
            columns = key.removeprefix(FIELDS).removesuffix(GROUP_SUFFIX)
            result[f"{FIELDS}{names(columns)}{GROUP_SUFFIX}"] = names(value)
        elif FILE_INDEX_COLUMNS.fullmatch(key):
            result[key] = names(value)
        elif (matched := FILE_INDEX_SETTING.fullmatch(key)) and matched["column"] == old:
            result[f"{matched['kind']}.{new}.{matched['setting']}"] = value
        elif key in {f"{FIELDS}{old}.{setting}" for setting in KEYED_BY_COLUMN}:
            result[f"{FIELDS}{new}.{key.rpartition('.')[2]}"] = value
        else:
            result[key] = value
    return result


def options_of_then(now: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Give the options for reading a snapshot of an older schema: those of now, but names of then.

    Java Paimon takes all options of now, and so cannot read a snapshot from before a column of
    ``sequence.field`` was renamed.

    Examples
    --------
    >>> options_of_then({"sequence.field": "new", "bucket": "4"}, {"sequence.field": "old"})
    {'bucket': '4', 'sequence.field': 'old'}
    """
    kept = {key: value for key, value in now.items() if not _names_columns(key)}
    return kept | {key: value for key, value in then.items() if _names_columns(key)}


def _names_columns(key: str) -> bool:
    return key in NAMES_COLUMNS or key.startswith(FIELDS) or key == declared.ROWKIND_FIELD.key
