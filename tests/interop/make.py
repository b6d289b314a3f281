"""The cases' tables, made with Tidelake through its public face.

``make_table`` takes a case's steps one by one and notes, for every snapshot that came into being,
the rows the model says it has: a step that also compacted has two, and both must read the same.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidelake
from interop.case import (
    Alter,
    Case,
    Compact,
    Delete,
    Drop,
    Model,
    Overwrite,
    Rescale,
    Step,
    Tag,
    Truncate,
    Update,
    Values,
    Write,
    row_cells,
)
from interop.cells import Cell, difference, table_cells
from interop.changes import change_of
from interop.logged import logged, modes_of, packed_changes
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

_WIDE = decimal.Context(prec=60)
BETWEEN, MODE = "incremental-between", "incremental-between-scan-mode"
_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True, slots=True)
class Moment:
    """One state of a table: how a reader asks for it, and the rows that must be there."""

    label: str
    option: Mapping[str, str]
    columns: list[str]
    rows: list[tuple[Cell, ...]]
    system: str | None = None
    """A view of the table's rows (``audit_log``, ``binlog``, ``ro``), which Java is asked for."""

    passed_over: bool = False
    """Changes in level 0 of a table whose state is read from the levels above it: Java 1.3.1 passes
    over them, and shows none; 2.1 and we show them (2.1's ``AbstractBatchTableScan`` says why)."""

    compacted: list[tuple[Cell, ...]] | None = None
    """What a reader shows that leaves level 0 out, as all others do; None where it is the same."""

    def rows_for(self, reader: str) -> list[tuple[Cell, ...]]:
        """What the reader must show."""
        if self.passed_over and reader == "java-1.3":
            return []
        if self.compacted is None or reader == "tidelake":
            return self.rows
        return self.compacted

    @property
    def between(self) -> tuple[int, int] | None:
        """The snapshots whose changes are asked for."""
        if BETWEEN not in self.option:
            return None
        start, end = self.option[BETWEEN].split(",")
        return int(start), int(end)


@dataclass(slots=True)
class Made:
    """A table that was made."""

    case: Case
    path: Path
    model: Model
    moments: list[Moment] = field(default_factory=list)
    newest: int = 0
    """The last snapshot."""


def _nested_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Lists, lists of pairs and tuples as one column."""
    nulls = pa.array([v is None for v in values], pa.bool_())
    if pa.types.is_struct(kind):
        rows = [(None,) * kind.num_fields if v is None else v for v in values]
        columns = list(zip(*rows, strict=True)) or [()] * kind.num_fields
        children = [_column(c, f.type) for c, f in zip(columns, kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)
    offsets = [0, *accumulate(len(v or ()) for v in values)]
    flat = [item for v in values for item in v or ()]
    if pa.types.is_map(kind):
        keys = _column([k for k, _ in flat], kind.key_type)
        items = _column([v for _, v in flat], kind.item_type)
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), keys, items, type=kind, mask=nulls
        )
    elements = _column(flat, kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=kind, mask=nulls)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(kind):
        return _nested_column(values, kind)
    if pa.types.is_timestamp(kind):
        factor = _UNIT_NS[kind.unit]
        whole = [None if v is None else v // factor for v in values]
        return pa.array(whole, pa.int64()).cast(kind)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_decimal(kind):
        step = Decimal(1).scaleb(-kind.scale)
        context_safe = [None if v is None else _quantized(v, step) for v in values]
        return pa.array(context_safe, kind)
    return pa.array(values, kind)


def _quantized(value: Decimal, step: Decimal) -> Decimal:
    return Decimal(f"{value:f}").quantize(step, context=_WIDE)


def rows_to_arrow(schema: pa.Schema, rows: Sequence[Values]) -> pa.Table:
    """Rows of a case as an Arrow table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [_column(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _take(table: tidelake.Table, step: Step, keys: Sequence[str]) -> None:
    schema = to_arrow_schema(table.table_schema.fields)
    match step:
        case Write(rows, kinds):
            table.write(rows_to_arrow(schema, rows), row_kinds=kinds)
        case Overwrite(rows, dynamic, partition):
            whole = not dynamic and partition is None
            target = table.copy({"dynamic-partition-overwrite": "false"}) if whole else table
            arrow = rows_to_arrow(schema, rows)
            target.write(arrow, mode="overwrite", partition=partition)
        case Delete(keys_given, where):
            if keys_given:
                table.delete([dict(zip(keys, key, strict=True)) for key in keys_given])
            if where is not None:
                table.delete(tidelake.col(where[0]) == where[1])
        case Tag(name):
            table.tags.create(name)
        case Alter(changes):
            table.alter(*(change_of(dict(change)) for change in changes))
        case Compact():
            table.compact(full=True)
        case Rescale(buckets, partitions):
            table.rescale_bucket(buckets, partitions=partitions)
        case Drop(partitions):
            fields = {f.name: f for f in schema}
            table.drop_partitions(
                [
                    {k: _column([v], fields[k].type)[0].as_py() for k, v in p.items()}
                    for p in partitions
                ]
            )
        case Truncate():
            table.truncate()
        case Update(values, where):
            table.update(values, tidelake.col(where[0]) == where[1])


def make_table(warehouse: Path, case: Case) -> Made:
    """Make a case's table, noting what every snapshot and tag must hold."""
    fields = [
        DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(case.columns.items())
    ]
    catalog = tidelake.open(str(warehouse))
    table = catalog.create_table(
        f"db.{case.name}",
        fields,
        primary_keys=case.primary_keys,
        partition_keys=case.partition_keys,
        options=case.options,
    )
    made = Made(case, warehouse / "db.db" / case.name, Model(case))
    seen = 0
    ends = [0]  # the newest snapshot after each step
    for step in case.steps:
        before = made.model.cells()
        _take(table, step, made.model.keys)
        made.model.apply(step)
        columns, rows = list(made.model.columns), made.model.cells()
        newest = table.latest_snapshot_id or 0
        for snapshot in range(seen + 1, newest + 1):
            asked = {"scan.snapshot-id": str(snapshot)}
            is_between = made.model.seen_compacted and snapshot < newest
            compacted = before if is_between else None
            label = f"snapshot {snapshot}"
            made.moments.append(Moment(label, asked, columns, rows, compacted=compacted))
        seen = newest
        ends.append(seen)
        if isinstance(step, Tag):
            asked = {"scan.tag-name": step.name}
            made.moments.append(Moment(f"tag {step.name}", asked, columns, rows))
    made.newest = seen
    made.moments.append(Moment("now", {}, list(made.model.columns), made.model.cells()))
    if case.is_viewed:
        made.moments += [*_views(table, made), *_changes(table, made, ends)]
    return made


def _views(table: tidelake.Table, made: Made) -> Iterator[Moment]:
    """The views now: others must read what we read, and that must be the model's rows."""
    for view in ("audit_log", "binlog", "ro"):
        shown = table.system_table(view).to_arrow()
        rows = table_cells(shown)
        if view == "audit_log":
            there = [row[1:] for row in rows if row[0] in {"s:+I", "s:+U"}]
            wrong = difference(made.model.cells(), there, shown.column_names[1:])
            assert wrong is None, f"{made.case.name}: its $audit_log shows other rows: {wrong}"
        yield Moment(view, {}, shown.column_names, rows, view)


def _changes(table: tidelake.Table, made: Made, ends: Sequence[int]) -> Iterator[Moment]:
    """What changed from the beginning and from the middle on: the model's, or as we read it.

    A row of `$audit_log` or `$binlog` says its kind; the table itself shows the rows alone.
    """
    case = made.case
    rows, packed = {"rowkind": "STRING", **case.columns}, {"rowkind": "STRING"}
    packed |= {name: {"type": "ARRAY", "element": form} for name, form in case.columns.items()}
    middle = len(case.steps) // 2
    for mode in modes_of(case):
        by_step = logged(case, mode)
        over = mode == "delta" and made.model.seen_compacted
        for first in dict.fromkeys((0, middle)):
            asked = {BETWEEN: f"{ends[first]},{ends[-1]}", MODE: mode}
            label = f"{mode} from {ends[first]}"
            if by_step is None:
                read = table.system_table("audit_log").changes(ends[first], ends[-1], mode=mode)
                cells = table_cells(read)
            else:
                changes = [change for step in by_step[first:] for change in step]
                cells = row_cells(rows, changes)
                told = row_cells(packed, packed_changes(changes))
                yield Moment(f"{label}, packed", asked, list(packed), told, "binlog", over)
            yield Moment(label, asked, list(rows), cells, "audit_log", over)
            plain = [row[1:] for row in cells]
            yield Moment(f"{label}, as rows", asked, list(case.columns), plain, passed_over=over)


def after_newest(table: tidelake.Table, made: Made) -> list[Moment]:
    """What somebody else changed since the table was made, as we read it."""
    start, end = made.newest, table.latest_snapshot_id
    moments = []
    for mode in modes_of(made.case):
        over = mode == "delta" and made.model.seen_compacted
        for view in ("audit_log", "binlog"):
            rows = table.system_table(view).changes(start, end, mode=mode)
            asked = {BETWEEN: f"{start},{end}", MODE: mode}
            label = f"{mode} of {view} after {start}"
            moments.append(Moment(label, asked, rows.column_names, table_cells(rows), view, over))
    return moments
