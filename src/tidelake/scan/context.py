"""The context of reading one table. It travels to executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidelake.errors import CorruptError
from tidelake.merge import SpillFiles, SpillStack
from tidelake.merge.runs.spill import Join
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.table_state import TableState
from tidelake.options import declared, file_order_columns
from tidelake.telemetry import Memory
from tidelake.types import DataField, TableSchema


@dataclass(frozen=True, slots=True)
class ReadContext(TableState):
    """A table, with the schema that its rows are read with. Picklable.

    Parameters
    ----------
    schemas : mapping of int to TableSchema
        All schemas of the table, by id: files may have been written with older ones.
    all_rows : bool
        Whether to read level 0 even if the table's reads leave it out: a job that rewrites rows
        must not lose them.
    created_since : int, optional
        Plan only files created at this time or later, in ms since the epoch.
    """

    schemas: Mapping[int, TableSchema]
    all_rows: bool = False
    created_since: int | None = None

    @property
    def keys_stand_alone(self) -> bool:
        """Whether each key above level 0 is live in one file only.

        A compaction of level 0 then marks the older row of a key in a deletion vector, or keeps
        the first row. Files above level 0 are merged with level 0, never with each other.
        """
        options = self.options
        return bool(self.schema.primary_keys) and (
            options.get(declared.DELETION_VECTORS_ENABLED)
            or options.get(declared.MERGE_ENGINE) == FIRST_ROW
        )

    @property
    def skips_level_0(self) -> bool:
        """Whether a read leaves out level 0, the rows that are not compacted yet.

        Only with ``deletion-vectors.merge-on-read`` = ``false``: a read may then see a part of a
        commit.
        """
        return (
            self.keys_stand_alone
            and not self.all_rows
            and self.options.get(declared.DELETION_VECTORS_MERGE_ON_READ) is False
        )

    def within(self, memory: Memory) -> ReadContext:
        """The same table, read within such shares."""
        return replace(self, env=replace(self.env, memory=memory))

    def file_schema(self, schema_id: int, *, file_name: str) -> TableSchema:
        """The schema that a data file was written with.

        Raises
        ------
        CorruptError
            The table has no schema of that id.
        """
        schema = self.schemas.get(schema_id)
        if schema is None:
            message = (
                f"Data file '{file_name}' of table {self.paths.location} was written with schema"
                f" {schema_id}, but the table has only {sorted(self.schemas)}. Restore"
                f" {self.paths.schema(schema_id)}."
            )
            raise CorruptError(message, kind="schema_missing", file=file_name)
        return schema

    def bounding_fields(self, schema: TableSchema, *, level: int) -> tuple[DataField, ...]:
        """The columns whose first and last values bound a file of a level, by its own schema.

        Those of the key, or of ``clustering.columns`` with ``pk-clustering-override``.
        """
        order = file_order_columns(self.options) if level else ()
        ids = [self.schema.field(name).id for name in order or self.schema.trimmed_primary_keys]
        own = {field.id: field for field in schema.fields}
        return tuple(own[number] for number in ids)

    def spill_files(self) -> SpillFiles:
        """The local files for a merge of more runs than fit the memory."""
        return SpillFiles(
            self.env.spill_directory(), name="read", options=self.options, memory=self.env.memory
        )

    def spill_stack(self, join: Join) -> SpillStack:
        """A stack of sorted rows on local disk, under a unique name."""
        return SpillStack(
            self.env.spill_directory(),
            name=f"order-{self.env.ids.uuid()}",
            options=self.options,
            join=join,
            memory=self.env.memory,
        )

    def fields(self, names: tuple[str, ...]) -> tuple[DataField, ...]:
        """The named columns, in the given order.

        Raises
        ------
        NotFoundError
            No such column; the message offers near names.
        """
        return tuple(self.schema.field(name) for name in names)
