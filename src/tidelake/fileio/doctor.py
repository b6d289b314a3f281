"""Examines a store: what a warehouse needs of it, one finding after the other.

All of it happens below one prefix of its own, which is deleted at the end. Processes race for names
by conditional writes, all from one start; each name must have one winner, and hold the winner's
bytes.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from typing import TypeAlias

from tidelake.errors import CorruptError, NotFoundError, TidelakeError
from tidelake.fileio.file_io import FileIO
from tidelake.fileio.hdfs import HdfsFileIO, HdfsSettings, user_name
from tidelake.fileio.location import Location
from tidelake.fileio.object_store.file_io import ObjectStoreFileIO
from tidelake.fileio.object_store.output import PART_BYTES
from tidelake.fileio.object_store.settings import StoreSettings
from tidelake.fileio.secret import adopt_secrets, export_secrets
from tidelake.telemetry import Env

Settings: TypeAlias = StoreSettings | HdfsSettings
PREFIX = ".tidelake-doctor-"
THREADS = 16
ROUND_TRIPS = 20
SKEW_MS_MAX = 15 * 60 * 1000
RACE_SECONDS_MAX = 600
START_SECONDS_MAX = 60
"""How long the first process of the race waits for the last one."""
ODD_NAMES = ("a b", "ü", "x%2Fy", "p=1", "q?", "h#", "+", "'")
_START: list[Barrier] = []
"""In a process of the race: where all of them wait for each other."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination."""

    name: str
    passed: bool
    detail: str


def examine(
    location: Location, settings: Settings, env: Env, *, processes: int, names: int
) -> Iterator[Finding]:
    """Examine a store; the first failure of the connection ends it."""
    place = replace(location, path=f"{location.path.rstrip('/')}/{PREFIX}{env.ids.uuid()}")
    files = _opened(place, settings, env)
    bench = _Bench(files, place.path, env, names)
    yield Finding("credentials", passed=True, detail=_source(settings))
    answers = _finding("answers", bench.answers)
    yield answers
    if not answers.passed:
        return  # and nothing was written that would have to go
    try:
        for name, check in bench.checks():
            yield _finding(name, check)
        yield _finding("race of processes", lambda: _race(place, settings, processes, names))
    finally:
        yield _finding("cleaned up", lambda: _clean(files, place.path))


def _opened(place: Location, settings: Settings, env: Env) -> FileIO:
    if isinstance(settings, HdfsSettings):
        return HdfsFileIO(place, settings, env)
    return ObjectStoreFileIO(place, settings, env)


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, passed=True, detail=check())
    except (TidelakeError, _FailedError) as error:
        return Finding(name, passed=False, detail=str(error))


class _FailedError(Exception):
    """A check that the store did not pass."""


def _require(is_so: object, otherwise: str) -> None:
    if not is_so:
        raise _FailedError(otherwise)


class _Bench:
    """The checks of one process."""

    def __init__(self, files: FileIO, place: str, env: Env, names: int) -> None:
        self._files, self._place, self._env, self._names = files, place, env, names

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The other checks by name, in order."""
        yield "conditional writes", self._conditions
        yield "odd names", self._odd_names
        yield "ranges", self._ranges
        yield "upload in parts", self._parts
        if isinstance(self._files, HdfsFileIO):
            yield "directories", self._directories
        yield "listing", self._listing
        yield "clock", self._clock
        yield "round trips", self._round_trips

    def answers(self) -> str:
        """Whether there is a store at all."""
        self._files.exists(f"{self._place}/none")
        return self._files.uri_of(self._place)

    def _conditions(self) -> str:
        path = f"{self._place}/condition"
        _require(self._files.put_if_absent(path, b"first"), "the first write was refused")
        _require(not self._files.put_if_absent(path, b"second"), "the second one overwrote")
        _require(self._files.read_bytes(path) == b"first", "the bytes are not the first one's")
        return "the second of two is refused"

    def _odd_names(self) -> str:
        for name in ODD_NAMES:
            self._files.write_once(f"{self._place}/odd/{name}", name.encode())
            found = self._files.read_bytes(f"{self._place}/odd/{name}")
            _require(found == name.encode(), f"'{name}' reads as another's bytes")
        listed = {status.name for status in self._files.list_dir(f"{self._place}/odd")}
        _require(listed == set(ODD_NAMES), "a listing shows other names")
        return f"{len(ODD_NAMES)} are themselves"

    def _ranges(self) -> str:
        path = f"{self._place}/range"
        self._files.write_once(path, b"0123456789")
        _require(self._files.read_range(path, 3, 4) == b"3456", "a range has other bytes")
        try:
            self._files.read_range(path, 8, 4)
        except CorruptError:
            return "exact, and refused past the end"
        raise _FailedError("a range past the end was filled")

    def _parts(self) -> str:
        data = bytes(PART_BYTES) + b"end" * 1000
        output = self._files.open_output(f"{self._place}/large")
        output.write(data)
        output.close()
        _require(self._files.size(f"{self._place}/large") == len(data), "it has another length")
        aborted = self._files.open_output(f"{self._place}/aborted")
        aborted.write(data)
        aborted.abort()
        _require(not self._files.exists(f"{self._place}/aborted"), "an aborted upload shows")
        return f"{len(data) >> 20} MiB whole, an aborted one leaves nothing"

    def _directories(self) -> str:
        old, new = f"{self._place}/dir", f"{self._place}/renamed"
        self._files.make_dirs(f"{old}/inner")
        with self._files.open_dir(f"{old}/inner") as held:
            self._files.move_dir(old, new)
            self._files.make_dirs(f"{old}/inner")
            try:
                self._files.put_if_absent(f"{old}/inner/a", b"1", within=held)
            except NotFoundError:
                return "renamed at once; nothing gets into one that took another's place"
        raise _FailedError("a file got into another directory than the one that was open")

    def _listing(self) -> str:
        directory = f"{self._place}/many"

        def write(i: int) -> None:
            self._files.write_once(f"{directory}/{i:06d}", b"1")

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(write, range(self._names)))
        found = len(self._files.list_dir(directory))
        _require(found == self._names, f"{found} of {self._names} names are listed")
        self._files.delete_dir(directory)
        _require(not self._files.list_dir(directory), "deleted names are listed")
        return f"{self._names} names at once, none after the delete"

    def _clock(self) -> str:
        before = self._env.clock.now_ms()
        self._files.write_once(f"{self._place}/clock/now", b"1")
        (status,) = self._files.list_dir(f"{self._place}/clock")
        apart = abs(status.modified_ms - before)
        _require(apart < SKEW_MS_MAX, f"it differs by {apart // 1000} s from this machine's")
        return f"within {apart // 1000 + 1} s of this machine's"

    def _round_trips(self) -> str:
        took = []
        for i in range(ROUND_TRIPS):
            began = self._env.clock.now_ms()
            self._files.write_once(f"{self._place}/trip/{i}", b"1")
            took.append(self._env.clock.now_ms() - began)
        took.sort()
        return f"a write takes {took[len(took) // 2]} ms, at most {took[-1]} ms"


def _race(place: Location, settings: Settings, processes: int, names: int) -> str:
    spawn = multiprocessing.get_context("spawn")
    jobs = [(place, settings, who, names) for who in range(processes)]
    joining = (export_secrets(), spawn.Barrier(processes))
    try:
        with spawn.Pool(processes, _join, joining) as pool:
            reports = pool.starmap_async(_racer, jobs, chunksize=1).get(RACE_SECONDS_MAX)
    except multiprocessing.TimeoutError as error:
        message = f"the race did not end in {RACE_SECONDS_MAX} s"
        raise _FailedError(message) from error
    except threading.BrokenBarrierError as error:
        message = f"the {processes} processes did not all start in {START_SECONDS_MAX} s"
        raise _FailedError(message) from error
    _check_race(reports, names)
    return f"{processes} processes for {names} names: each won once"


def _check_race(reports: list[tuple[list[int], list[int]]], names: int) -> None:
    """Each name has one winner, and holds the winner's bytes."""
    wins = Counter(name for won, _ in reports for name in won)
    doubled = sum(count > 1 for count in wins.values())
    _require(not doubled, f"{doubled} of {names} names were won by several processes")
    foreign = sum(len(others) for _, others in reports)
    _require(not foreign, f"{foreign} of {names} names hold other bytes than their winner's")
    _require(len(wins) == names, f"{names - len(wins)} of {names} names were won by nobody")


def _join(secrets: bytes, start: Barrier) -> None:
    """Make a process ready for the race."""
    adopt_secrets(secrets)
    _START.append(start)


def _racer(
    place: Location, settings: Settings, who: int, names: int
) -> tuple[list[int], list[int]]:
    """One process of the race: the names that it won, and those of them with other bytes."""
    files = _opened(place, settings, Env.system())
    data = f"{who} was here".encode()
    # opens the connection and tests the place, which would give each another start
    files.write_once(f"{place.path}/start/{who}", data)
    _START[-1].wait(START_SECONDS_MAX)
    won = [i for i in range(names) if files.put_if_absent(f"{place.path}/race/{i}", data)]
    return won, [i for i in won if files.read_bytes(f"{place.path}/race/{i}") != data]


def _clean(files: FileIO, place: str) -> str:
    files.delete_dir(place)
    return "nothing is left"


def _source(settings: Settings) -> str:
    """Where credentials come from; none of them."""
    if isinstance(settings, HdfsSettings):
        return f"Kerberos, {settings.ticket}" if settings.is_secure else f"user '{user_name()}'"
    if settings.flag("anonymous"):
        return "none: anonymous"
    if settings.text("profile") is not None:
        return f"profile '{settings.text('profile')}'"
    return "given" if settings.secrets else "the environment, a role or the machine"
