"""How data files are written: compression, statistics, sizes of row groups."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.options import Options
from tidelake.options.declared import (
    FILE_COMPRESSION,
    FILE_COMPRESSION_ZSTD_LEVEL,
    METADATA_STATS_MODE,
)

__all__ = ["FormatOptions", "format_options", "parquet_codec"]

ROW_GROUP_ROWS = 1_000_000
ROW_GROUP_BYTES = 128 << 20

_PARQUET_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How to write data files. Picklable.

    Parameters
    ----------
    file_format : str
        ``parquet``, ``orc`` or ``avro``.
    compression : str
        ``zstd``, ``snappy``, ``gzip``, ``lz4`` or ``none``.
    zstd_level : int
        1 to 22. Level 1 costs half of level 3 and gives 4 % larger files.
    stats_mode : str
        ``none``, ``counts``, ``truncate(N)`` or ``full``.
    row_group_rows, row_group_bytes : int
        A row group ends at either (bytes: of the Arrow columns). Small ones repeat dictionaries
        and headers: 100,000 rows cost twice the CPU and 40 % more bytes.
    sorted_columns : frozenset of str
        Integer, date and timestamp columns that rise along the file: delta encoding stores them
        smaller and faster. Keys and sequence numbers count as such without being named.
    """

    file_format: str = "parquet"
    compression: str = "zstd"
    zstd_level: int = 1
    stats_mode: str = "truncate(16)"
    row_group_rows: int = ROW_GROUP_ROWS
    row_group_bytes: int = ROW_GROUP_BYTES
    sorted_columns: frozenset[str] = frozenset()


def format_options(options: Options) -> FormatOptions:
    """Take what concerns data files out of a table's options.

    Raises
    ------
    UnsupportedError
        The compression is one that Paimon's readers or this library cannot read.
    """
    chosen = FormatOptions(
        compression=options.get(FILE_COMPRESSION).lower(),
        zstd_level=options.get(FILE_COMPRESSION_ZSTD_LEVEL),
        stats_mode=options.get(METADATA_STATS_MODE),
    )
    parquet_codec(chosen)
    return chosen


def parquet_codec(options: FormatOptions) -> str:
    """Give the codec's name in pyarrow.

    Examples
    --------
    >>> parquet_codec(FormatOptions(compression="LZ4"))
    'lz4'
    """
    codec = _PARQUET_CODECS.get(options.compression.lower())
    if codec is None:
        message = (
            f"Compression '{options.compression}' is not written by this version: set"
            f" 'file.compression' to one of {', '.join(sorted(_PARQUET_CODECS))}."
        )
        raise UnsupportedError(message, kind="file_compression", option="file.compression")
    return codec
