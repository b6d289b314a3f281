"""What an expiry did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Expired"]


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry of snapshots or of changelogs did, or would do.

    Parameters
    ----------
    ids : tuple of int
        Snapshots, or changelogs of snapshots, that are gone, ascending.
    removed_files : int
        Data, changelog, index and metadata files that nothing needs any more.
    """

    ids: tuple[int, ...] = ()
    removed_files: int = 0
