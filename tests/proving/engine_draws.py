"""Tables of any merge engine for the model runs, and which rows they may be given.

What a merge gives may depend on which rows met before (docs/merge-engines.md, "What depends on
when rows are merged"). The model merges all rows of a key at once, so a table comes with rules:
rows that it may be given for the answer to be the same at any time.

- Where rows come late (``sequence.field``, a sequence group), functions that keep an order are not
  drawn, and ``last_non_null_value`` meets no null. A row that retracts is never late.
- A row retracts a key that has a row, once a commit; where that takes values back, or where rows
  wait for their bucket, no other row of the key waits (:meth:`MergedTable.retractable`).
- After a -D removed a row, a function that looks for the first value begins nowhere anew, and a row
  without a sequence is taken as it is if it is alone: neither is drawn with such a -D.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

PRODUCERS = ("none", "input", "lookup", "full-compaction")
ENGINES = ("deduplicate", "partial-update", "partial-update by groups", "aggregation", "first-row")
BUCKETS = ("one", "some", "dynamic", "moving", "postpone")

ANY_ORDER = {
    "v": ("max", "min", "last_value"),
    "n": ("sum", "max", "min", "last_value"),
    "x": ("max", "min", "last_value"),
    "m": ("product", "sum", "max", "last_value"),
}
"""Functions that give the same however late a row comes."""
IN_ORDER = {"v": ("listagg", "last_non_null_value"), "n": (), "x": (), "m": ()}
FIRST = ("first_value", "first_non_null_value")
CANNOT_RETRACT = ("max", "min", "listagg", *FIRST)
NULL_FREE = {"v": "f", "n": 7, "x": 0.5, "m": 1, "g": 0, "h": 0}


@dataclass(frozen=True)
class Rules:
    """Which rows a table may be given.

    Parameters
    ----------
    columns : tuple of str
        INT columns beside those of every table: m, and g, h that are sequences of groups.
    filled : frozenset of str
        Columns that get no null.
    late : int
        How many rows the sequence of a group lags behind at most.
    spread : bool
        No two rows have the same sequence of a group.
    deletes : str
        What -D does: 'remove' a row, 'retract' its values, 'ignore' nothing; or 'none' may come.
    kinds : tuple of str
        Kinds that retract.
    by_keys : bool
        Whether ``Table.delete`` takes keys.
    updates : tuple of str
        Columns that ``Table.update`` may set.
    typed : tuple of str
        Further columns, of :mod:`proving.more_draws`.
    mixes : bool
        Whether rows that retract come beside rows that add, of an engine that merges them.
    """

    columns: tuple[str, ...] = ()
    filled: frozenset[str] = frozenset()
    late: int = 0
    spread: bool = False
    deletes: str = "remove"
    kinds: tuple[str, ...] = ("-D",)
    by_keys: bool = True
    updates: tuple[str, ...] = ("v",)
    typed: tuple[str, ...] = ()
    mixes: bool = False

    def complete(self, row: dict, rng: random.Random, clock: int, *, retracts: bool) -> None:
        """Give a row its further columns, and values where null may not be."""
        for name in self.columns:
            if name == "m":
                row[name] = rng.choice([None, -1, 1])
            elif rng.random() < 0.15 and not retracts:
                row[name] = None
            elif self.spread:
                row[name] = rng.randrange(2**31)
            else:
                row[name] = clock - (rng.randint(0, self.late) if not retracts else 0)
        for name in self.filled:
            if row[name] is None:
                row[name] = NULL_FREE[name] if name in "vnxm" else clock


UNRULED = Rules()


def draw_engine(
    rng: random.Random, engine: str, producer: str, buckets: str
) -> tuple[dict[str, str], str | None, Rules]:
    """Options, the sequence field (or several with commas), and the rules of the rows."""
    options = {"merge-engine": engine.split()[0], "changelog-producer": producer}
    compares = producer in ("lookup", "full-compaction")
    if producer != "none" and rng.random() < 0.4 and compares:
        options["changelog-producer.row-deduplicate"] = "true"
    sequence = None
    if engine != "first-row" and buckets != "moving" and rng.random() < 0.35:
        sequence = options["sequence.field"] = rng.choice(["n", "n,m", "m,n"])
        if rng.random() < 0.4:
            options["sequence.field.sort-order"] = "descending"
    if engine != "first-row" and producer != "full-compaction" and rng.random() < 0.45:
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = rng.choice(["true", "false"])
    drawn = {
        "deduplicate": _deduplicate,
        "partial-update": _partial_update,
        "partial-update by groups": _groups,
        "aggregation": _aggregation,
        "first-row": _first_row,
    }[engine]
    further, rules = drawn(rng, tuple((sequence or "").split(",")), buckets)
    options |= further
    if sequence is None and rng.random() < 0.15:
        options["write-only"] = "true"
    combines = engine not in ("deduplicate", "first-row")
    marks = "deletion-vectors.enabled" in options
    if producer == "lookup" or (marks and combines):  # each commit is merged and told by itself
        options.pop("write-only", None)
    elif engine in ("partial-update", "aggregation") and rng.random() < 0.2:
        options["force-lookup"] = "true"
    return options, sequence, rules


def _deduplicate(rng, sequence, buckets):
    columns = ("m",)
    if buckets != "moving" and rng.random() < 0.15:
        return {"ignore-delete": "true"}, Rules(columns, deletes="ignore", by_keys=False)
    kinds = ("-D", "-U")
    if sequence != ("",) and buckets != "postpone" and rng.random() < 0.5:
        # a compaction forgets a delete, and with it what it was newer than
        return {"write-only": "true"}, Rules(columns, kinds=kinds, by_keys=False)
    return {}, Rules(columns, kinds=kinds)


def _first_row(rng, sequence, buckets):
    return {"ignore-delete": "true"}, Rules(("m",), deletes="ignore", by_keys=False)


def _partial_update(rng, sequence, buckets):
    if sequence != ("",):
        free = {"n"} if sequence == ("n",) else set()
        return {}, Rules(("m",), frozenset("vnxm") - free, deletes="none")
    deletes = rng.choice(["remove", "remove", "ignore", "none"])
    options = {
        "remove": {"partial-update.remove-record-on-delete": "true"},
        "ignore": {"ignore-delete": "true"},
        "none": {},
    }[deletes]
    kinds = ("-D", "-D", "-U")  # -U does nothing
    return options, Rules(("m",), deletes=deletes, kinds=kinds, by_keys=deletes == "remove")


def _groups(rng, sequence, buckets):
    sequences = rng.choice([("g",), ("g", "h"), ("g,h",)])
    members = [name for name in "vnxm" if name not in sequence]
    rng.shuffle(members)
    count = rng.randint(len(sequences), len(members))
    ordered = sequence != ("",)
    late = rng.choice([0, 30]) if not ordered else 30
    deletes = "none" if ordered else rng.choice(["remove", "retract", "ignore", "none"])
    options = {}
    for number, fields in enumerate(sequences):
        own = members[number : count : len(sequences)]
        options[f"fields.{fields}.sequence-group"] = ",".join(own)
        with_function = [name for name in own if rng.random() < 0.6]
        options |= _functions(
            rng,
            with_function,
            late=late > 0,
            deletes=deletes,
            retracts=deletes in ("remove", "retract"),
        )
    if deletes == "remove":
        removes = rng.choice(sequences)
        options["partial-update.remove-record-on-sequence-group"] = removes
    if deletes == "ignore":
        options["ignore-delete"] = "true"
    columns = ("m", *",".join(sequences).split(","))
    filled = set()
    if deletes == "remove":
        filled |= set(columns) - {"m"}
    if sequences == ("g,h",) and not late:
        filled.add("g")  # half a sequence is below a whole one, and late
    if ordered:
        grouped = {*members[:count]}
        filled |= {*"vnxm"} - grouped - ({"n"} if sequence == ("n",) else set())
    summed = any(key.endswith("aggregate-function") for key in options)
    rules = Rules(
        columns,
        frozenset(filled),
        late=late,
        spread=ordered,
        deletes="retract" if deletes == "remove" else deletes,
        kinds=("-D", "-U"),
        by_keys=False,
        # a row that is written back without a sequence would lose what it has in the group
        updates=() if summed or "v" in members[:count] or "g" not in filled else ("v",),
    )
    return options, rules


def _aggregation(rng, sequence, buckets):
    ordered = sequence != ("",)
    deletes = "none" if ordered else rng.choice(["remove", "remove", "retract", "ignore", "none"])
    members = [name for name in "vnxm" if name not in sequence]
    named = [name for name in members if rng.random() < 0.75]
    options = _functions(rng, named, late=ordered, deletes=deletes, retracts=deletes == "retract")
    if not ordered and deletes != "retract" and rng.random() < 0.2:
        options["fields.default-aggregate-function"] = "last_value"
    filled = frozenset(members) - frozenset(named) if ordered else frozenset()
    if deletes == "remove":
        options["aggregation.remove-record-on-delete"] = "true"
    if deletes == "ignore":
        options["ignore-delete"] = "true"
    kinds = ("-D", "-U") if deletes in ("retract", "ignore") else ("-D",)
    by_keys = deletes == "remove"
    return options, Rules(("m",), filled, deletes=deletes, kinds=kinds, by_keys=by_keys, updates=())


def _functions(
    rng: random.Random, columns: Iterable[str], *, late: bool, deletes: str, retracts: bool
) -> dict[str, str]:
    options = {}
    for name in columns:
        choices = ANY_ORDER[name]
        if not late:
            choices += IN_ORDER[name]
            choices += FIRST if deletes != "remove" else ()
        function = rng.choice(choices)
        options[f"fields.{name}.aggregate-function"] = function
        if retracts and function in CANNOT_RETRACT:
            options[f"fields.{name}.ignore-retract"] = "true"
    return options
