"""Columns whose types a target declares, for messages that name none.

A target that was made before has types; messages such as Maxwell's have texts and plain JSON. Their
values are read as the target's types, so that a table is not suspended for texts in place of
numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from tidelake.cdc.kafka.row_changes import Declared
from tidelake.cdc.kafka.wire import WireColumn, declared_column
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.source.source_table import SourceName
from tidelake.engine.tables import Catalog, Table
from tidelake.errors import NotFoundError
from tidelake.types import DataField

_Columns = Mapping[str, WireColumn]


class _TableColumns(_Columns):
    """The columns of one target, by their names in messages."""

    def __init__(self, fields: Collection[DataField], *, case_sensitive: bool) -> None:
        self._fields = {field.name: field for field in fields}
        self._case_sensitive = case_sensitive

    def __getitem__(self, name: str) -> WireColumn:
        field = self._fields[name if self._case_sensitive else name.lower()]
        return declared_column(replace(field, name=name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class DeclaredColumns(Declared):
    """The columns of the targets that exist, by the tables of the source. For one thread.

    A target is looked at once, when the first message of its table is read: what the job adds to it
    later comes from messages.

    Parameters
    ----------
    reserved : collection of str
        Columns that the job adds itself.
    """

    def __init__(
        self,
        catalog: Catalog,
        routing: Routing,
        *,
        reserved: Collection[str],
        case_sensitive: bool,
    ) -> None:
        self._catalog = catalog
        self._routing = routing
        self._reserved = frozenset(reserved)
        self._case_sensitive = case_sensitive
        self._found: dict[SourceName, _Columns] = {}

    def __getitem__(self, name: SourceName) -> _Columns:
        if name not in self._found:
            if not self._routing.filter.taken([name]):
                raise KeyError(name)
            try:
                table = self._catalog.table(self._routing.target_of(name))
            except NotFoundError as error:
                raise KeyError(name) from error
            assert isinstance(table, Table), "no system table is a target"
            # nested values have no text from which a declared type could be read
            fields = [
                field
                for field in table.table_schema.fields
                if field.name not in self._reserved and not field.type.is_nested
            ]
            self._found[name] = _TableColumns(fields, case_sensitive=self._case_sensitive)
        return self._found[name]

    def __iter__(self) -> Iterator[SourceName]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
