"""Keys, hashes and rows as bytes, and the memory of Arrow arrays."""

from __future__ import annotations

from tidelake.codec.arrow_memory import contiguous, fixed_values, take_rows, valid_rows
from tidelake.codec.binary_row import decode_row, encode_row, serialize_row
from tidelake.codec.bucket import buckets_of, hash_bytes, hash_rows, slot_hash
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.codec.zstd import ZstdDecompressor, ZstdError

__all__ = [
    "ZstdDecompressor",
    "ZstdError",
    "buckets_of",
    "contiguous",
    "decode_row",
    "encode_keys",
    "encode_row",
    "fixed_values",
    "hash_bytes",
    "hash_rows",
    "key_widths",
    "serialize_row",
    "slot_hash",
    "take_rows",
    "valid_rows",
]
