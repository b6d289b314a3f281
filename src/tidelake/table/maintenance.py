"""Upkeep of a table: expiry, orphan files, purge, manifests, statistics, Iceberg metadata."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from tidelake.commit.expiry import Expired
from tidelake.commit.iceberg import Synced, sync
from tidelake.errors import InvalidInputError
from tidelake.metadata.log.statistics import TableStatistics
from tidelake.options import Options, declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant_ms
from tidelake.table.indexing.file_index_rewrite import RewrittenIndexes, rewrite_file_index
from tidelake.table.job.plan import HERE, Runner
from tidelake.table.jobs.analyze import analyzed_columns, publish_statistics, summarise
from tidelake.table.jobs.expiry import expire_changelogs_now, expire_snapshots_now
from tidelake.table.jobs.missing_files import MissingFiles, remove_missing_files
from tidelake.table.jobs.orphans import OrphanFiles, quarantined, remove_orphans, undelete
from tidelake.table.jobs.partition_expiry import PartitionExpiry, expire_partitions_now
from tidelake.table.jobs.purge import PurgeResult, purge_files
from tidelake.table.partition_done import DonePartition, mark_idle
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.read.table_scan import count_rows, scan_table
from tidelake.table.stream.consumer_reset import reset_consumer
from tidelake.table.write.result import WriteResult
from tidelake.table.write.writable import check_writable


class Maintenance:
    """Upkeep of one table: :attr:`tidelake.Table.maintenance`.

    Most of it happens with commits. ``table.compact()`` and
    ``table.rollback_to()`` are methods of the table.
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        return f"<Maintenance of {self._handle.identifier}>"

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Time | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Remove the oldest snapshots, with the files that only they need.

        Every commit does this by the options, unless the table is ``write-only``; call it for other
        limits, or to expire now. Tags, branches, consumers and running reads keep what they need
        (option ``read.hold``); the answer says which readers those are.

        Parameters
        ----------
        retain_max : int, optional
            Keep at most so many, whatever their age; by default ``snapshot.num-retained.max``.
        retain_min : int, optional
            Keep at least so many; by default ``snapshot.num-retained.min``, which is 10.
        older_than : int, str, datetime or date, optional
            A snapshot may be removed if its successor is older than this time, which needs a zone;
            by default an hour ago, by ``snapshot.time-retained``.
        max_deletes : int, optional
            Remove at most so many, the oldest first; by default ``snapshot.expire.limit``, 50.
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        Expired
            ``ids`` of the snapshots, the number of ``removed_files``, and the readers that it is
            ``held_by``: without them more would have expired.

        Raises
        ------
        InvalidInputError
            The maximum to keep is below the minimum, or is zero; or `older_than` has no zone.
        CorruptError
            A file needed to decide cannot be read; the message names it. Snapshots before it are
            already removed.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> for k in range(5):
        ...     _ = table.write([{"k": k}])
        >>> table.maintenance.expire_snapshots(retain_max=2, retain_min=1).ids
        (1, 2, 3)
        """
        return expire_snapshots_now(
            self._handle,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=self._instant(older_than, "older_than of expire_snapshots"),
            max_deletes=max_deletes,
            dry_run=dry_run,
        )

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Time | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> Expired:
        """Remove the oldest of the changelogs that outlived their snapshots, with their files.

        Every commit does this by ``changelog.*``, unless the table is ``write-only``. Changelogs of
        existing snapshots are removed with those snapshots.

        Parameters
        ----------
        retain_max, retain_min : int, optional
            Keep at most and at least so many, existing snapshots included; by default
            ``changelog.num-retained.max`` and ``.min``.
        older_than : int, str, datetime or date, optional
            A changelog may be removed if its successor is older than this time, which needs a
            zone; by default by ``changelog.time-retained``.
        max_deletes : int, optional
            As in :meth:`expire_snapshots`.
        delete_all : bool
            Whether to remove all of them, whatever the other arguments say.
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        Expired
            ``ids`` of the snapshots whose changelogs are removed, and the number of
            ``removed_files``.

        Raises
        ------
        InvalidInputError, CorruptError
            As of :meth:`expire_snapshots`.
        """
        return expire_changelogs_now(
            self._handle,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=self._instant(older_than, "older_than of expire_changelogs"),
            max_deletes=max_deletes,
            delete_all=delete_all,
            dry_run=dry_run,
        )

    def mark_done_partitions(self) -> tuple[DonePartition, ...]:
        """Mark the partitions that are done by the time, as streams and maintenance jobs do.

        A partition is done when no rows came for ``partition.idle-time-to-done``, and as much time
        has passed since its own end. ``CALL sys.mark_partition_done(...)`` marks one by name.

        Returns
        -------
        tuple of DonePartition
            Those that were marked, with ``path`` and ``values``.

        Raises
        ------
        UnsupportedError
            The action of ``partition.mark-done-action`` is not possible here.
        StorageError
            A server did not take a mark; the next call tries again.
        """
        return mark_idle(self._handle)

    def expire_partitions(
        self,
        *,
        expiration_time: str | int | timedelta | None = None,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> PartitionExpiry:
        """Drop partitions that are too old, with all their rows.

        Commits do this by the options, at most once in ``partition.expiration-check-interval``,
        unless the table is ``write-only``; call it to do it now, or by other limits. Times of
        partitions are local times, and compared with the local clock.

        Parameters
        ----------
        expiration_time : str, int or timedelta, optional
            The age: ``"7 d"``, milliseconds or a timedelta; by default
            ``partition.expiration-time``.
        timestamp_formatter, timestamp_pattern : str, optional
            How the values say a time; by default ``partition.timestamp-formatter`` and
            ``partition.timestamp-pattern``.
        expire_strategy : str, optional
            ``"values-time"`` or ``"update-time"``; by default ``partition.expiration-strategy``.
        max_expires : int, optional
            Drop at most so many; by default ``partition.expiration-max-num``, 100.
        dry_run : bool
            Whether to report only what would be dropped.

        Returns
        -------
        PartitionExpiry
            ``partitions`` with their ``values``, ``time``, ``rows`` and ``files``; ``unread``:
            those that stay because their values say no time; ``more_count``; ``snapshot_ids``.

        Raises
        ------
        InvalidInputError
            The table has no partitions or no expiration time, or a format is wrong.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> columns = pa.schema({"day": pa.string(), "v": pa.int64()})
        >>> table = catalog.create_table("db.days", columns, partition_keys=["day"])
        >>> _ = table.write([{"day": "2024-01-31", "v": 1}, {"day": "9999-12-31", "v": 2}])
        >>> found = table.maintenance.expire_partitions(expiration_time="7 d", dry_run=True)
        >>> [(p.values, p.rows) for p in found.partitions]
        [({'day': '2024-01-31'}, 1)]
        """
        given = {
            declared.PARTITION_EXPIRATION_TIME.key: _age_text(expiration_time),
            declared.PARTITION_TIMESTAMP_FORMATTER.key: timestamp_formatter,
            declared.PARTITION_TIMESTAMP_PATTERN.key: timestamp_pattern,
            declared.PARTITION_EXPIRATION_STRATEGY.key: expire_strategy,
            declared.PARTITION_EXPIRATION_MAX_NUM.key: max_expires,
        }
        handle = self._handle
        named = {key: str(value) for key, value in given.items() if value is not None}
        if named:
            parsed = Options.parse({**handle.options.raw, **named}, table=handle.identifier)
            handle = handle.with_options(parsed)
        return expire_partitions_now(handle, dry_run=dry_run)

    def purge_files(self, *, dry_run: bool = False) -> PurgeResult:
        """Remove all rows and all history: snapshots, tags, changelogs. This cannot be undone.

        The schema and the newest snapshot, which is then empty, stay. Readers of older snapshots
        lose their files; concurrent commits do not.

        Parameters
        ----------
        dry_run : bool
            Whether to report only what would be removed.

        Returns
        -------
        PurgeResult
            ``snapshot_id``, ``removed_snapshot_ids``, ``removed_tags``, ``removed_files``.

        Raises
        ------
        UnsupportedError
            The table has branches.
        """
        return purge_files(self._handle, dry_run=dry_run)

    def rewrite_file_index(
        self, *, where: object = None, dry_run: bool = False, runner: Runner = HERE
    ) -> RewrittenIndexes:
        """Give data files the file indexes of the table's options, and take others away.

        Files that were written before ``file-index.*`` options were set have no indexes. Only the
        indexed columns are read; data files stay as they are.

        Parameters
        ----------
        where : str or filter, optional
            A condition on partition columns: only these partitions.
        dry_run : bool
            Whether to say only how many files would get indexes.
        runner : Runner
            What makes the indexes: this process, or executors.

        Returns
        -------
        RewrittenIndexes
            ``files_count``, ``partitions_count`` and the ``snapshot_id`` of the commit.

        Raises
        ------
        ConflictError
            Others compacted all of the buckets meanwhile; nothing was changed.
        InvalidInputError
            The condition names other columns.
        """
        return rewrite_file_index(self._handle, where=where, dry_run=dry_run, runner=runner)

    def remove_missing_files(self, *, dry_run: bool = False) -> MissingFiles:
        """Take data files that are lost out of the table, so that the others can be read.

        The rows of such a file are gone; in a primary-key table older rows of its keys may come
        back. Look for the files elsewhere first: a file that is put back at its path is whole
        again, until this call. Older snapshots still name it.

        Parameters
        ----------
        dry_run : bool
            Whether to report only which files are missing.

        Returns
        -------
        MissingFiles
            ``paths``, ``rows_count`` and the ``snapshot_id`` of the commit.

        Raises
        ------
        ConflictError
            Others replaced one of the files meanwhile; nothing was changed.
        StorageError
            A directory cannot be listed, so it is not known what is missing.
        """
        return remove_missing_files(self._handle, dry_run=dry_run)

    def remove_orphan_files(
        self,
        *,
        older_than: Time | None = None,
        dry_run: bool = False,
        parallelism: int | None = None,
    ) -> OrphanFiles:
        """Remove files that nothing of the table names: left by crashes, conflicts and errors.

        The first call puts them into quarantine: it writes their names down, and the files stay
        where they are. A call a day later removes those that are still not named. So call it every
        day. Snapshots, tags, branches, long-lived changelogs and Iceberg's metadata name files.

        Parameters
        ----------
        older_than : int, str, datetime or date, optional
            Only files that were last changed before this time, which needs a zone; and of those in
            quarantine, the ones that came there before it. By default a day ago. Nothing that
            still writes may have begun before.
        dry_run : bool
            Whether to report only what would be done.
        parallelism : int, optional
            Threads that list and delete in an object store; by default those of the process.

        Returns
        -------
        OrphanFiles
            Counts and bytes of files removed, put into quarantine and waiting there; ``files`` has
            each.

        Raises
        ------
        InvalidInputError
            `older_than` is not in the past, or has no zone.
        NotFoundError, CorruptError, StorageError
            A directory cannot be listed, or something that names files cannot be read: then it is
            not known what is an orphan, and nothing was removed.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> _ = table.write([{"k": 1}])
        >>> table.maintenance.remove_orphan_files(dry_run=True)
        <OrphanFiles of db.t: 0 (0 bytes) would be removed, 0 (0 bytes) would be put into \
quarantine, 0 waiting there>
        """
        return remove_orphans(
            self._handle,
            older_than_ms=self._instant(older_than, "older_than of remove_orphan_files"),
            dry_run=dry_run,
            parallelism=parallelism,
        )

    def quarantined_files(self) -> pa.Table:
        """List the orphan files that wait for their removal.

        Returns
        -------
        pyarrow.Table
            ``path`` relative to the table's directory, ``size_bytes``, ``modified_ms``, and
            ``since_ms``, when it came into quarantine.
        """
        return quarantined(self._handle)

    def undelete_files(self, paths: Sequence[str] | None = None) -> tuple[str, ...]:
        """Take files out of quarantine: they stay, and no later run removes them.

        Parameters
        ----------
        paths : sequence of str, optional
            As :meth:`quarantined_files` lists them; all by default.

        Returns
        -------
        tuple of str
            The files that stay, sorted.

        Raises
        ------
        NotFoundError
            One is not in quarantine.
        ConflictError
            A run removed one meanwhile, or removes it now.
        """
        return undelete(self._handle, paths)

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Set where a consumer goes on, or remove it, so that it keeps no snapshots.

        Parameters
        ----------
        consumer_id : str
            Its name.
        next_snapshot : int, optional
            The snapshot that it reads next; by default the consumer is removed.

        Raises
        ------
        NotFoundError
            There is no such consumer, or no such snapshot.
        ConflictError
            A run uses it.
        """
        reset_consumer(self._handle, consumer_id, next_snapshot)

    def compact_manifests(self) -> WriteResult:
        """Merge the manifests of the newest snapshot, in one commit that touches metadata only.

        Every commit merges some of them (``manifest.merge-min-count`` and others). This call is for
        a table that had many small commits and deletes and will be planned often.

        Returns
        -------
        WriteResult
            Without a snapshot if there was nothing to merge.
        """
        check_writable(self._handle)
        snapshot = self._handle.committer().compact_manifests(user=self._handle.env.ids.uuid())
        return WriteResult(snapshot_ids=() if snapshot is None else (snapshot.id,))

    def analyze(self, columns: Sequence[str] | None = None) -> TableStatistics | None:
        """Count the rows and summarise columns, for optimisers; an ANALYZE snapshot keeps it.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to summarise; by default all whose type allows it. ``[]`` only counts rows,
            for which metadata often suffices.

        Returns
        -------
        TableStatistics or None
            The statistics as ``$statistics`` shows them; None for a table without snapshots.

        Raises
        ------
        NotFoundError
            There is no such column.
        InvalidInputError
            A column is an ARRAY, MAP, MULTISET, ROW, VARIANT or TIME.
        """
        check_writable(self._handle)
        snapshot = self._handle.snapshots.latest()
        if snapshot is None:
            return None
        fields = self._handle.read_context(snapshot).schema.fields
        chosen = analyzed_columns(fields, columns, table=self._handle.identifier)
        scan, count = None, None
        if chosen:
            request = ScanRequest([f.name for f in chosen], None, None, snapshot.id, None, None)
            scan = scan_table(self._handle, request)
        else:
            request = ScanRequest(None, None, None, snapshot.id, None, None)
            count = count_rows(self._handle, request)
        found = summarise(self._handle, snapshot, scan, chosen, record_count=count)
        publish_statistics(self._handle, found)
        return found

    def sync_iceberg(self, *, from_scratch: bool = False) -> Synced:
        """Write the Iceberg metadata of the newest snapshot, as far as it is missing.

        Each commit does so. This makes up for one that could not, and for files that were lost.

        Parameters
        ----------
        from_scratch : bool
            Whether to make all Iceberg manifests again; Iceberg's readers then find the newest
            snapshot only.

        Returns
        -------
        Synced
            ``metadata_file``, ``snapshot_id``, ``snapshots_count``.

        Raises
        ------
        InvalidInputError
            The table has no Iceberg metadata by its options, or no snapshot yet.
        UnsupportedError
            It has, in older files, types that Iceberg's readers cannot read.
        """
        handle = self._handle
        synced = sync(handle.commit_context(), from_scratch=from_scratch)
        if synced is None:
            message = (
                f"Table '{handle.identifier}' has no Iceberg metadata: set"
                " 'metadata.iceberg.storage' = 'table-location' or 'hadoop-catalog', and write to"
                " it."
            )
            raise InvalidInputError(message, kind="iceberg_disabled", table=handle.identifier)
        return synced

    def _instant(self, given: Time | None, what: str) -> int | None:
        """Milliseconds of a time with a zone."""
        if given is None:
            return None
        return instant_ms(given, what=what, table=self._handle.identifier)


def _age_text(given: str | int | timedelta | None) -> str | None:
    """An age as an option writes it."""
    if given is None or isinstance(given, str):
        return given
    ms = given // timedelta(milliseconds=1) if isinstance(given, timedelta) else given
    return f"{ms} ms"
