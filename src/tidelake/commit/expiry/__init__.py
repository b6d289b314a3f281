"""Snapshots and changelogs that have expired, and the files that nothing else needs."""

from tidelake.commit.expiry.automatic import expire_as_configured, expire_quietly
from tidelake.commit.expiry.changelogs import expire_changelogs
from tidelake.commit.expiry.expired import Expired
from tidelake.commit.expiry.removal import remove_files
from tidelake.commit.expiry.retention import Retention, is_decoupled, retentions
from tidelake.commit.expiry.snapshots import expire_snapshots
from tidelake.commit.expiry.told import kept_for_changelogs

__all__ = [
    "Expired",
    "Retention",
    "expire_as_configured",
    "expire_changelogs",
    "expire_quietly",
    "expire_snapshots",
    "is_decoupled",
    "kept_for_changelogs",
    "remove_files",
    "retentions",
]
