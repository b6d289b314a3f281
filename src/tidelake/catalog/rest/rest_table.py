"""One table of a REST catalog: its schema and snapshots change through the server."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.schema_change_json import schema_changes_json
from tidelake.catalog.rest.server_commit import ServerCommit
from tidelake.commit.snapshot_commit import SnapshotCommit
from tidelake.types.schema_change import SchemaChange


class RestTable:
    """What the server does with one table; see :class:`tidelake.table.handle.managed_table`.

    A copy in another process does the same where its client has the token, and says so elsewhere.
    """

    def __init__(
        self, client: RestClient, database: str, name: str, *, snapshot_commit: ServerCommit
    ) -> None:
        self._client = client
        self._database = database
        self._name = name
        self._commit = snapshot_commit

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
