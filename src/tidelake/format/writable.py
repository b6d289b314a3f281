"""Checks, before a write, that files can hold a table's columns with its options."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.format.avro.schema import check_avro
from tidelake.format.field_schema import check_timestamps
from tidelake.format.format_options import all_format_options
from tidelake.format.schema_mapped_columns import check_no_variant
from tidelake.options import Options
from tidelake.types import DataField


def check_file_formats(options: Options, fields: Sequence[DataField], *, what: str) -> None:
    """Refuse a table if a file of one of its levels cannot be written.

    Raises
    ------
    UnsupportedError
        A format is unknown, lacks the compression, or cannot hold a column.
    InvalidInputError
        An option has a wrong value.
    """
    try:
        formats = {chosen.file_format for chosen in all_format_options(options)}
        if "orc" in formats:
            check_no_variant(fields, file_format="ORC")
        if "avro" in formats:
            check_avro(fields)
    except (UnsupportedError, InvalidInputError) as error:
        raise type(error)(f"{what}: {error.message}", kind=error.kind) from error
    if "parquet" in formats:
        check_timestamps(fields, what=what)
