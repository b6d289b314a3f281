"""A view as a catalog keeps it: a query by dialect, and the columns that it gives.

Source: Paimon's ``ViewSchema`` and ``ViewChange`` (1.3.1). A filesystem catalog keeps no views; a
REST catalog does, and the JDBC catalog since Paimon 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

from tidelake.catalog.identifier import Identifier
from tidelake.types import DataField
from tidelake.types.schema import field_from_json, field_to_json

DIALECT = "spark"
"""The dialect of queries that Tidelake writes and reads: its SQL is Spark's."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view.

    Parameters
    ----------
    identifier : str
        ``"database.view"``.
    query : str
        The query where no dialect has its own.
    fields : tuple of DataField
        The columns, in order.
    dialects : mapping of str to str
        The query in the dialects of engines: ``spark``, ``flink``.
    """

    identifier: str
    query: str
    fields: tuple[DataField, ...] = ()
    dialects: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def query_in(self, dialect: str = DIALECT) -> str:
        """The query in a dialect; the general one where the dialect has none."""
        return self.dialects.get(dialect, self.query)

    def to_document(self) -> dict[str, Any]:
        """Paimon's ``ViewSchema`` as a JSON object."""
        document: dict[str, Any] = {
            "fields": [field_to_json(f) for f in self.fields],
            "query": self.query,
            "dialects": dict(self.dialects),
            "options": dict(self.options),
        }
        return document if self.comment is None else document | {"comment": self.comment}

    @classmethod
    def from_document(cls, identifier: str, document: object) -> ViewDefinition | None:
        """Read it; None if it is another object."""
        if not isinstance(document, dict) or not isinstance(document.get("query"), str):
            return None
        return cls(
            identifier,
            document["query"],
            tuple(field_from_json(f) for f in document.get("fields") or []),
            {str(k): str(v) for k, v in (document.get("dialects") or {}).items()},
            document.get("comment"),
            {str(k): str(v) for k, v in (document.get("options") or {}).items()},
        )

    def changed(self, change: Mapping[str, Any]) -> ViewDefinition:
        """The view after a change of a dialect, by Paimon's change as a JSON object."""
        dialects = dict(self.dialects)
        if change["action"] == "dropDialect":
            del dialects[change["dialect"]]
        else:
            dialects[change["dialect"]] = change["query"]
        return replace(self, dialects=MappingProxyType(dialects))


class ViewStore(Protocol):
    """Keeps the views of a catalog; names that come in are valid."""

    def views(self, database: str) -> list[str]:
        """Names of the views of an existing database, sorted."""
        ...

    def load_view(self, name: Identifier) -> ViewDefinition | None:
        """Look a view up; None if there is none."""
        ...

    def create_view(self, name: Identifier, view: ViewDefinition) -> bool:
        """Keep a view; False, and nothing done, if it exists."""
        ...

    def drop_view(self, name: Identifier) -> bool:
        """Drop a view; False if there is none."""
        ...

    def alter_view(self, name: Identifier, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change a view, by Paimon's changes as JSON objects."""
        ...
