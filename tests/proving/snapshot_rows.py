"""The rows of a snapshot as its files say, read as JSON, Avro and Parquet directly, not by us.

Every live file counts, whatever its level: what deletion vectors mark is left out, and the rows of
a key are merged by plain Python (:mod:`proving.one_key`). So a commit is seen here wholly as soon
as its snapshot is there. Rows of the postpone bucket wait, and are not seen.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proving.fsck import _avro, _rows
from proving.model import Row, sorted_rows
from proving.one_key import merged

POSTPONE = -2
DECODED_MAX = 5000
"""Files that are kept decoded."""
KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class LiveFile:
    """A data file of a snapshot."""

    level: int
    name: str
    directory: str


@dataclass(frozen=True)
class TableKind:
    """What of a table decides how its rows are merged."""

    keys: Sequence[str] = ()
    columns: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    sequence: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def constant(self) -> tuple[str, ...]:
        """Columns that all rows of a key have the same values of."""
        return tuple(dict.fromkeys((*self.partition_keys, *self.keys)))


class SnapshotReader:
    """Reads snapshots of one table; what was decoded is kept, for names are never used twice.

    Parameters
    ----------
    files
        A storage: ``read_bytes`` and ``list_dir`` are used.
    location : str
        The table's directory.
    kind : TableKind
        How its rows are merged.
    """

    def __init__(self, files, location: str, kind: TableKind) -> None:
        self._files, self._location, self._kind = files, location, kind
        self._decoded: dict[str, list] = {}

    def of(self, files) -> SnapshotReader:
        """The same of a copy of the storage; what was decoded is shared."""
        made = SnapshotReader(files, self._location, self._kind)
        made._decoded = self._decoded
        return made

    def document(self, path: str) -> dict:
        """A snapshot or tag, by its path below the table."""
        return json.loads(self._files.read_bytes(f"{self._location}/{path}"))

    def delta(self, document: dict) -> list[tuple[int, int, str]]:
        """What a snapshot adds (0) and removes (1): kind, bucket and name of each file."""
        return [
            (entry["_KIND"], entry["_BUCKET"], entry["_FILE"]["_FILE_NAME"])
            for entry in self._entries(document["deltaManifestList"])
        ]

    def rows(self, document: dict) -> list[Row]:
        """All rows of a snapshot, sorted."""
        kind = self._kind
        if len(self._decoded) > DECODED_MAX:
            self._decoded.clear()
        marked = self._marked(document)
        found: list[_Version] = []
        for file in self._live(document):
            gone = marked.get(file.name, frozenset())
            found += (v for at, v in enumerate(self._versions(file)) if at not in gone)
        if not kind.keys:
            return sorted_rows(version.row for version in found)
        by_key: dict[tuple, list[_Version]] = {}
        for version in found:
            by_key.setdefault(tuple(version.row[k] for k in kind.constant), []).append(version)
        rows = (_merged(own, kind) for own in by_key.values())
        return sorted_rows(row for row in rows if row is not None)

    def _versions(self, file: LiveFile) -> list[_Version]:
        key = f"{file.level} {file.name}"
        if key not in self._decoded:
            kind = self._kind
            table = _rows(self._files, f"{file.directory}/{file.name}")
            rows = table.select(kind.columns).to_pylist()
            if kind.keys:
                orders = zip(table["_SEQUENCE_NUMBER"].to_pylist(), rows, strict=True)
                self._decoded[key] = [
                    _Version((*_order(row, kind), sequence), KINDS[number], row, file.level)
                    for (sequence, row), number in zip(
                        orders, table["_VALUE_KIND"].to_pylist(), strict=True
                    )
                ]
            else:
                self._decoded[key] = [_Version((), "+I", row, file.level) for row in rows]
        return self._decoded[key]

    def _avro(self, path: str) -> list[dict]:
        if path not in self._decoded:
            self._decoded[path] = _avro(self._files, f"{self._location}/{path}")
        return self._decoded[path]

    def _entries(self, list_name: str) -> Iterator[dict]:
        for manifest in self._avro(f"manifest/{list_name}"):
            yield from self._avro(f"manifest/{manifest['_FILE_NAME']}")

    def _live(self, document: dict) -> list[LiveFile]:
        live: dict[tuple, None] = {}
        for name in (document["baseManifestList"], document["deltaManifestList"]):
            for entry in self._entries(name):
                file = entry["_FILE"]
                key = (entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
                if entry["_KIND"] == 0:
                    live[key] = None
                else:
                    del live[key]
        where = self._where() if live else {}
        found = []
        for _, bucket, level, name in live:
            if bucket == POSTPONE:
                continue
            if name not in where:
                raise FileNotFoundError(f"data file {name} of snapshot {document['id']} is gone")
            found.append(LiveFile(level, name, where[name]))
        return found

    def _where(self) -> dict[str, str]:
        """The directory of each data file."""
        places, where = [self._location], {}
        for name in self._kind.partition_keys:
            places = [
                f"{place}/{status.name}"
                for place in places
                for status in self._files.list_dir(place)
                if status.is_dir and status.name.startswith(f"{name}=")
            ]
        for place in places:
            for bucket in self._files.list_dir(place):
                if bucket.is_dir and bucket.name.startswith("bucket-"):
                    directory = f"{place}/{bucket.name}"
                    names = (status.name for status in self._files.list_dir(directory))
                    where.update(dict.fromkeys(names, directory))
        return where

    def _marked(self, document: dict) -> dict[str, frozenset[int]]:
        """Positions of the rows that deletion vectors mark, by data file."""
        name = document.get("indexManifest")
        marked: dict[str, frozenset[int]] = {}
        for entry in self._avro(f"manifest/{name}") if name else ():
            if entry["_INDEX_TYPE"] != "DELETION_VECTORS":
                continue
            data = self._files.read_bytes(f"{self._location}/index/{entry['_FILE_NAME']}")
            for vector in entry["_DELETIONS_VECTORS_RANGES"]:
                at = vector["f1"]
                (size,) = struct.unpack_from(">i", data, at)
                marked[vector["f0"]] = frozenset(_positions(data[at + 4 : at + 4 + size]))
        return marked


@dataclass(frozen=True)
class _Version:
    """A row of a key, as it lies in a file."""

    order: tuple
    kind: str
    row: Row
    level: int


def _order(row: Row, kind: TableKind) -> tuple:
    sign = -1 if kind.options.get("sequence.field.sort-order") == "descending" else 1
    order: list = []
    for name in kind.sequence:
        order += [row[name] is not None, sign * (row[name] or 0)]
    return tuple(order)


def _merged(own: list[_Version], kind: TableKind) -> Row | None:
    options = kind.options
    engine = options.get("merge-engine", "deduplicate")
    looks_up = {
        options.get("changelog-producer") == "lookup",
        options.get("deletion-vectors.enabled") == "true",
        options.get("force-lookup") == "true",
    }
    if True in looks_up:  # what a compaction wrote has all beneath in it, which stays there
        least = min((v.level for v in own if v.level), default=0)
        own = [v for v in own if v.level in (0, least)]
    own = sorted(own, key=lambda version: version.order)
    if engine == "deduplicate":
        return own[-1].row if own[-1].kind in ("+I", "+U") else None
    if engine == "first-row":
        return own[0].row
    last, row = merged([(v.kind, v.row) for v in own], options, keys=kind.constant)
    return {name: row[name] for name in kind.columns} if last == "+I" else None


def _positions(body: bytes):
    """The numbers of a deletion vector of 32 or 64 bits."""
    if body[:4] != bytes.fromhex("d1d33964"):
        yield from _bitmap32(body, 4)[0]
        return
    (count,) = struct.unpack_from("<q", body, 4)
    at = 12
    for _ in range(count):
        (high,) = struct.unpack_from("<I", body, at)
        numbers, at = _bitmap32(body, at + 4)
        yield from (high << 32 | number for number in numbers)


def _bitmap32(data: bytes, at: int) -> tuple[list[int], int]:
    """The numbers of a roaring bitmap that begins at a place, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    runs = b""
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        runs = data[at + 4 : at + 4 + size]
        at += 4 + size
    else:
        (count,) = struct.unpack_from("<I", data, at + 4)
        at += 8
    heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count  # where each container begins: they follow each other
    numbers: list[int] = []
    for i, (high, less) in enumerate(heads):
        if runs and runs[i // 8] >> (i % 8) & 1:
            (pairs,) = struct.unpack_from("<H", data, at)
            at += 2
            for _ in range(pairs):
                first, more = struct.unpack_from("<HH", data, at)
                at += 4
                numbers += range(high << 16 | first, (high << 16 | first) + more + 1)
        elif less + 1 > 4096:
            bits = int.from_bytes(data[at : at + 8192], "little")
            at += 8192
            numbers += (high << 16 | n for n in range(65536) if bits >> n & 1)
        else:
            lows = struct.unpack_from(f"<{less + 1}H", data, at)
            at += 2 * (less + 1)
            numbers += (high << 16 | low for low in lows)
    return numbers, at
