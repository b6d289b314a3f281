"""Snapshots: one JSON file per committed version of the table, ``snapshot/snapshot-<N>``.

What a snapshot file says is in :class:`Snapshot`; which ones there are is in :class:`SnapshotLog`:

1. Ids begin at 1 and have no gaps between the oldest that is kept and the newest. A snapshot file
   is created by put-if-absent and never changed.
2. The files LATEST and EARLIEST hold an id as text. They save a listing, never decide, and are
   believed only as far as the snapshots themselves bear them out: LATEST if its snapshot is there
   and the next one is not, EARLIEST if its snapshot is there. A hint that is missing, behind,
   ahead or garbage costs a listing.
3. A listing may be old (object stores): from the largest id found the ids after it are tried.
4. Hints are written after their snapshot, by whoever is slow perhaps long after it: others may have
   rolled the table back by then. So who wrote LATEST looks whether the snapshot is still there, and
   if it is not, lets the hint name the newest that is. A rollback moves the hint before it removes
   snapshots and once more after it, so whichever of the two comes last mends it; a hint that a
   killed process left ahead is mended by the next commit or rollback. Readers of Java's take a
   hint that is ahead at its word, so this matters to them. EARLIEST is made by the first commit and
   moved by whoever removes the oldest snapshots, so the first commit writes it over nothing.

A newest snapshot that is lost (deleted by hand, or missing in a copy of the files) is therefore not
noticed by a hint that names it: what is left is the table, and the next commit takes the id. A
hint that is ahead was an error until it showed that every slow writer beside a rollback makes one.
After a power loss it cannot be: the snapshot's name is durable before the hint is written.

Source: ``docs/format/snapshot.md``; files written by Java Paimon 1.3.1 and 2.1. The file is written
so that all three read it: all keys of 1.3.1, in its order, `null` where it writes null.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tidelake.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from tidelake.fileio import SMALL_FILE_BYTES_MAX, FileIO, OpenDirectory
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import Executor
from tidelake.types.json_checksum import check_and_drop, with_checksum

__all__ = ["BATCH_IDENTIFIER", "CommitKind", "Snapshot", "SnapshotLog"]

SNAPSHOT_VERSION = 3  # on disk: never renumber
BATCH_IDENTIFIER = 2**63 - 1
"""Commit identifier of every batch write, as Paimon has it: it tells nothing apart."""

JSON_BYTES_MAX = SMALL_FILE_BYTES_MAX
HINT_BYTES_MAX = 32
PROBES_MAX = 10_000
"""Ids tried one by one after an old listing, before the storage is called inconsistent."""
HINT_PROBES_MAX = 32
"""Ids tried one by one after the hint, before the directory is listed."""
HINT_TRIES = 3
"""Times that a hint is written whose snapshot is gone when it is looked for."""
READ_BATCH_MAX = 64
"""Snapshot files that are read at once where many are looked through."""
LATEST_TRIES = 3
"""The newest snapshot may be rolled back between finding and reading it."""


_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""A name that every JSON writer spells alike."""


class CommitKind(enum.StrEnum):
    """What a snapshot did (on disk: never rename)."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the table. Field order is the order on disk.

    Parameters
    ----------
    id : int
        Number of the snapshot, from 1.
    schema_id : int
        The table's newest schema when it was committed.
    base_manifest_list, delta_manifest_list : str
        File names: the state before this commit, and what it changed.
    commit_user, commit_identifier, commit_kind
        Who committed what; together they are applied at most once.
    time_ms : int
        When, ms since the epoch; never smaller than the snapshot's before.
    total_record_count, delta_record_count : int, optional
        Physical rows of the state, and by how many this commit changed them.
    extra : mapping
        Keys that this version does not know, as they were read.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    base_manifest_list_size_bytes: int | None = None
    delta_manifest_list_size_bytes: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size_bytes: int | None = None
    index_manifest: str | None = None
    log_offsets: Mapping[str, int] = field(default_factory=_empty)
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    uuid: str | None = None
    writer_version: str | None = None
    operation: str | None = None
    extra: Mapping[str, Any] = field(default_factory=_empty)

    def to_document(self) -> dict[str, Any]:
        """The snapshot as the JSON object of its file."""
        document: dict[str, Any] = {"version": SNAPSHOT_VERSION}
        for name, key in _KEYS.items():
            value = getattr(self, name)
            if value is not None or name in _ALWAYS:
                document[key] = dict(value) if isinstance(value, Mapping) else value
        return document | dict(self.extra)

    def to_json(self) -> str:
        """The text of the snapshot file.

        Examples
        --------
        >>> kind = CommitKind.APPEND
        >>> s = Snapshot(1, 0, "list-a-0", "list-a-1", "me", 7, kind, time_ms=0)
        >>> Snapshot.from_json(s.to_json()) == s
        True
        """
        return json.dumps(with_checksum(self.to_document()), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str = "snapshot") -> Snapshot:
        """Read a snapshot file.

        Parameters
        ----------
        text : str or bytes
            The file's content.
        path : str
            The file, for messages.

        Raises
        ------
        CorruptError
            The text is no snapshot; the file is named.
        UnsupportedError
            Its version is newer than this library knows.
        """
        return cls.from_document(parse_json(text, path=path), path=path)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, path: str) -> Snapshot:
        """Read the JSON object of a snapshot file; see :meth:`from_json`."""
        try:
            version = _number(document.get("version", SNAPSHOT_VERSION), "version")
            if version > SNAPSHOT_VERSION:
                message = (
                    f"Snapshot file {path} has version {version}; this library reads up to"
                    f" {SNAPSHOT_VERSION}. Upgrade tidelake."
                )
                raise UnsupportedError(message, kind="snapshot_version", path=path)
            known = {name: _value(name, document.get(key)) for name, key in _KEYS.items()}
            extra = {k: v for k, v in document.items() if k not in _KNOWN_KEYS}
            return cls(**known, extra=MappingProxyType(extra))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"Snapshot file {path} cannot be read: {error!r}. Restore it from a backup."
            raise CorruptError(message, kind="snapshot_file", path=path) from error

    def __reduce__(self) -> tuple[object, ...]:
        # MappingProxyType does not pickle; snapshots travel to Spark executors.
        return (Snapshot.from_json, (self.to_json(),))


_KEYS = {
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size_bytes": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size_bytes": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size_bytes": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_ms": "timeMillis",
    "log_offsets": "logOffsets",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
"""Field to key of the file, in the file's order (on disk: never rename)."""
_KNOWN_KEYS = frozenset(_KEYS.values()) | {"version"}
_ALWAYS = frozenset({"changelog_manifest_list"})
"""Written though null, as 1.3.1 does."""
_TEXTS = frozenset({"base_manifest_list", "delta_manifest_list", "commit_user"})
_OPTIONAL_TEXTS = frozenset(
    {"changelog_manifest_list", "index_manifest", "statistics", "uuid", "writer_version"}
) | {"operation"}
_NUMBERS = frozenset({"id", "schema_id", "commit_identifier", "time_ms"})


def _value(name: str, value: Any) -> Any:
    if name == "commit_kind":
        return CommitKind(value)
    if name == "log_offsets":
        return MappingProxyType(dict(value or {}))
    if name == "properties":
        return (
            None if value is None else MappingProxyType({str(k): str(v) for k, v in value.items()})
        )
    if name in _TEXTS or (name in _OPTIONAL_TEXTS and value is not None):
        if not isinstance(value, str):
            raise TypeError(f"{_KEYS[name]} is {value!r}, no text")
        return value
    if name in _NUMBERS or (value is not None and name not in _OPTIONAL_TEXTS):
        return _number(value, _KEYS[name])
    return None


def _number(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} is {value!r}, no whole number")
    return value


def parse_json(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Parse a JSON object of bounded size, and check its checksum if it has one.

    Raises
    ------
    CorruptError
        It is too long, no JSON, no object, or damaged; `path` is named.
    """
    try:
        if len(text) > JSON_BYTES_MAX:
            raise ValueError(f"it has more than {JSON_BYTES_MAX} bytes")
        document = json.loads(text)
        if not isinstance(document, dict):
            raise TypeError("it is no JSON object")
        document = check_and_drop(document)
    except (ValueError, TypeError, RecursionError) as error:
        message = f"File {path} cannot be read: {error}. Restore it from a backup."
        raise CorruptError(message, kind="json_file", path=path) from error
    return document


class SnapshotLog:
    """The snapshots of one table.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    paths : TablePaths
        The table's paths.
    """

    def __init__(self, fileio: FileIO, paths: TablePaths) -> None:
        self._fileio = fileio
        self._paths = paths

    def latest_id(self) -> int | None:
        """Id of the newest snapshot; None where there is none."""
        return self._newest(self._hint(self._paths.latest_hint))

    def _newest(self, hint: int | None) -> int | None:
        if hint is not None and self._exists(hint):
            # ids have no gaps; where others commit the hint is a few behind, and a look at each
            # costs less than a listing of all
            for newest in range(hint, hint + HINT_PROBES_MAX):
                if not self._exists(newest + 1):
                    return newest
        newest = max(self._listed(), default=0)
        oldest = self._hint(self._paths.earliest_hint) if newest == 0 else None
        for known in (hint, oldest):  # a listing may even be empty for a moment
            if known is not None and known > newest and self._exists(known):
                newest = known
        for _ in range(PROBES_MAX):
            if not self._exists(newest + 1):
                return newest or None
            newest += 1
        message = (
            f"The listing of {self._paths.snapshot_dir} lacks more than {PROBES_MAX} snapshots that"
            " are there: the storage is inconsistent. Try again."
        )
        raise StorageError(message, kind="stale_listing", path=self._paths.snapshot_dir)

    def earliest_id(self) -> int | None:
        """Id of the oldest snapshot that is kept; None where there is none."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint):
            return hint
        ids = self._listed()
        if ids:
            return ids[0]
        latest = self.latest_id()  # the listing may be old
        return None if latest is None else self._oldest_before(latest)

    def ids(self) -> list[int]:
        """Ids of the snapshot files, ascending.

        Raises
        ------
        CorruptError
            One between the others is gone; it is named.
        """
        ids = self._listed()
        for before, after in itertools.pairwise(ids):
            # asked once more: snapshots may expire, or be rolled back, while they are listed
            gap = before + 1
            if gap != after and all(map(self._exists, (before, after))) and not self._exists(gap):
                raise self._gap(gap, before, after)
        return ids

    def _listed(self) -> list[int]:
        names = (status.name for status in self._fileio.list_dir(self._paths.snapshot_dir))
        return sorted(i for name in names if (i := numbered(name, "snapshot-")) is not None)

    def load(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot.

        Raises
        ------
        NotFoundError
            It has expired or never was; the ids that are there are named.
        CorruptError
            Its file is damaged.
        """
        path = self._paths.snapshot(snapshot_id)
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError as error:
            raise self._missing(snapshot_id) from error
        return self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)

    def load_told(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot, or the copy of it that is kept for its changelog when it has expired.

        Of such a copy what changed can be read, and the state that it led to cannot.

        Raises
        ------
        NotFoundError
            There is neither.
        CorruptError
            The file is damaged.
        """
        for path in (self._paths.snapshot(snapshot_id), self._paths.changelog(snapshot_id)):
            try:
                data = self._fileio.read_bytes(path)
            except NotFoundError:
                continue
            return self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)
        raise self._missing(snapshot_id)

    def is_told(self, snapshot_id: int) -> bool:
        """Whether a snapshot is there, or has expired and its changelog is kept."""
        kept = self._paths.changelog(snapshot_id)
        return self._exists(snapshot_id) or self._fileio.exists(kept)

    def _checked(self, snapshot: Snapshot, snapshot_id: int, path: str) -> Snapshot:
        if snapshot.id != snapshot_id:
            message = (
                f"Snapshot file {path} says it is snapshot {snapshot.id}: it was put there. Restore"
                " the right one from a backup."
            )
            raise CorruptError(message, kind="snapshot_file", path=path)
        return snapshot

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None on a table without any."""
        for tries in range(LATEST_TRIES):
            latest_id = self.latest_id()
            if latest_id is None:
                return None
            try:
                return self.load(latest_id)
            except NotFoundError:
                if tries == LATEST_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def of_user(
        self, user: str, *, before: int, down_to: int, executor: Executor
    ) -> Iterator[Snapshot]:
        """The snapshots that one user committed, newest first, as far back as they are kept.

        Parameters
        ----------
        user : str
            Commit user.
        before, down_to : int
            Ids: below the one, from the other on.
        executor : Executor
            Reads several files at once.

        Notes
        -----
        A file that does not hold the user's name is read and not parsed: 20 us each on a local
        disk. Files are read in batches, one by one at first: who looks for a recent commit reads
        few.
        """
        needle = user.encode() if _PLAIN_NAME.fullmatch(user) else b""

        def read(snapshot_id: int) -> Snapshot | bool:
            """The snapshot; True if it is another user's, False if there is none."""
            path = self._paths.snapshot(snapshot_id)
            try:
                data = self._fileio.read_bytes(path)
            except NotFoundError:
                return False
            if _is_another_s(data, needle):
                return True
            snapshot = self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)
            return snapshot if snapshot.commit_user == user else True

        count = 1
        newest = before - 1
        while newest >= down_to:
            oldest = max(down_to, newest - count + 1)
            for found in executor.map(read, range(newest, oldest - 1, -1)):
                if found is False:
                    return  # the rest has expired
                if isinstance(found, Snapshot):
                    yield found
            newest, count = oldest - 1, min(2 * count, READ_BATCH_MAX)

    def at_or_before(self, timestamp_ms: int) -> Snapshot:
        """The newest snapshot committed at or before a time.

        Parameters
        ----------
        timestamp_ms : int
            Ms since the epoch.

        Raises
        ------
        NotFoundError
            The time lies before the oldest snapshot that is kept.

        Notes
        -----
        Reads O(log n) snapshots: their times do not fall.
        """
        latest, earliest = self.latest(), self.earliest_id()
        if latest is None or earliest is None:
            message = f"Table {self._paths.location} has no snapshot yet."
            raise NotFoundError(message, kind="snapshot_not_found", timestamp_ms=timestamp_ms)
        if latest.time_ms <= timestamp_ms:
            return latest
        low, high = earliest, latest.id
        found: Snapshot | None = None
        oldest = latest
        while low < high:
            middle = (low + high) // 2
            try:
                snapshot = self.load(middle)
            except NotFoundError:
                low = middle + 1  # it expired meanwhile
                continue
            if snapshot.time_ms <= timestamp_ms:
                found, low = snapshot, middle + 1
            else:
                oldest, high = snapshot, middle
        if found is None:
            message = (
                f"Table {self._paths.location} has no snapshot from {timestamp_ms} ms or before:"
                f" its oldest is {oldest.id}, of {oldest.time_ms} ms."
            )
            raise NotFoundError(message, kind="snapshot_not_found", timestamp_ms=timestamp_ms)
        return found

    def open_dir(self) -> OpenDirectory:
        """Hold the directory of the snapshots, which is made where the table has none yet.

        Raises
        ------
        NotFoundError
            There is no table.
        """
        return self._fileio.open_dir(self._paths.snapshot_dir, make=True)

    def publish(self, snapshot: Snapshot) -> bool:
        """Create a snapshot's file and move the hints; False, and nothing done, if its id is taken.

        Raises
        ------
        StorageError
            The storage failed: the snapshot may or may not be there.
        """
        if not self.put(snapshot):
            return False
        self.write_hints(snapshot.id)
        return True

    def put(self, snapshot: Snapshot, *, within: OpenDirectory | None = None) -> bool:
        """Create a snapshot's file; False if its id is taken.

        Parameters
        ----------
        snapshot : Snapshot
            The snapshot.
        within : OpenDirectory, optional
            Of :meth:`open_dir`: it goes into that directory or nowhere.

        Raises
        ------
        NotFoundError
            That directory was removed.
        StorageRefusedError
            The storage refused; the snapshot is not there.
        StorageError
            The storage failed: the snapshot may or may not be there.
        """
        path, data = self._paths.snapshot(snapshot.id), snapshot.to_json().encode()
        return self._fileio.put_if_absent(path, data, **_within(within))

    def write_hints(self, snapshot_id: int, *, within: OpenDirectory | None = None) -> None:
        """Say in LATEST (and, with the first, in EARLIEST) that this is the newest snapshot.

        Hints are best effort: where writing one fails, readers find the snapshot by themselves.

        Parameters
        ----------
        snapshot_id : int
            The snapshot that was just made, or gone back to.
        within : OpenDirectory, optional
            Where it was put.
        """
        with contextlib.suppress(StorageError, NotFoundError):
            self._write_latest(snapshot_id, within)
        if snapshot_id == 1:
            # others may have come far, and have moved it, since the first snapshot was there
            with contextlib.suppress(StorageError, NotFoundError):
                self._fileio.put_if_absent(self._paths.earliest_hint, b"1", **_within(within))

    def _write_latest(self, snapshot_id: int, within: OpenDirectory | None) -> None:
        """Write LATEST; where its snapshot is gone by then, name the newest that is there."""
        hint = self._paths.latest_hint
        for _ in range(HINT_TRIES):
            self._fileio.replace(hint, str(snapshot_id).encode(), **_within(within))
            if self._fileio.exists(self._paths.snapshot(snapshot_id), **_within(within)):
                return
            newest = self._newest(None)
            if newest is None:
                break
            snapshot_id = newest
        # none is there, or they come and go: no hint is better than one that is ahead
        self._fileio.delete(hint, **_within(within))

    def mend_earliest(self, *, within: OpenDirectory | None = None) -> None:
        """Let EARLIEST name the oldest snapshot that is there, if its own is gone."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is None or self._exists(hint):
            return
        oldest = self.earliest_id()
        with contextlib.suppress(StorageError, NotFoundError):
            if oldest is not None:
                text = str(oldest).encode()
                self._fileio.replace(self._paths.earliest_hint, text, **_within(within))

    def _exists(self, snapshot_id: int) -> bool:
        return self._fileio.exists(self._paths.snapshot(snapshot_id))

    def _oldest_before(self, snapshot_id: int) -> int:
        for _ in range(PROBES_MAX):
            if not self._exists(snapshot_id - 1):
                break
            snapshot_id -= 1
        return snapshot_id

    def _hint(self, path: str) -> int | None:
        try:
            text = self._fileio.read_bytes(path)[:HINT_BYTES_MAX].strip()
        except (NotFoundError, StorageError, CorruptError):
            return None
        return int(text) if text.isdigit() and int(text) > 0 else None

    def _gap(self, snapshot_id: int, before: int, after: int) -> CorruptError:
        path = self._paths.snapshot(snapshot_id)
        message = (
            f"Snapshot file {path} is gone, between snapshots {before} and {after} which are there."
            " Restore it from a backup; the newest snapshot can be read and written without it."
        )
        return CorruptError(message, kind="snapshot_gone", path=path)

    def _missing(self, snapshot_id: int) -> NotFoundError:
        earliest, latest = self.earliest_id(), self.latest_id()
        if earliest is None or latest is None:
            rest = "it has no snapshots yet."
        elif snapshot_id < earliest:
            rest = f"it has expired. Snapshots {earliest} to {latest} can be read."
        else:
            rest = f"snapshots {earliest} to {latest} can be read."
        message = f"Table {self._paths.location} has no snapshot {snapshot_id}: {rest}"
        return NotFoundError(message, kind="snapshot_not_found", snapshot=snapshot_id)


def _within(directory: OpenDirectory | None) -> dict[str, OpenDirectory]:
    """The keyword of a call that may go into a directory that is held."""
    return {} if directory is None else {"within": directory}


def _is_another_s(data: bytes, user: bytes) -> bool:
    """Whether a snapshot file certainly names another user. What looks damaged is to be parsed."""
    text = data.strip()
    is_whole = text.startswith(b"{") and text.endswith(b"}") and b'"commitUser"' in text
    # escaped characters may spell the name otherwise
    return is_whole and user not in text and b"\\" not in text


def numbered(name: str, prefix: str) -> int | None:
    """The number in a name like ``snapshot-12``; None for other names.

    Examples
    --------
    >>> numbered("snapshot-12", "snapshot-"), numbered(".snapshot-12.tmp", "snapshot-")
    (12, None)
    """
    digits = name.removeprefix(prefix)
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else None
