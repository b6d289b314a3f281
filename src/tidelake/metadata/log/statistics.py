"""Statistics of a table's rows, written by ANALYZE: ``statistics/stat-<uuid>-<i>``.

A snapshot names the file; later snapshots of the same schema inherit it. The file is JSON, with
``colStats`` by column name; smallest and largest values are texts, as Java's serializers make them.
Source: Paimon's ``Statistics``, ``ColStats`` and ``StatsFile`` (1.3.1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.metadata.log.json_file import parse_json
from tidelake.metadata.paths import TablePaths


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column; None for unknown ones.

    Parameters
    ----------
    column_id : int
        The column's id.
    distinct_count, null_count : int, optional
        Distinct values, and nulls.
    min, max : str, optional
        The smallest and the largest value, as texts.
    average_length, max_length : int, optional
        Bytes of a value.
    """

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    max_length: int | None = None

    def to_document(self) -> dict[str, Any]:
        """The JSON object of the file, without unknown values."""
        found = {key: getattr(self, name) for name, key in _COLUMN_KEYS.items()}
        return {key: value for key, value in found.items() if value is not None}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ColumnStatistics:
        """Read the JSON object of the file."""
        given: dict[str, Any] = {n: document.get(key) for n, key in _COLUMN_KEYS.items()}
        found = cls(**given)
        for name in _COLUMN_KEYS:
            value = getattr(found, name)
            expected = str if name in ("min", "max") else int
            if value is None and name != "column_id":
                continue
            if not isinstance(value, expected) or isinstance(value, bool):
                raise TypeError(f"{_COLUMN_KEYS[name]} is {value!r}")
        return found


_COLUMN_KEYS = {
    "column_id": "colId",
    "distinct_count": "distinctCount",
    "min": "min",
    "max": "max",
    "null_count": "nullCount",
    "average_length": "avgLen",
    "max_length": "maxLen",
}
"""In the file's order (on disk: never rename)."""


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The statistics of a table's rows.

    Parameters
    ----------
    snapshot_id, schema_id : int
        The snapshot that was analysed.
    record_count, size_bytes : int, optional
        Rows after merging, and their approximate bytes in files.
    columns : mapping
        The statistics of columns, by name.
    """

    snapshot_id: int
    schema_id: int
    record_count: int | None
    size_bytes: int | None
    columns: Mapping[str, ColumnStatistics]

    def to_json(self) -> str:
        """The text of the file."""
        document: dict[str, Any] = {"snapshotId": self.snapshot_id, "schemaId": self.schema_id}
        if self.record_count is not None:
            document["mergedRecordCount"] = self.record_count
        if self.size_bytes is not None:
            document["mergedRecordSize"] = self.size_bytes
        document["colStats"] = {n: c.to_document() for n, c in self.columns.items()}
        return java_json(document)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> TableStatistics:
        """Read a file of statistics.

        Raises
        ------
        CorruptError
            It is not one; the message names the file.
        """
        document = parse_json(text, path=path)
        try:
            columns = document.get("colStats") or {}
            return cls(
                _count(document["snapshotId"]),
                _count(document["schemaId"]),
                _optional_count(document.get("mergedRecordCount")),
                _optional_count(document.get("mergedRecordSize")),
                {name: ColumnStatistics.from_document(c) for name, c in columns.items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            message = f"Statistics file {path} cannot be read: {error!r}. Analyze the table again."
            raise CorruptError(message, kind="statistics_file", path=path) from error


def read_statistics(fileio: FileIO, paths: TablePaths, name: str) -> TableStatistics:
    """Read the file that a snapshot names.

    Raises
    ------
    NotFoundError, CorruptError
        It is missing or damaged.
    """
    path = paths.statistics(name)
    return TableStatistics.from_json(fileio.read_bytes(path), path=path)


def java_json(value: object) -> str:
    """Print JSON as Paimon's Java does it: by two blanks a level, and blanks around colons.

    Examples
    --------
    >>> print(java_json({"a": {"b": 1}, "c": {}}))
    {
      "a" : {
        "b" : 1
      },
      "c" : { }
    }
    """
    text = json.dumps(value, indent=2, separators=(",", " : "), ensure_ascii=False)
    return "{ }" if text == "{}" else text.replace(" : {}", " : { }")


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def _optional_count(value: object) -> int | None:
    return None if value is None else _count(value)
