"""Which tables of a source go into which tables of the lake.

A job of one table puts all tables of its source into it. A job of a database gives each its own by
:class:`~tidelake.cdc.routing.table_names.TableNames`. Several sources share a target if they are
shards, which have one name in different databases, or if the mapping names each of them; two others
that meet at one name are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidelake.cdc.routing.name_filter import NameFilter, shard_of
from tidelake.cdc.routing.table_names import TableNames
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError


class Mode(StrEnum):
    """Whether tables that appear while a job runs join it."""

    DIVIDED = "divided"
    """No: they join at its next start."""
    COMBINED = "combined"
    """Yes."""


@dataclass(frozen=True, slots=True)
class TableRoute:
    """A target and its sources.

    Parameters
    ----------
    target : str
        ``"database.table"`` of the lake.
    sources : tuple of SourceName
        In the source's order; more than one are merged.
    """

    target: str
    sources: tuple[SourceName, ...]


@dataclass(frozen=True, slots=True)
class Routing:
    """Where tables go.

    Parameters
    ----------
    database : str
        Of the lake.
    table : str, optional
        The target of all tables; None gives each its own.
    partition_keys : tuple of str
        Of targets that `partition_keys_of` does not name.
    partition_keys_of : mapping
        Partition keys by the name of a source's table: ``multiple_table_partition_keys``.
    """

    database: str
    table: str | None = None
    names: TableNames = field(default_factory=TableNames)
    filter: NameFilter = field(default_factory=NameFilter)
    mode: Mode = Mode.COMBINED
    partition_keys: tuple[str, ...] = ()
    partition_keys_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def takes_new_tables(self) -> bool:
        """Whether a table that appears joins a running job."""
        return self.mode is Mode.COMBINED

    def target_of(self, name: SourceName) -> str:
        """Name the target of a table: ``"database.table"``."""
        return f"{self.database}.{self.table or self.names.target(name)}"

    def partition_keys_for(self, name: SourceName) -> tuple[str, ...]:
        """Give the partition keys that are asked for of a table's target."""
        return self.partition_keys_of.get(name.table) or self.partition_keys

    def routes(self, names: Iterable[SourceName]) -> tuple[TableRoute, ...]:
        """Give each table its target.

        Parameters
        ----------
        names : iterable of SourceName
            All tables of the source; those that patterns leave out have no route.

        Raises
        ------
        InvalidInputError
            Two tables that are not shards meet at one target: kind ``cdc_target_collision``.
        """
        sources: dict[str, list[SourceName]] = {}
        for name in self.filter.taken(names):
            sources.setdefault(self.target_of(name), []).append(name)
        if self.table is None:
            for target, meeting in sources.items():
                self._check_meeting(target, meeting)
        return tuple(TableRoute(target, tuple(meeting)) for target, meeting in sources.items())

    def _check_meeting(self, target: str, meeting: list[SourceName]) -> None:
        first = meeting[0]
        for other in meeting[1:]:
            if self._may_meet(first, other):
                continue
            message = (
                f"The tables '{first}' and '{other}' both go into '{target}', and they are no"
                " shards of one table: give one another name by table_mapping, or leave it out by"
                " excluding_tables."
            )
            raise InvalidInputError(
                message, kind="cdc_target_collision", table=target, sources=(str(first), str(other))
            )

    def _may_meet(self, one: SourceName, other: SourceName) -> bool:
        if self.names.is_mapped(one) and self.names.is_mapped(other):
            return True
        alike = one.table == other.table
        if not self.names.case_sensitive:
            alike = one.table.lower() == other.table.lower()
        return self.names.merge_shards and alike and shard_of(one) != shard_of(other)
