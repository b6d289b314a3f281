"""Manifests (the files added or deleted) and manifest lists (the manifests of a snapshot).

1. Both are Avro containers (:mod:`tidelake.metadata.avro`), written once under a unique name and
   never changed, so what was decoded once is right for ever: :class:`ManifestCache` keeps it.
2. A manifest decodes into an :class:`EntryTable`. Fields are found by name; those that the file
   does not have are null, those that are not known are ignored.
3. A manifest list holds one row per manifest with its size, counts and ranges of partition, bucket
   and level: what a scan needs to leave whole manifests out, and what a reader needs to notice a
   manifest that was cut short.

Source: ``docs/format/manifest.md``; files written by Java Paimon 1.3.1 and 2.1.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.errors import AlreadyExistsError, CorruptError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.metadata.avro import (
    ContainerWriter,
    decode_columns,
    decode_container,
    encode_container,
)
from tidelake.metadata.avro_columns import Columns
from tidelake.metadata.data_file import EMPTY_ROW, FileKind, SimpleStats
from tidelake.metadata.entry_table import COLUMNS, EntryTable, number_partitions
from tidelake.metadata.manifest_schema import (
    ENTRY_SCHEMA,
    ENTRY_SCHEMA_2X,
    ENTRY_VERSION,
    LIST_SCHEMA,
    LIST_SCHEMA_2X,
)
from tidelake.metadata.partition_stats import partition_stats
from tidelake.metadata.paths import POSTPONE_BUCKET, TablePaths
from tidelake.metadata.snapshot import Snapshot

__all__ = [
    "EntryTable",
    "ManifestCache",
    "ManifestFile",
    "read_manifest_list",
    "write_manifest_list",
    "write_manifests",
    "write_unique",
]

BLOCK_ENTRIES = 1_000
"""Entries of one Avro block: some 100 KiB, a good size for zstd and a fine step for rolling."""
NAME_LENGTH_MAX = 4_096
TABLE_BYTES = 24 << 10
LIST_ROW_BYTES = 1_500
"""What a cached manifest takes beside its values, and a row of a list: measured, of one entry each.
Where commits are small the cache is full of such, and their values are a fiftieth of them."""
CODEC = "zstandard"

_ENTRY_HEAD_BYTES = 7

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One row of a manifest list: a manifest and what is in it.

    Parameters
    ----------
    file_name : str
        Name inside the table's manifest directory.
    file_size_bytes : int
        Its length.
    added_count, deleted_count : int
        Its entries by kind.
    partition_stats : SimpleStats
        Over the partition columns of its entries.
    schema_id : int
        The schema that `partition_stats` belong to.
    min_bucket, max_bucket, min_level, max_level : int, optional
        Ranges; None where the writer did not say (before 1.3).
    min_row_id, max_row_id : int, optional
        Paimon 2.x with row tracking.
    """

    file_name: str
    file_size_bytes: int
    added_count: int
    deleted_count: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None

    @property
    def entries_count(self) -> int:
        """Number of its entries."""
        return self.added_count + self.deleted_count


class ManifestCache:
    """Decoded manifests and manifest lists, least recently used thrown out first. Thread-safe.

    Parameters
    ----------
    bytes_max : int
        Memory that the kept tables may take; one larger than this is not kept.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._bytes

    def entries(
        self, fileio: FileIO, path: str, *, expected: ManifestFile | None = None
    ) -> EntryTable:
        """The entries of a manifest, decoded at the first call.

        Parameters
        ----------
        fileio : FileIO
            The storage.
        path : str
            The manifest.
        expected : ManifestFile, optional
            What the manifest list says of it, to be checked.

        Raises
        ------
        CorruptError
            The file is damaged or not what the list says; it is named.
        NotFoundError
            It is missing.
        """

        def load() -> tuple[EntryTable, int]:
            data = fileio.read_bytes(path)
            if expected is not None and len(data) != expected.file_size_bytes:
                raise _resized(path, len(data), expected.file_size_bytes)
            table = decode_manifest(data, path=path)
            return table, table.nbytes + TABLE_BYTES

        table = self.get(path, load)
        if expected is not None:
            deleted = int(np.count_nonzero(table["kind"]))
            if (table.num_rows - deleted, deleted) != (
                expected.added_count,
                expected.deleted_count,
            ):
                message = (
                    f"Manifest {path} holds {table.num_rows} entries and its list says"
                    f" {expected.entries_count}. Restore it from a backup."
                )
                raise CorruptError(message, kind="manifest_file", path=path)
        return table

    def manifest_list(
        self, fileio: FileIO, paths: TablePaths, name: str, *, size_bytes: int | None = None
    ) -> tuple[ManifestFile, ...]:
        """The rows of a manifest list, decoded at the first call: :func:`read_manifest_list`."""

        def load() -> tuple[tuple[ManifestFile, ...], int]:
            files = read_manifest_list(fileio, paths, name, size_bytes=size_bytes)
            return files, LIST_ROW_BYTES * (len(files) + 1)

        return self.get(paths.manifest(name), load)

    def folded(
        self, location: str, snapshot: Snapshot, fold: Callable[[], EntryTable]
    ) -> EntryTable:
        """The live files of a snapshot, folded at the first call; of each table the last is kept.

        Parameters
        ----------
        location : str
            The table.
        snapshot : Snapshot
            The version. Its lists' names are unique, so a table made anew is told apart.
        fold : callable
            Gives the live files, always in the same order.
        """
        lists = snapshot.base_manifest_list, snapshot.delta_manifest_list
        key = f"{location}/live"
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0][0] == lists:
                self._kept.move_to_end(key)
                found: EntryTable = kept[0][1]
                return found
        table = fold()
        self._put(key, (lists, table), table.nbytes + TABLE_BYTES)
        return table

    def keep(self, path: str, table: EntryTable) -> None:
        """Keep a table that was just written, so that it need not be read back."""
        self._put(path, table, table.nbytes + TABLE_BYTES)

    def get(self, path: str, load: Callable[[], tuple[T, int]]) -> T:
        """What a file of this path was decoded to; `load` gives it and its size in memory."""
        with self._lock:
            kept = self._kept.get(path)
            if kept is not None:
                self._kept.move_to_end(path)
                value: T = kept[0]
                return value
        value, nbytes = load()  # outside the lock: two threads may decode the same file once each
        self._put(path, value, nbytes)
        return value

    def _put(self, path: str, value: object, nbytes: int) -> None:
        with self._lock:
            before = self._kept.pop(path, None)
            self._bytes -= before[1] if before else 0
            if nbytes > self._bytes_max:
                return
            self._kept[path] = (value, nbytes)
            self._bytes += nbytes
            while self._bytes > self._bytes_max:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed


def write_manifests(
    fileio: FileIO,
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
    names : iterator of str
        Gives unique file names.
    bytes_max : int or None
        A manifest that has reached this size is closed and the next one begun.
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
        # one block at least: the header alone may be larger than bytes_max
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


def write_manifest_list(
    fileio: FileIO,
    paths: TablePaths,
    name: str,
    manifests: Sequence[ManifestFile],
    *,
    codec: str = CODEC,
) -> tuple[str, int]:
    """Write a manifest list; its name and size."""
    needs_2x = any(m.min_row_id is not None for m in manifests)
    schema = LIST_SCHEMA_2X if needs_2x else LIST_SCHEMA
    records = [_list_record(m, with_2x=needs_2x) for m in manifests]
    data = encode_container(schema, records, codec=codec, name=name)
    write_unique(fileio, paths.manifest(name), data)
    return name, len(data)


def read_manifest_list(
    fileio: FileIO, paths: TablePaths, name: str, *, size_bytes: int | None = None
) -> tuple[ManifestFile, ...]:
    """Read a manifest list.

    Parameters
    ----------
    name : str
        Its file name.
    size_bytes : int, optional
        The size that the snapshot says, to be checked.

    Raises
    ------
    CorruptError
        The file is damaged or has another size; it is named.
    UnsupportedError
        Its version is not known.
    NotFoundError
        It is missing.
    """
    path = paths.manifest(name)
    data = fileio.read_bytes(path)
    if size_bytes is not None and len(data) != size_bytes:
        raise _resized(path, len(data), size_bytes)
    records = decode_container(data, path=path)
    with _Fields(path):
        _check_versions({r["_VERSION"] for r in records}, path)
        return tuple(_manifest_file_of(r) for r in records)


def decode_manifest(data: bytes, *, path: str) -> EntryTable:
    """Decode a manifest's bytes.

    Raises
    ------
    CorruptError
        The bytes are no manifest; `path` is named.
    """
    with _Fields(path):
        return EntryTable.concat(
            _entry_table(part, path) if isinstance(part, list) else _of_columns(part, path)
            for part in decode_columns(data, path=path, find_starts=_entry_starts)
        )


def _entry_starts(payload: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where entries may begin: a version, a kind and a partition stand there.

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
    """An entry table of what the Avro file holds as columns."""
    versions = columns[("_VERSION",)]
    _check_versions(set(versions.unique().to_pylist()), path)
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
    _check_versions({r["_VERSION"] for r in records}, path)
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


class _Fields:
    """Turns what a wrong field does (a missing key, another type) into a CorruptError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        wrong = (LookupError, TypeError, ValueError, OverflowError, AttributeError)
        if isinstance(error, (*wrong, pa.ArrowException)) and not isinstance(
            error, (CorruptError, UnsupportedError)
        ):
            message = (
                f"File {self._path} has not the fields of a manifest: {error!r}."
                " Restore it from a backup."
            )
            raise CorruptError(message, kind="manifest_file", path=self._path) from error


def _check_versions(found: set[Any], path: str) -> None:
    versions = found - {ENTRY_VERSION}
    if versions:
        message = (
            f"File {path} has entries of version {sorted(versions)}; this library reads version"
            f" {ENTRY_VERSION}. Upgrade tidelake."
        )
        raise UnsupportedError(message, kind="manifest_version", path=path)


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


def _resized(path: str, found: int, expected: int) -> CorruptError:
    message = (
        f"File {path} has {found} bytes and should have {expected}: it was cut short or replaced."
        " Restore it from a backup."
    )
    return CorruptError(message, kind="file_size", path=path)


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


def _list_record(manifest: ManifestFile, *, with_2x: bool) -> dict[str, Any]:
    stats = manifest.partition_stats
    record = {
        "_VERSION": ENTRY_VERSION,
        "_FILE_NAME": manifest.file_name,
        "_FILE_SIZE": manifest.file_size_bytes,
        "_NUM_ADDED_FILES": manifest.added_count,
        "_NUM_DELETED_FILES": manifest.deleted_count,
        "_PARTITION_STATS": {
            "_MIN_VALUES": stats.min_values,
            "_MAX_VALUES": stats.max_values,
            "_NULL_COUNTS": list(stats.null_counts),
        },
        "_SCHEMA_ID": manifest.schema_id,
        "_MIN_BUCKET": manifest.min_bucket,
        "_MAX_BUCKET": manifest.max_bucket,
        "_MIN_LEVEL": manifest.min_level,
        "_MAX_LEVEL": manifest.max_level,
    }
    if with_2x:
        record |= {"_MIN_ROW_ID": manifest.min_row_id, "_MAX_ROW_ID": manifest.max_row_id}
    return record


def _manifest_file_of(record: dict[str, Any]) -> ManifestFile:
    stats = record["_PARTITION_STATS"]
    return ManifestFile(
        file_name=_text(record["_FILE_NAME"]),
        file_size_bytes=record["_FILE_SIZE"],
        added_count=record["_NUM_ADDED_FILES"],
        deleted_count=record["_NUM_DELETED_FILES"],
        partition_stats=SimpleStats(
            stats["_MIN_VALUES"], stats["_MAX_VALUES"], tuple(stats.get("_NULL_COUNTS") or ())
        ),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > NAME_LENGTH_MAX:
        raise TypeError("a file name is no text or too long")
    return value


def write_unique(fileio: FileIO, path: str, data: bytes) -> None:
    """Write a file under a name that nobody else can have.

    A storage client that sends a call twice finds its own file the second time; that is no error.
    """
    try:
        fileio.write_once(path, data)
    except AlreadyExistsError:
        if fileio.read_bytes(path) != data:
            raise
