"""Whether a batch of a stream that has no rows makes a snapshot all the same.

With ``commit.force-create-snapshot`` it does. With ``snapshot.watermark-idle-timeout`` and tags by
watermark it does where the newest snapshot's watermark is that old: the rows that moved the
stream's watermark were left out by the query, and without a snapshot no tag would be made of it.

Source: Paimon's ``TagAutoCreation.forceCreatingSnapshot`` (2.1).
"""

from __future__ import annotations

from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle


def wants_empty_commit(handle: TableHandle) -> bool:
    """Whether a commit without rows is wanted now; one small read where the clock decides."""
    options = handle.options
    if options.get(declared.COMMIT_FORCE_CREATE_SNAPSHOT):
        return True
    timeout_ms = options.get(declared.SNAPSHOT_WATERMARK_IDLE_TIMEOUT)
    if timeout_ms is None or options.get(declared.TAG_AUTOMATIC_CREATION) != "watermark":
        return False
    newest = handle.snapshots.latest()
    if newest is None or newest.watermark is None:
        return False
    return handle.env.clock.now_ms() - timeout_ms >= newest.watermark
