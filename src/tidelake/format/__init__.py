"""Data files: Parquet written and read as Paimon does, with statistics."""

from tidelake.format.data_file import open_writer, read_batches
from tidelake.format.file_writer import DataFileFooter, DataFileWriter
from tidelake.format.format_options import FormatOptions, format_options
from tidelake.format.parquet_schema import check_timestamps
from tidelake.format.stats import ColumnStats
from tidelake.format.system_fields import (
    KEY_PREFIX,
    KIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    is_system_name,
    key_field,
    kv_fields,
)

__all__ = [
    "KEY_PREFIX",
    "KIND_FIELD",
    "SEQUENCE_FIELD",
    "SEQUENCE_NUMBER",
    "VALUE_KIND",
    "ColumnStats",
    "DataFileFooter",
    "DataFileWriter",
    "FormatOptions",
    "check_timestamps",
    "format_options",
    "is_system_name",
    "key_field",
    "kv_fields",
    "open_writer",
    "read_batches",
]
