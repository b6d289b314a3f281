"""Finds where a stream without a checkpoint begins: ``scan.mode`` and its options.

=========================  ====================================================================
mode                       the stream begins with
=========================  ====================================================================
``latest-full``            the newest snapshot's state
``latest``                 the changes after the newest snapshot; on an empty table all changes
``compacted-full``         the state of the newest snapshot that a compaction made, else of the
                           newest; see :meth:`.TimeTravel.compacted`
``from-snapshot``          the changes of ``scan.snapshot-id``, or of the oldest snapshot that is
                           kept if that one has expired; ``scan.tag-name`` and
                           ``scan.watermark`` name a snapshot too
``from-snapshot-full``     the state of that snapshot (or of the oldest that is kept), or of a tag
``from-timestamp``         the changes of the first snapshot at or after ``scan.timestamp-millis``
                           or ``scan.timestamp``
``from-file-creation-time``  what is left of the files made at or after
                           ``scan.file-creation-time-millis`` in the newest snapshot
``from-creation-timestamp``  the changes of the first snapshot at or after
                           ``scan.creation-time-millis``; as the mode before if that has expired
``incremental``            the changes of ``incremental-between``, and it ends with them
=========================  ====================================================================

``default`` is the mode of the option that is set, else ``latest-full``. The progress of a consumer
comes first; one that began a full state and did not read it whole begins with a state again. If
its snapshot has expired the stream is refused (Java goes on at the oldest kept
snapshot, without a word about the changes between). Source: Paimon's
``AbstractDataTableScan.createStartingScanner`` and the scanners that it makes (1.3.1). Java refuses
tags, watermarks and ``incremental`` for streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.options import Option, Options, declared
from tidelake.table.changelog.changelog_plan import moments_between
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import timestamp_ms
from tidelake.table.handle.time_travel import compacted_every
from tidelake.table.stream.offset import Phase

_MODE_OPTIONS: dict[str, tuple[Option[Any], ...]] = {
    "from-timestamp": (declared.SCAN_TIMESTAMP_MILLIS, declared.SCAN_TIMESTAMP),
    "from-snapshot": (
        declared.SCAN_SNAPSHOT_ID,
        declared.SCAN_TAG_NAME,
        declared.SCAN_WATERMARK,
    ),
    "from-snapshot-full": (declared.SCAN_SNAPSHOT_ID, declared.SCAN_TAG_NAME),
    "from-file-creation-time": (declared.SCAN_FILE_CREATION_TIME_MILLIS,),
    "from-creation-timestamp": (declared.SCAN_CREATION_TIME_MILLIS,),
    "incremental": (declared.INCREMENTAL_BETWEEN, declared.INCREMENTAL_BETWEEN_TIMESTAMP),
    "latest-full": (),
    "latest": (),
    "compacted-full": (),
}
"""The options of each mode. Where one is set, the first mode with it is the default."""

START_OPTIONS = tuple(
    dict.fromkeys(
        (declared.SCAN_MODE, *(option for own in _MODE_OPTIONS.values() for option in own))
    )
)
"""The options for the start of a stream."""

ENDS_COUNT = 2
_FULL_MODES = frozenset(
    {"latest-full", "compacted-full", "from-snapshot-full", "from-file-creation-time"}
)
"""Modes that begin with a state."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a stream, and its end if it is bounded.

    Parameters
    ----------
    snapshot : int
        The first snapshot.
    phase : {'full', 'delta'}
        Whether the stream gives its state, or its changes.
    created_ms : int, optional
        Give only files of the state that were created at this time or later, ms.
    end : int, optional
        The last snapshot.
    before : str, optional
        Identity of the snapshot before the first one, as the stream's consumer has read it.
    """

    snapshot: int
    phase: Phase
    created_ms: int | None = None
    end: int | None = None
    before: str | None = None


class StreamStart:
    """Finds where streams of one table begin.

    Raises
    ------
    InvalidInputError
        Options contradict each other.
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle
        self._mode, self._option = _mode(handle.options, table=handle.identifier)
        self._end_id: int | None = None

    @property
    def mode(self) -> str:
        """The mode of ``scan.mode``, never ``default`` or ``full``."""
        return self._mode

    def end_id(self) -> int | None:
        """The last snapshot of a bounded stream; looked for once."""
        if self._mode == "incremental" and self._end_id is None:
            self._end_id = self._incremental().end
        return self._end_id

    def find(self) -> Beginning | None:
        """Find the beginning; None while the table has no snapshot that decides it.

        Raises
        ------
        NotFoundError
            The snapshot or tag does not exist, or the consumer's has expired. The message names the
            snapshots that are kept.
        InvalidInputError
            An option has a wrong value.
        """
        consumed = self._consumed()
        if consumed is not None:
            return Beginning(consumed, "delta", before=self._read_before(consumed))
        if self._mode not in _FULL_MODES and self._is_unfinished():
            return _full(self._handle.snapshots.latest_id())
        find: dict[str, Callable[[], Beginning | None]] = {
            "latest-full": lambda: _full(self._handle.snapshots.latest_id()),
            "latest": lambda: Beginning((self._handle.snapshots.latest_id() or 0) + 1, "delta"),
            "compacted-full": lambda: _full(self._compacted_id()),
            "from-snapshot": self._from_snapshot,
            "from-snapshot-full": self._from_snapshot_full,
            "from-timestamp": self._from_timestamp,
            "from-file-creation-time": lambda: self._from_file_creation(self._value()),
            "from-creation-timestamp": self._from_creation,
            "incremental": self._incremental,
        }
        return find[self._mode]()

    def _is_unfinished(self) -> bool:
        """Whether an earlier run of the consumer began a full state, and did not read it whole."""
        handle, options = self._handle, self._handle.options
        name = options.get(declared.CONSUMER_ID)
        if name is None or options.get(declared.CONSUMER_IGNORE_PROGRESS):
            return False
        lease = ConsumerLog(handle.fileio, handle.paths).lease(name)
        return lease is not None and lease.of_state

    def _consumed(self) -> int | None:
        """Give the next snapshot of the stream's consumer; None without valid progress."""
        handle, options = self._handle, self._handle.options
        name = options.get(declared.CONSUMER_ID)
        if name is None or options.get(declared.CONSUMER_IGNORE_PROGRESS):
            return None
        consumed = ConsumerLog(handle.fileio, handle.paths).next_id(name)
        if consumed is None or handle.snapshots.is_kept(consumed):
            return consumed  # EARLIEST may be ahead of snapshots that a lease kept
        earliest_id = self._earliest_id()
        if earliest_id is None or consumed >= earliest_id:
            return consumed
        message = (
            f"Consumer '{name}' of table '{handle.identifier}' would go on at snapshot {consumed},"
            f" which has expired: snapshots {earliest_id} to {handle.snapshots.latest_id()} can be"
            f" read. Call reset_consumer with snapshot {earliest_id} to go on without what is lost,"
            " or without a snapshot to begin with all rows ('scan.mode' = 'latest-full')."
        )
        raise NotFoundError(
            message, kind="stream_expired", table=handle.identifier, snapshot=consumed
        )

    def _read_before(self, consumed: int) -> str | None:
        """Identity of the last snapshot that the consumer has read, if its last run noted it."""
        name = str(self._handle.options.get(declared.CONSUMER_ID))
        lease = ConsumerLog(self._handle.fileio, self._handle.paths).lease(name)
        if lease is None or lease.next_snapshot_id != consumed:
            return None  # Java, or reset_consumer, has set it since
        return lease.before

    def _value(self) -> int:
        assert self._option is not None
        return int(self._handle.options.get(self._option))

    def _earliest_id(self) -> int | None:
        """Find the oldest snapshot whose changes are kept, perhaps in a long-lived changelog."""
        earliest = self._handle.snapshots.earliest_id()
        kept = KeptChangelogs(self._handle.fileio, self._handle.paths).range()
        if earliest is None or kept is None or kept[1] + 1 < earliest:
            return earliest
        return min(kept[0], earliest)

    def _from_snapshot(self) -> Beginning | None:
        handle = self._handle
        if self._option is declared.SCAN_TAG_NAME:
            return Beginning(handle.time_travel.by_tag(self._tag()).id, "delta")
        if self._option is declared.SCAN_WATERMARK:
            return Beginning(handle.time_travel.by_watermark(self._value()).id, "delta")
        earliest, wanted = self._earliest_id(), self._value()
        if earliest is None:
            return None
        self._check_made(wanted)
        if not handle.snapshots.is_kept(wanted):
            wanted = max(wanted, earliest)
        return Beginning(wanted, "delta")

    def _from_snapshot_full(self) -> Beginning | None:
        handle = self._handle
        if self._option is declared.SCAN_TAG_NAME:
            return Beginning(handle.time_travel.by_tag(self._tag()).id, "full")
        earliest = handle.snapshots.earliest_id()
        if earliest is None:
            return None
        return Beginning(handle.time_travel.by_id(max(self._value(), earliest)).id, "full")

    def _tag(self) -> str:
        return str(self._handle.options.get(declared.SCAN_TAG_NAME))

    def _check_made(self, snapshot_id: int) -> None:
        """Refuse a snapshot that neither exists nor is the next one."""
        latest_id = self._handle.snapshots.latest_id() or 0
        if snapshot_id > latest_id + 1:
            message = (
                f"Stream of table '{self._handle.identifier}': there is no snapshot {snapshot_id}"
                f" yet, the newest is {latest_id}. Begin at {latest_id + 1}, the next one, or"
                " before it."
            )
            raise NotFoundError(
                message,
                kind="snapshot_not_found",
                table=self._handle.identifier,
                snapshot=snapshot_id,
            )

    def _from_timestamp(self) -> Beginning | None:
        options = self._handle.options
        time_ms = options.get(declared.SCAN_TIMESTAMP_MILLIS)
        if time_ms is None:
            time_ms = self._timestamp_ms(str(options.get(declared.SCAN_TIMESTAMP)))
        first = self._first_at_or_after(time_ms)
        return None if first is None else Beginning(first, "delta")

    def _timestamp_ms(self, text: str) -> int:
        return timestamp_ms(text, zone=self._handle.env.zone)

    def _first_at_or_after(self, time_ms: int) -> int | None:
        """Find the first snapshot committed at a time or later; the next one if all are older."""
        low, latest_id = self._earliest_id(), self._handle.snapshots.latest_id()
        if low is None or latest_id is None:
            return None
        high = latest_id + 1
        while low < high:
            middle = (low + high) // 2
            if self._handle.snapshots.load_or_changelog(middle).time_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _from_file_creation(self, created_ms: int) -> Beginning | None:
        latest_id = self._handle.snapshots.latest_id()
        return None if latest_id is None else Beginning(latest_id, "full", created_ms=created_ms)

    def _from_creation(self) -> Beginning | None:
        created_ms = self._value()
        first, earliest = self._first_at_or_after(created_ms), self._earliest_id()
        if first is None or first == earliest or not self._handle.snapshots.is_kept(first):
            return self._from_file_creation(created_ms)
        return Beginning(first, "delta")

    def _compacted_id(self) -> int | None:
        """Find the newest snapshot that a compaction made; else the newest one."""
        found = self._handle.time_travel.compacted(compacted_every(self._handle.options))
        return None if found is None else found.id

    def _incremental(self) -> Beginning:
        handle = self._handle
        if self._option is declared.INCREMENTAL_BETWEEN:
            text = str(handle.options.get(declared.INCREMENTAL_BETWEEN))
            ends = [
                moment if isinstance(moment, int) else handle.time_travel.by_tag(str(moment)).id
                for moment in moments_between(handle, text)
            ]
        else:
            text = str(handle.options.get(declared.INCREMENTAL_BETWEEN_TIMESTAMP))
            times = [part.strip() for part in text.split(",")]
            if len(times) != ENDS_COUNT or not all(times):
                message = (
                    f"Option '{declared.INCREMENTAL_BETWEEN_TIMESTAMP.key}' is '{text}': it must"
                    " be two times with a comma between."
                )
                raise InvalidInputError(message, kind="changes_between", table=handle.identifier)
            # after the first, up to and with the second
            firsts = [self._first_at_or_after(self._timestamp_ms(t) + 1) for t in times]
            ends = [(first or 1) - 1 for first in firsts]
        start, end = ends
        if start > end:
            message = (
                f"Stream of table '{handle.identifier}': '{text}' runs from a newer to an older"
                " moment: swap them."
            )
            raise InvalidInputError(message, kind="changes_backwards", table=handle.identifier)
        self._check_made(end)
        return Beginning(start + 1, "delta", end=end)


def _full(snapshot_id: int | None) -> Beginning | None:
    return None if snapshot_id is None else Beginning(snapshot_id, "full")


def _mode(options: Options, *, table: str) -> tuple[str, Option[Any] | None]:
    """Find the mode, and the option that decided it."""
    given = [o for o in START_OPTIONS if o is not declared.SCAN_MODE and options.is_set(o)]
    if len(given) > 1:
        names = ", ".join(f"'{option.key}'" for option in given)
        message = f"Stream of table '{table}': {names} each say where it begins: set one of them."
        raise InvalidInputError(message, kind="two_moments", table=table)
    option = given[0] if given else None
    mode = {"full": "latest-full"}.get(
        options.get(declared.SCAN_MODE), options.get(declared.SCAN_MODE)
    )
    if mode == "default":
        mode = next((m for m, own in _MODE_OPTIONS.items() if option in own), "latest-full")
    wanted = _MODE_OPTIONS[mode]
    if (option is None and not wanted) or option in wanted:
        return mode, option
    need = " or ".join(f"'{o.key}'" for o in wanted)
    if option is None:
        what = f"and nothing says from where: set {need}."
    else:
        what = f"and '{option.key}' says otherwise: unset one of them."
    message = f"Stream of table '{table}': 'scan.mode' is '{mode}', {what}"
    raise InvalidInputError(message, kind="scan_mode", table=table, option="scan.mode")
