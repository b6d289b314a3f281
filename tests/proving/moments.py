"""Moments in a drawn time zone, with planted bugs of theirs.

Each door reads a time as the zone says, or refuses it.

A run draws a zone, commits at drawn moments, and names moments beside them in every form that a
user may give: with and without a zone, as text, datetime, numpy's time and milliseconds. The model
is Python's ``zoneinfo`` alone. Days on which a clock is set forward or back are among the moments.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np

import tidelake
from proving.planting import edited
from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.table.handle import instant
from tidelake.table.version_methods import VersionMethods
from tidelake.telemetry import Env, ManualClock

__all__ = ["CHECKS", "PLANTED", "check_moments_in_zones", "run_seed"]

ZONES = ("America/New_York", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "UTC")
STARTS = (
    datetime(2026, 1, 7, 5, tzinfo=UTC),
    datetime(2026, 3, 8, 6, tzinfo=UTC),  # New York sets its clocks forward an hour later
    datetime(2025, 10, 26, 0, tzinfo=UTC),  # Berlin sets them back an hour later
)
COMMITS, ASKED = 5, 12
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Given:
    """One moment in one form."""

    value: object
    is_naive: bool


def _forms(at_ms: int, zone: ZoneInfo, rng: random.Random) -> Given:
    moment = EPOCH + timedelta(milliseconds=at_ms)
    wall = moment.astimezone(zone).replace(tzinfo=None)
    elsewhere = moment.astimezone(timezone(timedelta(minutes=rng.randrange(-700, 700))))
    naive = [
        wall,
        wall.isoformat(),
        wall.isoformat(sep=" "),
        np.datetime64(wall, "ms"),
    ]
    aware = [
        elsewhere,
        elsewhere.isoformat(),
        f"{wall.isoformat(sep=' ')} {zone.key}",
        np.int64(at_ms),
    ]
    is_naive = rng.random() < 0.6
    if wall.fold:  # an hour that is there twice: text means the first, ``fold`` the second
        naive = naive[:1]
        aware.pop(2)
    return Given(rng.choice(naive if is_naive else aware), is_naive)


class _World:
    """A table in a zone, and when its snapshots were committed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"moments {seed}")
        self.zone = ZoneInfo(self.rng.choice(ZONES))
        start_ms = (self.rng.choice(STARTS) - EPOCH) // timedelta(milliseconds=1)
        clock = ManualClock(start_ms, tick_ms=1)
        env = replace(Env.seeded(seed), clock=clock, zone=self.zone.key)
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
        options = {"snapshot.num-retained.min": 1, "snapshot.time-retained": "30 d"}
        self.table = catalog.create_table("db.t", {"k": "BIGINT"}, options=options)
        for k in range(1, COMMITS + 1):
            clock.sleep_ms(self.rng.randrange(1_000, 3 * 3_600_000))
            self.table.write([{"k": k}])
        times = self.table.history()["commit_time"].cast("int64").to_pylist()
        self.times_ms = dict(zip(range(1, COMMITS + 1), times, strict=True))

    def at_or_before(self, at_ms: int) -> int | None:
        return max((n for n, t in self.times_ms.items() if t <= at_ms), default=None)

    def keys(self, table, **moment: object) -> int | None:
        try:
            return table.count(**moment) if moment else table.count()
        except NotFoundError as error:
            if error.kind != "before_first_snapshot":
                raise
            return None


def _read(world: _World, given: Given, at_ms: int) -> None:
    got = world.keys(world.table, timestamp=given.value)
    assert got == world.at_or_before(at_ms), ("timestamp=", given, got)


def _read_by_option(world: _World, given: Given, at_ms: int) -> None:
    if not isinstance(given.value, str):
        return
    table = world.table.with_options({"scan.timestamp": given.value})
    got = world.keys(table)
    assert got == world.at_or_before(at_ms), ("scan.timestamp", given, got)


def _changes(world: _World, given: Given, at_ms: int) -> None:
    if isinstance(given.value, np.int64):
        return  # which means a snapshot
    count = world.table.changes(given.value).num_rows
    assert count == COMMITS - (world.at_or_before(at_ms) or 0), ("changes", given, count)


def _stream(world: _World, given: Given, at_ms: int) -> None:
    if isinstance(given.value, datetime):
        batches = list(world.table.stream(start=given.value, timeout=0))
    elif isinstance(given.value, str):
        options = {"scan.mode": "from-timestamp", "scan.timestamp": given.value}
        batches = list(world.table.stream(options=options, timeout=0))
    else:
        return
    wanted = [n for n, t in world.times_ms.items() if t >= at_ms]
    assert [b.snapshot_id for b in batches] == wanted, ("stream", given, wanted)


def _roll_back(world: _World, given: Given, at_ms: int) -> None:
    def do(*positional: object, **named: object) -> int | None:
        try:
            done = world.table.rollback_to(*positional, **named, dry_run=True)
        except NotFoundError as error:
            if error.kind != "before_first_snapshot":
                raise
            return None
        return done.snapshot_id

    calls: list[Callable[[], int | None]] = [lambda: do(timestamp=given.value)]
    if not isinstance(given.value, np.int64):
        calls.append(lambda: do(given.value))
    for call in calls:
        _changing(call, given, world.at_or_before(at_ms))


def _expire(world: _World, given: Given, at_ms: int) -> None:
    def do() -> tuple[int, ...]:
        return world.table.maintenance.expire_snapshots(older_than=given.value, dry_run=True).ids

    # a snapshot may go if its successor is older
    gone = [n for n in range(1, COMMITS) if world.times_ms[n + 1] < at_ms]
    _changing(do, given, tuple(gone))


def _tag(world: _World, given: Given, at_ms: int) -> None:
    def do() -> int | None:
        try:
            world.table.tags.create("a", timestamp=given.value, time_retained="1 d")
        except NotFoundError as error:
            if error.kind != "before_first_snapshot":
                raise
            return None
        (tag,) = world.table.tags.list()
        assert tag.commit_time == EPOCH + timedelta(milliseconds=world.times_ms[tag.snapshot_id])
        assert tag.create_time is not None
        assert tag.create_time.utcoffset() == timedelta(0)
        world.table.tags.delete("a")
        return tag.snapshot_id

    _changing(do, given, world.at_or_before(at_ms))


def _changing(call: Callable[[], object], given: Given, wanted: object) -> None:
    """What changes the table takes no time without a zone."""
    try:
        got = call()
    except InvalidInputError as error:
        if error.kind != "naive_time" or not given.is_naive:
            raise
        return
    assert not given.is_naive, ("taken without a zone", given)
    assert got == wanted, (given, got, wanted)


DOORS = (_read, _read_by_option, _changes, _stream, _roll_back, _expire, _tag)


def run_seed(seed: int) -> None:
    """One table, and each door asked for moments beside its commits."""
    world = _World(seed)
    for _ in range(ASKED):
        near = world.rng.choice(sorted(world.times_ms.values()))
        at_ms = near + world.rng.choice([-1, 0, 1, world.rng.randrange(-4_000_000, 4_000_000)])
        for door in DOORS:
            door(world, _forms(at_ms, world.zone, world.rng), at_ms)


def check_moments_in_zones() -> None:
    """A few seeds; the test draws more."""
    for seed in range(4):
        run_seed(seed)


def _in_the_zone_of_the_machine(_):
    def taken(self, given, what):
        return None if given is None else instant.timestamp_ms(given, zone=self.handle.env.zone)

    return taken


CHECKS = (check_moments_in_zones,)
PLANTED = (
    (
        "a time without a zone is taken for UTC",
        "check_moments_in_zones",
        (instant, "_localized", edited("naive.replace(tzinfo=named)", "naive.replace(tzinfo=UTC)")),
    ),
    (
        "a rollback takes a time without a zone",
        "check_moments_in_zones",
        (VersionMethods, "_instant", _in_the_zone_of_the_machine),
    ),
)
