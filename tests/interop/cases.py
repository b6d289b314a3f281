"""The tables of the interop check, as data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from interop.case import (
    Alter,
    Case,
    Compact,
    Delete,
    Drop,
    Overwrite,
    Rescale,
    Step,
    Tag,
    Truncate,
    Update,
    Values,
    Write,
)
from interop.cells import TypeForm
from interop.merged_cases import merged_cases

DAY_NS = 86_400 * 10**9

PKV = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"}
NAMED_PARTITIONS = {
    "i": "INT",
    "s": "STRING",
    "d": "DATE",
    "t": "TIMESTAMP(6)",
    "n": "DECIMAL(10, 2)",
    "f": "DOUBLE",
    "b": "BOOLEAN",
}


def named_partitions() -> list[Values]:
    """Rows whose partitions' directories have odd names."""
    second = 10**9
    values = [
        (ODD_WORDS[4], 19_000, 1_700_000_000_123_456_000, Decimal("1.50"), 1.0e10, True),
        (" ", -1, 0, Decimal("-0.05"), 0.5, True),
        (None, None, None, None, None, None),
        ("__NONE__x", 0, 60 * second, Decimal(0), -1.5e-7, False),
        ("日本 q?*", 19_723, -second, Decimal("99999999.99"), 123456.75, None),
    ]
    return [(i, *row) for i, row in enumerate(values)]


ODD_WORDS = (
    "a", "", " ", "  two ", "a=b/c%d'[x]{y}^~中", "2024-01-01", "x y:z", "100%", "naïve", "日本",
    "-", "__HIVE__", "q?*", "tab\tnew\nline", "\\", "emoji 🌊",
)  # fmt: skip

SCALARS = {
    "k": "INT NOT NULL",
    "bool": "BOOLEAN",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "i64": "BIGINT",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "dec9": "DECIMAL(9, 2)",
    "dec18": "DECIMAL(18, 6)",
    "dec38": "DECIMAL(38, 10)",
    "text": "STRING",
    "raw": "BYTES",
    "day": "DATE",
    "ts3": "TIMESTAMP(3)",
    "ts6": "TIMESTAMP(6)",
    "ltz": "TIMESTAMP_LTZ(6)",
}

_HASHED = ["k", "i8", "i16", "i32", "i64", "f32", "f64", "text", "raw", "day", "ts3", "ts6", "ltz"]
FILE_INDEXES = {
    "file-index.bloom-filter.columns": ",".join(_HASHED),
    **{f"file-index.bloom-filter.{name}.items": "100" for name in _HASHED},
    "file-index.bitmap.columns": "bool,i8,i32,f64,text,day,ts6",
    "file-index.range-bitmap.columns": "bool,i16,i64,f32,dec9,dec18,text,ts3,ltz",
}

_LAST_DAY, _FIRST_DAY = 2_932_896, -719_162  # 9999-12-31 and 0001-01-01


def scalar_rows() -> list[Values]:
    """Nulls, extremes and oddities of every scalar type."""
    top, low = _LAST_DAY * DAY_NS + 86_399_999_999_000, _FIRST_DAY * DAY_NS
    inf, nan = float("inf"), float("nan")
    return [
        (1, None, *[None] * 15),
        (2, True, 127, 32_767, 2**31 - 1, 2**63 - 1, 3.4028234663852886e38, 1.7976931348623157e308,
         Decimal("9999999.99"), Decimal("999999999999.999999"), Decimal("9" * 28 + ".9999999999"),
         "z" * 40, bytes(range(256)), _LAST_DAY, top - 999_000, top, top),
        (3, False, -128, -32_768, -(2**31), -(2**63), -3.4028234663852886e38, -1.7976931348623157e308,
         Decimal("-9999999.99"), Decimal("-999999999999.999999"), Decimal("-" + "9" * 28 + ".9999999999"),
         "", b"", _FIRST_DAY, low, low, low),
        (4, True, 0, 0, 0, 0, -0.0, -0.0, Decimal(0), Decimal(0), Decimal(0), "\x00nul", b"\x00", 0, 0, 0, 0),
        (5, False, -1, -1, -1, -1, nan, nan, Decimal("-0.01"), Decimal("-0.000001"), Decimal("-1E-10"),
         "日本 🌊 ü", b"\xff\xfe", -1, -1_000_000, -1_000, -1_000),
        (6, None, 1, 1, 1, 1, inf, -inf, Decimal("0.01"), Decimal("0.000001"), Decimal("1E-10"),
         "\U0010ffff" * 20, b"\xff" * 40, 1, 1_000_000, 1_000, 1_000),
        (7, True, 7, 7, 7, 7, 1.401298464324817e-45, 5e-324, Decimal("7.07"), Decimal("7.000007"),
         Decimal("18446744073709551616.5"), "\uffff" * 20 + "tail", b"7" * 17, 19_000,
         1_700_000_000_123_000_000, 1_700_000_000_123_456_000, 1_700_000_000_123_456_000),
    ]  # fmt: skip


def _array(element: TypeForm) -> TypeForm:
    return {"type": "ARRAY", "element": element}


def _map(key: TypeForm, value: TypeForm) -> TypeForm:
    return {"type": "MAP", "key": key, "value": value}


def _row(**fields: TypeForm) -> TypeForm:
    parts = [{"id": 0, "name": name, "type": form} for name, form in fields.items()]
    return {"type": "ROW", "fields": parts}


NESTED = {
    "k": "INT NOT NULL",
    "ints": _array("INT"),
    "words": _array("STRING NOT NULL"),
    "grid": _array(_array("DECIMAL(30, 4)")),
    "counts": _map("STRING NOT NULL", "BIGINT"),
    "by_day": _map("DATE NOT NULL", _array("TIMESTAMP(3)")),
    "point": _row(x="DOUBLE", y="FLOAT NOT NULL", at="TIMESTAMP_LTZ(6)"),
    "people": _array(_row(name="STRING", tags=_map("INT NOT NULL", _row(b="BYTES", f="BOOLEAN")))),
    "deep": _row(a=_row(b=_row(c="TINYINT", d=_array("SMALLINT")))),
    "tail": "STRING",
}


def nested_rows(version: int, keys: Sequence[int]) -> list[Values]:
    """Nulls at every depth, empty lists and maps, several elements."""
    out: list[Values] = []
    for k in keys:
        n = (k * 7 + version) % 11
        texts = [None, "", "ü🌊", "longer than seven bytes", f"v{version}"]
        people = [
            (texts[j % 5], None if j % 3 == 0 else [(i, None if i % 2 else (bytes([i] * j), None if j % 2 else True))
                                                     for i in range(j)])
            for j in range(n % 4)
        ]  # fmt: skip
        out.append((
            k,
            None if n == 0 else [None if i % 3 == 2 else i * k for i in range(n % 5)],
            None if n == 1 else [t or "" for t in texts[: n % 6]],
            None if n == 2 else [None if i == 1 else [Decimal(i * k) / 4, None][: i + 1] for i in range(n % 4)],
            None if n == 3 else [(f"k{i}", None if i == 1 else 2**40 * i - k) for i in range(n % 4)],
            None if n == 4 else [(19_000 + i, None if i == 2 else [i * 10**6, None]) for i in range(n % 4)],
            None if n == 5 else (None if k % 2 else float("nan") if k % 5 == 0 else k / 3, -0.0, None if k % 3 else k * 1_000),
            None if n == 6 else [None if i == 2 else p for i, p in enumerate(people)],
            None if n == 7 else (None,) if n == 8 else ((None,),) if n == 9 else (((k % 100, [None, n]),),),
            texts[n % 5],
        ))  # fmt: skip
    return out


def _with_bags(rows: Sequence[Values]) -> list[Values]:
    """Rows with a multiset as one more column."""
    bags = [None, [], [("a", 1)], [("", 2), ("ü🌊", 3)]]
    return [(*row, bags[i % 4]) for i, row in enumerate(rows)]


VARIANT_NULL_METADATA = bytes.fromhex("010000")


def variant_rows() -> list[Values]:
    """Bytes of the public encoding: null, true, int8 7, "ab", [1], {"a": 1}, absent."""
    plain = VARIANT_NULL_METADATA
    values = ["00", "04", "0c07", "096162", "030100020c01", "0201000000020c01"]
    rows: list[Values] = [
        (i, (bytes.fromhex(v), plain if i < 5 else bytes.fromhex("0101000161")))
        for i, v in enumerate(values)
    ]
    return [*rows, (9, None)]


def _kv_rows(rng: random.Random, keys: Sequence[int], version: int) -> list[Values]:
    return [(k, f"v{version}-{k}", rng.randrange(-1000, 1000) if k % 7 else None) for k in keys]


def _upserts(seed: int, *, commits: int, keys_count: int, per_commit: int) -> list[Step]:
    """Random upserts and deletes of a table (k, v, n)."""
    rng = random.Random(seed)
    steps: list[Step] = [Write(_kv_rows(rng, range(keys_count), 0))]
    for version in range(1, commits):
        keys = rng.sample(range(keys_count + keys_count // 4), per_commit)
        kinds = ["-D" if rng.random() < 0.2 else "+I" for _ in keys]
        steps.append(Write(_kv_rows(rng, keys, version), kinds))
    return steps


def _composite_row(rng: random.Random, version: int) -> Values:
    return (
        rng.choice(ODD_WORDS),
        rng.randrange(-3, 4),
        Decimal(rng.randrange(-500, 500)) / 100,
        19_000 + rng.randrange(3),
        f"v{version}",
        rng.random() * 10 if rng.random() < 0.9 else None,
    )


def _noise_rows(rng: random.Random, keys: Sequence[int]) -> list[Values]:
    """Rows that hardly shrink."""
    return [
        (k, rng.random(), rng.randbytes(12), rng.randbytes(16).hex(), rng.randrange(9))
        for k in keys
    ]


KV = {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}
AKV = {"k": "BIGINT", "v": "STRING", "n": "DOUBLE"}
COMPOSITE = {
    "a": "STRING NOT NULL",
    "b": "INT NOT NULL",
    "c": "DECIMAL(10, 2) NOT NULL",
    "d": "DATE NOT NULL",
    "v": "STRING",
    "x": "DOUBLE",
}
COMPOSITE_KEY = ("a", "b", "c", "d")


def _unique(rows: Sequence[Values], width: int) -> list[Values]:
    return list({row[:width]: row for row in rows}.values())


def _rounded(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.quantize(Decimal("0.1"), rounding="ROUND_HALF_UP")


def _low_byte(value: int | None) -> int | None:
    return None if value is None else (value + 128) % 256 - 128


def altered_append() -> Case:
    """Every kind of change on an append table, values narrowed and read from text among them."""
    first = [(i, i * 37 - 500, f"{i}.{i}", Decimal(i * 7) / 100, "x") for i in range(40)]
    first += [(98, None, None, None, None), (99, 2**31 - 1, "-7", Decimal("99.95"), "")]
    retype = Alter(
        [{"change": "retype", "name": "a", "type": "TINYINT"},
         {"change": "retype", "name": "s", "type": "INT"},
         {"change": "retype", "name": "d", "type": "DECIMAL(6, 1)"}],
        {"k": "BIGINT", "a": "TINYINT", "s": "INT", "d": "DECIMAL(6, 1)", "gone": "STRING"},
        lambda r: (r[0], _low_byte(r[1]), None if r[2] is None else int(r[2].partition(".")[0]),
                   _rounded(r[3]), r[4]),
    )  # fmt: skip
    rename = Alter(
        [{"change": "drop", "name": "gone"},
         {"change": "rename", "name": "a", "to": "gone"},
         {"change": "add", "name": "a", "type": "DATE", "first": True},
         {"change": "move", "name": "s", "after": "a"},
         {"change": "comment", "name": "s", "to": "was text"},
         {"change": "set", "name": "snapshot.num-retained.max", "to": "99"}],
        {"a": "DATE", "s": "INT", "k": "BIGINT", "gone": "TINYINT", "d": "DECIMAL(6, 1)"},
        lambda r: (None, r[2], r[0], r[1], r[3]),
    )  # fmt: skip
    back = Alter(
        [{"change": "retype", "name": "s", "type": "STRING"},
         {"change": "retype", "name": "gone", "type": "DOUBLE"}],
        {"a": "DATE", "s": "STRING", "k": "BIGINT", "gone": "DOUBLE", "d": "DECIMAL(6, 1)"},
        lambda r: (r[0], None if r[1] is None else str(r[1]), r[2],
                   None if r[3] is None else float(r[3]), r[4]),
    )  # fmt: skip
    # texts of the first commit are read as texts again, and so are its numbers
    second = [(i, i % 100, i, Decimal(i) / 10, "y") for i in range(100, 120)]
    third = [(19_000 + i, i, 200 + i, -i, Decimal(i)) for i in range(20)]
    return Case(
        "alter_append",
        {"k": "BIGINT", "a": "INT", "s": "STRING", "d": "DECIMAL(9, 2)", "gone": "STRING"},
        [Write(first), retype, Write(second), rename, Write(third), Compact(), back],
        cannot={"pypaimon": "Failed to parse string: '39.39'"},  # Java reads 39
    )


def altered_pk(*, sequence: str) -> Case:
    """A primary-key table whose key gets another name, its sequence another type, perhaps name."""
    renamed = [{"change": "rename", "name": "seq", "to": sequence}] if sequence != "seq" else []
    rename = Alter(
        [{"change": "rename", "name": "k", "to": "id"},
         *renamed,
         {"change": "retype", "name": sequence, "type": "BIGINT"},
         {"change": "add", "name": "new", "type": "STRING", "after": "id"}],
        {"id": "INT NOT NULL", "new": "STRING", "v": "STRING", sequence: "BIGINT"},
        lambda r: (r[0], None, r[1], r[2]),
        {"k": "id", "seq": sequence},
    )  # fmt: skip
    drop = Alter(
        [{"change": "drop", "name": "v"}, {"change": "move", "name": sequence, "first": True}],
        {sequence: "BIGINT", "id": "INT NOT NULL", "new": "STRING"},
        lambda r: (r[3], r[0], r[1]),
    )
    # they take today's sequence.field for a snapshot whose column had another name
    refusal = "Sequence field: 'at' can not be found"
    others = dict.fromkeys(("java-1.3", "core-2.1", "java-2.1", "pypaimon"), refusal)
    return Case(
        "alter_pk" if sequence == "seq" else "alter_pk_sequence_name",
        {"k": "INT NOT NULL", "v": "STRING", "seq": "INT"},
        [
            Write([(i, f"a{i}", 10) for i in range(50)]),
            Write([(i, f"b{i}", i) for i in range(0, 50, 2)]),
            rename,
            Write([(i, "n", f"c{i}", 2**40 if i % 2 else 5) for i in range(20, 70)]),
            Delete(keys=[(3,), (21,)]),
            drop,
            Compact(),
            Write([(2**41, i, "last") for i in range(0, 80, 3)]),
        ],
        ("k",),
        options={"bucket": "2", "sequence.field": "seq"},
        peer_rows=[(2**42, i, "peer") for i in range(0, 90, 7)],
        cannot=others if renamed else {},
    )


def altered_nested(name: str = "alter_nested", **options: str) -> Case:
    """Fields of rows, of rows in arrays and of values in maps are added, dropped, renamed, retyped."""
    point = _row(x="INT", y="STRING")
    first = [
        (1, (1, "a"), [(1, "b"), None], [("k", 5)]),
        (2, None, None, None),
        (3, (None, None), [], []),
    ]
    change = Alter(
        [{"change": "retype", "name": ["r", "x"], "type": "BIGINT"},
         {"change": "drop", "name": ["r", "y"]},
         {"change": "add", "name": ["r", "z"], "type": "STRING", "first": True},
         {"change": "rename", "name": ["l", "element", "y"], "to": "yy"},
         {"change": "add", "name": ["l", "element", "w"], "type": "INT"}],
        {"k": "INT", "r": _row(z="STRING", x="BIGINT"),
         "l": {"type": "ARRAY", "element": _row(x="INT", yy="STRING", w="INT")},
         "m": _map("STRING NOT NULL", "INT")},
        lambda r: (r[0], r[1] and (None, r[1][0]),
                   r[2] if r[2] is None else [e and (*e, None) for e in r[2]], r[3]),
    )  # fmt: skip
    return Case(
        name,
        {"k": "INT", "r": point, "l": {"type": "ARRAY", "element": point},
         "m": _map("STRING NOT NULL", "INT")},
        [Write(first), change, Write([(4, ("zz", 2**40), [(1, "q", 7)], [("k", 5)])]), Compact()],
        options={key.replace("_", "."): value for key, value in options.items()},
    )  # fmt: skip


_NULLABLE = "it takes the fields of a row in ORC for nullable and fails where they are not"
_WRAPS = "its pyarrow 19 wraps ORC timestamps after 2262 around"
SIZED = {"k": "INT NOT NULL", "c": "CHAR(5)", "v": "VARCHAR(7)", "b": "BINARY(4)"}
_JULIAN = "its Spark writer moves dates before 1582 by the Julian calendar, and reads them so"


SECOND_NS = 1_000_000_000


def _whole_before_1970(rows: Sequence[Values]) -> list[Values]:
    """With whole seconds shortly before 1970: no ORC file that Java reads right holds others."""
    return [tuple(-SECOND_NS if v in (-1_000, -1_000_000) else v for v in row) for row in rows]


def format_cases() -> list[Case]:
    """ORC and Avro files, and several formats in one table."""
    cases = []
    for name, rows in (("orc", _whole_before_1970(scalar_rows())), ("avro", scalar_rows())):
        moved = [(*rows[i][:1], *rows[i - 1][1:]) for i in range(3)]
        options = {"file.format": name, "bucket": "2"}
        wrong = {"pypaimon": _WRAPS} if name == "orc" else {}
        # Java's ORC writer moves times before 1582 by the Julian calendar: it is given later ones
        peer = [(k, *rows[6][1:]) for k in (1, 6, 9)]
        cases += [
            Case(
                f"{name}_append",
                SCALARS,
                [Write(rows), Write(rows[::-1])],
                options={"file.format": name},
                left_out=wrong,
            ),
            Case(
                f"{name}_pk",
                SCALARS,
                [Write(rows), Write(moved)],
                ("k",),
                options=options,
                peer_rows=peer,
                peer_left_out={"java-2.1": _JULIAN},
                left_out=wrong,
            ),
            Case(
                f"{name}_thin",
                KV,
                _upserts(21, commits=5, keys_count=100, per_commit=30),
                ("k",),
                options={
                    **options,
                    "data-file.thin-mode": "true",
                    "metadata.stats-dense-store": "false",
                },
                peer_rows=[(k, f"peer-{k}", k) for k in range(0, 100, 7)],
            ),
            Case(
                f"{name}_sized",
                SIZED,
                [Write([(1, "ab", "abc  ", b"ab"), (2, "abcde", "", b""), (3, None, None, None)])],
                ("k",),
                options={"file.format": name, "bucket": "1"},
                peer_rows=[(7, "xy", "z ", b"q")],
                left_out={"java-2.1": "Spark pads a CHAR that it reads to its length"},
            ),
            Case(
                f"{name}_nested_append",
                NESTED,
                [Write(nested_rows(0, range(60))), Write(nested_rows(1, range(5)))],
                options={"file.format": name},
                left_out={"pypaimon": _NULLABLE} if name == "orc" else {},
            ),
            Case(
                f"{name}_nested_pk",
                NESTED | {"bag": {"type": "MULTISET", "element": "STRING NOT NULL"}},
                [
                    Write(_with_bags(nested_rows(0, range(80)))),
                    Write(_with_bags(nested_rows(1, range(0, 90, 3)))),
                    *(Write(_with_bags(nested_rows(v, range(v, 40, 5)))) for v in range(3, 9)),
                ],
                ("k",),
                options=options,
                peer_rows=_with_bags(nested_rows(20, range(0, 100, 4))),
                peer_left_out={"java-2.1": "the check has no SQL for nested cells"},
                cannot={"pypaimon": "MULTISET"},
                left_out={"java-2.1": "its Spark reader throws on MULTISET"},
            ),
            altered_nested(f"alter_nested_{name}", file_format=name),
        ]
    cases += [
        Case("thin_parquet", COMPOSITE, [Write(_unique([(w, i % 3, Decimal(i) / 4, 19_000 + i, f"v{v}", i / 7)
                                                        for i, w in enumerate(ODD_WORDS)], 4)) for v in range(3)],
             COMPOSITE_KEY, options={"bucket": "2", "data-file.thin-mode": "true"}),
        Case("formats_per_level", KV, _upserts(22, commits=12, keys_count=200, per_commit=60), ("k",),
             options={"bucket": "1", "file.format": "orc", "file.format.per.level": "0:avro,5:parquet",
                      "file.compression.per.level": "0:snappy", "metadata.stats-mode.per.level": "0:none",
                      "file.suffix.include.compression": "true"},
             peer_rows=[(k, f"peer-{k}", k) for k in range(0, 100, 7)]),
        Case("stats_by_column", COMPOSITE, [Write([("a", 1, Decimal(1), 2, "v" * 40, 1.5), ("b", 1, Decimal(2), 2, None, None)])],
             COMPOSITE_KEY, options={"bucket": "1", "fields.v.stats-mode": "full", "fields.x.stats-mode": "none",
                                     "metadata.stats-keep-first-n-columns": "3"}),
    ]  # fmt: skip
    return [replace(case, full_only=True) for case in cases]


def engine_cases() -> list[Case]:
    """Tables whose rows are merged column by column."""
    rng = random.Random(97)
    spoken = [word for word in ODD_WORDS if word.strip()]  # listagg of 2.x passes over blank texts

    def some(value: Any) -> Any:
        return None if rng.random() < 0.4 else value

    def parts(count: int) -> list[Values]:
        return [
            (k, some(rng.random()), some(rng.randrange(1_000)), some(rng.choice(ODD_WORDS)))
            for k in rng.sample(range(120), count)
        ]

    def grouped(version: int) -> list[Values]:
        return [
            (k, rng.randrange(100), some(version + rng.choice([-2, 0, 1])), some(f"v{version}"),
             some(version), rng.choice(["x", "y"]), rng.randrange(50), some(f"other{version}"))
            for k in rng.sample(range(60), 40)
        ]  # fmt: skip

    def measured() -> list[Values]:
        return [
            (k, some(rng.randrange(-50, 50)), some(rng.choice([1.0, 2.0, 0.5])), some(Decimal(rng.randrange(-900, 900)) / 100),
             some(rng.random()), some(f"m{rng.randrange(99)}"), some(rng.random() < 0.5), some(rng.choice(spoken)),
             some([rng.randrange(5) for _ in range(rng.randrange(3))]), some(rng.randrange(9)), some(rng.randrange(9)))
            for k in rng.sample(range(80), 50)
        ]  # fmt: skip

    def corrected(base: int) -> list[Write]:
        # in two commits: a writer merges the rows of one before older ones are met
        keys = range(0, 40, 3)
        taken = [(k, k + base, [k % 3], f"t{k}") for k in keys]
        added = [(k, k * 2, [k % 3, base], None) for k in keys]
        return [Write(taken, ["-U"] * len(keys)), Write(added, ["+U"] * len(keys))]

    shows = "shows values of the row that deletes again (ADR 19)"
    after_a_delete = dict.fromkeys(("core-2.1", "java-2.1"), shows)
    first_delete = dict.fromkeys(
        ("core-2.1", "java-2.1"), "shows values of a -D that removes nothing"
    )
    pypaimon_cannot = {"pypaimon": "does not yet implement"}
    partial_update = {"merge-engine": "partial-update", "bucket": "2"}
    aggregation = {"merge-engine": "aggregation", "bucket": "2"}
    groups = {
        "fields.g.sequence-group": "a,t",
        "fields.h1,h2.sequence-group": "n",
        "fields.a.aggregate-function": "sum",
        "fields.n.aggregate-function": "max",
        "fields.n.ignore-retract": "true",
    }
    grouped_columns = {"k": "BIGINT NOT NULL", "a": "BIGINT", "g": "INT", "t": "STRING",
                       "h1": "INT", "h2": "STRING", "n": "INT", "o": "STRING"}  # fmt: skip
    half_not_null = {"k": "INT NOT NULL", "g": "INT", "a": "INT",
                     "h1": "INT NOT NULL", "h2": "INT", "b": "INT"}  # fmt: skip
    deletes = [(k, 5, 9, "gone", 9, "y", 1, None) for k in range(0, 60, 4)]
    measures = {"k": "INT NOT NULL", "s": "BIGINT", "p": "DOUBLE", "d": "DECIMAL(12, 2)", "x": "DOUBLE", "l": "STRING",
                "b": "BOOLEAN", "j": "STRING", "c": {"type": "ARRAY", "element": "INT"}, "f": "INT", "q": "INT"}  # fmt: skip
    by = {"s": "sum", "p": "product", "d": "sum", "x": "max", "l": "min", "b": "bool_or", "j": "listagg", "c": "collect",
          "f": "first_non_null_value", "q": "last_value"}  # fmt: skip
    functions = {f"fields.{name}.aggregate-function": function for name, function in by.items()}
    corrections = {
        "k": "INT NOT NULL",
        "s": "BIGINT",
        "c": {"type": "ARRAY", "element": "INT"},
        "t": "STRING",
    }
    return [
        Case("partial_update", {"k": "INT NOT NULL", "a": "DOUBLE", "b": "INT", "c": "STRING"},
             [Write(parts(80)), Write(parts(60)), Compact(), *(Write(parts(50)) for _ in range(7))], ("k",), compacts=True,
             viewed=True, options=partial_update, peer_rows=parts(50)),
        Case("partial_update_removed", {"k": "INT NOT NULL", "a": "DOUBLE", "b": "INT", "c": "STRING"},
             [Write(parts(80)), Write(parts(60)), Write([(k, None, 1, "x") for k in range(0, 120, 3)], ["-D"] * 40), Write(parts(30)), Compact()],
             ("k",), options={**partial_update, "partial-update.remove-record-on-delete": "true"}, peer_rows=parts(20),
             cannot=pypaimon_cannot, left_out=after_a_delete),
        Case("partial_update_groups", grouped_columns, [*(Write(grouped(v)) for v in range(6)), Write(deletes, ["-D"] * 15), Write(grouped(6))],
             ("k",), options={**partial_update, **groups}, peer_rows=grouped(7), cannot=pypaimon_cannot),
        Case("partial_update_late_insert", {"k": "INT NOT NULL", "v": "INT", "g": "INT", "m": "INT"},
             [Write([(1, 5, 1, 7)], ["-D"]), Write([(1, None, 2, 8)]), Write([(2, 5, 1, 7)])], ("k",),
             options={**partial_update, "fields.g.sequence-group": "m"}, cannot=pypaimon_cannot, left_out=first_delete),
        Case("partial_update_groups_removed", grouped_columns,
             [*(Write(grouped(v)) for v in range(4)), Compact(), Write(deletes, ["-D"] * 15), Write(grouped(5))], ("k",),
             options={**partial_update, **groups, "partial-update.remove-record-on-sequence-group": "g"}, full_only=True,
             cannot=pypaimon_cannot, left_out=after_a_delete),
        Case("partial_update_groups_not_null", half_not_null,
             [Write([(k, 1, 1, 1, 5, 1) for k in range(40)]), Write([(k, 2, 0, 1, 5, None) for k in range(0, 40, 2)], ["-D"] * 20),
              Write([(k, 3, 3, 1, 2 if k % 3 else 7, 7) for k in range(40)])], ("k",),
             options={**partial_update, "fields.g.sequence-group": "a", "fields.h1,h2.sequence-group": "b",
                      "partial-update.remove-record-on-sequence-group": "g"},
             cannot=pypaimon_cannot, left_out=after_a_delete),
        Case("aggregation", measures, [*(Write(measured()) for _ in range(4)), Compact(), *(Write(measured()) for _ in range(8))], ("k",), compacts=True,
             options={**aggregation, **functions}, peer_rows=measured(),
             peer_left_out={"java-2.1": "the check's end of Spark writes no arrays"}),
        Case("aggregation_corrected", corrections,
             [Write([(k, k, [k % 3, 7], f"t{k}") for k in range(40)]), *corrected(0), *corrected(1)], ("k",),
             options={**aggregation, "fields.s.aggregate-function": "sum", "fields.c.aggregate-function": "collect"},
             cannot={"pypaimon": "does not yet implement retract"}),
        Case("aggregation_removed", {"k": "INT NOT NULL", "s": "BIGINT", "m": "INT"},
             [Write([(k, k, k) for k in range(40)]), Write([(k, 1, -k) for k in range(40)]), Write([(k, 0, 0) for k in range(0, 40, 3)], ["-D"] * 14),
              Write([(k, 5, k) for k in range(0, 40, 6)])], ("k",),
             options={**aggregation, "fields.s.aggregate-function": "sum", "fields.m.aggregate-function": "max",
                      "aggregation.remove-record-on-delete": "true"},
             cannot=pypaimon_cannot),
        Case("aggregation_sequence", {"k": "INT NOT NULL", "v": "STRING", "n": "INT", "at": "INT"},
             [Write([(k, f"{v}", v, rng.randrange(9)) for k in range(30)]) for v in range(6)], ("k",),
             options={**aggregation, "sequence.field": "at", "fields.v.aggregate-function": "last_value",
                      "fields.n.aggregate-function": "max"}, full_only=True),
        *_lookup_cases(),
        *_marked_cases(),
    ]  # fmt: skip


def _moving_engine_cases() -> list[Case]:
    """Keys that may move, under engines that keep them where they first came."""
    columns = {"p": "STRING", "k": "INT NOT NULL", "a": "INT", "b": "INT"}
    small = {"dynamic-bucket.target-row-num": "12"}
    # without it Java shows a row that is taken back without its partition
    kept = {"fields.p.ignore-retract": "true"}
    # no "/": Java 2.1 names a local file of its lookups after the partition, and fails
    names = ("a", "b", "c=d", None)

    def rows(version: int) -> list[Values]:
        return [
            (
                names[(k + version) % 4],
                k,
                k if (k + version) % 3 else None,
                version if k % 2 else None,
            )
            for k in range(version * 7, 60 + version * 11, 1 + version)
        ]

    def case(name: str, engine: str, *steps: Step, **options: str) -> Case:
        fields = {f"fields.{k}.aggregate-function": v for k, v in options.items()}
        if engine == "aggregation":
            fields |= kept
        return Case(name, columns, [*(Write(rows(v)) for v in range(4)), *steps, Write(rows(4))],
                    ("k",), ("p",), {**small, "merge-engine": engine, **fields},
                    peer_rows=rows(5),
                    cannot={"pypaimon": "fields.p.ignore-retract"} if engine == "aggregation" else {})  # fmt: skip

    return [
        case("pk_moving_partial_update", "partial-update", Compact()),
        case("pk_moving_aggregation", "aggregation",
             Write([(names[k % 3], k, 1, None) for k in range(0, 50, 3)], ["-U"] * 17),
             a="sum", b="last_value"),
        case("pk_moving_first_row", "first-row"),
    ]  # fmt: skip


def _lookup_cases() -> list[Case]:
    """Tables whose compactions look keys up: rows of a key stay in higher levels."""
    lookup = {
        "bucket": "2",
        "changelog-producer": "lookup",
        "num-sorted-run.compaction-trigger": "4",
    }
    peer = [(k, f"peer-{k}", k) for k in range(0, 100, 7)]
    commits = {"keys_count": 100, "per_commit": 30}
    rng = random.Random(35)
    return [
        Case("first_row", KV, _upserts(31, commits=7, **commits), ("k",), viewed=True,
             options={"bucket": "2", "merge-engine": "first-row", "ignore-delete": "true"}, peer_rows=peer),
        Case("lookup_first_row", KV, _upserts(32, commits=4, **commits), ("k",),
             options={**lookup, "merge-engine": "first-row", "ignore-delete": "true"}, peer_rows=peer),
        Case("lookup_deduplicate", KV,
             [*_upserts(33, commits=6, **commits), Delete(keys=[(k,) for k in range(0, 90, 11)]), *_upserts(34, commits=3, **commits)],
             ("k",), compacts=True, options=lookup, peer_rows=peer),
        Case("lookup_sequence", KV,
             [Write(_kv_rows(rng, rng.sample(range(100), 40), v)) for v in range(7)], ("k",),
             options={**lookup, "sequence.field": "n"}, peer_rows=peer, full_only=True),
        Case("lookup_partial_update", KV,
             [Write([(k, f"{v}" if (k + v) % 3 else None, v if (k + v) % 2 else None) for k in range(v, 60, 2)]) for v in range(8)],
             ("k",), options={**lookup, "merge-engine": "partial-update"}, peer_rows=peer),
        Case("lookup_aggregation", {"k": "INT NOT NULL", "s": "BIGINT", "m": "INT"},
             [Write([(k, v, k % (v + 2)) for k in range(v, 70, 1 + v % 3)]) for v in range(9)], ("k",), compacts=True,
             options={**lookup, "merge-engine": "aggregation", "fields.s.aggregate-function": "sum", "fields.m.aggregate-function": "max"},
             peer_rows=[(k, 1000, 7) for k in range(0, 90, 4)],
             left_out={"pypaimon": "it merges rows of higher levels that lower ones hold merged"}),
    ]  # fmt: skip


def _marked_cases() -> list[Case]:
    """Tables whose compactions mark the older row of a key in a deletion vector."""
    marked = {"bucket": "1", "deletion-vectors.enabled": "true"}
    lookup = {**marked, "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "4"}
    peer = [(k, f"peer-{k}", k) for k in range(0, 1300, 7)]
    unseen = {"pypaimon": "it compacts nothing, so what it writes waits in level 0"}
    commits = {"keys_count": 1_000, "per_commit": 40}
    add = [
        (k, v, k % (v + 2))
        for v, step in enumerate((1, 7, 9, 11, 13))
        for k in range(v, 1_500, step)
    ]
    return [
        Case("marked_deduplicate", KV,
             [*_upserts(41, commits=5, **commits), Delete(keys=[(k,) for k in range(0, 90, 11)]), Delete(where=("n", 77)),
              *_upserts(42, commits=3, **commits)[1:], Compact(), *_upserts(43, commits=3, **commits)[1:]],
             ("k",), compacts=True, options=marked, peer_rows=peer, peer_left_out=unseen),
        Case("marked_lookup_64_bit", KV,
             [*_upserts(44, commits=6, **commits), Delete(keys=[(k,) for k in range(0, 90, 11)])],
             ("k",), compacts=True, options={**lookup, "deletion-vectors.bitmap64": "true"}, peer_rows=peer, peer_left_out=unseen,
             cannot={"pypaimon": "Invalid magic number"}),
        Case("marked_partial_update", KV,
             [Write([(k, f"{v}" if (k + v) % 3 else None, v if (k + v) % 2 else None) for k in range(v, 1_500, 1 + 17 * v)])
              for v in range(5)],
             ("k",), options={**lookup, "merge-engine": "partial-update"}, peer_rows=peer, peer_left_out=unseen),
        Case("marked_aggregation", {"k": "INT NOT NULL", "s": "BIGINT", "m": "INT"},
             [Write([row for row in add if row[1] == v]) for v in range(5)], ("k",), compacts=True,
             options={**marked, "merge-engine": "aggregation", "fields.s.aggregate-function": "sum", "fields.m.aggregate-function": "max"},
             peer_rows=[(k, 1000, 7) for k in range(0, 1_600, 40)], peer_left_out=unseen),
        Case("marked_sequence", KV,
             [Write(_kv_rows(random.Random(v), range(v, 1_200, 1 + 13 * v), v)) for v in range(5)], ("k",),
             options={**marked, "sequence.field": "n"}, peer_rows=peer, peer_left_out=unseen, full_only=True),
        Case("marked_dynamic_partitions", {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"},
             [Write([(p, k, v) for p in "ab" for k in range(v, 900, 1 + 19 * v)]) for v in range(4)]
             + [Delete(keys=[("a", 5), ("b", 19)]), Drop([{"p": "b"}]), Write([("b", 1, 1), ("a", 2, 9)])],
             ("p", "k"), ("p",), options={"deletion-vectors.enabled": "true", "dynamic-bucket.target-row-num": "400"}),
    ]  # fmt: skip


def changelog_cases() -> list[Case]:
    """Tables whose changes are logged."""
    rng = random.Random(53)

    def rows(count: int, version: int) -> list[Values]:
        return [(k, f"v{version}-{k % 3}", k % 5) for k in rng.sample(range(40), count)]

    pairs = [(k, f"{half}{k}", k) for k in range(0, 40, 3) for half in ("old", "new")]
    corrected = Write(pairs, ["-U", "+U"] * 14)
    gone = Write([(k, None, None) for k in range(0, 40, 4)], ["-D"] * 10)
    settled = {"bucket": "1", "num-sorted-run.compaction-trigger": "20"}
    steps = [
        Write(rows(30, 1)),
        Compact(),
        corrected,
        Write(rows(20, 2)),
        gone,
        Compact(),
        Write(rows(9, 3)),
        Compact(),
    ]
    sums = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "max",
        "fields.n.aggregate-function": "sum",
    }
    taken_back = {**sums, "fields.v.ignore-retract": "true"}
    parts = {"merge-engine": "partial-update"}
    halves = [
        [(k, f"{version}" if (k + version) % 3 else None, version if k % 2 else None)
         for k in range(version, 40, 1 + version % 3)]
        for version in range(5)
    ]  # fmt: skip
    return [
        Case("changelog_input", KV, [Write(rows(30, 1)), corrected, gone, Write([*rows(9, 3), *rows(9, 4)])], ("k",), compacts=True,
             options={"bucket": "2", "changelog-producer": "input"}, peer_rows=rows(20, 5)),
        Case("changelog_input_orc", KV, [Write(rows(30, 1)), corrected, gone], ("k",), full_only=True,
             options={"bucket": "2", "changelog-producer": "input", "changelog-file.format": "orc", "changelog-file.prefix": "log-",
                      "changelog-file.compression": "lz4", "changelog-file.stats-mode": "none"}),
        Case("changelog_input_avro", KV, [Write(rows(30, 1)), corrected, gone], ("k",), full_only=True,
             options={"bucket": "1", "changelog-producer": "input", "changelog-file.format": "avro", "data-file.thin-mode": "true"}),
        Case("changelog_lookup", KV, steps, ("k",), compacts=True, options={**settled, "changelog-producer": "lookup"}, peer_rows=rows(20, 5)),
        Case("changelog_full", KV, steps, ("k",), compacts=True, options={**settled, "changelog-producer": "full-compaction"}, peer_rows=rows(20, 5)),
        Case("changelog_full_deduplicated", KV, steps, ("k",),
             options={**settled, "changelog-producer": "full-compaction", "changelog-producer.row-deduplicate": "true",
                      "changelog-producer.row-deduplicate-ignore-fields": "v"}),
        Case("changelog_full_sums", KV, [Write(rows(30, 1)), Compact(), Write(rows(20, 2)), Write(rows(20, 3)), Compact()], ("k",),
             options={**settled, **sums, "changelog-producer": "full-compaction"}, peer_rows=rows(20, 5)),
        Case("changelog_full_parts", KV, [*map(Write, halves[:2]), Compact(), *map(Write, halves[2:4]), Compact()], ("k",), compacts=True,
             options={**settled, **parts, "changelog-producer": "full-compaction"}, peer_rows=halves[4]),
        Case("changelog_input_parts", KV, [Write(halves[0]), Write([*halves[1], *halves[2]]), Compact(), Write(halves[3])], ("k",),
             options={"bucket": "2", **parts, "changelog-producer": "input"}, peer_rows=halves[4]),
        Case("changelog_input_sums", KV, [Write(rows(30, 1)), corrected, Write([*rows(9, 3), *rows(9, 4)])], ("k",),
             options={"bucket": "2", **taken_back, "changelog-producer": "input"}, peer_rows=rows(20, 5),
             cannot={"pypaimon": "does not yet implement"}),
    ]  # fmt: skip


def all_cases() -> list[Case]:
    """Every case; the random ones are the same in every run."""
    rng = random.Random(41)
    append = [
        Write([(i, f"s{i}", i / 3) for i in range(500)]),
        Write([(None, None, None), (-1, "", -0.0)]),
        Write([(i, None, None) for i in range(20)]),
    ]
    marked = {"deletion-vectors.enabled": "true"}
    marks = [Delete(where=("k", 7)), Delete(where=("v", "s11")), Write([(i, "more", 0.5) for i in range(5, 9)]),
             Delete(where=("k", 8)), Delete(where=("v", "more"))]  # fmt: skip
    changed = [Update({"v": "new"}, ("k", 7)), Update({"k": 1_000}, ("v", "s11")), Delete(where=("v", "s3")),
               Write([(7, "again", 1.5)]), Update({"k": None, "v": "newer"}, ("v", "new"))]  # fmt: skip
    words = [(i, word, i % 3) for i, word in enumerate(ODD_WORDS)]
    days = [(19_000 + i % 4, i % 3, i, f"v{i}") for i in range(120)]
    return [
        Case("append", AKV, append, viewed=True),
        Case("append_deleted", AKV, [*append, *marks], options=marked),
        Case("append_deleted_bucketed", AKV, [*append, *marks, Compact(), Delete(where=("k", 9))],
             options={**marked, "bucket": "3", "bucket-key": "k"}),
        Case("append_updated", AKV, [*append, *changed], options={}),
        Case("append_updated_bucketed", AKV, [*append, *changed, Compact(), Update({"v": "late"}, ("k", 12))],
             options={"bucket": "3", "bucket-key": "k"}),
        Case("append_updated_marked", AKV, [*append, *marks, *changed, Compact(), Update({"v": "late"}, ("k", 12))],
             options=marked),
        Case("append_updated_64_bit", AKV, [*append, *marks, *changed, Compact(), Update({"v": "late"}, ("k", 12))],
             options={**marked, "deletion-vectors.bitmap64": "true"}, cannot={"pypaimon": "Invalid magic number"}),
        Case("append_updated_partitions", {"p": "INT", "k": "INT"},
             [Write([(i % 3, i) for i in range(90)]), Update({"p": 7}, ("k", 4)), Delete(where=("k", 5)), Update({"k": 1}, ("p", 0))],
             partition_keys=("p",), options={**marked, "deletion-vector.index-file.target-size": "1 b"}),
        Case("pk_updated", KV, [*_upserts(6, commits=3, keys_count=60, per_commit=30), Update({"v": "new", "n": None}, ("k", 7)),
             Update({"n": 5}, ("v", "new")), Compact(), Update({"v": "late"}, ("n", 5))], ("k",), options={"bucket": "2"}),
        Case("pk_updated_marked", KV, [*_upserts(6, commits=3, keys_count=60, per_commit=30), Update({"v": "new"}, ("k", 7))],
             ("k",), options={"bucket": "1", **marked}),
        Case("append_deleted_64_bit", {"p": "INT", "k": "INT"},
             [Write([(i % 3, i) for i in range(v, v + 90)]) for v in (0, 50, 100)]
             + [Delete(where=("k", k)) for k in (60, 61, 62, 101)] + [Compact(), Delete(where=("k", 150)), Drop([{"p": 1}])],
             partition_keys=("p",), options={**marked, "deletion-vectors.bitmap64": "true",
                                             "deletion-vector.index-file.target-size": "1 b"},
             cannot={"pypaimon": "Invalid magic number"}),
        Case("append_bucketed", AKV, append, options={"bucket": "3", "bucket-key": "k"}),
        Case("append_bucketed_wide_key", {"a": "DECIMAL(30, 4)", "b": "TIMESTAMP(6)", "c": "STRING", "v": "INT"},
             [Write([(Decimal(i) / 8 if i % 5 else None, i * 1_000 if i % 7 else None, ODD_WORDS[i % 16], i)
                     for i in range(200)])],
             options={"bucket": "4", "bucket-key": "a,b,c"}),
        Case("append_wide", {f"c{i:02}": "BIGINT" if i % 2 else "STRING" for i in range(70)},
             [Write([tuple(None if (i + c) % 5 == 0 else (i * c if c % 2 else f"{i}.{c}") for c in range(70))
                     for i in range(50)])]),
        Case("append_no_rows", KV, []),
        Case("append_partition_string", {"i": "INT", "p": "STRING", "n": "INT"},
             [Write(words), Write([(100, None, 0), (101, None, 1), (102, "a", 2)])],
             partition_keys=("p",)),
        Case("append_partition_many", {"i": "INT", "q": "BOOLEAN", "d": "DATE", "l": "BIGINT"},
             [Write([(i, (None, True, False)[i % 3], None if i % 4 == 3 else 19_000 + i % 4, i % 2 - 1)
                     for i in range(48)])],
             partition_keys=("q", "d", "l")),
        Case("pk_int", KV, _upserts(1, commits=6, keys_count=400, per_commit=60), ("k",),
             options={"bucket": "2"},
             peer_rows=[(k, f"peer-{k}", k) for k in range(0, 600, 7)]),
        Case("pk_compacted", KV, _upserts(2, commits=24, keys_count=300, per_commit=40), ("k",), compacts=True, viewed=True,
             options={"bucket": "1"}, peer_rows=[(k, None, -k) for k in range(50)]),
        Case("pk_composite", COMPOSITE,
             [Write(_unique([_composite_row(rng, v) for _ in range(300)], 4)) for v in range(5)],
             COMPOSITE_KEY, options={"bucket": "4"},
             peer_rows=_unique([_composite_row(rng, 99) for _ in range(150)], 4)),
        Case("pk_composite_bucket_key", COMPOSITE,
             [Write(_unique([_composite_row(rng, v) for _ in range(150)], 4)) for v in range(3)],
             COMPOSITE_KEY, options={"bucket": "4", "bucket-key": "d,a"}, full_only=True,
             peer_rows=_unique([_composite_row(rng, 98) for _ in range(100)], 4)),
        Case("pk_wide_key", {"a": "DECIMAL(30, 4) NOT NULL", "b": "TIMESTAMP(6) NOT NULL", "c": "BYTES NOT NULL", "v": "INT"},
             [Write([(Decimal(i % 11 - 5) * 10**20, (i % 7 - 3) * DAY_NS + 1_000, bytes([i % 3] * (i % 20)), i + v)
                     for i in range(231)][:: v + 1]) for v in range(3)],
             ("a", "b", "c"), options={"bucket": "3"}),
        Case("pk_partitioned", {"d": "DATE NOT NULL", "g": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"},
             [Write(days), Write([(19_001, 1, i, "new") for i in range(40)]),
              Write([(*r[:3], None) for r in days[::5]], ["-D"] * len(days[::5]))],
             ("d", "g", "k"), ("d", "g"), {"bucket": "2"},
             peer_rows=[(19_000 + i % 6, i % 3, i, "peer") for i in range(60)]),
        Case("pk_many_buckets", KV, _upserts(3, commits=3, keys_count=900, per_commit=300), ("k",),
             options={"bucket": "64"}),
        Case("pk_delete", KV,
             [*_upserts(4, commits=2, keys_count=60, per_commit=10), Delete([(k,) for k in range(0, 60, 2)]),
              Delete(where=("v", "v0-3")), Write([(0, "back", 0)]), Delete([(k,) for k in range(80)])],
             ("k",), options={"bucket": "2"}),
        Case("pk_ignore_delete", KV, _upserts(5, commits=4, keys_count=60, per_commit=30), ("k",),
             options={"bucket": "1", "ignore-delete": "true"}, full_only=True),
        Case("pk_overwrite", {"p": "STRING NOT NULL", **KV},
             [Write([(f"p{i % 4}", i, f"a{i}", i) for i in range(80)]),
              Overwrite([("p1", 1, "dyn", 1), ("p9", 2, "dyn", 2)], dynamic=True),
              Overwrite([("p2", 5, "stat", 5)], partition={"p": "p2"}),
              Overwrite([], partition={"p": "p3"}),
              Overwrite([("p0", 7, "all", 7)])],
             ("p", "k"), ("p",), {"bucket": "2"}),
        Case("append_overwrite", {"p": "INT", **AKV},
             [Write([(i % 4 if i % 5 else None, i, f"a{i}", None) for i in range(80)]),
              Overwrite([(1, 1, "dyn", 1.0), (9, 2, "dyn", 2.0), (None, 3, "dyn", 3.0)], dynamic=True),
              Overwrite([(2, 5, "stat", 5.0)], partition={"p": 2}),
              Overwrite([(0, 7, "all", 7.0)])],
             partition_keys=("p",)),
        Case("pk_dynamic", KV, [*_upserts(3, commits=4, keys_count=400, per_commit=60),
                                Write([(k, None, 0) for k in range(0, 400, 9)], ["-D"] * 45)], ("k",),
             options={"dynamic-bucket.target-row-num": "50"},
             peer_rows=[(k, f"peer-{k}", k) for k in range(0, 600, 7)]),
        Case("pk_dynamic_partitioned", {"d": "INT NOT NULL", "k": "STRING NOT NULL", "v": "INT"},
             [Write([(19_000 + i % 3, f"key-{i}", i) for i in range(90)]),
              Write([(19_000 + i % 3, f"key-{i}", -i) for i in range(0, 120, 2)]),
              Overwrite([(19_001, f"key-{i}", i) for i in range(50)], partition={"d": 19_001}),
              Write([(19_001, f"key-{i}", 7) for i in range(30, 70)])],
             ("d", "k"), ("d",), {"dynamic-bucket.target-row-num": "20", "dynamic-bucket.max-buckets": "3"},
             peer_rows=[(19_000 + i % 4, f"key-{i}", 99) for i in range(100)]),
        Case("pk_moving", {"p": "STRING", "k": "INT NOT NULL", "v": "INT"},
             [Write([(f"p{i % 3}", i, i) for i in range(60)]),
              Write([(f"p{i % 2}" if i % 7 else None, i, -i) for i in range(0, 90, 2)]),
              Write([("p9", i, 0) for i in range(0, 60, 9)], ["-D"] * 7),
              Delete(keys=[(i,) for i in range(1, 60, 11)]),
              Drop([{"p": "p1"}])],
             ("k",), ("p",), {"dynamic-bucket.target-row-num": "12"},
             peer_rows=[(f"p{i % 4}", i, 99) for i in range(0, 100, 3)]),
        *_moving_engine_cases(),
        Case("pk_sequence", {"k": "INT NOT NULL", "v": "STRING", "seq": "BIGINT"},
             [Write([(k, "first", 10) for k in range(50)]),
              Write([(k, "late", 9) if k % 3 else (k, "newer", 11) for k in range(50)]),
              Write([(k, "null", None) for k in range(0, 60, 4)]),
              Write([(k, "equal", 11) for k in range(0, 50, 2)])],
             ("k",), options={"bucket": "2", "sequence.field": "seq"}),
        Case("pk_sequence_descending", {"k": "INT NOT NULL", "v": "STRING", "seq": "BIGINT"},
             [Write([(k, "first", 10) for k in range(50)]),
              Write([(k, "late", 9) if k % 3 else (k, "newer", 11) for k in range(50)])],
             ("k",), full_only=True, alone=True,
             options={"bucket": "2", "sequence.field": "seq", "sequence.field.sort-order": "descending"}),
        Case("types_append", SCALARS, [Write(scalar_rows()), Write(scalar_rows()[::-1])]),
        Case("types_pk", SCALARS, [Write(scalar_rows()), Write([(*scalar_rows()[i][:1], *scalar_rows()[i - 1][1:])
                                                              for i in range(3)])],
             ("k",), options={"bucket": "2"}, peer_rows=scalar_rows()[2:5],
             peer_left_out={"java-2.1": "its Spark writer moves dates before 1582 by the Julian calendar, and reads them so"}),
        Case("types_pk_recent", SCALARS, [Write(scalar_rows())], ("k",), options={"bucket": "1"}, full_only=True,
             peer_rows=scalar_rows()[3:]),
        Case("types_precision", {"k": "INT NOT NULL", "t0": "TIMESTAMP(0)", "l0": "TIMESTAMP_LTZ(0)", "l3": "TIMESTAMP_LTZ(3)"},
             [Write([(1, None, None, None), (2, 10**9, 10**9, 10**6), (3, -(10**9), -(10**9), -(10**6))])],
             ("k",), options={"bucket": "1"}),
        Case("types_nanoseconds", {"k": "INT NOT NULL", "t9": "TIMESTAMP(9)", "l9": "TIMESTAMP_LTZ(9)"},
             [Write([(1, None, None), (2, 1_700_000_000_123_456_789, -1), (3, -1, 1)])],
             ("k",), options={"bucket": "1"},
             left_out={"java-2.1": "Spark's timestamps end at the microsecond"}),
        Case("types_time", {"k": "INT", "t": "TIME(3)"},
             [Write([(1, None), (2, 0), (3, 86_399_999), (4, 3_600_001)])],
             left_out={"java-2.1": "Spark 4.1 has no TIME: the reader gives INT"}),
        Case("types_sized", {"k": "INT", "c": "CHAR(4)", "v": "VARCHAR(10)", "b": "BINARY(3)", "w": "VARBINARY(9)"},
             [Write([(1, None, None, None, None), (2, "abcd", "日本", b"\x00\x01\x02", b""), (3, "日本日本", "", b"\xff" * 3, b"12345")])]),
        Case("nested_append", NESTED, [Write(nested_rows(0, range(60))), Write(nested_rows(1, range(5)))]),
        Case("nested_pk", NESTED,
             [Write(nested_rows(0, range(80))), Write(nested_rows(1, range(0, 90, 3))),
              Write(nested_rows(2, range(5)), ["-D"] * 5), *(Write(nested_rows(v, range(v, 40, 5))) for v in range(3, 9))],
             ("k",), options={"bucket": "2"}, peer_rows=nested_rows(20, range(0, 100, 4)),
             peer_left_out={"java-2.1": "the check has no SQL for nested cells"}),
        Case("nested_multiset", {"k": "INT NOT NULL", "m": {"type": "MULTISET", "element": "STRING NOT NULL"}},
             [Write([(1, None), (2, []), (3, [("a", 1), ("b", 3)])])], ("k",), options={"bucket": "1"},
             peer_rows=[(3, [("z", 9)]), (4, [("", 2)])],
             peer_left_out={"java-2.1": "the check has no SQL for nested cells"},
             cannot={"pypaimon": "MULTISET"}, left_out={"java-2.1": "its Spark reader throws on MULTISET"}),
        Case("variant", {"k": "INT NOT NULL", "v": "VARIANT"}, [Write(variant_rows()), Write(variant_rows()[2:4])],
             ("k",), options={"bucket": "1"}, peer_rows=[(2, variant_rows()[3][1]), (77, None), (78, variant_rows()[5][1])],
             peer_left_out={"java-2.1": "the check has no SQL for nested cells"}),
        altered_append(), altered_pk(sequence="seq"), altered_pk(sequence="at"), altered_nested(),
        Case("postpone", PKV,
             [Write([(p, k, "first") for p in "ab" for k in range(40)]), Write([("a", k, "second") for k in range(0, 40, 3)]),
              Write([("b", k, None) for k in range(5)], ["-D"] * 5), Compact(), Write([("b", 1, "waits")])],
             ("p", "k"), ("p",), {"bucket": "-2", "postpone.default-bucket-num": "3"},
             peer_rows=[("a", k, "peer") for k in range(0, 50, 5)]),
        Case("postpone_rescaled", PKV,
             [Write([("a", k, "first") for k in range(40)]), Compact(), Rescale(4), Write([("a", k, "second") for k in range(9)]),
              Compact()],
             ("p", "k"), ("p",), {"bucket": "-2"}, full_only=True),
        Case("rescaled", PKV,
             [Write([(p, k, "first") for p in "ab" for k in range(60)]), Write([("a", k, None) for k in range(9)], ["-D"] * 9),
              Rescale(3, [{"p": "a"}]), Write([("a", k, "second") for k in range(0, 60, 7)]), Rescale()],
             ("p", "k"), ("p",), {"bucket": "2"}, peer_rows=[(p, k, "peer") for p in "abc" for k in range(0, 70, 3)]),
        Case("rescaled_append", PKV, [Write([("a", k % 7, str(k)) for k in range(50)]), Rescale(4)],
             options={"bucket": "2", "bucket-key": "k"}, full_only=True),
        Case("buckets_mod", {"k": "BIGINT NOT NULL", "v": "STRING"}, [Write([(k, str(k)) for k in range(-30, 30)])], ("k",),
             options={"bucket": "4", "bucket-function.type": "mod"}, peer_rows=[(k, "peer") for k in range(-40, 40, 3)]),
        Case("buckets_hive", {"k": "STRING NOT NULL", "n": "DECIMAL(12, 3) NOT NULL", "v": "STRING"},
             [Write([(f"key-{k}", Decimal(k) / 8, str(k)) for k in range(60)])], ("k", "n"),
             options={"bucket": "4", "bucket-function.type": "hive"},
             peer_rows=[(f"key-{k}", Decimal(k) / 8, "peer") for k in range(0, 70, 3)],
             cannot={"java-1.3": "(?i)hive|bucket"}, peer_left_out={"java-1.3": "it does not have the function"}),
        *(Case(f"partition_names_{name}", NAMED_PARTITIONS,
               [Write(named_partitions()), Drop([{"s": "a=b/c%d'[x]{y}^~中"}, {"t": 0, "b": True}]),
                Write(named_partitions()[:3])],
               partition_keys=tuple(NAMED_PARTITIONS)[1:],
               options={"partition.legacy-name": legacy, "partition.default-name": "__NONE__"},
               peer_rows=named_partitions(), full_only=legacy == "true")
          for name, legacy in (("java", "true"), ("sql", "false"))),
        Case("truncated", KV, [Write([(k, "x", k) for k in range(9)]), Truncate(), Write([(3, "y", 0)])], ("k",),
             options={"bucket": "2"}),
        Case("file_index_every_type", SCALARS,
             [Write(scalar_rows()), Write([(k, *scalar_rows()[k % 7][1:]) for k in range(10, 90)])],
             options=FILE_INDEXES, full_only=True),
        Case("file_index_pk", KV, _upserts(31, commits=6, keys_count=300, per_commit=60), ("k",),
             options={"bucket": "2", "file-index.bloom-filter.columns": "k,v", "file-index.bloom-filter.k.items": "300",
                      "file-index.bloom-filter.v.items": "300", "file-index.bitmap.columns": "n"},
             peer_rows=[(k, f"peer-{k}", k) for k in range(0, 400, 9)]),
        Case("tags", KV, [Write([(1, "a", 1)]), Tag("first"), Write([(1, "b", 2), (2, "c", 3)]),
                          Tag("second-tag"), Write([(2, None, None)], ["-D"])],
             ("k",), options={"bucket": "1"}),
        Case("stats_none", KV, _upserts(6, commits=3, keys_count=50, per_commit=20), ("k",),
             options={"bucket": "1", "metadata.stats-mode": "none"}),
        Case("stats_full", KV, _upserts(7, commits=3, keys_count=50, per_commit=20), ("k",),
             options={"bucket": "1", "metadata.stats-mode": "full"}, full_only=True),
        *(Case(f"compression_{name}", KV, _upserts(8, commits=2, keys_count=3000, per_commit=500), ("k",),
               options={"bucket": "1", "file.compression": name}, full_only=name in {"gzip", "none"})
          for name in ("snappy", "lz4", "gzip", "none")),
        Case("compression_by_column", {"k": "BIGINT NOT NULL", "noise": "DOUBLE", "raw": "BYTES", "uuid": "STRING", "n": "INT"},
             [Write(_noise_rows(rng, range(6_000))), Write(_noise_rows(rng, range(0, 6_000, 7)))],
             ("k",), options={"bucket": "1"}, peer_rows=_noise_rows(rng, range(0, 6_000, 500))),
        *engine_cases(),
        *merged_cases(),
        *changelog_cases(),
        *format_cases(),
        Case("write_only", KV, _upserts(9, commits=12, keys_count=100, per_commit=30), ("k",),
             options={"bucket": "1", "write-only": "true"}, peer_rows=[(k, "peer", k) for k in range(40)]),
        Case("pk_large", COMPOSITE,
             [Write(_unique([(f"{i * 7919 % 50_000:06}", i % 5, Decimal(i % 100) / 4, 19_000 + i % 30, f"v{v}", i / 7)
                             for i in range(v * 9_000, v * 9_000 + (60_000, 12_000, 12_000)[v])], 4)) for v in range(3)],
             COMPOSITE_KEY, options={"bucket": "2", "target-file-size": "256 kb", "write-buffer-size": "4 mb"},
             full_only=True),
        Case("append_large", AKV, [Write([(i, f"text {i % 1000}", i * 0.5) for i in range(v, 200_000, 2)]) for v in range(2)],
             options={"target-file-size": "512 kb"}, full_only=True),
    ]  # fmt: skip


def small_cases() -> list[Case]:
    """The cases of the run in CI."""
    return [case for case in all_cases() if not case.full_only]
