"""Claims a batch for one run of a query, where each commit has a process of its own.

Spark commits each batch of a Python data source in a new Python process, so no process renews a
lease between two batches. So each commit claims its batch:

1. The lease is that of :mod:`tidelake.spark.streams.write.sink_run`. It has the query's id, and
   names the JVM of the query as its process. While it is live, a run in another folder, with a copy
   of the checkpoint, is refused.
2. The folder of the checkpoint records the term of its run's lease and the folder's own path. So
   the next process of a run finds its lease again, and a copied folder does not match.
3. A copy may take over a run that was silent for :data:`SILENCE_MS`. In its next batch the first
   run then finds a later term than its own, and is refused before it commits.

The consumer holds the snapshots since the newest commit, as a sink's does: Spark may repeat that
batch.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tidelake.engine.env import process_name
from tidelake.engine.streams import ConsumerLog, Lease
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import last_commit
from tidelake.errors import ConflictError
from tidelake.spark.streams.write.checkpoint import Checkpoint

RETAINED_MS = 7 * 24 * 3_600_000
"""Time after which the consumer of a dead query is forgotten."""
SILENCE_MS = 600_000
"""Silence after which a copy may take over: batches of such a query may be minutes apart."""


def sink_consumer(query_id: str) -> str:
    """Name the consumer by which a query holds its newest commit into a table."""
    return f"sink-{query_id}"


def claim_batch(handle: TableHandle, checkpoint: Checkpoint, query_id: str) -> None:
    """Check that a batch is this run's, and hold the query's last commit and all behind it.

    Raises
    ------
    ConflictError
        A run of the query in another folder is live, or took over.
    """
    log, name = ConsumerLog(handle.fileio, handle.paths), sink_consumer(query_id)
    with log.open_dir() as place:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        held, own_term = log.lease(name), checkpoint.run_term()
        now_ms = handle.env.clock.now_ms()
        newest = last_commit(handle.snapshots, query_id, handle.env.executor)
        first = (handle.snapshots.latest_id() or 0) + 1 if newest is None else newest.id
        term = 0 if held is None else held.term
        lease = Lease(
            name,
            term,
            checkpoint.shown,
            first,
            now_ms,
            SILENCE_MS,
            RETAINED_MS,
            process_name(os.getppid()),
        )
        if held is None or own_term != term:
            if held is not None and (held.is_live(now_ms) or _is_followed(held, own_term)):
                raise runs_already(handle, query_id)
            lease = replace(lease, term=max(term, own_term) + 1)
            if not log.take(lease, within=place):
                raise runs_already(handle, query_id)
            checkpoint.put_run_term(lease.term)
        else:
            log.write_lease(lease, within=place)
        log.record(name, first, within=place)


def _is_followed(held: Lease, own_term: int) -> bool:
    """Whether a run in another folder came after this one; ``write_stream`` has no folder."""
    return 0 < own_term < held.term and Path(held.run_id).is_absolute()


def runs_already(handle: TableHandle, query_id: str) -> ConflictError:
    """Make the error for a second live run of a query."""
    message = (
        f"A stream into table '{handle.identifier}' with this checkpoint, of query {query_id},"
        " already runs, perhaps with a copy of the checkpoint: stop that stream, or give this one"
        " a checkpoint of its own."
    )
    return ConflictError(message, kind="stream_runs_already", table=handle.identifier)
