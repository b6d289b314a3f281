"""Makes tables of Kafka from the tables that a session declared."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import UnsupportedError
from tidelake.kafka import KafkaTable, MetadataColumn
from tidelake.kafka.table_options import CONNECTORS
from tidelake.sql.execution.session import CONNECTOR
from tidelake.sql.syntax.ast import CreateTable


def kafka_table(statement: CreateTable, options: Mapping[str, str] | None = None) -> KafkaTable:
    """Make the table that a statement declares.

    Raises
    ------
    UnsupportedError
        The connector belongs to another system.
    InvalidInputError
        The declaration is wrong.
    """
    name = str(statement.name)
    connector = statement.options.get(CONNECTOR, "")
    if connector not in CONNECTORS:
        message = (
            f"Table '{name}' has the connector '{connector}', which is not supported: use 'kafka',"
            " 'upsert-kafka', or 'paimon' with a 'path'."
        )
        raise UnsupportedError(message, kind="sql_connector", connector=connector)
    if statement.partition_keys:
        message = (
            f"Table '{name}' is of Kafka, which takes no declared partitions: leave the clause out."
        )
        raise UnsupportedError(message, kind="sql_clause", table=name)
    return KafkaTable.of(
        name,
        statement.fields,
        {**statement.options, **(options or {})},
        metadata={
            column: MetadataColumn(one.key, is_virtual=one.is_virtual)
            for column, one in statement.metadata.items()
        },
        primary_keys=statement.primary_keys,
    )
