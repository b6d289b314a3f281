"""What every second seed of the model runs draws on top of its table.

Seeds with an odd number stay what they were before this came, draw for draw; one with an even
number gets one or several of these, by a generator of its own (:func:`more_of`):

- ``mixed`` writes rows that retract beside rows that add, under partial-update and aggregation too,
- columns with the functions of arrays, maps, booleans and bitmaps, and listagg with its settings,
- data files, or those of the changelog, in ORC or Avro,
- ``row-deduplicate`` with or without columns that it passes over,
- a full compaction with every N-th commit,
- a column that says the kind of a row; ``ignore-update-before``,
- rows that expire.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa

from proving.bitmap32 import Bitmap
from proving.engine_draws import Rules

ITEM = pa.struct([("item", pa.string()), ("pieces", pa.int32())])
TYPES = {
    "c": pa.list_(pa.int32()),
    "mm": pa.map_(pa.string(), pa.int32()),
    "nu": pa.list_(ITEM),
    "ba": pa.bool_(),
    "bo": pa.bool_(),
    "rb": pa.binary(),
    "la": pa.string(),
    "rk": pa.string(),
    "t": pa.int32(),
}
"""Types of the further columns."""
FUNCTIONS = {
    "c": "collect",
    "mm": "merge_map",
    "nu": "nested_update",
    "ba": "bool_and",
    "bo": "bool_or",
    "rb": "rbm32",
    "la": "listagg",
}
ANY_ORDER = ("ba", "bo", "rb")
"""Columns whose functions give the same however late a row comes."""
CANNOT_RETRACT = ("ba", "bo", "rb", "la")
EXPIRES_S = 60
KEYS_FOR_EVER = 4
"""A key that this divides has rows without a time."""


def value_of(name: str, rng: random.Random) -> object:
    """A value of a further column."""
    if name == "rk":
        return "+I"
    if name == "t" or rng.random() < 0.2:
        return None  # the time of a row is that of its commit
    few = range(rng.randrange(4))
    if name == "c":
        return [rng.randrange(5) for _ in few]
    if name == "mm":
        return sorted({rng.choice("abcde"): rng.randrange(9) for _ in few}.items())
    if name == "nu":
        return [{"item": rng.choice("abcd"), "pieces": rng.randrange(9)} for _ in few]
    if name == "rb":
        return Bitmap(rng.choice([3, 70_000, 2**31]) + rng.randrange(6) for _ in few)
    if name == "la":
        return rng.choice(["a", "b", "", "c;a", "a,b", "é"])
    return rng.random() < 0.5


def more_of(
    seed: int, options: dict[str, str], keys: tuple[str, ...], rules: Rules, *, moves: bool
) -> tuple[dict[str, str], Rules]:
    """The options and rules of a seed's table with what an even seed gets."""
    if seed % 2:
        return options, rules
    rng = random.Random(f"{seed} more")
    drawn = dict(options)
    if keys:
        rules = _mixes(rng, drawn, rules)
        rules = _functions(rng, drawn, rules)
        rules = _compactions(rng, drawn, rules)
        rules = _kinds(rng, drawn, rules)
        if not moves:
            rules = _expiring(rng, drawn, rules)
    if rng.random() < 0.35:
        drawn["file.format"] = rng.choice(["orc", "avro"])
    if drawn.get("changelog-producer", "none") != "none" and rng.random() < 0.15:
        drawn["changelog-file.format"] = rng.choice(["orc", "avro"])
    if drawn == options and not rules.mixes:
        drawn["file.format"] = rng.choice(["orc", "avro"])
    return drawn, rules


def _engine(options: dict[str, str]) -> str:
    return options.get("merge-engine", "deduplicate")


def _mixes(rng, options, rules):
    merges = _engine(options) in ("partial-update", "aggregation")
    if merges and rules.deletes != "none" and rng.random() < 0.7:
        return replace(rules, mixes=not _first_of_a_group(options))
    return rules


def _first_of_a_group(options) -> bool:
    """Whether a merged row may count as the first of a group though its rows only took back."""
    groups = any(key.endswith(".sequence-group") for key in options)
    return groups and "first_value" in options.values()


def _functions(rng, options, rules):
    """Columns with functions, of an aggregation or in one of the sequence groups."""
    groups = [key for key in options if key.endswith(".sequence-group")]
    if (_engine(options) != "aggregation" and not groups) or rng.random() < 0.3:
        return rules
    is_late = rules.late > 0 if groups else "sequence.field" in options
    is_late |= "sequence.field" in options
    names = [name for name in FUNCTIONS if name in ANY_ORDER or not is_late]
    names = sorted(rng.sample(names, rng.randint(1, min(4, len(names)))))
    for name in names:
        options[f"fields.{name}.aggregate-function"] = FUNCTIONS[name]
        if rules.deletes == "retract" and name in CANNOT_RETRACT:
            options[f"fields.{name}.ignore-retract"] = "true"
        if name in ("c", "la") and rng.random() < 0.4:
            options[f"fields.{name}.distinct"] = "true"
        if name == "la" and rng.random() < 0.5:
            options["fields.la.list-agg-delimiter"] = ";"
        if name == "nu":
            # both: docs/merge-engines.md, "A limit with a nested key"
            key, value = rng.choice([("nested-key", "item"), ("count-limit", "4"), ("", "")])
            if key:
                options[f"fields.nu.{key}"] = value
    if groups:
        group = rng.choice(groups)
        options[group] = ",".join([*filter(None, options[group].split(",")), *names])
    # an update of a row whose columns have functions in a group would not show, and is refused
    return replace(rules, typed=(*rules.typed, *names), updates=())


def _compactions(rng, options, rules):
    """When compactions are full, and which changes they tell."""
    producer = options.get("changelog-producer", "none")
    if producer in ("lookup", "full-compaction") and rng.random() < 0.4:
        options["changelog-producer.row-deduplicate"] = "true"
        if _engine(options) != "first-row" and rng.random() < 0.7:
            own = rng.sample(["v", "n", "x"], rng.choice([1, 1, 2]))
            options["changelog-producer.row-deduplicate-ignore-fields"] = ",".join(own)
    share = 0.6 if producer == "full-compaction" else 0.2
    if options.get("write-only") != "true" and rng.random() < share:
        options["full-compaction.delta-commits"] = rng.choice("1235")
    return rules


def _kinds(rng, options, rules):
    """Where the kinds of rows come from, and which of them count."""
    ignores = options.get("ignore-delete") == "true"
    if "-U" in rules.kinds and not ignores and rng.random() < 0.3:
        options["ignore-update-before"] = "true"
    if rng.random() < 0.2:
        options["rowkind.field"] = "rk"
        return replace(rules, typed=(*rules.typed, "rk"))
    return rules


def _expiring(rng, options, rules):
    """Rows that expire: where the newest row of a key says all of it, and its time only grows."""
    plain = _engine(options) == "deduplicate" and "sequence.field" not in options
    told = options.get("changelog-producer", "none") in ("lookup", "full-compaction")
    waits = options["bucket"] == "-2"
    if not plain or told or waits or options.get("ignore-delete") == "true":
        return rules
    if rng.random() < 0.5:
        return rules
    options["record-level.expire-time"] = f"{EXPIRES_S} s"
    options["record-level.time-field"] = "t"
    return replace(rules, typed=(*rules.typed, "t"))
