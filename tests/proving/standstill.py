"""One process stands still right before each of its storage calls, in turn; others act meanwhile.

Where a rule is "looked at before, and once more after", this meets each moment between the looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidelake.errors import TidelakeError
from tidelake.fileio import FileIO
from tidelake.testing import FaultyFileIO

DECISIVE = frozenset({"open_dir", "put_if_absent", "replace", "delete", "move_dir"})
"""Calls that change what others see, or hold it; one stands still before and after each."""


FEW = 16
"""The first moments that decide something are all met, whatever the step."""


class Paused(FaultyFileIO):
    """The storage of a process that stands still right before one of its calls."""

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self._at: int | None = None
        self._act: Callable[[], object] | None = None

    def pause(self, calls_from_now: int, act: Callable[[], object]) -> None:
        """Let others act before the n-th call from now on, counted from 1."""
        self._at, self._act = len(self.trace) + calls_from_now, act

    def _call(self, op, path, effect, half_effect=None, late_effect=None):
        if self._act is not None and len(self.trace) + 1 == self._at:
            act, self._act = self._act, None
            act()
        return super()._call(op, path, effect, half_effect, late_effect)


@dataclass(frozen=True)
class Moment:
    """What came of an operation that stood still before one call.

    Parameters
    ----------
    where : str
        That call, for messages.
    files : FileIO
        The storage afterwards.
    error : TidelakeError, optional
        What the operation raised.
    others : TidelakeError, optional
        What the others were refused with.
    """

    where: str
    files: FileIO
    error: TidelakeError | None
    others: TidelakeError | None


def at_each_call(
    world: Callable[[], FileIO],
    opened: Callable[[FileIO], object],
    operation: Callable[[object], object],
    act: Callable[[FileIO], object],
    *,
    step: int,
    decisive_step: int = 1,
) -> Iterator[Moment]:
    """Run an operation once for each of its calls, with `act` right before that one.

    Parameters
    ----------
    world : callable
        Makes a storage with the table.
    opened : callable
        What the operation works with, on the storage of its process; these calls do not count.
    operation, act : callable
        What the process does, and what others do on their storage.
    step : int
        How many calls that decide nothing to go on by.
    decisive_step : int
        How many moments before and after those that decide something to go on by.
    """
    trial = Paused(world())
    subject = opened(trial)
    before = len(trial.trace)
    operation(subject)
    calls = trial.trace[before:]
    numbers = range(1, len(calls) + 1)
    decisive = [n for n in numbers if {entry.op for entry in calls[max(n - 2, 0) : n]} & DECISIVE]
    thinned = decisive[:FEW] + decisive[FEW::decisive_step]
    for number in sorted({*thinned, *numbers[step - 1 :: step]}):
        entry = calls[number - 1]
        files, failures = world(), []

        def meanwhile(files: FileIO = files, failures: list[TidelakeError] = failures) -> None:
            try:
                act(files)
            except TidelakeError as refused:
                failures.append(refused)

        paused = Paused(files)
        subject = opened(paused)
        paused.pause(number, meanwhile)
        error = None
        try:
            operation(subject)
        except TidelakeError as raised:
            error = raised
        where = f"before call {number}, {entry.op} of {entry.path}"
        yield Moment(where, files, error, failures[0] if failures else None)
