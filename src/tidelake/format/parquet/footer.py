"""The footer of a Parquet file: sealed with a checksum, and checked before Arrow parses it.

Parquet has checksums for pages but none for its footer, which defines where columns begin, how
their values are encoded and how large they are. One flipped bit there can show other rows, hide a
row group, or end the process, because Arrow reads some of it where no error can be raised.

- **Files of Tidelake** have the key ``tidelake.checksum`` among the footer's keys and values: the
  CRC32 of everything from the footer's first byte to the file's last, its own digits taken as
  zeros, and the file's length. Other readers ignore it (ADR 24). A writer that rewrites the rows
  may copy the key: it then has another length, and is ignored.
- **Files of others** are accepted if they can be parsed. Before the metadata of a column chunk is
  read, :func:`check_chunks` looks for values that would end the process. Their pages need not have
  checksums, so the reader checks texts, which Arrow assumes to be UTF-8.

Layout of a file's end::

    footer    Thrift compact; within it 18 11 "tidelake.checksum" 18 14, then the CRC32 as 8 hex
              digits and the length as 12
    length    u32 little-endian, of the footer
    magic     "PAR1"
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.fileio import OutputFile
from tidelake.format.parquet.thrift import (
    Struct,
    inner_struct,
    inner_structs,
    read_struct,
    value_of,
)
from tidelake.format.parquet.thrift import unsigned as number_of
from tidelake.format.read_error import corrupt

CHECKSUM_KEY = "tidelake.checksum"
"""On disk: never rename."""
CHECKSUM_BLANK = "0" * 20
_HEAD = b"\x18\x11" + CHECKSUM_KEY.encode() + b"\x18\x14"
_SEALED = re.compile(re.escape(_HEAD) + rb"([0-9a-f]{8})([0-9a-f]{12})")
_CRC_BLANK = b"0" * 8
_MAGIC = b"PAR1"
_END_BYTES = 8
TAIL_BYTES = 32 << 10
"""Bytes read at once from a file's end: nearly every footer."""

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value, by the number of its physical type: BOOLEAN, INT32, INT64, INT96, FLOAT and
DOUBLE."""


class FooterSeal:
    """Passes a Parquet file on to storage, and its end with the checksum filled in.

    Usable as a sink of pyarrow through ``pa.PythonFile``.
    """

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._held: bytearray | None = None

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._output.closed

    def write(self, data: bytes) -> int:
        """Take bytes: pass them on, or hold them for the checksum."""
        if self._held is None:
            return self._output.write(data)
        self._held += data
        return len(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._output.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Do nothing: no flush is needed before the file is closed."""

    def hold(self) -> None:
        """Hold all further bytes: the footer, with a blank checksum, is their end."""
        self._held = bytearray()

    def seal(self) -> None:
        """Fill in the checksum and pass on the held bytes."""
        held = self._held
        assert held is not None, "nothing was held"
        begin = len(held) - _END_BYTES - int.from_bytes(held[-_END_BYTES:-4], "little")
        at = held.rfind(_HEAD) + len(_HEAD)
        assert 0 <= begin < at, "the footer has no blank checksum"
        held[at + 8 : at + 20] = b"%012x" % self.tell()
        held[at : at + 8] = b"%08x" % zlib.crc32(held[begin:])
        self._held = None
        self._output.write(bytes(held))


@dataclass(frozen=True)
class Footer:
    """A footer, checked as far as possible."""

    metadata: pq.FileMetaData
    is_sealed: bool
    """Tidelake wrote the file, so its pages have checksums too."""


def read_footer(source: pa.NativeFile, *, path: str, asks_chunks: bool) -> Footer:
    """Read and check a file's footer.

    Parameters
    ----------
    asks_chunks : bool
        Whether the metadata of single column chunks will be read.

    Raises
    ------
    CorruptError
        It does not match its checksum, or Arrow could not survive it.
    """
    size = source.size()
    tail = source.read_at(min(size, TAIL_BYTES), max(0, size - TAIL_BYTES))
    if tail[-4:] != _MAGIC or size < _END_BYTES + len(_MAGIC):
        raise corrupt(path, "it does not end like a Parquet file, or is encrypted")
    end_bytes = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if end_bytes + len(_MAGIC) > size:
        raise corrupt(path, f"its footer would be {end_bytes - _END_BYTES} bytes long")
    if end_bytes > len(tail):
        tail = source.read_at(end_bytes, size - end_bytes)
    end = tail[-end_bytes:]
    is_sealed = _is_sealed(end, size, path)
    if not is_sealed and asks_chunks:
        check_chunks(end[:-_END_BYTES], path=path)
    return Footer(pq.read_metadata(pa.BufferReader(_MAGIC + end)), is_sealed)


def _is_sealed(end: bytes, size: int, path: str) -> bool:
    """Whether there is a checksum of this file, and it matches."""
    marks = list(_SEALED.finditer(end))
    if not marks or int(marks[-1][2], 16) != size:
        return False
    found = marks[-1]  # the keys come after everything that a column could hold
    blank = end[: found.start(1)] + _CRC_BLANK + end[found.end(1) :]
    if zlib.crc32(blank) != int(found[1], 16):
        raise corrupt(path, "its footer does not match its checksum")
    return True


def check_chunks(footer: bytes, *, path: str) -> None:
    """Refuse column chunks on which Arrow would end the process.

    Arrow throws where its Python side catches nothing: for a chunk of another physical type than
    its column, one without metadata or with encrypted metadata, and for bounds that are not values.

    Raises
    ------
    CorruptError
        There is such a chunk.
    """
    try:
        top = read_struct(footer)
    except ValueError as error:
        raise corrupt(path, str(error)) from error
    types = [value_of(e, 1) for e in inner_structs(top, 2) if not _count(e, 5)]
    for group in inner_structs(top, 4):
        chunks = inner_structs(group, 1)
        if len(chunks) != len(types):
            raise corrupt(path, f"a row group has {len(chunks)} columns instead of {len(types)}")
        for kind, chunk in zip(types, chunks, strict=True):
            column = inner_struct(chunk, 3)
            if column is None or value_of(chunk, 8) is not None:
                raise corrupt(path, "it has encrypted columns, or columns without metadata")
            if not isinstance(kind, bytes) or value_of(column, 1) != kind:
                raise corrupt(path, "a column has another physical type in a row group")
            _check_bounds(column, kind, path)


def _count(element: Struct, field_id: int) -> int:
    """A number of a schema element; 0 if it has none."""
    value = value_of(element, field_id)
    return number_of(value) if isinstance(value, bytes) else 0


def _check_bounds(column: Struct, kind: bytes, path: str) -> None:
    width = _WIDTHS.get(number_of(kind) >> 1)  # zigzag
    statistics = inner_struct(column, 12)
    if width is None or statistics is None:
        return
    for number, field_kind, value in statistics:
        if number in {1, 2, 5, 6} and field_kind == 8:
            ends = next(at for at, byte in enumerate(value) if byte < 0x80)  # the length's
            length = len(value) - ends - 1
            if length != width:
                raise corrupt(path, f"a bound has {length} bytes, but the values have {width}")
