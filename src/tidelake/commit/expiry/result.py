"""The result of an expiry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Holder:
    """A reader that keeps snapshots which would else have expired.

    Parameters
    ----------
    consumer_id : str
        Its consumer; ``read-<uuid>`` for a batch read.
    snapshot_id : int
        The oldest snapshot that it keeps.
    is_live : bool
        Whether a run of it reads now, as far as is known.
    began_ms : int, optional
        When a batch read began, ms since the epoch; None for other readers.
    heard_ms : int
        When it was last heard of, ms since the epoch.
    """

    consumer_id: str
    snapshot_id: int
    is_live: bool
    began_ms: int | None
    heard_ms: int

    def __str__(self) -> str:
        what = "since" if self.began_ms else "heard of"
        time = datetime.fromtimestamp((self.began_ms or self.heard_ms) / 1000, tz=UTC)
        return (
            f"{self.consumer_id} from snapshot {self.snapshot_id} on,"
            f" {what} {time.isoformat(' ', 'seconds')}"
        )


@dataclass(frozen=True, slots=True)
class Expired:
    """The result of an expiry of snapshots or of changelogs, or of a dry run.

    Parameters
    ----------
    ids : tuple of int
        The removed snapshots, or the snapshots of the removed changelogs, ascending.
    removed_files : int
        How many data, changelog, index and metadata files were removed.
    held_by : tuple of Holder
        The readers without which more snapshots would have expired, by consumer.
    """

    ids: tuple[int, ...] = ()
    removed_files: int = 0
    held_by: tuple[Holder, ...] = ()
