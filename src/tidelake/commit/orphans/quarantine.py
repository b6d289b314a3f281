"""The quarantine of a table: the orphan files that wait for their removal.

::

    <table>/quarantine/files-<uuid>   files that one run of the job found
                       kept-<uuid>    files that a user wants to keep
                       removal-<uuid> files that a run removes now
                       clock-<uuid>   a run that measures the storage's clock

The files themselves stay where they are: a name in here is all (ADR 0114). A manifest holds at most
:data:`FILES_MAX` of them, each as ``[path, bytes, time of its last change]``, and the tags and
branches that the table had. All files are written once. When a manifest was written, the storage
says, so that no clock of another machine counts. Java Paimon looks at no directory of this name.

A run writes down what it removes next, and then reads what is to stay. A user writes down what is
to stay, and then reads what is being removed. So at least one of them meets the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from tidelake.commit.orphans.directories import FILES
from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import FileIO
from tidelake.metadata.log.json_file import parse_json
from tidelake.telemetry import Ids
from tidelake.types.json_checksum import with_checksum

VERSION = 1  # on disk: never renumber
FILES_PREFIX, KEPT_PREFIX = "files-", "kept-"
REMOVAL_PREFIX, CLOCK_PREFIX = "removal-", "clock-"
FILES_MAX = 50_000
"""Files of a manifest: some 8 MB of JSON, which is read whole."""
CLOCK_LEFT_MS = 86_400_000
"""Age at which a file that only a running job needs is removed: its run was killed."""


@dataclass(frozen=True, slots=True)
class QuarantineManifest:
    """What one run put into quarantine.

    Parameters
    ----------
    written_ms : int
        When it was written, by the storage's clock.
    files : pyarrow.Table
        With the columns of :data:`FILES`.
    tags, branches : frozenset of str
        Those that the table had.
    """

    name: str
    written_ms: int
    files: pa.Table
    tags: frozenset[str]
    branches: frozenset[str]


class OrphanQuarantine:
    """The quarantine of one table."""

    def __init__(self, fileio: FileIO, location: str, ids: Ids) -> None:
        self._fileio = fileio
        self.directory = f"{location}/quarantine"
        self._ids = ids

    def manifests(self) -> list[QuarantineManifest]:
        """Read all manifests, the oldest first.

        Raises
        ------
        CorruptError
            One is damaged. It holds nothing but names: delete it.
        """
        found = []
        for status in self._fileio.list_dir(self.directory):
            if status.name.startswith(FILES_PREFIX):
                document = self._read(status.name)
                if document is not None:
                    found.append(_manifest(document, status.name, status.modified_ms, self))
        return sorted(found, key=lambda m: (m.written_ms, m.name))

    def add(self, files: pa.Table, *, tags: Collection[str], branches: Collection[str]) -> None:
        """Write files down, in as many manifests as they need."""
        for start in range(0, files.num_rows, FILES_MAX):
            columns = files.slice(start, FILES_MAX).to_pydict()
            rows = [list(row) for row in zip(*columns.values(), strict=True)]
            document = {
                "version": VERSION,
                "tags": sorted(tags),
                "branches": sorted(branches),
                "files": rows,
            }
            self._write(FILES_PREFIX, document)

    def remove(self, manifest: QuarantineManifest) -> None:
        """Remove a manifest whose files are gone, or named again."""
        self._fileio.delete(f"{self.directory}/{manifest.name}")

    def keep(self, paths: Sequence[str]) -> None:
        """Write down files that are to stay, whatever names them."""
        self._write(KEPT_PREFIX, {"version": VERSION, "paths": sorted(paths)})

    def kept(self) -> frozenset[str]:
        """The files that are to stay."""
        return self._paths_in(KEPT_PREFIX)

    @contextmanager
    def removal(self, paths: Sequence[str]) -> Iterator[None]:
        """Say that some files are removed in this block; what is kept must be read within it.

        If the block fails, or its process is killed, that stays written down for a day.
        """
        name = self._write(REMOVAL_PREFIX, {"version": VERSION, "paths": sorted(paths)})
        yield
        with suppress(StorageError):
            self._fileio.delete(self._path(name))

    def being_removed(self) -> frozenset[str]:
        """The files that runs remove now, or removed when they were killed."""
        return self._paths_in(REMOVAL_PREFIX)

    def _paths_in(self, prefix: str) -> frozenset[str]:
        paths: set[str] = set()
        for status in self._fileio.list_dir(self.directory):
            if status.name.startswith(prefix):
                document = self._read(status.name)
                if document is not None:
                    paths.update(_texts(document, "paths", self._path(status.name)))
        return frozenset(paths)

    def storage_now_ms(self) -> int:
        """What the storage's clock says: the time of a file that is written now.

        Raises
        ------
        StorageError
            The storage failed, or its listing is old.
        """
        name = f"{CLOCK_PREFIX}{self._ids.uuid()}"
        self._fileio.write_once(self._path(name), b"")
        times = {s.name: s.modified_ms for s in self._fileio.list_dir(self.directory)}
        now_ms = times.get(name)
        if now_ms is None:
            message = f"The listing of {self.directory} lacks a file that was just written there."
            raise StorageError(message, kind="stale_listing", path=self.directory)
        self._fileio.delete(self._path(name))
        for other, written_ms in times.items():
            of_run = other.startswith((CLOCK_PREFIX, REMOVAL_PREFIX))
            if of_run and written_ms < now_ms - CLOCK_LEFT_MS:
                self._fileio.delete(self._path(other))
        return now_ms

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def path_of(self, name: str) -> str:
        """The path of a file of the quarantine."""
        return self._path(name)

    def _write(self, prefix: str, document: dict[str, object]) -> str:
        """Write a file, and return its name."""
        name = f"{prefix}{self._ids.uuid()}"
        data = json.dumps(with_checksum(document), ensure_ascii=False).encode()
        self._fileio.write_once(self._path(name), data)
        return name

    def _read(self, name: str) -> dict[str, object] | None:
        """A file's document; None if another run has removed it."""
        path = self._path(name)
        try:
            document = parse_json(self._fileio.read_bytes(path), path=path)
        except NotFoundError:
            return None
        version = document.get("version")
        if version != VERSION:
            raise _damaged(path, f"its version is {version!r}, not {VERSION}")
        return document


def _manifest(
    document: dict[str, object], name: str, written_ms: int, quarantine: OrphanQuarantine
) -> QuarantineManifest:
    path = quarantine.path_of(name)
    rows = document.get("files")
    try:
        if not isinstance(rows, list):
            raise TypeError("'files' is no list")
        columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
        files = pa.table(list(map(list, columns)), schema=FILES)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from error
    tags, branches = (frozenset(_texts(document, key, path)) for key in ("tags", "branches"))
    return QuarantineManifest(name, written_ms, files, tags, branches)


def _texts(document: dict[str, object], key: str, path: str) -> Iterator[str]:
    found = document.get(key)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _damaged(path, f"'{key}' is no list of texts")
    yield from found


def _damaged(path: str, why: str) -> CorruptError:
    message = (
        f"File {path} of the quarantine cannot be read: {why}. It holds names of files only: delete"
        " it, and the next run finds them again."
    )
    return CorruptError(message, kind="quarantine_file", path=path)
