"""Zstandard: Python's own from 3.14 on, its backport before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdDecompressor, ZstdError, compress
else:
    from backports.zstd import CompressionParameter, ZstdDecompressor, ZstdError, compress

__all__ = ["CompressionParameter", "ZstdDecompressor", "ZstdError", "compress"]
