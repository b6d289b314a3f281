"""``$files``, ``$partitions``, ``$buckets``, ``$manifests``: the files of one snapshot.

Names and columns are those of Paimon (1.3.1). Manifest entries are columns
(:mod:`tidelake.metadata.manifest.entry_table`) and stay columns: files with one schema and one list
of statistics are printed together (:mod:`tidelake.table.system.java_text_columns`). Cost: O(files x
columns) in Arrow and NumPy; in Python O(partitions + buckets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.metadata.data_file import EMPTY_ROW, FileSource
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import (
    changelog_manifests,
    manifest_files,
    read_manifests,
)
from tidelake.metadata.partition_name import partition_text
from tidelake.metadata.paths import NAME_BYTES_MAX
from tidelake.metadata.row_ids import stats_fields
from tidelake.scan import bucket_starts, live_files
from tidelake.table.handle.handle import TableHandle
from tidelake.table.system.java_text_columns import NULL, concat_texts, row_texts
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.values import from_storage

_LOCAL_TIME = pa.timestamp("ms")
"""A file's time in a manifest is its writer's wall clock, in an unknown zone."""
_TEXT = pa.string()
_LONG = pa.int64()

FILES = pa.schema(
    [
        pa.field("partition", _TEXT),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("file_path", _TEXT, nullable=False),
        pa.field("file_format", _TEXT, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("record_count", _LONG, nullable=False),
        pa.field("file_size_in_bytes", _LONG, nullable=False),
        pa.field("min_key", _TEXT),
        pa.field("max_key", _TEXT),
        pa.field("null_value_counts", _TEXT),
        pa.field("min_value_stats", _TEXT),
        pa.field("max_value_stats", _TEXT),
        pa.field("min_sequence_number", _LONG),
        pa.field("max_sequence_number", _LONG),
        pa.field("creation_time", _LOCAL_TIME),
        pa.field("deleteRowCount", _LONG),
        pa.field("file_source", _TEXT),
        pa.field("first_row_id", _LONG),
        pa.field("write_cols", pa.list_(_TEXT)),
    ]
)
PARTITIONS = pa.schema(
    [
        pa.field("partition", _TEXT, nullable=False),
        pa.field("record_count", _LONG, nullable=False),
        pa.field("file_size_in_bytes", _LONG, nullable=False),
        pa.field("file_count", _LONG, nullable=False),
        pa.field("last_update_time", _LOCAL_TIME),
    ]
)

BUCKETS = pa.schema(
    [
        pa.field("partition", _TEXT),
        pa.field("bucket", pa.int32(), nullable=False),
        *(PARTITIONS.field(i) for i in range(1, len(PARTITIONS))),
    ]
)
MANIFESTS = pa.schema(
    [
        pa.field("file_name", _TEXT, nullable=False),
        pa.field("file_size", _LONG, nullable=False),
        pa.field("num_added_files", _LONG, nullable=False),
        pa.field("num_deleted_files", _LONG, nullable=False),
        pa.field("schema_id", _LONG, nullable=False),
        pa.field("min_partition_stats", _TEXT),
        pa.field("max_partition_stats", _TEXT),
        pa.field("min_row_id", _LONG),
        pa.field("max_row_id", _LONG),
    ]
)


WHOLE_TABLE = "{}"
"""The partition of a table without partition keys."""


def files_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$files``: one row per live file, bucket by bucket."""
    if snapshot is None:
        return FILES.empty_table()
    entries = _live(handle, snapshot)
    entries = entries.take(entries["bucket"] >= 0)
    names = entries["file_name"]
    columns = {
        "partition": _by_number(partition_texts(handle, entries.partitions), entries),
        "bucket": entries["bucket"],
        "file_path": file_paths(handle, entries),
        "file_format": pc.replace_substring_regex(names, r"(?s)^.*\.", ""),
        "schema_id": entries["schema_id"],
        "level": entries["level"],
        "record_count": entries["row_count"],
        "file_size_in_bytes": entries["file_size_bytes"],
        "min_sequence_number": entries["min_sequence_number"],
        "max_sequence_number": entries["max_sequence_number"],
        "creation_time": entries["creation_time_ms"].cast(_LOCAL_TIME),
        "deleteRowCount": entries["delete_row_count"],
        "file_source": _source_texts(entries["file_source"]),
        "first_row_id": entries["first_row_id"],
        "write_cols": entries["write_cols"],
        **_row_columns(handle, entries),
    }
    return pa.table({field.name: columns[field.name] for field in FILES}, schema=FILES)


def partitions_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$partitions``: one row per partition with files; ``{}`` where there are no partition keys.

    With partition keys the text is 2.1's, ``dt=2026-11-22/hour=3``: values as SQL casts them to
    text, whatever the directories are called; ``partition.default-name`` for null and blank text.
    Instants are in UTC. 1.3.1 shows ``{a, null}``, which may be two partitions.
    """
    if snapshot is None:
        return PARTITIONS.empty_table()
    entries = _live(handle, snapshot)
    entries = entries.take(entries["bucket"] >= 0)
    ids = entries["partition_id"]
    starts = np.flatnonzero(np.r_[len(ids) > 0, ids[1:] != ids[:-1]])
    paths = handle.paths
    names = [
        "/".join(
            f"{key}={_partition_value(value, data_type, paths.default_partition_name)}"
            for key, data_type, value in zip(
                paths.partition_keys,
                paths.partition_types,
                paths.partition_values(entries.partitions[i]),
                strict=True,
            )
        )
        or WHOLE_TABLE
        for i in ids[starts].tolist()
    ]
    columns = {
        "partition": pa.array(names, _TEXT),
        **_totals(entries, starts),
        "last_update_time": _update_times(handle, snapshot, entries.take(starts), by_bucket=False),
    }
    return pa.table(columns, schema=PARTITIONS)


def _partition_value(value: object, data_type: DataType, default_name: str) -> str:
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        data_type = replace(data_type, root=TypeRoot.TIMESTAMP)
    return partition_text(value, data_type, default_name=default_name, legacy=False)


def live_partitions(handle: TableHandle, snapshot: Snapshot | None) -> list[bytes]:
    """The partitions with files, as in the manifests: several may share one directory."""
    if snapshot is None:
        return []
    entries = _live(handle, snapshot)
    entries = entries.take(entries["bucket"] >= 0)
    return [entries.partitions[i] for i in np.unique(entries["partition_id"]).tolist()]


def buckets_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$buckets``: one row per bucket with files."""
    if snapshot is None:
        return BUCKETS.empty_table()
    entries = _live(handle, snapshot)
    starts = bucket_starts(entries)
    first = entries.take(starts)
    columns = {
        "partition": _by_number(partition_texts(handle, first.partitions), first),
        "bucket": first["bucket"],
        **_totals(entries, starts),
        "last_update_time": _update_times(handle, snapshot, first, by_bucket=True),
    }
    return pa.table(columns, schema=BUCKETS)


def manifests_table(handle: TableHandle, snapshot: Snapshot | None) -> pa.Table:
    """``$manifests``: one row per manifest of the snapshot's state, and of its changelog."""
    if snapshot is None:
        return MANIFESTS.empty_table()
    where = (handle.fileio, handle.paths, snapshot, handle.manifests)
    listed = [*manifest_files(*where), *changelog_manifests(*where)]
    stats = [m.partition_stats for m in listed]
    columns = {
        "file_name": [m.file_name for m in listed],
        "file_size": [m.file_size_bytes for m in listed],
        "num_added_files": [m.added_count for m in listed],
        "num_deleted_files": [m.deleted_count for m in listed],
        "schema_id": [m.schema_id for m in listed],
        "min_partition_stats": partition_texts(handle, [s.min_values for s in stats]),
        "max_partition_stats": partition_texts(handle, [s.max_values for s in stats]),
        "min_row_id": [m.min_row_id for m in listed],
        "max_row_id": [m.max_row_id for m in listed],
    }
    return pa.table(columns, schema=MANIFESTS)


def partition_texts(handle: TableHandle, partitions: Sequence[bytes]) -> pa.Array:
    """Partitions as Paimon's system tables show them: ``{2024-01-01, 7}``."""
    types = [handle.schema.field(name).type for name in handle.schema.partition_keys]
    texts: dict[bytes, str] = {}
    for partition in partitions:
        if partition not in texts:
            values = [
                NULL if value is None else _text(from_storage(value, data_type))
                for value, data_type in zip(decode_row(partition, types), types, strict=True)
            ]
            texts[partition] = "{" + ", ".join(values) + "}"
    return pa.array([texts[partition] for partition in partitions], _TEXT)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def file_paths(handle: TableHandle, entries: EntryTable) -> pa.Array:
    """The paths of data files.

    Raises
    ------
    CorruptError, UnsupportedError
        As :meth:`tidelake.metadata.TablePaths.data_file`.
    """
    paths, names = handle.paths, entries["file_name"]
    for i in np.flatnonzero(_needs_a_look(entries)).tolist():
        file = entries.take(np.array([i])).files()[0]
        paths.data_file(entries.partitions[entries["partition_id"][i]], entries["bucket"][i], file)
    starts = bucket_starts(entries)
    directories = [
        paths.bucket_dir(entries.partitions[partition], bucket)
        for partition, bucket in zip(
            entries["partition_id"][starts].tolist(),
            entries["bucket"][starts].tolist(),
            strict=True,
        )
    ]
    sizes = np.diff(np.r_[starts, entries.num_rows])
    which = np.repeat(np.arange(len(starts)), sizes)
    return concat_texts(pa.array(directories, _TEXT).take(pa.array(which)), "/", names)


def _needs_a_look(entries: EntryTable) -> NDArray[np.bool_]:
    """Find the files that may be outside the table or have an invalid name: these are few."""
    names = entries["file_name"]
    plain = pc.match_substring_regex(names, r"^[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*$")
    short = pc.less_equal(pc.binary_length(names), NAME_BYTES_MAX)
    fine = pc.and_(pc.and_(plain, short), pc.is_null(entries["external_path"]))
    mask: NDArray[np.bool_] = ~fine.to_numpy(zero_copy_only=False)
    return mask


def _live(handle: TableHandle, snapshot: Snapshot) -> EntryTable:
    """The live files, bucket by bucket."""
    return live_files(handle.read_context(), snapshot, manifests=handle.manifests)


def _by_number(partitions: pa.Array, entries: EntryTable) -> pa.Array:
    return partitions.take(pa.array(entries["partition_id"]))


def _totals(entries: EntryTable, starts: NDArray[np.intp]) -> Mapping[str, pa.Array]:
    """Totals of the files from each start to the next."""
    if not len(starts):
        return {name: pa.array([], PARTITIONS.field(name).type) for name in PARTITIONS.names[1:4]}
    return {
        "record_count": pa.array(np.add.reduceat(entries["row_count"], starts)),
        "file_size_in_bytes": pa.array(np.add.reduceat(entries["file_size_bytes"], starts)),
        "file_count": pa.array(np.diff(np.r_[starts, entries.num_rows])),
    }


def _update_times(
    handle: TableHandle, snapshot: Snapshot, groups: EntryTable, *, by_bucket: bool
) -> pa.Array:
    """When the newest file of each partition or bucket was made.

    Deleted files count, as in Java, until a merge of manifests drops their entries.
    """
    fileio, paths, manifests = handle.fileio, handle.paths, handle.manifests
    files = manifest_files(fileio, paths, snapshot, manifests)
    entries = EntryTable.concat(read_manifests(fileio, paths, files, manifests))
    if not by_bucket:
        entries = entries.take(entries["bucket"] >= 0)
    keys = ["partition_id", "bucket"] if by_bucket else ["partition_id"]
    columns = {name: entries[name] for name in keys}
    columns["time"] = entries["creation_time_ms"].fill_null(0)
    newest = pa.table(columns).group_by(keys).aggregate([("time", "max")]).to_pydict()
    newest_of = {
        (entries.partitions[number], *rest): time
        for number, *rest, time in zip(*(newest[n] for n in [*keys, "time_max"]), strict=True)
    }
    wanted = zip(*(groups[name].tolist() for name in keys), strict=True)
    times = [newest_of[groups.partitions[number], *rest] for number, *rest in wanted]
    return pa.array(times, _LONG).cast(_LOCAL_TIME)


def _source_texts(sources: pa.Array) -> pa.Array:
    encoded = sources.dictionary_encode()
    names = [FileSource(number).name for number in encoded.dictionary.to_pylist()]
    return pa.array(names, _TEXT).take(encoded.indices)


def _row_columns(handle: TableHandle, entries: EntryTable) -> Mapping[str, pa.Array]:
    """The columns that show keys and statistics."""
    context = handle.read_context()
    names = ("min_key", "max_key", "null_value_counts", "min_value_stats", "max_value_stats")
    parts: dict[str, list[pa.Array]] = {name: [pa.array([], _TEXT)] for name in names}
    order = [np.empty(0, np.intp)]
    for rows, stats_cols in _groups(entries):
        own = entries.take(rows)
        first = own["file_name"][0].as_py()
        schema = context.file_schema(int(own["schema_id"][0]), file_name=first)
        keys = context.bounding_fields(schema, level=int(own["level"][0]))
        parts["min_key"].append(_key_texts(own["min_key"], keys))
        parts["max_key"].append(_key_texts(own["max_key"], keys))
        columns = own["write_cols"][0].as_py()
        stats = stats_fields(schema, stats_cols, columns, own["value_stats_min"][0].as_py())
        current = handle.schema.fields
        parts["null_value_counts"].append(_count_texts(own, stats, schema, current))
        parts["min_value_stats"].append(_bound_texts(own["value_stats_min"], stats, current))
        parts["max_value_stats"].append(_bound_texts(own["value_stats_max"], stats, current))
        order.append(rows)
    back = pa.array(np.argsort(np.concatenate(order)))
    return {name: pa.concat_arrays(arrays).take(back) for name, arrays in parts.items()}


def _groups(entries: EntryTable) -> Iterator[tuple[NDArray[np.intp], tuple[str, ...] | None]]:
    """Files of one schema and order with statistics of the same columns; None if not named."""
    listed = [pc.binary_join(entries[n], "\0") for n in ("value_stats_cols", "write_cols")]
    arity = pc.binary_slice(entries["value_stats_min"], 0, 4)
    numbers = [
        column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for column in (*listed, arity)
    ]
    pairs = np.stack(
        [entries["schema_id"], entries["level"] > 0, *(n.astype(np.int64) for n in numbers)]
    )
    _, firsts, which = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    for number, first in enumerate(firsts.tolist()):
        names = entries["value_stats_cols"][first].as_py()
        rows = np.flatnonzero(which.reshape(-1) == number)
        yield rows, None if names is None else tuple(names)


def _key_texts(rows: pa.Array, fields: Sequence[DataField]) -> pa.Array:
    """Keys as ``[1, a]``; null for a file without."""
    known = pc.not_equal(rows, pa.scalar(EMPTY_ROW, pa.binary()))
    texts = row_texts(rows.filter(known), [f.type for f in fields])
    listed = [part for text in texts for part in (", ", text)][1:]
    printed = concat_texts(pa.array(["["] * int(pc.sum(known).as_py() or 0), _TEXT), *listed, "]")
    return _spread(printed, known)


def _bound_texts(
    rows: pa.Array, stats: Sequence[DataField], current: Sequence[DataField]
) -> pa.Array:
    """The smallest or largest value of each current column of the table, by its id."""
    known = pc.not_equal(rows, pa.scalar(EMPTY_ROW, pa.binary()))
    texts = row_texts(rows.filter(known), [f.type for f in stats])
    by_id = {f.id: _spread(text, known) for f, text in zip(stats, texts, strict=True)}
    return _map_texts(len(rows), {f.name: by_id.get(f.id) for f in current})


def _count_texts(
    entries: EntryTable,
    stats: Sequence[DataField],
    schema: TableSchema,
    current: Sequence[DataField],
) -> pa.Array:
    """The number of nulls; all rows, for a column that is newer than the files."""
    here = {f.id for f in schema.fields}
    row_counts = pa.array(entries["row_count"]).cast(_TEXT)
    by_id = {f.id: row_counts for f in current if f.id not in here}
    counts = entries["value_stats_nulls"]
    lengths = pc.list_value_length(counts).fill_null(0).to_numpy(zero_copy_only=False)
    begins = np.asarray(counts.offsets)[:-1]
    for index, field in enumerate(stats):
        at = pa.array(np.where(lengths > index, begins + index, 0), mask=lengths <= index)
        by_id[field.id] = counts.values.take(at).cast(_TEXT)
    return _map_texts(entries.num_rows, {f.name: by_id.get(f.id) for f in current})


def _map_texts(count: int, columns: Mapping[str, pa.Array | None]) -> pa.Array:
    """One text per row, ``{a=1, b=null}``, in the order of the names."""
    parts: list[pa.Array | str] = [pa.array(["{"] * count, _TEXT)]
    for index, (name, texts) in enumerate(sorted(columns.items())):
        parts += [
            f"{', ' if index else ''}{name}=",
            NULL if texts is None else texts.fill_null(NULL),
        ]
    return concat_texts(*parts, "}")


def _spread(texts: pa.Array, where: pa.Array) -> pa.Array:
    """Texts where the mask is set, in order; null elsewhere."""
    mask = where.to_numpy(zero_copy_only=False)
    return texts.take(pa.array(np.cumsum(mask) - 1, mask=~mask))
