"""Arguments of the commands for the upkeep of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.cli.command_line.usage_error import UsageError


@dataclass(frozen=True, slots=True)
class ExpireArguments:
    """Arguments of ``tidelake expire``.

    Parameters
    ----------
    what : str
        ``"snapshots"``, ``"partitions"`` or ``"tags"``.
    table : str
        ``"database.table"``.
    older_than : str, optional
        Of snapshots and tags: a time with its zone.
    expiration_time : str, optional
        Of partitions: an age.
    as_json : bool
        Print JSON objects.
    """

    warehouse: str
    what: str
    table: str
    dry_run: bool = False
    older_than: str | None = None
    expiration_time: str | None = None
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class OrphansArguments:
    """Arguments of ``tidelake orphans``.

    Parameters
    ----------
    table : str
        ``"database.table"`` or ``"database.*"``.
    older_than : str, optional
        A time with its zone.
    shows : bool
        Show the files in quarantine.
    undelete : tuple of str
        Files to take out of it.
    as_json : bool
        Print JSON objects.
    """

    warehouse: str
    table: str
    dry_run: bool = False
    older_than: str | None = None
    shows: bool = False
    undelete: tuple[str, ...] = ()
    parallelism: int | None = None
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CompactArguments:
    """Arguments of ``tidelake compact``.

    Parameters
    ----------
    tables : tuple of str
        ``"database.table"`` or ``"database.*"``, each once.
    watch, once : bool
        Whether to do all that is due, until it is stopped or once; else only to compact.
    interval : float
        Seconds from the begin of a round to that of the next.
    as_json : bool
        Print JSON objects.
    on : str
        ``"local"`` or ``"spark"``.
    metrics_port : int, optional
        Port of metrics; none by default.

    Raises
    ------
    UsageError
        Metrics are asked for without ``--watch``.
    """

    warehouse: str
    tables: tuple[str, ...]
    watch: bool = False
    once: bool = False
    full: bool = False
    dry_run: bool = False
    interval: float = 10.0
    options: Mapping[str, str] = field(default_factory=dict)
    as_json: bool = False
    on: str = "local"
    metrics_port: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.metrics_port is not None and not self.watch:
            message = "--metrics-port is of a job that goes on: give --watch too"
            raise UsageError(message)
