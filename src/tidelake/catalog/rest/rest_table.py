"""One table of a REST catalog: its schema and snapshots change through the server."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.schema_change_json import schema_changes_json
from tidelake.catalog.rest.server_commit import ServerCommit
from tidelake.commit.snapshot_commit import Candidate, Outcome, SnapshotCommit
from tidelake.errors import UnsupportedError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.types.schema_change import SchemaChange

__all__ = ["RestTable"]


class RestTable:
    """What the server does with one table; see :class:`tidelake.table.handle.managed_table`.

    A copy in another process changes nothing: it has no token, and says so.

    Parameters
    ----------
    client : RestClient
        The server.
    database, name : str
        The table.
    snapshot_commit : ServerCommit
        Makes its snapshots visible.
    """

    def __init__(
        self, client: RestClient, database: str, name: str, *, snapshot_commit: ServerCommit
    ) -> None:
        self._client = client
        self._database = database
        self._name = name
        self._commit = snapshot_commit

    def __reduce__(self) -> tuple[object, ...]:
        return (_CopiedTable, (f"{self._database}.{self._name}",))

    @property
    def snapshot_commit(self) -> SnapshotCommit:
        """Makes snapshots visible."""
        return self._commit

    def alter(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema."""
        self._client.alter_table(self._database, self._name, schema_changes_json(changes))

    def roll_back(self, snapshot_id: int) -> None:
        """Make an older snapshot the newest."""
        self._client.roll_back(self._database, self._name, snapshot_id)


class _CopiedTable:
    """A table in another process than the one that opened its catalog: its files can be read."""

    def __init__(self, table: str) -> None:
        self._table = table

    def _refused(self) -> UnsupportedError:
        message = (
            f"Table '{self._table}' was copied into another process, which has no token for its"
            " catalog's server: commit, alter and roll back where the catalog was opened."
        )
        return UnsupportedError(message, kind="catalog_elsewhere", table=self._table)

    @property
    def snapshot_commit(self) -> SnapshotCommit:
        """Refuses when it is used."""
        return self

    def latest(self) -> Snapshot | None:
        """Refuse."""
        raise self._refused()

    def publish(self, candidate: Candidate) -> Outcome:  # noqa: ARG002 - the port's
        """Refuse."""
        raise self._refused()

    def alter(self, changes: Sequence[SchemaChange]) -> None:  # noqa: ARG002 - the port's
        """Refuse."""
        raise self._refused()

    def roll_back(self, snapshot_id: int) -> None:  # noqa: ARG002 - the port's
        """Refuse."""
        raise self._refused()
