"""Makes a job of what a user asks: the source, the lake, the journal, and the job between them."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.cdc.command.declared_columns import DeclaredColumns
from tidelake.cdc.command.job_settings import job_settings, lake_settings
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync_config import SyncConfig
from tidelake.cdc.job.job import SyncJob
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.job.table_copy import Copier
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.kafka.settings import KafkaSettings
from tidelake.cdc.kafka.topic_source import TopicSource
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.cdc.mysql.source import MySqlSource
from tidelake.cdc.postgres.postgres_source import PostgresSource
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.cdc.source.source import Source
from tidelake.cdc.source.source_table import SourceName
from tidelake.engine.env import Env
from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import InvalidInputError, UnsupportedError

JOURNALS = "_cdc"
"""Beside the databases in the warehouse: a folder for each job's journal."""


@dataclass(frozen=True, slots=True)
class OpenedJob:
    """A job with its parts."""

    config: SyncConfig
    catalog: Catalog
    source: Source
    journal: FileJournal
    lake: LakeWriter
    env: Env

    def takes(self, name: SourceName) -> bool:
        """Whether the arguments take a table."""
        return self.source.reads(name) and self.lake.targets.takes(name)

    def job(self) -> SyncJob:
        """Make the running job."""
        return SyncJob(job_settings(self.config), self.source, self.journal, self.lake, self.env)


def lake_of(config: SyncConfig, ways: SecretWays, env: Env) -> Catalog:
    """Open the catalog that a job writes to.

    Raises
    ------
    InvalidInputError
        No warehouse is named, or an option is wrong.
    """
    options = config.catalog_options(ways)
    if config.warehouse is None and "uri" not in options:
        message = f"{config.command} needs --warehouse, or a catalog by --catalog_conf."
        raise InvalidInputError(message, kind="cdc_argument", option="warehouse")
    return open_catalog(config.warehouse, catalog=options or None, env=env)


def source_of(config: SyncConfig, ways: SecretWays, env: Env, catalog: Catalog) -> Source:
    """Open the source that a job reads; no connection is made yet.

    Parameters
    ----------
    catalog : Catalog
        Has the targets that exist, whose types messages may lack.

    Raises
    ------
    InvalidInputError
        A setting is unknown or wrong.
    """
    settings = config.source_settings(ways)
    mapping = config.evolution.mapping
    match config.source:
        case "postgres":
            return PostgresSource(PostgresSettings.of(settings), mapping, env)
        case "mysql":
            return MySqlSource(MySqlSettings.of(settings), mapping, env.clock)
        case "kafka":
            topics = KafkaSettings.of(settings, mapping)
            declared = DeclaredColumns(
                catalog,
                config.routing,
                reserved=config.evolution.reserved,
                case_sensitive=config.case_sensitive,
            )
            return TopicSource(
                topics,
                env.clock,
                keys=config.target.primary_keys,
                # else the types are to be those of the messages
                declared=None if topics.takes_kinds else declared,
            )
    message = f"A sync of {config.source} is not there yet."
    raise UnsupportedError(message, kind="cdc_source")


def opened(
    config: SyncConfig,
    ways: SecretWays,
    env: Env,
    *,
    catalog: Catalog | None = None,
    copier: Copier | None = None,
) -> OpenedJob:
    """Open all parts of a job.

    Parameters
    ----------
    catalog : Catalog, optional
        Where it writes; by default what the arguments name.
    copier : Copier, optional
        Copies large tables in other processes.
    """
    if catalog is None:
        catalog = lake_of(config, ways, env)
    source = source_of(config, ways, env, catalog)
    journal = FileJournal(
        catalog.fileio, f"{catalog.warehouse}/{JOURNALS}/{config.job}", config.job
    )
    lake = LakeWriter(catalog, lake_settings(config, zone=env.zone or "UTC"), copier)
    return OpenedJob(config, catalog, source, journal, lake, env)
