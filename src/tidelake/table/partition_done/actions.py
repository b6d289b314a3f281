"""Marks partitions as done, by the actions of ``partition.mark-done-action``.

1. All actions are checked first: one that is not possible here is refused before anything is done.
2. Each partition is marked by each action in turn. A mark may be made again: the second one changes
   the time of a success file, and a server hears of the partition once more.

Source: Paimon's ``PartitionMarkDoneAction`` (2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tidelake.commit.catalog_listing import DONE_PARTITION, CatalogListing, done_partition
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.success_file import write_success_file
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.managed_table import ManagedTable
from tidelake.table.partition_done.http_report import report
from tidelake.table.schema.partition_done_options import (
    CUSTOM,
    HTTP_REPORT,
    MARK_EVENT,
    actions_of,
    report_url,
)

SUCCESS_FILE_NAME = "_SUCCESS"
KIND = "mark_done_action"


@dataclass(frozen=True, slots=True)
class DonePartition:
    """A partition that is done.

    Parameters
    ----------
    path : str
        Its directory below the table's, as ``day=2024-01-31/hh=8``.
    values : mapping of str to str
        Texts of its columns, in their order.
    """

    path: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, handle: TableHandle, partition: bytes) -> DonePartition:
        """The partition of a row of its columns."""
        paths = handle.paths
        return cls(paths.partition_path(partition), paths.partition_texts(partition))

    def __str__(self) -> str:
        return self.path


Mark = Callable[[DonePartition], None]


class Marks:
    """What marks the partitions of a table, one by one.

    Raises
    ------
    InvalidInputError
        An action is unknown, has no URL, or the table has no partitions.
    UnsupportedError
        An action is not possible in this catalog.
    """

    def __init__(self, handle: TableHandle) -> None:
        table = handle.identifier
        if not handle.schema.partition_keys:
            message = f"Table '{table}' has no partitions that could be marked as done."
            raise InvalidInputError(message, kind="bad_partition", table=table)
        self._handle = handle
        self._marks = [
            _mark_of(handle, action) for action in actions_of(handle.options, table=table)
        ]

    def mark(self, partition: bytes) -> DonePartition:
        """Mark one; raises as :func:`mark_done`."""
        found = DonePartition.of(self._handle, partition)
        for mark in self._marks:
            mark(found)
        return found


def mark_done(handle: TableHandle, partitions: Sequence[bytes]) -> tuple[DonePartition, ...]:
    """Mark partitions as done.

    Parameters
    ----------
    partitions : sequence of bytes
        Rows of their columns, as in the manifests.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An action is not possible here; nothing was marked.
    StorageRefusedError, StorageError
        A file could not be written, or a server did not take a mark. Partitions before it, and
        perhaps this one by other actions, are marked.
    """
    marks = Marks(handle)
    return tuple(marks.mark(partition) for partition in partitions)


def _mark_of(handle: TableHandle, action: str) -> Mark:
    if action == HTTP_REPORT:
        url = report_url(handle.options, table=handle.identifier)
        return partial(_report, handle, url)
    if action == MARK_EVENT:
        return _event_of(handle)
    if action == DONE_PARTITION:
        if handle.listing is None:
            why = "adds a partition '<value>.done' to Hive's metastore, and this catalog is none"
            raise _unsupported(handle, action, why)
        _check_shown(handle, action)
        return partial(_add_done_partition, handle.listing)
    if action == CUSTOM:
        raise _unsupported(handle, action, "calls a class of Java, which cannot run here")
    return partial(_write_success_file, handle)


def _event_of(handle: TableHandle) -> Mark:
    """What tells the server of a catalog."""
    if handle.served is not None:
        return partial(_mark_event, handle.served)
    mark = None if handle.listing is None else handle.listing.mark_done
    if mark is None:
        why = "needs a REST catalog or a Hive Metastore, whose server keeps the marks"
        raise _unsupported(handle, MARK_EVENT, why)
    _check_shown(handle, MARK_EVENT)
    return partial(_mark_listed, mark)


def _check_shown(handle: TableHandle, action: str) -> None:
    """The metastore knows the partitions."""
    if not handle.options.get(declared.METASTORE_PARTITIONED_TABLE):
        key = declared.METASTORE_PARTITIONED_TABLE.key
        why = f"needs '{key}' = 'true': without it the metastore knows no partition"
        raise _unsupported(handle, action, why)


def _unsupported(handle: TableHandle, action: str, why: str) -> UnsupportedError:
    others = "'success-file' or 'http-report'"
    if handle.served is not None:
        others = "'success-file', 'http-report' or 'mark-event'"
    message = (
        f"Table '{handle.identifier}' has 'partition.mark-done-action' = '{action}', which {why}:"
        f" set it to {others}."
    )
    return UnsupportedError(message, kind=KIND, table=handle.identifier)


def _write_success_file(handle: TableHandle, partition: DonePartition) -> None:
    path = f"{handle.paths.location}/{partition.path}/{SUCCESS_FILE_NAME}"
    write_success_file(handle.fileio, path, now_ms=handle.env.clock.now_ms())


def _add_done_partition(listing: CatalogListing, partition: DonePartition) -> None:
    listing.add_partitions([done_partition(partition.values)])


def _mark_event(served: ManagedTable, partition: DonePartition) -> None:
    served.mark_done([partition.values])


def _mark_listed(mark: Callable[[Mapping[str, str]], None], partition: DonePartition) -> None:
    mark(partition.values)


def _report(handle: TableHandle, url: str, partition: DonePartition) -> None:
    document = {
        "params": handle.options.get(declared.PARTITION_MARK_DONE_ACTION_HTTP_PARAMS),
        "table": handle.identifier,
        "path": handle.uri,
        "partition": f"{partition.path}/",
    }
    report(url, document, env=handle.env, table=handle.identifier)
