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

    @property
    def _looks_up(self):
        """Whether every write is merged with what is there."""
        vectors = self.options.get("deletion-vectors.enabled") == "true"
        return vectors or self.options.get("changelog-producer") == "lookup"

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
            if self._looks_up:
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


class NewestSequence:
    """Makes drawn rows fit: one that retracts, and all that follow, are never late.

    A row that retracts is the only one of its key among the rows that are merged before they meet
    the stored ones: those of a write, or those that wait in the postpone bucket.

    columns: (names, descending) of each sequence: of the table, of a group. keys: of the table.
    """

    def __init__(self, rng, columns, keys):
        self.rng, self.columns, self.keys = rng, columns, keys
        self.newest, self.floor = {}, {}  # (key, number of the sequence): a row's own
        self.met, self.alone = set(), set()

    def placed(self, row, kind):
        """The kind of the row, whose sequences are set; None if it cannot be there."""
        key = self.key(row)
        if key in self.alone:
            return None
        if kind in RETRACTS and key in self.met:
            kind = "+U"
        self.met.add(key)
        if kind in RETRACTS:
            self.alone.add(key)
        for number, (names, descending) in enumerate(self.columns):
            place, sign = (key, number), -1 if descending else 1
            least = (self.newest if kind in RETRACTS else self.floor).get(place)
            own = [sign * row[name] for name in names]
            if least is not None and own < least:
                own = [least[0] + self.rng.randint(0, 1), *map(max, own[1:], least[1:])]
                row.update({name: sign * value for name, value in zip(names, own, strict=True)})
            self.newest[place] = max(own, self.newest.get(place, own))
            if kind in RETRACTS:
                self.floor[place] = own
        return kind

    def key(self, row):
        return tuple(row[name] for name in self.keys)

    def deleted(self, rows):
        """Rows are deleted, with the sequences that they have."""
        keys = {self.key(row) for row in rows}
        for number in range(len(self.columns)):
            self.floor |= {(k, number): self.newest[k, number] for k in keys}
        self.alone |= keys

    def merged(self):
        """What was drawn is merged with the stored rows."""
        self.met, self.alone = set(), set()
