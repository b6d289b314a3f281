"""Enumerated faults on the wire: every changing request of a scenario fails, one after another.

The scenario runs on the object store's client against the S3 of this process. Each of its PUTs,
POSTs and DELETEs meets each fault: an answer lost, doubled, refused, or an effect that comes late.
Then the same holds as for faults of calls (:mod:`proving.faults`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from servers.faults import Fault
from servers.s3 import S3Server

from proving import faults
from proving.faults import FaultViolation
from proving.scenario import Scenario
from proving.scenarios import scenarios
from tidelake.errors import TidelakeError
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, parse_settings
from tidelake.telemetry import Env
from tidelake.testing import FaultyFileIO

NAMES = (
    "append",
    "upsert with compaction",
    "drop and truncate",
    "delete, update and tag",
    "rollback",
    "alter",
)
METHODS = ("PUT", "POST", "DELETE")


@dataclass(frozen=True)
class WireFault:
    """One way in which a request fails."""

    mode: str
    more: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.mode, *map(str, self.more.values())])


def _status(mode: str, status: int, code: str) -> WireFault:
    return WireFault(mode, {"status": status, "code": code})


FAULTS = (
    WireFault("lost"),
    WireFault("drop"),
    WireFault("dup"),
    WireFault("defer", {"after": 1}),
    WireFault("defer", {"after": 6}),
    WireFault("defer", {"after": 10_000}),
    _status("status", 409, "ConditionalRequestConflict"),
    _status("status", 412, "PreconditionFailed"),
    _status("status", 503, "SlowDown"),
    _status("status", 400, "RequestTimeout"),
    _status("status", 403, "AccessDenied"),
    _status("status", 400, "ExpiredToken"),
    _status("status_after", 500, "InternalError"),
)


class WiredFileIO(FaultyFileIO):
    """A bucket of its own in a server, with the fault that was ordered of it."""

    ordered: Fault | None = None

    def is_hit(self) -> bool:
        return self.ordered is not None and self.ordered.seen >= self.ordered.nth


_buckets = itertools.count(1)


def new_bucket(s3: S3Server) -> ObjectStoreFileIO:
    """A new bucket, tested for safety already, so that only a scenario's requests are counted."""
    name = s3.make_bucket(f"bucket-{next(_buckets)}")
    settings = parse_settings("s3", s3.storage(**{"s3.retries": "1"}))
    files = ObjectStoreFileIO(parse_location(f"s3://{name}/warehouse"), settings, Env.seeded(1))
    files.write_once("/beside", b"")
    s3.forget()
    return files


def requests_of(scenario: Scenario, s3: S3Server) -> dict[str, int]:
    """How many requests of each method a scenario sends."""
    files = WiredFileIO(new_bucket(s3))
    faults.run(scenario, files.inner, files)
    return {method: s3.count(method) for method in METHODS}


def run_fault(scenario: Scenario, s3: S3Server, method: str, nth: int, fault: WireFault) -> None:
    """One fault; raises FaultViolation for a broken promise."""
    files = WiredFileIO(new_bucket(s3))
    files.ordered = s3.fault(fault.mode, method, nth=nth, **fault.more)
    where = f"{scenario.name}, {method} {nth}, {fault}"
    try:
        allowed, must_exist = faults.run(scenario, files.inner, files)
        faults.recover(
            scenario, files.inner, allowed, must_exist=must_exist, settle=lambda: _settle(s3)
        )
    except AssertionError as error:
        raise FaultViolation(f"{where}: {error}") from error
    except TidelakeError as error:
        raise FaultViolation(f"{where}: recovery failed: {error!r}") from error


def _settle(s3: S3Server) -> bool:
    s3.settle()
    return True


def all_faults(s3: S3Server) -> Iterator[tuple[Scenario, str, int, WireFault]]:
    """Every (scenario, method, request, fault)."""
    for scenario in scenarios():
        if scenario.name in NAMES:
            for method, count in requests_of(scenario, s3).items():
                for nth, fault in itertools.product(range(1, count + 1), FAULTS):
                    yield scenario, method, nth, fault


def faults_in_turn(scenario: Scenario, s3: S3Server) -> Iterator[tuple[str, int, WireFault]]:
    """Every changing request once, the faults in turn."""
    turn = itertools.cycle(FAULTS)
    for method, count in requests_of(scenario, s3).items():
        for nth in range(1, count + 1):
            yield method, nth, next(turn)
