"""A table of another format, as files with partitions and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelake.fileio import FileIO
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.types import DataField, TypeRoot

PARTITION_TYPES = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DATE,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
    }
)
"""Types whose values readers take from the list of files where a file lacks the column."""


class DeletedRows(Protocol):
    """Where a format keeps which rows of a data file are deleted."""

    def read(self, fileio: FileIO, *, row_count: int) -> Positions:
        """Read their ordinals, ascending, given the number of rows in the file.

        Raises
        ------
        CorruptError
            What says so is missing, damaged or does not match the file.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """One data file.

    Parameters
    ----------
    path : str
        In the source's storage.
    partition : tuple of objects
        Values of the partition columns, in the storage's form; None for null.
    deleted : DeletedRows, optional
        None if all rows are live.
    """

    path: str
    size_bytes: int
    partition: tuple[object, ...] = ()
    deleted: DeletedRows | None = None


@dataclass(frozen=True, slots=True)
class IncomingTable:
    """A table of another format.

    Parameters
    ----------
    location : str
        Its directory.
    partition_fields : tuple of DataField
        The partition columns that the files need not hold.
    fields : tuple of DataField, optional
        All columns as the format declares them, in order, with their ids and NOT NULL; None where
        only the files say what they hold.
    by_name : bool
        Whether columns of files are those of the table by their names, and else by their ids.
    ids_of_names : mapping of tuple of str to int
        Where columns are found by ids: those of a file that has none, by the names there, such as
        ``("tags", "element", "x")``.
    int96_is_utc : bool
        Whether timestamps of INT96 count in UTC, whoever wrote them.
    not_carried : tuple of str
        What the format declares of the table and a table of Paimon does not keep, a phrase each.
    options : mapping
        Options of the new table that follow from the format.
    """

    location: str
    files: tuple[ForeignFile, ...]
    partition_fields: tuple[DataField, ...] = ()
    fields: tuple[DataField, ...] | None = None
    by_name: bool = True
    ids_of_names: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    int96_is_utc: bool = False
    not_carried: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
