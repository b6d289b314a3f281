"""Copies a table: its state of a moment, or its whole history, into a table of any catalog.

1. The source's snapshot is found and held (:mod:`tidelake.table.cloning.source`), and the plan made
   from metadata. A dry run ends here.
2. The target is created and filled (:mod:`tidelake.catalog.copies.new_table`); or it exists, empty
   and of the same columns (:mod:`tidelake.catalog.copies.existing_target`).

On one file system the files are hard links. They never change, and each table deletes its own name
alone: an expiry, a compaction or a drop of one leaves the other whole, and the bytes go with the
last name. Source: Paimon's ``CopyFilesProcedure`` (Spark, 2.1) and ``CloneProcedure`` (Flink).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidelake.catalog.copies.existing_target import check_is_alike, check_is_empty
from tidelake.catalog.copies.new_table import create, fill, fill_existing
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.errors import InvalidInputError, UnsupportedError, counted
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import MAIN_BRANCH, TablePaths
from tidelake.options import Options
from tidelake.table.cloning.file_copies import FileCopies
from tidelake.table.cloning.history_clone import WholeHistory, copies_of_history, oldest_of
from tidelake.table.cloning.snapshot_clone import (
    OneSnapshot,
    content_of,
    copies_of_content,
    with_schema_of,
)
from tidelake.table.cloning.source import held, kept_schemas
from tidelake.table.handle.arguments import check_location
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Moment
from tidelake.table.job.plan import Runner
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.write.writable import check_writable
from tidelake.types import TableSchema

NOT_CARRIED = ("branches", "consumers")
NOT_IN_A_SNAPSHOT = ("history", "tags", "changelogs", "statistics")


@dataclass(frozen=True, slots=True)
class CloneResult:
    """A copy of a table, or what one would be.

    Parameters
    ----------
    source, table : str
        Names of both.
    snapshot_id : int, optional
        The newest snapshot of the copy; None of an empty table and of a dry run.
    snapshots_count : int
        Its snapshots.
    files_count, size_bytes : int
        The files that it has.
    linked_count : int
        Those of them that no byte was moved for by this process: hard links, and copies that the
        store made.
    tags : tuple of str
        Its tags.
    not_carried : tuple of str
        What of the source it does not have.
    """

    source: str
    table: str
    snapshot_id: int | None = None
    snapshots_count: int = 0
    files_count: int = 0
    size_bytes: int = 0
    linked_count: int = 0
    tags: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        verb = "would be copied" if self.dry_run else "is copied"
        text = (
            f"{self.source} {verb} to {self.table}: {counted(self.files_count, 'file')}"
            f" ({self.size_bytes:,} bytes), {counted(self.snapshots_count, 'snapshot')}"
        )
        if not self.dry_run:
            text += f", {self.linked_count} files without moving a byte"
        return f"{text}; without {', '.join(self.not_carried)}"


class CloneRequest(NamedTuple):
    """What is to be copied; arguments of :meth:`tidelake.catalog.Catalog.clone_table`."""

    moment: Moment | None
    history: bool
    where: object


def clone(
    metastore: Metastore,
    source: TableHandle,
    name: Identifier,
    request: CloneRequest,
    *,
    open_target: Callable[[], TableHandle],
    runner: Runner,
    dry_run: bool,
) -> CloneResult:
    """Copy a table; see :meth:`tidelake.catalog.Catalog.clone_table`.

    Parameters
    ----------
    open_target : callable
        Opens the target: one that exists, or the new table once it is created.
    """
    existing = open_target() if metastore.has_table(name) else None
    if existing is not None:
        check_is_empty(existing, with_history=request.history)
    source.schemas.check_same(source.schema, table=source.identifier)
    if request.history:
        _check_history(metastore, source, name, request)
    snapshot = oldest_of(source) if request.history else _snapshot(source, request)
    with held(source, snapshot):
        content = None if request.history else _content(source, snapshot, request)
        location = metastore.location(name)
        plan = _plan(source, content, replace(source.paths, location=location, branch=MAIN_BRANCH))
        schemas = _schemas(source, snapshot, request, plan, name, location=location)
        if existing is not None:
            check_is_alike(existing, schemas[-1])
        if content is not None and (metastore.is_served or existing is not None):
            newest_id = 0 if existing is None else existing.schema.id
            content = with_schema_of(
                source, content, schemas[-1], target=str(name), schema_id=newest_id
            )
            schemas = (replace(schemas[-1], id=newest_id),)
        _check_writable(source, schemas[-1], name)
        if dry_run:
            return _result(source, name, plan, request, dry_run=True)
        if existing is None:
            metastore.create_database(name.database)
            create(metastore, name, schemas)
        handle = existing or open_target()
        if content is not None:  # a server says where the table is
            plan = _plan(source, content, handle.paths)
        if existing is None:
            done = fill(metastore, name, handle, plan, runner)
        else:
            done = fill_existing(handle, plan, runner)
    return replace(
        _result(source, name, plan, request, dry_run=False),
        snapshot_id=done.snapshot_ids[0] if done.snapshot_ids else None,
        linked_count=done.files,
    )


def _snapshot(source: TableHandle, request: CloneRequest) -> Snapshot | None:
    if request.moment is None:
        return source.snapshots.latest()
    return source.time_travel.at(request.moment)


def _schemas(
    source: TableHandle,
    snapshot: Snapshot | None,
    request: CloneRequest,
    plan: FileCopies,
    name: Identifier,
    *,
    location: str,
) -> tuple[TableSchema, ...]:
    """The schemas of the copy: those of the source up to the moment's, or up to the newest."""
    found = plan.publication
    assert isinstance(found, (OneSnapshot, WholeHistory)), "what a copy publishes"
    newest_id = None
    if request.moment is not None and snapshot is not None:
        newest_id = max(snapshot.schema_id, *found.schema_ids, 0)
    time_ms = None if request.history else source.env.clock.now_ms()
    schemas = kept_schemas(source, used=found.schema_ids, newest_id=newest_id, time_ms=time_ms)
    options = Options.parse(schemas[-1].options, table=str(name))
    check_location(options, location, table=str(name))
    return schemas


def _content(source: TableHandle, snapshot: Snapshot | None, request: CloneRequest) -> OneSnapshot:
    chosen = Chosen.of(source, request.where, None)
    if snapshot is None:
        return OneSnapshot(EntryTable.of(()))
    return content_of(source, snapshot, chosen)


def _plan(source: TableHandle, content: OneSnapshot | None, paths: TablePaths) -> FileCopies:
    if content is None:
        return copies_of_history(source, paths)
    return copies_of_content(source, content, paths)


def _check_writable(source: TableHandle, schema: TableSchema, name: Identifier) -> None:
    """Refuse a table that this version cannot write, before it is there."""
    options = Options.parse(schema.options, table=str(name))
    check_writable(replace(source, identifier=str(name), schema=schema, options=options))


def _check_history(
    metastore: Metastore, source: TableHandle, name: Identifier, request: CloneRequest
) -> None:
    if request.moment is not None or request.where is not None:
        message = (
            f"A copy of table '{source.identifier}' with its history has all snapshots and all"
            " partitions: leave out history, or snapshot, tag and where."
        )
        raise InvalidInputError(message, kind="two_moments", table=source.identifier)
    if metastore.is_served or source.served is not None:
        message = (
            f"'{source.identifier}' cannot be copied to '{name}' with its history, because a server"
            " decides which snapshots a table has. Copy a snapshot: leave out history."
        )
        raise UnsupportedError(message, kind="clone_history", table=source.identifier)


def _result(
    source: TableHandle, name: Identifier, plan: FileCopies, request: CloneRequest, *, dry_run: bool
) -> CloneResult:
    history = plan.publication if isinstance(plan.publication, WholeHistory) else None
    return CloneResult(
        source.identifier,
        str(name),
        snapshots_count=int(bool(plan.tasks)) if history is None else history.snapshots_count,
        files_count=len(plan.tasks),
        size_bytes=plan.size_bytes,
        tags=() if history is None else history.tags,
        not_carried=NOT_CARRIED if request.history else (*NOT_IN_A_SNAPSHOT, *NOT_CARRIED),
        dry_run=dry_run,
    )
