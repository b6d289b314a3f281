"""The doors without an engine for drawn pipelines (:mod:`proving.pipelines`).

A door brings the target up to date with what the source's changes say, and keeps its position
between its calls: batches of a plan under limits, streams of a consumer, ``follow``, the command
``tidelake tail``, ``changes`` in each mode, and the view ``$audit_log``. Each writes the rows in
the order in which it got them, so a key's last change must be the last that a door gives.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from unittest import mock

import pyarrow as pa

import tidelake
from proving.crossing import Crossing, Draw
from proving.pipelines import FACTORS, NO_FILTER, Pipeline, is_possible
from tidelake.cli import tail_command
from tidelake.cli.main import main
from tidelake.fileio import MemoryFileIO
from tidelake.table.stream import NO_LIMITS, ReadLimits, StreamOffset, StreamPlan
from tidelake.table.stream.follow import StreamBatch
from tidelake.telemetry import Env

__all__ = ["OF_SNAPSHOTS", "run_kernel_pipeline"]

CONSUMER = "pipeline"
LIMITS = (NO_LIMITS, NO_LIMITS, ReadLimits(files=1), ReadLimits(rows=5), ReadLimits(files=3))
OF_SNAPSHOTS = frozenset({"changes", "audit"})
"""Doors that give each snapshot's own changes, and leave overwrites out."""


def run_kernel_pipeline(seed: int) -> Pipeline:
    """Run one drawn pipeline in memory; its target must be its source."""
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(seed))
    pipeline = Pipeline(seed, catalog, "d", DRAWS[seed])
    if pipeline.draw["door"] in OF_SNAPSHOTS:
        pipeline.leave_out_overwrites()
    pipeline.run(_DOORS[pipeline.draw["door"]](pipeline))
    return pipeline


def _by_plan(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """Batches between offsets, which go through their text as in a checkpoint."""
    offset: list[str] = []

    def run(_: Pipeline) -> None:
        plan = StreamPlan.of(pipeline.source.handle, pipeline.stream_options)
        while True:
            at = plan.offset(offset[0]) if offset else plan.initial()
            if at is None:  # no commit yet
                return
            end = plan.next(at, pipeline.rng.choice(LIMITS))
            if end == at:
                return
            _write(pipeline, _between(plan, at, end))
            offset[:] = [end.to_json()]

    return run


def _between(plan: StreamPlan, at: StreamOffset, end: StreamOffset) -> pa.Table:
    return plan.parts(at, end).reader().read_all()


def _by_stream(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """What a consumer gets, in commits of some batches."""

    def run(_: Pipeline) -> None:
        stream = pipeline.source.stream(
            consumer_id=CONSUMER, where=pipeline.filter, options=pipeline.stream_options, timeout=0
        )
        for rows in _gathered((batch.data for batch in stream), pipeline):
            _write(pipeline, rows)

    return run


def _by_follow(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """A function that is called with each batch; now and then it wants no more for this time."""

    def take(batch: StreamBatch) -> bool:
        _write(pipeline, pa.Table.from_batches([batch.data]))
        # the batch after which it wants no more comes again, which would count twice
        return pipeline.into.holds == "sums" or pipeline.rng.random() < 0.9

    def run(_: Pipeline) -> None:
        has_more = True
        while has_more:
            before = pipeline.target.latest_snapshot_id
            pipeline.source.follow(
                take,
                consumer_id=CONSUMER,
                where=pipeline.filter,
                options=pipeline.stream_options,
                timeout=0,
            )
            has_more = pipeline.target.latest_snapshot_id != before

    return run


def _by_tail(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """The lines that the command prints."""
    given = ["--from", "full", "--consumer-id", CONSUMER, "--timeout", "0", "--format", "json"]
    for key, value in pipeline.stream_options.items():
        given += ["-o", f"{key}={value}"]
    if pipeline.filter is not None:
        given += ["--where", pipeline.filter]

    def run(_: Pipeline) -> None:
        out = io.StringIO()
        with (
            mock.patch.object(tail_command, "open_catalog", return_value=pipeline.catalog),
            contextlib.redirect_stdout(out),
        ):
            code = main(["tail", "-w", "/w", pipeline.source_name, *given])
        assert code == 0, pipeline.shown
        rows = [json.loads(line) for line in out.getvalue().splitlines()]
        if rows:
            kinds = [row.pop("op") for row in rows]
            pipeline.target.write(rows, row_kinds=kinds)

    return run


def _by_changes(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """Each snapshot's own changes: the changelog, else the new rows."""
    return _from_moment(pipeline, "changes")


def _by_net_changes(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    return _from_moment(pipeline, "net")


def _by_audit(pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """What the view of kinds shows of each snapshot."""
    return _from_moment(pipeline, "audit")


def _from_moment(pipeline: Pipeline, door: str) -> Callable[[Pipeline], None]:
    at = [0]

    def run(_: Pipeline) -> None:
        source = pipeline.source
        if door == "net":
            rows = source.changes(at[0], where=pipeline.filter)
        elif door == "audit":
            view = source.system_table("audit_log")
            rows = view.changes(at[0]).rename_columns({"rowkind": "_row_kind"})
        else:
            modes = ["auto", "delta" if pipeline.producer == "none" else "changelog"]
            mode = pipeline.rng.choice(modes)
            rows = source.changes(at[0], where=pipeline.filter, mode=mode)
        at[0] = source.latest_snapshot_id or 0
        _write(pipeline, rows)

    return run


def _write(pipeline: Pipeline, rows: pa.Table) -> None:
    if rows.num_rows:
        pipeline.target.write(rows)


def _gathered(batches: Iterator[pa.RecordBatch], pipeline: Pipeline) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if pipeline.rng.random() < 0.3:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


_DOORS: dict[str, Callable[[Pipeline], Callable[[Pipeline], None]]] = {
    "plan": _by_plan,
    "stream": _by_stream,
    "follow": _by_follow,
    "tail": _by_tail,
    "changes": _by_changes,
    "net": _by_net_changes,
    "audit": _by_audit,
}


def _is_possible(draw: Draw) -> bool:
    if draw["door"] in {"plan", "audit"} and draw["filter"] != NO_FILTER:
        return False  # they take none
    if draw["door"] in OF_SNAPSHOTS and (draw["kind"], draw["producer"]) == ("postpone", "none"):
        return False  # compactions, which show the rows, are no changes of theirs
    return is_possible(draw)


DRAWS = Crossing({**FACTORS, "door": tuple(_DOORS)}, _is_possible)
"""By the seed of a pipeline."""
