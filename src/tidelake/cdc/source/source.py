"""The protocol of a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from tidelake.cdc.source.changes import Changes, Rejected
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.lag import SourceLag
from tidelake.cdc.source.slot_status import SlotStatus
from tidelake.cdc.source.source_table import (
    KeyColumns,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """When a range of changes is cut.

    Parameters
    ----------
    rows_max : int
        Changed rows; a larger transaction is cut within itself.
    bytes_max : int
        Bytes of the log.
    wait_ms : int
        How long to wait for the first change.
    gather_ms : int
        How long to gather after the first change: the time of an epoch.
    """

    rows_max: int = 200_000
    bytes_max: int = 64 << 20
    wait_ms: int = 1_000
    gather_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a table's first copy, for one task. Picklable, holds no secret.

    Parameters
    ----------
    condition : str
        In the source's SQL; empty for all rows.
    rows_count : int
        Estimated.
    snapshot : str
        What the reader joins, so that all chunks show one moment; empty where each chunk is read
        at a moment of its own.
    """

    table: SourceTable
    condition: str
    rows_count: int
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Some rows of a first copy, as :class:`~tidelake.cdc.source.changes.SourceRows` has them."""

    rows: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()


def no_snapshot_mode() -> InvalidInputError:
    """Refuse a mode of Flink CDC that a job has not."""
    message = (
        "scan.startup.mode 'snapshot' is not there. Run the job once with 'initial', which copies"
        " the tables as they are now, and remove it by `tidelake cdc drop`."
    )
    return InvalidInputError(message, kind="option_value", option="scan.startup.mode")


class ChunkReader(Protocol):
    """Reads parts of a first copy, in any process. Picklable; a secret in it goes its own way."""

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one chunk, in batches, by a connection of its own."""
        ...


class FirstCopy(Protocol):
    """The tables at one position of the log. Open until all chunks have begun to be read."""

    @property
    def position(self) -> str:
        """Where the log goes on from the copy."""
        ...

    @property
    def order(self) -> tuple[int, int]:
        """The order of the copied rows: before every change that follows."""
        ...

    def whole_at(self) -> str:
        """From where on the log makes of the rows that were read what the tables were.

        Asked when all are read: a copy may show rows that are later than its position.
        """
        ...

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that a target has stay: of a source that has a log and no tables."""
        ...

    def chunks(self, table: SourceTable, *, rows_max: int) -> Sequence[Chunk]:
        """Cut a table into parts by its key."""
        ...

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one chunk, in batches. Thread-safe: each call has its own connection.

        Raises
        ------
        ConflictError
            The table changed so that the copy does not show it: kind ``cdc_copy_disturbed``. A copy
            that begins anew may succeed.
        """
        ...

    def reader(self, chunks: Sequence[Chunk]) -> ChunkReader | None:
        """Give what reads these chunks in other processes, while this copy is open.

        None if they can only be read here.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class NoCopy:
    """The begin of tables that are not copied: a position of the log; rows of the targets stay."""

    position: str
    order: tuple[int, int] = (-1, -1)
    keeps_rows: bool = True

    def whole_at(self) -> str:
        """Give the position: no row is copied."""
        return self.position

    def chunks(self, table: SourceTable, *, rows_max: int) -> Sequence[Chunk]:  # noqa: ARG002
        """Give no chunk."""
        return ()

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:  # noqa: ARG002
        """Give no row."""
        return iter(())

    def reader(self, chunks: Sequence[Chunk]) -> None:
        """There is no chunk to read elsewhere."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class Positions(Protocol):
    """What a kind of source says of texts of its positions; no connection is needed."""

    def is_before(self, left: str, right: str) -> bool:
        """Whether one position is before another."""
        ...

    def is_between_transactions(self, position: str) -> bool | None:
        """Whether no transaction is cut at a position; None if the source tells no transactions."""
        ...


class Source(Positions, Protocol):
    """A database whose log is read, or topics with change events. Used by one thread."""

    @property
    def kind(self) -> str:
        """Its kind: ``postgres``, ``mysql``, ``kafka``."""
        ...

    def identity(self) -> str:
        """What tells this source from another: a restored or promoted server has another one.

        A job refuses to go on when it changed.
        """
        ...

    def check(self, tables: Sequence[SourceTable]) -> list[SourceFinding]:
        """Look at the settings and rights that reading these tables needs."""
        ...

    def tables(self) -> list[SourceTable]:
        """Give all tables that the settings name, as they are now."""
        ...

    def reads(self, name: SourceName) -> bool:
        """Whether the settings name a table; True where they name no tables but topics."""
        ...

    def prepare(self, tables: Sequence[SourceName]) -> None:
        """Make what the log needs for these tables, and only them: a publication. Repeatable."""
        ...

    def first_copy(self, tables: Sequence[SourceName], *, is_start: bool = False) -> FirstCopy:
        """Begin to copy tables, at a position of which the log goes on.

        Of a source without a position yet it makes one (a slot); of one that has, it copies at a
        moment of its own: a table that joins later.

        Parameters
        ----------
        is_start : bool
            Whether the job begins: ``scan.startup.mode`` may say that nothing is copied.
        """
        ...

    def newest(self) -> str:
        """Ask for the newest position that is committed."""
        ...

    def read(
        self,
        start: str,
        tables: Sequence[SourceName],
        limits: EpochLimits,
        *,
        end: str | None = None,
        key_columns: KeyColumns = no_key_columns,
    ) -> Changes:
        """Read on from a position.

        Parameters
        ----------
        end : str, optional
            Read exactly to here, whatever the limits: an epoch that is applied again.
        key_columns : callable, optional
            Columns besides the key of which a change is told as one of the key: a -D and a +U.

        Raises
        ------
        NotFoundError
            The log no longer has `start`: kind ``cdc_position_lost``.
        ConflictError
            Another reader holds the position: kind ``cdc_position_in_use``.
        """
        ...

    def check_position(self, position: str) -> None:
        """Look that the source has had a position, as far as it tells without reading.

        Raises
        ------
        NotFoundError
            It ends before, as it was restored or reset, or no longer has it: kind
            ``cdc_position_lost``.
        """
        ...

    def held(self, position: str) -> list[str]:
        """Say what the source holds for a job that is stopped at a position, a sentence each."""
        ...

    def confirm(self, position: str) -> None:
        """Say that everything to a position is safe, so that the source may forget it."""
        ...

    def status(self) -> dict[str, object]:
        """Facts for people: held bytes of log, what holds it."""
        ...

    def lag(self, position: str, newest: str) -> SourceLag:
        """Say how far a position is behind the newest one, and when that was committed."""
        ...

    def slots(self) -> list[SlotStatus]:
        """Give the replication slots; none of a source that keeps its log by age alone."""
        ...

    def drop(self) -> list[str]:
        """Remove what was made in the source; gives a line for each."""
        ...

    def close(self) -> None:
        """End all connections."""
        ...
