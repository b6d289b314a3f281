"""Makes a table's next view: opens the lookup files of changed buckets, keeps those of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tidelake.errors import InvalidInputError
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD, kv_fields
from tidelake.lookup import (
    BucketView,
    LookupBuild,
    LookupCache,
    LookupRun,
    OpenedFile,
    StoredColumns,
)
from tidelake.lookup.bucket_view import by_age, is_first_hit, is_newer_run_by_run
from tidelake.merge import MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import read_deletions
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import ReadContext, Split, names_expiry, read_file
from tidelake.table.query.bucket_files import QueriedBucket
from tidelake.table.query.table_view import TableShape, TableView
from tidelake.types import DataType, TableSchema


@dataclass(frozen=True, slots=True)
class ViewBuilder:
    """Makes views of one table.

    Parameters
    ----------
    stored : StoredColumns
        What lookup files hold; system columns come on top where a file needs them.
    """

    context: ReadContext
    spec: MergeSpec
    shape: TableShape
    stored: StoredColumns
    cache: LookupCache

    def next_view(
        self,
        before: TableView | None,
        snapshot: Snapshot | None,
        states: Mapping[BucketId, QueriedBucket],
    ) -> TableView:
        """Make the view of a snapshot.

        Raises
        ------
        NotFoundError
            A file is missing: the snapshot expired meanwhile, or the file was lost.
        CorruptError
            A data file is damaged.
        InvalidInputError
            A column has another type since the query was opened.
        StorageError
            The disk has no room for lookup files.
        """
        if snapshot is None:
            return TableView(self.shape, None, {}, {})
        kept = {} if before is None else before.opened
        views: dict[BucketId, BucketView] = {}
        changed: list[QueriedBucket] = []
        for bucket_id, state in states.items():
            if before is not None and before.states.get(bucket_id) == state:
                views[bucket_id] = before.buckets[bucket_id]
            else:
                changed.append(state)
        pieces = [piece for state in changed for piece in self._pieces(state)]
        in_use = _InUse(kept)
        work = partial(self._run, kept, in_use)
        executor = self.context.env.executor
        with (
            names_expiry(self.context, snapshot.id),
            contextlib.closing(executor.map(work, pieces)) as made,
        ):
            runs: Iterator[LookupRun] = iter(list(made))
        kept.clear()  # a thread may hold its last work for longer, and so what was mapped for it
        for state in changed:
            own = sorted(state.files, key=by_age)
            views[state.bucket_id] = BucketView(
                [next(runs) for _ in own],
                self.spec,
                first_hit=is_first_hit(self.spec, own),
                fields={f.name: f for f in self.stored.fields},
            )
        ordered = {bucket_id: views[bucket_id] for bucket_id in states}
        return TableView(self.shape, snapshot, dict(states), ordered)

    def _pieces(self, state: QueriedBucket) -> Iterator[_Piece]:
        files = sorted(state.files, key=by_age)
        ordered = is_newer_run_by_run(files)
        for file in files:
            system = () if ordered else (SEQUENCE_FIELD,)
            if file.delete_row_count != 0:
                system = (*system, KIND_FIELD)
            yield _Piece(state, file, replace(self.stored, fields=(*self.stored.fields, *system)))

    def _run(self, kept: Mapping[Path, OpenedFile], in_use: _InUse, piece: _Piece) -> LookupRun:
        context, file, state = self.context, piece.file, piece.state
        schema = context.file_schema(file.schema_id, file_name=file.file_name)
        self._check_types(schema)
        fields = piece.stored.of_file({f.id for f in kv_fields(schema)})
        split = Split(
            0, state.partition, state.bucket, state.total_buckets, (((file,),),), raw=True
        )

        keys = [context.schema.field(name) for name in piece.stored.key_columns]
        read = tuple(dict.fromkeys((*keys, *fields)))

        def fill(build: LookupBuild) -> int:
            return build.add(read_file(context, split, file, read))

        path = self.cache.directory / piece.stored.file_name(
            file, piece.stored.identity(file, fields)
        )
        opened = kept.get(path)
        if opened is None:
            opened = self.cache.opened(file, piece.stored, fields, fill, in_use=in_use)
        in_use.add(opened.path)
        return LookupRun(file, opened, self._deleted(piece))

    def _check_types(self, schema: TableSchema) -> None:
        """Refuse a column that has another type since the query was opened: a cast back may lose.

        Raises
        ------
        InvalidInputError
            Files were written by such a schema.
        """
        if schema.id <= self.context.schema.id:
            return
        newer = {field.id: field for field in schema.fields}
        for field in self.stored.fields:
            now = newer.get(field.id)
            if now is not None and _is_retyped(field.type, now.type):
                table = self.context.options.table
                message = (
                    f"Column '{field.name}' of table '{table}' is {now.type} now and was"
                    f" {field.type} when this query was opened: open a new one."
                )
                raise InvalidInputError(message, kind="table_altered", table=table)

    def _deleted(self, piece: _Piece) -> Positions | None:
        where = piece.state.deletions.get(piece.file.file_name)
        if where is None:
            return None
        name, rows = piece.file.file_name, piece.file.row_count
        return read_deletions(self.context.fileio, where, file_name=name, row_count=rows)


def _is_retyped(before: DataType, now: DataType) -> bool:
    """Whether values are of another type; fields of a ROW may come and go."""
    facts = [(t.root, t.length, t.precision, t.scale) for t in (before, now)]
    if facts[0] != facts[1]:
        return True
    if not before.child_fields:
        pairs = zip(before.children, now.children, strict=True)
        return any(_is_retyped(old, new) for old, new in pairs)
    by_id = {own: t for (own, _), t in zip(now.child_fields, now.children, strict=True)}
    return any(
        own in by_id and _is_retyped(child, by_id[own])
        for (own, _), child in zip(before.child_fields, before.children, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """One data file of a bucket, and what its lookup file holds."""

    state: QueriedBucket
    file: DataFileMeta
    stored: StoredColumns


class _InUse:
    """The lookup files that must stay on disk."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = set(paths)

    def add(self, path: Path) -> None:
        """Keep one more."""
        self._paths.add(path)

    def __call__(self) -> Iterable[Path]:
        return frozenset(self._paths)
