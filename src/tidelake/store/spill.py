"""Rows put aside on local disk: Arrow IPC streams, compressed.

1. Rows are written in record batches of about 1 MiB, so that a merge of many runs holds little.
2. :class:`SpillStack` keeps the runs in the order of their age. When :data:`FAN_IN` runs of one
   tier lie on top of it they are joined into one run of the next tier, so a flush opens
   :data:`FAN_IN` times the number of tiers at most, and every row is rewritten once per tier.
3. Files are named after their writer and deleted when they are read or given up.

The files are private to one process and gone with it; nothing of a table refers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidelake.errors import StorageError
from tidelake.options import Options
from tidelake.options.declared import SPILL_COMPRESSION, SPILL_COMPRESSION_ZSTD_LEVEL

__all__ = ["FAN_IN", "SpillStack"]

FAN_IN = 32
BATCH_BYTES = 1 << 20

Join = Callable[[list[Iterator[pa.RecordBatch]]], Iterable[pa.RecordBatch]]
"""Joins runs, oldest first, into one."""


@dataclass(frozen=True, slots=True)
class _Run:
    path: Path
    tier: int
    size_bytes: int


class SpillStack:
    """The runs that one writer has put aside, oldest first.

    Parameters
    ----------
    directory : str
        Where the files go; made at the first spill.
    name : str
        Begins the files' names; unique to the writer.
    options : Options
        Names the compression.
    join : callable
        Makes one run of several.
    """

    def __init__(self, directory: str, *, name: str, options: Options, join: Join) -> None:
        self._directory = directory
        self._name = name
        self._write_options = pa.ipc.IpcWriteOptions(compression=_codec(options))
        self._join = join
        self._runs: list[_Run] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(run.size_bytes for run in self._runs)

    def push(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Put a run aside.

        Raises
        ------
        StorageError
            The local disk failed, for one is full.
        """
        self._runs.append(self._write(batches, tier=0))
        while len(self._runs) >= FAN_IN:
            top = self._runs[-FAN_IN:]
            tier = top[-1].tier
            if any(run.tier != tier for run in top):
                return
            joined = self._write(self._join([_read(run.path) for run in top]), tier=tier + 1)
            self._runs[-FAN_IN:] = [joined]
            _delete(top)

    def runs(self) -> list[Iterator[pa.RecordBatch]]:
        """Read the runs, oldest first."""
        return [_read(run.path) for run in self._runs]

    def clear(self) -> None:
        """Delete all runs."""
        _delete(self._runs)
        self._runs.clear()

    def _write(self, batches: Iterable[pa.RecordBatch], *, tier: int) -> _Run:
        path = Path(self._directory, f"{self._name}-{self._count}.arrow")
        self._count += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(str(path), "wb") as sink:
                writer: pa.RecordBatchStreamWriter | None = None
                for batch in batches:
                    if writer is None:
                        writer = pa.ipc.new_stream(sink, batch.schema, options=self._write_options)
                    rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
                    for offset in range(0, batch.num_rows, rows):
                        writer.write_batch(batch.slice(offset, rows))
                if writer is not None:
                    writer.close()
            return _Run(path, tier, path.stat().st_size)
        except OSError as error:
            path.unlink(missing_ok=True)
            message = (
                f"Rows could not be put aside in {path}: {error}. Free some space or set another"
                " spill directory; nothing was committed."
            )
            raise StorageError(message, kind="spill", path=str(path)) from error


def _codec(options: Options) -> pa.Codec | None:
    name = options.get(SPILL_COMPRESSION)
    if name == "none":
        return None
    if name == "zstd":
        return pa.Codec(name, compression_level=options.get(SPILL_COMPRESSION_ZSTD_LEVEL))
    return pa.Codec(name)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        if path.stat().st_size == 0:
            return
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
            yield from reader
    except OSError as error:
        message = (
            f"Rows put aside in {path} cannot be read back: {error}. Nothing was committed; write"
            " again."
        )
        raise StorageError(message, kind="spill", path=str(path)) from error


def _delete(runs: Iterable[_Run]) -> None:
    for run in runs:
        run.path.unlink(missing_ok=True)
