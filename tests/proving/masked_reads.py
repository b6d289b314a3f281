"""Reads a table by masks alone, as the other side of each comparison with the merge."""

from __future__ import annotations

import pyarrow as pa

from tidelake.format import KIND_FIELD
from tidelake.scan import names_expiry, read_file, read_split
from tidelake.scan.masks import MaskCache, MergedPart, find_masks
from tidelake.types.predicate import evaluate


class MaskedReader:
    """Rows of a table by masks where they are allowed, else merged."""

    def __init__(self, cache: MaskCache | None = None) -> None:
        self.cache = MaskCache() if cache is None else cache
        self.masked_count = 0
        self.merged_count = 0
        self.rows_merged = 0

    def rows(self, table, **scan) -> list[tuple]:
        """All rows in no order."""
        return self.rows_of(table.scan(**scan))

    def rows_of(self, planned) -> list[tuple]:
        """The rows of a plan."""
        context = planned.context
        sections = [(s, section) for s in planned.plan.splits for section in s.sections]
        fields, predicate = context.schema.fields, planned.predicate
        names = tuple(field.name for field in fields)
        found = []
        masks = find_masks(context, sections, self.cache)
        for (split, section), own in zip(sections, masks, strict=True):
            if own is None:
                self.merged_count += 1
                part = split.part((section,))
                batches = list(read_split(context, part, columns=names, predicate=predicate))
            else:
                self.masked_count += 1
                batches = [
                    batch
                    for run in section
                    for file in run
                    for batch in self._live(context, split, file, own.hidden.get(file.file_name))
                ]
                part = MergedPart.of(split, section, own)
                if part is not None:
                    self.rows_merged += own.merged_count
                    batches += part.read(context, names, predicate)
            if predicate is not None:
                batches = [b.filter(evaluate(predicate, b, fields)) for b in batches]
            wanted = list(planned.columns)
            found += [tuple(row.values()) for b in batches for row in b.select(wanted).to_pylist()]
        return found

    def _live(self, context, split, file, hidden):
        fields = context.schema.fields
        keyed = bool(context.schema.primary_keys)
        wanted = (*fields, KIND_FIELD) if keyed else fields
        with names_expiry(context, split.snapshot_id):
            rows = pa.Table.from_batches(list(read_file(context, split, file, wanted)))
        if hidden is not None:
            rows = rows.filter(pa.array(~hidden.flags()))
        if keyed:
            assert not (rows[KIND_FIELD.name].to_numpy() & 1).any(), "a row that retracts is live"
        return rows.select([f.name for f in fields]).to_batches()
