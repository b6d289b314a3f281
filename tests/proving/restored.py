"""Puts the checkpoint of a stopped query back to an older state, as a backup or a crash does.

A check calls :meth:`CheckpointCopies.take` after some runs of a query, and
:meth:`CheckpointCopies.restore` while the query is stopped. The next run either finds that each of
its batches is the same work as before, and loses nothing; or it raises an error whose kind is
:data:`BEHIND`, and writes nothing. After such an error :meth:`CheckpointCopies.undo` puts the last
state back, and the query goes on.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

__all__ = ["BEHIND", "CheckpointCopies", "forget_entries"]

BEHIND = "checkpoint_behind"
"""Kind of the error of a checkpoint that is older than what its query has committed."""
COPIES_MAX = 4
"""Copies that are kept; an older one is dropped."""


class CheckpointCopies:
    """Copies of one checkpoint, taken at moments that the check chooses.

    Parameters
    ----------
    folder : Path
        The checkpoint.
    beside : Path
        An empty directory for the copies.
    rng : random.Random
        Draws what is restored.
    """

    def __init__(self, folder: Path, beside: Path, rng: random.Random) -> None:
        self._folder, self._beside, self._rng = folder, beside, rng
        self._copies: list[Path] = []
        self._newest = beside / "newest"
        self._count = 0

    def take(self) -> None:
        """Copy the checkpoint as it is now."""
        if not self._folder.exists():
            return
        copy = self._beside / f"copy-{self._count}"
        self._count += 1
        shutil.copytree(self._folder, copy)
        self._copies.append(copy)
        if len(self._copies) > COPIES_MAX:
            shutil.rmtree(self._copies.pop(0))

    def restore(self) -> str:
        """Put an older state in the place of the checkpoint; says which one, for messages.

        Requires: the query is stopped.
        """
        shutil.rmtree(self._newest, ignore_errors=True)
        shutil.copytree(self._folder, self._newest)
        ways = ["the last commit", "the last batch"]
        if self._copies:
            ways += ["a copy", "a copy"]
        way = self._rng.choice(ways)
        if way == "a copy":
            copy = self._rng.choice(self._copies)
            self._put(copy)
            return f"{way}, {copy.name}"
        forget_entries(self._folder, "commits")
        if way == "the last batch":
            forget_entries(self._folder, "offsets")
        return f"without {way}"

    def undo(self) -> None:
        """Put the newest state back, which :meth:`restore` replaced."""
        self._put(self._newest)

    def _put(self, state: Path) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(state, self._folder)


def forget_entries(folder: Path, log: str, count: int = 1) -> None:
    """Remove the last entries of ``offsets`` or ``commits`` of a local checkpoint."""
    entries = (folder / log).glob("*")
    numbers = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    for number in numbers[len(numbers) - count :]:
        (folder / log / str(number)).unlink()
        (folder / log / f".{number}.crc").unlink(missing_ok=True)
