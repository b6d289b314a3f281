"""When a commit looks for partitions that are too old.

A process looks ``partition.expiration-check-interval`` after it looked last, as Paimon does. The
first time is drawn from that interval, so that jobs that start together do not look together; a
process that commits once does not look. With ``end-input.check-partition-expire`` each commit of a
batch does. A clock that was set back begins the interval anew.

A process may keep a table open for months, and its partitions must not go by options of long ago.
So each look goes by those of the newest schema; whether to look is said by those of the opening.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tidelake.commit.context import CommitContext
from tidelake.commit.partition_expiry.plan import PartitionExpiryPlan, plan_partition_expiry
from tidelake.commit.partition_expiry.rule import ExpiryRule
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, Snapshot
from tidelake.options import Options, declared, warn_once

USER_PREFIX = "partition-expiry-"
"""How the users of drops begin (on disk: never change): streams pass over their commits."""

_LOG = logging.getLogger("tidelake")


def drop_user(context: CommitContext) -> str:
    """A user for the commit of one drop."""
    return USER_PREFIX + context.env.ids.uuid()


def is_partition_expiry(snapshot: Snapshot) -> bool:
    """Whether a commit dropped partitions because they were too old."""
    return snapshot.commit_user.startswith(USER_PREFIX)


def due_plan(context: CommitContext, *, identifier: int) -> PartitionExpiryPlan | None:
    """The partitions to drop after a commit; None if it is not time to look, or none is too old.

    Parameters
    ----------
    identifier : int
        Of the commit.
    """
    rule = ExpiryRule.of(context.options, table=context.table)
    if rule is None or not context.paths.partition_keys:
        return None
    interval_ms = context.options.get(declared.PARTITION_EXPIRATION_CHECK_INTERVAL)
    is_due = context.env.last_times.is_due(
        f"partition expiry of {context.paths.branch} of {context.uri}",
        now_ms=context.env.clock.now_ms(),
        interval_ms=interval_ms,
        rng=context.env.rng,
    )
    at_end = context.options.get(declared.END_INPUT_CHECK_PARTITION_EXPIRE)
    if not is_due and not (at_end and identifier == BATCH_IDENTIFIER):
        return None
    context = _with_newest_options(context)
    rule = ExpiryRule.of(context.options, table=context.table)
    newest = context.log.latest()
    if rule is None or newest is None:
        return None
    plan = plan_partition_expiry(context, rule, newest)
    if plan.unread:
        warn_once(context.table, plan.unread_text)
    if not plan.partitions:
        return None
    _LOG.info("Table %s: drops %d old partitions", context.table, len(plan.partitions))
    return plan


def _with_newest_options(context: CommitContext) -> CommitContext:
    """The table with the options of its newest schema; those of this use still come first."""
    log = SchemaLog(context.fileio, context.paths)
    newest_id = log.latest_id()
    if newest_id is None or newest_id == context.schema.id:
        return context
    opened, newest = log.load(context.schema.id).options, log.load(newest_id).options
    used = context.options.raw
    own = {key: text for key, text in used.items() if opened.get(key) != text}
    kept = {key: text for key, text in newest.items() if key in used or key not in opened}
    return replace(context, options=Options.parse({**kept, **own}, table=context.table))
