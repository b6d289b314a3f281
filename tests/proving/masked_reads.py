"""Reads a table by masks alone, as the other side of each comparison with the merge."""

from __future__ import annotations

import pyarrow as pa

from tidelake.format import KIND_FIELD
from tidelake.scan import read_file, read_split
from tidelake.scan.masks import MaskCache, find_masks


class MaskedReader:
    """Rows of a table by masks where they are allowed, else merged."""

    def __init__(self) -> None:
        self.cache = MaskCache()
        self.masked_count = 0
        self.merged_count = 0

    def rows(self, table, **scan) -> list[tuple]:
        """All rows in no order."""
        planned = table.scan(**scan)
        context = planned.context
        sections = [(s, section) for s in planned.plan.splits for section in s.sections]
        found = []
        masks = find_masks(context, sections, self.cache)
        for (split, section), hidden in zip(sections, masks, strict=True):
            if hidden is None:
                self.merged_count += 1
                part = split.part((section,))
                batches = list(read_split(context, part, columns=planned.columns, predicate=None))
            else:
                self.masked_count += 1
                batches = [
                    batch
                    for run in section
                    for file in run
                    for batch in self._live(context, split, file, hidden.get(file.file_name))
                ]
            found += [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        return found

    def _live(self, context, split, file, hidden):
        fields = context.schema.fields
        keyed = bool(context.schema.primary_keys)
        wanted = (*fields, KIND_FIELD) if keyed else fields
        rows = pa.Table.from_batches(list(read_file(context, split, file, wanted)))
        if hidden is not None:
            rows = rows.filter(pa.array(~hidden.flags()))
        if keyed:
            assert not (rows[KIND_FIELD.name].to_numpy() & 1).any(), "a row that retracts is live"
        return rows.select([f.name for f in fields]).to_batches()
