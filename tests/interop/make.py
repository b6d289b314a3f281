"""The cases' tables, made with Tidelake through its public face.

``make_table`` takes a case's steps one by one and notes, for every snapshot that came into being,
the rows the model says it has: a step that also compacted has two, and both must read the same.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from proving.changelog import ChangelogModel

import tidelake
from interop.cases import (
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
from interop.cells import Cell, table_cells
from interop.changes import change_of
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

_WIDE = decimal.Context(prec=60)
_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True, slots=True)
class Moment:
    """One state of a table: how a reader asks for it, and the rows that must be there."""

    label: str
    option: Mapping[str, str]
    columns: list[str]
    rows: list[tuple[Cell, ...]]
    system: str | None = None
    """A system table, which Java's core alone is asked for."""


@dataclass(slots=True)
class Made:
    """A table that was made."""

    case: Case
    path: Path
    model: Model
    moments: list[Moment] = field(default_factory=list)


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
            table.create_tag(name)
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
    for step in case.steps:
        before = made.model.cells()
        _take(table, step, made.model.keys)
        made.model.apply(step)
        columns, rows = list(made.model.columns), made.model.cells()
        newest = table.latest_snapshot_id or 0
        for snapshot in range(seen + 1, newest + 1):
            asked = {"scan.snapshot-id": str(snapshot)}
            told = before if made.model.seen_compacted and snapshot < newest else rows
            made.moments.append(Moment(f"snapshot {snapshot}", asked, columns, told))
        seen = newest
        if isinstance(step, Tag):
            asked = {"scan.tag-name": step.name}
            made.moments.append(Moment(f"tag {step.name}", asked, columns, rows))
    made.moments.append(Moment("now", {}, list(made.model.columns), made.model.cells()))
    if "changelog-producer" in case.options:
        made.moments.append(_logged(case, seen))
        for view in ("audit_log", "ro"):  # Java must read what we read
            shown = table.system_table(view).to_arrow()
            rows = table_cells(shown)
            made.moments.append(Moment(view, {}, shown.column_names, rows, view))
    return made


def _logged(case: Case, newest: int) -> Moment:
    """The changelog from the beginning, as the model of the producers says."""
    model = ChangelogModel(tuple(case.columns), case.options)
    changes: list[Values] = []
    for step in case.steps:
        if isinstance(step, Compact):
            logs = {"full-compaction": model.compact_fully()}
        else:
            if isinstance(step, Delete):  # its rows hold the key and nothing else
                nulls = (None,) * (len(case.columns) - len(case.primary_keys))
                rows = [("-D", *key, *nulls) for key in step.keys]
            else:
                assert isinstance(step, Write), "the model knows writes, deletes and compactions"
                kinds = step.kinds or ["+I"] * len(step.rows)
                rows = [(kind, *row) for kind, row in zip(kinds, step.rows, strict=True)]
            given, looked_up = model.write(rows)
            logs = {"input": given, "lookup": looked_up}
        changes += logs.get(case.options["changelog-producer"], [])
    columns = {"rowkind": "STRING", **case.columns}
    asked = {"incremental-between": f"0,{newest}", "incremental-between-scan-mode": "changelog"}
    return Moment("changelog", asked, list(columns), row_cells(columns, changes), "audit_log")
