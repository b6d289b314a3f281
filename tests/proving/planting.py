"""How a bug is planted: one function of the engine is replaced, or one place of its source."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable
from unittest import mock

__all__ = ["edited", "passed_over", "replaced", "together"]

Plant = Callable[[], contextlib.AbstractContextManager]


def replaced(owner: object, name: str, make: Callable[[Callable], Callable]) -> Plant:
    """Put in the place of `owner.name` what `make` makes of it."""

    def plant():
        return mock.patch.object(owner, name, make(getattr(owner, name)))

    return plant


def edited(old: str, new: str) -> Callable[[Callable], Callable]:
    """The same function with one place of its source changed."""

    def make(original):
        source = textwrap.dedent(inspect.getsource(original))
        assert source.count(old) == 1, f"{original.__qualname__} has not one {old!r}: plant anew"
        names: dict[str, Callable] = {}
        exec(source.replace(old, new), original.__globals__, names)
        return names[original.__name__]

    return make


def passed_over(_):
    """Nothing is done."""
    return lambda *_, **__: None


def together(*plants: Plant) -> Plant:
    """Several at once: a bug of which another part of the engine would notice each half."""

    @contextlib.contextmanager
    def plant():
        with contextlib.ExitStack() as stack:
            for one in plants:
                stack.enter_context(one())
            yield

    return plant
