"""What a hold adds to a read: its lease and its consumer, written and removed.

Reads with and without one come in turn, of a table so small that nothing else is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from kernel import Line, scratch
from measure import in_turn

import tidelake

ROUNDS = {"small": 5, "full": 400}


def lines(size: str) -> Iterator[Line]:
    """The line of this question."""
    with scratch() as place:
        table = tidelake.open(str(place)).create_table("db.t", {"k": "INT", "v": "INT"})
        table.append([{"k": k, "v": k} for k in range(100)])

        def read(hold: str) -> None:
            assert table.to_arrow(options={"read.hold": hold}).num_rows == 100

        modes = ("auto", "late", "never")
        taken = in_turn(
            {mode: (lambda mode=mode: read(mode)) for mode in modes}, rounds=ROUNDS[size]
        )
        free = median(one.wall for one in taken["never"]) * 1000
        for mode, what in (("auto", "a hold"), ("late", "the wait for a hold")):
            pairs = list(zip(taken[mode], taken["never"], strict=True))
            wall = median(held.wall - free.wall for held, free in pairs) * 1000
            cpu = median(held.cpu - free.cpu for held, free in pairs) * 1000
            note = f"{wall:.2f} ms, {cpu:.2f} ms of CPU; the read {free:.1f} ms"
            yield Line("W6", f"{what} of a batch read, local disk", "", None, "<= 2 ms", note=note)
