"""A table of any merge engine, producer and kind of buckets, in plain Python.

Each partition is a :class:`~proving.changelog.ChangelogModel`. What is added here: where a key goes
that may move between partitions (docs/buckets.md), and rows that wait in the postpone bucket. A
change is (kind, *row) with a row (k, p, ...).
"""

from __future__ import annotations

from proving.changelog import ChangelogModel

RETRACTS = ("-U", "-D")


class GridModel:
    """The whole table.

    columns: the names, 'k' and 'p' first. buckets: 'fixed', 'dynamic', 'moving' or 'postpone'.
    """

    def __init__(self, columns, options, buckets):
        self.columns, self.options, self.buckets = columns, options, buckets
        self.engine = options.get("merge-engine", "deduplicate")
        self.partitions = {}
        self.waiting = []

    def of(self, partition):
        if partition not in self.partitions:
            model = ChangelogModel(self.columns, self.options, constant=("k", "p"))
            self.partitions[partition] = model
        return self.partitions[partition]

    def state(self):
        return sorted(row for own in self.partitions.values() for row in own.state().values())

    def write(self, rows):
        """The changelogs of 'input' and of 'lookup' that one commit writes."""
        if self.buckets == "postpone":
            self.waiting += rows
            return [], []
        return self._flush(rows)

    def compact(self, *, full):
        """The changelogs of 'input', 'lookup' and 'full-compaction' of a compaction's commit."""
        waiting, self.waiting = self.waiting, []
        given, looked_up = self._flush(waiting)
        settled = []
        for own in self.partitions.values() if full else ():
            settled += own.compact_fully()
        return given, looked_up, settled

    def _flush(self, rows):
        if self.buckets == "moving":
            rows = self._placed(rows)
        given, looked_up = [], []
        for partition in sorted({row[2] for row in rows}):
            one, other = self.of(partition).write([row for row in rows if row[2] == partition])
            given += one
            looked_up += other
            if self.options.get("changelog-producer") == "lookup":
                self.of(partition).forget_what_is_no_row()
        return given, looked_up

    def _placed(self, rows):
        if self.options.get("ignore-delete") == "true":
            rows = [row for row in rows if row[0] not in RETRACTS]
        homes = {k: p for p, own in self.partitions.items() for k in own.state()}
        by_key = {}
        for row in rows:
            by_key.setdefault(row[1], []).append(row)
        placed = []
        for key, own in by_key.items():
            home = homes.get(key)
            if self.engine == "deduplicate":
                kind, _, partition, *values = own[-1]
                if home is not None and (kind in RETRACTS or home != partition):
                    placed.append(("-D", key, home, *values))
                if kind not in RETRACTS:
                    placed.append(own[-1])
            elif self.engine == "first-row":
                placed += own[:1] if home is None else []
            else:
                adding = [row[2] for row in own if row[0] not in RETRACTS]
                home = home or (adding[0] if adding else None)
                placed += [(kind, k, home, *values) for kind, k, _, *values in own if home]
        return placed
