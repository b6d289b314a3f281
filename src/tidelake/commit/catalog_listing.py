"""What a catalog beside the files shows of a table: the port to it.

A Hive Metastore and AWS Glue keep a copy of a table's columns, and of its partitions if the table
says so, for engines that ask them alone. The table itself is in its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidelake.types import TableSchema

DONE_PARTITION = "done-partition"
"""The action that shows a partition which says that another is done."""


def done_partition(texts: Mapping[str, str]) -> dict[str, str]:
    """The partition that says that another is done, for who waits for it in the catalog.

    Examples
    --------
    >>> done_partition({"day": "2024-01-31", "hh": "8"})
    {'day': '2024-01-31', 'hh': '8.done'}
    """
    *_, last = texts
    return {**texts, last: f"{texts[last]}.done"}


class CatalogListing(Protocol):
    """The entry of one table."""

    def show(self, old: TableSchema, new: TableSchema) -> None:
        """Show a schema that is about to be put, in place of another.

        Raises
        ------
        StorageRefusedError, NotFoundError
            The catalog refused; it shows what it showed.
        OutcomeUnknownError
            It may show the new one.
        """
        ...

    def add_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Show partitions, each by the texts of its columns; those that are shown stay.

        Raises
        ------
        StorageError
            Some may be missing.
        """
        ...

    def partitions(self) -> list[dict[str, str]]:
        """The partitions that are shown; none if the entry shows no partitions."""
        ...

    def drop_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Show partitions no more.

        Raises
        ------
        StorageError
            Some may be shown.
        """
        ...

    @property
    def mark_done(self) -> Callable[[Mapping[str, str]], None] | None:
        """Tells the catalog that a partition is done; None where it keeps no marks.

        Raises
        ------
        StorageRefusedError, NotFoundError
            The catalog refused; nothing was marked.
        OutcomeUnknownError
            It may be marked.
        """
        ...
