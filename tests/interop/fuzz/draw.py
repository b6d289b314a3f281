"""Draws a program from a seed: the same seed gives the same program."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from interop.cells import TypeForm, value_cell
from interop.fuzz import capability
from interop.fuzz.capability import (
    COMPRESSIONS,
    DIRECTORY_WORDS,
    ENGINES,
    KINDS,
    NESTED_COVERED,
    SETTINGS,
    SMALL,
    SUMMED,
    TAKEN_BACK,
    WHOLE_NUMBERS,
    Kind,
    as_not_null,
    functions_of,
    has_multiset,
    kind_of,
    nested_kind,
)
from interop.fuzz.program import WIDENED, Program, Step, changed_inside

WRITERS = ("tidelake", "java", "both")
STEPS_MAX = 7
TEXTS = ("STRING", "VARCHAR(9)")
BYTES = ("BINARY", "VARBINARY", "BYTES")
NESTED, MOVING, POSTPONED, COMBINED = 0.35, 0.4, 0.15, 0.4
"""Chances that columns are nested; that keys of a partitioned table move; that rows wait; that rows
of a key are combined."""
MARKED, LOGGED = 0.2, 0.3
"""Chances that rows are marked in deletion vectors; that changes are logged."""
COUNTED, SUMS, GROUPED, RETRACTED = 0.4, 0.5, 0.6, 0.5
"""Chances, of tables that combine rows: that a column is of whole numbers; that one of them is
summed; that columns are in a sequence group; that rows are taken back."""
ROWS_MAX = 30
SECOND_NS = 1_000_000_000
GREGORIAN_NS = -12_219_292_800 * SECOND_NS  # 1582-10-15


class _Column:
    """A column, and where its values come from."""

    def __init__(self, rng: random.Random, name: str, kind: Kind, role: str) -> None:
        self.name, self.kind, self.role = name, kind, role
        self.not_null = role == "key" or (role == "value" and rng.random() < 0.1)
        self.pool: list[Any] | None = None
        self.is_orc = False
        if role in {"key", "partition"}:
            self.pool = [self._drawn(rng) for _ in range(rng.choice([1, 3, 8]))]
            if role == "partition" and kind.type in TEXTS:
                self.pool = [rng.choice(DIRECTORY_WORDS) for _ in range(4)]

    def _drawn(self, rng: random.Random) -> Any:
        value = self.kind.draw(rng)
        if self.role == "key" and isinstance(value, float):
            # Java's comparator of keys calls NaN equal to every number, and -0.0 to 0.0
            return 1.5 if math.isnan(value) else value + 0.0
        if self.is_orc:
            return kept_by_orc(value, self.kind.type)
        return value

    @property
    def type(self) -> TypeForm:
        return as_not_null(self.kind.type) if self.not_null else self.kind.type

    def fit_orc(self) -> None:
        """From now on only values that Java's ORC writer and reader keep."""
        self.is_orc = True
        if self.pool:
            self.pool = [kept_by_orc(v, self.kind.type) for v in self.pool]

    def cell(self, rng: random.Random) -> str | None:
        if not self.not_null and rng.random() < (0.1 if self.pool else 0.2):
            return None
        if self.pool and (self.role == "partition" or rng.random() < 0.8):
            return value_cell(rng.choice(self.pool), self.kind.type)
        return value_cell(self._drawn(rng), self.kind.type)


def kept_by_orc(value: Any, form: TypeForm) -> Any:
    """The value, or one near it that Java's ORC writer and reader give back.

    They move times of the Julian calendar and of the last second before 1970, and cut the blanks at
    the end of a CHAR.
    """
    if value is None:
        return None
    if isinstance(form, str):
        if form.startswith("CHAR"):
            return value.rstrip(" ").ljust(len(value), "z")
        if "TIMESTAMP" not in form:
            return value
        return -SECOND_NS if -SECOND_NS < value < 0 else max(value, GREGORIAN_NS)
    if "fields" in form:
        types = [f["type"] for f in form["fields"]]
        return tuple(kept_by_orc(v, t) for v, t in zip(value, types, strict=True))
    if "value" in form:
        return [(k, kept_by_orc(v, form["value"])) for k, v in value]
    if form["type"].startswith("ARRAY"):
        return [kept_by_orc(v, form["element"]) for v in value]
    return value


def _formats(options: dict[str, str]) -> set[str]:
    """The formats that files of the table may have."""
    per_level = options.get("file.format.per.level", "")
    levels = {pair.partition(":")[2] for pair in per_level.split(",") if pair}
    waits = {"avro"} if options.get("bucket") == "-2" else set()
    return {options.get("file.format", "parquet")} | levels | waits


def _fits(kind: Kind, formats: set[str]) -> bool:
    """Whether files of these formats may have a column of a type."""
    return (
        not (kind.is_fine and "avro" in formats)
        and not (kind.is_nested and formats - set(NESTED_COVERED))
        and not (formats & {"orc", "avro"} and has_multiset(kind.type))  # Java fails at it
    )


def draw(seed: int, *, uncovered: bool = False, writers: str | None = None) -> Program:
    """Draw the program of a seed.

    Parameters
    ----------
    uncovered : bool
        Whether capabilities that need not be covered yet may be drawn.
    writers : str, optional
        One of ``WRITERS``; else they take turns from seed to seed.
    """
    rng = random.Random(seed)
    writers = writers or WRITERS[seed % len(WRITERS)]
    keyed = rng.random() < 0.75
    kinds = [k for k in KINDS if k.covered or uncovered]
    mixed = capability.MIXED_TIMES_COVERED or uncovered
    if not mixed:
        fine = rng.random() < 0.3
        kinds = [k for k in kinds if not k.has_times or k.is_fine == fine]
    columns = _columns(rng, kinds, keyed=keyed)
    partition_keys = tuple(c.name for c in columns if c.role == "partition")
    key_columns = [c for c in columns if c.role == "key"]
    moving = keyed and bool(partition_keys) and rng.random() < MOVING
    moving &= not any(c.kind.type in {"FLOAT", "DOUBLE"} for c in key_columns)
    if keyed and not moving:
        for column in columns:
            column.not_null |= column.role == "partition"
    primary_keys: tuple[str, ...] = ()
    if keyed:
        primary_keys = (*(() if moving else partition_keys), *(c.name for c in key_columns))
    table = "moving" if moving else "keyed" if keyed else "append"
    options, missing = _options(rng, columns, table, uncovered=uncovered)
    options |= _order(seed, options)
    times = {c.kind.is_fine for c in columns if c.kind.has_times}
    if len(times) > 1 and not capability.MIXED_TIMES_COVERED:
        missing.append("timestamps of nanoseconds beside others")
    if "orc" in _formats(options):
        for column in columns:
            column.fit_orc()
        missing.append("times before 1970 with parts of a second in ORC")
    missing += [str(c.kind.type) for c in columns if not c.kind.covered]
    rng.shuffle(columns)
    program = Program(
        tuple((c.name, c.type) for c in columns),
        primary_keys,
        partition_keys,
        options,
        seed=seed,
        uncovered=tuple(missing),
    )
    steps: list[Step] = []
    changes = capability.CHANGES_COVERED or uncovered
    there: list[list[str | None]] = []  # rows whose keys the table has
    for number in range(rng.randint(1, STEPS_MAX)):
        by = rng.choice(WRITERS[:2]) if writers == "both" else writers
        if there and (back := _taken_back(rng, columns, program, there)):
            steps += [{"by": by, **step} for step in back]
            continue
        step = {"by": by, **_step(rng, columns, program, changes=changes and number > 0)}
        steps.append(step)
        if step["op"] in {"overwrite", "alter", "drop"}:
            there.clear()
        if step["op"] == "write":
            there += step["rows"]
    return program.with_steps(tuple(steps))


def _columns(rng: random.Random, kinds: list[Kind], *, keyed: bool) -> list[_Column]:
    columns = []
    if rng.random() < 0.35:
        partitions = [k for k in kinds if k.partition]
        for number in range(rng.choice([1, 1, 2])):
            columns.append(_Column(rng, f"p{number}", rng.choice(partitions), "partition"))
    if keyed:
        keys = [k for k in kinds if k.key]
        for number in range(rng.choice([1, 1, 2, 3])):
            columns.append(_Column(rng, f"k{number}", rng.choice(keys), "key"))
    nested = rng.random() < NESTED
    for number in range(rng.choice([1, 2, 4, 8])):
        kind = rng.choice(kinds)
        if nested and rng.random() < 0.5:
            kind = nested_kind(rng, kinds)
        columns.append(_Column(rng, f"v{number}", kind, "value"))
    return columns


def _options(
    rng: random.Random, columns: list[_Column], table: str, *, uncovered: bool
) -> tuple[dict[str, str], list[str]]:
    """Options of a table with a primary key (``keyed``), with keys that move, or ``append``."""
    options: dict[str, str] = {}
    missing: list[str] = []
    values = [c for c in columns if c.role == "value"]
    scalars = [c.name for c in values if not c.kind.is_nested]
    if table != "append":
        options |= _kept(rng, columns)
    looks_up = _looks_up(options)
    if table == "moving":
        options["dynamic-bucket.target-row-num"] = rng.choice(["5", "1000"])
    elif table == "keyed":
        options["bucket"] = rng.choice(["1", "1", "2", "3"])
        if (capability.DYNAMIC_COVERED or uncovered) and rng.random() < 0.25:
            options["bucket"] = "-1"
            options["dynamic-bucket.target-row-num"] = rng.choice(["5", "1000"])
            if not capability.DYNAMIC_COVERED:
                missing.append("dynamic buckets")
        elif rng.random() < POSTPONED and all(_fits(c.kind, {"avro"}) for c in columns):
            options["bucket"] = "-2"
            options["postpone.default-bucket-num"] = rng.choice(["1", "3"])
        ordered = [c for c in values if c.kind.sequence]
        if rng.random() < COMBINED:
            options |= _engine(rng, values, looks_up=looks_up)
        elif ordered and rng.random() < 0.4:
            options["sequence.field"] = rng.choice(ordered).name
    elif scalars and rng.random() < 0.4:
        options |= {"bucket": rng.choice(["1", "3"]), "bucket-key": rng.choice(scalars)}
    tables = {"any", "append" if table == "append" else "keyed"}
    fitting = [s for s in SETTINGS if s.tables in tables and (s.covered or uncovered)]
    for setting in rng.sample(fitting, rng.randrange(5)):
        first = values[0].kind
        if setting.indexes_v0 and (first.is_nested or not setting.indexes(first.type)):
            continue
        if table == "moving" and "ignore-delete" in setting.options:
            continue  # a key would stay where it was
        if "write-only" in setting.options and "deletion-vectors.enabled" in options:
            continue  # Java would not see its rows before some compaction
        if "ignore-delete" in setting.options and _removes(options):
            continue
        formats = _formats(options | setting.options)
        if not all(_fits(c.kind, formats) for c in columns):
            continue
        compression = (options | setting.options).get("file.compression", "zstd")
        if any(compression not in COMPRESSIONS.get(f, (compression,)) for f in formats):
            continue
        options |= setting.options
        if not setting.covered:
            missing.append(str(setting.options))
    return options, missing


def _kept(rng: random.Random, columns: list[_Column]) -> dict[str, str]:
    """What a table with a primary key keeps beside its rows: deletion vectors, a changelog."""
    options: dict[str, str] = {}
    # Java looks up no key of bytes: it fails to compare them
    of_bytes = any(c.role == "key" and str(c.kind.type).startswith(BYTES) for c in columns)
    if rng.random() < MARKED and not of_bytes:
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = rng.choice(["true", "false"])
    if rng.random() < LOGGED:
        producers = ["input"] + ([] if options else ["full-compaction"])
        producers += [] if of_bytes else ["lookup"]
        options["changelog-producer"] = rng.choice(producers)
    for column in columns:  # the files of Java's lookups have names of partitions
        if _looks_up(options) and column.role == "partition" and column.kind.type in TEXTS:
            column.pool = [word.replace("/", "-") for word in column.pool or ()]
    return options


def _looks_up(options: dict[str, str]) -> bool:
    """Whether compactions look keys up in the levels above."""
    marked = options.get("deletion-vectors.enabled") == "true"
    return marked or options.get("changelog-producer") == "lookup"


def _engine(rng: random.Random, values: list[_Column], *, looks_up: bool) -> dict[str, str]:
    """A merge engine, and what it makes of columns."""
    engine = rng.choice(ENGINES)
    options = {"merge-engine": engine}
    retracted = rng.random() < RETRACTED
    for column in values:
        if rng.random() < COUNTED:
            column.kind = rng.choice([k for k in KINDS if k.type in WHOLE_NUMBERS])
    if engine == "partial-update":
        numbers = [c for c in values if c.kind.type in WHOLE_NUMBERS]
        if len(values) > 1 and numbers and rng.random() < GROUPED:
            # where compactions look keys up Java clears the group of a lone row without a sequence
            return options | _group(rng, values, numbers, always=looks_up)
        removed = {"partial-update.remove-record-on-delete": "true"}
        return options | removed if retracted else options
    removes = retracted and rng.random() < 0.3
    if removes:
        options["aggregation.remove-record-on-delete"] = "true"
    elif retracted:
        options["fields.default-aggregate-function"] = "last_value"
    for column in values:
        column.not_null &= not retracted
        if rng.random() < 0.7:
            function = rng.choice(functions_of(column.kind.type))
            if column.kind.type in SUMMED and rng.random() < SUMS:
                function = "sum"
                column.kind = replace(column.kind, draw=lambda r: r.choice(SMALL))
            options[f"fields.{column.name}.aggregate-function"] = function
            if retracted and not removes and function not in TAKEN_BACK:
                options[f"fields.{column.name}.ignore-retract"] = "true"
    return options


def _group(
    rng: random.Random, values: list[_Column], numbers: list[_Column], *, always: bool
) -> dict[str, str]:
    """Columns that go by a sequence of their own; some have functions that pass retracts over.

    ``always``: each row has a sequence.
    """
    sequence = rng.sample(numbers, rng.choice([1, 1, 2]) if 1 < len(numbers) < len(values) else 1)
    others = [c for c in values if c not in sequence]
    members = rng.sample(others, rng.randint(1, len(others)))
    for column in (*sequence, *members):
        column.not_null = always and column in sequence
    names = ",".join(c.name for c in sequence)
    options = {f"fields.{names}.sequence-group": ",".join(c.name for c in members)}
    for column in members:
        if column.kind.type in WHOLE_NUMBERS and rng.random() < 0.4:
            options[f"fields.{column.name}.aggregate-function"] = rng.choice(["max", "min"])
            options[f"fields.{column.name}.ignore-retract"] = "true"
    return options


def _removes(options: dict[str, str]) -> bool:
    """Whether a ``-D`` removes the row of an engine that combines."""
    return any(key.endswith(".remove-record-on-delete") for key in options)


def _taken_back(
    rng: random.Random, columns: list[_Column], program: Program, there: list[list[str | None]]
) -> list[Step]:
    """A commit that takes rows back, if the engine can; of keys that the table has, each once.

    Where that removes rows, a full compaction follows: what comes later must not be merged with the
    row that removes before older ones are.
    """
    options = program.options
    removes = _removes(options)
    retracts = any(
        key.endswith((".sequence-group", "default-aggregate-function")) for key in options
    )
    if not (removes or retracts) or rng.random() < 0.6:
        return []
    places = [1 + n for n, c in enumerate(columns) if c.name in program.primary_keys]

    def key(row: list[str | None]) -> tuple[str | None, ...]:
        return tuple(row[place] for place in places)

    chosen = {key(row): row for row in rng.sample(there, rng.randint(1, len(there)))}
    rows = [["-D" if removes else rng.choice(["-U", "-D"]), *row[1:]] for row in chosen.values()]
    if not removes:
        return [{"op": "write", "rows": rows}]
    there[:] = [row for row in there if key(row) not in chosen]
    # Java's compaction of the postpone bucket is a job of Flink's
    ours = {"by": "tidelake"} if options.get("bucket") == "-2" else {}
    return [{"op": "write", "rows": rows}, {"op": "compact", "full": True, **ours}]


def _step(
    rng: random.Random, columns: list[_Column], program: Program, *, changes: bool
) -> dict[str, Any]:
    chance = rng.random()
    bucket = program.options.get("bucket", "-1")
    moving = bool(program.primary_keys) and not set(program.partition_keys) <= set(
        program.primary_keys
    )
    if chance < 0.12:
        rows = _rows(rng, columns, program, ["+I"])
        dynamic = rng.random() < 0.7 and not moving
        return {"op": "overwrite", "dynamic": dynamic, "rows": rows}
    if chance < 0.27 or (bucket == "-2" and chance > 0.8):
        # Java's compaction of the postpone bucket is a job of Flink's
        ours = {"by": "tidelake"} if bucket == "-2" else {}
        return {"op": "compact", "full": rng.random() < 0.6, **ours}
    if 0.45 <= chance < 0.52 and program.partition_keys:
        return {"op": "drop", "partitions": _partitions(rng, columns, program)}
    if 0.52 <= chance < 0.58 and bucket != "-1":
        ours = {"by": "tidelake"} if bucket == "-2" else {}
        return {"op": "rescale", "buckets": rng.choice([1, 2, 3, 5]), **ours}
    if chance < 0.45 and changes:
        change = _change(rng, columns, program)
        if change:
            return {"op": "alter", "changes": [change]}
    kinds = ["+I"]
    if "merge-engine" in program.options:
        kinds = ["+I", "+U"]
    elif program.primary_keys and "sequence.field" not in program.options:
        kinds = ["+I"] * 7 + ["-D", "-D", "+U", "-U"]
    return {"op": "write", "rows": _rows(rng, columns, program, kinds)}


def _rows(
    rng: random.Random, columns: list[_Column], program: Program, kinds: list[str]
) -> list[list[str | None]]:
    return [
        [rng.choice(kinds), *(c.cell(rng) for c in columns)]
        for _ in range(rng.choice([1, 3, rng.randint(1, ROWS_MAX)]))
    ]


def _order(seed: int, options: Mapping[str, str]) -> dict[str, str]:
    """Which of the sequence field's ends is the newest; drawn apart, so seeds stay what they were.

    Whole numbers only: of a lone sequence field, which 1.3.1 compares by its sort order.
    """
    if "sequence.field" not in options:
        return {}
    order = random.Random(f"order {seed}").choice(["", "ascending", "descending", "descending"])
    return {"sequence.field.sort-order": order} if order else {}


def _partitions(
    rng: random.Random, columns: list[_Column], program: Program
) -> list[dict[str, str | None]]:
    """Values of all or some partition columns, once or twice."""
    by_name = {c.name: c for c in columns}
    keys = program.partition_keys
    return [
        {k: by_name[k].cell(rng) for k in keys if k == keys[0] or rng.random() < 0.7}
        for _ in range(rng.choice([1, 1, 2]))
    ]


def _change(rng: random.Random, columns: list[_Column], program: Program) -> dict[str, Any] | None:
    """Draw a change of the schema; ``columns`` follow it."""
    fixed = {
        *program.options.get("bucket-key", "").split(","),
        program.options.get("sequence.field"),
        # with the index of a column that is gone neither engine writes any more
        *(v for k, v in program.options.items() if k.startswith("file-index.")),
        *(
            n
            for k in program.options
            if k.startswith("fields.")
            for n in k.split(".")[1].split(",")
        ),
        *(n for k, v in program.options.items() if k.endswith("-group") for n in v.split(",")),
    }
    free = [c for c in columns if c.role == "value" and c.name not in fixed]
    what = rng.choice(["add", "add", "drop", "rename", "move", "retype"])
    used = {c.name for c in columns}
    fresh = next(f"w{i}" for i in range(99) if f"w{i}" not in used)
    if what == "add":
        column = _Column(rng, fresh, _added(rng, program, nested=rng.random() < 0.3), "value")
        column.not_null = False
        if "orc" in _formats(program.options):
            column.fit_orc()
        at = rng.randrange(len(columns) + 1)
        columns.insert(at, column)
        place = {"after": columns[at - 1].name} if at else {"first": True}
        return {"change": "add", "name": fresh, "type": column.kind.type, **place}
    if not free:
        return None
    rows = [c for c in free if any(_rows_inside(c.kind.type, []))]
    if rows and rng.random() < 0.4:
        return _change_inside(rng, rng.choice(rows), program)
    column = rng.choice(free)
    if what == "drop" and len(free) > 1:
        columns.remove(column)
        return {"change": "drop", "name": column.name}
    if what == "rename":
        before, column.name = column.name, fresh
        return {"change": "rename", "name": before, "to": fresh}
    if what == "move" and len(columns) > 1:
        before_at = columns.index(column)
        columns.remove(column)
        at = rng.randrange(len(columns) + 1)
        if at == before_at:  # Java refuses to move a column to where it is
            at = (at + 1) % (len(columns) + 1)
        columns.insert(at, column)
        place = {"after": columns[at - 1].name} if at else {"first": True}
        return {"change": "move", "name": column.name, **place}
    if what == "retype" and not column.not_null:
        wider = [to for from_, to in WIDENED if from_ == column.kind.type]
        if wider:
            before, wanted = column.kind.type, rng.choice(wider)
            column.kind = next(k for k in KINDS if k.type == wanted)
            return {"change": "retype", "name": column.name, "from": before, "type": wanted}
    return None


def _added(rng: random.Random, program: Program, *, nested: bool) -> Kind:
    """A type that a column or a field of the table may have from now on."""
    mixed = capability.MIXED_TIMES_COVERED
    formats = _formats(program.options)
    kinds = [k for k in KINDS if k.covered and (mixed or not k.has_times) and _fits(k, formats)]
    if nested and not formats - set(NESTED_COVERED):
        kind = nested_kind(rng, kinds)
        if _fits(kind, formats):
            return kind
    return rng.choice(kinds)


def _change_inside(rng: random.Random, column: _Column, program: Program) -> dict[str, Any]:
    """Draw a change of a field in a row that the column is, or has in its arrays and maps."""
    path, row = rng.choice(list(_rows_inside(column.kind.type, [])))
    names = [f["name"] for f in row["fields"]]
    fresh = next(f"g{i}" for i in range(99) if f"g{i}" not in names)
    chosen = rng.choice(row["fields"])
    name = [column.name, *path, chosen["name"]]
    wider = [to for from_, to in WIDENED if from_ == chosen["type"]]
    what = rng.choice(["add", "add", "drop", "rename", "retype"])
    change: dict[str, Any]
    if what == "drop" and len(names) > 1:
        change = {"change": "drop", "name": name}
    elif what == "rename":
        change = {"change": "rename", "name": name, "to": fresh}
    elif what == "retype" and wider:
        wanted = rng.choice(wider)
        change = {"change": "retype", "name": name, "from": chosen["type"], "type": wanted}
    else:
        kind = _added(rng, program, nested=False)
        change = {"change": "add", "name": [column.name, *path, fresh], "type": kind.type}
    form, _ = changed_inside(column.kind.type, change["name"][1:], change)
    column.kind = kind_of(form)
    if "orc" in _formats(program.options):
        column.fit_orc()
    return change


def _rows_inside(form: TypeForm, path: list[str]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The ROW types in a type that a change can name, each with the way to it."""
    if isinstance(form, str):
        return
    if "fields" in form:
        yield path, form
        for field in form["fields"]:
            yield from _rows_inside(field["type"], [*path, field["name"]])
    elif "value" in form:
        yield from _rows_inside(form["value"], [*path, "value"])
    elif form["type"].startswith("ARRAY"):
        yield from _rows_inside(form["element"], [*path, "element"])
