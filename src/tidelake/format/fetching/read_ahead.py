"""What is read before it is asked for, where each read waits for a network.

A storage says whether it is (:attr:`~tidelake.fileio.FileIO.is_remote`); where it is not, nothing
here is used, and files are opened one after the other (ADR 74).

1. A file is *opened* on a thread: its end by one read, then the first columns wanted by another
   (:mod:`tidelake.format.parquet.column_fetch`). The next files are opened meanwhile.
2. While its rows are read, the columns of the next row groups come.

Memory: all that is fetched and not read yet stays within :attr:`ReadAhead.bytes_max`. A row group
whose wanted columns are larger is read in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from tidelake.telemetry import Env, ReadThreads

ALONE_BYTES = 32 << 20
FILES_HELD = 2
"""A file that is read, and those that were opened meanwhile."""


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Bytes that may be fetched ahead, and the threads for it. Picklable.

    Parameters
    ----------
    bytes_max : int
        Most encoded bytes held.

    Examples
    --------
    >>> ReadAhead(bytes_max=64 << 20).shared_by(4).bytes_max >> 20
    16
    """

    reads: ReadThreads = field(default_factory=ReadThreads.none)
    bytes_max: int = ALONE_BYTES

    @classmethod
    def of(cls, env: Env) -> ReadAhead:
        """The share of one task."""
        return cls(env.reads, env.memory.read_ahead_bytes)

    def shared_by(self, count: int) -> ReadAhead:
        """The part of one of `count` reads that go on side by side."""
        return replace(self, bytes_max=self.bytes_max // max(1, count))


class OpenedEarly(Protocol):
    """A read that can begin before its rows are wanted."""

    def opened(self) -> object:
        """Open the file now, in this thread."""
        ...


T = TypeVar("T")
F = TypeVar("F", bound=OpenedEarly)


def files_in_turn(
    files: Sequence[T],
    read: Callable[[T, ReadAhead], F],
    *,
    size_bytes: Callable[[T], int],
    ahead: ReadAhead,
    is_remote: bool,
) -> Generator[tuple[T, F], None, None]:
    """Begin to read files one after the other; of a remote storage, open the next ones early.

    Parameters
    ----------
    files : sequence
        The files, in the order in which they are wanted.
    read : callable
        Begins the read of a file with a part of `ahead`; it may wait for the storage.
    size_bytes : callable
        Length of a file.
    is_remote : bool
        Whether the storage is.

    Yields
    ------
    tuple
        The file and its read. An error of the opening is raised here, in the file's turn.
    """
    if not is_remote or len(files) == 1:
        for file in files:
            yield file, read(file, ahead)
        return
    own = ahead.shared_by(FILES_HELD)

    def opened(file: T) -> tuple[T, F]:
        begun = read(file, own)
        begun.opened()
        return file, begun

    with closing(
        ahead.reads.files.map_ahead(
            opened,
            files,
            weight=lambda file: min(size_bytes(file), own.bytes_max),
            weight_max=ahead.bytes_max,
        )
    ) as begun:
        yield from begun
