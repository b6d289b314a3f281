"""Rewrites options that name columns, after a rename or for an older schema.

Source: Paimon's ``SchemaManager.applyRenameColumnsToOptions`` (1.3.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidelake.options import declared
from tidelake.options.key_pattern import AGGREGATION_SETTINGS

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


def renamed_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Replace a column's old name by its new one in options.

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


def options_for_older_schema(now: Mapping[str, str], older: Mapping[str, str]) -> dict[str, str]:
    """Make the options to read an older schema's snapshot: the current ones with old names.

    Java Paimon uses the current options unchanged, so it cannot read a snapshot from before a
    rename of a ``sequence.field`` column.

    Examples
    --------
    >>> now, older = {"sequence.field": "new", "bucket": "4"}, {"sequence.field": "old"}
    >>> options_for_older_schema(now, older)
    {'bucket': '4', 'sequence.field': 'old'}
    """
    kept = {key: value for key, value in now.items() if not _names_columns(key)}
    return kept | {key: value for key, value in older.items() if _names_columns(key)}


def _names_columns(key: str) -> bool:
    return key in NAMES_COLUMNS or key.startswith(FIELDS) or key == declared.ROWKIND_FIELD.key
