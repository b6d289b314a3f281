"""Upkeep of a table: expiry, purge, manifests, statistics, Iceberg metadata."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.commit.expiry import Expired
from tidelake.commit.iceberg import Synced, sync
from tidelake.errors import InvalidInputError
from tidelake.metadata.log.statistics import TableStatistics
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.instant import Time, instant_ms
from tidelake.table.jobs.analyze import analyzed_columns, publish_statistics, summarise
from tidelake.table.jobs.expiry import expire_changelogs_now, expire_snapshots_now
from tidelake.table.jobs.purge import PurgeResult, purge_files
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.read.table_scan import scan_table
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
        limits, or to expire now. Tags, branches and consumers keep what they need. A reader of a
        removed snapshot loses its files.

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
            ``ids`` of the snapshots, and the number of ``removed_files``.

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
            count = scan_table(self._handle, request).count()
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
