"""The source of a copy: which schemas and files it needs, and the hold on its snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import parent_of
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import Options, declared
from tidelake.table.cloning.file_copies import FileCopy
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import HoldPolicy, ReadHold
from tidelake.types import TableSchema

LEFT_BEHIND = frozenset(
    option.key
    for option in (declared.PATH, declared.SCAN_FALLBACK_BRANCH, declared.SCAN_PRIMARY_BRANCH)
)
"""Options that are of the source alone: its place, and its branches."""
OF_A_MOMENT = frozenset(
    option.key
    for option in (
        declared.SCAN_MODE,
        declared.SCAN_SNAPSHOT_ID,
        declared.SCAN_TAG_NAME,
        declared.SCAN_TIMESTAMP,
        declared.SCAN_TIMESTAMP_MILLIS,
        declared.SCAN_WATERMARK,
        declared.SCAN_FILE_CREATION_TIME_MILLIS,
        declared.CONSUMER_ID,
    )
)
"""Options that name a snapshot or a reader, which a copy without history does not have."""


def held(handle: TableHandle, snapshot: Snapshot | None) -> ReadHold:
    """Hold a snapshot until its files are copied; one that only a tag keeps is not held.

    Raises
    ------
    NotFoundError
        It is about to expire.
    """
    if snapshot is None or not handle.snapshots.has(snapshot.id):
        return ReadHold()
    options = Options.parse({**handle.options.raw, declared.READ_HOLD.key: "auto"})
    policy = HoldPolicy(options, handle.fileio.is_remote, is_old=True)
    hold = handle.holds.hold(handle, snapshot, policy)
    if not hold.begin():
        message = (
            f"Snapshot {snapshot.id} of table '{handle.identifier}' expired before it could be"
            " copied. Take a newer one."
        )
        raise NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
    return hold


def kept_schemas(
    handle: TableHandle, *, used: frozenset[int], newest_id: int | None, time_ms: int | None
) -> tuple[TableSchema, ...]:
    """The source's schemas for the target, the oldest first.

    Requires: the snapshots were read before, so that all of their schemas are there.

    Parameters
    ----------
    used : frozenset of int
        Those that snapshots and files name.
    newest_id : int, optional
        The last one; the newest by default.
    time_ms : int, optional
        Their time in the target; that of the source, and the copy has a history, by default.

    Raises
    ------
    NotFoundError
        One that is used is not there.
    """
    found = handle.schemas.load_all(handle.env.reads.ranges)
    if newest_id is None:
        newest_id = max(found, default=-1)
    missing = sorted(used - set(found))
    if missing or newest_id not in found:
        message = (
            f"Table '{handle.identifier}' has no schema {(missing or [newest_id])[0]}, which its"
            f" files were written with; it has {sorted(found)}."
        )
        raise NotFoundError(message, kind="schema_not_found", table=handle.identifier)
    left = LEFT_BEHIND if time_ms is None else LEFT_BEHIND | OF_A_MOMENT
    return tuple(
        replace(
            schema,
            options=MappingProxyType({k: v for k, v in schema.options.items() if k not in left}),
            time_ms=schema.time_ms if time_ms is None else time_ms,
        )
        for schema_id, schema in sorted(found.items())
        if schema_id <= newest_id
    )


def copies_of(handle: TableHandle, places: Iterable[tuple[str, str]]) -> tuple[FileCopy, ...]:
    """Look up the lengths of files, the largest first.

    Parameters
    ----------
    places : iterable of (str, str)
        Where a file is, and where it goes.

    Raises
    ------
    CorruptError
        One of them is lost.
    """
    by_directory: dict[str, dict[str, str]] = defaultdict(dict)
    for source, target in places:
        by_directory[parent_of(source)][source] = target
    found: list[FileCopy] = []
    for directory, files in by_directory.items():
        sizes = {f"{directory}/{s.name}": s.size_bytes for s in handle.fileio.list_dir(directory)}
        for source, target in files.items():
            if source not in sizes:
                raise _lost(handle, source)
            found.append(FileCopy(source, target, sizes[source]))
    return tuple(sorted(found, key=lambda one: (-one.size_bytes, one.source)))


def _lost(handle: TableHandle, path: str) -> CorruptError:
    message = (
        f"Table '{handle.identifier}' names {handle.fileio.uri_of(path)}, which is not there:"
        " nothing was copied. See remove_unexisting_files, or copy an older snapshot."
    )
    return CorruptError(message, kind="file_not_found", path=path)


def same_columns(schemas: Sequence[TableSchema]) -> bool:
    """Whether files of all these schemas are read alike."""
    return len({schema.fields for schema in schemas}) <= 1
