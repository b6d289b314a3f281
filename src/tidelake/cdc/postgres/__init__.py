"""PostgreSQL as a source of changes: its log by pgoutput, decoded by column.

A source's connections, its catalogue and its log; what happens to the rows may not enter.
"""

from tidelake.cdc.postgres.postgres_source import PostgresSource
from tidelake.cdc.postgres.settings import PostgresSettings

__all__ = ["PostgresSettings", "PostgresSource"]
