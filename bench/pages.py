"""What opening a table of many files costs on its page, and looking at it again.

The time goes from the request to the last byte of the page, over HTTP, in a process that knew
nothing of the table; what the doctor finds comes after it and is told apart.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import many_files
from kernel import Line, scratch
from measure import in_turn

import tidelake
from tidelake.ui.report import report
from tidelake.ui.serving import page_server

FILES = {"small": 2_000, "full": 100_000}
BUCKETS = {"small": 16, "full": 64}
ROUNDS = {"small": 1, "full": 5}
WAIT_S = 60
NAMES = ("wall", "cpu")


def lines(size: str) -> Iterator[Line]:
    """The lines of this question."""
    with scratch() as place:
        count = FILES[size]
        made = many_files.make(place, count * 9 // 10, buckets=BUCKETS[size])
        many_files.commit(made, range(count * 9 // 10, count), buckets=BUCKETS[size], level=0)
        looks = [_looked_at(place, count) for _ in range(ROUNDS[size])]
        walls, cpus = (
            {what: sorted(one[what][n] for one in looks)[len(looks) // 2] for what in looks[0]}
            for n in (0, 1)
        )
        size_kb = len(report(tidelake.open(str(place)), "db.t")) / 1_000
        taken = in_turn({"report": lambda: _reported(place)}, rounds=ROUNDS[size])["report"]
        wall, cpu = (sorted(getattr(one, n) for one in taken)[len(taken) // 2] for n in NAMES)
    said = f"page of a table of {count:,} files"
    for what, words, target in LOOKS:
        note = f"{walls[what]:.2f} s, {cpus[what]:.2f} s of CPU"
        yield Line("W6", f"{said}, {words}", "", None, target, note=note)
    note = f"{wall:.2f} s, {cpu:.2f} s of CPU, {size_kb:,.0f} kB"
    yield Line("W6", f"report of a table of {count:,} files", "", None, "", note=note)


LOOKS = (
    ("open", "opened", "<= 2 s"),
    ("health", "until the doctor's findings are there", ""),
    ("again", "looked at again", ""),
)


def _looked_at(place: Path, count: int) -> dict[str, tuple[float, float]]:
    """Seconds, and those of CPU, until the page is there, shows findings, is looked at again."""
    found = {}
    with page_server(tidelake.open(str(place)), port=0) as server:
        address = f"http://127.0.0.1:{server.server_port}/table/db.t"
        began, cpu = time.perf_counter(), time.process_time()
        text, etag = _asked(address)
        found["open"] = time.perf_counter() - began, time.process_time() - cpu
        assert f"{count:,} data files" in text
        while "too many runs" not in text:
            assert time.perf_counter() - began < WAIT_S
            time.sleep(0.1)
            text, etag = _asked(address)
        found["health"] = time.perf_counter() - began, time.process_time() - cpu
        time.sleep(1.1)  # past the time for which an answer counts as fresh
        began, cpu = time.perf_counter(), time.process_time()
        assert _asked(address, etag) == ("", etag)
        found["again"] = time.perf_counter() - began, time.process_time() - cpu
    return found


def _asked(address: str, etag: str = "") -> tuple[str, str]:
    request = urllib.request.Request(address, headers={"If-None-Match": etag} if etag else {})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.read().decode(), answer.headers["ETag"]
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        return "", error.headers["ETag"]


def _reported(place: Path) -> None:
    assert "too many runs" in report(tidelake.open(str(place)), "db.t")
