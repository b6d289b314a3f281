"""The index manifest of a snapshot: all its index files, ``manifest/index-manifest-<uuid>-<i>``.

1. It is an Avro container (:mod:`tidelake.metadata.avro.avro`), written once and never changed.
2. It holds the whole set and no changes: every entry is an ADD. A commit that changes no index
   names the file of the snapshot before; any other commit writes a new file.
3. Of the type :data:`HASH` (dynamic buckets) a bucket of a partition has at most one file.

Entries of other types (deletion vectors, global indexes of 2.x) are kept whole, so that they can be
distinguished and written back unchanged.

Source: ``docs/format/index-file.md``; files written by Java Paimon 1.3.1 and 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.metadata.avro.avro import decode_container, encode_container, is_own
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.index_entry import DELETION_VECTORS, HASH, IndexEntry, IndexFile
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_schema import CODEC
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import WholeFiles, whole_bytes_max, write_unique

VERSION = 1
"""``_VERSION`` of the entries (on disk: never renumber)."""

ENTRY_BYTES = 600
"""The size of a cached entry."""

_NAMESPACE = "org.apache.paimon.avro.generated"


def write_index_manifest(
    fileio: WholeFiles,
    paths: TablePaths,
    name: str,
    entries: Sequence[IndexEntry],
    *,
    codec: str = CODEC,
) -> None:
    """Write an index manifest under a unique name.

    Requires: at least one entry; an index manifest of ours without entries counts as damaged.
    """
    assert entries, "a snapshot without index files names no index manifest"
    write_unique(
        fileio, paths.manifest(name), encode_index_manifest(entries, codec=codec, name=name)
    )


def read_index_manifest(fileio: FileIO, paths: TablePaths, name: str) -> tuple[IndexEntry, ...]:
    """Read an index manifest.

    Raises
    ------
    CorruptError
        The file is damaged; the message names it.
    UnsupportedError
        Its version is unknown.
    NotFoundError
        It is missing.
    """
    path = paths.manifest(name)
    return decode_index_manifest(fileio.read_bytes(path, bytes_max=whole_bytes_max()), path=path)


def index_entries(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot | None, manifests: ManifestCache
) -> tuple[IndexEntry, ...]:
    """All index files of a snapshot; decoded once, as :func:`read_index_manifest`."""
    if snapshot is None or snapshot.index_manifest is None:
        return ()
    name = snapshot.index_manifest

    def load() -> tuple[tuple[IndexEntry, ...], int]:
        entries = read_index_manifest(fileio, paths, name)
        return entries, ENTRY_BYTES * (len(entries) + 1)

    return manifests.get(paths.manifest(name), load)


def deletion_files_by_bucket(
    entries: Iterable[IndexEntry],
) -> dict[BucketId, tuple[IndexFile, ...]]:
    """The index files of deletion vectors, in the order of the entries."""
    by_bucket: dict[BucketId, tuple[IndexFile, ...]] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            by_bucket[entry.bucket_id] = (*by_bucket.get(entry.bucket_id, ()), entry.file)
    return by_bucket


def encode_index_manifest(entries: Sequence[IndexEntry], *, codec: str = CODEC, name: str) -> bytes:
    """Give the bytes of an index manifest.

    Examples
    --------
    >>> entry = IndexEntry(bytes(12), 0, IndexFile(HASH, "index-a-0", 8, 2))
    >>> data = encode_index_manifest([entry], name="index-manifest-a-0")
    >>> decode_index_manifest(data, path="index-manifest-a-0") == (entry,)
    True
    """
    with_2x = any(entry.file.global_index is not None for entry in entries)
    records = [_record(entry, with_2x=with_2x) for entry in entries]
    return encode_container(SCHEMA_2X if with_2x else SCHEMA, records, codec=codec, name=name)


def decode_index_manifest(data: bytes, *, path: str) -> tuple[IndexEntry, ...]:
    """Decode an index manifest's bytes; see :func:`read_index_manifest`."""
    records = decode_container(data, path=path)
    try:
        versions = {record["_VERSION"] for record in records} - {VERSION}
        if versions:
            message = (
                f"File {path} has entries of version {sorted(versions)}; this library reads version"
                f" {VERSION}. Upgrade tidelake."
            )
            raise UnsupportedError(message, kind="manifest_version", path=path)
        entries = tuple(map(_entry, records))
        if not entries and is_own(data):
            # Java writes an empty one when all files are removed; then a commit of ours names none
            raise ValueError("it has lost its entries")
        _check(entries)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, (CorruptError, UnsupportedError)):
            raise
        message = (
            f"File {path} does not have the fields of an index manifest: {error!r}. Restore it"
            " from a backup."
        )
        raise CorruptError(message, kind="manifest_file", path=path) from error
    return entries


def _check(entries: Iterable[IndexEntry]) -> None:
    """Refuse values that no writer makes, before anything uses them."""
    buckets: set[BucketId] = set()
    for entry in entries:
        file = entry.file
        if file.file_size_bytes < 0 or file.row_count < 0:
            raise ValueError(f"index file '{file.file_name}' has a negative size")
        if file.index_type != HASH:
            continue
        if entry.bucket_id in buckets:
            raise ValueError(f"bucket {entry.bucket} has two hash index files")
        buckets.add(entry.bucket_id)


def _record(entry: IndexEntry, *, with_2x: bool) -> dict[str, Any]:
    file = entry.file
    record: dict[str, Any] = {
        "_VERSION": VERSION,
        "_KIND": int(FileKind.ADD),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size_bytes,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if file.ranges is None
        else [
            {"f0": name, "f1": offset, "f2": length, "_CARDINALITY": cardinality}
            for name, offset, length, cardinality in file.ranges
        ],
        "_EXTERNAL_PATH": file.external_path,
    }
    return record | {"_GLOBAL_INDEX": file.global_index} if with_2x else record


def _entry(record: Mapping[str, Any]) -> IndexEntry:
    if record["_KIND"] != FileKind.ADD:
        raise ValueError(f"an entry is of kind {record['_KIND']}")
    ranges = record.get("_DELETIONS_VECTORS_RANGES")
    file = IndexFile(
        index_type=record["_INDEX_TYPE"],
        file_name=record["_FILE_NAME"],
        file_size_bytes=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        ranges=None
        if ranges is None
        else tuple((r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in ranges),
        external_path=record.get("_EXTERNAL_PATH"),
        global_index=record.get("_GLOBAL_INDEX"),
    )
    for text in (file.index_type, file.file_name):
        if not isinstance(text, str):
            raise TypeError("a name is not text")
    if not isinstance(record["_PARTITION"], bytes) or not isinstance(record["_BUCKET"], int):
        raise TypeError("an entry has no partition and bucket")
    return IndexEntry(record["_PARTITION"], record["_BUCKET"], file)


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _schema(*later: dict[str, Any]) -> dict[str, Any]:
    vector = {
        "type": "record",
        "name": "record__DELETIONS_VECTORS_RANGES",
        "fields": [
            _field("f0", "string"),
            _field("f1", "int"),
            _field("f2", "int"),
            _optional("_CARDINALITY", "long"),
        ],
    }
    fields = [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_INDEX_TYPE", "string"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        # Paimon spells it with DELETIONS
        _optional("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", vector]}),
        _optional("_EXTERNAL_PATH", "string"),
        *later,
    ]
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}


SCHEMA = _schema()
"""As Java Paimon 1.3.1 writes it. On disk: never rename or reorder."""

SCHEMA_2X = _schema(
    _optional(
        "_GLOBAL_INDEX",
        {
            "type": "record",
            "name": "record__GLOBAL_INDEX",
            "fields": [
                _field("_ROW_RANGE_START", "long"),
                _field("_ROW_RANGE_END", "long"),
                _field("_INDEX_FIELD_ID", "int"),
                _optional("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
                _optional("_INDEX_META", "bytes"),
                _optional("_SOURCE_META", "bytes"),
            ],
        },
    )
)
"""Written only where an entry has a global index (Paimon 2.x)."""
