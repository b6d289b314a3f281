"""An independent check of a table's files: JSON, Avro and Parquet read directly, not by us.

Checks the invariants I4 (ids contiguous), I5 (nothing dangling, sizes true), I11 (files of a level
above 0 disjoint, keys sorted and unique in a file, counts and sequence ranges true) over every
snapshot and tag that the table retains.
"""

from __future__ import annotations

import functools
import io
import json
import math
import struct
import zlib
from collections.abc import Container, Sequence

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

DECODED_MAX = 1_000
"""Files of metadata that are kept decoded."""


class FsckError(AssertionError):
    """The files contradict each other."""


def _avro(fileio, path):
    """The records of a file; those of equal bytes are shared, and nobody changes them."""
    return _decoded(fileio.read_bytes(path))


@functools.lru_cache(DECODED_MAX)
def _decoded(data: bytes) -> list[dict]:
    return list(fastavro.reader(io.BytesIO(data)))


def walk(fileio, path):
    """Every file below a directory, with its size."""
    for status in fileio.list_dir(path):
        full = f"{path}/{status.name}"
        if status.is_dir:
            yield from walk(fileio, full)
        else:
            yield full, status.size_bytes


def check_table(
    fileio,
    location: str,
    *,
    read_data: bool = True,
    newest_only: bool = False,
    untold: Container[int] = (),
) -> int:
    """Check all snapshots of the table at `location`; the number of live files of the newest.

    Of those that are `untold` the changelog has expired: a rollback took them from a tag.
    """
    names = [s.name for s in fileio.list_dir(f"{location}/snapshot")]
    ids = sorted(int(n.removeprefix("snapshot-")) for n in names if n.startswith("snapshot-"))
    if not ids:
        return 0
    if ids != list(range(ids[0], ids[-1] + 1)):
        raise FsckError(f"snapshot ids are not contiguous: {ids}")
    files = dict(walk(fileio, location))
    by_name: dict[str, list[tuple[str, int]]] = {}
    for path, size in files.items():
        by_name.setdefault(path.rsplit("/", 1)[1], []).append((path, size))
    checked: set[str] = set()
    seen_commits: set[tuple[str, int, str]] = set()
    manifests: dict[str, list[dict]] = {}
    live: dict = {}
    for snapshot_id in ids:
        snapshot = json.loads(fileio.read_bytes(f"{location}/snapshot/snapshot-{snapshot_id}"))
        if snapshot["id"] != snapshot_id:
            raise FsckError(f"snapshot-{snapshot_id} says id {snapshot['id']}")
        identity = (snapshot["commitUser"], snapshot["commitIdentifier"], snapshot["commitKind"])
        if identity in seen_commits and snapshot["commitIdentifier"] != 2**63 - 1:
            raise FsckError(f"commit {identity} is there twice (again in {snapshot_id})")
        seen_commits.add(identity)
        if newest_only and snapshot_id != ids[-1]:
            continue
        live = {}
        for list_name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
            list_path = f"{location}/manifest/{list_name}"
            if list_path not in files:
                raise FsckError(f"snapshot {snapshot_id}: manifest list {list_name} is missing")
            for manifest in _avro(fileio, list_path):
                name = manifest["_FILE_NAME"]
                path = f"{location}/manifest/{name}"
                if files.get(path) != manifest["_FILE_SIZE"]:
                    raise FsckError(
                        f"snapshot {snapshot_id}: manifest {name} is missing or resized"
                    )
                if name not in manifests:
                    manifests[name] = _avro(fileio, path)
                entries = manifests[name]
                adds = sum(e["_KIND"] == 0 for e in entries)
                if (adds, len(entries) - adds) != (
                    manifest["_NUM_ADDED_FILES"],
                    manifest["_NUM_DELETED_FILES"],
                ):
                    raise FsckError(f"manifest {name}: counts in the list are wrong")
                for entry in entries:
                    file = entry["_FILE"]
                    key = (
                        entry["_PARTITION"],
                        entry["_BUCKET"],
                        file["_LEVEL"],
                        file["_FILE_NAME"],
                    )
                    if entry["_KIND"] == 0:
                        if key in live:
                            raise FsckError(f"snapshot {snapshot_id}: {key} added twice")
                        live[key] = file
                    elif key not in live:
                        raise FsckError(f"snapshot {snapshot_id}: {key} deleted but not live")
                    else:
                        del live[key]
        total = sum(f["_ROW_COUNT"] for f in live.values())
        if total != snapshot["totalRecordCount"]:
            said = snapshot["totalRecordCount"]
            raise FsckError(f"snapshot {snapshot_id}: totalRecordCount {said} != {total}")
        for (_, _, _, name), file in live.items():
            found = by_name.get(name, [])
            if len(found) != 1 or found[0][1] != file["_FILE_SIZE"]:
                raise FsckError(f"snapshot {snapshot_id}: data file {name} missing or resized")
            lost = [extra for extra in file["_EXTRA_FILES"] if extra not in by_name]
            if lost:
                raise FsckError(f"snapshot {snapshot_id}: {lost} of data file {name} missing")
            if read_data and name not in checked:
                checked.add(name)
                _check_data_file(fileio, found[0][0], file, order=_order_of(fileio, location, file))
        if not any(_order_of(fileio, location, file) for file in live.values()):
            _check_levels(snapshot_id, live)
        if snapshot_id not in untold:
            _check_changelog(fileio, location, snapshot, by_name, read_data=read_data)
    if read_data and snapshot.get("indexManifest"):
        _check_index(fileio, location, snapshot["indexManifest"], live, by_name)
    return len(live)


def _check_changelog(fileio, location: str, snapshot, by_name, *, read_data: bool) -> None:
    """The changelog's files are there, its counts true, and its keys in order."""
    list_name, rows = snapshot["changelogManifestList"], 0
    for manifest in () if list_name is None else _avro(fileio, f"{location}/manifest/{list_name}"):
        entries = _avro(fileio, f"{location}/manifest/{manifest['_FILE_NAME']}")
        if (len(entries), 0) != (manifest["_NUM_ADDED_FILES"], manifest["_NUM_DELETED_FILES"]):
            raise FsckError(f"snapshot {snapshot['id']}: counts of its changelog are wrong")
        for entry in entries:
            file = entry["_FILE"]
            name = file["_FILE_NAME"]
            rows += file["_ROW_COUNT"]
            if name.startswith("compacted-changelog-"):
                _check_part(by_name, name, file["_FILE_SIZE"])
                continue
            found = by_name.get(name, [])
            if len(found) != 1 or found[0][1] != file["_FILE_SIZE"]:
                raise FsckError(f"snapshot {snapshot['id']}: changelog file {name} is missing")
            if read_data:
                _check_data_file(fileio, found[0][0], file, changelog=True)
    if rows != (snapshot["changelogRecordCount"] or 0):
        said = snapshot["changelogRecordCount"]
        raise FsckError(f"snapshot {snapshot['id']}: changelogRecordCount {said} != {rows}")


def _check_part(by_name, name: str, size: int) -> None:
    """A part of a file of several buckets lies within that file."""
    stem, _, suffix = name.rpartition(".")
    uuid, _, numbers = stem.partition("$")
    bucket, first, *rest = map(int, numbers.split("-"))
    offset, length = rest or (0, first)
    found = by_name.get(f"{uuid}${bucket}-{first}.{suffix}", [])
    if len(found) != 1 or length != size or offset + length > found[0][1]:
        raise FsckError(f"changelog {name} does not lie within a file")


def _check_index(fileio, location: str, name: str, live, by_name) -> None:
    """Each key is in one bucket of its partition, and each bucket's index has as many hashes."""
    hashes: dict[bytes, set[bytes]] = {}
    counts: dict[tuple[bytes, int], int] = {}
    vectors: set[tuple[bytes, int, str]] = set()
    for entry in _avro(fileio, f"{location}/manifest/{name}"):
        ((path, size),) = by_name[entry["_FILE_NAME"]]
        if entry["_INDEX_TYPE"] == "DELETION_VECTORS":
            if size != entry["_FILE_SIZE"]:
                raise FsckError(f"{path}: {size} bytes are not what the index manifest says")
            for data_file in _check_vectors(fileio.read_bytes(path), path, entry, live):
                if data_file in vectors:
                    raise FsckError(f"{path}: data file {data_file[2]} has two deletion vectors")
                vectors.add(data_file)
            continue
        if (size, size) != (entry["_FILE_SIZE"], 4 * entry["_ROW_COUNT"]):
            raise FsckError(f"{path}: {size} bytes are not what the index manifest says")
        data = fileio.read_bytes(path)
        known = hashes.setdefault(entry["_PARTITION"], set())
        for at in range(0, size, 4):
            if data[at : at + 4] in known:
                raise FsckError(f"{path}: a hash is in two buckets, or twice in one")
            known.add(data[at : at + 4])
        counts[entry["_PARTITION"], entry["_BUCKET"]] = entry["_ROW_COUNT"]
    if not counts:
        return
    keys: dict[tuple[bytes, int], set[tuple]] = {}
    for partition, bucket, _, file_name in live:
        rows = _rows(fileio, by_name[file_name][0][0])
        columns = [rows[c].to_pylist() for c in rows.column_names if c.startswith("_KEY_")]
        keys.setdefault((partition, bucket), set()).update(zip(*columns, strict=True))
    seen: dict[bytes, set[tuple]] = {}
    for (partition, bucket), own in keys.items():
        if len(own) > counts.get((partition, bucket), 0):
            raise FsckError(f"the index of bucket {bucket} has not all of its {len(own)} keys")
        if not own.isdisjoint(seen.setdefault(partition, set())):
            raise FsckError(f"a key of bucket {bucket} is in another bucket too")
        seen[partition] |= own


def _check_vectors(data: bytes, path: str, entry, live):
    """Each vector is whole, of a live data file, and names as many rows of it as it says."""
    if data[0] != 1 or len(entry["_DELETIONS_VECTORS_RANGES"]) != entry["_ROW_COUNT"]:
        raise FsckError(f"{path}: version {data[0]}, or another number of vectors than said")
    rows = {
        (partition, bucket, name): file["_ROW_COUNT"]
        for (partition, bucket, _, name), file in live.items()
    }
    for vector in entry["_DELETIONS_VECTORS_RANGES"]:
        place = (entry["_PARTITION"], entry["_BUCKET"], vector["f0"])
        if place not in rows:
            raise FsckError(f"{path}: a vector is of {vector['f0']}, which is not live")
        at = vector["f1"]
        (size,) = struct.unpack_from(">i", data, at)
        body = data[at + 4 : at + 4 + size]
        if struct.unpack_from(">I", data, at + 4 + size)[0] != zlib.crc32(body):
            raise FsckError(f"{path}: the checksum of the vector of {vector['f0']} is wrong")
        is_64 = body[:4] == bytes.fromhex("d1d33964")
        if size + 8 * is_64 != vector["f2"]:
            raise FsckError(f"{path}: the vector of {vector['f0']} has another length")
        bitmap = body[16:] if is_64 else body[4:]
        count, last = _bitmap(bitmap)
        if count != vector["_CARDINALITY"] or last >= rows[place]:
            raise FsckError(f"{path}: {count} rows up to {last}, said {vector} of {rows[place]}")
        yield place


def _bitmap(data: bytes) -> tuple[int, int]:
    """The cardinality of a roaring bitmap, and no less than its last value."""
    (cookie,) = struct.unpack_from("<I", data)
    if cookie & 0xFFFF == 12347:
        count, at = (cookie >> 16) + 1, 4 + ((cookie >> 16) + 8) // 8
    else:
        count, at = struct.unpack_from("<I", data, 4)[0], 8
    parts = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    return sum(n + 1 for _, n in parts), parts[-1][0] << 16


def _check_levels(snapshot_id, live) -> None:
    levels: dict[tuple, list[dict]] = {}
    for (partition, bucket, level, _), file in live.items():
        if level > 0:
            levels.setdefault((partition, bucket, level), []).append(file)
    for place, files in levels.items():
        if len(files) > 1:
            # key bytes compare only for single fixed-width keys; disjointness is checked on rows by
            # the data check for the rest, so here identical bounds are the sign of an overlap
            bounds = [(f["_MIN_KEY"], f["_MAX_KEY"]) for f in files]
            if len(set(bounds)) != len(bounds):
                raise FsckError(f"snapshot {snapshot_id}: {place} holds files of equal key range")


def _rows(fileio, path: str) -> pa.Table:
    if path.endswith(".avro"):
        return pa.Table.from_pylist(_avro(fileio, path))
    if path.endswith(".orc"):
        return orc.ORCFile(io.BytesIO(fileio.read_bytes(path))).read()
    return pq.ParquetFile(io.BytesIO(fileio.read_bytes(path))).read(use_threads=False)


def _order_of(fileio, location: str, file: dict) -> list[str]:
    """The columns that a file is sorted by if it is not the key (``pk-clustering-override``)."""
    schema = json.loads(fileio.read_bytes(f"{location}/schema/schema-{file['_SCHEMA_ID']}"))
    options = schema["options"]
    if not file["_LEVEL"] or options.get("pk-clustering-override") != "true":
        return []
    return options["clustering.columns"].split(",")


def _rank(value: object) -> tuple:
    """Sorts values as Java does: null, then numbers with -0.0 before 0.0, then NaN."""
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return (0,) if value is None else (1, value)


def _check_data_file(
    fileio, path: str, file: dict, *, changelog: bool = False, order: Sequence[str] = ()
) -> None:
    table = _rows(fileio, path)
    if table.num_rows != file["_ROW_COUNT"]:
        raise FsckError(f"{path}: {table.num_rows} rows, manifest says {file['_ROW_COUNT']}")
    if "_SEQUENCE_NUMBER" not in table.column_names:
        return
    sequence = table["_SEQUENCE_NUMBER"].to_pylist()
    if (min(sequence), max(sequence)) != (
        file["_MIN_SEQUENCE_NUMBER"],
        file["_MAX_SEQUENCE_NUMBER"],
    ):
        raise FsckError(f"{path}: sequence range differs from the manifest's")
    deletes = sum(k in (1, 3) for k in table["_VALUE_KIND"].to_pylist())
    if file["_DELETE_ROW_COUNT"] is not None and deletes != file["_DELETE_ROW_COUNT"]:
        raise FsckError(f"{path}: {deletes} deletes, manifest says {file['_DELETE_ROW_COUNT']}")
    if "/bucket-postpone/" in path:
        return  # rows wait there as they came
    key_names = [c for c in table.column_names if c.startswith("_KEY_")]
    keys = list(zip(*(table[c].to_pylist() for c in key_names), strict=True))
    if order:
        ranks = [
            tuple(map(_rank, row))
            for row in zip(*(table[c].to_pylist() for c in order), strict=True)
        ]
        if ranks != sorted(ranks) or deletes:
            raise FsckError(f"{path}: rows are not sorted by {order}, or deletes are among them")
        keys.sort()
    if keys != sorted(keys) or (len(set(keys)) != len(keys) and not changelog):
        raise FsckError(f"{path}: keys are not sorted and unique")
