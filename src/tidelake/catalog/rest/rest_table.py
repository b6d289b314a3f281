"""What the server does with one table, and with its branches.

1. A branch ``b`` of a table ``t`` has the server's calls for itself, under the name ``t$branch_b``:
   its newest snapshot, commits, changes of its schema. Its files lie below the table's directory.
2. Branches are listed, created, deleted and fast-forwarded by the server. It knows no rename.
3. A change that was sent and not answered is looked up, as in
   :mod:`tidelake.catalog.rest.metastore`.

Source: Paimon's ``RESTCatalog`` and ``CatalogBranchManager`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import AnswerLostError
from tidelake.catalog.rest.schema_change_json import schema_changes_json
from tidelake.catalog.rest.server_commit import ServerCommit
from tidelake.commit.snapshot_commit import SnapshotCommit, is_same_snapshot
from tidelake.errors import OutcomeUnknownError, UnsupportedError
from tidelake.metadata.paths import MAIN_BRANCH, TablePaths
from tidelake.telemetry import Env
from tidelake.types.schema_change import SchemaChange

BRANCH_OF_NAME = "$branch_"
"""Between a table's name and its branch's, in calls of the server."""


class RestTable:
    """What the server does with one table; see :class:`tidelake.table.handle.managed_table`.

    A copy in another process does the same where its client has the token, and says so elsewhere.

    Parameters
    ----------
    name : str
        The table's name, without the branch's.
    table_id : str or None
        The server's id of what stands at `paths`.
    paths : TablePaths
        The files of the table, or of one of its branches.
    """

    def __init__(
        self,
        client: RestClient,
        database: str,
        name: str,
        *,
        table_id: str | None,
        paths: TablePaths,
        env: Env,
    ) -> None:
        self._client = client
        self._database = database
        self._table = name
        self._name = _object_name(name, paths.branch)
        self._paths = paths
        self._env = env
        self._commit = ServerCommit(
            client, database, self._name, table_id=table_id, paths=paths, env=env
        )

    @property
    def snapshot_commit(self) -> SnapshotCommit:
        """Makes snapshots visible."""
        return self._commit

    def alter(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema."""
        self._client.alter_table(self._database, self._name, schema_changes_json(changes))

    def mark_done(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions as done."""
        try:
            self._client.mark_partitions(self._database, self._name, partitions)
        except UnsupportedError as error:
            message = (
                f"The catalog's server keeps no partitions of table '{self._database}.{self._name}'"
                " which it could mark as done. Set 'metastore.partitioned-table' = 'true', or"
                " 'partition.mark-done-action' to 'success-file' or 'http-report'."
            )
            raise UnsupportedError(message, kind=error.kind) from error

    def roll_back(self, snapshot_id: int) -> None:
        """Make an older snapshot the newest."""
        self._client.roll_back(self._database, self._name, snapshot_id)

    def on_branch(self, branch: str) -> RestTable:
        """The same of a branch; asks the server whether it is there."""
        found = self._client.table(self._database, _object_name(self._table, branch))
        return RestTable(
            self._client,
            self._database,
            self._table,
            table_id=found.id,
            paths=self._paths.of_branch(branch),
            env=self._env,
        )

    def branches(self) -> list[str]:
        """Names of the branches, sorted."""
        return self._client.branches(self._database, self._table)

    def create_branch(self, name: str, *, tag: str | None) -> None:
        """Create a branch at a tag of this one, or empty."""
        try:
            self._client.create_branch(self._database, self._name, name, tag=tag)
        except AnswerLostError as error:
            if name not in self.branches():
                raise unknown(f"branch '{name}' of {self._shown} was created", error) from error

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        try:
            self._client.delete_branch(self._database, self._table, name)
        except AnswerLostError as error:
            if name in self.branches():
                raise unknown(f"branch '{name}' of {self._shown} was deleted", error) from error

    def fast_forward(self, name: str) -> None:
        """Make this branch what another one is."""
        try:
            self._client.fast_forward(self._database, self._name, name)
        except AnswerLostError as error:
            newest = self._client.snapshot(self._database, self._name)
            wanted = self._client.snapshot(self._database, _object_name(self._table, name))
            if newest is None or wanted is None or not is_same_snapshot(newest, wanted):
                what = f"{self._shown} was fast-forwarded to branch '{name}'"
                raise unknown(what, error) from error

    @property
    def _shown(self) -> str:
        return f"table '{self._database}.{self._name}'"


def unknown(what: str, error: AnswerLostError) -> OutcomeUnknownError:
    """Make the error for a change that was not answered, and that may have been made."""
    message = (
        f"It is unknown whether {what}: the catalog's server gave no answer ({error}) Look at it"
        " before you try again."
    )
    return OutcomeUnknownError(message)


def _object_name(table: str, branch: str) -> str:
    return table if branch == MAIN_BRANCH else f"{table}{BRANCH_OF_NAME}{branch}"
