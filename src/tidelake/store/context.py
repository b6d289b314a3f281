"""The context of every writer of a table's buckets."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.merge import SpillFiles, SpillStack
from tidelake.merge.runs.spill import Join
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.table_state import TableState
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class StoreContext(TableState):
    """One table as its writers see it. Picklable if its parts are.

    Parameters
    ----------
    spill_dir : str or None
        A local directory for rows beyond the memory budget, created at first use. Without it
        (None) full buffers become data files.
    """

    spill_dir: str | None = None

    def spill_files(self) -> SpillFiles:
        """The files for a merge's spilled rows, under unique names."""
        directory = self.spill_dir or self.env.spill_directory()
        name = f"merge-{self.env.ids.uuid()}"
        return SpillFiles(directory, name=name, options=self.options, memory=self.env.memory)

    def spill_stack(self, join: Join) -> SpillStack:
        """A stack of sorted rows on local disk, under a unique name."""
        return SpillStack(
            self.spill_dir or self.env.spill_directory(),
            name=f"order-{self.env.ids.uuid()}",
            options=self.options,
            join=join,
            memory=self.env.memory,
        )

    def file_fields(self, file: DataFileMeta) -> tuple[DataField, ...]:
        """The columns that a file to rewrite was written with.

        A file that lacks one of them is damaged; columns that an older file's schema lacks were
        added later and are null. That schema is read from storage, once for each such file. Files
        of some formats hold no field ids: their columns are found by that schema's names.
        """
        if file.schema_id == self.schema.id:
            return self.schema.fields
        return SchemaLog(self.fileio, self.paths).load(file.schema_id).fields
