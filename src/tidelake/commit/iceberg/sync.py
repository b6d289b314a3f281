"""Brings a table's Iceberg metadata up to its newest snapshot. It is derived: it can be made again.

1. Find the newest metadata file that is usable: that of the newest snapshot, or the one that
   ``version-hint.text`` names. Of its snapshots those stay that the table still has, or has tagged;
   the newest of them is the base. After a rollback the others fall away, because the commit that an
   Iceberg snapshot names no longer exists.
2. For each later snapshot, apply its changes to the manifests of the base
   (:mod:`tidelake.commit.iceberg.manifest_changes`) and write a manifest list. Without a base, or
   if it is far behind, all files of the newest snapshot go into new manifests.
3. Put ``v<newest>.metadata.json`` if it is absent. If another writer has put it for the same
   commit, that one stays; one of a commit that was rolled back is replaced.
4. Move the hint, never back: if there is a newer snapshot with metadata by then, the hint names
   that (:mod:`tidelake.commit.iceberg.version_hint`).
5. Delete metadata files and manifests that nothing names any more.

A commit calls this after its snapshot is visible and old ones have expired. Where so few are
retained that the one that readers see may be among those, it calls this before, too: readers would
lose its files. A failure is logged, and no error: the commit is done, and the next one, or ``CALL
sys.sync_iceberg``, makes up for it.

Source: Paimon's ``IcebergCommitCallback``, which throws to the committer after the snapshot is
visible.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.commit.context import CommitContext
from tidelake.commit.iceberg.iceberg_schema import (
    check_schema,
    check_type_changes,
    fault_of_schema,
    partition_fields,
)
from tidelake.commit.iceberg.manifest_changes import Changed, ManifestChanges
from tidelake.commit.iceberg.manifest_files import DATA, DELETES, ManifestFiles, Record
from tidelake.commit.iceberg.metadata_document import (
    document_of,
    operation_of,
    parsed,
    properties_of,
    shows,
    summary_of,
)
from tidelake.commit.iceberg.retired_files import RetiredFiles, delete_quietly
from tidelake.commit.iceberg.settings import VERSION_WITH_VECTORS, IcebergSettings, address_of
from tidelake.commit.iceberg.shown_files import ShownFiles
from tidelake.commit.iceberg.shown_vectors import ShownVectors, vector_key
from tidelake.commit.iceberg.version_hint import VersionHint
from tidelake.errors import CorruptError, NotFoundError, TidelakeError
from tidelake.fileio import OpenDirectory, parent_of
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.metadata.log.tag import TagLog
from tidelake.types import TableSchema

STEPS_MAX = 32
"""Snapshots that are applied one by one; a base that is further behind is given up."""
DOCUMENT_BYTES_MAX = 256 << 20

_OF_DAMAGED_FILES = (
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    MemoryError,
)
"""Iceberg metadata may be damaged in any way, or too large for the memory; whatever comes of it,
the commit is done."""

_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a synchronisation.

    Parameters
    ----------
    metadata_file : str
        The newest metadata file.
    """

    metadata_file: str
    snapshot_id: int
    snapshots_count: int


def sync_quietly(context: CommitContext) -> None:
    """Synchronise after a change that is done; a failure is logged, with what to do."""
    try:
        sync(context)
    except (TidelakeError, *_OF_DAMAGED_FILES) as error:
        _LOG.warning(
            "Table %s: its Iceberg metadata could not be written: %s The table itself is complete."
            " The next commit writes it, or CALL sys.sync_iceberg('%s').",
            context.table,
            error,
            context.table,
        )


def sync_before_expiry(context: CommitContext, *, retained_count: int) -> None:
    """Synchronise first if the snapshot that readers see may expire.

    Parameters
    ----------
    retained_count : int
        How many of the newest snapshots stay whatever their age.
    """
    try:
        settings = _settings_of(context)
        if settings is None:
            return
        shown_id = VersionHint(context.fileio, settings, context.log).read()
        newest_id = context.log.latest_id()
    except TidelakeError:
        return  # what follows meets it again, and says so
    if shown_id is not None and (newest_id or 0) - shown_id >= retained_count:
        sync_quietly(context)


def sync(context: CommitContext, *, from_scratch: bool = False) -> Synced | None:
    """Bring the Iceberg metadata up to the newest snapshot.

    Parameters
    ----------
    from_scratch : bool
        Whether to make all manifests again.

    Returns
    -------
    Synced or None
        None if the table has no snapshot, or no Iceberg metadata by its options.

    Raises
    ------
    UnsupportedError
        The table has types that Iceberg's readers cannot read.
    NotFoundError
        The table was dropped, or a snapshot expired meanwhile.
    CorruptError, StorageError
        A file of the table is damaged, or the storage failed.
    """
    settings = _settings_of(context)
    newest = None if settings is None else context.log.latest()
    if settings is None or newest is None:
        return None
    return _Sync.of(context, settings, newest).run(from_scratch=from_scratch)


def _settings_of(context: CommitContext) -> IcebergSettings | None:
    if not context.paths.is_main:
        return None  # Iceberg's readers see main: a branch shows there when it is fast-forwarded
    return IcebergSettings.of(
        context.options,
        context.paths.location,
        has_primary_key=bool(context.schema.primary_keys),
        table=context.table,
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """What the new document builds on.

    Parameters
    ----------
    kept : list of dict
        Its snapshots that the table still has, or that a tag names, ascending.
    is_followed : bool
        Whether the newest snapshot follows the last of them; otherwise all are of tags.
    """

    document: Record
    kept: list[Record]
    is_followed: bool

    @property
    def last_id(self) -> int:
        """The id that the changes begin after; 0 without one."""
        return int(self.kept[-1]["snapshot-id"]) if self.is_followed else 0


@dataclass
class _Sync:
    """One synchronisation."""

    context: CommitContext
    settings: IcebergSettings
    newest: Snapshot
    schemas: Mapping[int, TableSchema]
    all_schemas: Mapping[int, TableSchema]
    tags: Mapping[str, Snapshot]
    written: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: CommitContext, settings: IcebergSettings, newest: Snapshot) -> _Sync:
        """Read the table's schemas and tags."""
        log = SchemaLog(context.fileio, context.paths)
        log.check_same(context.schema, table=context.table)
        schemas = {i: log.load(i) for i in log.ids()}
        last = schemas[max(schemas)]
        version, table = settings.format_version, context.table
        check_schema(last.fields, format_version=version, table=table)
        for schema in schemas.values():
            check_type_changes(schema.fields, last.fields, table=table)
        fitting = {
            i: schema
            for i, schema in schemas.items()
            if fault_of_schema(schema.fields, format_version=version) is None
        }
        check_schema(schemas[newest.schema_id].fields, format_version=version, table=table)
        tags = TagLog(context.fileio, context.paths, table=table)
        found = {}
        for name in tags.names():
            try:
                found[name] = tags.load(name).snapshot
            except NotFoundError:
                continue  # it was deleted meanwhile
        return cls(context, settings, newest, fitting, schemas, found)

    def run(self, *, from_scratch: bool) -> Synced:
        """Write what is missing."""
        try:
            documents = self._documents()
            base = None if from_scratch else self._base(documents)
            snapshots, next_row_id = self._snapshots_on(base)
            document = self._document(documents, snapshots, next_row_id)
        except (TidelakeError, *_OF_DAMAGED_FILES):
            self._discard()
            raise
        # a failure of this leaves open whether the document is there
        if self._publish(document, documents):
            self._retire(documents, document)
        path = self.settings.metadata_file(self.newest.id)
        return Synced(path, self.newest.id, len(document["snapshots"]))

    # ---- 1. the base

    @property
    def _hint(self) -> VersionHint:
        return VersionHint(self.context.fileio, self.settings, self.context.log)

    def _documents(self) -> dict[int, Record]:
        """The documents that may be a base, by version: of the newest snapshot, of the hint."""
        found: dict[int, Record] = {}
        for version in (self.newest.id, self._hint.read()):
            if version is None or version in found:
                continue
            document = self._read(version)
            if document is not None:
                found[version] = document
        return found

    def _read(self, version: int) -> Record | None:
        path = self.settings.metadata_file(version)
        try:
            return parsed(self.context.fileio.read_bytes(path, bytes_max=DOCUMENT_BYTES_MAX))
        except (NotFoundError, CorruptError):
            return None

    def _base(self, documents: Mapping[int, Record]) -> _Base | None:
        """The document with the newest snapshot that the table still has."""
        bases = [self._kept(document) for document in documents.values() if self._fits(document)]
        return max(bases, key=_last_id, default=None)

    def _fits(self, document: Record) -> bool:
        """Whether a document is of this table, at this place and in this format."""
        newest = self.schemas[max(self.schemas)]
        return bool(
            document["location"] == self._address(self.context.paths.location)
            and document["format-version"] == self.settings.format_version
            and document["partition-specs"][0]["fields"] == partition_fields(newest)
            and document.get("properties") == properties_of(self.settings)
        )

    def _kept(self, document: Record) -> _Base:
        """The snapshots of a document that the table has, or that a tag names.

        If the table has one of them, it has those before too, as far as they have not expired.
        """
        log, known = self.context.log, list(document["snapshots"])
        while known and not self._is_shown(known[-1], log):
            known.pop()
        last_id = int(known[-1]["snapshot-id"]) if known else 0
        is_followed = last_id > 0 and self.newest.id - last_id <= STEPS_MAX
        earliest_id = (log.earliest_id() or 0) if is_followed else self.newest.id + 1
        tagged = {snapshot.id: snapshot for snapshot in self.tags.values()}
        kept = []
        for shown in document["snapshots"]:
            snapshot_id, schema_id = int(shown["snapshot-id"]), int(shown["schema-id"])
            tag = tagged.get(snapshot_id)
            is_tagged = snapshot_id < self.newest.id and tag is not None and shows(shown, tag)
            if (is_tagged or earliest_id <= snapshot_id <= last_id) and schema_id in self.schemas:
                kept.append(shown)
        return _Base(document, kept, is_followed and kept[-1:] == known[-1:])

    def _is_shown(self, shown: Record, log: SnapshotLog) -> bool:
        snapshot_id = int(shown["snapshot-id"])
        if snapshot_id > self.newest.id:
            return False
        snapshot = self.newest if snapshot_id == self.newest.id else log.find(snapshot_id)
        return snapshot is not None and shows(shown, snapshot)

    # ---- 2. the snapshots

    def _snapshots_on(self, base: _Base | None) -> tuple[list[Record], int]:
        """The Iceberg snapshots, ascending, and the next row id."""
        if base is not None and base.is_followed:
            try:
                return self._followed(base)
            except (NotFoundError, CorruptError, *_OF_DAMAGED_FILES):
                self._discard()  # files of the base are lost or damaged: begin again
        made, next_row_id = self._whole_snapshot()
        kept = [] if base is None else [s for s in base.kept if self._is_of_tag(s)]
        return [*kept, made], next_row_id

    def _is_of_tag(self, shown: Record) -> bool:
        tagged = {snapshot.id for snapshot in self.tags.values()}
        return shown["snapshot-id"] in tagged and shown["snapshot-id"] < self.newest.id

    def _followed(self, base: _Base) -> tuple[list[Record], int]:
        """The snapshots of the base, and each later one with its changes."""
        snapshots = list(base.kept)
        next_row_id = int(base.document.get("next-row-id", 0))
        for snapshot_id in range(base.last_id + 1, self.newest.id + 1):
            snapshot = self._load(snapshot_id)
            made, next_row_id = self._changed_snapshot(snapshots[-1], snapshot, next_row_id)
            snapshots.append(made)
        return snapshots, next_row_id

    def _load(self, snapshot_id: int) -> Snapshot:
        return self.newest if snapshot_id == self.newest.id else self.context.log.load(snapshot_id)

    def _whole_snapshot(self) -> tuple[Record, int]:
        snapshot, changes = self.newest, self._manifest_changes(self.newest.id)
        shown = self._shown_files()
        added = list(shown.live(snapshot).values())
        manifests, changed = changes.apply([], added, (), content=DATA, key=_path_of)
        if self.settings.shows_vectors:
            manifests += self._vectors(shown, changes, [], snapshot)
        return self._snapshot(snapshot, changes, manifests, changed, parent=None, first_row_id=0)

    def _changed_snapshot(
        self, parent: Record, snapshot: Snapshot, next_row_id: int
    ) -> tuple[Record, int]:
        shown, changes = self._shown_files(), self._manifest_changes(snapshot.id)
        before = changes.files.read_list(parent["manifest-list"])
        added, removed = shown.changes(snapshot)
        moved = removed & added.keys()
        manifests, changed = changes.apply(
            [m for m in before if m["content"] == DATA],
            [file for address, file in added.items() if address not in moved],
            removed - moved,
            content=DATA,
            key=_path_of,
        )
        of_vectors = [m for m in before if m["content"] == DELETES]
        if self.settings.shows_vectors and self._vectors_differ(snapshot):
            of_vectors = self._vectors(shown, changes, of_vectors, snapshot)
        manifests += of_vectors
        return self._snapshot(
            snapshot, changes, manifests, changed, parent=parent, first_row_id=next_row_id
        )

    def _vectors_differ(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot may have other deletion vectors than the one before."""
        before = self.context.log.find(snapshot.id - 1)
        return before is None or before.index_manifest != snapshot.index_manifest

    def _vectors(
        self,
        shown: ShownFiles,
        changes: ManifestChanges,
        manifests: Sequence[Record],
        snapshot: Snapshot,
    ) -> list[Record]:
        entries = (e for m in manifests for e in changes.live_entries(m))
        known = {vector_key(entry["data_file"]) for entry in entries}
        vectors = ShownVectors(shown)
        wanted = vectors.of(snapshot)
        added: list[Record] = []
        if wanted.keys() - known:
            path = changes.files.path(f"{self.context.env.ids.uuid()}.puffin")
            self.written.append(path)
            added = vectors.write(path, [v for key, v in wanted.items() if key not in known])
        gone = known - wanted.keys()
        return changes.apply(manifests, added, gone, content=DELETES, key=vector_key)[0]

    def _shown_files(self) -> ShownFiles:
        return ShownFiles(self.context, self.settings, self.all_schemas.__getitem__, self._address)

    def _manifest_changes(self, snapshot_id: int) -> ManifestChanges:
        uuid = self.context.env.ids.uuid()
        names = (f"{uuid}-m{i}.avro" for i in itertools.count(1))
        schema = self.schemas[max(self.schemas)]
        files = ManifestFiles(self.context.fileio, self.settings, schema)
        return ManifestChanges(files, names, snapshot_id, self._address, self.written)

    def _snapshot(
        self,
        snapshot: Snapshot,
        changes: ManifestChanges,
        manifests: Sequence[Record],
        changed: Changed,
        *,
        parent: Record | None,
        first_row_id: int,
    ) -> tuple[Record, int]:
        """Write the manifest list of a snapshot; the Iceberg snapshot and the next row id."""
        listed, next_row_id = changes.with_row_ids(manifests, first_row_id)
        name = f"snap-{snapshot.id}-{self.context.env.ids.uuid()}.avro"
        path = changes.files.path(name)
        self.written.append(path)
        changes.files.write_list(name, listed)
        made: Record = {"sequence-number": snapshot.id, "snapshot-id": snapshot.id}
        if parent is not None:
            made["parent-snapshot-id"] = parent["snapshot-id"]
        made |= {
            "timestamp-ms": snapshot.time_ms,
            "summary": summary_of(
                snapshot,
                changed,
                listed,
                operation=operation_of(snapshot, changed),
                before={} if parent is None else parent["summary"],
            ),
            "manifest-list": self._address(path),
            "schema-id": snapshot.schema_id,
        }
        if self.settings.format_version >= VERSION_WITH_VECTORS:
            made |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
        return made, next_row_id

    def _address(self, path: str) -> str:
        return address_of(self.context.fileio, path)

    # ---- 3. the document

    def _document(
        self, documents: Mapping[int, Record], snapshots: Sequence[Record], next_row_id: int
    ) -> Record:
        location = self._address(self.context.paths.location)
        known = [d for d in documents.values() if d["location"] == location]
        uuid = known[0]["table-uuid"] if known else self.context.env.ids.uuid()
        return document_of(
            self.settings,
            uuid=uuid,
            location=location,
            schemas=self.schemas,
            snapshots=snapshots,
            tags={name: snapshot.id for name, snapshot in self.tags.items()},
            next_row_id=next_row_id,
            last_column_id=max((int(d["last-column-id"]) for d in known), default=0),
        )

    def _publish(self, document: Record, before: Mapping[int, Record]) -> bool:
        """Put the document, unless another writer has, which gives False; move the hint."""
        fileio, path = self.context.fileio, self.settings.metadata_file(self.newest.id)
        known = before.get(self.newest.id)
        is_ours = True
        with self._open_dir() as place:
            if known != document:
                data = json.dumps(document, ensure_ascii=False, indent=2).encode()
                if not fileio.put_if_absent(path, data, within=place):
                    is_ours = self._put_over(known, data, within=place)
            self._hint.move_to(self.newest.id, within=place)
        return is_ours

    def _put_over(self, known: Record | None, data: bytes, *, within: OpenDirectory) -> bool:
        """Replace a document of the same version; False if another writer has just put it."""
        found = self._read(self.newest.id)
        if found is not None and found != known and self._is_of_rival(found):
            self._discard()
            return False
        path = self.settings.metadata_file(self.newest.id)
        self.context.fileio.replace(path, data, within=within)
        return True

    def _is_of_rival(self, found: Record) -> bool:
        """Whether a document shows the same commit as this one."""
        snapshots = found["snapshots"]
        return self._fits(found) and bool(snapshots) and shows(snapshots[-1], self.newest)

    def _open_dir(self) -> OpenDirectory:
        """Open the directory of the metadata; the table's own directory is not made again."""
        fileio, directory = self.context.fileio, self.settings.metadata_dir
        if not directory.startswith(f"{self.context.paths.location}/"):
            fileio.make_dirs(parent_of(directory))
        return fileio.open_dir(directory, make=True)

    def _discard(self) -> None:
        """Delete the manifests of this synchronisation, which nothing names."""
        for path in self.written:
            delete_quietly(self.context.fileio, path)
        self.written.clear()

    # ---- 5. what is no longer needed

    def _retire(self, documents: Mapping[int, Record], document: Record) -> None:
        """Delete what older documents name and this one does not, and older documents.

        Only the writer of the newest snapshot's document does it: another one's files are not known
        here, and that document may name what this one does not.
        """
        if self.context.log.latest_id() != self.newest.id:
            return
        files = ManifestFiles(self.context.fileio, self.settings, self.schemas[max(self.schemas)])
        retired = RetiredFiles(files, self.context.log)
        retired.delete_versions(self.newest.id)
        retired.delete_snapshots(documents.values(), document)


def _last_id(base: _Base) -> int:
    return base.last_id


def _path_of(file: Record) -> str:
    return str(file["file_path"])
