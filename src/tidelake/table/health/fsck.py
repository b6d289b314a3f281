"""Checks the files of a table: whether each version can be read as it was written.

1. Schemas, hints, snapshots and tags are read.
2. Of each snapshot and tag, what it names is read and compared: manifest lists, manifests, the live
   files, the number of rows, index manifests, changelogs, statistics. Nothing comes from a cache.
3. Directories of what is named are listed once. A file that is not there, or has another length
   than its manifest says, is a problem of all versions that name it.
4. Above level 0, the files of a bucket on a level must not share keys, at the newest snapshot.
5. Deletion vectors are read. With `data`, so are all rows: checksums, counts, keys in order and
   unique, sequence numbers, deletes; and the indexes of files.

A table of Java's is checked by the same rules. A problem never ends the check: what depends on a
damaged file is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidelake.errors import TidelakeError
from tidelake.fileio import FileStatus
from tidelake.format.compacted import slice_of
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange, deletion_ranges, read_deletions
from tidelake.metadata.index.hash_index import read_hash_index
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import HASH
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.statistics import read_statistics
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.snapshot_entries import changelog_entries, live_entries
from tidelake.metadata.paths import numbered
from tidelake.scan import ReadContext, Split, file_sections, grouped
from tidelake.table.handle.handle import TableHandle
from tidelake.table.health.data_check import check_file_index, wrong_rows
from tidelake.table.health.problem import NOT_THERE, FileProblem, FilesReport

SNAPSHOT, CHANGELOG = "snapshot-", "changelog-"


@dataclass(frozen=True, slots=True)
class _Named:
    """A file that versions name."""

    kind: str
    size_bytes: int | None
    owners: list[object]


@dataclass(slots=True)
class _Check:
    """One check: what was found so far."""

    handle: TableHandle
    problems: dict[tuple[str, str, str], list[object]] = field(default_factory=dict)
    named: dict[str, _Named] = field(default_factory=dict)
    files: dict[str, tuple[Split, DataFileMeta, list[object]]] = field(default_factory=dict)
    listed: dict[str, dict[str, FileStatus]] = field(default_factory=dict)

    def note(self, kind: str, path: str, what: str, *owners: object) -> None:
        """Note a problem of some versions: ids of snapshots, names of tags."""
        self.problems.setdefault((kind, path, what), []).extend(owners)

    @contextmanager
    def noting(self, kind: str, path: str, *owners: object) -> Iterator[None]:
        """Note an error as a problem of a file, and go on."""
        try:
            yield
        except TidelakeError as error:
            named = error.context.get("path", error.context.get("file", path))
            self.note(kind, str(named), error.message, *owners)

    def name(self, kind: str, path: str, size_bytes: int | None, owner: object) -> None:
        """Note that a version needs a file."""
        self.named.setdefault(path, _Named(kind, size_bytes, [])).owners.append(owner)

    def status(self, path: str) -> FileStatus | None:
        """A file by the listing of its directory."""
        directory, _, name = path.rpartition("/")
        if directory not in self.listed:
            self.listed[directory] = {}
            with self.noting("data_file", directory):
                found = self.handle.fileio.list_dir(directory)
                self.listed[directory] = {status.name: status for status in found}
        return self.listed[directory].get(name)


def check_files(handle: TableHandle, *, data: bool = False) -> FilesReport:
    """Check the files of a table; see :meth:`tidelake.Table.fsck`."""
    cache = ManifestCache(handle.env.memory.manifest_cache_bytes, reads=handle.env.reads.ranges)
    handle = replace(handle, manifests=cache)
    check = _Check(handle)
    _check_schemas(check)
    versions = list(_versions(check))
    context: ReadContext | None = None
    with check.noting("schema", handle.paths.schema_dir):
        context = handle.read_context()
    vectors: dict[tuple[str, int], tuple[DeletionRange, str, int, list[object]]] = {}
    for owner, snapshot in versions:
        _check_version(check, owner, snapshot, vectors, data=data)
    _check_named(check)
    for where, name, row_count, owners in vectors.values():
        with check.noting("index", where.path, *owners):
            read_deletions(handle.fileio, where, file_name=name, row_count=row_count)
    if data and context is not None:
        _check_data(check, context)
    _forget_expired(check)
    bad = {owner for owners in check.problems.values() for owner in owners}
    return FilesReport(
        handle.identifier,
        tuple(_problem(key, owners) for key, owners in check.problems.items()),
        len(versions),
        len(check.named),
        data,
        tuple(o for o, _ in versions if isinstance(o, int) and o not in bad),
    )


def _problem(key: tuple[str, str, str], owners: Iterable[object]) -> FileProblem:
    known = dict.fromkeys(owners)
    ids = sorted(o for o in known if isinstance(o, int))
    return FileProblem(*key, tuple(ids), tuple(sorted(o for o in known if isinstance(o, str))))


def _forget_expired(check: _Check) -> None:
    """Forget problems of versions that expired, or were deleted, while they were checked."""
    handle = check.handle
    changelogs = handle.fileio.list_dir(handle.paths.changelog_dir)
    there: set[object] = {f"changelog {numbered(s.name, CHANGELOG)}" for s in changelogs}
    there.update(handle.tags.names())
    owners = {owner for owners in check.problems.values() for owner in owners}
    there.update(n for n in owners if isinstance(n, int) and handle.snapshots.has(n))
    for key, named in list(check.problems.items()):
        kept = [owner for owner in named if owner in there]
        if named and not kept:
            del check.problems[key]
        else:
            check.problems[key] = kept


def _check_schemas(check: _Check) -> None:
    schemas = check.handle.schemas
    with check.noting("schema", check.handle.paths.schema_dir):
        for number in schemas.ids():
            path = check.handle.paths.schema(number)
            with check.noting("schema", path):
                schemas.load(number)


def _versions(check: _Check) -> Iterator[tuple[object, Snapshot]]:
    """The snapshots and tags that can be read, each with its id or name."""
    handle = check.handle
    paths, fileio, log = handle.paths, handle.fileio, handle.snapshots
    hints = [(path, _hint(check, path)) for path in (paths.latest_hint, paths.earliest_hint)]
    ids: list[int] = []
    with check.noting("snapshot", paths.snapshot_dir):
        listed = [numbered(status.name, SNAPSHOT) for status in fileio.list_dir(paths.snapshot_dir)]
        ids = sorted(number for number in listed if number is not None)
    with check.noting("snapshot", paths.snapshot_dir):
        ids = log.ids()
    for number in ids:
        with check.noting("snapshot", paths.snapshot(number), number):
            yield number, log.load(number)
    for path, text in hints:  # they were read before, so no commit is ahead of the list
        is_number = text is None or (text.isdigit() and int(text) > 0)
        if not is_number or (text is not None and ids and int(text) > ids[-1]):
            check.note("hint", path, f"{text!r} is no snapshot's id")
    with check.noting("changelog", paths.changelog_dir):
        kept = [numbered(s.name, CHANGELOG) for s in fileio.list_dir(paths.changelog_dir)]
        for number in sorted({n for n in kept if n is not None} - set(ids)):
            with check.noting("changelog", paths.changelog(number), f"changelog {number}"):
                _check_changelog(check, log.load_or_changelog(number), f"changelog {number}")
    names: list[str] = []
    with check.noting("tag", paths.tag_dir):
        names = handle.tags.names()
    for name in names:
        with check.noting("tag", paths.tag(name), name):
            yield name, handle.tags.load(name).snapshot


def _hint(check: _Check, path: str) -> bytes | None:
    """The text of a hint, which never decides: an old one is none; None for one that is missing."""
    with check.noting("hint", path):
        if check.handle.fileio.exists(path):
            return check.handle.fileio.read_bytes(path)[:64].strip()
    return None


def _check_version(
    check: _Check,
    owner: object,
    snapshot: Snapshot,
    vectors: dict[tuple[str, int], tuple[DeletionRange, str, int, list[object]]],
    *,
    data: bool,
) -> None:
    handle = check.handle
    fileio, paths, cache = handle.fileio, handle.paths, handle.manifests
    live: EntryTable | None = None
    with check.noting("manifest", paths.manifest(snapshot.base_manifest_list), owner):
        live = live_entries(fileio, paths, snapshot, cache)
    if live is not None:
        rows = int(live["row_count"].sum())
        if snapshot.total_record_count is not None and rows != snapshot.total_record_count:
            said = snapshot.total_record_count
            what = f"its files have {rows} rows, and it says {said}"
            check.note("totals", paths.snapshot(snapshot.id), what, owner)
        _name_files(check, owner, live)
        if isinstance(owner, int) and owner == handle.snapshots.latest_id():
            _check_levels(check, owner, live)
    if isinstance(owner, int):  # an expiry takes the changelog, also of a snapshot with a tag
        _check_changelog(check, snapshot, owner)
    if snapshot.index_manifest is not None:
        path = paths.manifest(snapshot.index_manifest)
        with check.noting("index", path, owner):
            entries = index_entries(fileio, paths, snapshot, cache)
            for entry in entries:
                index_path = paths.index_file_of(entry)
                check.name("index", index_path, entry.file.file_size_bytes, owner)
                if data and entry.file.index_type == HASH:
                    with check.noting("index", index_path, owner):
                        read_hash_index(fileio, paths, entry)
            counts = {} if live is None else dict(_row_counts(live))
            for name, where in deletion_ranges(paths, entries).items():
                if live is not None and name not in counts:
                    what = f"it has a deletion vector of {name}, which is not live"
                    check.note("index", where.path, what, owner)
                    continue
                key = (where.path, where.offset)
                vectors.setdefault(key, (where, name, counts.get(name, 0), []))[3].append(owner)
    if snapshot.statistics is not None:
        with check.noting("statistics", paths.statistics(snapshot.statistics), owner):
            read_statistics(fileio, paths, snapshot.statistics)


def _row_counts(live: EntryTable) -> Iterator[tuple[str, int]]:
    return zip(live["file_name"].to_pylist(), live["row_count"].tolist(), strict=True)


def _check_changelog(check: _Check, snapshot: Snapshot, owner: object) -> None:
    """The files of a snapshot's changelog are needed, too."""
    if snapshot.changelog_manifest_list is None:
        return
    handle = check.handle
    path = handle.paths.manifest(snapshot.changelog_manifest_list)
    with check.noting("changelog", path, owner):
        entries = changelog_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
        for bucket in grouped(entries, snapshot.id):
            for file in bucket.files:
                where = handle.paths.data_file(bucket.partition, bucket.bucket, file)
                part = slice_of(where)
                if part is None:
                    check.name("changelog", where, file.file_size_bytes, owner)
                else:
                    check.name("changelog", part.path, None, owner)


def _name_files(check: _Check, owner: object, live: EntryTable) -> None:
    paths = check.handle.paths
    for bucket in grouped(live, 0):
        for file in bucket.files:
            path = paths.data_file(bucket.partition, bucket.bucket, file)
            check.name("data_file", path, file.file_size_bytes, owner)
            if path not in check.files:
                check.files[path] = bucket.split((((file,),),), raw=True), file, []
                for extra in file.extra_files:
                    extra_path = paths.data_file(bucket.partition, bucket.bucket, extra)
                    check.name("index", extra_path, None, owner)
            check.files[path][2].append(owner)


def _check_levels(check: _Check, owner: object, live: EntryTable) -> None:
    """Above level 0 the files of a level do not share keys, unless other columns order them."""
    schema = check.handle.schema
    if not schema.primary_keys:
        return
    keys = FileKeys.of(MergeSpec.of(schema, check.handle.options))
    if keys.clustered:
        return
    for bucket in grouped(live.take(live["level"] > 0), 0):
        if bucket.bucket < 0:
            continue
        levels: dict[int, list[DataFileMeta]] = {}
        for file in bucket.files:
            levels.setdefault(file.level, []).append(file)
        for level, files in levels.items():
            for section in file_sections(files, keys) if len(files) > 1 else ():
                if len(section) > 1:
                    names = ", ".join(file.file_name for run in section for file in run)
                    path = check.handle.paths.bucket_dir(bucket.partition, bucket.bucket)
                    check.note("keys", path, f"files of level {level} share keys: {names}", owner)


def _check_named(check: _Check) -> None:
    """Find files that are lost, or of another length."""
    for path, named in check.named.items():
        status = check.status(path)
        if status is None:
            if not check.handle.fileio.exists(path):  # a listing may be old
                check.note(named.kind, path, NOT_THERE, *named.owners)
        elif named.size_bytes is not None and status.size_bytes != named.size_bytes:
            what = f"it has {status.size_bytes} bytes, and its manifest says {named.size_bytes}"
            check.note(named.kind, path, what, *named.owners)


def _check_data(check: _Check, context: ReadContext) -> None:
    """Read all rows, and the indexes of files; only of files that are there and long enough."""
    bad = {path for _, path, _ in check.problems}
    read: Callable[[ReadContext, Split, DataFileMeta], Iterator[str]] = wrong_rows
    for path, (split, file, owners) in check.files.items():
        if path in bad:
            continue
        with check.noting("data_file", path, *owners):
            for what in read(context, split, file):
                check.note("keys", path, what, *owners)
        with check.noting("index", path, *owners):
            check_file_index(context, split, file)
