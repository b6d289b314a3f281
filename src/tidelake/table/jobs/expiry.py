"""Expiry on demand, and after compactions of tables whose writers leave expiry to them.

What is removed and in which order: :mod:`tidelake.commit.expiry`.
"""

from __future__ import annotations

import logging

from tidelake.commit.expiry import (
    Expired,
    Retention,
    expire_changelogs,
    expire_quietly,
    expire_snapshots,
    is_decoupled,
    retentions,
)
from tidelake.commit.iceberg import sync_before_expiry, sync_quietly
from tidelake.commit.tags import keep_tags
from tidelake.errors import InvalidInputError
from tidelake.options import check_retained, declared
from tidelake.table.handle.handle import TableHandle

HOLDERS_SHOWN_MAX = 5
_LOG = logging.getLogger("tidelake")


def expire_snapshots_now(
    handle: TableHandle,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_ms: int | None = None,
    max_deletes: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Expire snapshots; see :meth:`tidelake.table.Maintenance.expire_snapshots`."""
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    _check_limit(max_deletes, table=handle.identifier)
    of_snapshots, of_changelogs = retentions(
        handle.options,
        now_ms=_now_ms(handle),
        count_min=retain_min,
        count_max=retain_max,
        older_than_ms=older_than_ms,
        limit=max_deletes,
    )
    _check_counts("snapshot", of_snapshots, retain_min, retain_max, table=handle.identifier)
    context = handle.commit_context()
    if not dry_run:
        sync_before_expiry(context, retained_count=of_snapshots.count_min)
    keeps_changelogs = is_decoupled(of_snapshots, of_changelogs)
    expired = expire_snapshots(
        context, of_snapshots, keeps_changelogs=keeps_changelogs, dry_run=dry_run
    )
    if not (keeps_changelogs or dry_run):
        expire_changelogs(context, of_changelogs)  # those that outlived their snapshots
    if expired.held_by:
        readers = "; ".join(map(str, expired.held_by[:HOLDERS_SHOWN_MAX]))
        rest = len(expired.held_by) - HOLDERS_SHOWN_MAX
        more = f"; and {rest} more" if rest > 0 else ""
        _LOG.info(
            "Expiry of table '%s' keeps snapshots for %s%s.", handle.identifier, readers, more
        )
    if expired.ids and not dry_run:
        sync_quietly(context)
    return expired


def expire_changelogs_now(
    handle: TableHandle,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_ms: int | None = None,
    max_deletes: int | None = None,
    delete_all: bool = False,
    dry_run: bool = False,
) -> Expired:
    """Expire changelogs; see :meth:`tidelake.table.Maintenance.expire_changelogs`."""
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    _check_limit(max_deletes, table=handle.identifier)
    _, configured = retentions(handle.options, now_ms=_now_ms(handle))
    retention = Retention(
        configured.count_min if retain_min is None else retain_min,
        configured.count_max if retain_max is None else retain_max,
        configured.older_than_ms if older_than_ms is None else older_than_ms,
        configured.limit if max_deletes is None else max_deletes,
    )
    context = handle.commit_context()
    if delete_all:
        return expire_changelogs(context, None, dry_run=dry_run)
    _check_counts("changelog", retention, retain_min, retain_max, table=handle.identifier)
    return expire_changelogs(context, retention, dry_run=dry_run)


def expire_after_compaction(handle: TableHandle) -> None:
    """Expire what the writers of a ``write-only`` table leave to its compaction job."""
    if not handle.options.get(declared.WRITE_ONLY):
        return  # its commits do
    context = handle.commit_context()
    newest = handle.snapshots.latest()
    if newest is not None:
        keep_tags(context, newest, is_batch=False, is_job=True)
    handle.committer().expire_partitions_if_due()
    retained_count = handle.options.get(declared.SNAPSHOT_NUM_RETAINED_MIN)
    sync_before_expiry(context, retained_count=retained_count)
    expire_quietly(context, newest)
    sync_quietly(context)


def _now_ms(handle: TableHandle) -> int:
    """The clock's time, or the newest snapshot's time if the clock is behind it."""
    newest = handle.snapshots.latest()
    now_ms = handle.env.clock.now_ms()
    return now_ms if newest is None else max(now_ms, newest.time_ms)


def _check_counts(
    what: str, retention: Retention, retain_min: int | None, retain_max: int | None, *, table: str
) -> None:
    """Check the numbers to keep; a message names what the caller gave."""
    least, most = retention.count_min, retention.count_max
    message = None
    if retain_min is not None and retain_min < 1:
        message = f"retain_min is {retain_min} but must be at least 1."
    elif most < least and retain_max is not None and retain_min is None:
        message = (
            f"retain_max is {most}, but option '{what}.num-retained.min' keeps {least} {what}s:"
            f" give retain_min too, such as {max(most, 1)}."
        )
    elif most < least and retain_min is not None:
        source = "retain_max is" if retain_max is not None else f"'{what}.num-retained.max' is"
        message = f"retain_min is {least}, but {source} {most}: retain_max must not be below it."
    if message is not None:
        raise InvalidInputError(f"Table '{table}': {message}", kind="retention", table=table)
    check_retained(what, least, most, table=table)


def _check_limit(limit: int | None, *, table: str) -> None:
    if limit is not None and limit < 1:
        message = f"Table '{table}': max_deletes is {limit}; give at least 1, or leave it out."
        raise InvalidInputError(message, kind="retention", table=table)
