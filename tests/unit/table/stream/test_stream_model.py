"""Whatever the mode, the table and the limits: what a stream gives, replayed, is the state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from sizes import SIZE

import tidelake
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.table.stream import NO_LIMITS, ReadLimits, StreamOffset, StreamPlan
from tidelake.telemetry import Env

MODES = (
    "default",
    "latest-full",
    "latest",
    "compacted-full",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
    "from-file-creation-time",
    "from-creation-timestamp",
    "tag",
    "tag-full",
    "watermark",
    "incremental",
)
DELETES = {"+I": 5, "+U": 2, "-U": 1, "-D": 2}
WRITES = {"+I": 5, "+U": 2}
ENGINES = {
    "deduplicate": ({}, ("none", "input", "lookup", "full-compaction"), DELETES),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ("lookup", "full-compaction"),
        {"+I": 5, "+U": 2, "-D": 1},
    ),
    "aggregation": (
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        ("lookup", "full-compaction"),
        WRITES,
    ),
    "first-row": ({"merge-engine": "first-row"}, ("lookup",), {"+I": 1}),
}
KINDS = ("append", "append-bucketed", "append-deletions", *(["keyed"] * 4), "keyed-deletions")
KINDS = (*KINDS, "dynamic", "postpone", "cross-partition")


@dataclass
class Case:
    """What is drawn of a case."""

    seed: int
    rng: Random = field(init=False)
    keyed: bool = field(init=False)

    def __post_init__(self):
        self.rng = rng = Random(self.seed)
        self.mode = MODES[self.seed % len(MODES)]
        self.kind = KINDS[self.seed // len(MODES) % len(KINDS)]
        self.keyed = not self.kind.startswith("append")
        self.partitioned = rng.random() < 0.4 or self.kind == "cross-partition"
        self.kinds = {"+I": 1}
        options = {"num-sorted-run.compaction-trigger": rng.choice(["2", "3", "20"])}
        if self.kind == "append-bucketed":
            options |= {"bucket": "2", "bucket-key": "k"}
        if self.kind in {"append-deletions", "keyed-deletions"}:
            options["deletion-vectors.enabled"] = "true"
        if self.keyed:
            engine = rng.choice(list(ENGINES))
            if self.kind in {"cross-partition", "postpone"}:
                engine = "deduplicate"
            own, producers, self.kinds = ENGINES[engine]
            producer = rng.choice(producers)
            if self.kind == "keyed-deletions":
                if engine == "first-row":
                    own, engine = {}, "deduplicate"
                producer = rng.choice([p for p in ("none", "lookup") if p in producers])
            if self.kind == "postpone":
                producer = rng.choice(["none", "lookup"])
            buckets = {"dynamic": "-1", "postpone": "-2", "cross-partition": "-1"}
            options |= {
                **own,
                "bucket": buckets.get(self.kind, rng.choice(["1", "2"])),
                "changelog-producer": producer,
            }
            if (self.kind, producer) == ("cross-partition", "full-compaction"):
                options["full-compaction.delta-commits"] = "1"
            if self.kind == "dynamic":
                options["dynamic-bucket.target-row-num"] = "3"
        if self.partitioned and rng.random() < 0.5:
            options["scan.plan-sort-partition"] = "true"
        self.options = options
        self.producer = options.get("changelog-producer", "none")

    def table(self):
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(self.seed))
        keys = ["k"] if self.keyed else []
        if self.partitioned and self.keyed and self.kind != "cross-partition":
            keys = ["p", "k"]
        return catalog.create_table(
            "db.t",
            {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "INT"},
            primary_keys=keys,
            partition_keys=["p"] if self.partitioned else [],
            options=self.options,
        )

    def step(self, table, *, last=False):
        """One change of the table."""
        rng = self.rng
        draw = 0.99 if last else rng.random()
        if draw < 0.65 or table.latest_snapshot_id is None:
            self.write(table)
        elif draw < 0.8 and self.kind != "postpone":
            if rng.random() < 0.5 and not self.keyed:
                table.delete(f"k < {rng.randint(0, 3)}")
            elif self.kind != "cross-partition":
                table.write(self.rows(rng.randint(0, 4)), mode="overwrite")
        else:
            table.compact(full=last or rng.random() < 0.5)

    def write(self, table):
        rows = self.rows(self.rng.randint(1, 8))
        kinds = self.rng.choices(list(self.kinds), list(self.kinds.values()), k=len(rows))
        table.write(rows, row_kinds=kinds if self.keyed else None)

    def rows(self, count):
        draw = self.rng.randint
        return [{"p": draw(0, 2), "k": draw(0, 9), "v": draw(0, 99)} for _ in range(count)]

    def limits(self):
        return self.rng.choice(
            [
                NO_LIMITS,
                ReadLimits(files=1),
                ReadLimits(files=3),
                ReadLimits(rows=2),
                ReadLimits(bytes=1500),
                ReadLimits(rows=7, files=2),
            ]
        )


class Replay:
    """The state that given rows make."""

    def __init__(self, table, *, keyed):
        # as a target of the same key folds: a row of another partition takes the place of a key's
        self.key = table.primary_keys if keyed else None
        self.rows: Counter | dict = {} if keyed else Counter()
        self.partial = False

    def take(self, changes):
        for row in changes:
            kind = row.pop("_row_kind")
            value = tuple(row.values())
            if self.key is None:
                self.rows[value] += 1 if kind == "+I" else -1
                assert self.rows[value] >= 0 or self.partial, "a row is removed that was not there"
                continue
            key = tuple(row[name] for name in self.key)
            if kind in {"+I", "+U"}:
                self.rows[key] = value
            else:
                self.rows.pop(key, None)

    @property
    def state(self):
        return +self.rows if self.key is None else set(self.rows.values())


class Stream:
    """A stream that is asked for more now and then, and restarted."""

    def __init__(self, case, table, options):
        self.case, self.table = case, table
        self.options = {"streaming-read-overwrite": "diff", **options}
        self.plan = self.opened()
        self.at: StreamOffset | None = None
        self.begun: StreamOffset | None = None
        self.replay = Replay(table, keyed=case.keyed)

    def opened(self):
        return StreamPlan.of(self.table.handle, self.options)

    def pull(self, *, until=None, limits=None):
        """One batch; whether there was one."""
        case = self.case
        if case.rng.random() < 0.3:
            self.plan = self.opened()
            if self.at is not None:
                self.at = self.plan.offset(self.at.to_json())
        if self.at is None:
            self.at = self.begun = self.plan.initial()
            self.replay.partial = self.at is not None and (
                self.at.phase == "delta" or bool(self.at.created_ms)
            )
        if self.at is None:
            return False
        end = self.plan.next(self.at, limits or case.limits(), until)
        if end == self.at:
            return False
        assert end.position > self.at.position
        self.replay.take(self.plan.parts(self.at, end).reader().read_all().to_pylist())
        self.at = end
        return True


def state_of(case, table, snapshot_id):
    if snapshot_id == 0:
        return Counter() if not case.keyed else set()
    rows = [tuple(row.values()) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist()]
    return Counter(rows) if not case.keyed else set(rows)


def is_comparable(case, table, snapshot_id):
    """Whether a batch read sees no more and no less than the changes so far tell."""
    if not case.keyed:
        return True
    snapshot = table.handle.snapshots.load(snapshot_id)
    files = tidelake.scan.live_files(
        table.handle.read_context(), snapshot, manifests=table.handle.manifests
    )
    if (files["bucket"] < 0).any():
        return False
    level = files["level"]
    top = int(case.options["num-sorted-run.compaction-trigger"])
    below = {"lookup": level == 0, "full-compaction": level < top}
    return not below.get(case.producer, level < 0).any()


def start_options(case, table):
    """The options of the case's mode; what it is based on."""
    rng, latest = case.rng, table.latest_snapshot_id
    any_id = rng.randint(1, latest)
    if case.mode in {"default", "latest-full", "latest", "compacted-full"}:
        return {} if case.mode == "default" else {"scan.mode": case.mode}
    if case.mode == "from-snapshot":
        return {"scan.snapshot-id": str(any_id)}
    if case.mode == "from-snapshot-full":
        return {"scan.mode": case.mode, "scan.snapshot-id": str(any_id)}
    if case.mode.startswith("tag"):
        table.tags.create("here", snapshot_id=any_id)
        mode = {"scan.mode": "from-snapshot-full"} if case.mode == "tag-full" else {}
        return {**mode, "scan.tag-name": "here"}
    if case.mode == "incremental":
        return {"incremental-between": f"{rng.randint(0, any_id)},{any_id}"}
    time_ms = table.handle.snapshots.load(any_id).time_ms + rng.choice([-1, 0, 1])
    if case.mode == "watermark":
        return {"scan.mode": "from-snapshot", "scan.watermark": "1"}
    if case.mode == "from-file-creation-time":
        return {"scan.file-creation-time-millis": str(rng.choice([0, 0, time_ms]))}
    if case.mode == "from-creation-timestamp":
        return {"scan.creation-time-millis": str(time_ms)}
    return {"scan.timestamp-millis": str(time_ms)}


@pytest.mark.parametrize("seed", range(SIZE.stream_models))
def test_what_a_stream_gives_replays_to_the_state(seed):
    case = Case(seed)
    table = case.table()
    for _ in range(case.rng.randint(1, 5)):
        case.step(table)
    options = start_options(case, table)
    stream = Stream(case, table, options)
    if case.mode == "watermark":
        with pytest.raises(NotFoundError) as caught:
            stream.pull()
        assert caught.value.kind == "watermark_not_reached"
        stream = Stream(case, table, {})
    while stream.pull() and case.rng.random() < 0.8:
        pass
    if stream.begun is not None and stream.begun.phase == "delta":
        # what was there before is what a stream from the beginning has given up to there
        base = Stream(case, table, {"scan.snapshot-id": "1"})
        while base.pull(until=stream.begun):
            base.replay.partial = False
        assert base.at.position == stream.begun.position or not stream.begun.snapshot > 1
        base.replay.take(stream.plan.parts(stream.begun, stream.at).reader().read_all().to_pylist())
        stream.replay = base.replay
    compared = 0
    for _ in range(case.rng.randint(2, 8)):
        case.step(table)
        while case.rng.random() < 0.7 and stream.pull():
            at = stream.at
            if (
                at.index == 0
                and at.phase == "delta"
                and is_comparable(case, table, at.snapshot - 1)
            ):
                compared += check(case, table, stream)
    case.step(table, last=True)
    until = stream.plan.latest()
    while stream.pull(until=until):
        pass
    if case.mode == "incremental":
        assert stream.plan.is_ended(stream.at)
        assert stream.at.snapshot == int(options["incremental-between"].split(",")[1]) + 1
        assert not stream.pull()
        return
    assert stream.at.position == until.position
    assert is_comparable(case, table, until.snapshot - 1)
    assert check(case, table, stream) + compared > 0 or stream.begun.created_ms


def check(case, table, stream):
    """Compare the replayed state; of files of some age there is only a part of it."""
    if stream.begun.created_ms:
        return 0
    assert stream.replay.state == state_of(case, table, stream.at.snapshot - 1)
    return 1
