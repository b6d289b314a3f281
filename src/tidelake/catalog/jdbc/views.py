"""The views of a catalog in a database: rows of ``paimon_views``, as Paimon keeps them since 2.1.

The table is made with the first view: Paimon 1.3.1 has none, and knows nothing of it. A view's row
has its ``ViewSchema`` as JSON. The primary key decides between two creators; a change puts the new
JSON where the old one still is. Source: ``JdbcCatalog`` of Paimon 2.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc.database import Database, RowExistsError
from tidelake.catalog.jdbc.lock import TableLock
from tidelake.catalog.view_definition import ViewDefinition
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    OutcomeUnknownError,
    TidelakeError,
)


@dataclass(frozen=True, slots=True)
class JdbcViews:
    """Asks the database; :class:`tidelake.catalog.view_definition.ViewStore`."""

    database: Database
    catalog_key: str
    lock: TableLock

    def views(self, database: str) -> list[str]:
        """Names of the views of a database, sorted."""
        if not self._is_made():
            return []
        rows = self.database.rows(statements.VIEWS_OF_DATABASE, self.catalog_key, database)
        return sorted(str(name) for (name,) in rows)

    def load_view(self, name: Identifier) -> ViewDefinition | None:
        """Look a view up; None if there is none."""
        text = self._text(name)
        return None if text is None else _view(name, text)

    def create_view(self, name: Identifier, view: ViewDefinition) -> bool:
        """Keep a view; False if it exists."""
        self._make()
        text = json.dumps(view.to_document(), ensure_ascii=False)
        with self.lock.hold(name):
            if self.database.rows(statements.TABLE_EXISTS, self.catalog_key, *name):
                message = f"'{name}' is a table: choose another name for the view."
                raise AlreadyExistsError(message, kind="table_exists", table=str(name))
            try:
                self.database.change(statements.INSERT_VIEW, self.catalog_key, *name, text)
            except RowExistsError:
                return False
            except OutcomeUnknownError:
                if self._text(name) != text:
                    raise
        return True

    def drop_view(self, name: Identifier) -> bool:
        """Drop a view; False if there is none."""
        if not self._is_made():
            return False
        with self.lock.hold(name):
            return bool(self.database.change(statements.DELETE_VIEW, self.catalog_key, *name))

    def alter_view(self, name: Identifier, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change a view that is there.

        Raises
        ------
        ConflictError
            It was changed or dropped meanwhile.
        """
        with self.lock.hold(name):
            text = self._text(name)
            done = 0
            if text is not None:
                view = _view(name, text)
                for change in changes:
                    view = view.changed(change)
                new = json.dumps(view.to_document(), ensure_ascii=False)
                if new == text:
                    return  # a database may count no row that an update leaves as it was
                where = (self.catalog_key, *name, text)
                done = self.database.change(statements.UPDATE_VIEW, new, *where)
        if not done:
            message = f"View '{name}' was changed or dropped meanwhile: look at it and try again."
            raise ConflictError(message, kind="view_changed", name=str(name))

    def _text(self, name: Identifier) -> str | None:
        if not self._is_made():
            return None
        rows = self.database.rows(statements.VIEW, self.catalog_key, *name)
        return str(rows[0][0]) if rows else None

    def _is_made(self) -> bool:
        return bool(self.database.tables(statements.VIEWS))

    def _make(self) -> None:
        if self._is_made():
            return
        try:
            self.database.change(statements.CREATE_VIEWS)
        except TidelakeError:
            if not self._is_made():  # else another process was faster
                raise


def _view(name: Identifier, text: str) -> ViewDefinition:
    try:
        view = ViewDefinition.from_document(str(name), json.loads(text))
    except ValueError:
        view = None
    if view is None:
        message = (
            f"The row of view '{name}' in {statements.VIEWS} holds no view: drop it, and create the"
            " view again."
        )
        raise CorruptError(message, kind="view_row", name=str(name))
    return view
