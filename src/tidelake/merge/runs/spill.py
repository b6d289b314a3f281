"""Rows spilled to local disk: compressed Arrow IPC streams.

1. :class:`SpillFiles` writes rows in record batches of about 1 MiB, or of a part of a merge's
   memory, so that a merge of many runs holds little.
2. :class:`SpillStack` keeps the runs in order of age. When :data:`FAN_IN` runs of one tier lie on
   top they are joined into one run of the next tier. So a flush opens at most :data:`FAN_IN` times
   the number of tiers, and every row is rewritten once per tier. Rows too wide for this many
   batches are joined a few runs at a time.
3. Files are named after their writer and deleted when they are read or dropped.

The files belong to one process and end with it; no table refers to them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tidelake.errors import StorageError, TidelakeError
from tidelake.options import Options
from tidelake.options.declared import SPILL_COMPRESSION, SPILL_COMPRESSION_ZSTD_LEVEL
from tidelake.telemetry import UNLIMITED, Memory, ProcessMark

FAN_IN = 32
FAN_IN_MIN = 2
BATCH_BYTES = 1 << 20
BATCHES_HELD = 32
"""So many batches of a stack's runs fill the share of a merge's rows."""
BATCHES_HELD_FEW = 8
"""And so many of runs that are joined before a merge: few, and small batches cost CPU."""
COPIES = 2
"""A batch is held as it is on disk, and decompressed."""
TIERS = 3
"""About so many tiers hold :data:`FAN_IN` runs each when a flush merges them all."""

Join = Callable[[list[Iterator[pa.RecordBatch]]], Iterable[pa.RecordBatch]]
"""Joins runs, oldest first, into one."""


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """A run on local disk.

    Parameters
    ----------
    batch_bytes_max : int
        Its largest batch in memory: one of wide rows may exceed the requested size.
    use_threads : bool
        Whether columns are decompressed in parallel.
    """

    path: Path
    size_bytes: int
    batch_bytes_max: int
    use_threads: bool = True
    mark: ProcessMark = field(default_factory=ProcessMark)

    @property
    def held_bytes(self) -> int:
        """The bytes that reading it holds."""
        return COPIES * self.batch_bytes_max

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read it.

        Raises
        ------
        StorageError
            The local disk failed.
        """
        try:
            if self.path.stat().st_size == 0:
                return
            options = pa.ipc.IpcReadOptions(use_threads=self.use_threads)
            with (
                pa.OSFile(str(self.path), "rb") as source,
                pa.ipc.open_stream(source, options=options) as reader,
            ):
                yield from reader
        except OSError as error:
            message = (
                f"Spilled rows in {self.path} cannot be read back: {error}."
                f" {_advice(error, 'Do it again')}; nothing was committed."
            )
            raise StorageError(message, kind="spill", path=str(self.path)) from error

    def delete(self) -> None:
        """Delete it; a forked child leaves it to its parent."""
        if self.mark.is_here:
            self.path.unlink(missing_ok=True)


class SpillFiles:
    """Writes runs under unique names.

    Parameters
    ----------
    directory : str
        The directory of the files; created with the first.
    name : str
        Prefix of the files' names; unique to the owner.
    batches_held : int
        So many of them fill the share of a merge's rows.
    """

    def __init__(
        self,
        directory: str,
        *,
        name: str,
        options: Options,
        memory: Memory = UNLIMITED,
        batches_held: int = BATCHES_HELD_FEW,
    ) -> None:
        self._directory = directory
        self._name = name
        self._write_options = pa.ipc.IpcWriteOptions(
            compression=_codec(options), use_threads=memory.tasks_max > 1
        )
        self._batch_bytes = min(BATCH_BYTES, memory.merge_rows_bytes // batches_held)
        self._count = 0
        self._mark = ProcessMark()

    def write(
        self, batches: Iterable[pa.RecordBatch], *, batch_bytes: int | None = None
    ) -> SpilledRun:
        """Write a run, in batches of `batch_bytes` if those are smaller than its own.

        Raises
        ------
        StorageError
            The local disk failed, for example because it is full.
        ClosedError
            This is a forked child: the names are its parent's.
        """
        self._mark.check(f"The directory {self._directory} of spilled rows")
        wanted = min(self._batch_bytes, batch_bytes or self._batch_bytes)
        path = Path(self._directory, f"{self._name}-{self._count}.arrow")
        self._count += 1
        largest = 0
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the rows are private
            with pa.OSFile(str(path), "wb") as sink:
                writer: pa.RecordBatchStreamWriter | None = None
                for batch in batches:
                    if writer is None:
                        writer = pa.ipc.new_stream(sink, batch.schema, options=self._write_options)
                    for part in _parts(batch, wanted):
                        largest = max(largest, part.nbytes)
                        writer.write_batch(part)
                if writer is not None:
                    writer.close()
            size = path.stat().st_size
            return SpilledRun(path, size, largest, use_threads=self._write_options.use_threads)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            message = (
                f"Rows could not be spilled to {path}: {error}."
                f" {_advice(error, 'Free some space or set another spill directory')};"
                " nothing was committed."
            )
            raise StorageError(message, kind="spill", path=str(path)) from error
        except BaseException:  # the source failed too: a file that cannot be read, for example
            with suppress(OSError):
                path.unlink()
            raise

    def close(self) -> None:
        """Remove the directory unless others have files in it."""
        if self._mark.is_here:
            with suppress(OSError):
                Path(self._directory).rmdir()


def _parts(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch; a part of rows of unequal width may be twice as large, a row alone any size."""
    rows = max(1, batch.num_rows * bytes_max // max(1, batch.nbytes))
    for offset in range(0, batch.num_rows, rows):
        part = batch.slice(offset, rows)
        if part.num_rows > 1 and part.nbytes > 2 * bytes_max:
            yield from _parts(part, bytes_max)
        else:
            yield part


def _advice(error: OSError, otherwise: str) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            "Let the process open more files (ulimit -n), or compact more often, so that a bucket"
            " has fewer runs"
        )
    return otherwise


@dataclass(frozen=True, slots=True)
class _Stacked:
    run: SpilledRun
    tier: int


class SpillStack:
    """The spilled runs of one writer, oldest first.

    Parameters
    ----------
    directory : str
        The directory of the files; created at the first spill.
    name : str
        Prefix of the files' names; unique to the writer.
    join : callable
        Makes one run of several.
    """

    def __init__(
        self,
        directory: str,
        *,
        name: str,
        options: Options,
        join: Join,
        memory: Memory = UNLIMITED,
    ) -> None:
        self._files = SpillFiles(
            directory, name=name, options=options, memory=memory, batches_held=BATCHES_HELD
        )
        self._join = join
        self._memory = memory
        self._stack: list[_Stacked] = []

    def __len__(self) -> int:
        return len(self._stack)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(s.run.size_bytes for s in self._stack)

    def push(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Spill a run, or none if this fails.

        Raises
        ------
        StorageError
            The local disk failed, for example because it is full.
        """
        new = _Stacked(self._files.write(batches), tier=0)
        self._stack.append(new)
        try:
            self._join_tops()
        except TidelakeError as error:
            if self._stack[-1] is new:  # the caller still holds the rows
                self._stack.pop().run.delete()
                raise
            # the rows are in a run that was joined before: the next join can wait
            if not isinstance(error, StorageError):
                raise

    def _join_tops(self) -> None:
        while len(self._stack) >= (fan_in := self._fan_in()):
            top = self._stack[-fan_in:]
            tier = top[-1].tier
            if any(s.tier != tier for s in top):
                return
            joined = self._files.write(self._join([s.run.batches() for s in top]))
            self._stack[-fan_in:] = [_Stacked(joined, tier + 1)]
            for s in top:
                s.run.delete()

    def runs(self) -> list[Iterator[pa.RecordBatch]]:
        """Read the runs, oldest first."""
        return [s.run.batches() for s in self._stack]

    def clear(self) -> None:
        """Delete all runs."""
        for s in self._stack:
            s.run.delete()
        self._stack.clear()

    def _fan_in(self) -> int:
        """How many runs of one tier are joined."""
        widest = max(s.run.held_bytes for s in self._stack)
        fitting = self._memory.merge_pages_bytes // TIERS // max(1, widest)
        return max(FAN_IN_MIN, min(FAN_IN, fitting))


def _codec(options: Options) -> pa.Codec | None:
    name = options.get(SPILL_COMPRESSION)
    if name == "none":
        return None
    if name == "zstd":
        return pa.Codec(name, compression_level=options.get(SPILL_COMPRESSION_ZSTD_LEVEL))
    return pa.Codec(name)
