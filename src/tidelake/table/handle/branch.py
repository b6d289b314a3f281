"""Opens a branch of a table: ``db.t$branch_<name>``.

A branch has its own schemas, snapshots, tags, changelogs and consumers, below the table's directory
(:class:`~tidelake.metadata.paths.TablePaths`). Opened, it is a table like any other. Source:
``switchToBranch`` of Paimon's ``AbstractFileStoreTable`` (1.3.1, 2.1).
"""

from __future__ import annotations

from dataclasses import replace

from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    near_names,
    shortened,
)
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.paths import BRANCH_DIRECTORY, BRANCH_PREFIX, MAIN_BRANCH, TablePaths
from tidelake.options import Options, declared
from tidelake.table.handle.handle import TableHandle

BRANCH_OPTION = "branch"
NAME_PREFIX = "branch_"
"""Of the part of a name after ``$`` that names a branch."""


def on_branch(handle: TableHandle, branch: str) -> TableHandle:
    """A branch of a table, with its newest schema; options of the use before are dropped.

    Parameters
    ----------
    handle : TableHandle
        The table, on any of its branches.
    branch : str
        ``"main"`` is the table itself.

    Raises
    ------
    NotFoundError
        There is no such branch; the message offers near names.
    InvalidInputError
        It is no name of a branch.
    """
    if branch == handle.paths.branch:
        return handle
    if branch != MAIN_BRANCH:
        validate_name(branch, "branch")
    return _opened(handle, branch)


def renewed(handle: TableHandle) -> TableHandle:
    """The same branch, with its newest schema, which need not follow the one that was opened.

    Raises
    ------
    NotFoundError
        It is gone.
    """
    return _opened(handle, handle.paths.branch)


def _opened(handle: TableHandle, branch: str) -> TableHandle:
    served = handle.served
    if served is not None and branch != handle.paths.branch:
        try:
            served = served.on_branch(branch)
        except NotFoundError as error:
            raise no_branch(handle, branch) from error
    schema = SchemaLog(handle.fileio, handle.paths.of_branch(branch)).latest()
    if schema is None:
        raise no_branch(handle, branch)
    table = table_name(handle)
    identifier = table if branch == MAIN_BRANCH else f"{table}${NAME_PREFIX}{branch}"
    return replace(
        handle,
        identifier=identifier,
        paths=TablePaths.of(handle.paths.location, schema, branch=branch),
        schema=schema,
        options=Options.parse(schema.options, table=identifier),
        served=served,
    )


def table_name(handle: TableHandle) -> str:
    """The table's name, without its branch."""
    return handle.identifier.partition("$")[0]


def table_at_directory(path: str) -> tuple[str, str]:
    """Part the directory of a branch: into its table's, and what the branch adds to a name.

    Examples
    --------
    >>> table_at_directory("/wh/db.db/t/branch/branch-b"), table_at_directory("/wh/db.db/t")
    (('/wh/db.db/t', '$branch_b'), ('/wh/db.db/t', ''))
    """
    table, _, branch = path.rpartition(f"/{BRANCH_DIRECTORY}/{BRANCH_PREFIX}")
    return (table, f"${NAME_PREFIX}{branch}") if table and "/" not in branch else (path, "")


def branch_names(handle: TableHandle) -> list[str]:
    """Names of the branches beside main, sorted; also of one whose creation was interrupted."""
    if handle.served is not None:
        return handle.served.branches()
    return sorted(
        status.name.removeprefix(BRANCH_PREFIX)
        for status in handle.fileio.list_dir(handle.paths.branch_dir)
        if status.is_dir and status.name.startswith(BRANCH_PREFIX)
    )


def no_branch(handle: TableHandle, branch: str) -> NotFoundError:
    """Make the error for a branch that is not there."""
    known = branch_names(handle)
    table = table_name(handle)
    if branch in known:
        message = (
            f"Branch '{branch}' of table '{table}' has no schema: it is being created, or that was"
            f" interrupted. Delete it with table.branches.delete('{branch}')."
        )
        return NotFoundError(message, kind="branch_not_found", table=table, branch=branch)
    listed = f" Its branches are: {shortened(', '.join(known))}." if known else " It has none."
    message = (
        f"Table '{table}' has no branch '{shortened(branch)}'.{near_names(branch, known)}{listed}"
    )
    return NotFoundError(message, kind="branch_not_found", table=table, branch=branch)


def other_branch_name(options: Options, *, table: str) -> tuple[str, bool] | None:
    """The other branch, and whether it comes first; None if the options name none.

    Raises
    ------
    InvalidInputError
        They name two.
    """
    fallback = options.get(declared.SCAN_FALLBACK_BRANCH)
    primary = options.get(declared.SCAN_PRIMARY_BRANCH)
    if fallback and primary:
        message = (
            f"Table '{table}': options 'scan.fallback-branch' and 'scan.primary-branch' are both"
            " set: unset one of them."
        )
        raise InvalidInputError(message, kind="fallback_branch", table=table)
    return (primary, True) if primary else (fallback, False) if fallback else None


def check_other_branch(handle: TableHandle, options: Options) -> None:
    """Refuse options to be stored with a table that name a branch it does not have.

    Raises
    ------
    NotFoundError
        There is no such branch.
    InvalidInputError
        Two branches are named.
    """
    named = other_branch_name(options, table=handle.identifier)
    if named is not None and named[0] != handle.paths.branch:
        on_branch(handle, named[0])


def with_branch_named(identifier: str) -> tuple[str, str]:
    """Split a name into the table with its branch, and the system table's name or ``""``.

    Examples
    --------
    >>> with_branch_named("db.t$branch_b$files"), with_branch_named("db.t$branch_b")
    (('db.t$branch_b', 'files'), ('db.t$branch_b', ''))
    >>> with_branch_named("db.t$files"), with_branch_named("db.t")
    (('db.t', 'files'), ('db.t', ''))
    """
    table, _, rest = identifier.partition("$")
    if not rest.startswith(NAME_PREFIX):
        return table, rest
    branch, _, system = rest.partition("$")
    return f"{table}${branch}", system
