"""Tells whether a snapshot follows the one before it: the chain of snapshots.

Ids are used again after a rollback. A snapshot that becomes visible late (its writer slept before
the put and died after it, or a network held the request back) may then stand behind snapshots that
it knows nothing of. Who builds on it loses what they committed. So

1. Each snapshot names its base in its ``properties``: ``tidelake.base-snapshot`` is the name of the
   base's own list of the state before it (:func:`link_of`). Each attempt of a commit writes such a
   list, so no two snapshots have the same, whatever their ids are.
2. Snapshot N+1 follows N if it names the link of the N that is there now. A snapshot that names
   nothing (of Java, of older versions) follows whatever is there, as it always did; so does one
   whose predecessor has expired.
3. In a store the very first snapshot that a rollback removes may come back, right behind the
   rollback's target. So the rollback first gives the target a mark, ``tidelake.rollback-mark``, by
   exchanging its file for one with it. The mark is part of the link: what was built on the target
   before does not follow it any more. A snapshot does not hand its mark on.
4. A snapshot that does not follow is **set aside**: :class:`~tidelake.metadata.log.SnapshotLog`
   does not have it, nor what stands behind it, and logs a warning. The next commit puts its own
   file over it (:mod:`tidelake.commit.store_snapshot_commit`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tidelake.errors import CorruptError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import PerProcess

_LOG = logging.getLogger("tidelake")
BASE = "tidelake.base-snapshot"
"""Key in a snapshot's properties (on disk: never rename)."""
ROLLBACK = "tidelake.rollback-mark"
"""Key of a rollback's mark, in its target's properties (on disk: never rename)."""
LOGGED_MAX = 10_000
"""Snapshots whose warnings a process remembers."""

_LOGGED: PerProcess[dict[tuple[str, int, str], object]] = PerProcess(dict)
"""Snapshots that a warning was logged of, by directory, id and link."""


def link_of(snapshot: Snapshot) -> str:
    """What the next snapshot names as its base."""
    mark = (snapshot.properties or {}).get(ROLLBACK)
    name = snapshot.base_manifest_list
    return name if mark is None else f"{name} {mark}"


def marked(snapshot: Snapshot, mark: str) -> Snapshot:
    """The snapshot as the target of a rollback: what was built on it before does not follow it."""
    return replace(snapshot, properties={**(snapshot.properties or {}), ROLLBACK: mark})


def names_base(snapshot: Snapshot) -> bool:
    """Whether a snapshot says what it follows."""
    return BASE in (snapshot.properties or {})


def follows(snapshot: Snapshot, before: Snapshot) -> bool:
    """Whether a snapshot may stand behind the one that has the id before its own.

    Examples
    --------
    >>> from tidelake.metadata.log.snapshot import CommitKind
    >>> made = ("me", 7, CommitKind.APPEND, 0)
    >>> one, other = (Snapshot(1, 0, name, "delta", *made) for name in ("list-a", "list-b"))
    >>> two = Snapshot(2, 0, "list-c", "delta", *made, properties={BASE: link_of(one)})
    >>> follows(two, one), follows(two, other)
    (True, False)
    """
    base = (snapshot.properties or {}).get(BASE)
    return base is None or base == link_of(before)


def may_follow(seen: object, before: object) -> bool:
    """Whether nothing says that one does not follow another: what is damaged says nothing."""
    if isinstance(seen, Snapshot) and isinstance(before, Snapshot):
        return follows(seen, before)
    return True


def warn_set_aside(snapshot: Snapshot, directory: str) -> None:
    """Log a snapshot that does not follow; once in a process."""
    if _was_logged((directory, snapshot.id, link_of(snapshot))):
        return
    _LOG.warning(
        "Snapshot %s in %s is set aside: it does not follow snapshot %s, so it was published late,"
        " after a rollback. The next commit replaces it.",
        snapshot.id,
        directory,
        snapshot.id - 1,
    )


def warn_left_behind(ids: Sequence[int], directory: str) -> None:
    """Log snapshots that came back after they had expired; once in a process."""
    new = [number for number in ids if not _was_logged((directory, number, ""))]
    if new:
        _LOG.warning(
            "Snapshots %s in %s are passed over: the oldest one that is kept does not follow them,"
            " so they were published late, after they had expired. The next expiry that is called"
            " removes them.",
            ", ".join(map(str, new)),
            directory,
        )


def _was_logged(key: tuple[str, int, str]) -> bool:
    logged, own = _LOGGED.value, object()
    if len(logged) >= LOGGED_MAX:
        logged.clear()
    return logged.setdefault(key, own) is not own


def gap_in(paths: TablePaths, snapshot_id: int, before: int, after: int) -> CorruptError:
    """The error of a snapshot that is missing between two others."""
    path = paths.snapshot(snapshot_id)
    message = (
        f"Snapshot file {path} is missing, but snapshots {before} and {after} around it exist."
        " Restore it from a backup; the newest snapshot can be read and written without it."
    )
    return CorruptError(message, kind="snapshot_gone", path=path)
