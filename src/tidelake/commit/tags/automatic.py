"""What a commit does for tags: makes those that are due, removes those whose time is over.

Tags with a time to live are looked for after every commit of a table whose options make tags or
give them such a time. In other tables a process looks :data:`LOOK_MS` after its first commit, and
then as often: their tags are read for nothing else.
"""

from __future__ import annotations

import logging

from tidelake.commit.context import CommitContext
from tidelake.commit.tags.creation import BATCH, NONE, create_due_tags
from tidelake.commit.tags.expiry import expire_tags
from tidelake.errors import TidelakeError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared

LOOK_MS = 600_000
"""Time between two looks at the tags of a table whose options say nothing of tags."""

_LOG = logging.getLogger("tidelake")


def keep_tags(
    context: CommitContext, newest: Snapshot, *, is_batch: bool, is_job: bool = False
) -> None:
    """Make and remove tags after a commit; a failure is logged, since the commit is done.

    Parameters
    ----------
    is_batch : bool
        Whether the commit ends a batch.
    is_job : bool
        Whether it does what writers of a ``write-only`` table leave to a job.
    """
    options = context.options
    mode = options.get(declared.TAG_AUTOMATIC_CREATION)
    if options.get(declared.WRITE_ONLY) and not is_job and not (is_batch and mode == BATCH):
        return
    makes_tags = mode != NONE
    try:
        if makes_tags:
            create_due_tags(context, newest, is_batch=is_batch)
        has_times = options.get(declared.TAG_DEFAULT_TIME_RETAINED) is not None
        if makes_tags or has_times or _is_due(context):
            expire_tags(context)
    except TidelakeError as error:
        _LOG.warning("Table %s: tags could not be made or removed: %s", context.table, error)


def _is_due(context: CommitContext) -> bool:
    return context.env.last_times.is_due(
        f"tags of {context.paths.branch} of {context.uri}",
        now_ms=context.env.clock.now_ms(),
        interval_ms=LOOK_MS,
        rng=None,
    )
