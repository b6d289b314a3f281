"""How long after a commit of another process a stream without Spark has its rows.

``python bench/follow.py`` prints the median and the 95th percentile, in ms, of :data:`COMMITS`
commits of one row on local disk. Both processes read one clock of the machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

import tidelake

COMMITS = 40
WRITER = """
import sys, time, tidelake
table = tidelake.open(sys.argv[1]).table("db.t")
for k in range(int(sys.argv[2])):
    time.sleep(0.1)
    table.write([{"k": k}])
    print(time.time_ns(), flush=True)
"""


def waits(commits: int) -> list[float]:
    """Milliseconds from each commit to its rows in hand, the shortest first."""
    with tempfile.TemporaryDirectory() as place:
        table = tidelake.open(place).create_table("db.t", {"k": "BIGINT"})
        table.write([{"k": 0}])
        batches = table.stream(start="latest", timeout=30)
        command = [sys.executable, "-c", WRITER, place, str(commits)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            waits_ms = []
            for _ in range(commits):
                next(batches)
                in_hand = time.time_ns()
                waits_ms.append((in_hand - int(writer.stdout.readline())) / 1e6)
        batches.close()
    return sorted(waits_ms)


def main() -> None:
    """Measure and print."""
    waits_ms = waits(COMMITS)
    median, last = statistics.median(waits_ms), waits_ms[int(0.95 * COMMITS)]
    sys.stdout.write(f"commit to rows in hand: median {median:.1f} ms, p95 {last:.1f} ms\n")


if __name__ == "__main__":
    main()
