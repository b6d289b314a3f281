"""The result of an expiry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expired:
    """The result of an expiry of snapshots or of changelogs, or of a dry run.

    Parameters
    ----------
    ids : tuple of int
        The removed snapshots, or the snapshots of the removed changelogs, ascending.
    removed_files : int
        How many data, changelog, index and metadata files were removed.
    """

    ids: tuple[int, ...] = ()
    removed_files: int = 0
