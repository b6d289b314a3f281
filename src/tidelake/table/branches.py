"""The branches of a table: versions of it that are written and read beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelake.commit.iceberg import sync_quietly
from tidelake.errors import InvalidInputError, shortened
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.table.handle.branch import branch_names, renewed, table_name
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.branching import create_branch, delete_branch, rename_branch
from tidelake.table.jobs.fast_forward import FastForwarded, fast_forward


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch of a table.

    Parameters
    ----------
    name : str
        Its name.
    snapshot_id : int or None
        Its newest snapshot; None for an empty branch.
    """

    name: str
    snapshot_id: int | None


class Branches:
    """The branches of one table beside main: :attr:`tidelake.Table.branches`.

    Examples
    --------
    >>> import tempfile, tidelake, pyarrow as pa
    >>> catalog = tidelake.open(tempfile.mkdtemp())
    >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    >>> _ = table.write([{"k": 1}])
    >>> table.branches.create("audit", snapshot_id=1)
    >>> _ = catalog.table("db.t$branch_audit").write([{"k": 2}])
    >>> table.count(), catalog.table("db.t$branch_audit").count()
    (1, 2)
    >>> table.branches.list()
    [BranchInfo(name='audit', snapshot_id=2)]
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[BranchInfo]:
        """The branches by name."""
        return iter(self.list())

    def __repr__(self) -> str:
        return f"<Branches of {table_name(self._handle)}: {', '.join(branch_names(self._handle))}>"

    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot_id: int | None = None,
        if_exists: str = "error",
    ) -> None:
        """Create a branch: empty, or with the rows of a tag or a snapshot. No data is copied.

        Parameters
        ----------
        name : str
            Its name, with a letter in it; not ``main``.
        tag : str, optional
            The tag to begin at. It cannot be deleted as long as the branch exists, unless another
            lasting tag names its snapshot.
        snapshot_id : int, optional
            The snapshot to begin at. If it has no lasting tag it gets one,
            ``tidelake-branch-<name>``, which is deleted with the branch.
        if_exists : {'error', 'ignore'}
            What to do if there is a branch of that name; ``'ignore'`` leaves it as it is.

        Raises
        ------
        AlreadyExistsError
            There is a branch of that name.
        NotFoundError
            There is no such tag or snapshot.
        InvalidInputError
            The name is not allowed for a branch, or both a tag and a snapshot are given.
        """
        if if_exists not in {"error", "ignore"}:
            shown = shortened(str(if_exists))
            message = f"if_exists='{shown}' is unknown: use 'error' or 'ignore'."
            raise InvalidInputError(message, kind="bad_argument", argument="if_exists")
        if tag is not None and snapshot_id is not None:
            message = f"Say where branch '{name}' begins: a tag or a snapshot, not both."
            raise InvalidInputError(message, kind="bad_argument", argument="snapshot_id")
        handle = self._handle
        snapshot = None
        if snapshot_id is not None:
            snapshot = handle.time_travel.resolve(snapshot_id=snapshot_id)
        create_branch(
            handle, name, tag=tag, snapshot=snapshot, ignore_if_exists=if_exists == "ignore"
        )

    def rename(self, name: str, new_name: str) -> None:
        """Rename a branch. Objects that were opened under the old name stop working.

        Raises
        ------
        NotFoundError
            There is no such branch; the message offers near names.
        AlreadyExistsError
            There is a branch of the new name.
        InvalidInputError
            It is main, or the table's ``scan.fallback-branch``.
        UnsupportedError
            The server of a REST catalog keeps the branches: its API has no such call.
        """
        rename_branch(self._handle, name, new_name)

    def delete(self, name: str) -> None:
        """Delete a branch with its snapshots and tags.

        The data files that only the branch had become orphans, as in Paimon.

        Raises
        ------
        NotFoundError
            There is no such branch; the message offers near names.
        InvalidInputError
            It is main, or the table's ``scan.fallback-branch``.
        """
        delete_branch(self._handle, name)

    def fast_forward(self, name: str, *, dry_run: bool = False) -> FastForwarded:
        """Publish a branch: the table becomes what the branch is. This cannot be undone.

        What the table has since the branch began goes: snapshots, tags and schemas. Those of the
        branch take their place; the branch stays as it is. Data files that nothing needs any more
        become orphans. Stop writers of the table first: a commit meanwhile may be lost, or undo the
        publish. Objects that were opened before may have to be opened again. Where Java Paimon
        writes, delete the branch afterwards: its expiry looks at one branch alone.

        Parameters
        ----------
        name : str
            The branch.
        dry_run : bool
            Whether to report only what would be replaced.

        Returns
        -------
        FastForwarded
            ``snapshot_id``, ``removed_snapshot_ids``, ``removed_tags``.

        Raises
        ------
        NotFoundError
            There is no such branch.
        InvalidInputError
            It has no snapshot.
        UnsupportedError
            Its first snapshots have expired, and no tag of it tells where it began; or it is a dry
            run, and the server of a REST catalog decides.
        ConflictError
            Others commit to the table meanwhile, and have undone it: stop them and call it again.
        """
        handle = self._handle
        done = fast_forward(handle, name, dry_run=dry_run)
        if not dry_run and handle.paths.is_main:
            sync_quietly(renewed(handle).commit_context())
        return done

    def list(self) -> list[BranchInfo]:
        """The branches by name, with their newest snapshots."""
        handle = self._handle
        logs = {
            n: SnapshotLog(handle.fileio, handle.paths.of_branch(n)) for n in branch_names(handle)
        }
        return [BranchInfo(name, log.latest_id()) for name, log in logs.items()]
