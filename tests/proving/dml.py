"""Draws DELETE, UPDATE and MERGE statements, each with what it does to a list of rows.

Rows are dicts of k (BIGINT, unique), v (STRING), m (DECIMAL), d (DOUBLE, NaN above all numbers) and
s (a struct of x and y, or null). Conditions have three values, as in SQL.
"""

from __future__ import annotations

import math
from decimal import Decimal

COLUMNS = "k BIGINT, v STRING, m DECIMAL(12,2), d DOUBLE, s STRUCT<x: INT, y: STRING>"
KEYS = 24
WORDS = ("x", "y", "it''s", "")


def some_rows(rng, count):
    """Rows of different keys."""
    return [some_row(rng, k) for k in sorted(rng.sample(range(KEYS), count))]


def some_row(rng, k):
    """A row of a key; each other value may be null."""

    def maybe(value):
        return None if rng.random() < 0.2 else value

    return {
        "k": k,
        "v": maybe(rng.choice(WORDS).replace("''", "'")),
        "m": maybe(Decimal(rng.randrange(-500, 500)) / 4),
        "d": maybe(rng.choice([math.nan, 0.0, 1.5, -2.25])),
        "s": maybe({"x": maybe(rng.randrange(9)), "y": maybe(rng.choice("pq"))}),
    }


def literal(value, kind):
    """A value as SQL."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, dict):
        x, y = literal(value["x"], "INT"), literal(value["y"], "STRING")
        return f"named_struct('y', {y}, 'x', {x})"  # by name, and not by place
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return f"CAST('{value}' AS {kind})"


def row_text(row):
    """A row as a SELECT."""
    kinds = {"k": "INT", "v": "STRING", "m": "DECIMAL(12,2)", "d": "DOUBLE"}
    kinds["s"] = "STRUCT<y: STRING, x: INT>"
    return "SELECT " + ", ".join(f"{literal(row[c], kinds[c])} AS {c}" for c in row)


def _number(value):
    """A double in Spark's order: NaN is equal to itself, and above all others."""
    return math.inf if math.isnan(value) else value


def _compared(column, sign, value, of):
    tests = {"<": lambda a: a < value, ">": lambda a: a > value, "=": lambda a: a == value}

    def holds(row):
        found = of(row)
        return None if found is None else tests[sign](found)

    return f"{column} {sign} {value}", holds


def some_condition(rng, q, others, depth=0):
    """A condition's text and what it is for a row: true, false or None.

    Parameters
    ----------
    q : str
        Goes before columns: an alias with a dot, or nothing.
    others : list of int
        What the view ``others`` has in its column ``id``.
    """
    kind = rng.randrange(11 if depth < 2 else 8)
    if kind < 2:
        return _compared(f"{q}k", rng.choice("<>="), rng.randrange(KEYS), lambda r: r["k"])
    if kind == 2:
        keys = rng.sample(range(KEYS), 4)
        return f"{q}k IN ({', '.join(map(str, keys))})", lambda r: r["k"] in keys
    if kind == 3:
        column = rng.choice("vmds")
        return f"{q}{column} IS NULL", lambda r: r[column] is None
    if kind == 4:
        return _compared(
            f"{q}d", rng.choice("<>"), 1, lambda r: None if r["d"] is None else _number(r["d"])
        )
    if kind == 5:
        return _compared(f"{q}m", rng.choice("<>"), rng.randrange(-99, 99), lambda r: r["m"])
    if kind == 6:
        return _compared(
            f"{q}s.x", rng.choice("<>="), 4, lambda r: None if r["s"] is None else r["s"]["x"]
        )
    if kind == 7:
        text = f"EXISTS (SELECT 1 FROM others o WHERE o.id = {q or 't.'}k)"
        return text, lambda r: r["k"] in others
    if kind == 8:
        text, holds = some_condition(rng, q, others, depth + 1)
        return f"NOT ({text})", lambda r: None if holds(r) is None else not holds(r)
    (one, first), (other, second) = (some_condition(rng, q, others, depth + 1) for _ in range(2))
    absorbs = kind == 10

    def both(row):
        values = {first(row), second(row)}
        if absorbs in values:
            return absorbs
        return None if None in values else not absorbs

    return f"({one}) {'OR' if absorbs else 'AND'} ({other})", both


def some_values(rng, q):
    """Assignments of an UPDATE, and the function that makes the new row."""

    def nested(row):
        return {"x": None, "y": None} if row["s"] is None else row["s"]

    def plus(value):
        return None if value is None else value + 1

    known = [
        (f"v = concat({q}v, '!')", lambda r: {"v": None if r["v"] is None else r["v"] + "!"}),
        (
            f"m = {q}m + 1.25",
            lambda r: {"m": None if r["m"] is None else r["m"] + Decimal("1.25")},
        ),
        ("d = double('NaN')", lambda _: {"d": math.nan}),
        (f"d = {q}k / 2", lambda r: {"d": r["k"] / 2}),
        ("v = NULL", lambda _: {"v": None}),
        (f"s.x = {q}s.x + 1", lambda r: {"s": {**nested(r), "x": plus(nested(r)["x"])}}),
        (
            f"s = named_struct('y', 'z', 'x', int({q}k))",
            lambda r: {"s": {"x": r["k"], "y": "z"}},
        ),
        ("s = NULL", lambda _: {"s": None}),
    ]
    chosen, taken = [], set()
    for text, change in rng.sample(known, rng.randrange(1, 4)):
        column = text[0]
        if column not in taken:
            taken.add(column)
            chosen.append((text, change))

    def new(row):
        made = dict(row)
        for _, change in chosen:
            made |= change(row)
        return made

    return ", ".join(text for text, _ in chosen), new


def some_statement(rng, rows, others, extra=""):
    """A statement on ``{t}``, and the rows after it; `extra` columns are those of a source."""
    kind = rng.choice(["delete", "update", "update", "merge", "merge", "merge"])
    if kind == "merge":
        return some_merge(rng, rows, others, extra)
    text, holds = some_condition(rng, rng.choice(["", "t."]), others)
    if kind == "delete":
        kept = [r for r in rows if holds(r) is not True]
        return f"DELETE FROM {{t}} AS t WHERE {text}", kept
    values, new = some_values(rng, rng.choice(["", "t."]))
    made = [new(r) if holds(r) is True else r for r in rows]
    return f"UPDATE {{t}} AS t SET {values} WHERE {text}", made


def some_merge(rng, rows, others, extra):
    """A MERGE of rows of different keys."""
    source = some_rows(rng, rng.randrange(1, 8))
    by_key = {r["k"]: r for r in source}
    clauses = {"matched": [], "insert": [], "source": []}  # the order of Spark's grammar
    acts = {"matched": [], "source": []}
    for when, words in (("matched", "MATCHED"), ("source", "NOT MATCHED BY SOURCE")):
        for is_last in rng.choice([[], [True], [False, True]]):
            text, holds = some_condition(rng, "t.", others)
            if is_last and rng.random() < 0.5 and when == "matched":
                text, holds = "", lambda _: True
            if rng.random() < 0.35:
                action, new = "DELETE", None
            elif when == "matched" and rng.random() < 0.4:
                action, new = "UPDATE SET *", lambda r: by_key[r["k"]]
            else:
                values, new = some_values(rng, "t.")
                action = f"UPDATE SET {values}"
            condition = f" AND {text}" if text else ""
            clauses[when].append(f"WHEN {words}{condition} THEN {action}")
            acts[when].append((holds, new))
    inserts = rng.random() < 0.7 or not any(clauses.values())
    made = []
    for row in rows:
        found = acts["matched" if row["k"] in by_key else "source"]
        new = next((n for holds, n in found if holds(row) is True), lambda r: r)
        if new is not None:
            made.append(new(row))
    if inserts:
        clauses["insert"].append("WHEN NOT MATCHED THEN INSERT *")
        known = {r["k"] for r in rows}
        made += [r for r in source if r["k"] not in known]
    using = " UNION ALL ".join(row_text(row) + extra for row in source)
    words = " ".join(clause for group in clauses.values() for clause in group)
    return f"MERGE INTO {{t}} AS t USING ({using}) AS s ON t.k = s.k {words}", made
