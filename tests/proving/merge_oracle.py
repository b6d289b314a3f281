"""MERGE by the definition of the SQL standard, on lists of rows; and merges made at random.

An expression is a small tree, written once as SQL and once evaluated here with three-valued logic.
Nothing of the code under test is used.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

Row = dict
Tree = tuple


class Twice(Exception):
    """One row of the target would be changed by several rows of the source."""


class KeyTwice(Exception):
    """One key would be changed and inserted."""


class NullKey(Exception):
    """A row without a key would be inserted."""


# ---- expressions


def to_sql(tree: Tree) -> str:
    """Write an expression."""
    kind, *parts = tree
    if kind == "col":
        return ".".join(parts)
    if kind == "lit":
        return "NULL" if parts[0] is None else repr(parts[0])
    if kind == "isnull":
        return f"{to_sql(parts[0])} IS NULL"
    if kind == "not":
        return f"NOT ({to_sql(parts[0])})"
    return f"({to_sql(parts[0])} {kind} {to_sql(parts[1])})"


def value_of(tree: Tree, rows: dict[str, Row]) -> object:
    """Evaluate an expression; None is null, and unknown."""
    kind, *parts = tree
    if kind == "col":
        return rows[parts[0]][parts[1]]
    if kind == "lit":
        return parts[0]
    if kind == "isnull":
        return value_of(parts[0], rows) is None
    if kind == "not":
        held = value_of(parts[0], rows)
        return None if held is None else not held
    left, right = (value_of(part, rows) for part in parts)
    if kind == "AND":
        if left is False or right is False:
            return False
        return None if left is None or right is None else True
    if kind == "OR":
        if left is True or right is True:
            return True
        return None if left is None or right is None else False
    if left is None or right is None:
        return None
    return {
        "=": lambda: left == right,
        ">": lambda: left > right,
        "<": lambda: left < right,
        "+": lambda: left + right,
        "||": lambda: left + right,
    }[kind]()


# ---- the definition


@dataclass(frozen=True)
class Clause:
    """One WHEN; `values` is None for ``*`` and for DELETE."""

    when: str
    action: str
    condition: Tree | None = None
    values: dict[str, Tree] | None = None

    @property
    def sql(self) -> str:
        """As it is written."""
        head = {
            "matched": "WHEN MATCHED",
            "not_matched": "WHEN NOT MATCHED",
            "not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
        }[self.when]
        if self.condition is not None:
            head += f" AND {to_sql(self.condition)}"
        if self.action == "delete":
            return f"{head} THEN DELETE"
        if self.action == "update":
            if self.values is None:
                return f"{head} THEN UPDATE SET *"
            said = ", ".join(f"{name} = {to_sql(v)}" for name, v in self.values.items())
            return f"{head} THEN UPDATE SET {said}"
        if self.values is None:
            return f"{head} THEN INSERT *"
        values = ", ".join(to_sql(v) for v in self.values.values())
        return f"{head} THEN INSERT ({', '.join(self.values)}) VALUES ({values})"


def merged(
    target: list[Row],
    source: list[Row],
    on: Tree,
    clauses: list[Clause],
    *,
    columns: list[str],
    keys: list[str],
) -> tuple[list[Row], list[list[Row]]]:
    """The rows of the target after a merge.

    Returns
    -------
    rows : list of dict
        Those that are sure.
    either : list of list of dict
        With keys, of each key that several rows were inserted under: one of these.
    """

    def first(when: str, rows: dict[str, Row]) -> Clause | None:
        return next(
            (
                c
                for c in clauses
                if c.when == when and (c.condition is None or value_of(c.condition, rows) is True)
            ),
            None,
        )

    def applied(clause: Clause, old: Row, rows: dict[str, Row]) -> Row | None:
        if clause.action == "delete":
            return None
        if clause.values is None:
            return {c: rows["s"][c] for c in columns}
        return old | {c: value_of(v, rows) for c, v in clause.values.items()}

    after: list[Row] = []
    touched: list[Row] = []
    met: set[int] = set()
    matched = [c for c in clauses if c.when == "matched"]
    sole = len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
    for row in target:
        pairs = [n for n, s in enumerate(source) if value_of(on, {"t": row, "s": s}) is True]
        met.update(pairs)
        if pairs:
            found = [(first("matched", {"t": row, "s": source[n]}), source[n]) for n in pairs]
            acting = [(clause, s) for clause, s in found if clause is not None]
            if len(acting) > 1 and not sole:
                raise Twice
        else:
            clause = first("not_matched_by_source", {"t": row})
            acting = [] if clause is None else [(clause, {})]
        if not acting:
            after.append(row)
            continue
        touched.append(row)
        clause, s = acting[0]
        new = applied(clause, row, {"t": row, "s": s})
        if new is not None:
            after.append(new)
    inserted: list[Row] = []
    for number, s in enumerate(source):
        clause = first("not_matched", {"s": s}) if number not in met else None
        if clause is not None:
            new = applied(clause, dict.fromkeys(columns), {"s": s})
            assert new is not None
            inserted.append(new)
    if not keys:
        return after + inserted, []
    return _by_key(after, touched, inserted, keys)


def _by_key(
    after: list[Row], touched: list[Row], inserted: list[Row], keys: list[str]
) -> tuple[list[Row], list[list[Row]]]:
    def key(row: Row) -> tuple:
        return tuple(row[k] for k in keys)

    if any(None in key(row) for row in inserted):
        raise NullKey
    changed = {key(row) for row in touched}
    new: dict[tuple, list[Row]] = {}
    for row in inserted:
        if key(row) in changed:
            raise KeyTwice
        new.setdefault(key(row), []).append(row)
    kept = [row for row in after if key(row) not in new]
    sure = [rows[0] for rows in new.values() if len(rows) == 1]
    return kept + sure, [rows for rows in new.values() if len(rows) > 1]


# ---- merges at random


def col(side: str, name: str) -> Tree:
    """A column."""
    return ("col", side, name)


def some_condition(rng: random.Random, sides: str) -> Tree | None:
    """A condition on the rows of some sides, or none."""
    made: list[Tree | None] = [None]
    for side in sides:
        made += [
            (">", col(side, "v"), ("lit", rng.randrange(5, 60))),
            ("isnull", col(side, "w")),
            ("=", col(side, "p"), ("lit", rng.choice("ab"))),
        ]
    if sides == "ts":
        made += [(">", col("s", "v"), col("t", "v")), ("=", col("s", "w"), col("t", "w"))]
    one, other = rng.choice(made), rng.choice(made)
    if one is None or other is None or rng.random() < 0.6:
        return one
    return (rng.choice(["AND", "OR"]), one, other if rng.random() < 0.7 else ("not", other))


def some_values(rng: random.Random, sides: str) -> dict[str, Tree]:
    """New values of some columns that are in no key."""
    numbers = [("+", col(side, "v"), ("lit", rng.randrange(1, 9))) for side in sides]
    texts = [("||", col(side, "w"), ("lit", "!")) for side in sides]
    if sides == "ts":
        numbers.append(("+", col("t", "v"), col("s", "v")))
        texts.append(col("s", "w"))
    values = {"v": rng.choice([*numbers, ("lit", 7)]), "w": rng.choice([*texts, ("lit", "new")])}
    if rng.random() < 0.5:
        del values[rng.choice("vw")]
    return values


def some_clauses(rng: random.Random) -> list[Clause]:
    """One to five clauses; of each kind only the last may have no condition."""
    clauses: list[Clause] = []
    kinds = [
        ("matched", "ts", ["update", "update*", "delete"]),
        ("not_matched", "s", ["insert", "insert*"]),
        ("not_matched_by_source", "t", ["update", "delete"]),
    ]
    while not clauses:
        for when, sides, actions in kinds:
            if rng.random() < (0.35 if when == "not_matched_by_source" else 0.15):
                continue
            count = rng.choice([1, 1, 2])
            for number in range(count):
                action = rng.choice(actions)
                condition = some_condition(rng, sides)
                if number < count - 1 and condition is None:
                    condition = (">", col(sides[-1], "v"), ("lit", 30))
                values = None
                if action == "update":
                    values = some_values(rng, sides)
                elif action == "insert":
                    values = {"k": col("s", "k"), "p": col("s", "p"), **some_values(rng, "s")}
                clauses.append(Clause(when, action.rstrip("*"), condition, values))
    return clauses
