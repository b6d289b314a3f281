"""Manifests: the files that commits added or deleted.

1. A manifest is an Avro container (:mod:`tidelake.metadata.avro.avro`), written once under a unique
   name and never changed.
2. It decodes into an :class:`EntryTable`. Fields are found by name; missing ones are null, unknown
   ones are ignored.

Source: ``docs/format/manifest.md``; files written by Java Paimon 1.3.1 and 2.1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row, serialize_row
from tidelake.errors import TidelakeError
from tidelake.metadata.avro.avro import ContainerWriter, decode_columns, decode_together
from tidelake.metadata.avro.avro_columns import Columns
from tidelake.metadata.data_file import EMPTY_ROW, EMPTY_STATS, FileKind, SimpleStats
from tidelake.metadata.manifest.entry_table import COLUMNS, EntryTable, number_partitions
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.manifest_schema import (
    CODEC,
    ENTRY_SCHEMA,
    ENTRY_SCHEMA_2X,
    ENTRY_VERSION,
)
from tidelake.metadata.manifest.manifest_versions import (
    NAME_LENGTH_MAX,
    WRONG_FIELDS,
    ManifestFields,
    check_versions,
)
from tidelake.metadata.paths import POSTPONE_BUCKET, TablePaths
from tidelake.metadata.unique_file import WholeFiles, write_unique
from tidelake.types import DataType

BLOCK_ENTRIES = 1_000
"""Entries of one Avro block: some 100 KiB, a good size for zstd and a fine step for rolling."""

_ENTRY_HEAD_BYTES = 7


def write_manifests(
    fileio: WholeFiles,
    paths: TablePaths,
    names: Iterator[str],
    table: EntryTable,
    *,
    schema_id: int,
    bytes_max: int | None,
    codec: str = CODEC,
    written: Callable[[str, EntryTable], None] | None = None,
) -> Iterator[ManifestFile]:
    """Write entries, in order, into as many manifests as it takes.

    Parameters
    ----------
    written : callable, optional
        Called with path and entries of each manifest before it is written: for a cache, and for
        cleaning up.

    Yields
    ------
    ManifestFile
        One per manifest.
    """
    needs_2x = table["write_cols_sequences"].null_count < table.num_rows
    schema = ENTRY_SCHEMA_2X if needs_2x else ENTRY_SCHEMA
    start = 0
    while start < table.num_rows:
        name = next(names)
        out = ContainerWriter(schema, codec=codec, name=name)
        end = start
        # at least one block: the header alone may exceed bytes_max
        while end < table.num_rows and (
            end == start or bytes_max is None or out.size_bytes < bytes_max
        ):
            count = min(BLOCK_ENTRIES, table.num_rows - end)
            out.write_block(_records(_slice(table, end, count), with_2x=needs_2x))
            end += count
        part = _slice(table, start, end - start)
        data, path = out.finish(), paths.manifest(name)
        if written is not None:
            written(path, part)
        write_unique(fileio, path, data)
        yield _manifest_file(name, len(data), part, paths, schema_id)
        start = end


def decode_manifest(data: bytes, *, path: str) -> EntryTable:
    """Decode a manifest's bytes.

    Raises
    ------
    CorruptError
        The bytes are not a manifest; the message names `path`.
    """
    with ManifestFields(path):
        return EntryTable.concat(
            _entry_table(part, path) if isinstance(part, list) else _of_columns(part, path)
            for part in decode_columns(data, path=path, find_starts=_entry_starts)
        )


def decode_small_manifests(
    files: Sequence[tuple[bytes, str]],
) -> tuple[list[EntryTable], int] | None:
    """Decode small manifests together, which takes a tenth of the time.

    Parameters
    ----------
    files : sequence of (bytes, str)
        Contents and paths, each once.

    Returns
    -------
    tuple or None
        A table for each file, and the memory that they share, in bytes. None where they must be
        decoded one by one.
    """
    found = decode_together(files, find_starts=_entry_starts)
    if found is None:
        return None
    columns, counts = found
    try:
        table = _of_columns(columns, "")
    except (TidelakeError, *WRONG_FIELDS):
        return None  # decoded alone, the damaged one says so
    starts = itertools.accumulate(counts, initial=0)
    slices = [_slice(table, start, count) for start, count in zip(starts, counts, strict=False)]
    return slices, table.nbytes


def _entry_starts(payload: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Find where entries may begin, by the bytes of a version, a kind and a partition.

    In bytes: ``04`` (version 2), ``00`` or ``02`` (kind), the zigzag length of a row of at least
    12 bytes, and the three high bytes of its number of fields, which are zero.
    """
    at = np.flatnonzero(payload[:-_ENTRY_HEAD_BYTES] == 2 * ENTRY_VERSION)
    at = at[(payload[at + 1] & ~np.uint8(2)) == 0]
    length = payload[at + 2]
    is_short = (length >= 2 * len(EMPTY_ROW)) & (length < 0x80)
    row = at + np.where(is_short, 3, 4)
    zeros = (payload[row] | payload[row + 1] | payload[row + 2]) == 0
    return at[zeros & (is_short | (length >= 0x80))].astype(np.int64)


def _of_columns(columns: Columns, path: str) -> EntryTable:
    """Make an entry table from the columns of the Avro file."""
    versions = columns[("_VERSION",)]
    check_versions(set(versions.unique().to_pylist()), path)
    count = len(versions)
    partition = columns[("_PARTITION",)].dictionary_encode()
    arrays: dict[str, pa.Array] = {
        "kind": columns[("_KIND",)],
        "partition_id": partition.indices,
        "bucket": columns[("_BUCKET",)],
        "total_buckets": columns[("_TOTAL_BUCKETS",)],
    }
    for column, name in _REQUIRED.items():
        arrays[column] = columns["_FILE", name]
    for column, name in _OPTIONAL.items():
        arrays[column] = columns.get(("_FILE", name), _absent(column, count))
    for column, name in _STATS.items():
        arrays[f"{column}_min"] = columns["_FILE", name, "_MIN_VALUES"]
        arrays[f"{column}_max"] = columns["_FILE", name, "_MAX_VALUES"]
        nulls = f"{column}_nulls"
        arrays[nulls] = columns.get(("_FILE", name, "_NULL_COUNTS"), _absent(nulls, count))
    table = EntryTable.of_arrays(arrays, tuple(partition.dictionary.to_pylist()))
    _check_entries(table)
    return table


def _absent(column: str, count: int) -> pa.Array:
    return pa.nulls(count, COLUMNS.field(column).type)


def _entry_table(records: Sequence[dict[str, Any]], path: str) -> EntryTable:
    check_versions({r["_VERSION"] for r in records}, path)
    files = [r["_FILE"] for r in records]
    ids, partitions = number_partitions([r["_PARTITION"] for r in records])
    columns: dict[str, Any] = {
        "kind": [r["_KIND"] for r in records],
        "partition_id": ids,
        "bucket": [r["_BUCKET"] for r in records],
        "total_buckets": [r["_TOTAL_BUCKETS"] for r in records],
    }
    for column, name in _REQUIRED.items():
        columns[column] = [f[name] for f in files]
    for column, name in _OPTIONAL.items():
        columns[column] = [f.get(name) for f in files]
    for column, name in _STATS.items():
        stats = [f[name] for f in files]
        columns[f"{column}_min"] = [s["_MIN_VALUES"] for s in stats]
        columns[f"{column}_max"] = [s["_MAX_VALUES"] for s in stats]
        columns[f"{column}_nulls"] = [s.get("_NULL_COUNTS") for s in stats]
    table = EntryTable.from_columns(columns, partitions)
    _check_entries(table)
    return table


_REQUIRED = {
    "file_name": "_FILE_NAME",
    "file_size_bytes": "_FILE_SIZE",
    "row_count": "_ROW_COUNT",
    "min_key": "_MIN_KEY",
    "max_key": "_MAX_KEY",
    "min_sequence_number": "_MIN_SEQUENCE_NUMBER",
    "max_sequence_number": "_MAX_SEQUENCE_NUMBER",
    "schema_id": "_SCHEMA_ID",
    "level": "_LEVEL",
    "extra_files": "_EXTRA_FILES",
}
_OPTIONAL = {
    "creation_time_ms": "_CREATION_TIME",
    "delete_row_count": "_DELETE_ROW_COUNT",
    "embedded_index": "_EMBEDDED_FILE_INDEX",
    "file_source": "_FILE_SOURCE",
    "value_stats_cols": "_VALUE_STATS_COLS",
    "external_path": "_EXTERNAL_PATH",
    "first_row_id": "_FIRST_ROW_ID",
    "write_cols": "_WRITE_COLS",
    "write_cols_sequences": "_WRITE_COLS_SEQUENCES",
}
_STATS = {"key_stats": "_KEY_STATS", "value_stats": "_VALUE_STATS"}
_FILE_NAMES = _REQUIRED | _OPTIONAL


def _check_entries(table: EntryTable) -> None:
    """Refuse values that no writer makes, before anything is computed from them."""
    kinds, columns = table["kind"], ("file_size_bytes", "row_count", "level")
    if len(kinds) and (kinds.min() < FileKind.ADD or kinds.max() > FileKind.DELETE):
        raise ValueError(f"an entry is of kind {kinds.max()}")
    if len(kinds) and table["bucket"].min() < POSTPONE_BUCKET:
        raise ValueError(f"a file is of bucket {table['bucket'].min()}")
    for name in columns:
        if len(kinds) and table[name].min() < 0:
            raise ValueError(f"a file has {name} {table[name].min()}")
    if len(kinds) and pc.max(pc.utf8_length(table["file_name"])).as_py() > NAME_LENGTH_MAX:
        raise ValueError("a file name is too long")


def _slice(table: EntryTable, start: int, count: int) -> EntryTable:
    return EntryTable(table.batch.slice(start, count), table.partitions)


def _records(table: EntryTable, *, with_2x: bool) -> list[dict[str, Any]]:
    columns = {name: table.batch.column(name).to_pylist() for name in COLUMNS.names}
    names = {c: n for c, n in _FILE_NAMES.items() if with_2x or c != "write_cols_sequences"}
    parts = {n: columns[c] for c, n in names.items()}
    for column, name in _STATS.items():
        parts[name] = [
            {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": nulls}
            for low, high, nulls in zip(
                columns[f"{column}_min"],
                columns[f"{column}_max"],
                columns[f"{column}_nulls"],
                strict=True,
            )
        ]
    files = [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    return [
        {
            "_VERSION": ENTRY_VERSION,
            "_KIND": kind,
            "_PARTITION": table.partitions[partition],
            "_BUCKET": bucket,
            "_TOTAL_BUCKETS": total,
            "_FILE": file,
        }
        for kind, partition, bucket, total, file in zip(
            columns["kind"],
            columns["partition_id"],
            columns["bucket"],
            columns["total_buckets"],
            files,
            strict=True,
        )
    ]


def _manifest_file(
    name: str, size_bytes: int, table: EntryTable, paths: TablePaths, schema_id: int
) -> ManifestFile:
    deleted = int(np.count_nonzero(table["kind"]))
    buckets, levels = table["bucket"], table["level"]
    return ManifestFile(
        file_name=name,
        file_size_bytes=size_bytes,
        added_count=table.num_rows - deleted,
        deleted_count=deleted,
        partition_stats=partition_stats(table, paths.partition_types),
        schema_id=schema_id,
        min_bucket=int(buckets.min()),
        max_bucket=int(buckets.max()),
        min_level=int(levels.min()),
        max_level=int(levels.max()),
    )


def partition_stats(table: EntryTable, types: Sequence[DataType]) -> SimpleStats:
    """Smallest and largest value and number of nulls of each partition column.

    A scan skips whole manifests by them.

    Parameters
    ----------
    table : EntryTable
        The entries; each counts, so that a partition with two files counts twice.

    Returns
    -------
    SimpleStats
        The statistics of no columns for a table without partitions.
    """
    if not types:
        return EMPTY_STATS
    used, counts = np.unique(table["partition_id"], return_counts=True)
    rows = [decode_row(table.partitions[i], types) for i in used]
    lows, highs, nulls = [], [], []
    for column in zip(*rows, strict=True):
        values = sorted((v for v in column if v is not None), key=_order)
        lows.append(values[0] if values else None)
        highs.append(values[-1] if values else None)
        nulls.append(int(counts[[v is None for v in column]].sum()))
    return SimpleStats(serialize_row(lows, types), serialize_row(highs, types), tuple(nulls))


def _order(value: object) -> tuple[object, ...]:
    """Java's order: -0.0 before 0.0 and NaN last; strings by code point, which is UTF-8's order."""
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
    return (value,)
