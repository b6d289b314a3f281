"""Creates, renames and deletes branches.

A branch is a directory of metadata. It begins empty, or at a snapshot of another branch:

1. The source snapshot needs a tag, for Java's expiry keeps the files of a branch only by the tag
   that it was created from. A branch from a snapshot takes one that stays by itself, so none with a
   time to live; or it gets one, ``tidelake-branch-<name>``.
2. The snapshot's file and the tag's are copied; from then on an expiry of ours keeps the files.
   Then the source is looked at again: if its snapshot and its tags are gone, an expiry may have
   been ahead, and the branch is given up.
3. Last come the schemas up to the snapshot's, the lowest first. It decides between two creators,
   and with it readers see the branch.

Where a catalog's server decides the snapshots, it creates and deletes branches; the tag is made and
deleted here. A creation that dies leaves a directory, which is refused as a taken name until it is
deleted.
Deleting a branch removes its metadata: first its schemas, so that nobody opens it, its tags last,
for they tell which tag was made for it. So a deletion that dies is ended by another one. The data
files that only it had become orphans, as in Paimon. Source: Paimon's ``FileSystemBranchManager``
(1.3.1, 2.1).
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace

from tidelake.commit.tags import BranchStarts, delete_tag_and_files
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import put_new
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import TagLog
from tidelake.metadata.paths import MAIN_BRANCH, TablePaths
from tidelake.options import declared
from tidelake.table.handle.branch import (
    branch_names,
    no_branch,
    on_branch,
    table_name,
)
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.managed_table import ManagedTable

PIN_PREFIX = "tidelake-branch-"
"""Prefix of the tag that a branch from a snapshot gets (on disk: never rename)."""
REFUSALS = (NotFoundError, InvalidInputError, UnsupportedError, StorageRefusedError)
"""What a catalog's server refuses with; nothing was created then."""


def create_branch(
    handle: TableHandle,
    name: str,
    *,
    tag: str | None,
    snapshot: Snapshot | None,
    ignore_if_exists: bool,
) -> None:
    """Create a branch.

    Parameters
    ----------
    tag : str, optional
        The tag to begin at.
    snapshot : Snapshot, optional
        The snapshot to begin at; without both the branch is empty.

    Raises
    ------
    AlreadyExistsError
        There is a branch of that name.
    NotFoundError
        There is no such tag; or the snapshot expired meanwhile, and nothing was created.
    """
    validate_name(name, "branch")
    target = handle.paths.of_branch(name)
    if name in branch_names(handle):
        is_served = handle.served is not None
        is_whole = is_served or SchemaLog(handle.fileio, target).latest_id() is not None
        if ignore_if_exists and is_whole:
            return
        raise _taken(handle, name, is_whole=is_whole)
    handle.schemas.check_same(handle.schema, table=handle.identifier)
    newest = handle.schemas.latest_id()
    if tag is not None:
        handle.time_travel.by_tag(tag)  # refuses an unknown tag with near names
        snapshot = handle.tags.load(tag).snapshot
    if handle.served is not None:
        _create_by_server(handle, handle.served, name, tag=tag, snapshot=snapshot)
        return
    if snapshot is None:
        _copy_schemas(handle, target, name, newest_id=newest)
        return
    is_new = False
    if tag is None:
        tag, is_new = _lasting_tag(handle, snapshot, name)
    try:
        _copy_start(handle, target, tag, snapshot, name)
        _copy_schemas(handle, target, name, newest_id=snapshot.schema_id)
    except NotFoundError:  # it was given up
        if is_new:
            with suppress(NotFoundError):
                handle.tags.delete(tag)
        raise


def _create_by_server(
    handle: TableHandle,
    served: ManagedTable,
    name: str,
    *,
    tag: str | None,
    snapshot: Snapshot | None,
) -> None:
    is_new = False
    if tag is None and snapshot is not None:
        tag, is_new = _lasting_tag(handle, snapshot, name)
    try:
        served.create_branch(name, tag=tag)
    except AlreadyExistsError as error:
        raise _taken(handle, name, is_whole=True) from error
    except REFUSALS:
        if is_new and tag is not None:
            with suppress(NotFoundError):
                handle.tags.delete(tag)
        raise


def _lasting_tag(handle: TableHandle, snapshot: Snapshot, branch: str) -> tuple[str, bool]:
    """A tag of a snapshot that stays by itself, and whether it was made for this."""
    for name in handle.tags.names():
        with suppress(NotFoundError):  # deleted meanwhile
            tag = handle.tags.load(name)
            if tag.is_lasting and tag.snapshot.state_key == snapshot.state_key:
                return name, False
    name = _new_pin(handle, snapshot, branch)
    if not (handle.snapshots.has(snapshot.id) or _is_tagged(handle, snapshot, besides=name)):
        handle.tags.delete(name)
        raise _expired(handle, snapshot, branch)
    return name, True


def _new_pin(handle: TableHandle, snapshot: Snapshot, branch: str) -> str:
    """Make a tag for a branch. Its name may be taken: by that of a branch that was renamed."""
    for number in itertools.count(1):
        name = f"{PIN_PREFIX}{branch}" if number == 1 else f"{PIN_PREFIX}{branch}-{number}"
        with suppress(AlreadyExistsError):
            handle.tags.create(name, snapshot)
            return name
    raise AssertionError("numbers do not end")


def _is_tagged(handle: TableHandle, snapshot: Snapshot, *, besides: str = "") -> bool:
    for name in handle.tags.names():
        with suppress(NotFoundError):  # deleted meanwhile
            is_same = handle.tags.load(name).snapshot.state_key == snapshot.state_key
            if is_same and name != besides:
                return True
    return False


def _copy_start(
    handle: TableHandle, target: TablePaths, tag: str, snapshot: Snapshot, name: str
) -> None:
    """Copy the tag and its snapshot, and make sure that nothing has removed their files."""
    fileio = handle.fileio
    tag_data = fileio.read_bytes(handle.paths.tag(tag))
    try:
        data = fileio.read_bytes(handle.paths.snapshot(snapshot.id))
        found = Snapshot.from_json(data, path=handle.paths.snapshot(snapshot.id))
        if found.state_key != snapshot.state_key:
            data = snapshot.to_json().encode()  # of a history that was rolled back
    except NotFoundError:  # it has expired, and the tag is what is left: not its changelog
        start = replace(
            snapshot, changelog_manifest_list=None, changelog_manifest_list_size_bytes=None
        )
        data = start.to_json().encode()
    if not put_new(fileio, target.snapshot(snapshot.id), data):
        raise _taken(handle, name, is_whole=True)
    put_new(fileio, target.tag(tag), tag_data)
    if not (handle.snapshots.has(snapshot.id) or _is_tagged(handle, snapshot)):
        fileio.delete_dir(target.log_dir)
        raise _expired(handle, snapshot, name)


def _copy_schemas(
    handle: TableHandle, target: TablePaths, name: str, *, newest_id: int | None
) -> None:
    fileio = handle.fileio
    ids = [i for i in handle.schemas.ids() if newest_id is None or i <= newest_id]
    contents = [(i, fileio.read_bytes(handle.paths.schema(i))) for i in ids]
    for number, (schema_id, data) in enumerate(contents):
        if not put_new(fileio, target.schema(schema_id), data) and number == 0:
            raise _taken(handle, name, is_whole=True)
    try:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
    except NotFoundError:
        if not fileio.holds_directories:
            fileio.delete_dir(target.log_dir)  # the path is another table's by now
        raise


def rename_branch(handle: TableHandle, name: str, new_name: str) -> None:
    """Rename a branch: its directory moves.

    Raises
    ------
    NotFoundError
        There is no such branch.
    AlreadyExistsError
        There is a branch of the new name.
    InvalidInputError
        It is main, or the table reads what it lacks from the branch.
    UnsupportedError
        A catalog's server keeps the branches.
    """
    _check_may_go(handle, name, "renamed")
    validate_name(new_name, "branch")
    if handle.served is not None:
        message = (
            f"Branch '{name}' of table '{table_name(handle)}' cannot be renamed: Paimon's REST API"
            f" has no call for it. Make a tag of its newest snapshot, create branch '{new_name}'"
            " from that, and delete the old one."
        )
        raise UnsupportedError(message, kind="rename_branch", table=table_name(handle))
    paths = handle.paths
    if new_name in branch_names(handle):
        raise _taken(handle, new_name, is_whole=True)
    try:
        handle.fileio.move_dir(paths.of_branch(name).log_dir, paths.of_branch(new_name).log_dir)
    except AlreadyExistsError as error:
        raise _taken(handle, new_name, is_whole=True) from error
    except NotFoundError as error:
        raise no_branch(handle, name) from error


def delete_branch(handle: TableHandle, name: str) -> None:
    """Delete a branch's metadata, and the tag that was made for it.

    Raises
    ------
    NotFoundError
        There is no such branch; the message offers near names.
    InvalidInputError
        It is main, or the table reads what it lacks from the branch.
    """
    _check_may_go(handle, name, "deleted")
    fileio, paths = handle.fileio, handle.paths.of_branch(name)
    main = on_branch(handle, MAIN_BRANCH)
    if handle.served is None:
        for directory in (paths.schema_dir, paths.snapshot_dir, paths.changelog_dir):
            fileio.delete_dir(directory)
    pins = {tag for tag in TagLog(fileio, paths).names() if tag.startswith(PIN_PREFIX)}
    pins.add(f"{PIN_PREFIX}{name}")  # a creation that died may not have copied it
    if handle.served is not None:
        try:
            handle.served.delete_branch(name)  # with all its files; one that dies here leaves a tag
        except NotFoundError as error:
            raise no_branch(handle, name) from error
    starts = BranchStarts(fileio, main.paths, main.manifests, without=name)
    for pin in sorted(pins & set(main.tags.names())):
        if not starts.needing(pin):
            with suppress(NotFoundError):  # another one deletes the branch too
                delete_tag_and_files(main.commit_context(), pin, without_branch=name)
    if handle.served is None:
        fileio.delete_dir(paths.log_dir)


def check_tag_may_go(handle: TableHandle, tag: str) -> None:
    """Refuse to remove the last lasting tag of a snapshot that a branch began at.

    Raises
    ------
    InvalidInputError
        A branch needs it.
    """
    starts = BranchStarts(handle.fileio, handle.paths, handle.manifests)
    needing = [name for name in starts.needing(tag) if name != MAIN_BRANCH]
    if needing:
        shown = ", ".join(f"'{name}'" for name in needing)
        message = (
            f"Tag '{tag}' of table '{handle.identifier}' stays: branch {shown} began at its"
            " snapshot, and Java Paimon keeps the branch's files by this tag alone. Delete the"
            f" branch first, or make another tag of snapshot {handle.tags.load(tag).snapshot.id}"
            " without a time to live."
        )
        raise InvalidInputError(message, kind="tag_of_branch", table=handle.identifier, tag=tag)


def _check_may_go(handle: TableHandle, name: str, done: str) -> None:
    table = table_name(handle)
    if name == MAIN_BRANCH:
        message = f"The main branch of table '{table}' is the table itself and cannot be {done}."
        raise InvalidInputError(message, kind="main_branch", table=table)
    validate_name(name, "branch")
    if name not in branch_names(handle):
        raise no_branch(handle, name)
    main = on_branch(handle, MAIN_BRANCH)
    for option in (declared.SCAN_FALLBACK_BRANCH, declared.SCAN_PRIMARY_BRANCH):
        if main.options.get(option) == name:
            message = (
                f"Branch '{name}' of table '{table}' cannot be {done}: it is the table's"
                f" '{option.key}'. Reset that option first."
            )
            raise InvalidInputError(message, kind="fallback_branch", table=table, branch=name)


def _taken(handle: TableHandle, name: str, *, is_whole: bool) -> AlreadyExistsError:
    table = table_name(handle)
    if is_whole:
        message = f"Branch '{name}' of table '{table}' exists: choose another name, or delete it."
    else:
        message = (
            f"Branch '{name}' of table '{table}' is being created, or that was interrupted: wait,"
            f" or delete it with table.branches.delete('{name}')."
        )
    return AlreadyExistsError(message, kind="branch_exists", table=table, branch=name)


def _expired(handle: TableHandle, snapshot: Snapshot, name: str) -> NotFoundError:
    message = (
        f"Snapshot {snapshot.id} of table '{handle.identifier}' expired while branch '{name}' was"
        " created from it; nothing was created. Take a newer one."
    )
    return NotFoundError(message, kind="snapshot_not_found", table=handle.identifier)
