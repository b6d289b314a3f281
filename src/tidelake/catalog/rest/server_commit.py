"""Makes a snapshot visible by the catalog's server: ``POST .../commit``, sent once.

1. The snapshot gets a uuid. The request names the table's id, so that a table that was dropped and
   created again takes nothing; the uuid of the base, so that a server of 2.x refuses a base that a
   rollback removed; and what changed in each partition.
2. What the server answers decides:

   ========================  ==================================================================
   success                   published
   no success                the snapshot of this id is read: ours (a proxy sent the request
                             twice): published. Another's: lost. None, and the base was rolled
                             back: lost. None on this base: unclear, as below
   404 of the table          it was dropped, or is another one: the commit ends
   not reached               refused: nothing was committed, the commit ends
   400, 401, 403, 413, 429,  the same, unless the snapshot of this id is ours: a proxy sent the
   501                       request twice, and the second one was refused. Published. If it cannot
                             be read, the outcome is unknown
   409, 5xx, 408 and other   unclear: the snapshot of this id is read, again and again for a
   4xx, no answer, no JSON   while. Ours: published. Another's: lost. None: in doubt. Not
                             readable: the outcome is unknown
   ========================  ==================================================================

The request is never sent again. After an attempt in doubt the publisher makes another snapshot on
the newest one. If the first takes effect late, the two compete for one id; the publisher finds the
first in the history, and does not commit again. No file is deleted once an outcome was in doubt.

Source: Paimon's ``CatalogSnapshotCommit`` and ``CommitTableRequest`` (1.3.1, 2.1), which give up
where an answer is lost.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import (
    AnswerLostError,
    ServerUnreachableError,
    TokenLeftOutError,
)
from tidelake.commit.snapshot_commit import (
    Candidate,
    Outcome,
    is_same_snapshot,
    outcome_unknown,
)
from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.schema_log import dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import Env

SETTLE_TRIES = 4
"""Reads of the server's snapshot after an unclear answer, while there is none of this id."""
SETTLE_WAIT_MS = 250
UNREADABLE = (StorageError, CorruptError, UnsupportedError, InvalidInputError)
"""Errors of a read: it does not tell what became of a snapshot."""


class ServerCommit:
    """The server decides which snapshot is the next one of a table."""

    def __init__(
        self,
        client: RestClient,
        database: str,
        name: str,
        *,
        table_id: str | None,
        paths: TablePaths,
        env: Env,
    ) -> None:
        self._client = client
        self._database = database
        self._name = name
        self._table_id = table_id
        self._paths = paths
        self._env = env

    @property
    def _table(self) -> str:
        return f"{self._database}.{self._name}"

    def latest(self) -> Snapshot | None:
        """The newest snapshot, as the server says; None for a table without any."""
        try:
            return self._client.snapshot(self._database, self._name)
        except NotFoundError as error:
            raise dropped(self._table) from error

    def publish(self, candidate: Candidate) -> Outcome:
        """Send a snapshot once, and find out what became of it."""
        snapshot = dataclasses.replace(candidate.snapshot, uuid=self._env.ids.uuid())
        try:
            done = self._client.commit(self._database, self._name, self._body(candidate, snapshot))
        except NotFoundError as error:
            raise dropped(self._table) from error
        except (ServerUnreachableError, TokenLeftOutError):
            raise
        except StorageRefusedError:
            if self._is_visible(snapshot):
                return Outcome.PUBLISHED
            raise
        except (InvalidInputError, UnsupportedError) as error:
            if self._is_visible(snapshot):
                return Outcome.PUBLISHED
            message = f"Table '{self._table}': the catalog's server refused a commit. {error}"
            raise StorageRefusedError(message, kind=error.kind, table=self._table) from error
        except (AnswerLostError, AlreadyExistsError) as error:
            return self._settled(snapshot, candidate.base, error)
        if done:
            return Outcome.PUBLISHED
        return self._settled(snapshot, candidate.base, None)

    def _body(self, candidate: Candidate, snapshot: Snapshot) -> dict[str, Any]:
        base = candidate.base
        return {
            "tableId": self._table_id,
            "baseSnapshotUuid": None if base is None else base.uuid,
            "snapshot": snapshot.to_document(),
            "statistics": partition_statistics(candidate.entries, self._paths),
        }

    def _is_visible(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is visible although the server refused it."""
        try:
            found = self._found(snapshot.id, self._newest())
        except NotFoundError as error:
            raise dropped(self._table) from error
        except UNREADABLE as error:
            raise outcome_unknown(self._table, error) from error
        return found is not None and is_same_snapshot(snapshot, found)

    def _settled(
        self, snapshot: Snapshot, base: Snapshot | None, failure: TidelakeError | None
    ) -> Outcome:
        """Find out what became of a snapshot; `failure` is None after an answer without success."""
        for attempt in range(SETTLE_TRIES):
            try:
                newest = self._newest()
                found = self._found(snapshot.id, newest)
            except NotFoundError as error:
                if failure is None:
                    raise dropped(self._table) from error
                raise outcome_unknown(self._table, failure) from error
            except UNREADABLE as error:
                raise outcome_unknown(self._table, failure or error) from error
            if found is not None:
                is_ours = is_same_snapshot(snapshot, found)
                return Outcome.PUBLISHED if is_ours else Outcome.LOST
            if failure is None and _is_gone(base, newest):
                return Outcome.LOST
            if attempt < SETTLE_TRIES - 1:
                self._env.clock.sleep_ms(SETTLE_WAIT_MS * 2**attempt)
        return Outcome.IN_DOUBT

    def _newest(self) -> Snapshot | None:
        return self._client.snapshot(self._database, self._name)

    def _found(self, snapshot_id: int, newest: Snapshot | None) -> Snapshot | None:
        """The snapshot of an id that is visible now; None if there is none yet.

        Raises
        ------
        CorruptError
            The table is past this id, and the snapshot was removed.
        """
        if newest is None or newest.id < snapshot_id:
            return None
        if newest.id == snapshot_id:
            return newest
        found = self._client.snapshot_of(self._database, self._name, snapshot_id)
        if found is None:
            message = f"Snapshot {snapshot_id} of table '{self._table}' has expired meanwhile."
            raise CorruptError(message, kind="snapshot_gone", table=self._table)
        return found


def _is_gone(base: Snapshot | None, newest: Snapshot | None) -> bool:
    """Whether a base was rolled back; `newest` is not newer than it."""
    if base is None or newest is None:
        return base is not None
    return newest.id < base.id or not is_same_snapshot(base, newest)


def partition_statistics(entries: EntryTable, paths: TablePaths) -> list[dict[str, Any]]:
    """Sum a commit's entries up by partition: rows, bytes and files. Pure.

    A removed file counts negative, so that a server adds the figures up. Source: Paimon's
    ``PartitionEntry`` and ``PartitionStatistics`` (1.3.1, 2.1).

    Returns
    -------
    list of dict
        Paimon's JSON objects, one per partition; without partition columns, one whose ``spec`` is
        empty.
    """
    if not entries.num_rows:
        return []
    sign = np.where(entries["kind"] == FileKind.ADD, 1, -1)
    numbers = entries["partition_id"]
    made_ms = np.asarray(entries["creation_time_ms"].fill_null(0))
    statistics = []
    for number, partition in enumerate(entries.partitions):
        rows = numbers == number
        if not rows.any():
            continue
        signs = sign[rows]
        statistics.append(
            {
                "spec": paths.partition_texts(partition),
                "recordCount": int((entries["row_count"][rows] * signs).sum()),
                "fileSizeInBytes": int((entries["file_size_bytes"][rows] * signs).sum()),
                "fileCount": int(signs.sum()),
                "lastFileCreationTime": int(made_ms[rows].max()),
                "totalBuckets": int(entries["total_buckets"][rows][0]),
            }
        )
    return statistics
