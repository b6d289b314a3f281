"""What reading one table needs, as a value that travels to executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.merge import SpillFiles
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema

__all__ = ["ReadContext"]


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Where a table's files are and how they are to be understood. Picklable.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    paths : TablePaths
        The table's paths.
    schema : TableSchema
        The schema that the rows are read with.
    options : Options
        The table's options.
    env : Env
        Clock, ids, executor.
    schemas : mapping of int to TableSchema
        All schemas of the table, by id: files may have been written with older ones.
    is_of_all_rows : bool
        Whether rows of level 0 are read too where the table's reads leave them out: who writes
        rows anew must not lose them.
    """

    fileio: FileIO
    paths: TablePaths
    schema: TableSchema
    options: Options
    env: Env
    schemas: Mapping[int, TableSchema]
    is_of_all_rows: bool = False

    @property
    def keys_stand_alone(self) -> bool:
        """Whether above level 0 a key is live in one file only.

        So it is where a compaction of level 0 finds the older row of a key and marks it in a
        deletion vector, or keeps the first row. Such files are merged with level 0 alone.
        """
        options = self.options
        return bool(self.schema.primary_keys) and (
            options.get(declared.DELETION_VECTORS_ENABLED)
            or options.get(declared.MERGE_ENGINE) == FIRST_ROW
        )

    @property
    def skips_level_0(self) -> bool:
        """Whether a read leaves out what is not compacted yet.

        Only where ``deletion-vectors.merge-on-read`` says so: a commit may then be seen in halves.
        """
        return (
            self.keys_stand_alone
            and not self.is_of_all_rows
            and self.options.get(declared.DELETION_VECTORS_MERGE_ON_READ) is False
        )

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
                f" {schema_id}, and the table has only {sorted(self.schemas)}. Restore"
                f" {self.paths.schema(schema_id)}."
            )
            raise CorruptError(message, kind="schema_missing", file=file_name)
        return schema

    def spill_files(self) -> SpillFiles:
        """Where a merge of more runs than fit the memory puts rows aside: this machine's disk."""
        return SpillFiles(
            self.env.spill_directory(), name="read", options=self.options, memory=self.env.memory
        )

    def fields(self, names: tuple[str, ...]) -> tuple[DataField, ...]:
        """The named columns, in the order asked for.

        Raises
        ------
        NotFoundError
            No such column; near names are offered.
        """
        return tuple(self.schema.field(name) for name in names)
