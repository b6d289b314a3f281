"""Tables whose rows are ordered by several fields, and columns that are merged by each function."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

from proving.bitmap32 import Bitmap

from interop.case import Case, Compact, Values, Write
from interop.cells import TypeForm

KVAB = {"k": "INT NOT NULL", "v": "STRING", "a": "INT", "b": "BIGINT"}
BY_BOTH = {"bucket": "2", "sequence.field": "a,b"}
DESCENDING = {"sequence.field.sort-order": "descending"}


def _timed(version: int, count: int) -> list[Values]:
    """Rows that are older or newer than others by the first field, by the second, or by neither."""
    rng = random.Random(version)
    rows = []
    for k in rng.sample(range(60), count):
        a = rng.choice([None, 1, 2, 2, 3])
        rows.append((k, f"{version}-{k}", a, rng.choice([None, -1, 2**40, version])))
    return rows


def sequence_cases() -> list[Case]:
    """Several fields tell which row of a key is newer, ascending or descending."""
    steps = [Write(_timed(v, 40)) for v in range(3)]
    steps += [Write(_timed(3, 20), ["-D"] * 20), Compact(), *(Write(_timed(v, 30)) for v in (4, 5))]
    common = {"columns": KVAB, "primary_keys": ("k",), "peer_rows": _timed(6, 40), "compacts": True}
    cases = [
        Case("sequences", steps=steps, options=BY_BOTH, **common),
        Case(
            "sequences_lookup",
            steps=[*(Write(_timed(v, 40)) for v in range(3)), Write(_timed(4, 30))],
            options={**BY_BOTH, "changelog-producer": "lookup"},
            **common,
        ),
        Case(
            "sequences_aggregated",
            steps=[Write(_timed(v, 40)) for v in range(5)],
            options={
                **BY_BOTH,
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "last_non_null_value",
            },
            **common,
        ),
    ]
    turned = [
        # a process of 1.3.1 compares by the sort order of the table that it met first
        replace(case, name=f"{case.name}_descending", options=case.options | DESCENDING, alone=True)
        for case in cases
    ]
    return [
        *cases,
        *(replace(case, full_only=case.name != "sequences_descending") for case in turned),
    ]


LINES: TypeForm = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "item", "type": "INT"},
            {"id": 1, "name": "unit", "type": "STRING"},
            {"id": 2, "name": "price", "type": "DOUBLE"},
        ],
    },
}
NUMBERS: TypeForm = {"type": "ARRAY", "element": "INT"}
FUNCTIONS: dict[str, tuple[TypeForm, str]] = {
    "every": ("BOOLEAN", "bool_and"),
    "some": ("BOOLEAN", "bool_or"),
    "times": ("BIGINT", "product"),
    "rate": ("DECIMAL(5, 2)", "product"),
    "share": ("DOUBLE", "product"),
    "facts": ({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, "merge_map"),
    "lines": (LINES, "nested_update"),
    "kept": (LINES, "nested_update"),
    "all_lines": (LINES, "nested_update"),
    "users": ("BYTES", "rbm32"),
    "found": (NUMBERS, "collect"),
}
TAKEN_BACK = ("times", "facts", "lines", "all_lines", "found")


def _functions(*, distinct_texts: bool) -> tuple[dict[str, TypeForm], dict[str, str]]:
    columns: dict[str, TypeForm] = {"k": "INT NOT NULL"}
    columns |= {name: form for name, (form, _) in FUNCTIONS.items()}
    options = {f"fields.{n}.aggregate-function": f for n, (_, f) in FUNCTIONS.items()}
    options |= {f"fields.{n}.ignore-retract": "true" for n in FUNCTIONS if n not in TAKEN_BACK}
    options |= {
        "merge-engine": "aggregation",
        "bucket": "2",
        "fields.lines.nested-key": "item,unit",
        "fields.kept.nested-key": "item",
        "fields.kept.ignore-retract": "true",
        "fields.found.distinct": "true",
    }
    if distinct_texts:
        columns["words"] = "STRING"
        options |= {
            "fields.words.aggregate-function": "listagg",
            "fields.words.distinct": "true",
            "fields.words.list-agg-delimiter": "; ",
            "fields.words.ignore-retract": "true",
        }
    return columns, options


def _values(version: int, count: int, *, distinct_texts: bool) -> list[Values]:
    rng = random.Random(100 + version)

    def some(value: Any) -> Any:
        return None if rng.random() < 0.3 else value

    def lines(items: int) -> list[Values]:
        # no two lines of one array have one key: which of them counts is not said
        chosen = rng.sample(range(items), rng.randrange(3))
        return [(item, "kg" if item % 2 else None, some(version / 4)) for item in chosen]

    def users(k: int) -> Bitmap:
        if k % 10 == 0:  # a bitset, or runs
            start = version * 9_000
            return Bitmap(range(start, start + 10_000, 1 + version % 2))
        return Bitmap(rng.randrange(2**32) for _ in range(rng.randrange(1, 9)))

    rows = []
    for k in rng.sample(range(50), count):
        facts = [(name, some(version)) for name in rng.sample("abcdef", rng.randrange(4))]
        row = (
            k,
            some(rng.random() < 0.7),
            some(rng.random() < 0.3),
            some(rng.choice([-3, 1, 2, 7])),
            some(Decimal(rng.choice(["0.5", "-1.25", "1", "-0.33"]))),
            some(rng.choice([0.5, 1.1, -2.0])),
            some(facts),
            some(lines(5)),
            some(lines(5)),
            some(lines(9)),
            some(users(k)),
            some([rng.randrange(6) for _ in range(rng.randrange(4))]),
        )
        texts = some("; ".join(rng.choice("pqrs") for _ in range(rng.randrange(1, 4))))
        rows.append((*row, texts) if distinct_texts else row)
    return rows


def function_cases() -> list[Case]:
    """Every function on columns of the types it is for; those that can are taken back."""
    cases = []
    for name, distinct_texts in (("functions", False), ("functions_distinct_texts", True)):
        columns, options = _functions(distinct_texts=distinct_texts)

        def rows(version: int, count: int, *, texts: bool = distinct_texts) -> list[Values]:
            return _values(version, count, distinct_texts=texts)

        back = rows(5, 12)
        cases.append(
            Case(
                name,
                columns,
                [
                    *(Write(rows(v, 30)) for v in range(3)),
                    Write(rows(3, 30)),
                    Compact(),
                    Write(rows(4, 25)),
                    Write(back),
                    Compact(),
                    Write(back, ["-U"] * len(back)),
                    Write(rows(6, 15)),
                    Write(rows(7, 15)),
                    Compact(),
                ],
                ("k",),
                options=options,
                peer_rows=rows(8, 30),
                compacts=True,
                unordered=frozenset({"lines", "kept", "found"}),
                cannot={"pypaimon": "does not yet implement"},
                left_out={"java-1.3": "1.3.1 knows no distinct of listagg"}
                if distinct_texts
                else {},
                peer_left_out={
                    "java-2.1": "the check has no SQL for nested cells",
                    **(
                        {"java-1.3": "1.3.1 knows no distinct of listagg"} if distinct_texts else {}
                    ),
                },
            )
        )
    return cases


def merged_cases() -> list[Case]:
    """All of this module."""
    return [*sequence_cases(), *function_cases()]
