"""What a metastore shows of an open table: its columns, options and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.catalog.hive.register import PartitionEntry, Register, TableEntry
from tidelake.catalog.hive.table_entries import EntrySettings
from tidelake.catalog.identifier import Identifier
from tidelake.errors import NotFoundError
from tidelake.metadata.partition_name import escape_name
from tidelake.types import TableSchema


@dataclass(frozen=True, slots=True)
class TableListing:
    """The entry of one table; see :class:`tidelake.commit.catalog_listing.CatalogListing`."""

    register: Register
    settings: EntrySettings
    uri_of: Callable[[TableEntry], str]
    name: Identifier

    def show(self, old: TableSchema, new: TableSchema) -> None:
        """Change the columns and the options of the entry."""
        entry = self._entry()
        changed = self.settings.changed(entry, old, new)
        if changed != entry:
            self.register.replace_table(entry, changed)

    def add_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Add partitions to the entry."""
        entry = self._entry()
        if not entry.partition_keys or not partitions:
            return
        above = self.uri_of(entry)
        within = entry.parameters.get("data-file.path-directory")
        above = f"{above}/{within}" if within else above
        found = [
            PartitionEntry(tuple(spec.values()), f"{above}/{_partition_path(spec)}")
            for spec in partitions
        ]
        self.register.add_partitions(entry, found)

    def partitions(self) -> list[dict[str, str]]:
        """The partitions of the entry."""
        entry = self._entry()
        if not entry.partition_keys:
            return []
        keys = [column.name for column in entry.partition_keys]
        return [dict(zip(keys, one.values, strict=True)) for one in self.register.partitions(entry)]

    def drop_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Drop partitions of the entry."""
        entry = self._entry()
        for spec in partitions if entry.partition_keys else ():
            self.register.drop_partition(entry, tuple(spec.values()))

    @property
    def mark_done(self) -> Callable[[Mapping[str, str]], None] | None:
        """Marks a partition of the entry, where the server keeps marks."""
        mark = self.register.mark_done
        if mark is None:
            return None

        def mark_of(partition: Mapping[str, str]) -> None:
            entry = self._entry()
            names = (column.name for column in entry.partition_keys)
            mark(entry, dict(zip(names, partition.values(), strict=True)))

        return mark_of

    def _entry(self) -> TableEntry:
        found = self.register.table(*self.name)
        if found is None or not found.is_paimon:
            message = f"Table '{self.name}' is not in {self.register.shown} any more."
            raise NotFoundError(message, kind="table_not_found", table=str(self.name))
        return found


def _partition_path(spec: Mapping[str, str]) -> str:
    return "/".join(f"{escape_name(key)}={escape_name(value)}" for key, value in spec.items())
