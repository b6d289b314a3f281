"""How a write becomes visible: conflict checks, manifests, publishing by put-if-absent, retries.

A commit is wholly visible or not at all. Which files a write made is decided above; nothing here
reads rows.
"""

from tidelake.commit.committer import Committer
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Committed
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind

__all__ = ["BATCH_IDENTIFIER", "CommitContext", "CommitKind", "Committed", "Committer"]
