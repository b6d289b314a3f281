"""The result of decoding messages, and the protocols of decoders and encoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.types import RowKind


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A message that a format cannot decode.

    Parameters
    ----------
    reason : str
        A clause that names the fault: ``"column 'id': 'x' is not a value of type BIGINT"``.
    """

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of some messages.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The columns wanted, in the kernel's Arrow types; all may be null.
    messages : numpy.ndarray
        The index of each row's message, int64, ascending. A message of a change log has any number
        of rows; one with a null value has none.
    kinds : numpy.ndarray
        The kind of each row as its number, int8.
    bad : tuple of BadMessage
        Bad messages, by position, without those that an option ignores.
    """

    rows: pa.RecordBatch
    messages: NDArray[np.int64]
    kinds: NDArray[np.int8]
    bad: tuple[BadMessage, ...]


class Decoder(Protocol):
    """Reads the messages of one format. Not picklable: make it again where it runs."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages; None is a message without a value, and gives no row."""
        ...


class Encoder(Protocol):
    """Writes rows as the messages of one format."""

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
            All columns of the format, in order, in the kernel's Arrow types.
        kinds : numpy.ndarray, optional
            Row kinds; inserts by default.

        Raises
        ------
        UnsupportedError
            The format has no message for a row of that kind.
        """
        ...


def inserted(
    columns: Sequence[pa.Array],
    names: Sequence[str],
    messages: Sequence[int] | NDArray[np.int64],
    bad: Iterable[BadMessage],
) -> Decoded:
    """Make the result for messages of one row each."""
    at = np.asarray(messages, np.int64)
    return Decoded(
        batch_of(columns, names, len(at)),
        at,
        np.full(len(at), int(RowKind.INSERT), np.int8),
        tuple(sorted(bad, key=lambda one: one.position)),
    )


def kept_rows(
    columns: Sequence[pa.Array],
    names: Sequence[str],
    messages: Sequence[int],
    bad: Iterable[BadMessage],
    misfits: Mapping[int, str],
) -> Decoded:
    """Remove the rows with a value that does not fit.

    Parameters
    ----------
    bad : iterable of BadMessage
        Messages without a row.
    """
    if not misfits:
        return inserted(columns, names, messages, bad)
    kept = [n for n in range(len(messages)) if n not in misfits]
    rows = pa.array(kept, pa.int64())
    return inserted(
        [column.take(rows) for column in columns],
        names,
        [messages[n] for n in kept],
        [*bad, *(BadMessage(messages[n], reason) for n, reason in misfits.items())],
    )


def batch_of(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """Make a batch, perhaps without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), names=list(names))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
