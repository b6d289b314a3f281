r"""Avro container files, read and written with limits: the format of all manifests.

Reading:

1. Take header and blocks apart (:mod:`tidelake.codec.avro_container`), so that each block is
   decompressed with a bound: a small file cannot become a large one.
2. Check the writer's schema: not recursive, and no array whose items take no bytes, so that the
   number of bytes bounds the number of values.
3. Let fastavro decode some MiB of blocks in one call, as one Avro array (a block of a container and
   a block of an array have the same bytes), and check that nothing is left over.

Writing reverses these steps. Each zstd frame carries a checksum, which Paimon's own writers leave
out (:mod:`tidelake.codec.avro_block`). The header carries a key ``tidelake.checksum`` with the
CRC32 of schema and codec, which other readers ignore. So a flipped bit in a manifest is an error
instead of other rows.

Source of the layout: Avro specification 1.11, "Object Container Files".
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import fastavro
import pyarrow as pa

from tidelake.codec.avro_block import (
    DECOMPRESS,
    CompressionError,
    UnreadableAvroError,
    avro_long,
    compressor,
)
from tidelake.codec.avro_container import (
    MAGIC,
    SYNC_BYTES,
    AvroHeader,
    AvroSource,
    records_of,
    take_blocks,
    take_header,
)
from tidelake.errors import CorruptError, UnsupportedError, not_enough_memory
from tidelake.metadata.avro.avro_columns import Columns, FindStarts
from tidelake.metadata.avro.avro_columns import decode_columns as side_by_side

T = TypeVar("T")

FILE_BYTES_MAX = 256 << 20
"""A manifest is rolled at ``manifest.target-file-size``, 8 MiB by default."""
DECODED_BYTES_MAX = 1 << 30
BLOCK_BYTES_MAX = 64 << 20
RECORDS_MAX = 2_000_000
"""A manifest of 8 MiB holds some 100,000 entries."""
PART_BYTES = 4 << 20
"""Blocks are decoded together up to this size: few calls for small blocks, bounded memory."""
TOGETHER_BYTES_MAX = 16 << 20
"""Small files are decoded together up to this size."""
COLUMNS_RECORDS_MIN = 150
"""Fewer records are decoded one by one: they cost less than the NumPy calls of the columns."""
RATIO_MAX = 500
"""A file may grow this much when decompressed; real manifests grow 3 to 50 times."""
RATIO_FREE_BYTES = 64 << 20
"""Below this size any ratio is allowed."""
SCHEMA_BYTES_MAX = 1 << 20
SCHEMA_DEPTH_MAX = 16
SCHEMA_NODES_MAX = 1_000
SCHEMAS_CACHED_MAX = 64
FIXED_BYTES_MAX = 1 << 16
"""Iceberg's manifests have decimals of up to 16 bytes."""
HEADER_KEYS_MAX = 64

KNOWN_HEADERS_MAX = 4
KNOWN_BYTES_MAX = 1 << 14
_known_headers: tuple[tuple[bytes, Mapping[str, bytes]], ...] = ()
"""Headers that were read last, without their markers, and their keys."""

_CHECKSUM = "tidelake.checksum"  # on disk: never rename
_NO_KEYS: Mapping[str, bytes] = MappingProxyType({})
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "null": "null",
    "none": "null",
    "uncompressed": "null",
}
"""Option ``manifest.compression`` to the codec's name in the file."""


_UNREADABLE = (
    UnreadableAvroError,
    *CompressionError,
    pa.ArrowException,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
)
"""What a decoder raises for bytes that are not what they should be."""


class ContainerWriter:
    """Builds one container file in memory.

    Parameters
    ----------
    codec : str
        ``"zstandard"``, ``"snappy"``, ``"deflate"`` or ``"null"``.
    name : str
        The file's name; its hash is the sync marker, so that a replay gives the same bytes.
    """

    def __init__(
        self,
        schema: dict[str, Any],
        *,
        codec: str,
        name: str,
        header: Mapping[str, bytes] = _NO_KEYS,
    ) -> None:
        text = json.dumps(schema, separators=(",", ":")).encode()
        self._array = _array_of(text)
        self._compress = compressor(codec)
        self._sync = hashlib.blake2b(name.encode(), digest_size=SYNC_BYTES).digest()
        self._out = bytearray(MAGIC)
        keys = {
            "avro.schema": text,
            "avro.codec": codec.encode(),
        }
        keys[_CHECKSUM] = _header_checksum(keys)
        keys |= header
        self._out += avro_long(len(keys))
        for key, value in keys.items():
            self._out += avro_long(len(key)) + key.encode() + avro_long(len(value)) + value
        self._out += b"\0" + self._sync
        self.records_count = 0

    @property
    def size_bytes(self) -> int:
        """Length so far."""
        return len(self._out)

    def write_block(self, records: Sequence[dict[str, Any]]) -> None:
        """Add records as one block."""
        if not records:
            return
        raw = io.BytesIO()
        try:
            fastavro.schemaless_writer(raw, self._array, records)
        except SystemError as error:
            if error.__cause__ is None:
                raise
            # an interrupt came inside fastavro's own code, which ignores it
            raise error.__cause__ from None
        count = avro_long(len(records))
        # an array is: count, items, 0; a container's block has the items alone
        payload = self._compress(raw.getvalue()[len(count) : -1])
        self._out += count + avro_long(len(payload)) + payload + self._sync
        self.records_count += len(records)

    def finish(self) -> bytes:
        """Give the file's bytes."""
        return bytes(self._out)


def decode_container(data: bytes, *, path: str) -> list[dict[str, Any]]:
    """Decode a container file; all records at once, see :func:`decode_parts`."""
    return [record for part in decode_parts(data, path=path) for record in part]


def is_own(data: bytes) -> bool:
    """Whether this library wrote a container that can be decoded."""
    return _CHECKSUM in _take_header(_source(data)).values


def decode_parts(data: bytes, *, path: str) -> Iterator[list[dict[str, Any]]]:
    """Decode a container file part by part, so that few records are Python objects at a time.

    Yields
    ------
    list of dict
        Records by the writer's field names; logical types are left as their plain numbers.

    Raises
    ------
    CorruptError
        The bytes are not a container, are damaged, or exceed a limit; the message names the file.
    NotEnoughMemoryError
        Memory ran out.
    UnsupportedError
        The codec is not known.
    """
    yield from _checked(data, path, records_of)


def decode_columns(
    data: bytes, *, path: str, find_starts: FindStarts
) -> Iterator[Columns | list[dict[str, Any]]]:
    """Decode a container file part by part into columns: ten times as fast as into records.

    Parameters
    ----------
    find_starts : callable
        Names the positions in a payload where records may begin; see
        :mod:`tidelake.metadata.avro.avro_columns`.

    Yields
    ------
    mapping or list of dict
        Columns by the path of their field; for unusual bytes records, as from
        :func:`decode_parts`.

    Raises
    ------
    CorruptError, NotEnoughMemoryError, UnsupportedError
        As :func:`decode_parts`.
    """

    def convert(schema: Any, blocks: list[tuple[int, bytes]]) -> Columns | list[dict[str, Any]]:
        if sum(count for count, _ in blocks) < COLUMNS_RECORDS_MIN:
            return records_of(schema, blocks)
        columns = side_by_side(schema["items"], blocks, find_starts=find_starts)
        return records_of(schema, blocks) if columns is None else columns

    yield from _checked(data, path, convert)


def decode_together(
    files: Sequence[tuple[bytes, str]], *, find_starts: FindStarts
) -> tuple[Columns, tuple[int, ...]] | None:
    """Decode several small files of one schema in one pass: a small one alone costs as much.

    Parameters
    ----------
    files : sequence of (bytes, str)
        Contents and paths; together at most some MiB.

    Returns
    -------
    tuple or None
        The columns of all records in order, and how many each file has. None where the files must
        be decoded one by one: their schemas differ, they are few, or one is unusual or damaged.
    """
    blocks: list[tuple[int, bytes]] = []
    counts, schema, size_bytes = [], None, 0
    try:
        for data, path in files:
            array, read = _blocks_of(data, path)
            if schema is not None and array is not schema:
                return None
            schema, count = array, 0
            for block in read:
                blocks.append(block)
                count += block[0]
                size_bytes += len(block[1])
                if size_bytes > TOGETHER_BYTES_MAX:
                    return None
            counts.append(count)
        if schema is None or sum(counts) < COLUMNS_RECORDS_MIN:
            return None
        columns = side_by_side(schema["items"], blocks, find_starts=find_starts)
    except (*_UNREADABLE, UnsupportedError, MemoryError):
        return None
    return None if columns is None else (columns, tuple(counts))


def _checked(
    data: bytes, path: str, convert: Callable[[Any, list[tuple[int, bytes]]], T]
) -> Iterator[T]:
    try:
        yield from _decode(data, path, convert)
    except MemoryError as error:  # lengths have their own bounds, so it is not the file's fault
        raise not_enough_memory(path, error) from error
    except _UNREADABLE as error:
        message = (
            f"File {path} is not a readable Avro file: {str(error) or type(error).__name__}."
            " Restore it from a backup."
        )
        raise CorruptError(message, kind="avro_file", path=path) from error


def _decode(
    data: bytes, path: str, convert: Callable[[Any, list[tuple[int, bytes]]], T]
) -> Iterator[T]:
    array, read = _blocks_of(data, path)
    blocks: list[tuple[int, bytes]] = []
    size_bytes = 0
    for block in read:
        blocks.append(block)
        size_bytes += len(block[1])
        if size_bytes >= PART_BYTES:
            yield convert(array, blocks)
            blocks, size_bytes = [], 0
    if blocks:
        yield convert(array, blocks)


def _blocks_of(data: bytes, path: str) -> tuple[Any, Iterator[tuple[int, bytes]]]:
    """The schema of a file's records, as of an array of them, and its blocks within all limits."""
    if len(data) > FILE_BYTES_MAX:
        raise UnreadableAvroError(f"it has {len(data)} bytes, more than {FILE_BYTES_MAX}")
    source, header = _opened(data)
    if header.codec not in DECOMPRESS:
        message = (
            f"File {path} is compressed with '{header.codec}'; this version reads zstd, deflate,"
            " snappy and null."
        )
        raise UnsupportedError(message, kind="avro_codec", path=path)
    blocks = take_blocks(
        source,
        header.sync,
        DECOMPRESS[header.codec],
        packed_bytes_max=FILE_BYTES_MAX,
        block_bytes_max=BLOCK_BYTES_MAX,
        bytes_max=min(DECODED_BYTES_MAX, max(RATIO_FREE_BYTES, RATIO_MAX * len(data))),
    )
    return _array_of(header.values["avro.schema"]), _counted(blocks)


def _counted(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    records_count = 0
    for block in blocks:
        records_count += block[0]
        if records_count > RECORDS_MAX:
            raise UnreadableAvroError(f"it holds more than {RECORDS_MAX} records")
        yield block


def _opened(data: bytes) -> tuple[AvroSource, AvroHeader]:
    """A file behind its header.

    The files of a table have few different headers, but for the marker at the end: those that were
    read last are known by their bytes, for taking one apart takes longer than a small block.
    """
    global _known_headers
    for head, values in _known_headers:
        end = len(head) + SYNC_BYTES
        if data.startswith(head) and len(data) >= end:
            raw = io.BytesIO(data)
            raw.seek(end)
            return AvroSource(raw, len(data) - end), AvroHeader(values, data[len(head) : end])
    source = _source(data)
    header = _take_header(source)
    head = data[: len(data) - source.rest_bytes - SYNC_BYTES]
    if len(head) <= KNOWN_BYTES_MAX:
        _known_headers = ((head, header.values), *_known_headers[: KNOWN_HEADERS_MAX - 1])
    return source, header


def _take_header(source: AvroSource) -> AvroHeader:
    header = take_header(source, keys_max=HEADER_KEYS_MAX, value_bytes_max=SCHEMA_BYTES_MAX)
    checksum = _header_checksum(header.values)
    if header.values.get(_CHECKSUM, checksum) != checksum:
        raise UnreadableAvroError("its header's checksum differs")
    return header


def _header_checksum(header: Mapping[str, bytes]) -> bytes:
    return b"%08x" % zlib.crc32(header["avro.schema"] + header.get("avro.codec", b""))


def _source(data: bytes) -> AvroSource:
    return AvroSource(io.BytesIO(data), len(data))


@functools.lru_cache(maxsize=SCHEMAS_CACHED_MAX)
def _array_of(schema_text: bytes) -> Any:
    """Parse the schema of a file's records, as the schema of an array of them.

    The files of a table have few different schemas, and parsing one takes as long as decoding a
    hundred entries.
    """
    schema = _WriterSchema().plain(json.loads(schema_text))
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise UnreadableAvroError("its schema is not a record")
    return fastavro.parse_schema({"type": "array", "items": schema})


class _WriterSchema:
    """A schema made plain: without logical types, defaults and references, and of bounded size."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._nodes_count = 0

    def plain(self, schema: Any, depth: int = 0) -> Any:
        self._nodes_count += 1
        if depth > SCHEMA_DEPTH_MAX or self._nodes_count > SCHEMA_NODES_MAX:
            raise UnreadableAvroError("its schema is too large or nested too deep")
        if isinstance(schema, list):
            return [self.plain(branch, depth + 1) for branch in schema]
        if isinstance(schema, str):
            if schema in _PRIMITIVE:
                return schema
            # only types that are complete are known, so that none refers to itself
            return self.plain(self._known[schema.rpartition(".")[2]], depth + 1)
        kind = schema["type"]
        if kind == "record":
            number = self._nodes_count
            fields = [
                {"name": field["name"], "type": self.plain(field["type"], depth + 1)}
                for field in schema["fields"]
            ]
            self._known[schema["name"].rpartition(".")[2]] = schema
            return {"type": "record", "name": f"record{number}", "fields": fields}
        if kind == "fixed":
            size = int(schema["size"])
            if not 0 < size <= FIXED_BYTES_MAX:
                raise UnreadableAvroError(f"its schema has values of {size} bytes")
            return {"type": "fixed", "name": f"fixed{self._nodes_count}", "size": size}
        if kind in {"array", "map"}:
            key = "items" if kind == "array" else "values"
            inner = self.plain(schema[key], depth + 1)
            if not _takes_bytes(inner):
                raise UnreadableAvroError("its schema has an array of values that take no bytes")
            return {"type": kind, key: inner}
        return self.plain(kind, depth + 1)


def _takes_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(_takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null")


def encode_container(
    schema: dict[str, Any], records: Iterable[dict[str, Any]], *, codec: str, name: str
) -> bytes:
    """Encode records as one container file of one block.

    Examples
    --------
    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    >>> data = encode_container(schema, [{"a": 1}, {"a": 2}], codec="zstandard", name="m")
    >>> decode_container(data, path="/m")
    [{'a': 1}, {'a': 2}]
    """
    writer = ContainerWriter(schema, codec=codec, name=name)
    writer.write_block(list(records))
    return writer.finish()
