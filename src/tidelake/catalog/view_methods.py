"""Methods of a catalog for its views."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.catalog.view_definition import DIALECT, ViewDefinition, ViewStore
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    UnsupportedError,
    near_names,
)
from tidelake.types import DataField

_ACTIONS = {"add": "addDialect", "update": "updateDialect", "drop": "dropDialect"}


class ViewMethods(abc.ABC):
    """Views of a catalog that keeps any: in a database, or of a REST server."""

    @property
    @abc.abstractmethod
    def metastore(self) -> Metastore:
        """What knows the tables."""

    @abc.abstractmethod
    def table_exists(self, identifier: str) -> bool:
        """Whether a table exists."""

    @abc.abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database."""

    def views(self, database: str) -> list[str]:
        """List the names of a database's views, sorted; none in a catalog that keeps no views.

        Raises
        ------
        NotFoundError
            There is no such database.
        """
        self.list_tables(database)  # raises if there is no such database
        store = self.metastore.view_store
        return [] if store is None else store.views(database)

    def view(self, identifier: str) -> ViewDefinition:
        """Look a view up.

        Raises
        ------
        NotFoundError
            There is none.
        """
        name = Identifier.of(identifier)
        store = self.metastore.view_store
        found = None if store is None else store.load_view(name)
        if found is None:
            raise self._no_view(name)
        return found

    def find_view(self, identifier: str) -> ViewDefinition | None:
        """Look a view up; None if there is none, or the catalog keeps no views."""
        store = self.metastore.view_store
        if store is None:
            return None
        try:
            return store.load_view(Identifier.of(identifier))
        except (StorageRefusedError, UnsupportedError):
            return None  # a server without views

    def create_view(
        self,
        identifier: str,
        query: str,
        fields: Sequence[DataField],
        *,
        dialects: Mapping[str, str] | None = None,
        comment: str | None = None,
        options: Mapping[str, str] | None = None,
        if_exists: Literal["error", "ignore", "replace"] = "error",
    ) -> ViewDefinition:
        """Keep a view.

        Parameters
        ----------
        identifier : str
            ``"database.view"``.
        query : str
            The query; names without a database are those of the view's own database.
        fields : sequence of DataField
            The columns that it gives. They are not checked: no query is run.
        dialects : mapping, optional
            The query by dialect; by default `query` in the dialect ``spark``.
        comment : str, optional
            What it is for.
        options : mapping, optional
            Properties of the user's own.
        if_exists : {'error', 'ignore', 'replace'}
            What to do if the view exists.

        Raises
        ------
        AlreadyExistsError
            A view, or a table, has the name.
        UnsupportedError
            The catalog keeps no views.
        """
        name = Identifier.of(identifier)
        store = self._store()
        self.list_tables(name.database)
        if not str(query).strip():
            message = f"View '{name}' has no query: give one."
            raise InvalidInputError(message, kind="bad_argument", name=str(name))
        if self.table_exists(str(name)):
            message = f"'{name}' is a table: choose another name for the view."
            raise AlreadyExistsError(message, kind="table_exists", table=str(name))
        view = ViewDefinition(
            str(name),
            query,
            tuple(fields),
            MappingProxyType(dict(dialects or {DIALECT: query})),
            comment,
            MappingProxyType(dict(options or {})),
        )
        if store.create_view(name, view):
            return view
        if if_exists == "ignore":
            return self.view(str(name))
        if if_exists == "replace":
            store.drop_view(name)
            if store.create_view(name, view):
                return view
        message = f"View '{name}' exists: use OR REPLACE, or drop it first."
        raise AlreadyExistsError(message, kind="view_exists", name=str(name))

    def drop_view(
        self, identifier: str, *, if_missing: Literal["error", "ignore"] = "error"
    ) -> None:
        """Drop a view.

        Raises
        ------
        NotFoundError
            There is none.
        """
        name = Identifier.of(identifier)
        store = self.metastore.view_store
        dropped = store is not None and store.drop_view(name)
        if not dropped and if_missing == "error":
            raise self._no_view(name)

    def alter_view_dialect(
        self, identifier: str, action: str, *, dialect: str = DIALECT, query: str | None = None
    ) -> None:
        """Add, update or drop the query of a view in a dialect.

        Parameters
        ----------
        identifier : str
            ``"database.view"``.
        action : {'add', 'update', 'drop'}
            What to do.
        dialect : str
            The engine that the query is for.
        query : str, optional
            The query, for ``add`` and ``update``.

        Raises
        ------
        InvalidInputError
            The action is unknown, has no query, or does not fit the dialects that there are.
        NotFoundError
            There is no such view.
        """
        if action not in _ACTIONS:
            message = f"'{action}' is no action on a dialect of a view: take add, update or drop."
            raise InvalidInputError(message, kind="bad_argument")
        view = self.view(identifier)
        change = {"action": _ACTIONS[action], "dialect": dialect}
        if action != "drop":
            if not (query or "").strip():
                message = f"The action '{action}' needs the query of the dialect '{dialect}'."
                raise InvalidInputError(message, kind="bad_argument", name=identifier)
            change["query"] = str(query)
        if (action == "add") == (dialect in view.dialects):
            problem = "has" if action == "add" else "has no query in"
            message = (
                f"View '{view.identifier}' {problem} the dialect '{dialect}'"
                f"{' already' if action == 'add' else ''}; its dialects are:"
                f" {', '.join(sorted(view.dialects)) or 'none'}."
            )
            raise InvalidInputError(message, kind="view_dialect", name=view.identifier)
        self._store().alter_view(Identifier.of(identifier), [change])

    def _store(self) -> ViewStore:
        store = self.metastore.view_store
        if store is None:
            message = (
                f"Catalog {self.metastore.shown} keeps no views: Paimon's catalogs of directories"
                " have none. Use a JDBC or a REST catalog, or CREATE TEMPORARY VIEW, which keeps"
                " one for the session."
            )
            raise UnsupportedError(message, kind="views")
        return store

    def _no_view(self, name: Identifier) -> NotFoundError:
        known = self.views(name.database)
        message = (
            f"There is no view '{name}' in {self.metastore.shown}.{near_names(name.table, known)}"
        )
        return NotFoundError(message, kind="view_not_found", name=str(name))
