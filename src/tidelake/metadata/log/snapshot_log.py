"""The snapshots of a table: all of them, the newest, the oldest, and the hints.

1. Ids begin at 1 and have no gaps between the oldest that is kept and the newest. A snapshot file
   is created by put-if-absent and never changed.
2. The files LATEST and EARLIEST hold an id as text. They save a listing and never decide. A reader
   believes LATEST if its snapshot is there and the next one is not, EARLIEST if its snapshot is
   there. A hint that is missing, behind, ahead or garbage costs a listing.
3. A listing may be old (object stores): the ids after the largest one found are tried.
4. A hint is written after its snapshot, by a slow writer perhaps long after, when others may have
   rolled the table back. So the writer of LATEST checks that the snapshot still exists; if it does
   not, the hint names the newest that does. A rollback moves the hint before it removes snapshots
   and once more after it, so the last of the two always mends it. The next commit or rollback mends
   a hint that a killed process left ahead. Java's readers believe a hint that is ahead, so this
   matters to them. The first commit makes EARLIEST, over nothing, because others may have moved it
   already; an expiry moves it.

5. A snapshot names its base (:mod:`tidelake.metadata.log.chain`). One that does not follow the
   snapshot before it was published late, after a rollback: it is set aside, with what stands behind
   it. So what LATEST names is read with its predecessor, a remote storage's in the same round.
6. A snapshot before EARLIEST came late, after it had expired, unless the one that EARLIEST names
   follows it without a gap: then an expiry that was killed left it. What came late is passed over.

A hint does not reveal that the newest snapshot was lost (deleted by hand, or missing in a copy of
the files): the snapshots that are left are the table, and the next commit takes the id. A hint that
is ahead is no error, because each slow writer beside a rollback makes one. A power loss makes none:
the snapshot's name is durable before the hint is written.

On an object store a late commit to a dropped table may stand behind the newest snapshot for a
moment, or until somebody removes it. To readers it is not there
(:mod:`tidelake.metadata.log.incarnation`); a commit finds its id taken.

Source: ``docs/format/snapshot.md``; Paimon's ``SnapshotManager`` (1.3.1).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from tidelake.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from tidelake.fileio import FileIO, OpenDirectory, put_new
from tidelake.metadata.at_once import at_once
from tidelake.metadata.log.chain import (
    ROLLBACK,
    follows,
    gap_in,
    link_of,
    may_follow,
    names_base,
    warn_left_behind,
    warn_set_aside,
)
from tidelake.metadata.log.incarnation import Incarnation
from tidelake.metadata.log.snapshot import Snapshot, names_another
from tidelake.metadata.paths import TablePaths, numbered
from tidelake.telemetry import Executor, SerialExecutor

Seen: TypeAlias = Snapshot | bool
"""What is under an id: a snapshot; True if it cannot be read, False if there is none."""

HINT_BYTES_MAX = 32
PROBES_MAX = 10_000
"""Ids tried one by one after an old listing, before the storage is called inconsistent."""
HINT_PROBES_MAX = 32
"""Ids tried one by one after the hint, before the directory is listed."""
HINT_TRIES = 3
"""Times that a hint is written if its snapshot is missing at the check."""
CHAIN_LOOK_MAX = 16
"""Snapshots looked at from the last one down, where no hint helps."""
READ_BATCH_MAX = 64
"""Snapshot files that a search reads at once."""
LATEST_TRIES = 3
"""The newest snapshot may be rolled back between finding and reading it."""


class SnapshotLog:
    """The snapshots of one table.

    Parameters
    ----------
    reads : Executor, optional
        Asks a remote storage for several files at once.
    incarnation : Incarnation, optional
        The table as it was opened, where snapshots of a dropped one of its name may stand between
        its own. They count as missing.
    """

    def __init__(
        self,
        fileio: FileIO,
        paths: TablePaths,
        *,
        reads: Executor | None = None,
        incarnation: Incarnation | None = None,
    ) -> None:
        self._fileio = fileio
        self._paths = paths
        self._incarnation = incarnation
        self._reads: Executor = SerialExecutor() if reads is None else reads

    def latest_id(self) -> int | None:
        """Id of the newest snapshot; None if there is none."""
        newest = self._newest(self._hint(self._paths.latest_hint))
        return None if newest is None else newest[0]

    def _newest(self, hint: int | None) -> tuple[int, Seen] | None:
        """Id and file of the newest snapshot on the chain; None if there is none."""
        last = None if hint is None else self._from_hint(hint)
        if last is not None:
            return last
        newest = next(self._own(reversed(self._listed())), 0)
        oldest = self._hint(self._paths.earliest_hint) if newest == 0 else None
        for known in (hint, oldest):  # a listing may briefly be empty
            if known is not None and known > newest and self._exists(known):
                newest = known
        for _ in range(PROBES_MAX):
            if not self._exists(newest + 1):
                return self._on_chain(newest) if newest else None
            newest += 1
        message = (
            f"The listing of {self._paths.snapshot_dir} lacks more than {PROBES_MAX} snapshots that"
            " are there: the storage is inconsistent. Try again."
        )
        raise StorageError(message, kind="stale_listing", path=self._paths.snapshot_dir)

    def _from_hint(self, hint: int) -> tuple[int, Seen] | None:
        """The newest snapshot from a hint on; None if the hint's is missing or set aside.

        A remote storage is asked for two files at once, and at first for the one before the hint's,
        too. Ids have no gaps; beside other commits the hint is a few behind, and probing each costs
        less than a listing.
        """
        before: Seen = False
        newest: tuple[int, Seen] | None = None
        at = max(hint - 1, 1)
        while True:
            ids = range(at, at + (3 if at < hint else 2))
            calls = [partial(self._seen, number) for number in ids]
            asked = at_once(self._fileio, self._reads, calls) if self._fileio.is_remote else None
            for index, number in enumerate(ids):
                seen = calls[index]() if asked is None else asked[index]
                if number >= hint:
                    if not seen or not self._follows(seen, before, strictly=newest is None):
                        return newest
                    if number == hint > 1 and not before and self._is_behind_rollback(seen):
                        return None
                    if number == hint + HINT_PROBES_MAX:
                        return None
                    newest = number, seen
                before = seen
            at = ids.stop

    def _follows(self, seen: Seen, before: Seen, *, strictly: bool = False) -> bool:
        """Whether a snapshot follows the one before it; a warning is logged if not.

        With `strictly` the one before is itself looked at where the snapshot says nothing of it:
        another engine may have built on a snapshot that is set aside.
        """
        if not isinstance(seen, Snapshot) or not isinstance(before, Snapshot):
            return True  # expired or damaged, which tells nothing
        if not follows(seen, before):
            again = self._seen(before.id)  # it may have been rolled back between the two reads
            if isinstance(again, Snapshot) and link_of(again) != link_of(before):
                return self._follows(seen, again, strictly=strictly)
            if before.id < (self.earliest_id() or 0):
                return True  # it came late, after it had expired
            warn_set_aside(seen, self._fileio.uri_of(self._paths.snapshot_dir))
            return False
        if not strictly or names_base(seen) or not names_base(before) or before.id == 1:
            return True
        return self._follows(before, self._seen(before.id - 1))

    def _is_behind_rollback(self, seen: Seen) -> bool:
        """Whether the target of a rollback stands right before the gap before a snapshot.

        Then the snapshot came late. Another gap is damage, or what is before it has expired.
        """
        if not isinstance(seen, Snapshot) or not names_base(seen):
            return False
        first = self._hint(self._paths.earliest_hint)
        if first is None or first >= seen.id:
            return False
        for number in range(seen.id - 2, max(first, seen.id - CHAIN_LOOK_MAX) - 1, -1):
            below = self._seen(number)
            if isinstance(below, Snapshot):
                return ROLLBACK in (below.properties or {})
        return False

    def _on_chain(self, top: int) -> tuple[int, Seen]:
        """The newest snapshot that is not set aside, looking from the last id down."""
        ids = range(max(1, top - CHAIN_LOOK_MAX), top + 1)
        calls = [partial(self._seen, number) for number in ids]
        seen = at_once(self._fileio, self._reads, calls)
        newest = top, seen[-1]
        for index in range(len(seen) - 1, 0, -1):
            if not seen[index - 1]:
                if not self._is_behind_rollback(seen[index]):
                    break
                below = max((at for at in range(index) if seen[at]), default=index)
                newest = ids[below], seen[below]
            elif not self._follows(seen[index], seen[index - 1]):
                newest = ids[index - 1], seen[index - 1]
        return newest

    def _seen(self, snapshot_id: int) -> Seen:
        try:
            found = self.find(snapshot_id)
        except (CorruptError, UnsupportedError):
            return True  # whoever needs what it says has the error
        return False if found is None else found

    def earliest_id(self) -> int | None:
        """Id of the oldest snapshot that is kept; None if there is none."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint):
            return hint
        oldest = next(self._own(self._listed()), None)
        if oldest is not None:
            return oldest
        latest = self.latest_id()  # the listing may be old
        return None if latest is None else self._oldest_before(latest)

    def announced_latest_id(self) -> int | None:
        """The id in LATEST, which may be behind or ahead; None if there is none. One read."""
        return self._hint(self._paths.latest_hint)

    def announced_earliest_id(self) -> int | None:
        """The id in EARLIEST, which an expiry writes before it removes; None if there is none.

        One read. Snapshots before it may be going; it may also be ahead of a table that was rolled
        back.
        """
        return self._hint(self._paths.earliest_hint)

    def ids(self) -> list[int]:
        """Ids of the snapshot files, ascending.

        Raises
        ------
        CorruptError
            One between the others is missing; the message names it.
        """
        ids = self._listed()
        first = self._first_kept(ids)
        warn_left_behind(self._late(ids, first), self._fileio.uri_of(self._paths.snapshot_dir))
        newest = (self.latest_id() or 0) if ids else 0
        late = {number for number in ids if number < first}
        ids = [number for number in ids if first <= number <= newest]
        if self._incarnation is not None:  # a dropped table's may stand at both ends
            for end in (-1, 0):
                while ids and not self._exists(ids[end]):
                    del ids[end]
        found = set(ids)
        for before, after in itertools.pairwise(ids):
            for gap in range(before + 1, after):
                if self._exists(gap):  # the listing is old, or has lost a page
                    found.add(gap)
                # check again: snapshots may expire, or be rolled back, while they are listed
                elif all(map(self._exists, (before, after))):
                    raise gap_in(self._paths, gap, before, after)
        if ids:  # a page that was lost holds the ends, too
            if ids[0] - 1 not in late:
                found.update(range(self._oldest_before(ids[0]), ids[0]))
            found.update(range(ids[-1] + 1, newest + 1))
        return sorted(found)

    def left_behind(self) -> list[int]:
        """Ids of snapshots that came late, long after they had expired: others followed them.

        EARLIEST tells them from a gap that is damage: they stand before it. Those of a dropped
        table are not among them.
        """
        ids = self._listed()
        return self._late(ids, self._first_kept(ids))

    def _late(self, ids: list[int], first: int) -> list[int]:
        return list(self._own(number for number in ids if number < first))

    def _first_kept(self, ids: list[int]) -> int:
        """The first of a listing that did not come late; 0 where EARLIEST does not tell."""
        first = self._hint(self._paths.earliest_hint)
        if first is None or first not in ids or first == ids[0]:
            return 0
        listed = set(ids)
        below = list(itertools.takewhile(listed.__contains__, range(first - 1, 0, -1)))
        after = self._seen(first) if below else False
        for start in range(0, len(below), READ_BATCH_MAX):
            batch = below[start : start + READ_BATCH_MAX]
            calls = [partial(self._seen, number) for number in batch]
            for number, seen in zip(batch, at_once(self._fileio, self._reads, calls), strict=True):
                if not seen or not may_follow(after, seen):
                    return first
                first, after = number, seen
        return first

    def _listed(self) -> list[int]:
        names = (status.name for status in self._fileio.list_dir(self._paths.snapshot_dir))
        return sorted(i for name in names if (i := numbered(name, "snapshot-")) is not None)

    def _own(self, ids: Iterable[int]) -> Iterator[int]:
        """Those of a listing that are this table's."""
        return (i for i in ids if self._incarnation is None or self._exists(i))

    def load(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot.

        Raises
        ------
        NotFoundError
            It has expired or never existed; the message names the existing ids.
        CorruptError
            Its file is damaged.
        """
        found = self.find(snapshot_id)
        if found is None:
            raise self._missing(snapshot_id)
        return found

    def load_on_chain(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot that somebody names; one that is set aside counts as missing.

        See :meth:`load`, which believes that its caller had the id from the chain.
        """
        before = partial(self._seen, snapshot_id - 1)
        seen = partial(self._seen, snapshot_id)
        calls = [seen, before] if snapshot_id > 1 else [seen]
        found, *earlier = at_once(self._fileio, self._reads, calls)
        if isinstance(found, Snapshot) and all(self._follows(found, each) for each in earlier):
            return found
        if found is True:
            return self.load(snapshot_id)  # it raises what is wrong with it
        raise self._missing(snapshot_id)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot; None if it does not exist. See :meth:`load`."""
        found = self._stored(snapshot_id)
        return found if found is not None and self._is_own(found) else None

    def is_of_dropped_table(self, snapshot_id: int) -> bool:
        """Whether an id is taken by a commit to a dropped table that had this one's name."""
        found = None if self._incarnation is None else self._stored(snapshot_id)
        return found is not None and not self._is_own(found)

    def _stored(self, snapshot_id: int) -> Snapshot | None:
        path = self._paths.snapshot(snapshot_id)
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError:
            return None
        return self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)

    def _is_own(self, snapshot: Snapshot) -> bool:
        return self._incarnation is None or self._incarnation.has(snapshot)

    def load_or_changelog(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot, or its long-lived changelog if it has expired.

        A long-lived changelog gives the changes of the snapshot but not its state.

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
            found = self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)
            if self._is_own(found):
                return found
        raise self._missing(snapshot_id)

    def has(self, snapshot_id: int) -> bool:
        """Whether a snapshot exists, by one request."""
        return self._exists(snapshot_id)

    def is_kept(self, snapshot_id: int) -> bool:
        """Whether a snapshot, or the long-lived changelog of an expired one, exists."""
        changelog = self._paths.changelog(snapshot_id)
        return self._exists(snapshot_id) or self._fileio.exists(changelog)

    def _checked(self, snapshot: Snapshot, snapshot_id: int, path: str) -> Snapshot:
        if snapshot.id != snapshot_id:
            message = (
                f"Snapshot file {path} contains snapshot {snapshot.id}: it was moved there. Restore"
                " the right one from a backup."
            )
            raise CorruptError(message, kind="snapshot_file", path=path)
        return snapshot

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None for a table without any."""
        for tries in range(LATEST_TRIES):
            newest = self._newest(self._hint(self._paths.latest_hint))
            if newest is None:
                return None
            number, seen = newest
            if isinstance(seen, Snapshot):
                return seen
            try:
                return self.load(number)  # it raises what is wrong with it
            except NotFoundError:
                if tries == LATEST_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def of_user(
        self, user: str, *, before: int, down_to: int, executor: Executor
    ) -> Iterator[Snapshot]:
        """The snapshots that one user committed, newest first, as far as they are kept.

        Parameters
        ----------
        before, down_to : int
            Ids: below `before`, from `down_to` on.

        Notes
        -----
        A file without the user's name is read but not parsed: 20 us each on a local disk. Files are
        read in batches, at first one by one, so that a search for a recent commit reads few.
        """

        def read(snapshot_id: int) -> Snapshot | bool:
            """The snapshot; True if it is another user's, False if there is none."""
            path = self._paths.snapshot(snapshot_id)
            try:
                data = self._fileio.read_bytes(path)
            except NotFoundError:
                return False
            if names_another(data, user):
                return True
            snapshot = self._checked(Snapshot.from_json(data, path=path), snapshot_id, path)
            return snapshot if snapshot.commit_user == user and self._is_own(snapshot) else True

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

    def first_with_watermark(self, watermark: int) -> Snapshot | None:
        """The first snapshot whose watermark is at least this; None if there is none yet.

        Notes
        -----
        Reads O(log n) snapshots: watermarks do not fall, and after the first one all snapshots have
        one.
        """
        latest, earliest = self.latest(), self.earliest_id()
        if latest is None or earliest is None:
            return None
        low, high = earliest, latest.id + 1
        found: Snapshot | None = None
        while low < high:
            middle = (low + high) // 2
            try:
                snapshot = latest if middle == latest.id else self.load(middle)
            except NotFoundError:
                low = middle + 1  # it expired meanwhile
                continue
            if snapshot.watermark is not None and snapshot.watermark >= watermark:
                found, high = snapshot, middle
            else:
                low = middle + 1
        return found

    def open_dir(self) -> OpenDirectory:
        """Open the directory of the snapshots, and create it if the table has none yet.

        Raises
        ------
        NotFoundError
            There is no table.
        """
        return self._fileio.open_dir(self._paths.snapshot_dir, make=True)

    def put(
        self,
        snapshot: Snapshot,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Create a snapshot's file; False if its id is taken.

        Parameters
        ----------
        within : OpenDirectory, optional
            From :meth:`open_dir`: the file goes into that directory or nowhere.
        over : bytes, optional
            The file of a snapshot that is set aside: it counts as absent.

        Raises
        ------
        NotFoundError
            That directory was removed.
        StorageRefusedError
            The storage refused; the snapshot does not exist.
        StorageError
            The storage failed: the snapshot may or may not exist.
        """
        path, data = self._paths.snapshot(snapshot.id), snapshot.to_json().encode()
        if over is not None:
            return self._fileio.put_if_absent(path, data, over=over, **_within(within))
        return self._fileio.put_if_absent(path, data, **_within(within))

    def is_on_chain(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot that was read follows the one that has the id before its own."""
        return self.with_base(snapshot)[0]

    def with_base(self, snapshot: Snapshot) -> tuple[bool, Snapshot | None]:
        """Whether a snapshot that was read is on the chain, and the one before it if that is read.

        It is read where the snapshot names its base; None also if it is missing or damaged, or was
        rolled back meanwhile.
        """
        if snapshot.id == 1 or not names_base(snapshot):
            return True, None
        before = self._seen(snapshot.id - 1)
        if isinstance(before, Snapshot) and follows(snapshot, before):
            return True, before
        return self._follows(snapshot, before), None

    def is_reached(self, snapshot_id: int, hint: int | None) -> bool:
        """Whether readers come to a snapshot from LATEST; no request if that names its base."""
        if hint is not None and hint >= snapshot_id - 1:
            return True
        newest = self._newest(hint)
        return newest is not None and newest[0] >= snapshot_id

    def is_passed(self, snapshot_id: int) -> bool:
        """Whether an expiry has gone past an id: the oldest snapshot that is kept is a newer one.

        Raises
        ------
        StorageError
            It cannot be told.
        """
        try:
            first = _number_in(self._fileio.read_bytes(self._paths.earliest_hint))
        except NotFoundError:
            return False
        if first is None or first <= snapshot_id:
            return False
        return (self.earliest_id() or 0) > snapshot_id

    def put_back(self, snapshot: Snapshot, *, within: OpenDirectory) -> bool:
        """Create the file of a snapshot that was removed; False if there is one of that id.

        See :meth:`put`, after which a commit reads back: here what the storage says of the name is
        checked.
        """
        path, data = self._paths.snapshot(snapshot.id), snapshot.to_json().encode()
        return put_new(self._fileio, path, data, within=within)

    def begin_earliest(self, *, within: OpenDirectory | None = None) -> bool:
        """Let EARLIEST name the first snapshot; False if others had one, which may have expired.

        Also False where the storage failed: whoever has to know looks.
        """
        with contextlib.suppress(StorageError, NotFoundError):
            return self._fileio.put_if_absent(self._paths.earliest_hint, b"1", **_within(within))
        return False

    def write_hints(self, snapshot_id: int, *, within: OpenDirectory | None = None) -> None:
        """Set LATEST (and, with the first, EARLIEST) to this snapshot as the newest."""
        self.write_latest(snapshot_id, within=within)
        if snapshot_id == 1:
            # others may have committed much, and have moved it, since the first snapshot
            self.begin_earliest(within=within)

    def write_latest(self, snapshot_id: int, *, within: OpenDirectory | None = None) -> None:
        """Write LATEST; or the newest snapshot that exists, if this one does not any more.

        Hints are best effort: if writing one fails, readers find the snapshot by themselves.
        """
        with contextlib.suppress(StorageError, NotFoundError):
            self._write_latest(snapshot_id, within)

    def _write_latest(self, snapshot_id: int, within: OpenDirectory | None) -> None:
        hint = self._paths.latest_hint
        for _ in range(HINT_TRIES):
            self._fileio.replace(hint, str(snapshot_id).encode(), **_within(within))
            if self._fileio.exists(self._paths.snapshot(snapshot_id), **_within(within)):
                return
            newest = self._newest(None)
            if newest is None:
                break
            snapshot_id = newest[0]
        # none exists, or they keep changing: no hint is better than one that is ahead
        self._fileio.delete(hint, within=within)

    def mend_earliest(self, *, within: OpenDirectory | None = None) -> None:
        """Let EARLIEST name the oldest snapshot, if its own is missing."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is None or self._exists(hint):
            return
        oldest = self.earliest_id()
        with contextlib.suppress(StorageError, NotFoundError):
            if oldest is not None:
                text = str(oldest).encode()
                self._fileio.replace(self._paths.earliest_hint, text, **_within(within))

    def _exists(self, snapshot_id: int) -> bool:
        if self._incarnation is None:
            return self._fileio.exists(self._paths.snapshot(snapshot_id))
        return bool(self._seen(snapshot_id))

    def _oldest_before(self, snapshot_id: int) -> int:
        for _ in range(PROBES_MAX):
            if snapshot_id == 1 or not self._exists(snapshot_id - 1):
                break
            snapshot_id -= 1
        return snapshot_id

    def _hint(self, path: str) -> int | None:
        try:
            return _number_in(self._fileio.read_bytes(path))
        except (NotFoundError, StorageError, CorruptError):
            return None

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


def _within(directory: OpenDirectory | None) -> dict[str, Any]:
    """The keyword of a call into an open directory."""
    return {} if directory is None else {"within": directory}


def _number_in(hint: bytes) -> int | None:
    """The id in a hint; None for garbage."""
    text = hint[:HINT_BYTES_MAX].strip()
    return int(text) if text.isdigit() and int(text) > 0 else None
