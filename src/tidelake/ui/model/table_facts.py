"""Everything that a page shows of one table, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelake.engine.metadata import Snapshot
from tidelake.engine.tables import Table
from tidelake.errors import TidelakeError
from tidelake.options import declared, target_file_size_bytes
from tidelake.options.masked import masked_options, masked_text
from tidelake.ui.model.file_layout import FileLayout, file_layout
from tidelake.ui.model.readers import (
    ConsumerRow,
    KeptVersion,
    MaintenanceClaim,
    consumer_rows,
    kept_branches,
    kept_tags,
    maintenance_claim,
)
from tidelake.ui.model.schema_history import SchemaVersion, schema_history
from tidelake.ui.model.timeline import Timeline, read_timeline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column of the newest schema."""

    name: str
    type: str
    role: str
    comment: str


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table at one moment.

    Parameters
    ----------
    kind : str
        ``"primary key"`` or ``"append"``.
    run_trigger : int
        The sorted runs of a bucket from which writers compact.
    layout : FileLayout, optional
        Of the newest snapshot; None for a table that was never written, or cannot be read.
    problems : mapping of str to str
        What cannot be read, by part, and why.
    """

    identifier: str
    kind: str
    location: str
    comment: str
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    buckets: str
    run_trigger: int
    target_bytes: int
    columns: tuple[ColumnRow, ...]
    options: tuple[tuple[str, str], ...]
    timeline: Timeline
    layout: FileLayout | None
    schemas: tuple[SchemaVersion, ...]
    consumers: tuple[ConsumerRow, ...]
    claim: MaintenanceClaim | None
    tags: tuple[KeptVersion, ...]
    branches: tuple[KeptVersion, ...]
    problems: Mapping[str, str]

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot; None for a table that was never written."""
        return self.timeline.newest

    @property
    def is_keyed(self) -> bool:
        """Whether it has a primary key."""
        return bool(self.primary_keys)

    @property
    def snapshots_behind_max(self) -> int:
        """The snapshots that the slowest consumer still has to read."""
        return max((c.snapshots_behind or 0 for c in self.consumers), default=0)


def state_of(snapshot: Snapshot | None) -> tuple[object, ...]:
    """What tells the files of a snapshot from those of any other."""
    return () if snapshot is None else snapshot.state_key


def table_facts(table: Table, before: TableFacts | None = None) -> TableFacts:
    """Read what is shown of a table.

    Parameters
    ----------
    before : TableFacts, optional
        What was read last time: the files of the same snapshot are not summed again.
    """
    handle, problems = table.handle, dict[str, str]()

    def part(name: str, read: Callable[[], T], without: T) -> T:
        try:
            return read()
        except TidelakeError as error:
            problems[name] = masked_text(error.message)
            return without

    none: Timeline = Timeline(0, ())
    last = None if before is None else before.timeline
    timeline = part("snapshots", lambda: read_timeline(handle, last), none)
    newest = timeline.newest
    layout: FileLayout | None = None
    if newest is not None:
        is_same = before is not None and state_of(before.newest) == state_of(newest)
        if is_same and before is not None and before.layout is not None:
            layout = before.layout
        else:
            snapshot = newest
            layout = part("files", lambda: file_layout(handle, snapshot), None)
    none_kept: tuple[KeptVersion, ...] = ()
    tags = part("tags", lambda: kept_tags(handle), none_kept)
    named: dict[int, str] = {}
    for tag in tags:
        if tag.snapshot_id is not None:
            named[tag.snapshot_id] = ", ".join(filter(None, [named.get(tag.snapshot_id), tag.name]))
    schema, options = handle.schema, handle.options
    buckets = options.get(declared.BUCKET)
    return TableFacts(
        identifier=table.identifier,
        kind="primary key" if schema.primary_keys else "append",
        location=masked_text(table.location),
        comment=schema.comment or "",
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        buckets=f"{buckets} by {', '.join(schema.bucket_keys)}" if buckets > 0 else "",
        run_trigger=options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER),
        target_bytes=target_file_size_bytes(options, has_primary_key=bool(schema.primary_keys)),
        columns=tuple(_column(table, name) for name in schema.field_names),
        options=masked_options(schema.options),
        timeline=Timeline(timeline.count, timeline.snapshots, named),
        layout=layout,
        schemas=part("schemas", lambda: schema_history(handle), ()),
        consumers=part(
            "consumers", lambda: consumer_rows(handle, None if newest is None else newest.id), ()
        ),
        claim=part("maintenance", lambda: maintenance_claim(handle), None),
        tags=tags,
        branches=part("branches", lambda: kept_branches(table), ()),
        problems=problems,
    )


def _column(table: Table, name: str) -> ColumnRow:
    field = table.table_schema.field(name)
    roles = []
    if name in table.primary_keys:
        roles.append("primary key")
    if name in table.partition_keys:
        roles.append("partition")
    return ColumnRow(name, str(field.type), ", ".join(roles), field.description or "")
