"""Tables that Java makes on demand, by a plan: what the stored fixtures leave out.

Every scalar type as value and as key, with nulls, extremes and several commits, and the types that
may name a partition; nested types; tables whose columns change, also inside rows; ORC and Avro
files, several formats in one table, thin files, file indexes; dynamic buckets, keys that move
between partitions, rescaled and dropped ones. Each is a program whose steps Java takes alone, so
its rows at every snapshot are known, and both read it, system tables included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interop.cells import TypeForm, value_cell
from interop.fuzz.both import run
from interop.fuzz.capability import (
    DIRECTORY_WORDS,
    KINDS,
    NESTED_COVERED,
    Kind,
    as_not_null,
    is_not_null,
    kind_of,
)
from interop.fuzz.draw import kept_by_orc
from interop.fuzz.program import Program, Step, changed_inside
from interop.matrix import DIFFERS, EQUAL, Verdict
from interop.peer import JavaPeer

COMMITS = 4
ROWS = 12


@dataclass(frozen=True)
class Made:
    """A named program."""

    name: str
    program: Program


def _java(rows: list[list[Any]]) -> Step:
    return {"by": "java", "op": "write", "rows": rows}


def _word(kind: Kind) -> str:
    return (
        str(kind.type)
        .lower()
        .translate(str.maketrans("(), ", "____"))
        .replace("__", "_")
        .strip("_")
    )


def _cell(rng: random.Random, kind: Kind, *, null: bool = True) -> str | None:
    return None if null and rng.random() < 0.25 else value_cell(kind.draw(rng), kind.type)


def _as_value(kind: Kind) -> Made:
    rng = random.Random(str(kind.type))
    steps = [
        _java([["+I", str(rng.randrange(9)), _cell(rng, kind)] for _ in range(ROWS)])
        for _ in range(COMMITS)
    ]
    columns = (("k", "INT NOT NULL"), ("v", kind.type))
    program = Program(columns, ("k",), (), {"bucket": "1"}, (*steps, _compact(full=True)))
    return Made(f"java value {_word(kind)}", program)


def _as_key(kind: Kind) -> Made:
    rng = random.Random(str(kind.type))
    pool = [_cell(rng, kind, null=False) for _ in range(6)]
    steps = []
    for number in range(COMMITS):
        kinds = ["+I", "+I", "-D"] if number else ["+I"]
        steps.append(_java([[rng.choice(kinds), k, f"s:{number}"] for k in pool[number:]]))
    columns = (("k", f"{kind.type} NOT NULL"), ("v", "STRING"))
    return Made(f"java key {_word(kind)}", Program(columns, ("k",), (), {"bucket": "2"}, (*steps,)))


def _as_partition(kind: Kind) -> Made:
    rng = random.Random(str(kind.type))
    if kind.type == "STRING":
        pool = [value_cell(w, kind.type) for w in DIRECTORY_WORDS]
    else:
        pool = [_cell(rng, kind, null=False) for _ in range(4)]
    steps = [_java([["+I", p, str(n)] for p in (*pool, None)]) for n in range(2)]
    program = Program((("p", kind.type), ("v", "INT")), (), ("p",), {}, tuple(steps))
    return Made(f"java partition {_word(kind)}", program)


def _rows(
    rng: random.Random, columns: Columns, keys: range, *, orc: bool = False, deletes: bool = False
) -> Step:
    """Rows of columns ``k`` (from `keys`), ``p`` (few values) and others (anything)."""
    rows = []
    for k in rng.sample(keys, min(ROWS, len(keys))):
        cells: list[Any] = ["-D" if deletes and rng.random() < 0.25 else "+I"]
        for name, form in columns:
            if name == "k":
                cells.append(str(k))
                continue
            kind = kind_of(form)
            if name == "p":
                cells.append(value_cell(rng.choice(["a", "b", "c d"]), form))
            elif not is_not_null(form) and rng.random() < 0.2:
                cells.append(None)
            else:
                value = kind.draw(rng)
                cells.append(value_cell(kept_by_orc(value, form) if orc else value, form))
        rows.append(cells)
    return _java(rows)


def _steps(
    rng: random.Random, columns: Columns, *, orc: bool = False, deletes: bool = True
) -> list[Step]:
    """Commits of upserts and deletes of 30 keys, a compaction among them."""
    steps = [
        _rows(rng, columns, range(30), orc=orc, deletes=deletes and n > 0) for n in range(COMMITS)
    ]
    return [*steps[:-1], _compact(full=True), steps[-1]]


Columns = tuple[tuple[str, TypeForm], ...]

_ROW: TypeForm = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "x", "type": "INT"},
        {"id": 0, "name": "y", "type": "STRING"},
        {"id": 0, "name": "z", "type": {"type": "ARRAY", "element": "DECIMAL(20, 4)"}},
    ],
}
_NESTED: tuple[tuple[str, TypeForm], ...] = (
    ("array", {"type": "ARRAY", "element": "BIGINT NOT NULL"}),
    ("array of arrays", {"type": "ARRAY", "element": {"type": "ARRAY", "element": "DATE"}}),
    ("map", {"type": "MAP", "key": "STRING NOT NULL", "value": "DECIMAL(38, 18)"}),
    ("map of nullable key", {"type": "MAP", "key": "INT", "value": "BYTES"}),
    ("map of arrays", {"type": "MAP", "key": "DATE NOT NULL",
                       "value": {"type": "ARRAY", "element": "TIMESTAMP(6)"}}),
    ("multiset", {"type": "MULTISET", "element": "STRING NOT NULL"}),
    ("row", _ROW),
    ("array of rows", {"type": "ARRAY", "element": _ROW}),
    ("map of rows", {"type": "MAP", "key": "INT NOT NULL", "value": _ROW}),
    ("row of maps of rows", {"type": "ROW", "fields": [
        {"id": 0, "name": "m", "type": {"type": "MAP", "key": "BIGINT NOT NULL", "value": _ROW}},
        {"id": 0, "name": "n", "type": {"type": "ROW NOT NULL", "fields": [
            {"id": 0, "name": "b", "type": "BOOLEAN"}]}}]}),
)  # fmt: skip
_COARSE = tuple(k for k in KINDS if not k.is_fine)
_WIDE: Columns = (
    ("k", "INT NOT NULL"),
    *((f"c{i}", as_not_null(k.type) if i % 7 == 0 else k.type) for i, k in enumerate(_COARSE)),
)
"""A key and every scalar type that all formats hold."""
_PLAIN: Columns = (("k", "INT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("d", "DECIMAL(5, 2)"))
_DAYS: Columns = (("p", "STRING NOT NULL"), *_PLAIN)


def _table(
    name: str,
    columns: Columns,
    *,
    keys: tuple[str, ...] = ("k",),
    partitions: tuple[str, ...] = (),
    steps: list[Step] | None = None,
    **options: str,
) -> Made:
    rng = random.Random(name)
    options = {key.replace("_", "."): value for key, value in options.items()}
    if steps is None:
        orc = "orc" in str(options)
        steps = _steps(rng, columns, orc=orc, deletes=bool(keys))
    return Made(f"java {name}", Program(columns, keys, partitions, options, tuple(steps)))


def _of_formats() -> list[Made]:
    """ORC and Avro files with every type, several formats in one table, thin files."""
    made = []
    for file_format in ("orc", "avro"):
        made += [
            _table(f"{file_format} append", _WIDE, keys=(), file_format=file_format),
            _table(f"{file_format} upserts", _WIDE, file_format=file_format, bucket="2"),
            _table(f"{file_format} thin", _PLAIN, bucket="1", file_format=file_format,
                   **{"data-file.thin-mode": "true"}),
            _table(f"{file_format} compressed", _PLAIN, bucket="1", file_format=file_format,
                   file_compression="snappy" if file_format == "orc" else "null"),
            _evolved(f"{file_format} evolved", file_format=file_format, bucket="1"),
        ]  # fmt: skip
    per_level = {"file.format.per.level": "0:avro,5:orc", "num-sorted-run.compaction-trigger": "2"}
    return [
        *made,
        _table("formats per level", _PLAIN, bucket="1", **per_level),
        _evolved("formats per level evolved", bucket="1", **per_level),
        _table("thin", _WIDE, bucket="2", **{"data-file.thin-mode": "true"}),
        _table("thin composite key", (("a", "STRING NOT NULL"), *_PLAIN), keys=("a", "k"),
               bucket="2", **{"data-file.thin-mode": "true"}),
    ]  # fmt: skip


def _evolved(name: str, **options: str) -> Made:
    """Columns that are added, dropped, renamed, moved and retyped between the commits."""
    rng = random.Random(name)
    columns: Columns = (
        ("k", "INT NOT NULL"),
        ("a", "INT"),
        ("b", "STRING"),
        ("c", "DECIMAL(5, 2)"),
    )
    steps = [_rows(rng, columns, range(20)), _rows(rng, columns, range(30), deletes=True)]
    for changes, after in (
        ([{"change": "add", "name": "d", "type": "DATE", "after": "k"},
          {"change": "rename", "name": "a", "to": "aa"}],
         (("k", "INT NOT NULL"), ("d", "DATE"), ("aa", "INT"), ("b", "STRING"),
          ("c", "DECIMAL(5, 2)"))),
        ([{"change": "drop", "name": "b"},
          {"change": "retype", "name": "aa", "from": "INT", "type": "BIGINT"},
          {"change": "retype", "name": "c", "from": "DECIMAL(5, 2)", "type": "DECIMAL(20, 4)"}],
         (("k", "INT NOT NULL"), ("d", "DATE"), ("aa", "BIGINT"), ("c", "DECIMAL(20, 4)"))),
        ([{"change": "add", "name": "b", "type": "BYTES"},
          {"change": "move", "name": "c", "first": True},
          {"change": "retype", "name": "aa", "from": "BIGINT", "type": "STRING"}],
         (("c", "DECIMAL(20, 4)"), ("k", "INT NOT NULL"), ("d", "DATE"), ("aa", "STRING"),
          ("b", "BYTES"))),
    ):  # fmt: skip
        steps += [{"by": "java", "op": "alter", "changes": changes}]
        steps += [_rows(rng, after, range(10, 40), deletes=True)]
    steps += [_compact(full=True), _rows(rng, after, range(5))]
    return Made(f"java {name}", Program(columns, ("k",), (), options, tuple(steps)))


def _evolved_append() -> Made:
    rng = random.Random("append")
    columns: Columns = (("p", "STRING"), ("k", "INT"), ("a", "TINYINT"), ("b", "BOOLEAN"))
    after: Columns = (("p", "STRING"), ("k", "INT"), ("new", "TIMESTAMP(6)"), ("a", "BIGINT"),
                      ("bb", "STRING"))  # fmt: skip
    changes = [
        {"change": "add", "name": "new", "type": "TIMESTAMP(6)", "after": "k"},
        {"change": "retype", "name": "a", "from": "TINYINT", "type": "BIGINT"},
        {"change": "rename", "name": "b", "to": "bb"},
        {"change": "retype", "name": "bb", "from": "BOOLEAN", "type": "STRING"},
    ]
    steps = [_rows(rng, columns, range(30)) for _ in range(3)]
    steps += [{"by": "java", "op": "alter", "changes": changes}, _rows(rng, after, range(30))]
    steps += [_compact(full=False), _rows(rng, after, range(30))]
    return Made("java evolved append", Program(columns, (), ("p",), {}, tuple(steps)))


def _evolved_inside(form: TypeForm, path: list[str], name: str, **options: str) -> Made:
    """Fields of a row somewhere in a column are added, dropped, renamed and retyped."""
    rng = random.Random(name)
    columns: Columns = (("k", "INT NOT NULL"), ("r", form))
    steps = [_rows(rng, columns, range(20)), _rows(rng, columns, range(30))]
    for change in (
        {"change": "add", "name": ["r", *path, "new"], "type": "STRING"},
        {"change": "retype", "name": ["r", *path, "x"], "from": "INT", "type": "BIGINT"},
        {"change": "drop", "name": ["r", *path, "y"]},
        {"change": "rename", "name": ["r", *path, "z"], "to": "y"},
    ):
        steps.append({"by": "java", "op": "alter", "changes": [change]})
        form, _ = changed_inside(form, change["name"][1:], change)
        steps.append(_rows(rng, (("k", "INT NOT NULL"), ("r", form)), range(10, 40)))
    steps += [_compact(full=True)]
    return Made(f"java {name}", Program(columns, ("k",), (), options, tuple(steps)))


def _nested_in_formats() -> list[Made]:
    """Nested columns in other files than Parquet's."""
    made = []
    for file_format in (f for f in NESTED_COVERED if f != "parquet"):
        options = {"file.format": file_format, "bucket": "1"}
        # inside of columns of ORC files times far away are refused: Arrow cannot read them
        left_out = "TIMESTAMP" if file_format == "orc" else "-"
        forms = [form for _, form in _NESTED if left_out not in str(form)]
        columns = (("k", "INT NOT NULL"), *((f"c{i}", form) for i, form in enumerate(forms)))
        made += [
            _table(f"{file_format} nested", columns, **options),
            _evolved_inside(_ROW, [], f"{file_format} evolved inside a row", **options),
        ]
    return made


def _of_buckets() -> list[Made]:
    """Dynamic buckets, keys that move, rescaled tables, dropped partitions."""
    rng = random.Random("buckets")
    moving: Columns = (("p", "STRING"), *_PLAIN)
    drop: Step = {"by": "java", "op": "drop", "partitions": [{"p": "s:a"}, {"p": "s:c d"}]}
    rescales = [
        step
        for count in (3, 1, 4)
        for step in (
            *(_rows(rng, _DAYS, range(40), deletes=True) for _ in range(2)),
            {"by": "java", "op": "rescale", "buckets": count},
        )
    ]
    small = {"dynamic-bucket.target-row-num": "7"}
    return [
        _table("dynamic buckets", _PLAIN, **small),
        _table("dynamic buckets of partitions", _DAYS, keys=("p", "k"), partitions=("p",), **small),
        _table("dynamic buckets at most two", _PLAIN, **small,
               **{"dynamic-bucket.max-buckets": "2"}),
        _table("dynamic buckets with a dropped partition", _DAYS, keys=("p", "k"),
               partitions=("p",), steps=[*_steps(rng, _DAYS), drop, *_steps(rng, _DAYS)], **small),
        _table("keys that move", moving, partitions=("p",), **small),
        _table("keys that move of two partition columns", (("q", "INT"), *moving),
               partitions=("p",), **small),
        _table("keys that move and a whole overwrite", moving, partitions=("p",),
               steps=[*_steps(rng, moving), _overwrite(rng, moving), _rows(rng, moving, range(9))],
               **small),
        _table("keys that move and a dropped partition", moving, partitions=("p",),
               steps=[*_steps(rng, moving), drop, *_steps(rng, moving)], **small),
        _table("rescaled", _DAYS, keys=("p", "k"), partitions=("p",), steps=rescales, bucket="2"),
        _table("dropped partitions", _DAYS, keys=("p", "k"), partitions=("p",), bucket="2",
               steps=[*_steps(rng, _DAYS), drop, *_steps(rng, _DAYS)]),
    ]  # fmt: skip


def _overwrite(rng: random.Random, columns: Columns) -> Step:
    rows = _rows(rng, columns, range(30))["rows"]
    return {"by": "java", "op": "overwrite", "dynamic": False, "rows": rows}


def _of_file_indexes() -> list[Made]:
    """Every kind of index, in side-car files and in the manifest, over columns of each type."""
    made = []
    hashed = [n for n, t in _WIDE[1:] if not str(t).startswith(("DECIMAL", "BOOLEAN"))]
    ordered = [n for n, t in _WIDE[1:] if str(t).split()[0] in BITMAPPED]
    for place, threshold in (("side-car", "1 b"), ("manifest", "1 mb")):
        size = {"file-index.in-manifest-threshold": threshold}
        made += [
            _table(f"bloom filters in the {place}", _WIDE, keys=(), **size,
                   **{"file-index.bloom-filter.columns": ",".join(hashed)}),
            _table(f"bitmaps in the {place}", _WIDE, keys=(), **size,
                   **{"file-index.bitmap.columns": ",".join(ordered)}),
            _table(f"bit-sliced bitmaps in the {place}", _WIDE, keys=(), **size,
                   **{"file-index.bsi.columns": "k"}),
            _table(f"range bitmaps in the {place}", _WIDE, keys=(), **size,
                   **{"file-index.range-bitmap.columns": ",".join(ordered)}),
        ]  # fmt: skip
    return [
        *made,
        _table("bloom filters of upserts", _PLAIN, bucket="1",
               **{"file-index.bloom-filter.columns": "k,v,n"}),
        _evolved("bloom filters evolved", bucket="1", **{"file-index.bloom-filter.columns": "k"}),
    ]  # fmt: skip


BITMAPPED = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE")


def _compact(*, full: bool) -> Step:
    return {"by": "java", "op": "compact", "full": full}


def judged(made: Made, java: JavaPeer, warehouse: Path) -> Verdict:
    """Have Java make a table in a new warehouse, and read it at every snapshot."""
    outcome = run(made.program, java, warehouse)
    if outcome.failure is not None:
        failure = outcome.failure
        return Verdict(made.name, "tidelake", DIFFERS, f"{failure.word}: {failure.detail}")
    return Verdict(made.name, "tidelake", EQUAL, f"{outcome.snapshots} snapshots")


def made_by_java() -> list[Made]:
    """All of them."""
    return [
        *map(_as_value, KINDS),
        *(_as_key(k) for k in KINDS if k.key and k.type not in {"FLOAT", "DOUBLE"}),
        *(_as_partition(k) for k in KINDS if k.partition and k.type != "DATE"),
        *(replace(_as_value(kind_of(form)), name=f"java value {name}") for name, form in _NESTED),
        _evolved("evolved", bucket="2"),
        _evolved("evolved dynamic", **{"dynamic-bucket.target-row-num": "9"}),
        _evolved_append(),
        _evolved_inside(_ROW, [], "evolved inside a row", bucket="1"),
        _evolved_inside(
            {"type": "ARRAY", "element": _ROW}, ["element"], "evolved in an array", bucket="1"
        ),
        _evolved_inside(
            {"type": "MAP", "key": "STRING NOT NULL", "value": _ROW},
            ["value"],
            "evolved in a map",
            bucket="1",
        ),
        *_of_formats(),
        *_nested_in_formats(),
        *_of_buckets(),
        *_of_file_indexes(),
    ]
