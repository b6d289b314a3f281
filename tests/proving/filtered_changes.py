"""Drawn tables whose changes are read through filters, in every mode, by any door.

A table has a drawn kind (keys that move between partitions, fixed and dynamic buckets, deletion
vectors), engine and changelog producer. This module writes to it and folds what it wrote into a
dict, in plain Python; no code of tables says what is right. After each step, and of longer ranges
at the end, the changes are read in each mode that there is, through a filter that is drawn, too.

1. Folded into the wanted rows of before, they give those of after, also where ``-U`` is passed over
   as by a target that removes rows at ``-D`` alone.
2. Changes with old rows take away nothing but the very row that the reader has.
3. A range in one read has the changes of its steps, each as often; a net change folds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import tidelake
from proving.crossing import Crossing, Draw
from tidelake.table import Table

__all__ = ["DRAWS", "Change", "ChangesDiffer", "FilteredChanges", "Read"]

PLACES = "abc"
KEYS = 7
STEPS = 5
Row = dict[str, object]
Key = tuple[object, ...]
State = dict[Key, Row]
Change = tuple[str, Row]
Read = Callable[[int, int, str, str, Sequence[str]], Iterable[Change]]
"""Reads changes: after a snapshot, up to one, in a mode, through a filter, so many columns."""
COLUMNS = (("p", "k", "v", "n"), ("n", "k", "p"), ("k", "p", "v"))
"""With the key; some without the filter's column."""


def _over(value: object, bound: int) -> bool | None:
    """Whether a value is over a bound; of null it is unknown."""
    return None if value is None else int(str(value)) > bound


FILTERS: dict[str, Callable[[Row], bool]] = {
    "v > 20": lambda row: bool(_over(row["v"], 20)),
    "NOT (v > 20)": lambda row: _over(row["v"], 20) is False,
    "v IS NULL OR v > 35": lambda row: _over(row["v"], 35) is not False,
    "v > 10 AND k > 2": lambda row: bool(_over(row["v"], 10) and _over(row["k"], 2)),
    "v < 30 OR k < 3": lambda row: _over(row["v"], 29) is False or not _over(row["k"], 2),
    "p <> 'b'": lambda row: row["p"] != "b",
    "p = 'a' AND v > 10": lambda row: row["p"] == "a" and bool(_over(row["v"], 10)),
    "k > 4": lambda row: bool(_over(row["k"], 4)),
}
"""Of values, keys, both and partition columns, each with what it means."""


@dataclass(frozen=True)
class Kind:
    """What one kind of table allows."""

    keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: dict[str, str]
    engines: tuple[str, ...] = ("deduplicate",)
    producers: tuple[str, ...] = ("none", "input", "lookup", "full-compaction")


_ENGINES: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "deduplicate": ({}, {"+I": 5, "+U": 2, "-D": 2, "-U": 1}),
    "partial-update": ({"partial-update.remove-record-on-delete": "true"}, {"+I": 6, "-D": 1}),
    "aggregation": (
        {"fields.v.aggregate-function": "sum", "fields.n.aggregate-function": "max"},
        {"+I": 1},
    ),
    "first-row": ({}, {"+I": 1}),
}
"""Options of each engine, and how often a row is of each kind."""
_COMBINING = ("partial-update", "aggregation", "first-row")
KINDS = {
    "moving": Kind(("k",), ("p",), {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}),
    "fixed": Kind(("p", "k"), ("p",), {"bucket": "2"}, tuple(_ENGINES)),
    "flat": Kind(("k",), (), {"bucket": "1"}, tuple(_ENGINES)),
    "dynamic": Kind(("p", "k"), ("p",), {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "vectors": Kind(
        ("k",),
        (),
        {"bucket": "2", "deletion-vectors.enabled": "true"},
        producers=("none", "lookup"),
    ),
}
OLD_ROWS = frozenset({"lookup", "full-compaction"})


def _is_possible(draw: Draw) -> bool:
    kind, engine, producer = KINDS[draw["kind"]], draw["engine"], draw["producer"]
    if engine not in kind.engines or producer not in kind.producers:
        return False
    if engine == "first-row":
        return producer == "lookup"
    return engine not in _COMBINING or producer in OLD_ROWS


DRAWS = Crossing(
    {
        "kind": ("moving", "moving", *KINDS),
        "engine": tuple(_ENGINES),
        "producer": ("none", "input", *sorted(OLD_ROWS)),
        "is shuffled": ("yes", "no"),
    },
    _is_possible,
)
"""By the seed of a table; whether readers shuffle the changes of keys that move is theirs."""


class ChangesDiffer(AssertionError):
    """What a reader has is not what was written."""


@dataclass
class FilteredChanges:
    """One drawn table.

    Parameters
    ----------
    seed : int
        Decides what is not in `draw`.
    catalog : Catalog
        Gets the table.
    name : str
        Of the table.
    draw : mapping
        A choice of each factor of :data:`DRAWS`.
    """

    seed: int
    catalog: tidelake.Catalog
    name: str
    draw: Draw
    told: list[str] = field(default_factory=list)
    """What was done, for messages."""
    seen: Counter[str] = field(default_factory=Counter)
    """How many changes were read in each mode; ``left`` counts updates that left a filter."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.kind, self.engine = KINDS[self.draw["kind"]], self.draw["engine"]
        self.producer = self.draw["producer"]
        own, self.row_kinds = _ENGINES[self.engine]
        options = {**self.kind.options, **own, "merge-engine": self.engine}
        options["changelog-producer"] = self.producer
        if self.producer == "full-compaction" and self.draw["kind"] == "moving":
            options["full-compaction.delta-commits"] = "1"  # a moved key is told of by one commit
        columns = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT", "n": "BIGINT"}
        self.catalog.create_table(
            self.name,
            columns,
            primary_keys=self.kind.keys,
            partition_keys=self.kind.partition_keys,
            options=options,
        )
        self._states: list[tuple[int, State]] = [(0, {})]
        self._overwritten: set[int] = set()

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.catalog.table(self.name)

    @property
    def modes(self) -> list[str]:
        """The modes in which its changes can be read."""
        modes = ["diff"]
        if self.producer != "none":
            modes.append("changelog")
        if self.engine not in _COMBINING:
            modes.append("delta")
        return [*modes, "auto"]

    # ---- writing, and what it means

    def run(self, read: Read) -> Counter[str]:
        """Write and read in turns; what was seen.

        Raises
        ------
        ChangesDiffer
            Changes do not give what was written.
        """
        for number in range(1, STEPS + 1):
            state = {key: dict(row) for key, row in self._states[-1][1].items()}
            step = self.rng.choice(self._steps()) if number > 1 else "write"
            getattr(self, f"_{step}")(state, number)
            if self.producer == "full-compaction":
                self.table.compact(full=True)  # which tells what changed
            self._states.append((self.table.latest_snapshot_id or 0, state))
            found = {self._key(row): row for row in self.table.to_arrow().to_pylist()}
            self._check(found == state, f"the table has {found}, and was given {state}")
            for mode in self.modes:
                self._read(read, mode, *self._asked(), number - 1, number)
        first = self.rng.randrange(STEPS - 1)
        for mode in self.modes:
            self._read_range(read, mode, *self._asked(), first)
        return self.seen

    def _steps(self) -> list[str]:
        steps = ["write", "write", "write", "compact"]
        if self.engine in {"deduplicate", "partial-update"}:
            steps += ["delete", "delete_keys"]
        if self.draw["kind"] == "flat":
            steps.append("overwrite")
        return steps

    def _key(self, row: Mapping[str, object]) -> Key:
        return tuple(row[name] for name in self.kind.keys)

    def _drawn(self, count: int, number: int) -> list[Row]:
        rng = self.rng
        return [
            {"p": rng.choice(PLACES), "k": rng.randrange(KEYS),
             "v": None if rng.random() < 0.2 else rng.randrange(50), "n": number}
            for _ in range(count)
        ]  # fmt: skip

    def _write(self, state: State, number: int) -> None:
        rows = self._drawn(self.rng.randint(3, 10), number)
        kinds = self.rng.choices([*self.row_kinds], [*self.row_kinds.values()], k=len(rows))
        drawn = [one for pair in zip(kinds, rows, strict=True) for one in self._whole(*pair)]
        gone: set[Key] = set()
        changes: list[Change] = []
        for kind, row in drawn:
            if self._key(row) in gone:  # merged in one commit, parts of a row forget the -D
                continue
            if kind == "-D" and self.engine == "partial-update":
                gone.add(self._key(row))
            changes.append((kind, row))
            self._fold(state, kind, row)
        self.table.write([row for _, row in changes], row_kinds=[kind for kind, _ in changes])
        self.told.append(f"write {changes}")

    def _whole(self, kind: str, row: Row) -> list[Change]:
        """One change, or an old row and its new one."""
        if kind != "-U":
            return [(kind, row)]
        return [(kind, row), ("+U", {**row, "v": self.rng.randrange(50)})]

    def _fold(self, state: State, kind: str, row: Row) -> None:
        """What the engine makes of a row."""
        key = self._key(row)
        if kind in {"-D", "-U"}:
            state.pop(key, None)
            return
        before = state.get(key)
        if before is None or self.engine == "deduplicate":
            state[key] = dict(row)
        elif self.engine == "partial-update":
            state[key] = before | {name: v for name, v in row.items() if v is not None}
        elif self.engine == "aggregation":
            values = [int(str(of["v"])) for of in (before, row) if of["v"] is not None]
            state[key] = {**row, "v": sum(values) if values else None}

    def _delete(self, state: State, _: int) -> None:
        bound, name = self.rng.randint(20, 45), self.rng.choice("vk")
        bound = bound if name == "v" else self.rng.randint(2, 8)
        self.told.append(f"delete {name} > {bound}")
        self.table.delete(f"{name} > {bound}")
        for key in [key for key, row in state.items() if _over(row[name], bound)]:
            del state[key]

    def _delete_keys(self, state: State, _: int) -> None:
        keys = self.rng.sample([*state], min(len(state), 2))
        gone = [dict(zip(self.kind.keys, key, strict=True)) for key in keys]
        self.told.append(f"delete {gone}")
        if gone:
            self.table.delete(gone)
        for key in keys:
            del state[key]

    def _compact(self, _: State, __: int) -> None:
        self.told.append("compact")
        self.table.compact(full=self.rng.random() < 0.5)

    def _overwrite(self, state: State, number: int) -> None:
        rows = self._drawn(self.rng.randint(1, 6), number)
        self.told.append(f"overwrite {rows}")
        self.table.write(rows, mode="overwrite")
        state.clear()
        for row in rows:
            self._fold(state, "+I", row)
        self._overwritten.add(number)

    # ---- reading

    def _asked(self) -> tuple[str, Sequence[str]]:
        """A filter, and columns."""
        return self.rng.choice([*FILTERS]), self.rng.choice(COLUMNS)

    def _read(
        self, read: Read, mode: str, where: str, columns: Sequence[str], first: int, last: int
    ) -> list[Change]:
        """Read the changes of steps, and fold them."""
        (start, before), (end, after) = self._states[first], self._states[last]
        changes = list(read(start, end, mode, where, columns))
        logged = self._named(mode) != "diff"
        if not (logged and self._overwritten & {*range(first + 1, last + 1)}):  # those tell nothing
            told = f"steps {first + 1} to {last}, {mode}, {where}, {columns}: {changes}"
            self._check_fold(changes, mode, where, columns, before, after, told)
        self.seen[mode] += len(changes)
        return changes

    def _named(self, mode: str) -> str:
        """The mode that ``auto`` means."""
        if mode != "auto":
            return mode
        return "delta" if self.producer == "none" else "changelog"

    def _check_fold(
        self,
        changes: Sequence[Change],
        mode: str,
        where: str,
        columns: Sequence[str],
        before: State,
        after: State,
        told: str,
    ) -> None:
        wanted, named = FILTERS[where], self._named(mode)
        has_old = named == "diff" or (named == "changelog" and self.producer in OLD_ROWS)
        expected = _seen(after, wanted, columns)
        for passes_over in ((), ("-U",)):
            held = _seen(before, wanted, columns)
            for kind, row in changes:
                key = self._key(row)
                if kind in {"+I", "+U"}:
                    self._check("v" not in columns or wanted(row), f"{told}: not wanted, {row}")
                    held[key] = row
                elif kind not in passes_over:
                    gone = held.pop(key, None)
                    if has_old and not passes_over:
                        self._check(gone == row, f"{told}: {row} is not the old row {gone}")
            at = f" passing over {passes_over}" if passes_over else ""
            self._check(held == expected, f"{told}{at}: gives {held}, not {expected}")
        if has_old:
            gone = before.keys() & after.keys()
            self.seen["left"] += sum(wanted(before[k]) and not wanted(after[k]) for k in gone)

    def _read_range(
        self, read: Read, mode: str, where: str, columns: Sequence[str], first: int
    ) -> None:
        """Several steps in one read have the changes of each."""
        start, end = self._states[first][0], self._states[STEPS][0]
        if self._named(mode) == "diff":
            self._read(read, mode, where, columns, first, STEPS)
            return
        found = Counter(map(repr, read(start, end, mode, where, columns)))
        steps = Counter(
            repr(change)
            for number in range(first, STEPS)
            for change in self._read(read, mode, where, columns, number, number + 1)
        )
        at = f"steps {first + 1} to {STEPS}, {mode}, {where}, {columns}"
        self._check(found == steps, f"{at}: {found}, and by steps {steps}")

    def _check(self, is_right: bool, what: str) -> None:
        if not is_right:
            message = f"table {self.seed}: {dict(self.draw)}, {self.told}: {what}"
            raise ChangesDiffer(message)


def _seen(state: State, wanted: Callable[[Row], bool], columns: Sequence[str]) -> State:
    """What a reader with a filter has of a table."""
    return {k: {name: row[name] for name in columns} for k, row in state.items() if wanted(row)}
