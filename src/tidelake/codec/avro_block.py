"""Blocks of Avro container files: compressed, and decompressed with a bound.

Each zstd frame carries a checksum, which Paimon's own writers leave out: a flipped bit is an error
instead of other rows. Snappy blocks end with a CRC32 by Avro's own rule; deflate and null have
none.

Source of the layout: Avro specification 1.11, "Object Container Files" and "Required Codecs".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidelake.codec import varint, zstd

_ADLER_BYTES = 4


class UnreadableAvroError(Exception):
    """Why bytes are not Avro; the caller, who knows the file, makes a CorruptError of it."""


CompressionError = (zstd.ZstdError, zlib.error)
"""The errors of the codecs for foreign bytes."""


def avro_long(value: int) -> bytes:
    r"""Give a number as Avro writes it: zigzag, seven bits a byte.

    Examples
    --------
    >>> avro_long(-1), avro_long(64)
    (b'\x01', b'\x80\x01')
    """
    return varint.encode(varint.zigzag(value))


def compressor(codec: str, *, level: int = 1) -> Callable[[bytes], bytes]:
    """Give the function that compresses a block.

    Parameters
    ----------
    codec : str
        ``zstandard``, ``snappy``, ``deflate`` or ``null``.
    """
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: level,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    match codec:
        case "zstandard":
            return lambda raw: zstd.compress(raw, options=options)
        case "snappy":
            return _snappy
        case "deflate":
            return _deflate
        case _:
            assert codec == "null", codec
            return bytes


def _bounded_zstd(packed: bytes, limit: int) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    return _whole(decompressor, decompressor.decompress(packed, limit + 1), limit)


def _bounded_deflate(packed: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=-15)
    raw = decompressor.decompress(packed, limit + 1)
    # fastavro leaves a part of zlib's own checksum behind the data
    return _whole(decompressor, raw, limit, rest_bytes_max=_ADLER_BYTES)


def _whole(decompressor: Any, raw: bytes, limit: int, *, rest_bytes_max: int = 0) -> bytes:
    if len(raw) > limit:
        raise UnreadableAvroError(f"a block grows to more than {limit} bytes")
    if not decompressor.eof or len(decompressor.unused_data) > rest_bytes_max:
        raise UnreadableAvroError("a block is cut short or followed by other bytes")
    return raw


def _bounded_snappy(packed: bytes, limit: int) -> bytes:
    """Raw snappy (it begins with its length as a plain varint), then a big-endian CRC32."""
    try:
        length, _ = varint.decode(packed)
    except ValueError as error:
        raise UnreadableAvroError(str(error)) from error
    if length > limit:
        raise UnreadableAvroError(f"a block grows to more than {limit} bytes")
    raw: bytes = pa.decompress(packed[:-4], length, codec="snappy", asbytes=True)
    if zlib.crc32(raw) != int.from_bytes(packed[-4:], "big"):
        raise UnreadableAvroError("a block's checksum differs")
    return raw


def _bounded_null(packed: bytes, limit: int) -> bytes:
    if len(packed) > limit:
        raise UnreadableAvroError(f"a block has more than {limit} bytes")
    return packed


def _snappy(raw: bytes) -> bytes:
    packed: bytes = pa.compress(raw, codec="snappy", asbytes=True)
    return packed + zlib.crc32(raw).to_bytes(4, "big")


def _deflate(raw: bytes) -> bytes:
    compressor = zlib.compressobj(level=6, wbits=-15)
    return compressor.compress(raw) + compressor.flush()


DECOMPRESS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "zstandard": _bounded_zstd,
    "deflate": _bounded_deflate,
    "snappy": _bounded_snappy,
    "null": _bounded_null,
}
"""The decompressor of each codec; raises if a block would exceed a number of bytes."""
