"""A directory of Parquet files, or a Hive-style table: ``day=2024-01-01/hour=7/part-0.parquet``.

Files and directories whose names begin with ``_`` or ``.`` are not rows. In a Hive-style table all
files lie equally deep, in directories of the same columns. The type of a partition column is the
narrowest that keeps all of its texts: INT, BIGINT, DATE, or else STRING.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import FileIO, FileStatus
from tidelake.options import declared
from tidelake.table.migration.foreign_table import (
    PARTITION_TYPES,
    ForeignFile,
    IncomingTable,
)
from tidelake.types import DataField, DataType, parse_type
from tidelake.types.default_value import default_scalar
from tidelake.types.values import arrow_to_storage

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
HUDI = "Hudi"
_LOGS = {"_delta_log": "delta", ".hoodie": HUDI}
DEPTH_MAX = 32
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def parquet_directory(
    fileio: FileIO, location: str, *, partition_types: Mapping[str, str] | None = None
) -> IncomingTable:
    """Find the files of a directory, and the partitions of a Hive-style table.

    Parameters
    ----------
    partition_types : mapping of str to str, optional
        Types of partition columns, ``{"hour": "STRING"}``.

    Raises
    ------
    NotFoundError
        There is no file.
    InvalidInputError
        Directories do not agree, or a value is not of its column's type.
    """
    above, _, last = location.rstrip("/").rpartition("/")
    if last == "data":  # an Iceberg table has its log beside its files
        for status in fileio.list_dir(f"{above}/metadata"):
            _check_no_log(status.name, above)
    found = list(_walk(fileio, location, 0))
    if not found:
        message = f"There is no data file below {fileio.uri_of(location)}: check the path."
        raise NotFoundError(message, kind="no_files", path=location)
    pairs = [_pairs(path[len(location) :], location) for path, _ in found]
    keys = [key for key, _ in pairs[0]]
    for (path, _), own in zip(found, pairs, strict=True):
        if [key for key, _ in own] != keys:
            message = (
                f"{fileio.uri_of(path)} is not in directories of {', '.join(keys) or 'no columns'}"
                " as the first file is: all files of a table lie in the same partition columns."
            )
            raise InvalidInputError(message, kind="hive_layout", path=path)
    given = dict(partition_types or {})
    unknown = sorted(set(given) - set(keys))
    if unknown:
        message = (
            f"'{unknown[0]}' is no partition column of {location}, which has"
            f" {', '.join(keys) or 'none'}."
        )
        raise InvalidInputError(message, kind="bad_argument", argument="partition_types")
    for key in given:
        if parse_type(given[key]).root not in PARTITION_TYPES:
            message = f"Partition column '{key}' cannot be {given[key]}: its values are of paths."
            raise InvalidInputError(message, kind="bad_argument", argument="partition_types")
    texts = [[own[i][1] for own in pairs] for i in range(len(keys))]
    types = [
        parse_type(given[key]) if key in given else _type_of(column)
        for key, column in zip(keys, texts, strict=True)
    ]
    columns = [_values(*one, location) for one in zip(keys, texts, types, strict=True)]
    partitions = list(zip(*columns, strict=True)) if keys else [()] * len(found)
    files = tuple(
        ForeignFile(path, status.size_bytes, partition)
        for (path, status), partition in zip(found, partitions, strict=True)
    )
    fields = tuple(DataField(i, k, t) for i, (k, t) in enumerate(zip(keys, types, strict=True)))
    options = {declared.PARTITION_DEFAULT_NAME.key: HIVE_NULL} if keys else {}
    return IncomingTable(location, files, fields, options=options)


def _walk(fileio: FileIO, directory: str, depth: int) -> Iterator[tuple[str, FileStatus]]:
    if depth > DEPTH_MAX:
        message = f"{directory} is more than {DEPTH_MAX} directories deep: check the path."
        raise InvalidInputError(message, kind="hive_layout", path=directory)
    for status in sorted(fileio.list_dir(directory), key=lambda one: one.name):
        _check_no_log(status.name, directory)
        if status.name.startswith(("_", ".")):
            continue
        path = f"{directory}/{status.name}"
        if status.is_dir:
            yield from _walk(fileio, path, depth + 1)
        elif status.size_bytes:
            yield path, status


def _check_no_log(name: str, directory: str) -> None:
    """Refuse a directory whose log says which files count: others in it are of old versions."""
    kind = _LOGS.get(name) or ("iceberg" if name.endswith(".metadata.json") else None)
    if kind is None:
        return
    message = f"{directory} belongs to a table of {kind}: not every file of it holds rows of now."
    if kind == HUDI:
        raise UnsupportedError(message, kind="migrate_kind", path=directory)
    message += f" Give the kind '{kind}' and the table's directory."
    raise InvalidInputError(message, kind="migrate_kind", path=directory)


def _pairs(below: str, location: str) -> list[tuple[str, str | None]]:
    """The partition of a path below the table's directory, as texts."""
    found: list[tuple[str, str | None]] = []
    for part in below.strip("/").split("/")[:-1]:
        key, equals, value = part.partition("=")
        if not equals or not key:
            message = (
                f"{location}{below}: directory '{part}' is no partition, such as 'day=2024-01-01'."
                " Give the directory whose files are one table's."
            )
            raise InvalidInputError(message, kind="hive_layout", path=location)
        found.append((unquote(key), None if value == HIVE_NULL else unquote(value)))
    return found


def _type_of(texts: Sequence[str | None]) -> DataType:
    known = [text for text in texts if text is not None]
    if known and all(_WHOLE.fullmatch(text) and text != "-0" for text in known):
        wide = any(not -(2**31) <= int(text) < 2**31 for text in known)
        return parse_type("BIGINT" if wide else "INT")
    if known and all(_DAY.fullmatch(text) for text in known):
        try:
            for text in set(known):
                default_scalar(text, parse_type("DATE"), zone=None)
        except TidelakeError:
            return parse_type("STRING")
        return parse_type("DATE")
    return parse_type("STRING")


def _values(
    key: str, texts: Sequence[str | None], data_type: DataType, location: str
) -> list[object]:
    known: dict[str | None, object] = {None: None}
    for text in texts:
        if text in known or text is None:
            continue
        try:
            scalar = default_scalar(text, data_type, zone=None)
        except TidelakeError as error:
            message = f"Partition {key}={text} of {location} is no {data_type}: {error.message}"
            raise InvalidInputError(message, kind="hive_layout", path=location) from error
        (known[text],) = arrow_to_storage(pa.array([scalar.as_py()], scalar.type), data_type)
    return [known[text] for text in texts]
