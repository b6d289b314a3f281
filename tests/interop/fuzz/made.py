"""Tables that Java makes on demand, by a plan: what the stored fixtures leave out.

Every scalar type as value and as key, with nulls, extremes and several commits, and the types that
may name a partition: each is a program whose steps Java takes alone, so its rows at every snapshot
are known, and both read it, system tables included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.cells import value_cell
from interop.fuzz.both import run
from interop.fuzz.capability import DIRECTORY_WORDS, KINDS, Kind
from interop.fuzz.program import Program, Step
from interop.matrix import DIFFERS, EQUAL, Verdict
from interop.peer import JavaPeer

COMMITS = 4
ROWS = 12


@dataclass(frozen=True)
class Made:
    """A named program."""

    name: str
    program: Program


def _java(rows: list[list[Any]]) -> Step:
    return {"by": "java", "op": "write", "rows": rows}


def _word(kind: Kind) -> str:
    return kind.type.lower().translate(str.maketrans("(), ", "____")).replace("__", "_").strip("_")


def _cell(rng: random.Random, kind: Kind, *, null: bool = True) -> str | None:
    return None if null and rng.random() < 0.25 else value_cell(kind.draw(rng), kind.type)


def _as_value(kind: Kind) -> Made:
    rng = random.Random(kind.type)
    steps = [
        _java([["+I", str(rng.randrange(9)), _cell(rng, kind)] for _ in range(ROWS)])
        for _ in range(COMMITS)
    ]
    columns = (("k", "INT NOT NULL"), ("v", kind.type))
    program = Program(columns, ("k",), (), {"bucket": "1"}, (*steps, _compact(full=True)))
    return Made(f"java value {_word(kind)}", program)


def _as_key(kind: Kind) -> Made:
    rng = random.Random(kind.type)
    pool = [_cell(rng, kind, null=False) for _ in range(6)]
    steps = []
    for number in range(COMMITS):
        kinds = ["+I", "+I", "-D"] if number else ["+I"]
        steps.append(_java([[rng.choice(kinds), k, f"s:{number}"] for k in pool[number:]]))
    columns = (("k", f"{kind.type} NOT NULL"), ("v", "STRING"))
    return Made(f"java key {_word(kind)}", Program(columns, ("k",), (), {"bucket": "2"}, (*steps,)))


def _as_partition(kind: Kind) -> Made:
    rng = random.Random(kind.type)
    if kind.type == "STRING":
        pool = [value_cell(w, kind.type) for w in DIRECTORY_WORDS]
    else:
        pool = [_cell(rng, kind, null=False) for _ in range(4)]
    steps = [_java([["+I", p, str(n)] for p in (*pool, None)]) for n in range(2)]
    program = Program((("p", kind.type), ("v", "INT")), (), ("p",), {}, tuple(steps))
    return Made(f"java partition {_word(kind)}", program)


def _compact(*, full: bool) -> Step:
    return {"by": "java", "op": "compact", "full": full}


def judged(made: Made, java: JavaPeer, warehouse: Path) -> Verdict:
    """Have Java make a table in a new warehouse, and read it at every snapshot."""
    outcome = run(made.program, java, warehouse)
    if outcome.failure is not None:
        failure = outcome.failure
        return Verdict(made.name, "tidelake", DIFFERS, f"{failure.word}: {failure.detail}")
    return Verdict(made.name, "tidelake", EQUAL, f"{outcome.snapshots} snapshots")


def made_by_java() -> list[Made]:
    """All of them."""
    return [
        *map(_as_value, KINDS),
        *(_as_key(k) for k in KINDS if k.key and k.type not in {"FLOAT", "DOUBLE"}),
        *(_as_partition(k) for k in KINDS if k.partition and k.type != "DATE"),
    ]
