"""Conflict check, manifests, publishing by put-if-absent, retries: how a write becomes visible."""

from tidelake.commit.changes import Committed
from tidelake.commit.committer import Committer
from tidelake.commit.context import CommitContext
from tidelake.metadata.snapshot import BATCH_IDENTIFIER, CommitKind

__all__ = ["BATCH_IDENTIFIER", "CommitContext", "CommitKind", "Committed", "Committer"]
