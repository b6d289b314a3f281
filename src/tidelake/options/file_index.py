"""The file indexes in a table's options.

``file-index.<kind>.columns`` names the columns of one kind of index, and
``file-index.<kind>.<column>.<setting>`` tunes one of them. The settings:

============  ====================  =======================================================
kind          setting               meaning
============  ====================  =======================================================
bloom-filter  items                 values the filter is made for; 1,000,000 if not set
bloom-filter  fpp                   share of false answers with so many; 0.1 if not set
bitmap        version               1 or 2; 2 if not set
bitmap        index-block-size      size of a block of values; 16 kb if not set
range-bitmap  chunk-size            size of a chunk of values; by the type if not set
============  ====================  =======================================================

Source: Paimon's ``FileIndexOptions`` (1.3.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.options.table_options import Options
from tidelake.options.text_value import bytes_of_text

INDEX_KINDS = ("bloom-filter", "bitmap", "range-bitmap")
READ_ONLY_KINDS = ("bsi", "token-bloom-filter")
_COLUMNS = re.compile(r"file-index\.(.+)\.columns")
_PREFIX = "file-index."
_BLOOM_ITEMS = 1_000_000
_BLOOM_FPP = 0.1
_ITEMS_MAX = 2**31 - 1
_BLOCK_SIZE = 16 << 10
_SIZE_MAX = 1 << 30
_BITMAP_VERSIONS = ("1", "2")


@dataclass(frozen=True, slots=True)
class FileIndexSetting:
    """One index of one column."""

    column: str
    kind: str
    texts: Mapping[str, str] = field(default_factory=dict)
    table: str = ""

    @property
    def items(self) -> int:
        """Values that a bloom filter is made for."""
        text = self.texts.get("items", str(_BLOOM_ITEMS))
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _ITEMS_MAX:
            raise self._wrong("items", "a number from 1 on")
        return int(text)

    @property
    def fpp(self) -> float:
        """Share of false answers of a bloom filter."""
        text = self.texts.get("fpp", str(_BLOOM_FPP))
        try:
            share = float(text)
        except ValueError as error:
            raise self._wrong("fpp", "a number between 0 and 1") from error
        if not 0 < share < 1:
            raise self._wrong("fpp", "a number between 0 and 1")
        return share

    @property
    def version(self) -> int:
        """Version of a bitmap index."""
        text = self.texts.get("version", _BITMAP_VERSIONS[-1])
        if text not in _BITMAP_VERSIONS:
            raise self._wrong("version", "1 or 2")
        return int(text)

    @property
    def block_size(self) -> int:
        """Size of a block of a bitmap index."""
        return self._size("index-block-size", _BLOCK_SIZE)

    def chunk_size(self, default: int) -> int:
        """Size of a chunk of a range bitmap."""
        return self._size("chunk-size", default)

    def _size(self, setting: str, default: int) -> int:
        text = self.texts.get(setting)
        if text is None:
            return default
        try:
            size = bytes_of_text(text)
        except ValueError as error:
            raise self._wrong(setting, "a size such as '16 kb'") from error
        if not 0 <= size <= _SIZE_MAX:
            raise self._wrong(setting, "at most 1 gb")
        return size

    def _wrong(self, setting: str, expected: str) -> InvalidInputError:
        key = f"{_PREFIX}{self.kind}.{self.column}.{setting}"
        return _invalid(self.table, key, self.texts.get(setting, ""), f"must be {expected}")


def file_index_settings(options: Options) -> tuple[FileIndexSetting, ...]:
    """List the indexes that new files of a table get.

    Raises
    ------
    UnsupportedError
        Tidelake cannot write a kind of index, or an index of a map's values.
    InvalidInputError
        A kind is unknown, a column name is empty, or a column with settings has no index.

    Examples
    --------
    >>> file_index_settings(Options.parse({"file-index.bitmap.columns": "a, b"}))[1].column
    'b'
    """
    texts: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in options.raw.items():
        matched = _COLUMNS.fullmatch(key)
        if matched is None:
            continue
        kind = matched.group(1)
        for name in value.split(","):
            _check_index(kind, name.strip(), key, value, options.table)
            texts[name.strip(), kind] = {}
    for key, value in options.raw.items():
        parts = key.removeprefix(_PREFIX).split(".")
        if not key.startswith(_PREFIX) or _COLUMNS.fullmatch(key) or len(parts) != 3:
            continue
        kind, column, setting = parts
        if (column, kind) not in texts:
            expected = f"sets a column that '{_PREFIX}{kind}.columns' does not name: add it there"
            raise _invalid(options.table, key, value, expected)
        texts[column, kind][setting] = value
    return tuple(
        FileIndexSetting(column, kind, given, options.table)
        for (column, kind), given in texts.items()
    )


def _check_index(kind: str, column: str, key: str, value: str, table: str) -> None:
    if not column:
        raise _invalid(table, key, value, "has an empty column name: leave out the comma")
    if kind in READ_ONLY_KINDS:
        reason = "Tidelake cannot write such indexes; use 'range-bitmap' or 'bloom-filter'"
    elif kind not in INDEX_KINDS:
        raise _invalid(table, key, value, f"must be of one of the kinds {', '.join(INDEX_KINDS)}")
    elif "[" in column and column.endswith("]"):
        reason = "Tidelake cannot write indexes of the values inside a map; name whole columns"
    else:
        return
    message = f"Table {table}: option '{key}' = '{shortened(value)}' is refused: {reason}."
    raise UnsupportedError(message, kind="option_unsupported", option=key, table=table)


def _invalid(table: str, key: str, value: str, expected: str) -> InvalidInputError:
    message = f"Table {table}: option '{shortened(key)}' = '{shortened(value)}' {expected}."
    return InvalidInputError(message, kind="option_value", option=key, table=table)
