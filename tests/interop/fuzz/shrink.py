"""Makes a failing program small: fewer steps, columns, options and rows, plainer cells.

Each proposal is run, and taken where it fails in the same way (the same ``Failure.word``). What is
tried, from coarse to fine, until nothing helps any more or ``TRIES_MAX`` runs were spent:

1. leave out halves, quarters .. of the steps;
2. leave out a column (of a program without ``alter``: there rows change their width on the way);
3. leave out an option;
4. leave out halves, quarters .. of a step's rows, or of the partitions it drops;
5. make a cell null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from interop.fuzz.capability import is_not_null
from interop.fuzz.program import Program

TRIES_MAX = 400


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Give a program that still fails and of which nothing more can be left out."""
    tries = 0
    smaller: Program | None = program
    while smaller is not None:
        program, smaller = smaller, None
        for proposal in _proposals(program):
            tries += 1
            if tries > TRIES_MAX:
                return program
            if fails(proposal):
                smaller = proposal
                break
    return program


def _proposals(program: Program) -> Iterator[Program]:
    for steps in _without_parts(program.steps):
        yield program.with_steps(tuple(steps))
    if not any(s["op"] == "alter" for s in program.steps):
        for at in range(len(program.columns)):
            if _is_free(program, program.columns[at][0]) and len(program.columns) > 1:
                yield _without_column(program, at)
    for key in program.options:
        yield replace(program, options={k: v for k, v in program.options.items() if k != key})
    for number, step in enumerate(program.steps):
        for rows in _without_parts(step.get("rows", ())):
            if rows:
                yield _with_step(program, number, {**step, "rows": list(rows)})
        for partitions in _without_parts(step.get("partitions", ())):
            if partitions:
                yield _with_step(program, number, {**step, "partitions": partitions})
    for number, step in enumerate(program.steps):
        yield from _with_nulls(program, number, step)


def _without_parts(items: Sequence[Any]) -> Iterator[list[Any]]:
    size = len(items) // 2 if len(items) > 1 else len(items)
    while size:
        for start in range(0, len(items), size):
            yield [*items[:start], *items[start + size :]]
        size //= 2


def _is_free(program: Program, name: str) -> bool:
    named = {v for value in program.options.values() for v in value.split(",")}
    of_fields = [key.split(".")[1] for key in program.options if key.startswith("fields.")]
    named |= {name for names in of_fields for name in names.split(",")}
    return name not in {*program.primary_keys, *program.partition_keys, *named}


def _without_column(program: Program, at: int) -> Program:
    steps = []
    for step in program.steps:
        if "rows" in step:
            step = {**step, "rows": [[*r[: at + 1], *r[at + 2 :]] for r in step["rows"]]}
        steps.append(step)
    columns = (*program.columns[:at], *program.columns[at + 1 :])
    return replace(program, columns=columns, steps=tuple(steps))


def _with_step(program: Program, number: int, step: dict[str, Any]) -> Program:
    return program.with_steps((*program.steps[:number], step, *program.steps[number + 1 :]))


def _with_nulls(program: Program, number: int, step: dict[str, Any]) -> Iterator[Program]:
    if any(s["op"] == "alter" for s in program.steps):
        return
    nullable = [not is_not_null(t) for _, t in program.columns]
    for at, row in enumerate(step.get("rows", ())):
        for column, may in enumerate(nullable, start=1):
            if may and row[column] is not None:
                plain = [*row[:column], None, *row[column + 1 :]]
                rows = [*step["rows"][:at], plain, *step["rows"][at + 1 :]]
                yield _with_step(program, number, {**step, "rows": rows})
