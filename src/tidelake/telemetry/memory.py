"""How the memory that a process may take is shared out: :class:`Memory`.

One number is given, ``tidelake.open(warehouse, memory="256 mb")``, and each part of the engine
takes its share of it as an argument. Nothing here asks the machine or counts what is used: every
part keeps to its share by what it holds at a time, and the rest goes to local disk.

Shares are chosen so that what lives at the same time fits, with a quarter left over for what the
allocator cannot use again:

- a **write**: decoded manifests, the write buffer, and beside a full buffer its encoded keys and
  its sorted copy;
- a **merge** (a read, a compaction, the flush of what was spilled): decoded manifests, the pages of
  the files that are open, the rows of each run, a group of them joined and gathered, and a row
  group with its encoded form where the rows are written;
- a **plan**: decoded manifests, and the live files of the snapshot as columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MIB = 1 << 20
MEMORY_BYTES_MIN = 64 * MIB
"""Below, one page of each column of a few files would not fit beside a row group."""

TASK_BYTES = 512 * MIB
"""Memory for which one more task may run beside the others."""
TASKS_MAX = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Shares of the memory of one process, in bytes. Picklable.

    Made by :meth:`of`; without arguments nothing is limited and the shares are the sizes that
    measured best.

    Parameters
    ----------
    total_bytes : int, optional
        What was given; None where nothing was.
    tasks_max : int
        Pieces of work that run side by side.
    write_buffer_bytes : int
        Rows that a writer holds before they are sorted: the option ``write-buffer-size`` where a
        table does not set it. An eighth.
    sort_keys_bytes : int
        Encoded keys of rows that are sorted at once. An eighth.
    row_group_bytes : int
        Arrow bytes of the row groups that the files being written hold: of one file, or of a data
        file and its changelog. An eighth, per task.
    merge_rows_bytes : int
        Rows of all runs of one merge. A sixteenth, per task: they are held up to four times, as
        they are, joined, gathered, and as encoded keys.
    merge_pages_bytes : int
        Pages of the files that one merge has open. A quarter, per task; of more runs than fit, some
        are merged beforehand, by way of local disk, or put there in small batches.
    batch_bytes : int
        Rows of a batch that is read or taken in. A thirty-second.
    read_ahead_bytes : int
        Encoded bytes that a task fetches ahead where each read waits for a network, and rows of the
        next splits that are read before their turn. A sixteenth, per task: the open pages of a
        merge are then parts of the first.
    merge_orders_bytes : int
        Orders of merges that a catalog keeps, about a byte a row; as much again while more are
        noted. A thirty-second.

    Examples
    --------
    >>> memory = Memory.of(256 << 20)
    >>> memory.write_buffer_bytes >> 20, memory.merge_pages_bytes >> 20, memory.tasks_max
    (32, 64, 1)
    >>> Memory().is_limited
    False
    """

    total_bytes: int | None = None
    tasks_max: int = TASKS_MAX
    write_buffer_bytes: int = 256 * MIB
    sort_keys_bytes: int = 256 * MIB
    row_group_bytes: int = 128 * MIB
    merge_rows_bytes: int = 1024 * MIB
    merge_pages_bytes: int = 2**62
    batch_bytes: int = 64 * MIB
    read_ahead_bytes: int = 128 * MIB
    manifest_cache_bytes: int = 256 * MIB
    merge_orders_bytes: int = 64 * MIB

    @classmethod
    def of(cls, total_bytes: int) -> Memory:
        """Share out so many bytes; no share is larger than without a limit.

        Requires: ``total_bytes >= MEMORY_BYTES_MIN``.
        """
        assert total_bytes >= MEMORY_BYTES_MIN, total_bytes
        most = cls()
        tasks = max(1, min(TASKS_MAX, total_bytes // TASK_BYTES))
        return cls(
            total_bytes=total_bytes,
            tasks_max=tasks,
            write_buffer_bytes=min(most.write_buffer_bytes, total_bytes // 8),
            sort_keys_bytes=min(most.sort_keys_bytes, total_bytes // 8),
            row_group_bytes=min(most.row_group_bytes, total_bytes // 8 // tasks),
            merge_rows_bytes=min(most.merge_rows_bytes, total_bytes // 16 // tasks),
            merge_pages_bytes=total_bytes // 4 // tasks,
            batch_bytes=min(most.batch_bytes, total_bytes // 32),
            read_ahead_bytes=min(most.read_ahead_bytes, total_bytes // 16 // tasks),
            manifest_cache_bytes=min(most.manifest_cache_bytes, total_bytes // 8),
            merge_orders_bytes=min(most.merge_orders_bytes, total_bytes // 32),
        )

    def shared_by(self, count: int) -> Memory:
        """Give the shares of each of `count` reads side by side, whose rows may wait for a turn.

        Requires: ``count <= tasks_max``; shares per task stay as they are, but half of
        :attr:`read_ahead_bytes` is left for rows that wait.

        Examples
        --------
        >>> memory = Memory.of(4 << 30)
        >>> memory.batch_bytes >> 20, memory.shared_by(4).batch_bytes >> 20
        (64, 16)
        """
        return replace(
            self,
            batch_bytes=self.batch_bytes // max(1, count),
            read_ahead_bytes=self.read_ahead_bytes // (2 if count > 1 else 1),
        )

    @property
    def is_limited(self) -> bool:
        """Whether a size was given."""
        return self.total_bytes is not None

    def row_group_bytes_of(self, files_count: int) -> int:
        """Give the row group of each of so many files that are written side by side.

        Examples
        --------
        >>> Memory.of(256 << 20).row_group_bytes_of(2) >> 20
        16
        """
        return self.row_group_bytes // (files_count if self.is_limited else 1)


UNLIMITED = Memory()
"""The shares where no size was given."""
