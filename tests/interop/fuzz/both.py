"""Runs a program: each step by its engine; then both read every snapshot, judged by the dict."""

from __future__ import annotations

import datetime
import json
import re
import struct
import traceback
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidelake
from interop.cells import Cell, difference, inside, table_cells
from interop.changes import change_of
from interop.fuzz.program import Model, Program, Row, Step
from interop.make import BETWEEN, MODE, rows_to_arrow
from interop.peer import JavaPeer, PeerError
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
FILTERS_MAX = 4
ODD_FLOATS = ("f:7fc0", "d:7ff8", "f:0000", "d:0000", "f:8000", "d:8000")
"""NaN, and the zeros (and numbers next to them): two cells that a filter calls equal, or none."""
SYSTEM_TABLES = (
    "snapshots", "schemas", "options", "files", "manifests", "partitions", "buckets", "tags",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong. ``word`` says what kind of thing, kept while a program shrinks."""

    word: str
    detail: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program: fine, refused by us in words, or failed."""

    snapshots: int = 0
    refused: str | None = None
    failure: Failure | None = None


class _Failed(Exception):
    def __init__(self, word: str, detail: str) -> None:
        super().__init__(detail)
        self.failure = Failure(word, detail)


def run(program: Program, java: JavaPeer, warehouse: Path) -> Outcome:
    """Run a program in a new warehouse."""
    try:
        return Outcome(snapshots=_Run(program, java, warehouse).run())
    except UnsupportedError as refusal:
        if program.uncovered:
            return Outcome(refused=refusal.message)
        return Outcome(failure=Failure("refused by tidelake", refusal.message))
    except _Failed as failed:
        return Outcome(failure=failed.failure)


@dataclass(frozen=True, slots=True)
class _Moment:
    """A state that both read; ``snapshot`` is None for the newest.

    ``rows`` are all that was committed, and ``compacted`` those that a reader shows that leaves
    level 0 out; None where the engine that commits decides. ``is_between`` says that the two may
    differ: the commit's compaction is still to come.
    """

    snapshot: int | None
    names: list[str]
    rows: list[Row] | None
    compacted: list[Row] | None
    is_between: bool = False


def value_of(cell: Cell) -> Any:
    """The plain value of a scalar's cell, as ``interop.make`` takes it."""
    if cell is None:
        return None
    mark, colon, body = cell.partition(":")
    if not colon:
        return cell == "true" if cell in {"true", "false"} else int(cell)
    match mark:
        case "s":
            return body
        case "x":
            return bytes.fromhex(body)
        case "n":
            return Decimal(body)
        case "f" | "d":
            raise AssertionError("floats are decoded by their column")
        case _:
            return int(body)


class _Run:
    def __init__(self, program: Program, java: JavaPeer, warehouse: Path) -> None:
        self.program, self.java, self.reader = program, java, java
        self.place = warehouse / "db.db" / "t"
        self.catalog = tidelake.open(str(warehouse))
        self.model = Model(program)
        self.types = [str(t) for _, t in program.columns] + [
            str(change.get("type")) for step in program.steps for change in step.get("changes", ())
        ]
        self.moments: list[_Moment] = []
        # Java shows what is written from its compaction on, which is a write's second snapshot
        self.seen_compacted = program.options.get("deletion-vectors.enabled") == "true"

    def run(self) -> int:
        """Run the steps, then compare; the newest snapshot's id."""
        if self.program.options.get("sequence.field.sort-order") != "descending":
            return self._run()
        # 1.3.1 keeps comparators by the types of the columns, without the sort order: the order
        # that a process met first holds for all of its tables. So one writes, and another reads
        with self.java.fresh() as self.java, self.java.fresh() as self.reader:
            return self._run()

    def _run(self) -> int:
        program = self.program
        first = program.steps[0]["by"] if program.steps else "tidelake"
        self._create(first)
        table = self.catalog.table("db.t")
        newest = 0
        for number, step in enumerate(program.steps):
            if number % 2:
                table = self.catalog.table("db.t")  # a handle lives through others' commits too
            before = self.model.rows()
            self._take(table, step, number)
            self.model.apply(step)
            last = self._newest()
            rows = self.model.rows()
            # one that is written anew is empty on its way, or not, by the engine that does it
            known = step["op"] not in {"overwrite", "rescale"}
            names = list(self.model.names)
            for snapshot in range(newest + 1, last + 1):
                if self.seen_compacted and snapshot < last:
                    whole, compacted = rows if step["op"] == "write" else None, before
                    if not known:
                        compacted = None
                    self.moments.append(_Moment(snapshot, names, whole, compacted, is_between=True))
                else:
                    self.moments.append(_Moment(snapshot, names, rows, rows))
            newest = last
            if step["op"] in {"alter", "rescale"}:
                table = self.catalog.table("db.t")
        rows = self.model.rows()
        self.moments.append(_Moment(None, list(self.model.names), rows, rows))
        for moment in self.moments:
            self._compare(moment)
        self._compare_filtered()
        self._compare_changelog(newest)
        self._compare_system_tables()
        return newest

    def _create(self, by: str) -> None:
        program = self.program
        self.place.parent.mkdir(parents=True, exist_ok=True)
        if by == "java":
            self.java.do(
                "create",
                self.place,
                columns=program.columns,
                primary_keys=program.primary_keys,
                partition_keys=program.partition_keys,
                options=program.options,
            )
            return
        fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(program.columns)]
        with _words("tidelake does not create"):
            self.catalog.create_table(
                "db.t",
                fields,
                primary_keys=program.primary_keys,
                partition_keys=program.partition_keys,
                options=program.options,
            )

    def _take(self, table: tidelake.Table, step: Step, number: int) -> None:
        if step["by"] == "java":
            try:
                self._java_step(step)
            except PeerError as error:
                # whatever we wrote before must not trouble it
                raise _Failed("java does not write", f"step {number}: {error}") from error
            return
        with _words("tidelake does not write", f"step {number}: "):
            self._our_step(table, step)

    def _java_step(self, step: Step) -> None:
        match step["op"]:
            case "write":
                self.java.do("write", self.place, rows=step["rows"])
            case "overwrite":
                dynamic = str(step["dynamic"]).lower()
                options = {"dynamic-partition-overwrite": dynamic}
                self.java.do("overwrite", self.place, rows=step["rows"], options=options)
            case "compact":
                # Java compacts on demand only where writers may compact
                options = {"write-only": "false"}
                self.java.do("compact", self.place, full=step["full"], options=options)
            case "alter":
                self.java.do("alter", self.place, changes=step["changes"])
            case "drop":
                name = self.program.options.get("partition.default-name", DEFAULT_PARTITION)
                texts = [
                    {k: name if c is None else _directory_text(c) for k, c in p.items()}
                    for p in step["partitions"]
                ]
                self.java.do("drop", self.place, partitions=texts)
            case "rescale":
                self.java.do("rescale", self.place, buckets=step["buckets"])

    def _our_step(self, table: tidelake.Table, step: Step) -> None:
        match step["op"]:
            case "write":
                arrow = _arrow(table, step["rows"])
                kinds = [row[0] for row in step["rows"]]
                table.write(arrow, row_kinds=kinds if set(kinds) != {"+I"} else None)
            case "overwrite":
                if not step["dynamic"]:
                    table = table.copy({"dynamic-partition-overwrite": "false"})
                table.write(_arrow(table, step["rows"]), mode="overwrite")
            case "compact":
                table.compact(full=step["full"])
            case "alter":
                alter(self.catalog, step["changes"])
            case "drop":
                schema = to_arrow_schema(table.table_schema.fields)
                table.drop_partitions(
                    [
                        {k: _scalar(c, schema.field(k).type) for k, c in p.items()}
                        for p in step["partitions"]
                    ]
                )
            case "rescale":
                table.rescale_bucket(step["buckets"])

    def _newest(self) -> int:
        names = (p.name for p in (self.place / "snapshot").glob("snapshot-*"))
        return max((int(n.removeprefix("snapshot-")) for n in names), default=0)

    def _compare(self, moment: _Moment) -> None:
        snapshot, names = moment.snapshot, moment.names
        when = "now" if snapshot is None else f"snapshot {snapshot}"
        with _words("tidelake does not read", f"{when}: "):
            table = self.catalog.table("db.t")
            arrow = table.to_arrow(snapshot_id=snapshot)
            if moment.is_between:
                whole = table_cells(arrow)
                wrong = moment.rows and difference(moment.rows, whole, names)
                if wrong:
                    raise _Failed("tidelake reads half a commit", f"{when}: {wrong}")
                as_java = table.with_options({"deletion-vectors.merge-on-read": "false"})
                arrow = as_java.to_arrow(snapshot_id=snapshot)
        ours = table_cells(arrow)
        options = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
        try:
            columns, theirs = self.reader.read(self.place, options)
        except PeerError as error:
            raise _Failed("java does not read", f"{when}: {error}") from error
        for who, found_names, found in (
            ("java", columns, theirs),
            ("tidelake", arrow.column_names, ours),
        ):
            if found_names != names:
                detail = f"{when}: columns {found_names} instead of {names}"
                raise _Failed(f"{who} reads other columns", detail)
            rows = theirs if moment.compacted is None else moment.compacted
            wrong = difference(rows, found, names)
            if wrong:
                raise _Failed(f"{who} reads other rows", f"{when}: {wrong}")

    def _compare_changelog(self, newest: int) -> None:
        """Both read the same changes; all of them together are the rows, or what was written."""
        producer = self.program.options.get("changelog-producer")
        if producer is None or not newest:
            return
        with _words("tidelake does not read the changelog"):
            log = self.catalog.table("db.t").system_table("audit_log")
            arrow = log.changes(0, newest, mode="changelog")
        ours = table_cells(arrow)
        asked = {BETWEEN: f"0,{newest}", MODE: "changelog"}
        try:
            columns, theirs = self.reader.read(self.place, asked, system="audit_log")
        except PeerError as error:
            raise _Failed("java does not read the changelog", str(error)) from error
        # 1.3.1 passes over level 0 of a table with deletion vectors, also in its changelog
        passed_over = self.seen_compacted and producer == "input"
        wrong = difference([] if passed_over else ours, theirs, columns)
        if wrong or columns != arrow.column_names:
            raise _Failed("changelogs differ", f"{wrong}; {columns}, {arrow.column_names}")
        came = [row[1:] for row in ours if row[0] in {"s:+I", "s:+U"}]
        went = [row[1:] for row in ours if row[0] in {"s:-U", "s:-D"}]
        wrong = None
        if producer in self._told_in_full():
            wrong = difference([*went, *self.model.rows()], came, columns[1:])
        elif producer == "input" and self._told_as_given():
            ignores = self.program.options.get("ignore-delete") == "true"
            kinds = {"+I", "+U"} if ignores else {"+I", "+U", "-U", "-D"}
            rows = [row for step in self.program.steps for row in step.get("rows", ())]
            given = [(f"s:{kind}", *cells) for kind, *cells in rows if kind in kinds]
            wrong = difference(given, ours, columns)
        if wrong:
            raise _Failed("the changelog tells of other changes", wrong)

    def _told_in_full(self) -> set[str]:
        """Producers that have logged by now whatever became of the rows."""
        steps, options = self.program.steps, self.program.options
        if {s["op"] for s in steps} - {"write", "compact", "alter"} or "write-only" in options:
            return set()
        last = steps[-1]
        return {
            "lookup",
            *(["full-compaction"] if last["op"] == "compact" and last["full"] else []),
        }

    def _told_as_given(self) -> bool:
        """Whether a writer logs the rows that it is given: it adds none, and none waits."""
        moving = set(self.program.partition_keys) - set(self.program.primary_keys)
        waits = self.program.options.get("bucket") == "-2"
        return not (moving or waits or {s["op"] for s in self.program.steps} - {"write", "compact"})

    def _compare_filtered(self) -> None:
        """A filter on a column with a file index gives all rows that have a value."""
        keys = [k for k in self.program.options if k.startswith("file-index.") and "columns" in k]
        indexed = {n for k in keys for n in self.program.options[k].split(",")}
        table = self.catalog.table("db.t")
        for at, name in enumerate(self.model.names):
            kind = table.schema.field(name).type if name in indexed else pa.null()
            # what Python's own values hold: no nanoseconds, and NaN is equal to nothing
            if (
                name not in indexed
                or pa.types.is_nested(kind)
                or str(kind).startswith("timestamp[ns")
            ):
                continue
            cells = sorted({r[at] for r in self.model.rows() if r[at] is not None})
            for cell in cells[:FILTERS_MAX]:
                if pa.types.is_floating(kind) and cell.startswith(ODD_FLOATS):
                    continue
                with _words("tidelake does not read", f"{name} = {cell}: "):
                    wanted = tidelake.col(name) == _scalar(cell, kind)
                    found = table_cells(table.to_arrow(where=wanted))
                rows = [r for r in self.model.rows() if r[at] == cell]
                wrong = difference(rows, found, self.model.names)
                if wrong:
                    raise _Failed("a filter finds other rows", f"{name} = {cell}: {wrong}")

    def _compare_system_tables(self) -> None:
        for name in SYSTEM_TABLES:
            with _words(f"tidelake does not read ${name}"):
                arrow = self.catalog.table(f"db.t${name}").to_arrow()
            try:
                columns, theirs = self.reader.read(self.place, system=name)
            except PeerError as error:
                raise _Failed(f"java does not read ${name}", str(error)) from error
            if name == "partitions":
                # 1.3.1 shows `{1}` where we show `p=1`, as 2.1 does
                columns, theirs = columns[1:], [r[1:] for r in theirs]
            missing = [c for c in columns if c not in arrow.column_names]
            if missing:
                raise _Failed(f"${name} lacks columns", str(missing))
            if name == "files" and any("BINARY" in t or "BYTES" in t for t in self.types):
                # of a binary value Java prints where it lay in memory
                kept = [i for i, c in enumerate(columns) if not c.startswith(("min_", "max_"))]
                columns = [columns[i] for i in kept]
                theirs = [tuple(r[i] for i in kept) for r in theirs]
            arrow = arrow.select(columns)
            ours = _bare(name, columns, table_cells(arrow))
            wrong = difference(_bare(name, columns, theirs), ours, columns)
            if wrong:
                raise _Failed(f"${name} differs", wrong)


def _bare(name: str, columns: list[str], rows: list[Row]) -> list[Row]:
    """Rows of a system table without what may differ: a path's scheme, the order of options."""
    rows = [tuple(c and re.sub(r"^s:file:/+(?=/)", "s:", c) for c in row) for row in rows]
    if name == "schemas":
        at = columns.index("options")
        rows = [
            (*r[:at], json.dumps(json.loads(r[at][2:]), sort_keys=True), *r[at + 1 :]) for r in rows
        ]
    return rows


def alter(catalog: tidelake.Catalog, changes: list[dict[str, Any]]) -> None:
    """Alter the table by us."""
    catalog.alter_table("db.t", [change_of(change) for change in changes])


def _arrow(table: tidelake.Table, rows: list[list[Cell]]) -> Any:
    schema = to_arrow_schema(table.table_schema.fields)
    values = [
        tuple(_value(c, t) for c, t in zip(row[1:], schema.types, strict=True)) for row in rows
    ]
    return rows_to_arrow(schema, values)


def _scalar(cell: Cell, kind: pa.DataType) -> Any:
    """A value as users give it."""
    schema = pa.schema([("c", kind)])
    return rows_to_arrow(schema, [(_value(cell, kind),)])["c"][0].as_py()


def _directory_text(cell: str) -> str:
    """A partition's value as Java takes it."""
    mark, colon, body = cell.partition(":")
    if mark == "day":
        return (datetime.date(1970, 1, 1) + datetime.timedelta(int(body))).isoformat()
    return body if colon else cell


def _value(cell: Cell, kind: pa.DataType) -> Any:
    """The value of a cell under an Arrow type, as ``interop.make`` takes it."""
    if cell is not None and pa.types.is_struct(kind):
        return tuple(_value(c, f.type) for c, f in zip(inside(cell), kind, strict=True))
    if cell is not None and pa.types.is_map(kind):
        cells = inside(cell)
        return [
            (_value(k, kind.key_type), _value(v, kind.item_type))
            for k, v in zip(cells[::2], cells[1::2], strict=True)
        ]
    if cell is not None and pa.types.is_list(kind):
        return [_value(c, kind.value_type) for c in inside(cell)]
    if cell is not None and cell[:2] in {"f:", "d:"} and pa.types.is_floating(kind):
        code = ">f" if cell[0] == "f" else ">d"
        return struct.unpack(code, bytes.fromhex(cell[2:]))[0]
    return value_of(cell)


class _words:
    """Turns our error into a failure; a refusal goes on as it is."""

    def __init__(self, word: str, where: str = "") -> None:
        self.word, self.where = word, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, UnsupportedError) or not isinstance(error, Exception):
            return
        detail = f"{self.where}{type(error).__name__}: {error}"
        if not isinstance(error, TidelakeError):
            last = traceback.extract_tb(trace)[-1]
            detail += f" (at {Path(last.filename).name}:{last.lineno})"
        raise _Failed(self.word, detail) from error
