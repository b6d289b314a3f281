"""What a user asks, as the settings of a job and of its targets."""

from __future__ import annotations

from tidelake.cdc.command.sync_config import SyncConfig
from tidelake.cdc.job.job import JobSettings
from tidelake.cdc.job.targets import LakeSettings
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.target.row_maker import AddedColumns


def job_settings(config: SyncConfig) -> JobSettings:
    """How the job runs: an epoch gathers changes for the interval, up to the rows."""
    return JobSettings(
        name=config.job,
        limits=EpochLimits(rows_max=config.rows_max, gather_ms=config.interval_ms),
        takes_new_tables=config.routing.takes_new_tables,
        resnapshots_if_lost=config.resnapshots_if_lost,
    )


def lake_settings(config: SyncConfig, *, zone: str) -> LakeSettings:
    """What the job asks of its targets.

    Parameters
    ----------
    zone : str
        Where instants are read as local times, by its IANA name: by computed columns.
    """
    return LakeSettings(
        job=config.job,
        routing=config.routing,
        columns=AddedColumns(
            computed=config.computed,
            metadata=config.metadata,
            has_order=config.has_order,
            case_sensitive=config.case_sensitive,
            zone=zone,
        ),
        options=config.target,
        evolution=config.evolution,
        ignores_incompatible=config.ignores_incompatible,
        quarantine_max=config.quarantine_max,
        reread_max=config.reread_max,
    )
