"""Reading the newest snapshot while others commit and expire what is older."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot

T = TypeVar("T")
Latest = Callable[[], Snapshot | None]


def read_newest(latest: Latest, read: Callable[[Snapshot | None], T]) -> T:
    """What a read gives of the newest snapshot; of the next one if that expired meanwhile.

    Parameters
    ----------
    latest : callable
        Finds the newest snapshot.
    read : callable
        Reads files that the snapshot names; called again with another snapshot.

    Raises
    ------
    NotFoundError
        A file is missing that the newest snapshot names.
    """
    snapshot = latest()
    while True:
        try:
            return read(snapshot)
        except NotFoundError:
            newest = latest()
            if not has_moved_on(snapshot, newest):
                raise
            snapshot = newest


def has_moved_on(base: Snapshot | None, newest: Snapshot | None) -> bool:
    """Whether a snapshot is no longer the newest: it may have expired, with files that it names."""
    return newest is not None and newest != base
