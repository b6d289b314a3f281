"""A table of a lake as a dictionary: what the parts of ranges make of it."""

from __future__ import annotations

from collections import Counter

from tidelake.cdc.source.changes import MustReread, SourceRows, Truncated, Vanished


class Applied:
    """Rows of some tables by their keys, with everything that was told of them.

    Parameters
    ----------
    source : MySqlSource
        Read from.
    tables : list of SourceTable
        Kept equal.
    """

    def __init__(self, source, tables, start):
        self.source, self.tables, self.position = source, tables, start
        self.names = [table.name for table in tables]
        self.rows = {table.name: {} for table in tables}
        self.counts = {table.name: Counter() for table in tables}  # of whole rows, without a key
        self.keys = {table.name: table.keys for table in tables}
        self.told, self.ranges, self.rejected = [], [], []

    def copy(self, copied, *, rows_max=1000):
        for table in self.tables:
            for chunk in copied.chunks(table, rows_max=rows_max):
                for part in copied.read(chunk):
                    self.rejected += part.rejected
                    for row in part.rows.to_pylist():
                        self.put(table.name, row)
        self.position = copied.position

    def put(self, name, row):
        self.counts[name][tuple(row.values())] += 1
        self.rows[name][self.key(name, row)] = row

    def key(self, name, row):
        return tuple(row[key] for key in self.keys[name]) or tuple(row.values())

    def sorted(self, name):
        """Rows as SELECT gives them, in their order."""
        if self.keys[name]:
            return sorted(tuple(row.values()) for row in self.rows[name].values())
        return sorted(self.counts[name].elements())

    def take(self, changes):
        self.ranges.append((changes.start, changes.end))
        for part in changes.parts:
            name = part.table.name if isinstance(part, SourceRows) else part.table
            if isinstance(part, SourceRows):
                order = [tuple(one) for one in part.order.tolist()]
                assert order == sorted(set(order))
                self.rejected += part.rejected
                for kind, row in zip(part.kinds.tolist(), part.rows.to_pylist(), strict=True):
                    if kind == 3:
                        self.counts[name][tuple(row.values())] -= 1
                        self.rows[name].pop(self.key(name, row), None)
                    else:
                        self.put(name, row)
                continue
            if isinstance(part, Truncated):
                self.rows[name].clear()
            self.told.append((type(part).__name__, str(name), _words(part)))
        self.position = changes.end

    def catch_up(self, limits, *, end=None):
        """Read on to where the source is now."""
        end = end or self.source.newest()
        while self.source.is_before(self.position, end):
            self.take(self.source.read(self.position, self.names, limits))


def _words(part):
    if isinstance(part, MustReread):
        return part.reason
    return part.statement if isinstance(part, Vanished) else ""


def plain(changes):
    """Parts as plain values, to be compared."""
    found = []
    for part in changes.parts:
        if isinstance(part, SourceRows):
            found.append(
                (part.table, part.rows.to_pylist(), part.kinds.tolist(), part.order.tolist(),
                 part.changed_ms.tolist(), part.rejected)
            )  # fmt: skip
        else:
            found.append(part)
    return found
