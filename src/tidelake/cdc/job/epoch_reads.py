"""Reads of several targets as one epoch left them: a transaction over several tables is seen whole.

The journal proves which epochs are complete; the snapshots of the targets say which of them belongs
to an epoch. An epoch is *whole* if the targets show the source at one moment between transactions.
It is not if

- it ends inside a transaction that was too large for one epoch;
- a table was copied at a later position than the epoch's end, and the others have not come there;
- a table waits to be copied again.

A table that is suspended, or gone from the source, stays what it was: it is named with the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.cdc.job.epoch_view import EpochView
from tidelake.cdc.journal.epoch_record import EpochRecord
from tidelake.cdc.journal.job_state import Phase
from tidelake.cdc.source.source import Positions
from tidelake.cdc.target.epoch_snapshot import JobCommits
from tidelake.engine.streams import MadeCommit
from tidelake.engine.tables import Catalog, Table
from tidelake.errors import InvalidInputError, NotFoundError

SCHEMA = pa.schema(
    [
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("start", pa.string(), nullable=False),
        pa.field("end", pa.string(), nullable=False),
        pa.field("begun", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("is_whole", pa.bool_()),
        pa.field("note", pa.string(), nullable=False),
        pa.field("snapshots", pa.map_(pa.string(), pa.int64()), nullable=False),
    ]
)
"""Of :meth:`EpochReads.epochs`: `is_whole` is null where the source tells no transactions; a
snapshot is null where it has expired, or the table had none."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EpochTables(EpochView[Table]):
    """The targets as one epoch left them, by ``database.table``; each is read at its snapshot.

    Parameters
    ----------
    tables : mapping of str to Table
        Those of `snapshots`.
    """

    tables: Mapping[str, Table]

    def opened(self, name: str) -> Table:
        """Give the table at its snapshot."""
        return self.tables[name]


class EpochReads:
    """Finds the snapshots of a job's epochs. For one thread; makes no connection to the source.

    Parameters
    ----------
    user : str
        The user of the job's commits.
    records : sequence of EpochRecord
        The complete epochs, oldest first.
    """

    def __init__(
        self,
        catalog: Catalog,
        job: str,
        user: str,
        positions: Positions,
        records: Sequence[EpochRecord],
    ) -> None:
        self._catalog = catalog
        self._job = job
        self._user = user
        self._positions = positions
        self._records = records

    def epochs(self) -> pa.Table:
        """List the complete epochs, oldest first, with :data:`SCHEMA`."""
        first = self._records[0].epoch if self._records else 0
        targets = {name for record in self._records for name in _targets(record)}
        commits = {
            name: JobCommits.since(self._table(name).handle, self._user, first)
            for name in sorted(targets)
            if self._catalog.table_exists(name)
        }
        rows = []
        for record in self._records:
            is_whole, note = self._judged(record)
            snapshots = {
                name: (commits[name].at(record.epoch) or None) if name in commits else None
                for name in _targets(record)
            }
            rows.append(
                {
                    "epoch": record.epoch,
                    "kind": str(record.kind),
                    "start": record.start,
                    "end": record.end,
                    "begun": record.begun_ms,
                    "is_whole": is_whole,
                    "note": note,
                    "snapshots": list(snapshots.items()),
                }
            )
        return pa.Table.from_pylist(rows, SCHEMA)

    def at(self, epoch: int | None = None) -> EpochTables:
        """Give the targets as an epoch left them: by default as the newest that is whole.

        Raises
        ------
        NotFoundError
            The journal does not have the epoch, or a snapshot has expired.
        InvalidInputError
            A table was rolled back to before the epoch.
        """
        record = self._newest() if epoch is None else self._known(epoch)
        is_whole, note = self._judged(record)
        tables, snapshots, behind = {}, {}, dict(_behind(record))
        for name in _targets(record):
            if name in behind and not self._catalog.table_exists(name):
                continue
            found = self._snapshot(name, record)
            if found:
                tables[name] = self._table(name).with_options({"scan.snapshot-id": found})
                snapshots[name] = found
            else:
                behind[name] = "it has no snapshot of this epoch yet: it had no rows"
        return EpochTables(record.epoch, record.end, is_whole, note, snapshots, behind, tables)

    # ---- which epoch

    def _newest(self) -> EpochRecord:
        judged = [(record, *self._judged(record)) for record in reversed(self._records)]
        for wanted in (True, None):
            for record, is_whole, _ in judged:
                if is_whole is wanted:
                    return record
        said = f" The newest is {judged[0][0].epoch}: {judged[0][2]}." if judged else ""
        message = (
            f"Job '{self._job}' has no whole epoch yet.{said} Let it run on, or name an epoch."
        )
        raise NotFoundError(message, kind="cdc_no_epoch", job=self._job)

    def _known(self, epoch: int) -> EpochRecord:
        for record in self._records:
            if record.epoch == epoch:
                return record
        known = (
            f"It has {self._records[0].epoch} to {self._records[-1].epoch}, and not those that were"
            " cut off"
            if self._records
            else "It has none yet"
        )
        message = (
            f"Job '{self._job}': the journal does not prove that epoch {epoch} is complete, or does"
            f" not keep it any more. {known}."
        )
        raise NotFoundError(message, kind="cdc_no_epoch", job=self._job, epoch=epoch)

    def _judged(self, record: EpochRecord) -> tuple[bool | None, str]:
        """Whether an epoch is whole, and why not."""
        is_whole = self._positions.is_between_transactions(record.end)
        if is_whole is False:
            return False, "it ends inside a transaction"
        for name, one in record.state.tables.items():
            if one.phase is Phase.COPYING and one.copies_count:
                return False, f"{name} waits to be copied again"
            is_ahead = one.copied_at and self._positions.is_before(record.end, one.copied_at)
            if one.phase is Phase.LIVE and is_ahead:
                return False, f"{name} was copied at {one.copied_at}, which is later"
        return is_whole, ""

    # ---- which snapshot

    def _table(self, name: str) -> Table:
        table = self._catalog.table(name)
        assert isinstance(table, Table), "no system table is a target"
        return table

    def _snapshot(self, name: str, record: EpochRecord) -> int:
        handle = self._table(name).handle
        commits = JobCommits.since(handle, self._user, record.epoch)
        found = commits.at(record.epoch)
        if found is None:
            message = (
                f"Job '{self._job}': the snapshot of '{name}' at epoch {record.epoch} has expired:"
                f" the oldest that is kept is {commits.earliest_id}. Name a later epoch, or keep"
                " snapshots longer by 'snapshot.time-retained' and 'snapshot.num-retained.min'."
            )
            raise NotFoundError(message, kind="cdc_epoch_expired", job=self._job, table=name)
        self._check_history(name, record, commits)
        return found

    def _check_history(self, name: str, record: EpochRecord, commits: JobCommits) -> None:
        """Refuse a table that does not have the job's last commit of the epoch any more."""
        made: MadeCommit | None = record.state.made.get(name)
        if made is None or made.snapshot_id < commits.earliest_id:
            return
        snapshot = self._table(name).handle.snapshots.find(made.snapshot_id)
        if snapshot is None or snapshot.identity != made.identity:
            message = (
                f"Job '{self._job}': '{name}' no longer has the commit of epoch {made.identifier}:"
                f" it was rolled back or made anew, so it cannot be read at epoch {record.epoch}."
                f" Copy it again: tidelake cdc resnapshot {name}, then the job."
            )
            raise InvalidInputError(message, kind="target_rolled_back", job=self._job, table=name)


def _targets(record: EpochRecord) -> list[str]:
    """The targets that were copied at least once."""
    tables = record.state.tables.values()
    return list(dict.fromkeys(one.target for one in tables if one.copies_count))


def _behind(record: EpochRecord) -> Iterator[tuple[str, str]]:
    """Targets with a table that is not followed, and why."""
    for name, one in record.state.tables.items():
        if one.copies_count and one.phase is not Phase.LIVE:
            yield one.target, f"{name} is {one.phase} ({one.reason})"
