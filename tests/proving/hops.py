"""Which modules rows pass through, as a call goes: for ``docs/internals/hops.md``.

A function receives rows where an argument or what it gives is Arrow rows, the caller's data, or an
iterator of rows. It is on the way of the rows where

- a function of the end of the way (:data:`ENDS`) is called by it, or
- it is called by a function on the way, and gives rows back that go on.

What a function of the second kind calls in turn is its own business. A hop is a step of the way
into another module than the one before; it is named by the first function there.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import pyarrow as pa

import tidelake
from tidelake.table.bucketing.router import BucketRows

ROOT = Path(tidelake.__file__).parent
PAGE = Path(__file__).parents[2] / "docs/internals/hops.md"
ENTERED_MAX = 2
"""How often a way may enter one module."""


@dataclass
class Call:
    """One call of a function."""

    module: str
    function: str
    takes_rows: bool = False
    gives_rows: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.module}:{self.function}"


def traced(work: Callable[[], object], is_data: Callable[[object], bool]) -> Call:
    """Call something and record the calls inside tidelake that it leads to."""
    root = Call("", "")
    known: dict[FrameType, Call] = {}
    stacks = threading.local()

    def is_rows(value: object) -> bool:
        if isinstance(value, (pa.RecordBatch, pa.Table)):
            return value.num_rows > 0 or is_data(value)  # an empty one carries types alone
        if isinstance(value, pa.RecordBatchReader) or is_data(value):
            return True
        if isinstance(value, (tuple, list)):
            return any(map(is_rows, value[:3]))
        if inspect.isgenerator(value) or isinstance(value, Iterator):
            return True
        return isinstance(value, BucketRows)

    def watch(frame: FrameType, event: str, value: object) -> None:
        file = frame.f_code.co_filename
        name = frame.f_code.co_qualname
        if event not in {"call", "return"} or not file.startswith(str(ROOT)) or name[-1] == ">":
            return  # or a comprehension, which is a part of its function
        stack = stacks.__dict__.setdefault("stack", [root])
        if event == "return":
            stack.pop().gives_rows |= is_rows(value)
            return
        call = known.get(frame)
        if call is None:
            code = frame.f_code
            taken = [frame.f_locals.get(name) for name in code.co_varnames[: _count(code)]]
            module = Path(file).relative_to(ROOT).as_posix()
            call = known[frame] = Call(module, code.co_qualname, any(map(is_rows, taken)))
            stack[-1].calls.append(call)
        stack.append(call)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return root


def _count(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount


def hops(root: Call, ends: frozenset[str]) -> list[str]:
    """The hops that lead to some functions, each once, in the order of the calls."""
    leads = leading(root, ends)
    found: list[str] = []

    def walk(one: Call) -> None:
        for inner in one.calls:
            gives_back = inner.takes_rows and inner.gives_rows
            is_on_the_way = id(inner) in leads and (inner.takes_rows or inner.gives_rows)
            if (is_on_the_way or gives_back) and inner.module != one.module:
                found.append(inner.name)
            if inner.name not in ends and (id(inner) in leads or not gives_back):
                walk(inner)

    walk(root)
    return list(dict.fromkeys(found))


def leading(call: Call, ends: frozenset[str]) -> set[int]:
    """Calls that lead to an end, or are one."""
    leads: set[int] = set()
    for inner in call.calls:
        leads |= leading(inner, ends)
    if call.name in ends or any(id(inner) in leads for inner in call.calls):
        leads.add(id(call))
    return leads


def assert_way(found: list[str], call: str, *, hops_max: int) -> None:
    """Check that a way is the one that the page lists for a call, and is within the bounds."""
    assert found == listed(call), "\n".join(found)
    assert len(found) <= hops_max
    entered = Counter(hop.split(":")[0] for hop in found)
    assert max(entered.values()) <= ENTERED_MAX, entered


def listed(call: str) -> list[str]:
    """The hops that the page lists for a call, as ``file:function``."""
    found: list[str] = []
    section = PAGE.read_text().split(f"\n## `{call}`\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        if line[:1].isdigit():
            module, function = line.split(". ", 1)[1].split(": ")
            found.append(f"{module.strip('`')}:{function.strip('`')}")
    return found
