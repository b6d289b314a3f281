"""The views of a metastore: entries of the type ``VIRTUAL_VIEW``.

Hive keeps one query of a view, in no named dialect: ``dialects`` is empty when it is read, and is
dropped when it is kept. Columns have Hive's types. Source: ``HiveCatalog`` (2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidelake.catalog.hive.hive_types import hive_type, paimon_type
from tidelake.catalog.hive.register import VIEW, HiveColumn, Register, TableEntry
from tidelake.catalog.hive.table_entries import COMMENT, names_of
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.view_definition import DIALECT, ViewDefinition
from tidelake.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from tidelake.telemetry import Clock
from tidelake.types import DataField

TEXT_INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe"


@dataclass(frozen=True, slots=True)
class HiveViews:
    """Asks the metastore; :class:`tidelake.catalog.view_definition.ViewStore`."""

    register: Register
    owner: str | None
    clock: Clock

    def views(self, database: str) -> list[str]:
        """Names of the views of a database, sorted."""
        return names_of(entry for entry in self.register.tables(database) if entry.is_view)

    def load_view(self, name: Identifier) -> ViewDefinition | None:
        """Look a view up; None if there is none."""
        if str(name) != str(name).lower():
            return None
        entry = self.register.table(*name)
        if entry is None or not entry.is_view:
            return None
        fields = tuple(
            DataField(i, c.name, paimon_type(c.type), c.comment)
            for i, c in enumerate(entry.columns)
        )
        options = {k: v for k, v in entry.parameters.items() if k != COMMENT}
        return ViewDefinition(
            str(name),
            entry.query or "",
            fields,
            comment=entry.parameters.get(COMMENT),
            options=MappingProxyType(options),
        )

    def create_view(self, name: Identifier, view: ViewDefinition) -> bool:
        """Keep a view; False if it exists."""
        if str(name) != str(name).lower():
            message = (
                f"The view name '{name}' has capitals, and a metastore keeps names in lower case:"
                f" use '{str(name).lower()}'."
            )
            raise InvalidInputError(message, kind="bad_name", name=str(name))
        columns = tuple(HiveColumn(f.name, hive_type(f.type), f.description) for f in view.fields)
        for column in columns:
            paimon_type(column.type)  # so that it can be read again
        comment = {} if view.comment is None else {COMMENT: view.comment}
        entry = TableEntry(
            name.database,
            name.table,
            None,
            columns,
            (),
            {**view.options, **comment},
            VIEW,
            TEXT_INPUT,
            TEXT_OUTPUT,
            SERDE,
            query=view.query_in(DIALECT),
            owner=self.owner,
            created_s=self.clock.now_ms() // 1000,
        )
        if self.register.create_table(entry):
            return True
        found = self.register.table(*name)
        if found is not None and not found.is_view:
            message = f"'{name}' is a table: choose another name for the view."
            raise AlreadyExistsError(message, kind="table_exists", table=str(name))
        return False

    def drop_view(self, name: Identifier) -> bool:
        """Drop a view; False if there is none."""
        found = self.register.table(*name) if str(name) == str(name).lower() else None
        if found is None or not found.is_view:
            return False
        return self.register.drop_table(*name, with_directory=False)

    def alter_view(self, name: Identifier, changes: Sequence[Mapping[str, Any]]) -> None:
        """Refuse: there is one query, and no dialect.

        Raises
        ------
        UnsupportedError
            Always.
        """
        asked = ", ".join(str(change.get("action")) for change in changes)
        message = (
            f"View '{name}' cannot be altered ({asked}): it is kept by a metastore, which has"
            " one query of it and no dialects. Use CREATE OR REPLACE VIEW."
        )
        raise UnsupportedError(message, kind="views", name=str(name))
