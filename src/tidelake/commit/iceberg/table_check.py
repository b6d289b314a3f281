"""What is checked when a table with Iceberg metadata is created or altered."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.commit.iceberg.iceberg_schema import check_schema, check_type_changes
from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.options import Options
from tidelake.types import DataField, TableSchema

_ANY_LOCATION = "/warehouse/database.db/table"


def check_iceberg(
    schema: TableSchema, options: Options, *, table: str, before: Sequence[DataField] = ()
) -> None:
    """Refuse a schema that Iceberg's readers could not read; tables without metadata pass.

    Raises
    ------
    UnsupportedError
        The message names the column or option.
    """
    settings = IcebergSettings.of(
        options, _ANY_LOCATION, has_primary_key=bool(schema.primary_keys), table=table
    )
    if settings is not None:
        check_schema(schema.fields, format_version=settings.format_version, table=table)
        check_type_changes(before, schema.fields, table=table)
