"""Draws a program from a seed: the same seed gives the same program."""

from __future__ import annotations

import math
import random
from typing import Any

from interop.cells import value_cell
from interop.fuzz import capability
from interop.fuzz.capability import DIRECTORY_WORDS, KINDS, SETTINGS, Kind
from interop.fuzz.program import WIDENED, Program, Step

WRITERS = ("tidelake", "java", "both")
STEPS_MAX = 7
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
            if role == "partition" and kind.type in {"STRING", "VARCHAR(9)"}:
                self.pool = [rng.choice(DIRECTORY_WORDS) for _ in range(4)]

    def _drawn(self, rng: random.Random) -> Any:
        value = self.kind.draw(rng)
        if self.role == "key" and isinstance(value, float):
            # Java's comparator of keys calls NaN equal to every number, and -0.0 to 0.0
            return 1.5 if math.isnan(value) else value + 0.0
        if self.is_orc and "TIMESTAMP" in self.kind.type:
            return _kept_by_orc(value)
        return value

    @property
    def type(self) -> str:
        return self.kind.type + (" NOT NULL" if self.not_null else "")

    def fit_orc(self) -> None:
        """From now on only times that Java's ORC writer and reader do not move."""
        self.is_orc = True
        if self.pool and "TIMESTAMP" in self.kind.type:
            self.pool = [_kept_by_orc(v) for v in self.pool]

    def cell(self, rng: random.Random) -> str | None:
        if not self.not_null and rng.random() < (0.1 if self.pool else 0.2):
            return None
        if self.pool and (self.role == "partition" or rng.random() < 0.8):
            return value_cell(rng.choice(self.pool), self.kind.type)
        return value_cell(self._drawn(rng), self.kind.type)


def _kept_by_orc(nanos: int) -> int:
    """Java's ORC moves times of the Julian calendar, and the last second before 1970."""
    return -SECOND_NS if -SECOND_NS < nanos < 0 else max(nanos, GREGORIAN_NS)


def _is_orc(options: dict[str, str]) -> bool:
    return "orc" in options.get("file.format", "") + options.get("file.format.per.level", "")


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
        kinds = [k for k in kinds if "TIMESTAMP" not in k.type or ("(9)" in k.type) == fine]
    columns = _columns(rng, kinds, keyed=keyed)
    partition_keys = tuple(c.name for c in columns if c.role == "partition")
    if keyed:
        for column in columns:
            column.not_null |= column.role == "partition"
    key_columns = [c for c in columns if c.role == "key"]
    primary_keys = (*partition_keys, *(c.name for c in key_columns)) if keyed else ()
    options, missing = _options(rng, columns, keyed=keyed, uncovered=uncovered)
    times = {"(9)" in c.type for c in columns if "TIMESTAMP" in c.type}
    if len(times) > 1 and not capability.MIXED_TIMES_COVERED:
        missing.append("timestamps of nanoseconds beside others")
    if _is_orc(options):
        for column in columns:
            column.fit_orc()
        missing.append("times before 1970 with parts of a second in ORC")
    missing += [c.kind.type for c in columns if not c.kind.covered]
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
    for number in range(rng.randint(1, STEPS_MAX)):
        by = rng.choice(WRITERS[:2]) if writers == "both" else writers
        steps.append({"by": by, **_step(rng, columns, program, changes=changes and number > 0)})
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
    for number in range(rng.choice([1, 2, 4, 8])):
        columns.append(_Column(rng, f"v{number}", rng.choice(kinds), "value"))
    return columns


def _options(
    rng: random.Random, columns: list[_Column], *, keyed: bool, uncovered: bool
) -> tuple[dict[str, str], list[str]]:
    options, missing = {}, []
    values = [c for c in columns if c.role == "value"]
    if keyed:
        options["bucket"] = rng.choice(["1", "1", "2", "3"])
        if (capability.DYNAMIC_COVERED or uncovered) and rng.random() < 0.25:
            options["bucket"] = "-1"
            options["dynamic-bucket.target-row-num"] = rng.choice(["5", "1000"])
            if not capability.DYNAMIC_COVERED:
                missing.append("dynamic buckets")
        ordered = [c for c in values if c.kind.sequence]
        if ordered and rng.random() < 0.4:
            options["sequence.field"] = rng.choice(ordered).name
    elif rng.random() < 0.4:
        options |= {"bucket": rng.choice(["1", "3"]), "bucket-key": rng.choice(values).name}
    tables = {"any", "keyed" if keyed else "append"}
    fitting = [s for s in SETTINGS if s.tables in tables and (s.covered or uncovered)]
    for setting in rng.sample(fitting, rng.randrange(5)):
        if setting.indexes_v0 and values[0].kind.type.startswith("DECIMAL"):
            continue  # Java indexes no decimals
        options |= setting.options
        if not setting.covered:
            missing.append(str(setting.options))
    return options, missing


def _step(
    rng: random.Random, columns: list[_Column], program: Program, *, changes: bool
) -> dict[str, Any]:
    chance = rng.random()
    if chance < 0.12:
        rows = _rows(rng, columns, program, ["+I"])
        return {"op": "overwrite", "dynamic": rng.random() < 0.7, "rows": rows}
    if chance < 0.27:
        return {"op": "compact", "full": rng.random() < 0.6}
    if chance < 0.45 and changes:
        change = _change(rng, columns, program)
        if change:
            return {"op": "alter", "changes": [change]}
    kinds = ["+I"]
    if program.primary_keys and "sequence.field" not in program.options:
        kinds = ["+I"] * 7 + ["-D", "-D", "+U", "-U"]
    return {"op": "write", "rows": _rows(rng, columns, program, kinds)}


def _rows(
    rng: random.Random, columns: list[_Column], program: Program, kinds: list[str]
) -> list[list[str | None]]:
    return [
        [rng.choice(kinds), *(c.cell(rng) for c in columns)]
        for _ in range(rng.choice([1, 3, rng.randint(1, ROWS_MAX)]))
    ]


def _change(rng: random.Random, columns: list[_Column], program: Program) -> dict[str, Any] | None:
    """Draw a change of the schema; ``columns`` follow it."""
    fixed = {
        *program.options.get("bucket-key", "").split(","),
        program.options.get("sequence.field"),
    }
    free = [c for c in columns if c.role == "value" and c.name not in fixed]
    what = rng.choice(["add", "add", "drop", "rename", "move", "retype"])
    used = {c.name for c in columns}
    fresh = next(f"w{i}" for i in range(99) if f"w{i}" not in used)
    if what == "add":
        mixed = capability.MIXED_TIMES_COVERED
        kind = rng.choice([k for k in KINDS if k.covered and (mixed or "TIMESTAMP" not in k.type)])
        column = _Column(rng, fresh, kind, "value")
        column.not_null = False
        if _is_orc(program.options):
            column.fit_orc()
        at = rng.randrange(len(columns) + 1)
        columns.insert(at, column)
        place = {"after": columns[at - 1].name} if at else {"first": True}
        return {"change": "add", "name": fresh, "type": kind.type, **place}
    if not free:
        return None
    column = rng.choice(free)
    if what == "drop" and len(free) > 1:
        columns.remove(column)
        return {"change": "drop", "name": column.name}
    if what == "rename":
        before, column.name = column.name, fresh
        return {"change": "rename", "name": before, "to": fresh}
    if what == "move" and len(columns) > 1:
        columns.remove(column)
        at = rng.randrange(len(columns) + 1)
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
