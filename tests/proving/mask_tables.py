"""Drawn tables, read by masks after each step: the rows are those of the merge.

A seed draws an engine with its options, keys, columns of all types, buckets, formats, and bounds of
the cache. Its steps write, delete, compact, alter, roll back and expire; two writers write a bucket
at once; and a second process does any of these between a reader's plan and its masks. After each
step the table is read by masks: as it is, at an older moment, by a filter. The rows are those of
the merge, and the cache stays under its bound.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from proving.keyed_tables import KEYS
from proving.masked_reads import MaskedReader
from tidelake import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from tidelake.catalog import open_catalog
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.scan import SNAPSHOT_EXPIRED
from tidelake.telemetry import Env
from tidelake.types import DataField, TypeRoot, parse_type

__all__ = ["DrawnTable", "in_memory", "run_seed"]

STEPS = 7
NUMBERS = 50
"""Keys are made of numbers below."""
SEQUENCES = ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "DECIMAL(10, 2)", "TIMESTAMP(3)")
NESTED = {
    TypeRoot.ARRAY: (pa.list_(pa.int32()), lambda n: [n, None]),
    TypeRoot.MAP: (pa.map_(pa.string(), pa.int32()), lambda n: [(str(n), n)]),
    TypeRoot.ROW: (pa.struct([("a", pa.int32())]), lambda n: {"a": n}),
}
TYPES = (*KEYS, *(own for own, _ in NESTED.values()))
WIDER = {"TINYINT": "INT", "INT": "BIGINT", "FLOAT": "DOUBLE", "DATE": "STRING", "BIGINT": "STRING"}
BOUNDS = ("0", "1 kb", "4 kb", "20 kb", "64 mb", "64 mb", "64 mb")
REMOVES = {
    "partial-update": "partial-update.remove-record-on-delete",
    "aggregation": "aggregation.remove-record-on-delete",
}
FUNCTIONS = {
    "number": ("sum", "product", "max", "min", "last_value", "first_value"),
    "text": ("listagg", "max", "last_non_null_value", "first_non_null_value"),
    "other": ("last_value", "last_non_null_value", "first_value"),
}
NUMBERS_OF = ("INT", "BIGINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(10, 2)", "DECIMAL(30, 2)")


@dataclass
class DrawnTable:
    """A table and what may be drawn of it.

    Parameters
    ----------
    rng : random.Random
        Draws.
    open : callable
        Gives the table by a handle of its own, as another process has it.
    kinds : tuple of str
        Kinds of rows.
    """

    rng: random.Random
    open: Callable
    kinds: tuple[str, ...]
    altered: int = 0

    def step(self) -> None:
        """Do one thing to the table; what it refuses is not done."""
        table, draw = self.open(), self.rng.random()
        try:
            if draw < 0.55:
                self._write(table)
            elif draw < 0.63:
                self._write_beside(table)
            elif draw < 0.78:
                table.compact(full=self.rng.random() < 0.5)
            elif draw < 0.88:
                self._alter(table)
            elif draw < 0.93 and self.moments():
                table.rollback_to(snapshot_id=self.rng.choice(self.moments()))
            else:
                table.maintenance.expire_snapshots(retain_max=3, retain_min=1)
        except (InvalidInputError, UnsupportedError, NotFoundError):
            pass  # of this engine, or there is nothing yet

    def moments(self) -> list[int]:
        """Ids of the snapshots."""
        snapshots = self.open().handle.snapshots
        newest, oldest = snapshots.latest_id(), snapshots.earliest_id()
        return [] if newest is None or oldest is None else list(range(oldest, newest + 1))

    def _write(self, table) -> None:
        rows = self._rows(table)
        table.write(rows, row_kinds=[self.rng.choice(self.kinds) for _ in rows])

    def _write_beside(self, table) -> None:
        """Two writers begin at one moment: their rows have the same sequence numbers."""
        other = self.open()
        with table.writer() as first, other.writer() as second:
            first.write(self._rows(table))
            second.write(self._rows(table))

    def _rows(self, table) -> list[dict]:
        rng, fields = self.rng, table.table_schema.fields
        keys = set(table.primary_keys)
        begin = rng.choice((0, 0, 10, 30))
        numbers = rng.sample(range(begin, NUMBERS), rng.randint(1, NUMBERS - begin) // 2 + 1)
        rows = []
        for number in numbers:
            row = {}
            for field in fields:
                value = _values(field)
                if field.name in keys:
                    row[field.name] = value(number if field.name != "p" else number % 2)
                else:
                    is_null = rng.random() < 0.2 and field.type.nullable
                    row[field.name] = None if is_null else value(rng.randrange(NUMBERS))
            rows.append(row)
        return rows

    def _alter(self, table) -> None:
        rng, schema = self.rng, table.table_schema
        self.altered += 1
        others = [f for f in schema.fields if f.name not in schema.primary_keys]
        field = rng.choice(others)
        own, name = field.type.as_nullable(), f"added{self.altered}"
        wider = parse_type(WIDER[str(own)]) if str(own) in WIDER else own
        changes = [
            (AddColumn(name, parse_type(rng.choice(list(KEYS)))),),
            (RenameColumn(field.name, name), AddColumn(field.name, own)),
            (UpdateColumnType(field.name, wider),),
            (DropColumn(field.name),),
            (SetOption("sequence.field.sort-order", rng.choice(("ascending", "descending"))),),
        ]
        table.alter(*rng.choice(changes))


def _values(field: DataField) -> Callable:
    """Makes values of a column of numbers."""
    own = field.type
    return NESTED[own.root][1] if own.root in NESTED else KEYS[str(own.as_nullable())]


def in_memory(seed: int) -> Callable:
    """Gives a catalog on the same files at each call."""
    files = MemoryFileIO()
    env = Env.seeded(seed)
    return lambda: open_catalog("/w", fileio=files, env=env)


def run_seed(
    seed: int,
    catalogs: Callable | None = None,
    *,
    steps: int = STEPS,
    also: Callable[[object], Iterable[tuple] | None] | None = None,
) -> MaskedReader:
    """Draw a table and read it after each step.

    Parameters
    ----------
    seed : int
        Of all draws.
    catalogs : callable, optional
        Gives a catalog, with each call as another process has it; in memory by default.
    steps : int
        How many.
    also : callable, optional
        Another reader: takes the table, gives its rows.

    Returns
    -------
    MaskedReader
        What read by masks, with its counts.
    """
    rng = random.Random(seed)
    catalogs = catalogs or in_memory(seed)
    catalog = catalogs()
    kinds = _make(catalog, rng)
    drawn = DrawnTable(rng, lambda: catalogs().table("db.t"), kinds)
    reader = MaskedReader()
    for _ in range(steps):
        drawn.step()
        table = catalog.table("db.t")
        table = table.with_options({"read.mask-cache-size": rng.choice(BOUNDS)})
        scans = [{}, *({"snapshot_id": m} for m in rng.sample(drawn.moments()[-6:] or [None], 1))]
        if rng.random() < 0.4:
            scans.append({"where": _filter(rng, table)})
        for scan in scans:
            _check(reader, table, scan, seed)
        _check_beside(reader, table, drawn)
        if also is not None:
            _check_also(also, catalog.table("db.t"), seed)
    return reader


def _make(catalog, rng: random.Random) -> tuple[str, ...]:
    """Create a table; the kinds of rows that it may be given."""
    engine = rng.choice(("deduplicate", "partial-update", "aggregation", "first-row"))
    keys = rng.sample(list(KEYS), rng.choice((1, 1, 2)))
    columns = {f"k{place}": own for place, own in enumerate(keys)}
    columns |= {f"v{place}": rng.choice(TYPES) for place in range(3)}
    columns |= {"n": "INT", "seq": rng.choice(SEQUENCES)}
    options = {"merge-engine": engine, "num-sorted-run.compaction-trigger": rng.choice("359")}
    partitions = ["p"] if rng.random() < 0.25 else []
    if partitions:
        columns["p"] = "INT"
    options["bucket"] = rng.choice(("1", "1", "2", "-1"))
    if rng.random() < 0.3:
        options["file.format.per.level"] = rng.choice(("0:avro", "5:orc", "0:orc,5:avro"))
    if rng.random() < 0.4:
        options["write-only"] = "true"
    if engine != "first-row":
        options |= _order(rng, engine)
        if rng.random() < 0.3:
            options["deletion-vectors.enabled"] = "true"
    if rng.random() < 0.2 and engine != "deduplicate":
        options["changelog-producer"] = "lookup"
    if engine in ("partial-update", "aggregation"):
        options |= _functions(rng, engine, columns, options)
    deletes = ("+I", "+U", "-D", "-U") if rng.random() < 0.6 else ("+I", "+U")
    if "-D" in deletes and (engine == "first-row" or rng.random() < 0.3):
        options["ignore-delete"] = "true"
    elif "-D" in deletes and engine in REMOVES and rng.random() < 0.5:
        options[REMOVES[engine]] = "true"
    names = [*partitions, *(f"k{place}" for place in range(len(keys)))]
    for left_out in ((), *((name,) for name in sorted(options)), tuple(sorted(options))):
        own = {k: v for k, v in options.items() if k not in left_out} | {
            "bucket": options["bucket"]
        }
        try:
            catalog.create_table(
                "db.t", columns, primary_keys=names, partition_keys=partitions, options=own
            )
        except (InvalidInputError, UnsupportedError):
            continue  # one of the options does not go with the others
        return deletes
    raise AssertionError("no table without options")


def _order(rng: random.Random, engine: str) -> dict[str, str]:
    draw = rng.random()
    if draw < 0.25:
        return {"sequence.field": "seq", "sequence.field.sort-order": rng.choice(ORDERS)}
    if draw < 0.5 and engine == "partial-update":
        return {"fields.seq.sequence-group": rng.choice(("v0", "v0,v1", "n"))}
    return {}


ORDERS = ("ascending", "descending")


def _functions(rng, engine, columns, options) -> dict[str, str]:
    group = options.get("fields.seq.sequence-group", "").split(",")
    drawn = {}
    for name, own in columns.items():
        if name[0] not in "vn" or (engine == "partial-update" and name not in group):
            continue
        if rng.random() < 0.6:
            kind = "number" if own in NUMBERS_OF else "text" if own == "STRING" else "other"
            drawn[f"fields.{name}.aggregate-function"] = rng.choice(FUNCTIONS[kind])
            if rng.random() < 0.5:
                drawn[f"fields.{name}.ignore-retract"] = "true"
    return drawn


def _filter(rng: random.Random, table) -> str:
    names = table.table_schema.field_names
    choices = ["n > 20", "n IS NULL", "n <= 10 OR n > 40"] if "n" in names else ["1 = 1"]
    return rng.choice(choices)


def _check(reader: MaskedReader, table, scan: dict, seed: int) -> None:
    if None in scan.values():
        return
    try:
        expected = _merged(table, scan)
    except TidelakeError as error:
        _check_refused(reader, table, scan, error)
        return
    assert _same(reader.rows(table, **scan), expected), f"seed {seed}: {scan}"
    bound = {"0": 0, "1 kb": 1 << 10, "4 kb": 4 << 10, "20 kb": 20 << 10}
    text = table.options.raw["read.mask-cache-size"]
    if text != "0":  # without masks nothing is looked at, and nothing dropped
        assert reader.cache.nbytes <= bound.get(text, 64 << 20), "the cache is within its bound"


def _check_also(also: Callable, table, seed: int) -> None:
    try:
        expected = _merged(table, {})
    except TidelakeError:  # a product of decimals overflows: the other reader may refuse it as well
        return
    found = also(table)
    assert found is None or _same(found, expected), seed


def _check_refused(reader: MaskedReader, table, scan: dict, error: TidelakeError) -> None:
    """What the merge refuses, masks refuse, too; unless no key is merged that it refuses."""
    if isinstance(error, NotFoundError):
        return
    with contextlib.suppress(type(error)):
        reader.rows(table, **scan)


def _check_beside(reader: MaskedReader, table, drawn: DrawnTable) -> None:
    """Another process works between the plan and the masks; the plan's files may be gone then."""
    planned = table.scan()
    try:
        expected = [tuple(row.values()) for row in planned.to_arrow().to_pylist()]
    except TidelakeError:
        return
    for _ in range(2):
        drawn.step()
    try:
        found = reader.rows_of(planned)
    except NotFoundError as error:
        if error.kind != SNAPSHOT_EXPIRED:
            raise  # files are gone with their snapshot alone
        return
    assert _same(found, expected), "another process is seen"


def _merged(table, scan: dict) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_arrow(**scan).to_pylist()]


def _same(found: Iterable[tuple], expected: Iterable[tuple]) -> bool:
    return sorted(map(repr, found)) == sorted(map(repr, expected))
