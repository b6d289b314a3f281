"""Makes main what a branch is: snapshots, tags and schemas of the branch take the place of main's.

1. What main has from the branch's first snapshot on is replaced. If the branch's first snapshots
   have expired, that is all after the snapshot at which the branch began, which a tag of the branch
   tells; older snapshots of main then go too, for ids have no gap. Tags of main from before the
   branch began stay, and tags of a snapshot that the branch has. Where that takes the last
   tag of a third branch's start, the branch gets a tag of the newest state that main and the
   published branch share: by it Java's expiry keeps the files that the third one needs of main.
2. Schemas and tags of the branch are put, then its snapshots, the newest first: whoever reads main
   meanwhile has a state of main's or the branch's. Last go the schemas that only main had. Where
   both have a schema of one id, main's go first and the branch's come last: whoever reads main in
   between has an error, and no rows by the columns of the other side.
3. While the branch's snapshots are put, main's newest on the chain may be an older one, and a
   commit of others may take an id of the branch's. So main is compared until nothing is left to put
   or to remove, and its newest snapshot once more at the end. A commit that names the branch's
   newest snapshot as its base stays.
4. All steps run in directories that were opened before the table was found to be the opened one,
   as in a rollback (:mod:`tidelake.table.jobs.rollback`). An object store has none: there the table
   is checked again before each phase.
5. Data files of what is replaced stay as orphans, as after a rollback. The branch stays as it is.

A process that dies leaves main with a part of the branch's snapshots; calling it again ends it.
Writers of main should be stopped: a commit meanwhile may be replaced. Source: ``fastForward`` of
Paimon's ``FileSystemBranchManager`` (1.3.1, 2.1), which first deletes and then copies, and keeps
snapshots of main that the branch does not follow.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass

from tidelake.commit.tags import BranchStarts, tell_created, tell_deleted
from tidelake.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from tidelake.fileio import OpenDirectory
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.chain import follows, names_base
from tidelake.metadata.log.schema_log import dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import Tag
from tidelake.metadata.paths import MAIN_BRANCH, numbered
from tidelake.table.handle.branch import on_branch, table_name
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.managed_table import ManagedTable
from tidelake.table.jobs.branching import PIN_PREFIX
from tidelake.table.jobs.rollback import ROUNDS_MAX, later_ids, remove_changelogs
from tidelake.types import TableSchema


@dataclass(frozen=True, slots=True)
class FastForwarded:
    """The result of a fast-forward.

    Parameters
    ----------
    snapshot_id : int
        The newest snapshot now.
    removed_snapshot_ids : tuple of int
        Snapshots of main that were replaced or removed, ascending.
    removed_tags : tuple of str
        Tags of main that were replaced or removed, sorted.
    """

    snapshot_id: int
    removed_snapshot_ids: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What changes in main.

    Parameters
    ----------
    snapshots : dict of int to bytes
        Files of the branch's snapshots, by id.
    kept_ids : tuple of int
        Snapshots of main that stay, and are not the branch's.
    gone_ids : tuple of int
        Snapshots of main that are not the branch's.
    gone_tags : tuple of str
        Tags of main that are not the branch's.
    tags : dict of str to bytes
        Files of the branch's tags that main gets.
    first_other_schema : int or None
        The first schema that both have, and that is not the same in both.
    cut : int
        The last id of main's that stays.
    """

    snapshots: dict[int, bytes]
    kept_ids: tuple[int, ...]
    gone_ids: tuple[int, ...]
    gone_tags: tuple[str, ...]
    tags: dict[str, bytes]
    schemas: dict[int, bytes]
    first_other_schema: int | None
    cut: int

    @property
    def newest_id(self) -> int:
        """The branch's newest snapshot."""
        return max(self.snapshots)


def fast_forward(handle: TableHandle, name: str, *, dry_run: bool = False) -> FastForwarded:
    """Make main what a branch is.

    Parameters
    ----------
    dry_run : bool
        Whether to report only what would be replaced.

    Raises
    ------
    NotFoundError
        There is no such branch.
    InvalidInputError
        It has no snapshot, or it is the branch that is to become like it.
    UnsupportedError
        Its first snapshots have expired, and no tag of it tells where it began.
    ConflictError
        Others commit to main faster than it is made what the branch is, or have undone it.
    """
    if name in {handle.paths.branch, MAIN_BRANCH}:
        message = (
            f"Branch '{name}' of table '{table_name(handle)}' is fast-forwarded to another one:"
            " name the branch that has the new rows, on the table that gets them."
        )
        raise InvalidInputError(message, kind="fast_forward", branch=name)
    branch = on_branch(handle, validate_name(name, "branch"))
    ids = branch.snapshots.ids()
    if not ids:
        message = (
            f"Branch '{name}' of table '{table_name(handle)}' has no snapshot: write to it first."
        )
        raise InvalidInputError(message, kind="fast_forward", branch=name)
    if handle.served is not None:
        return _forwarded_by_server(handle, handle.served, name, dry_run=dry_run)
    if dry_run:
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        plan = _plan(handle, branch, ids)
        return FastForwarded(plan.newest_id, plan.gone_ids, plan.gone_tags)
    with handle.guard(), ExitStack() as held:
        places = _opened(handle, held)
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        plan = _plan(handle, branch, ids)
        root = handle.schemas.load(min(handle.schemas.ids()))
        return _Step(handle, plan, root, *places).run()


def _forwarded_by_server(
    handle: TableHandle, served: ManagedTable, name: str, *, dry_run: bool
) -> FastForwarded:
    """Let a catalog's server do it, and see what it replaced.

    Raises
    ------
    UnsupportedError
        It is a dry run: what goes is the server's business.
    """
    if dry_run:
        message = (
            f"Table '{table_name(handle)}' is fast-forwarded by the catalog's server, which decides"
            " what goes: leave out the dry run."
        )
        raise UnsupportedError(message, kind="fast_forward_dry_run", table=table_name(handle))
    before, tags = _states(handle)
    served.fast_forward(name)
    after, tags_after = _states(handle)
    return FastForwarded(
        max(after),
        tuple(sorted(i for i, state in before.items() if after.get(i) != state)),
        tuple(sorted(tag for tag, state in tags.items() if tags_after.get(tag) != state)),
    )


def _states(handle: TableHandle) -> tuple[dict[int, object], dict[str, object]]:
    """What snapshots and tags there are, by something that tells one from another of its name."""
    ids: dict[int, object] = {}
    names: dict[str, object] = {}
    for number in _own_ids(handle):
        with suppress(NotFoundError):  # it expired meanwhile
            ids[number] = handle.snapshots.load(number).state_key
    for name in handle.tags.names():
        with suppress(NotFoundError):
            names[name] = handle.tags.load(name).snapshot.state_key
    return ids, names


def _opened(
    handle: TableHandle, held: ExitStack
) -> tuple[OpenDirectory, OpenDirectory, OpenDirectory]:
    """The directories of schemas, snapshots and tags."""
    paths, open_dir = handle.paths, handle.fileio.open_dir
    try:
        return (
            held.enter_context(open_dir(paths.schema_dir)),
            held.enter_context(open_dir(paths.snapshot_dir, make=True)),
            held.enter_context(open_dir(paths.tag_dir, make=True)),
        )
    except NotFoundError as error:
        raise dropped(handle.identifier) from error


def _plan(handle: TableHandle, branch: TableHandle, ids: list[int]) -> _Plan:
    read = branch.fileio.read_bytes
    snapshots = {number: read(branch.paths.snapshot(number)) for number in ids}
    tags = {tag: read(branch.paths.tag(tag)) for tag in branch.tags.names()}
    schemas = {number: read(branch.paths.schema(number)) for number in branch.schemas.ids()}
    first = branch.snapshots.load(ids[0])
    own_tags = {tag: handle.tags.load(tag).snapshot for tag in handle.tags.names()}
    found_ids = _own_ids(handle)
    own_ids = [i for i in found_ids if not _is_equal(handle, i, snapshots.get(i))]
    cut = _cut(handle, branch, first, own_tags)
    keeps_older = cut == first.id - 1 or not any(i < first.id for i in own_ids)
    gone_ids = [i for i in own_ids if i > cut or not keeps_older]
    starts = BranchStarts(
        handle.fileio, handle.paths, handle.manifests, without=branch.paths.branch
    )
    gone_tags, lost = [], list[str]()
    for tag, snapshot in own_tags.items():
        if snapshot.id <= cut:
            tags.pop(tag, None)  # main's own, from before the branch began
        elif tag in tags:
            if tags[tag] != read(handle.paths.tag(tag)):
                gone_tags.append(tag)
        elif not _has_snapshot(branch, snapshot):
            gone_tags.append(tag)
    for tag in gone_tags:
        lost += starts.needing(tag)
        starts.removed(tag)
    parted = _parted(branch, first, own_tags)
    if parted is not None:
        pins = [Tag(f"{PIN_PREFIX}{one}", parted) for one in lost if one != MAIN_BRANCH]
        tags |= {pin.name: pin.to_json().encode() for pin in pins}
    return _Plan(
        snapshots=snapshots,
        kept_ids=tuple(i for i in found_ids if i not in gone_ids and i not in snapshots),
        gone_ids=tuple(gone_ids),
        gone_tags=tuple(sorted(gone_tags)),
        tags=tags,
        schemas=schemas,
        first_other_schema=_first_other_schema(handle, branch, schemas),
        cut=cut,
    )


def _parted(branch: TableHandle, first: Snapshot, own_tags: dict[str, Snapshot]) -> Snapshot | None:
    """The newest state that a tag tells to be main's and the branch's; None if none does."""
    own = set(branch.snapshots.ids())
    found = [
        snapshot
        for snapshot in own_tags.values()
        if snapshot.id <= first.id or snapshot.id in own
        if _has_snapshot(branch, snapshot)
    ]
    return max(found, key=lambda snapshot: snapshot.id, default=None)


def _has_snapshot(branch: TableHandle, snapshot: Snapshot) -> bool:
    """Whether a branch has a snapshot, or a tag of it."""
    found = branch.snapshots.find(snapshot.id)
    if found is not None and _is_same(found, snapshot):
        return True
    return any(_is_same(branch.tags.load(tag).snapshot, snapshot) for tag in branch.tags.names())


def _own_ids(handle: TableHandle) -> list[int]:
    """Ids of main's snapshots; with a gap where a call that died left one."""
    try:
        return handle.snapshots.ids()
    except CorruptError:
        names = [status.name for status in handle.fileio.list_dir(handle.paths.snapshot_dir)]
        found = {i for name in names if (i := numbered(name, "snapshot-")) is not None}
        return sorted(found - set(handle.snapshots.left_behind()))


def _first_other_schema(
    handle: TableHandle, branch: TableHandle, schemas: dict[int, bytes]
) -> int | None:
    ids = handle.schemas.ids()
    read, path_of = handle.fileio.read_bytes, handle.paths.schema
    other = [i for i in ids if i in schemas and read(path_of(i)) != schemas[i]]
    if other and other[0] == ids[0]:
        message = (
            f"Branch '{branch.paths.branch}' is of another table than '{table_name(handle)}', for"
            " their first schemas differ: one of the name was dropped. Delete the branch."
        )
        raise InvalidInputError(message, kind="fast_forward", branch=branch.paths.branch)
    return other[0] if other else None


def _is_equal(handle: TableHandle, snapshot_id: int, data: bytes | None) -> bool:
    if data is None:
        return False
    try:
        return handle.fileio.read_bytes(handle.paths.snapshot(snapshot_id)) == data
    except NotFoundError:
        return False


def _cut(
    handle: TableHandle, branch: TableHandle, first: Snapshot, own_tags: dict[str, Snapshot]
) -> int:
    """The last id of main's that stays: the branch goes on from there."""
    own = {i: handle.snapshots.load(i) for i in _own_ids(handle) if i <= first.id}
    known = [*own.values(), *own_tags.values()]
    before = own.get(first.id - 1)
    # of a call that died main may have the branch's first snapshot behind what it does not follow
    is_joined = min(own, default=first.id) == first.id if before is None else follows(first, before)
    if first.id == 1 or (is_joined and any(_is_same(one, first) for one in known)):
        return first.id - 1
    if before is not None and names_it(first, before):
        return first.id - 1
    if not any(one.id < first.id for one in known):
        return first.id - 1
    starts = [branch.tags.load(tag).snapshot for tag in branch.tags.names()]
    shared = [one.id for one in starts if any(_is_same(one, other) for other in known)]
    older = [number for number in shared if number < first.id]
    if not older:
        message = (
            f"Branch '{branch.paths.branch}' of table '{table_name(handle)}' begins at snapshot"
            f" {first.id}, older ones have expired or were replaced in main, and no older tag is of"
            " both: so it cannot be told which snapshots of main stay. Overwrite main with the"
            " branch's rows."
        )
        raise UnsupportedError(message, kind="fast_forward", branch=branch.paths.branch)
    return max(older)


def names_it(snapshot: Snapshot, before: Snapshot) -> bool:
    """Whether a snapshot says that it follows another one."""
    return bool(snapshot.properties) and follows(snapshot, before)


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return one.state_key == other.state_key


@dataclass(slots=True)
class _Step:
    """Puts a plan into effect.

    Parameters
    ----------
    root : TableSchema
        Main's first schema, which stays: it tells whether the table is still the same.
    """

    handle: TableHandle
    plan: _Plan
    root: TableSchema
    schema_place: OpenDirectory
    snapshot_place: OpenDirectory
    tag_place: OpenDirectory

    def run(self) -> FastForwarded:
        """Make main what the branch is."""
        try:
            removed = self._run()
        except NotFoundError:
            self._check_same()  # a directory that is gone: the table was dropped
            raise
        return FastForwarded(self.plan.newest_id, removed, self.plan.gone_tags)

    def _run(self) -> tuple[int, ...]:
        plan, table = self.plan, self.handle.identifier
        remove_changelogs(self.handle, plan.cut)
        self._check_same()
        if plan.first_other_schema is None:
            self._put_schemas()
        else:
            self._remove_schemas(plan.first_other_schema)
        self._check_same()
        self._put_tags()
        removed = {*plan.gone_ids, *self._put_snapshots()}
        self._check_same()
        self._remove_older()
        self._write_hints()
        self._check_same()
        self._put_schemas()
        self._remove_schemas(max(plan.schemas) + 1)
        self._check_same()
        if not self._has(plan.newest_id):
            message = (
                f"A commit beside it has undone the fast-forward of table '{table}': stop the"
                " table's writers and call it again."
            )
            raise ConflictError(message, kind="fast_forward_race", table=table)
        return tuple(sorted(removed))

    def _check_same(self) -> None:
        self.handle.schemas.check_same(self.root, table=self.handle.identifier)

    def _has(self, snapshot_id: int) -> bool:
        return _is_equal(self.handle, snapshot_id, self.plan.snapshots[snapshot_id])

    def _put_schemas(self) -> None:
        for number, data in sorted(self.plan.schemas.items()):
            _put(self.handle, self.handle.paths.schema(number), data, within=self.schema_place)

    def _remove_schemas(self, first_id: int) -> None:
        for number in sorted(self.handle.schemas.ids(), reverse=True):
            if number >= first_id:
                path = self.handle.paths.schema(number)
                self.handle.fileio.delete(path, within=self.schema_place, reused=True)

    def _put_tags(self) -> None:
        fileio, paths, plan = self.handle.fileio, self.handle.paths, self.plan
        for tag in plan.gone_tags:
            if tag not in plan.tags:
                fileio.delete(paths.tag(tag), within=self.tag_place, reused=True)
                tell_deleted(self.handle, tag)
        for tag, data in plan.tags.items():
            _put(self.handle, paths.tag(tag), data, within=self.tag_place)
            tell_created(self.handle, tag)

    def _put_snapshots(self) -> set[int]:
        """Put the branch's snapshots and remove later ones, until others put none between them."""
        handle, plan, place = self.handle, self.plan, self.snapshot_place
        removed: set[int] = set()
        for tries in range(ROUNDS_MAX):
            later = self._later(keeps_following=tries > 0)
            lacking = [number for number in plan.snapshots if not self._has(number)]
            if tries and not later and not lacking:
                return removed
            self._check_same()
            handle.fileio.delete(handle.paths.latest_hint, within=place)
            for number in reversed(later):
                handle.fileio.delete(handle.paths.snapshot(number), within=place, reused=True)
            for number in sorted(lacking, reverse=True):
                path = handle.paths.snapshot(number)
                handle.fileio.replace(path, plan.snapshots[number], within=place)
            removed.update(later)
        message = (
            f"Others commit to table '{handle.identifier}' faster than a branch's snapshots are put"
            " into it: stop them and call it again."
        )
        raise ConflictError(message, kind="fast_forward_race", table=handle.identifier)

    def _later(self, *, keeps_following: bool) -> list[int]:
        """Main's snapshots behind the branch's newest, but for those that were built on it."""
        handle, newest_id = self.handle, self.plan.newest_id
        found = list(later_ids(handle, newest_id, max([newest_id, *self.plan.gone_ids])))
        if not keeps_following or not self._has(newest_id):
            return found
        before: Snapshot | None = handle.snapshots.find(newest_id)
        while found and before is not None and found[0] == before.id + 1:
            after = handle.snapshots.find(found[0])
            if after is None or not names_base(after) or not follows(after, before):
                break
            before = after
            del found[0]
        return found

    def _remove_older(self) -> None:
        """Remove main's snapshots from before the branch's first that do not stay."""
        for number in self.plan.gone_ids:
            if number < min(self.plan.snapshots):
                path = self.handle.paths.snapshot(number)
                self.handle.fileio.delete(path, within=self.snapshot_place, reused=True)

    def _write_hints(self) -> None:
        fileio, paths, plan = self.handle.fileio, self.handle.paths, self.plan
        place = self.snapshot_place
        known = sorted({*plan.kept_ids, *plan.snapshots})
        there = (i for i in known if fileio.exists(paths.snapshot(i), within=place))
        oldest = next(there, plan.newest_id)
        fileio.replace(paths.earliest_hint, str(oldest).encode(), within=place)
        fileio.replace(paths.latest_hint, str(plan.newest_id).encode(), within=place)


def _put(handle: TableHandle, path: str, data: bytes, *, within: OpenDirectory) -> None:
    """Write a file unless it is there with this content."""
    try:
        if handle.fileio.read_bytes(path) == data:
            return
    except NotFoundError:
        pass
    handle.fileio.replace(path, data, within=within)
