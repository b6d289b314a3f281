"""The views of a catalog's server.

Source: Paimon's ``CreateViewRequest``, ``GetViewResponse`` and ``AlterViewRequest`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import AnswerLostError
from tidelake.catalog.view_definition import ViewDefinition
from tidelake.errors import AlreadyExistsError, CorruptError, NotFoundError, OutcomeUnknownError


@dataclass(frozen=True, slots=True)
class RestViews:
    """Asks the server; :class:`tidelake.catalog.view_definition.ViewStore`."""

    client: RestClient

    def views(self, database: str) -> list[str]:
        """Names of the views of a database, sorted."""
        return self.client.views(database)

    def load_view(self, name: Identifier) -> ViewDefinition | None:
        """Ask for a view; None if there is none."""
        try:
            found = self.client.view(name.database, name.table)
        except NotFoundError:
            return None
        view = ViewDefinition.from_document(str(name), found.get("schema"))
        if view is None:
            message = f"The catalog's server answered with another object than the view '{name}'."
            raise CorruptError(message, kind="rest_answer")
        return view

    def create_view(self, name: Identifier, view: ViewDefinition) -> bool:
        """Create a view; False if it exists."""
        try:
            self.client.create_view(name.database, name.table, view.to_document())
        except AlreadyExistsError:
            return False
        except AnswerLostError as error:
            if self.load_view(name) != view:
                raise _unknown(name, "created", error) from error
        return True

    def drop_view(self, name: Identifier) -> bool:
        """Drop a view; False if there is none."""
        try:
            self.client.drop_view(name.database, name.table)
        except NotFoundError:
            return False
        except AnswerLostError as error:
            if self.load_view(name) is not None:
                raise _unknown(name, "dropped", error) from error
        return True

    def alter_view(self, name: Identifier, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change a view."""
        try:
            self.client.alter_view(name.database, name.table, changes)
        except AnswerLostError as error:
            raise _unknown(name, "altered", error) from error


def _unknown(name: Identifier, what: str, error: AnswerLostError) -> OutcomeUnknownError:
    message = f"It is unknown whether view '{name}' was {what} ({error}): look at it."
    return OutcomeUnknownError(message, kind="rest_unknown", name=str(name))
