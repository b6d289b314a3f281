"""Splits as bytes, for their way from the driver to an executor.

Layout (version 2), inside the frame of :mod:`tidelake.metadata.wire` with magic ``TLSP``::

    snapshot_id      integer
    partition        bytes      serialized BinaryRow
    bucket           integer
    total_buckets    integer
    raw              integer    0 or 1
    sections         sequence of sections; a section is a sequence of runs, a run of data files
    deletions        sequence of: data file text, index file text, offset integer, length integer,
                     cardinality optional integer, size of the index file integer

It is ours alone and lives no longer than one read: driver and executors run the same version.
Statistics travel empty: pruning is done when a split is made.
"""

from __future__ import annotations

import dataclasses

from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.wire import WireReader, WireWriter, get_file, put_file
from tidelake.scan.split import Section, Split

__all__ = ["split_from_bytes", "split_to_bytes"]

MAGIC = b"TLSP"
VERSION = 2


def split_to_bytes(split: Split) -> bytes:
    """Give a split as bytes.

    Examples
    --------
    >>> split = Split(7, bytes(12), bucket=3, total_buckets=4, sections=(), raw=True)
    >>> split_from_bytes(split_to_bytes(split)) == split
    True
    """
    out = WireWriter(MAGIC, VERSION)

    def put(file: DataFileMeta) -> None:
        bare = dataclasses.replace(
            file, key_stats=EMPTY_STATS, value_stats=EMPTY_STATS, embedded_index=None
        )
        put_file(out, bare)

    out.integer(split.snapshot_id)
    out.blob(split.partition)
    out.integer(split.bucket)
    out.integer(split.total_buckets)
    out.integer(int(split.raw))
    out.sequence(
        split.sections, lambda section: out.sequence(section, lambda run: out.sequence(run, put))
    )
    out.sequence(list(split.deletions.items()), lambda item: _put_deletion(out, *item))
    return out.finish()


def split_from_bytes(data: bytes) -> Split:
    """Take a split from bytes.

    Raises
    ------
    CorruptError
        The bytes are no split, or damaged.
    UnsupportedError
        They were written by a version with another layout.
    """
    source = WireReader(data, magic=MAGIC, version=VERSION, what="split")

    def run() -> tuple[DataFileMeta, ...]:
        return source.sequence(lambda: get_file(source))

    def section() -> Section:
        return source.sequence(run)

    split = Split(
        snapshot_id=source.integer(),
        partition=source.blob(),
        bucket=source.integer(),
        total_buckets=source.integer(),
        raw=bool(source.integer()),
        sections=source.sequence(section),
        deletions=dict(source.sequence(lambda: _get_deletion(source))),
    )
    source.finish()
    return split


def _put_deletion(out: WireWriter, file_name: str, where: DeletionRange) -> None:
    out.text(file_name)
    out.text(where.path)
    out.integer(where.offset)
    out.integer(where.length)
    out.optional(where.cardinality, out.integer)
    out.integer(where.file_size_bytes)


def _get_deletion(source: WireReader) -> tuple[str, DeletionRange]:
    file_name, path = source.text(), source.text()
    offset, length = source.integer(), source.integer()
    cardinality = source.optional(source.integer)
    return file_name, DeletionRange(path, offset, length, cardinality, source.integer())
