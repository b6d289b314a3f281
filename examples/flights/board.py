"""The second act: one row a flight, filled by three streams; delays that follow its changelog.

1. Each stream is a topic of Kafka that records are sent to, or a table (:mod:`topics`). What reads
   them is a program of its own (:mod:`stream_job`), which is killed once and started again.
2. ``air.board`` is a partial-update table. Each stream has a sequence group: its stamp decides for
   its own columns, so a record that comes late changes nothing. Every commit looks up what it
   changes (``changelog-producer`` = ``lookup``).
3. ``air.delays`` is an aggregation table per carrier and day, fed by that changelog: a row that
   came adds, a row that went takes back. A flight that is cancelled leaves the sums that way.
4. Both tables, and their changelogs read on the executors and replayed, must be what pandas makes
   of the raw data; so must the answer of a scan.
5. Both are compacted. The tables and the answer of the scan must be what they were, and the
   changelog of the board has nothing new to tell.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import check
import pyarrow as pa
import pyarrow.compute as pc
import streams
from answers import WrongAnswer
from data import KEY, Raw
from life import Scan, SecondAct, StreamCount
from pyspark.sql import functions as F
from stream_job import BOARD, DELAYS, fill_board, keep_delays
from streams import Delivery
from topics import Topics

from tidelake.spark import Lake

DELAYS_KEY = ("carrier", "month", "day")
SCANS = 3
COMMITS_BEFORE_KILL = 2
JOB_SECONDS_MAX = 600
"""Longer than the streams take on any machine: a job that hangs ends the demo."""
STORY = {"month": 1, "day": 9, "carrier": "HA", "flight": 51, "origin": "JFK"}
"""The flight that left last: 21 hours and 41 minutes late."""


@dataclass(slots=True)
class Fed:
    """What went into the topics, and what became of the streams that read them."""

    records: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    taken_back: int = 0
    kills: int = 0
    commits_before_kill: int = 0


def create_tables(lake: Lake) -> None:
    """The board with a sequence group a stream; the delays, sums but for the worst."""
    groups = {
        f"fields.{stamp}.sequence-group": ",".join(columns)
        for columns, stamp in streams.STREAMS.values()
    }
    lake.catalog.create_table(
        BOARD,
        streams.BOARD,
        primary_keys=list(KEY),
        partition_keys=["month"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
            **groups,
        },
    )
    lake.catalog.create_table(
        DELAYS,
        streams.DELAYS,
        primary_keys=list(DELAYS_KEY),
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "sum",
            "fields.worst.aggregate-function": "max",
            "fields.worst.ignore-retract": "true",
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": "2",
        },
    )


def send(lake: Lake, topics: Topics, delivery: Delivery, fed: Fed) -> None:
    """Add the records of a delivery to their topic."""
    name = delivery.stream
    topics.send(lake, delivery)
    fed.records[name] = fed.records.get(name, 0) + delivery.rows.num_rows
    fed.late[name] = fed.late.get(name, 0) + delivery.late
    if name == "schedule":
        cancelled = pc.sum(pc.equal(delivery.rows["state"], "cancelled")).as_py()
        fed.taken_back += cancelled


def follow(lake: Lake, topics: Topics, checkpoints: Path) -> None:
    """Run both streams here until all that is in the topics has come through."""
    fill_board(lake, topics, checkpoints, ends=True).awaitTermination()
    keep_delays(lake, checkpoints, ends=True).awaitTermination()


def follow_with_a_kill(
    lake: Lake,
    topics: Topics,
    checkpoints: Path,
    deliveries: Sequence[Delivery],
    fed: Fed,
    sent: Callable[[], None],
) -> None:
    """Send all records; the program that reads them is killed on the way, and started again."""
    command = [sys.executable, str(Path(__file__).with_name("stream_job.py"))]
    command += [lake.catalog.uri, str(checkpoints.resolve())]
    command += topics.arguments
    topics.create(lake)
    until = time.monotonic() + JOB_SECONDS_MAX
    with (checkpoints.parent / "streams.log").open("w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            for number, delivery in enumerate(deliveries):
                send(lake, topics, delivery, fed)
                sent()
                if number == len(deliveries) // 2:
                    _wait_for_commits(lake, job, until)
                    os.killpg(job.pid, signal.SIGKILL)  # the driver, its JVM and the workers
                    job.wait()
                    fed.kills += 1
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        fed.commits_before_kill = lake.catalog.table(BOARD).latest_snapshot_id or 0
        again = subprocess.run(
            [*command, "--ends"], stdout=log, stderr=log, check=False, timeout=JOB_SECONDS_MAX
        )
    if again.returncode:
        raise WrongAnswer(f"the streams ended with {again.returncode}: see {log.name}")


def _wait_for_commits(lake: Lake, job: subprocess.Popen[bytes], until: float) -> None:
    """Until the board has its first commits, so that the kill meets streams at work."""
    while (lake.catalog.table(BOARD).latest_snapshot_id or 0) < COMMITS_BEFORE_KILL:
        if job.poll() is not None or time.monotonic() > until:
            raise WrongAnswer("the streams did not begin: see streams.log")
        time.sleep(0.1)


def second_act(lake: Lake, raw: Raw, fed: Fed, advance: Callable[[], None]) -> SecondAct:
    """Check and scan, compact, check and scan again; the figures of the report."""
    commits = _batches_once(lake)
    board, delays, late = check.board(raw), check.delays(raw), check.late_minutes(raw)
    checks = [(BOARD, _checked(lake, BOARD, board, KEY))]
    checks.append(_checked_changelog(lake, BOARD, board, KEY))
    advance()
    checks.append((DELAYS, _checked(lake, DELAYS, delays, DELAYS_KEY)))
    advance()
    before = _scan(lake, "before compaction", late)
    last = lake.catalog.table(BOARD).latest_snapshot_id
    began = time.perf_counter()
    lake.catalog.table(BOARD).compact(full=True)
    lake.catalog.table(DELAYS).compact(full=True)
    seconds = time.perf_counter() - began
    after = _scan(lake, f"after it ({seconds:.1f} s)", late)
    checks.append(("the scan before and after", f"{late.num_rows} sums equal"))
    advance()
    # full compactions tell it: complete with this one
    checks.append(_checked_changelog(lake, DELAYS, delays, DELAYS_KEY))
    advance()
    if told := lake.changes(BOARD, last, mode="changelog").count():
        raise WrongAnswer(f"the changelog of {BOARD}: {told} changes by a compaction")
    compacted = _checked(lake, BOARD, board, KEY)
    checks.append((f"{BOARD}, compacted", f"{compacted}, no change told"))
    compacted = _checked(lake, DELAYS, delays, DELAYS_KEY)
    checks.append((f"{DELAYS}, compacted", compacted))
    advance()
    return SecondAct(
        months=_months(lake, raw),
        counts=[StreamCount(name, fed.records[name], fed.late[name]) for name in fed.records],
        taken_back=fed.taken_back,
        commits=len(commits),
        killed_after=fed.commits_before_kill,
        scans=[before, after],
        story=_story(lake),
        checks=checks,
    )


def _batches_once(lake: Lake) -> list[int]:
    """The batches of the stream into the board, each of which must have been committed once."""
    log = lake.catalog.table(BOARD).history()
    appended = log.filter(pc.equal(log["commit_kind"], "APPEND"))
    batches = appended["commit_identifier"].to_pylist()
    if len(set(batches)) != len(batches) or len(set(appended["commit_user"].to_pylist())) != 1:
        raise WrongAnswer(f"the batches of {BOARD}, committed: {sorted(batches)}")
    if appended["watermark"].null_count == len(batches):
        raise WrongAnswer(f"no snapshot of {BOARD} has a watermark")
    return batches


def _checked(lake: Lake, name: str, expected: pa.Table, key: tuple[str, ...]) -> str:
    found = _told(name, lake.table(name).toArrow())
    _compare(name, expected, found, key)
    return f"{found.num_rows:,} rows x {found.num_columns} columns equal"


def _checked_changelog(
    lake: Lake, name: str, expected: pa.Table, key: tuple[str, ...]
) -> tuple[str, str]:
    changes, state = _replayed(lake, name)
    _compare(f"the changelog of {name}", expected, _told(name, state), key)
    return f"the changelog of {name}, replayed", f"{changes:,} changes give the table"


def _told(name: str, rows: pa.Table) -> pa.Table:
    """Rows that say something, whichever records came in one batch."""
    return check.told_days(rows) if name == DELAYS else rows


def _compare(what: str, expected: pa.Table, found: pa.Table, key: tuple[str, ...]) -> None:
    wrong = check.difference(expected, found, key=key)
    if wrong:
        raise WrongAnswer(f"{what}: {wrong}")


def _replayed(lake: Lake, name: str) -> tuple[int, pa.Table]:
    """Number of changes, and the table that they give: what came more often than it went.

    In whatever order they are added up: a change that told a wrong row before (``-U``), or left
    one out, would leave a row that is there twice, or less often than never.
    """
    changes = lake.changes(name, 0, mode="changelog")
    columns = [column for column in changes.columns if column != "_row_kind"]
    sign = F.when(F.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    times = changes.groupBy(*columns).agg(F.sum(sign).alias("times")).where("times <> 0")
    found = times.toArrow()
    count = pc.sum(lake.catalog.table(name).history()["changelog_record_count"]).as_py()
    odd = pc.sum(pc.not_equal(found["times"], 1)).as_py()
    if odd:
        raise WrongAnswer(f"the changelog of {name}: {odd} rows are not there once")
    return count, found.drop_columns("times")


def _scan(lake: Lake, when: str, expected: pa.Table) -> Scan:
    """Files of the board, and the seconds of a query over all of them, each answer checked."""
    files = [f for split in lake.catalog.table(BOARD).plan().splits for f in split.files]
    taken = []
    for _ in range(SCANS):
        began = time.perf_counter()
        frame = lake.table(BOARD, columns=["carrier", "state", "dep_delay", "arr_delay"])
        found = (
            frame.groupBy("carrier", "state")
            .agg(*(F.sum(name).alias(name) for name in ("dep_delay", "arr_delay")))
            .toArrow()
        )
        taken.append(time.perf_counter() - began)
        _compare(f"the scan {when}", expected, found, ("carrier", "state"))
    size = sum(f.file_size_bytes for f in files)
    rows = sum(f.row_count for f in files)
    return Scan(when, len(files), size, rows, statistics.median(taken))


def _months(lake: Lake, raw: Raw) -> object:
    """Per airline and month: flights that left, and minutes that they left late."""
    frame = lake.table(DELAYS, columns=["carrier", "month", "departed", "dep_minutes"])
    sums = frame.groupBy("carrier", "month").agg(
        F.sum("departed").alias("flights"), F.sum("dep_minutes").alias("late_minutes")
    )
    return sums.where("flights > 0").toPandas().merge(raw.airlines, on="carrier")


def _story(lake: Lake) -> list[tuple[str, ...]]:
    """One flight as the changelog tells of it."""
    wanted = " AND ".join(f"{name} = {value!r}" for name, value in STORY.items())
    columns = ["state", "tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay"]
    table = lake.catalog.table(BOARD)
    changes = table.changes(0, columns=columns, where=wanted, mode="changelog")
    return [
        tuple("" if value is None else str(value) for value in row.values())
        for row in changes.to_pylist()
    ]
