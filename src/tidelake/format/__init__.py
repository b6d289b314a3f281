"""Data files: Parquet, ORC and Avro, written and read as Paimon does, with statistics.

One face (``data_file``) opens all of them; fields are found by id. Snapshots, buckets and merges
may not enter.
"""

from tidelake.format.data_file import DataFileRead, open_writer, orc_times_shift, read_batches
from tidelake.format.fetching.read_ahead import ReadAhead, files_in_turn
from tidelake.format.field_schema import check_timestamps
from tidelake.format.file_reader import BATCH_ROWS, null_batches
from tidelake.format.file_writer import DataFileFooter, DataFileWriter
from tidelake.format.format_options import (
    FormatOptions,
    all_format_options,
    file_suffix,
    format_options,
    orc_zone_moves,
)
from tidelake.format.reader_memory import held_bytes
from tidelake.format.stats import ColumnStats
from tidelake.format.system_fields import (
    KEY_PREFIX,
    KIND_FIELD,
    ROW_ID_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_NUMBER,
    TRACKED_SEQUENCE_FIELD,
    TRACKING_FIELDS,
    VALUE_KIND,
    is_system_name,
    key_field,
    kv_fields,
)
from tidelake.format.writable import check_file_formats

__all__ = [
    "BATCH_ROWS",
    "KEY_PREFIX",
    "KIND_FIELD",
    "ROW_ID_FIELD",
    "SEQUENCE_FIELD",
    "SEQUENCE_NUMBER",
    "TRACKED_SEQUENCE_FIELD",
    "TRACKING_FIELDS",
    "VALUE_KIND",
    "ColumnStats",
    "DataFileFooter",
    "DataFileRead",
    "DataFileWriter",
    "FormatOptions",
    "ReadAhead",
    "all_format_options",
    "check_file_formats",
    "check_timestamps",
    "file_suffix",
    "files_in_turn",
    "format_options",
    "held_bytes",
    "is_system_name",
    "key_field",
    "kv_fields",
    "null_batches",
    "open_writer",
    "orc_times_shift",
    "orc_zone_moves",
    "read_batches",
]
