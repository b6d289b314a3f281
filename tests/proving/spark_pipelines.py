"""Drawn pipelines (:mod:`proving.pipelines`) on Spark, and what befalls their queries.

A door is a way to read changes and a way to write them. A query runs over what is there and ends,
or goes on while the source changes. A filter is given to the stream, or applied behind it, where it
must be refused if changes have no old rows. Before the last run an event befalls the query: its
checkpoint is put back to an older state, or its source or its target is rolled back, perhaps while
it runs. Then the query is refused by the error of the event's kind, and a run that was refused from
its start has written nothing; or the target is right all the same.

Half of the pipelines read their changes shuffled by key, as large batches are.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from proving.crossing import Crossing, Draw
from proving.odd_names import odd_name
from proving.pipelines import (
    AT_DELETE,
    COLUMNS,
    FACTORS,
    FILTERS,
    NO_FILTER,
    OLD_ROWS,
    SOURCES,
    Pipeline,
    State,
    is_possible,
)
from proving.restored import BEHIND, CheckpointCopies
from tidelake.errors import ConflictError, TidelakeError
from tidelake.spark import Lake
from tidelake.spark.errors.run_errors import stream_failure
from tidelake.spark.read import changes_frame
from tidelake.table import Table
from tidelake.table.changelog.change_filter import INCOMPLETE

__all__ = ["DRAWS", "LEAVING_DRAWS", "MESSAGE_DRAWS", "TOPIC", "SparkPipeline"]

END_S_MAX = 120
FILES = ("1", "4", None, None)
ROLLED_BACK = {
    # a reader of Python's runs in a worker, whose errors pass Spark as their class and message
    "source": frozenset({"stream_expired", "not_found"}),
    "target": frozenset({"target_rolled_back"}),
}
"""Kinds of the error by the table that was rolled back."""
AT_LEAST_ONCE = frozenset({"own batches", "format", "messages"})
"""Doors whose rows go into the target by the user's own function, or as messages."""
TOPIC = "upserts"
"""The declared table of Kafka."""


class SparkPipeline:
    """One drawn pipeline on Spark.

    Parameters
    ----------
    lake : Lake
        Its catalog gets the tables.
    work : Path
        An empty directory for checkpoints.
    seed : int
        Of the pipeline.
    draw : mapping
        A choice of each factor of :data:`DRAWS`.
    held : callable, optional
        Gives what the target holds, by key; by default its batch read.
    """

    def __init__(
        self,
        lake: Lake,
        work: Path,
        seed: int,
        draw: Draw,
        held: Callable[[], State] | None = None,
    ) -> None:
        self.lake, self._work = lake, work
        self.pipeline = pipeline = Pipeline(seed, lake.catalog, "d", draw)
        self.rng = rng = random.Random(seed)
        self.draw, self.door = draw, _DOORS[draw["door"]]
        self.filter_is_given = draw["place"] == "given"
        self._held = held or (lambda: pipeline.state(pipeline.target))
        self.seen: Counter[str] = Counter()
        if draw["event"].startswith("source"):  # files of a bucket count before stop all writes
            pipeline.steps = [step for step in pipeline.steps if step != "rescale"]
        files, self._is_shuffled = rng.choice(FILES), rng.random() < 0.5
        if draw["door"] not in {"format", "format into a sink"} and files is not None:
            pipeline.stream_options["read.stream.maxFilesPerTrigger"] = files
        self._begun = 0
        self._begin_anew()

    # ---- queries

    def _begin_anew(self) -> None:
        self._begun += 1
        own = self._work / f"{self._begun}"
        (own / "copies").mkdir(parents=True)
        self.folder = own / odd_name(self.pipeline.seed)
        is_job = self.door is _by_sql
        self.checkpoint = self.folder / self.pipeline.target_name if is_job else self.folder
        self.copies = CheckpointCopies(self.checkpoint, own / "copies", self.rng)

    @contextlib.contextmanager
    def _query(self, *, has_end: bool) -> Iterator[StreamingQuery]:
        bytes_max = 1 if self._is_shuffled else changes_frame.ONE_TASK_BYTES
        with mock.patch.object(changes_frame, "ONE_TASK_BYTES", bytes_max):
            query = self.door(self, has_end)
            try:
                yield query
            except StreamingQueryException as error:
                raise query.exception() or error from None  # that of a sink as it was raised
            finally:
                query.stop()

    def _refusal(self) -> str | None:
        """Run the query over what is there; the kind of the error that refuses it."""
        try:
            with self._query(has_end=True) as query:
                self._await(query)
        except (TidelakeError, StreamingQueryException) as error:
            return stream_failure(error).kind
        return None

    def _await(self, query: StreamingQuery) -> None:
        if self.door is _by_sql:  # jobs have no end
            query.processAllAvailable()
        else:
            assert query.awaitTermination(END_S_MAX), f"{self.pipeline.shown}: it goes on"

    def _run(self) -> None:
        self.pipeline.told.append("run")
        refusal = self._refusal()
        assert refusal is None, f"{self.pipeline.shown}: refused, {refusal}"

    # ---- the pipeline

    def run(self, runs: int) -> Counter[str]:
        """Run it whole; what happened."""
        pipeline = self.pipeline
        pipeline.change_often()
        if _loses_changes(self.draw):
            self._try_refused()
        for _ in range(runs - 1):
            self._run()
            self.copies.take()
            pipeline.change_often()
        _EVENTS[self.draw["event"]](self)
        pipeline.check_rows(self._held())
        return self.seen

    def _try_refused(self) -> None:
        """A filter that would lose changes is refused; then go on with one that does not."""
        pipeline = self.pipeline
        refusal = self._refusal()
        assert refusal == INCOMPLETE, f"{pipeline.shown}: the filter was not refused, {refusal}"
        assert pipeline.target.latest_snapshot_id is None, f"{pipeline.shown}: it has written"
        self.seen["filter refused"] += 1
        pipeline.told.append("filter refused")
        if self.filter_is_given or self.door is _by_name:
            pipeline.filter = None
        self.filter_is_given = True
        self._begin_anew()

    # ---- what befalls it

    def _nothing(self) -> None:
        self.pipeline.settle()
        self._run()

    def _restored(self) -> None:
        pipeline = self.pipeline
        self._run()
        if self.rng.random() < 0.7:
            pipeline.change_often()
        if not self.checkpoint.exists():
            self._nothing()
            return
        pipeline.told.append(f"restored {self.copies.restore()}")
        pipeline.settle()
        allowed = frozenset() if self.draw["door"] in AT_LEAST_ONCE else frozenset({BEHIND})
        if self._went_on(allowed):
            return
        self.copies.undo()
        self._run()

    def _source_rolled_back(self) -> None:
        self._rolled_back("source")

    def _target_rolled_back(self) -> None:
        self._rolled_back("target")

    def _rolled_back(self, which: str) -> None:
        self._run()
        self._roll_back(which)
        if self.rng.random() < 0.7:
            self.pipeline.change_often()
        self.pipeline.settle()
        if not self._went_on(ROLLED_BACK[which]):
            self._start_over()

    def _source_rolled_back_while_it_runs(self) -> None:
        self._rolled_back_while_it_runs("source")

    def _target_rolled_back_while_it_runs(self) -> None:
        self._rolled_back_while_it_runs("target")

    def _rolled_back_while_it_runs(self, which: str) -> None:
        pipeline = self.pipeline
        try:
            with self._query(has_end=False) as query:
                query.processAllAvailable()
                pipeline.told.append("goes on")
                pipeline.change_often()
                if self.rng.random() < 0.7:
                    query.processAllAvailable()
                self._roll_back(which)
                if self.rng.random() < 0.7:
                    pipeline.change_often()
                pipeline.settle()
                query.processAllAvailable()
            self.seen["went on"] += 1
        except (TidelakeError, StreamingQueryException) as error:
            refusal = stream_failure(error).kind
            assert refusal in ROLLED_BACK[which], f"{pipeline.shown}: refused, {refusal}"
            self.seen[f"refused, {refusal}"] += 1
            self._start_over()

    def _went_on(self, allowed: frozenset[str]) -> bool:
        """Run; whether it was not refused. A refused run has written nothing."""
        pipeline = self.pipeline
        before = pipeline.state(pipeline.target)
        refusal = self._refusal()
        if refusal is None:
            self.seen["went on"] += 1
            return True
        assert refusal in allowed, f"{pipeline.shown}: refused, {refusal}"
        found = pipeline.state(pipeline.target)
        assert found == before, f"{pipeline.shown}: a refused run has written"
        self.seen[f"refused, {refusal}"] += 1
        pipeline.told.append(refusal)
        return False

    def _roll_back(self, which: str) -> None:
        """Roll a table back to one of its older snapshots; with one snapshot, to none."""
        table: Table = getattr(self.pipeline, which)
        newest, oldest = table.latest_snapshot_id, table.handle.snapshots.earliest_id()
        if newest is None or oldest is None or newest == oldest:
            return
        to = self.rng.randrange(oldest, newest)
        table.rollback_to(snapshot_id=to)
        self.pipeline.told.append(f"{which} rolled back from {newest} to {to}")
        if which == "target":  # noticed by the next batch
            self.pipeline.add_new_key()
            if self.rng.random() < 0.5:
                with contextlib.suppress(ConflictError):  # a query that runs may compact it, too
                    self.pipeline.target.compact(full=True)

    def _start_over(self) -> None:
        """What the message says: an empty target, and a new checkpoint."""
        self._begin_anew()
        self.pipeline.renew_target()
        self._run()


_EVENTS: dict[str, Callable[[SparkPipeline], None]] = {
    "nothing": SparkPipeline._nothing,
    "restored": SparkPipeline._restored,
    "source rolled back": SparkPipeline._source_rolled_back,
    "target rolled back": SparkPipeline._target_rolled_back,
    "source rolled back while it runs": SparkPipeline._source_rolled_back_while_it_runs,
    "target rolled back while it runs": SparkPipeline._target_rolled_back_while_it_runs,
}


# ---- doors: what starts a query, which ends or not


def _stream(self: SparkPipeline) -> DataFrame:
    given = self.pipeline.filter if self.filter_is_given else None
    frame = self.lake.read_stream(
        self.pipeline.source_name, where=given, options=self.pipeline.stream_options
    )
    return _behind(self, frame)


def _of_format(self: SparkPipeline) -> DataFrame:
    options = {"path": self.pipeline.source.paths.location, "read.changelog": "true"}
    if self.filter_is_given and self.pipeline.filter is not None:
        options["where"] = self.pipeline.filter
    reader = self.lake.spark.readStream.format("tidelake")
    return _behind(self, reader.options(**options, **self.pipeline.stream_options).load())


def _behind(self: SparkPipeline, frame: DataFrame) -> DataFrame:
    """The frame with the filter that was not given to its stream."""
    wanted = self.pipeline.filter
    return frame if self.filter_is_given or wanted is None else frame.where(wanted)


def _by_sink(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    return _into_sink(self, _stream(self), has_end)


def _by_format_into_sink(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    return _into_sink(self, _of_format(self), has_end)


def _into_sink(self: SparkPipeline, frame: DataFrame, has_end: bool) -> StreamingQuery:
    return self.lake.write_stream(
        frame,
        self.pipeline.target_name,
        checkpoint=self.checkpoint,
        trigger="availableNow" if has_end else None,
    )


def _by_own_batches(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    return _written(self, _stream(self), has_end)


def _by_format(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    return _written(self, _of_format(self), has_end)


def _written(self: SparkPipeline, frame: DataFrame, has_end: bool) -> StreamingQuery:
    def write(rows: DataFrame, _: int) -> None:
        self.lake.write(rows, self.pipeline.target_name)

    writer = frame.writeStream.foreachBatch(write)
    writer = writer.trigger(availableNow=True) if has_end else writer
    return writer.option("checkpointLocation", str(self.checkpoint)).start()


def _by_name(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    reader = self.lake.spark.readStream.options(
        **{"read.changelog": "true"}, **self.pipeline.stream_options
    )
    frame = _behind(self, reader.table(f"tidelake.{self.pipeline.source_name}"))
    writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint))
    writer = writer.trigger(availableNow=True) if has_end else writer
    return writer.toTable(f"tidelake.{self.pipeline.target_name}")


def _by_sql(self: SparkPipeline, _: bool) -> StreamingQuery:
    """A job; it has no end, and is stopped by its query."""
    lake, pipeline = self.lake, self.pipeline
    place = str(self.folder).replace("'", "''")
    options = ", ".join(f"'{k}' = '{v}'" for k, v in pipeline.stream_options.items())
    where = "" if pipeline.filter is None else f" WHERE {pipeline.filter}"
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{place}'")
    ((job_id, _),) = lake.sql(
        f"INSERT INTO {pipeline.target_name}"
        f" SELECT * FROM {pipeline.source_name} /*+ OPTIONS({options}) */{where}"
    ).collect()
    return lake.job(job_id).query


def _by_messages(self: SparkPipeline, has_end: bool) -> StreamingQuery:
    """Into a declared table of Kafka that takes changes, of the name :data:`TOPIC`."""
    return self.lake.write_stream(
        _stream(self),
        TOPIC,
        checkpoint=self.checkpoint,
        trigger="availableNow" if has_end else None,
    )


_DOORS: dict[str, Callable[[SparkPipeline, bool], StreamingQuery]] = {
    "sink": _by_sink,
    "sql": _by_sql,
    "name": _by_name,
    "format into a sink": _by_format_into_sink,
    "own batches": _by_own_batches,
    "format": _by_format,
    "messages": _by_messages,
}


def _has_old_rows(draw: Draw) -> bool:
    return draw["producer"] in OLD_ROWS


def _loses_changes(draw: Draw) -> bool:
    """Whether rows leave the filter of a draw unseen."""
    names = {name for name in COLUMNS if re.search(rf"\b{name}\b", draw["filter"])}
    if draw["filter"] == NO_FILTER or names <= set(SOURCES[draw["kind"]].keys):
        return False
    if not _has_old_rows(draw):
        return draw["place"] == "behind"
    if draw["engine"] == "first-row" or draw["target"] not in AT_DELETE:
        return False  # nothing is updated, or -U is enough
    return draw["place"] == "behind" or draw["door"] == "sql"  # a stream's own filter makes -D


def _is_possible(draw: Draw) -> bool:
    door, event, place = draw["door"], draw["event"], draw["place"]
    if draw["filter"] == NO_FILTER:
        if place == "behind":
            return False
    elif door == "name" and place == "given":
        return False  # it takes none
    if place == "behind" and door not in {"sink", "name"}:
        return False  # nothing checks it; in SQL the condition is given to the stream
    if door in AT_LEAST_ONCE:
        if door == "own batches" and _loses_changes(draw):
            return False  # nothing checks it
        if event.startswith("target"):
            return False  # what a user's function writes keeps no position
        if event == "restored" and draw["target"].endswith("sums"):
            return False  # at least once
    return is_possible(draw)


DRAWS = Crossing(
    {
        **FACTORS,
        "door": tuple(door for door in _DOORS if door != "messages"),
        "place": ("given", "behind"),
        "event": ("restored", *_EVENTS),
    },
    _is_possible,
)
"""By the seed of a pipeline."""
LEAVING_DRAWS = Crossing(
    {**FACTORS, "engine": tuple(e for e in FACTORS["engine"] if e != "first-row"),
     "producer": OLD_ROWS, "target": tuple(sorted(AT_DELETE)),
     "filter": tuple(one for one in FILTERS if "v" in one),
     "door": tuple(door for door in _DOORS if door != "messages"),
     "place": ("given", "given", "behind"), "event": ("nothing", "restored")},
    _is_possible,
)  # fmt: skip
"""Of updates that leave a filter, into targets that remove rows at -D alone."""
MESSAGE_DRAWS = Crossing(
    {**FACTORS, "target": ("flat",), "door": ("messages",), "place": ("given",),
     "event": ("nothing", "restored")},
    is_possible,
)  # fmt: skip
"""Of pipelines into a topic of upserts."""
