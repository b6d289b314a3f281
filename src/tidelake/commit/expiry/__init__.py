"""Expiry of old snapshots and changelogs, and of the files that nothing else needs.

First it is decided what may expire. Files are removed after the snapshot that named them. Rows
expire elsewhere, in :mod:`tidelake.store.lsm.expiry`.
"""

from tidelake.commit.expiry.automatic import (
    expire_as_configured,
    expire_quietly,
    has_old_snapshots,
)
from tidelake.commit.expiry.changelog_retention import kept_for_changelogs
from tidelake.commit.expiry.changelogs import expire_changelogs
from tidelake.commit.expiry.removal import remove_files
from tidelake.commit.expiry.result import Expired
from tidelake.commit.expiry.retention import Retention, is_decoupled, retentions
from tidelake.commit.expiry.snapshots import expire_snapshots

__all__ = [
    "Expired",
    "Retention",
    "expire_as_configured",
    "expire_changelogs",
    "expire_quietly",
    "expire_snapshots",
    "has_old_snapshots",
    "is_decoupled",
    "kept_for_changelogs",
    "remove_files",
    "retentions",
]
