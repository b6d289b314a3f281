"""What may be drawn: types, kinds of tables, options, steps. New features are one more line here.

Nested types are drawn too (``nested_kind``): their form is random, their leaves are these types.
``covered=False`` marks what Tidelake does not cover yet: a table with it may be refused, and is
expected to be read and written right where it is not.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from interop.cells import TypeForm

DAY_NS = 86_400 * 10**9
YEAR_1_DAY, YEAR_9999_DAY = -719_162, 2_932_896
WORDS = (
    "", " ", "a", "b", "ab", "A", "a\x00", "a\x00b", "longer than seven bytes", "x" * 300, "日本",
    "é", "e\u0301", "\U0001f600", "a/b=c%d", "'\"\\", "null", "__DEFAULT_PARTITION__", "\n", "\x7f",
    "\uffff", "-1", "1.0",
)  # fmt: skip
DIRECTORY_WORDS = (
    "", " ", "a", "b", "A", "a/b", "a=b", "x%2Fy", "é", "日本", "'q'", "a b", "..", ".", "-1", "\\",
    "\n",
)  # fmt: skip
"""Values that become names of directories."""


def _whole(bits: int) -> Callable[[random.Random], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda r: r.choice([0, 1, -1, low, high, r.randint(low, high), r.randint(-9, 9)])


def _decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    most = 10**precision - 1

    def draw(r: random.Random) -> Decimal:
        digits = r.choice([0, 1, -1, most, -most, r.randint(-most, most)])
        return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))

    return draw


def _double(r: random.Random) -> float:
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        5e-324,
        1.7976931348623157e308,
    ]
    return r.choice([*edges, r.uniform(-1, 1), r.gauss(0, 1e10)])


def _float(r: random.Random) -> float:
    edges = [
        0.0,
        -0.0,
        0.1,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e-45,
        3.4028234663852886e38,
    ]
    return struct.unpack("f", struct.pack("f", r.choice([*edges, r.uniform(-1, 1)])))[0]


def _text(length: int | None = None) -> Callable[[random.Random], str]:
    return lambda r: r.choice(WORDS)[:length]


def _char(length: int) -> Callable[[random.Random], str]:
    return lambda r: "".join(r.choice("aé日 zZ") for _ in range(length))


def _bytes(length: int | None = None, *, fixed: bool = False) -> Callable[[random.Random], bytes]:
    if fixed:
        return lambda r: r.randbytes(length or 0)
    pool = (b"", b"\0", b"\0\0", b"\xff" * 9, b"a", b"\x7f\x80")
    return lambda r: r.choice([*pool, r.randbytes(r.randrange(20))])[:length]


def _time(precision: int) -> Callable[[random.Random], int]:
    step = 10 ** (3 - precision)
    return lambda r: r.choice([0, 86_399_999, r.randrange(86_400_000)]) // step * step


def _timestamp(precision: int) -> Callable[[random.Random], int]:
    step = 10 ** (9 - precision)
    # nanoseconds of INT96 end in 2262; before 1970 Java's cannot be told from those after 2262
    low, high = (YEAR_1_DAY, YEAR_9999_DAY + 1) if precision <= 6 else (0, 106_000)

    def draw(r: random.Random) -> int:
        edges = [0, max(-1, low), 1, low * DAY_NS, high * DAY_NS - 1, 1_700_000_000_123_456_789]
        return r.choice([*edges, r.randrange(low * DAY_NS, high * DAY_NS)]) // step * step

    return draw


@dataclass(frozen=True)
class Kind:
    """A type: how a value is drawn, and where it may stand.

    ``leaves`` are the scalar types inside a nested one.
    """

    type: TypeForm
    draw: Callable[[random.Random], Any]
    covered: bool = True
    key: bool = True
    partition: bool = False
    sequence: bool = False
    leaves: tuple[str, ...] = ()

    @property
    def is_nested(self) -> bool:
        return bool(self.leaves)

    @property
    def has_times(self) -> bool:
        return any("TIMESTAMP" in leaf for leaf in self.leaves or (str(self.type),))

    @property
    def is_fine(self) -> bool:
        """Whether it has times finer than microseconds."""
        return any("TIMESTAMP(9)" in leaf for leaf in self.leaves or (str(self.type),))


def as_not_null(form: TypeForm) -> TypeForm:
    """The same type without null."""
    if isinstance(form, dict):
        return {**form, "type": f"{form['type']} NOT NULL"}
    return f"{form} NOT NULL"


def has_multiset(form: TypeForm) -> bool:
    """Whether the type is a MULTISET or has one inside."""
    return "MULTISET" in str(form)


def is_not_null(form: TypeForm) -> bool:
    """Whether the type itself, not one inside it, is without null."""
    return str(form["type"] if isinstance(form, dict) else form).endswith(" NOT NULL")


KINDS = (
    Kind("BOOLEAN", lambda r: r.random() < 0.5, partition=True),
    Kind("TINYINT", _whole(8), partition=True),
    Kind("SMALLINT", _whole(16), partition=True),
    Kind("INT", _whole(32), partition=True, sequence=True),
    Kind("BIGINT", _whole(64), partition=True, sequence=True),
    Kind("FLOAT", _float),
    Kind("DOUBLE", _double),
    Kind("DECIMAL(5, 2)", _decimal(5, 2)),
    Kind("DECIMAL(18, 0)", _decimal(18, 0)),
    Kind("DECIMAL(20, 4)", _decimal(20, 4)),
    Kind("DECIMAL(38, 18)", _decimal(38, 18)),
    Kind("CHAR(4)", _char(4)),
    Kind("VARCHAR(9)", _text(9), partition=True),
    Kind("STRING", _text(), partition=True),
    Kind("BINARY(3)", _bytes(3, fixed=True)),
    Kind("VARBINARY(9)", _bytes(9)),
    Kind("BYTES", _bytes()),
    Kind("DATE", lambda r: r.choice([0, -1, YEAR_1_DAY, YEAR_9999_DAY, r.randrange(-9999, 40_000)]),
         partition=True, sequence=True),
    Kind("TIME(3)", _time(3)),
    Kind("TIME(0)", _time(0)),
    *(Kind(f"TIMESTAMP({p})", _timestamp(p), sequence=p == 3) for p in (0, 3, 6, 9)),
    *(Kind(f"TIMESTAMP({p}) WITH LOCAL TIME ZONE", _timestamp(p)) for p in (0, 3, 6, 9)),
)  # fmt: skip


MAP_KEYS = ("INT", "BIGINT", "STRING", "VARCHAR(9)", "DATE", "BOOLEAN", "DECIMAL(5, 2)")
"""Types of keys in maps. Java finds no second float or byte array equal to a first."""
DEPTH_MAX = 3
COUNTS = (1, 2, 2**31 - 1)


def nested_kind(rng: random.Random, kinds: Sequence[Kind]) -> Kind:
    """Draw a nested type whose leaves are of some kinds."""
    return kind_of(_nested_form(rng, [k.type for k in kinds if not k.is_nested], 1))


def _nested_form(rng: random.Random, leaves: Sequence[TypeForm], depth: int) -> TypeForm:

    def part() -> TypeForm:
        form = rng.choice(leaves)
        if depth < DEPTH_MAX and rng.random() < 0.3:
            form = _nested_form(rng, leaves, depth + 1)
        return as_not_null(form) if rng.random() < 0.2 else form

    root = rng.choice(["ARRAY", "MAP", "ROW", "ROW", "MULTISET"])
    key: TypeForm = rng.choice(MAP_KEYS)
    key = as_not_null(key) if rng.random() < 0.5 else key
    match root:
        case "ARRAY":
            return {"type": root, "element": part()}
        case "MAP":
            return {"type": root, "key": key, "value": part()}
        case "MULTISET":
            return {"type": root, "element": key}
    fields = [{"id": 0, "name": f"f{i}", "type": part()} for i in range(rng.choice([1, 2, 3]))]
    return {"type": root, "fields": fields}


def kind_of(form: TypeForm) -> Kind:
    """The kind of a type: a known one, or a nested one made of such."""
    if isinstance(form, str):
        return next(k for k in KINDS if k.type == form.removesuffix(" NOT NULL"))
    root = form["type"].split()[0]
    if root == "ROW":
        parts = [f["type"] for f in form["fields"]]
        return _nested(form, parts, lambda r, draws: tuple(draw(r) for draw in draws))
    if root == "ARRAY":
        parts = [form["element"]]
        return _nested(form, parts, lambda r, draws: _some(r, draws[0]))
    key = kind_of(form["element"] if root == "MULTISET" else form["key"])

    def keys(r: random.Random) -> list[Any]:
        return list(dict.fromkeys(_some(r, key.draw)))

    if root == "MULTISET":
        parts = [form["element"]]
        return _nested(form, parts, lambda r, _: [(k, r.choice(COUNTS)) for k in keys(r)])
    parts = [form["key"], form["value"]]
    return _nested(form, parts, lambda r, draws: [(k, draws[1](r)) for k in keys(r)])


Draw = Callable[[random.Random], Any]


def _nested(
    form: TypeForm, parts: list[TypeForm], made: Callable[[random.Random, list[Draw]], Any]
) -> Kind:
    kinds = [kind_of(p) for p in parts]
    draws = [
        k.draw if is_not_null(p) else _or_null(k.draw) for k, p in zip(kinds, parts, strict=True)
    ]
    leaves = tuple(leaf for k in kinds for leaf in k.leaves or (str(k.type),))
    return Kind(form, lambda r: made(r, draws), key=False, leaves=leaves)


def _or_null(draw: Draw) -> Draw:
    return lambda r: None if r.random() < 0.2 else draw(r)


def _some(r: random.Random, draw: Draw) -> list[Any]:
    return [draw(r) for _ in range(r.choice([0, 1, 2, 5]))]


@dataclass(frozen=True)
class Setting:
    """Options that are set together, and on which tables."""

    options: dict[str, str]
    tables: str = "any"  # or "keyed", "append"
    covered: bool = True

    @property
    def indexes_v0(self) -> bool:
        """Whether the first value column gets a file index."""
        return any(key.startswith("file-index.") for key in self.options)

    def indexes(self, form: TypeForm) -> bool:
        """Whether Java indexes a column of a type so: no decimals, and bitmaps of no bytes."""
        kind = str(form).partition("(")[0].removesuffix(" NOT NULL")
        no_bytes = any(key.startswith("file-index.bitmap.") for key in self.options)
        return kind != "DECIMAL" and not (no_bytes and kind in {"BINARY", "VARBINARY", "BYTES"})


COMPRESSIONS = {"avro": ("zstd", "snappy"), "orc": ("zstd", "snappy", "lz4")}
"""Those that Java knows for files of a format, of those for Parquet files."""
SETTINGS = (
    *(Setting({"file.compression": c}) for c in ("snappy", "lz4", "gzip", "uncompressed", "zstd")),
    *(Setting({"manifest.compression": c}) for c in ("snappy", "null", "deflate", "zstd")),
    *(Setting({"metadata.stats-mode": m}) for m in ("none", "counts", "full", "truncate(4)")),
    Setting({"metadata.stats-dense-store": "false"}),
    *(Setting({"num-sorted-run.compaction-trigger": n}, "keyed") for n in ("2", "3")),
    Setting({"write-only": "true"}),
    Setting({"target-file-size": "2 kb"}),
    Setting({"manifest.merge-min-count": "2"}),
    Setting({"manifest.target-file-size": "1 kb"}),
    Setting({"manifest.full-compaction-threshold-size": "1 kb"}),
    Setting({"file.block-size": "1 kb"}),
    Setting({"ignore-delete": "true"}, "keyed"),
    Setting({"partition.legacy-name": "false"}),
    Setting({"partition.default-name": "nothing"}),
    *(Setting({"file.format": "orc", "file.compression": c}) for c in COMPRESSIONS["orc"]),
    *(Setting({"file.format": "avro", "file.compression": c}) for c in COMPRESSIONS["avro"]),
    *(
        Setting({"file.format.per.level": f"0:{first},5:{last}"}, "keyed")
        for first, last in (("orc", "parquet"), ("avro", "orc"), ("parquet", "avro"))
    ),
    Setting({"data-file.thin-mode": "true"}, "keyed"),
    Setting({"file-index.bloom-filter.columns": "v0"}),
    Setting({"file-index.bitmap.columns": "v0", "file-index.in-manifest-threshold": "1 b"}),
    Setting({"data-file.prefix": "part-"}),
    Setting({"file.suffix.include.compression": "true"}),
    Setting({"num-levels": "3"}, "keyed"),
)

CHANGES_COVERED = True
"""Whether tables may be altered between steps."""
DYNAMIC_COVERED = True
"""Whether primary-key tables may have dynamic buckets."""
NESTED_COVERED = ("parquet", "orc", "avro")
"""Formats whose files may have nested columns."""
ENGINES = ("partial-update", "aggregation")
"""Merge engines beside the one that keeps the newest row."""
WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
SUMMED = ("INT", "BIGINT")
SMALL = range(-9, 10)
"""What is summed."""
TAKEN_BACK = ("sum", "last_value")
"""Functions that take rows back, and give the same whenever rows are merged."""


def functions_of(form: TypeForm) -> tuple[str, ...]:
    """Aggregate functions for a type, of which both engines say the same whenever rows are merged.

    Left out are sums (of Java's, integers wrap around: only small ones are drawn), texts and
    collections (their order).
    """
    of_all = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
    return (*of_all, "max", "min") if form in WHOLE_NUMBERS else of_all


MIXED_TIMES_COVERED = False
"""Whether one table may have timestamps of nanoseconds and coarser ones."""
