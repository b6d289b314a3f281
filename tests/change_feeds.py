"""Drawn change feeds, and what tables must hold after them: plain Python, without the library.

A change is a dict: ``k``, ``at`` (its sequence), ``op`` (``"U"`` or ``"D"``), ``a``, ``b``. The
rows expected are derived from the set of all changes, by asking for the state at each moment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Change = dict[str, Any]
State = dict[str, Any]
Row = tuple[Any, ...]


def drawn_feed(seed: int, *, keys: int = 4, changes: int = 24, nulls: bool = False) -> list[Change]:
    """Changes of some keys, one at most for a key and moment."""
    rng = random.Random(seed)
    feed: list[Change] = []
    for k in range(keys):
        for at in rng.sample(range(1, 3 * changes // keys), changes // keys):
            op = "D" if rng.random() < 0.3 else "U"
            a = None if nulls and rng.random() < 0.4 else rng.choice("xy")
            b = None if nulls and rng.random() < 0.4 else rng.randrange(3)
            feed.append({"k": k, "at": at, "op": op, "a": a, "b": b})
    return feed


def drawn_batches(feed: list[Change], seed: int, *, batches: int = 4) -> list[list[Change]]:
    """The changes in any order and batches, some of them twice, in one batch and in several."""
    rng = random.Random(seed)
    rows = [*feed, *rng.sample(feed, len(feed) // 3)]
    rng.shuffle(rows)
    cuts = sorted(rng.randrange(len(rows) + 1) for _ in range(batches - 1))
    return [rows[i:j] for i, j in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def state_at(changes: list[Change], at: float, *, ignores_nulls: bool = False) -> State | None:
    """The values of a key at a moment; None if there is no row."""
    state: State | None = None
    for change in sorted((c for c in changes if c["at"] <= at), key=lambda c: c["at"]):
        if change["op"] == "D":
            state = None
            continue
        new = {"a": change["a"], "b": change["b"]}
        if ignores_nulls and state is not None:
            old = state
            new = {name: old[name] if new[name] is None else new[name] for name in new}
        state = new
    return state


def by_key(feed: list[Change]) -> dict[int, list[Change]]:
    """The changes of each key."""
    return {k: [c for c in feed if c["k"] == k] for k in sorted({c["k"] for c in feed})}


def last_rows(feed: list[Change], *, ignores_nulls: bool = False) -> set[Row]:
    """Type 1: ``(k, a, b)`` of the keys that have a row at the end."""
    rows: set[Row] = set()
    for k, changes in by_key(feed).items():
        state = state_at(changes, float("inf"), ignores_nulls=ignores_nulls)
        if state is not None:
            rows.add((k, state["a"], state["b"]))
    return rows


def history_rows(
    feed: list[Change], *, ignores_nulls: bool = False, tracked: Sequence[str] | None = None
) -> set[Row]:
    """Type 2: ``(k, a, b, start, end)`` of all versions."""
    rows: set[Row] = set()
    for k, changes in by_key(feed).items():
        version: tuple[int, State] | None = None
        for at in sorted(c["at"] for c in changes):
            state = state_at(changes, at, ignores_nulls=ignores_nulls)
            if version is not None and state is not None and tracked is not None:
                start, before = version
                if all(before[name] == state[name] for name in tracked):
                    version = (start, state)
                    continue
            if version is not None:
                rows.add((k, version[1]["a"], version[1]["b"], version[0], at))
            version = None if state is None else (at, state)
        if version is not None:
            rows.add((k, version[1]["a"], version[1]["b"], version[0], None))
    return rows
