"""Damage, byte by byte: each file of a table with a bit flipped, or cut short, at every place.

A damaged table is opened and read in every way. What comes must be the truth, or an error of ours
that names the file; anything else is a :class:`DamageViolation`: other rows, an error of a library,
a read that takes too long or too much memory.

There are several small tables (:data:`TABLES`), which together have every kind of file that a
table of this version has: schema, snapshots, hints, a tag, manifest lists, manifests, index
manifests, hash indexes, deletion vectors, side-car file indexes, and data files in each format.

Three formats have no checksums: ORC, side-car file indexes and hash indexes. There a bit may change
rows unseen; that is counted apart, and is a violation everywhere else.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import tidelake
from proving.fsck import walk
from proving.world import LOCATION, NAME, Shape, arrow_of, open_catalog
from tidelake.errors import TidelakeError
from tidelake.fileio import MemoryFileIO

SECONDS_MAX = 20
"""Of one read; a sound one takes a few milliseconds."""
MEMORY_BYTES_MAX = 256 << 20
"""By which the process may grow while all files of a kind are damaged."""
INDEX = ".index"
KINDS = (
    "schema-", "snapshot-", "LATEST", "EARLIEST", "tag-", "manifest-list-", "manifest-",
    "index-manifest-", "index-", INDEX, "data-",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of file of one of the tables."""

    table: str
    begins: str
    has_checksums: bool = True

    def __str__(self) -> str:
        return f"{self.table} {self.begins}"


TABLES: dict[str, dict[str, str]] = {
    "parquet": {"bucket": "1"},
    "orc": {"bucket": "1", "file.format": "orc"},
    "avro": {"bucket": "1", "file.format": "avro"},
    "indexed": {
        "bucket": "1",
        "file-index.range-bitmap.columns": "k",
        "file-index.bitmap.columns": "v",
        "file-index.bloom-filter.columns": "n",
        "file-index.bloom-filter.n.items": "20",
        "file-index.in-manifest-threshold": "0 b",
    },
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "marked": {"deletion-vectors.enabled": "true"},
    "marked64": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
}
_OF_OTHERS = {"index-manifest-", "index-", INDEX}
CHECKED = (
    *(Kind("parquet", begins) for begins in KINDS if begins not in _OF_OTHERS),
    Kind("orc", "data-", has_checksums=False),
    Kind("avro", "data-"),
    Kind("indexed", INDEX, has_checksums=False),
    Kind("dynamic", "index-manifest-"),
    Kind("dynamic", "index-", has_checksums=False),
    Kind("marked", "index-manifest-"),
    Kind("marked", "index-"),
    Kind("marked64", "index-"),
)  # fmt: skip


class DamageViolation(AssertionError):
    """Damage gave something else than the truth or a clear error."""


@dataclass(frozen=True)
class World:
    """A sound table: its files, what it reads, and whether to write to it is a way to read."""

    files: dict[str, bytes]
    truth: tuple[object, ...]
    writes: bool = False

    def of_kind(self, kind: str) -> list[str]:
        """Paths of the files of a kind, smallest first."""
        names = [p for p in self.files if kind_of(p) == kind]
        return sorted(names, key=lambda p: (len(self.files[p]), p))


def kind_of(path: str) -> str:
    """The kind of a file by its name."""
    name = path.rpartition("/")[2]
    return INDEX if name.endswith(INDEX) else next(k for k in KINDS if name.startswith(k))


def sound_table(name: str = "parquet") -> World:
    """Make one of the tables."""
    marked = "deletion-vectors.enabled" in TABLES[name]
    keys = () if marked else ("p", "k")
    shape = Shape(keys, ("p",), None, tuple(TABLES[name].items()))
    fileio = MemoryFileIO()
    shape.create(open_catalog(fileio, 1))
    table = open_catalog(fileio, 2).table(NAME)
    rows = [
        {"p": "ab"[i % 2], "k": i, "v": f"v{i}", "n": i, "x": None if i % 3 else i / 7}
        for i in range(8)
    ]
    table.write(arrow_of(shape, rows))
    table.tags.create("first")
    table.write(arrow_of(shape, [{**r, "v": "new"} for r in rows[::3]]))
    if marked:
        table.delete("v in ('v1', 'v4', 'new') and k < 6")
        table.delete("v = 'v2'")
    files = {path: fileio.read_bytes(path) for path, _ in walk(fileio, LOCATION)}
    writes = name == "dynamic"  # its index is read by writers alone
    return World(files, _everything(fileio, writes=writes), writes)


def _everything(fileio: MemoryFileIO, *, writes: bool) -> tuple[object, ...]:
    """All that a table says: rows now, by snapshot and tag, pruned, counted, after an upsert."""
    table = open_catalog(fileio, 3).table(NAME)
    return (
        table.to_arrow().to_pylist(),
        table.to_arrow(snapshot_id=1).to_pylist(),
        table.to_arrow(tag="first").to_pylist(),
        table.to_arrow(where="k >= 3 and p = 'a'").to_pylist(),
        table.to_arrow(where="n = 5").to_pylist(),
        table.to_arrow(where="v = 'new'").to_pylist(),
        table.count(),
        _after_upsert(table) if writes else None,
    )


def _after_upsert(table: tidelake.Table) -> list[dict[str, object]]:
    rows = [{"p": "ab"[k % 2], "k": k, "v": "upsert", "n": None, "x": None} for k in range(10)]
    table.write(rows)
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row["k"], row["v"]))


def damages(data: bytes, *, step: int = 1) -> Iterator[tuple[str, bytes]]:
    """Each place (or each ``step``-th) with a bit flipped, and the data cut off there."""
    for at in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        yield f"bit {at % 8} of byte {at} flipped", bytes(flipped)
        yield f"cut to {at} bytes", data[:at]
    yield "followed by another byte", data + b"\0"


def check(
    world: World, path: str, what: str, data: bytes | None, *, has_checksums: bool = True
) -> str:
    """Read the table with one file damaged (None: gone): ``truth``, ``error`` or ``unseen``."""
    fileio = MemoryFileIO()
    for name, sound in world.files.items():
        content = data if name == path else sound
        if content is not None:
            fileio.write_once(name, content)
    where = f"{path.rpartition('/')[2]}, {what}"
    begun = time.monotonic()
    try:
        found = _everything(fileio, writes=world.writes)
    except TidelakeError as error:
        _check_named(world, path, where, error)
        return "error"
    except Exception as error:
        raise DamageViolation(f"{where}: a bare {type(error).__name__}: {error}") from error
    finally:
        took = time.monotonic() - begun
        if took > SECONDS_MAX:
            raise DamageViolation(f"{where}: reading took {took:.0f} s")
    if found == world.truth:
        return "truth"
    if has_checksums or data is None or len(data) != len(world.files[path]):
        raise DamageViolation(f"{where}: other rows, and no error")
    return "unseen"


def _check_named(world: World, path: str, where: str, error: TidelakeError) -> None:
    """The error names the damaged file, or, of a reference that was damaged, the file it is in."""
    if path.rpartition("/")[2] in str(error) or path in str(error.context):
        return
    raise DamageViolation(f"{where}: the error does not name it: {error}")


def check_kind(world: World, kind: Kind, *, step: int = 1) -> dict[str, int]:
    """Damage the files of a kind at every ``step``-th place; how often each outcome came.

    All of them are of one making: the smallest and the largest stand for the rest.
    """
    paths = world.of_kind(kind.begins)
    outcomes = {"truth": 0, "error": 0, "unseen": 0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in dict.fromkeys((paths[0], paths[-1])):
        for what, data in damages(world.files[path], step=step):
            outcomes[check(world, path, what, data, has_checksums=kind.has_checksums)] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > MEMORY_BYTES_MAX:
        raise DamageViolation(f"{kind}: the process grew by {grown >> 20} MiB")
    return outcomes
