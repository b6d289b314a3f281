"""Planted bugs of streams; see :mod:`proving.mutants`."""

from __future__ import annotations

import tidelake.commit.publisher as publisher
import tidelake.table.rowlevel.delete as delete
import tidelake.table.stream.batch_end as batch_end
import tidelake.table.stream.consumer_reset as consumer_reset
import tidelake.table.stream.follow as follow
import tidelake.table.stream.snapshot_units as snapshot_units
import tidelake.table.stream.units as units
from proving.planting import edited, passed_over
from tidelake.commit.stream_step import Covered
from tidelake.errors import NotFoundError
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.write import sink_run
from tidelake.spark.streams.write.batch_sink import BatchSink
from tidelake.spark.streams.write.sink_run import SinkRun
from tidelake.spark.streams.write.sink_steps import SinkSteps
from tidelake.table.changelog.changelog_files import LoggedRows
from tidelake.table.stream import StreamLease, StreamParts, StreamPlan
from tidelake.table.stream.follower import Follower
from tidelake.table.stream.snapshot_units import ChangeSource, SnapshotChanges
from tidelake.table.stream.start import StreamStart
from tidelake.table.stream.units import LoggedFiles

__all__ = ["PLANTED"]


def _goes_on_at_the_oldest(original):
    def kept_or_lost(self, at):
        try:
            return original(self, at)
        except NotFoundError:
            return self.handle.snapshots.load(self.handle.snapshots.earliest_id())

    return kept_or_lost


def _progress_becomes_the_oldest(original):
    def consumed(self):
        try:
            return original(self)
        except NotFoundError:
            return self._earliest_id()

    return consumed


PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "a key that moves is added before it is removed",
        "check_stream_moved_keys",
        (units, "parts_in_passes", lambda _: iter),
    ),
    (
        "keys that were in other buckets are read bucket by bucket",
        "check_stream_spans",
        (StreamParts, "span_buckets", lambda _: lambda self, parts: False),
    ),
    (
        "a forced delete of a partition is told to no stream",
        "check_stream_forced_deletes",
        (delete, "deletes_by_row", lambda _: lambda handle: False),
    ),
    (
        "a stream records progress before its rows are taken",
        "check_stream_progress",
        (
            follow._Stream,
            "batches",
            edited(
                "yield from self._between(at, end)",
                "self._done_before(end.snapshot, None, of_state=False) or "
                "(yield from self._between(at, end))",
            ),
        ),
    ),
    (
        "the first state of a stream begins again after a restart",
        "check_stream_replay",
        (
            Follower,
            "inside",
            edited("return offset.index", "return offset.index if offset.phase == 'delta' else 0"),
        ),
    ),
    (
        "the changes behind a stream's first state skip a snapshot",
        "check_stream_replay",
        (
            StreamPlan,
            "_parts",
            edited(
                "at = behind",
                "at = behind if at.phase == 'delta' else follower.at(snapshot.id + 2)",
            ),
        ),
    ),
    (
        "a limit drops the last part of a stream's snapshot",
        "check_stream_replay",
        (
            StreamPlan,
            "_parts",
            edited(
                "follower.inside(at, units), units.count",
                "follower.inside(at, units), units.count - (at.index > 0)",
            ),
        ),
    ),
    (
        "a stream cuts one key's changes of a commit",
        "check_stream_cuts",
        (snapshot_units, "LoggedCommit", lambda _: LoggedFiles),
    ),
    (
        "a stream does not compare the parts of a snapshot",
        "check_stream_marks",
        (Follower, "inside", edited(" or offset.mark != units.mark", "")),
    ),
    (
        "a stream passes over an overwrite",
        "check_stream_refusals",
        (SnapshotChanges, "_of_overwrite", lambda _: lambda *_: ChangeSource.NOTHING),
    ),
    (
        "a stream goes on after a rollback",
        "check_stream_refusals",
        (Follower, "_check_before", passed_over),
    ),
    (
        "an expired stream goes on at the oldest snapshot",
        "check_stream_refusals",
        (Follower, "_kept_or_lost", _goes_on_at_the_oldest),
    ),
    (
        "expired progress of a stream becomes the oldest snapshot",
        "check_stream_refusals",
        (StreamStart, "_consumed", _progress_becomes_the_oldest),
    ),
    (
        "a stream does not renew its lease",
        "check_stream_leases",
        (StreamLease, "renew_if_due", passed_over),
    ),
    (
        "a silent stream takes the lease of another for its own",
        "check_stream_takeovers",
        (StreamLease, "_is_own", lambda _: lambda _: True),
    ),
    (
        "a silent stream is not told that its consumer was cleared",
        "check_stream_takeovers",
        (consumer_reset, "_end_lease", passed_over),
    ),
    (
        "an expiry forgets a stream that has just come",
        "check_stream_beside_expiry",
        (ConsumerLog, "forget", lambda _: lambda self, state, _: self.delete(state.consumer_id)),
    ),
    (
        "a row that leaves a stream's filter is left out",
        "check_stream_filters",
        (follow, "change_filter", lambda _: lambda *_, **__: None),
    ),
    (
        "a filter on values drops a delete by key",
        "check_stream_filters",
        (LoggedRows, "left_out", lambda _: property(lambda self: self.predicate)),
    ),
    (
        "a reader in its first full state does not claim its consumer",
        "check_first_states",
        (follow._Stream, "_hold", edited("if consumer_id is not None and of_state:", "if False:")),
    ),
    (
        "a first full state that was cut off is passed over",
        "check_first_states",
        (StreamStart, "_is_unfinished", lambda _: lambda _: False),
    ),
    (
        "a cleared consumer leaves what held its first full state",
        "check_first_states",
        (consumer_reset, "holder_of_state", lambda _: lambda name: name),
    ),
    (
        "start options beat a stream's checkpoint",
        "check_stream_cursor",
        (StreamCursor, "next", edited("at = self.plan.offset(start)", "at = self.plan.initial()")),
    ),
    (
        "the first batch of a stream forgets where it began",
        "check_stream_cursor",
        (StreamCursor, "between", edited("if began is None else", "if began else")),
    ),
    (
        "the commit user of a stream is that of its run",
        "check_stream_sink",
        (BatchSink, "user", lambda _: property(lambda self: self.run_id)),
    ),
    (
        "a sink lets go of a commit that Spark has not noted",
        "check_sink_runs",
        (SinkRun, "end", edited("forget=self._kept_id is None and self._is_done", "forget=True")),
    ),
    (
        "a sink that goes on does not hold its newest commit",
        "check_sink_runs",
        (
            sink_run,
            "_opened",
            edited("= _next_id(handle) if newest is None else newest.id", "= _next_id(handle)"),
        ),
    ),
    (
        "a sink holds its last commit only while Spark may repeat it",
        "check_sink_runs",
        (
            SinkRun,
            "end",
            edited("forget=self._kept_id is None and self._is_done", "forget=self._is_done"),
        ),
    ),
    (
        "a batch that comes again lets go of its commit",
        "check_sink_runs",
        (SinkRun, "begin", edited("self._keep(made)", "self._kept_id = None")),
    ),
    (
        "a batch of a restored checkpoint counts as committed by its number",
        "check_stream_histories",
        (Covered, "between", edited("_digest(end)", "_digest(end[:0])")),
    ),
    (
        "a stream goes on though its target was rolled back",
        "check_stream_histories",
        (SinkSteps, "made", lambda _: property(lambda _: None)),
    ),
    (
        "a stream with an end does not look whether its source was rolled back",
        "check_stream_histories",
        (batch_end._Walk, "run", edited("at.position >= self._until.position", "False")),
    ),
    (
        "the first batch of an aligned stream reads all there is",
        "check_aligned_streams",
        (StreamCursor, "_aligned", edited("reach is None or", "reach is None or here is None or")),
    ),
    (
        "a consumer does not know the snapshot that it has read",
        "check_consumer_rollbacks",
        (StreamStart, "_read_before", passed_over),
    ),
    (
        "the watermark of a stream's table falls",
        "check_stream_sink",
        (publisher, "_risen_watermark", lambda _: lambda _, given: given),
    ),
)
