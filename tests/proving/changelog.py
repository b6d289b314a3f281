"""What each changelog producer writes, in plain Python, and what replaying a changelog gives.

Written from the documents (the table of producers in format.md, docs/changelog.md) and the vectors
that ran on Java; it shares no code with the engine. A row is a tuple whose first value is the key;
a change is (kind, *row).
"""

from __future__ import annotations

from proving.one_key import merged


class ReplayError(AssertionError):
    """A changelog says what cannot have happened."""


def replay(state: dict, changes) -> dict:
    """The state after some changes, each of which must fit the state before it."""
    state = dict(state)
    due = None  # the key whose -U waits for its +U
    for kind, *row in changes:
        key = row[0]
        if due is not None and (kind, key) != ("+U", due):
            raise ReplayError(f"-U of {due} is followed by {kind} of {key}")
        if kind in ("-U", "-D"):
            if state.get(key) != tuple(row):
                raise ReplayError(f"{kind} {row}, but the row is {state.get(key)}")
            del state[key]
        elif key in state:
            raise ReplayError(f"{kind} {row}, but there is {state[key]}")
        elif kind == "+U" and due is None:
            raise ReplayError(f"+U {row} without its -U")
        if kind in ("+I", "+U"):
            state[key] = tuple(row)
        due = key if kind == "-U" else None
    if due is not None:
        raise ReplayError(f"-U of {due} is the last change")
    return state


class ChangelogModel:
    """A table of one bucket whose writes are flushed one by one."""

    def __init__(self, columns, options, *, constant=("k",)):
        self.columns, self.options, self.constant = columns, options, constant
        self.engine = options.get("merge-engine", "deduplicate")
        self.rows: dict = {}  # key: what is stored of it, oldest first
        self.settled: dict = {}  # the state of the last full compaction
        self.new: set = set()  # keys that were written since
        self.flushed: list = []  # the rows of the last flush: one of each key

    def write(self, rows):
        """Take (kind, *row) rows in one flush; the changelogs of 'input' and of 'lookup'."""
        before = self.state()
        batch: dict = {}
        for change in rows:
            if change[0] in ("-U", "-D") and self.options.get("ignore-delete") == "true":
                continue
            batch.setdefault(change[1], []).append(change)
        self.flushed = [self._merged(batch[key]) for key in sorted(batch)]
        for change in self.flushed:
            self.rows.setdefault(change[1], []).append(change)
        self.new |= set(batch)
        given = [change for key in sorted(batch) for change in self._ordered(batch[key])]
        return given, self._changes(before, self.state(), sorted(batch))

    def compact_fully(self):
        """Compact everything into the last level; the changelog of 'full-compaction'."""
        state = self.state()
        changes = self._changes(self.settled, state, sorted(self.new))
        self.rows = {key: [("+I", *row)] for key, row in state.items()}
        self.settled, self.new = state, set()
        return changes

    def forget_what_is_no_row(self):
        """What a compaction with nothing beneath it does with keys that were only taken back."""
        state = self.state()
        self.rows = {key: rows for key, rows in self.rows.items() if key in state}

    def state(self) -> dict:
        """Key to row."""
        found = {key: self._merged(rows) for key, rows in self.rows.items()}
        return {key: tuple(row) for key, (kind, *row) in found.items() if kind in ("+I", "+U")}

    def _ordered(self, changes):
        """Oldest first: by the sequence fields, null smallest, then as they came."""
        fields = self.options.get("sequence.field")
        if fields is None:
            return changes
        at = [1 + self.columns.index(field) for field in fields.split(",")]
        sign = -1 if self.options.get("sequence.field.sort-order") == "descending" else 1
        return sorted(changes, key=lambda c: [(c[i] is not None, sign * (c[i] or 0)) for i in at])

    def _merged(self, changes):
        changes = self._ordered(changes)
        if self.engine == "first-row":
            return changes[0]
        if self.engine == "deduplicate" or len(changes) == 1:
            return changes[-1]
        rows = [(kind, dict(zip(self.columns, row, strict=True))) for kind, *row in changes]
        kind, values = merged(
            rows, {"merge-engine": self.engine, **self.options}, keys=self.constant
        )
        return (kind, *(values[name] for name in self.columns))

    def _changes(self, before, after, keys):
        changes = []
        for key in keys:
            old, new = before.get(key), after.get(key)
            if old is not None and new is None:
                changes.append(("-D", *old))
            elif old is None and new is not None:
                changes.append(("+I", *new))
            elif old is not None and self.engine != "first-row" and not self._is_same(old, new):
                changes += [("-U", *old), ("+U", *new)]
        return changes

    def _is_same(self, old, new):
        if self.options.get("changelog-producer.row-deduplicate") != "true":
            return False
        ignored = self.options.get("changelog-producer.row-deduplicate-ignore-fields", "")
        return all(
            a == b
            for name, a, b in zip(self.columns, old, new, strict=True)
            if name not in ignored.split(",")
        )
