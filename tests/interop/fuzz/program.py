"""A program: a table and what two engines do to it, as plain JSON; and the model of it.

Rows are lists of cells (``cells.py``), so that a program can be sent to Java as it is, and kept as
a file. The model is a dict from key to row, or a list without a primary key. It shares no code with
the product.

==============  ==================================================================================
step            what it is; every step has ``"by"``: ``"tidelake"`` or ``"java"``
==============  ==================================================================================
``write``       ``rows``: ``[kind, cell, ...]``; kinds ``+I``, ``+U``, ``-U``, ``-D``
``overwrite``   ``rows`` replace the partitions that they touch (``dynamic``), or the whole table
``compact``     all buckets; ``full`` or as the engine sees fit
``alter``       ``changes``, as ``java/Peer.java`` takes them
``drop``        ``partitions``: dicts from column to cell
``rescale``     ``buckets``: so many in every partition
==============  ==================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from proving.one_key import merged

from interop.cells import Cell, TypeForm, inside, with_inside
from interop.fuzz.capability import WHOLE_NUMBERS

Step = dict[str, Any]
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Program:
    """A table and the steps on it.

    ``uncovered`` names the capabilities in it that Tidelake need not cover yet: it may then refuse
    the table, in words.
    """

    columns: tuple[tuple[str, Any], ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    seed: int | None = None
    uncovered: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The program as the text of a fixture file."""
        document = {
            "seed": self.seed,
            "columns": [list(c) for c in self.columns],
            "primary_keys": list(self.primary_keys),
            "partition_keys": list(self.partition_keys),
            "options": self.options,
            "uncovered": list(self.uncovered),
        }
        head = json.dumps(document, indent=1, ensure_ascii=False)[:-2]
        steps = ",\n  ".join(json.dumps(s, ensure_ascii=False) for s in self.steps)
        return f'{head},\n "steps": [\n  {steps}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Program:
        """Read what ``to_json`` wrote."""
        document = json.loads(text)
        return cls(
            tuple((name, kind) for name, kind in document["columns"]),
            tuple(document["primary_keys"]),
            tuple(document["partition_keys"]),
            document["options"],
            tuple(document["steps"]),
            document["seed"],
            tuple(document["uncovered"]),
        )

    def with_steps(self, steps: tuple[Step, ...]) -> Program:
        """The same table with other steps."""
        return replace(self, steps=steps)


def _whole_number(cell: Cell) -> tuple[bool, int]:
    """The whole number of a cell, to be compared; a null is less than any."""
    return cell is not None, 0 if cell is None else int(cell.rpartition(":")[2])


class Model:
    """The truth about a program's table after each step."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = [name for name, _ in program.columns]
        self.keys = program.primary_keys
        sequence = program.options.get("sequence.field")
        self.sequence = [] if sequence is None else sequence.split(",")
        self.down = program.options.get("sequence.field.sort-order") == "descending"
        self.ignores_deletes = program.options.get("ignore-delete") == "true"
        self.keyed: dict[Row, tuple[Any, Row | None]] = {}
        self.listed: list[Row] = []
        self.types: dict[str, TypeForm] = dict(program.columns)
        self.waits = program.options.get("bucket") == "-2"
        self.waiting: list[tuple[str, Row]] = []
        self.combines = "merge-engine" in program.options
        self.histories: dict[Row, list[tuple[str, Row]]] = {}

    def rows(self) -> list[Row]:
        """The rows there are, in no order."""
        if not self.keys:
            return list(self.listed)
        if self.combines:
            return [row for row in map(self._combined, self.histories.values()) if row is not None]
        return [row for _, row in self.keyed.values() if row is not None]

    def _combined(self, history: list[tuple[str, Row]]) -> Row | None:
        """One row of all of a key. Of cells only those of whole numbers are more than text."""
        numbers = {n for n in self.names if str(self.types[n]).split(" ")[0] in WHOLE_NUMBERS}

        def values(row: Row) -> dict[str, Any]:
            named = zip(self.names, row, strict=True)
            return {n: int(c) if c is not None and n in numbers else c for n, c in named}

        of_one_key = [(kind, values(row)) for kind, row in history]
        kind, whole = merged(of_one_key, self.program.options, keys=self.keys)
        if kind in {"-U", "-D"}:
            return None
        cells = ((n, whole[n]) for n in self.names)
        return tuple(str(v) if v is not None and n in numbers else v for n, v in cells)

    def apply(self, step: Step) -> None:
        """Take a step."""
        match step["op"]:
            case "write":
                self._write(step["rows"], by=step.get("by", "tidelake"))
            case "overwrite":
                touched = {self._partition(tuple(r[1:])) for r in step["rows"]}
                dynamic = step["dynamic"] and bool(self.program.partition_keys)
                self._keep(lambda row: dynamic and self._partition(row) not in touched)
                self._write(step["rows"], by=step.get("by", "tidelake"))
            case "drop":
                for named in step["partitions"]:
                    at = {self.names.index(name): cell for name, cell in named.items()}
                    self._keep(lambda row, at=at: any(row[i] != c for i, c in at.items()))
            case "compact":
                waiting, self.waiting = self.waiting, []
                for kind, row in waiting:
                    self._put(kind, row)
                if step.get("full"):  # nothing remembers a row that was removed
                    self.histories = {k: h for k, h in self.histories.items() if self._combined(h)}
            case "alter":
                for change in step["changes"]:
                    self._alter(change)
            case "rescale":
                pass

    def _keep(self, stays: Callable[[Row], bool]) -> None:
        # what a delete leaves behind (its order) goes with its partition too
        self.keyed = {k: v for k, v in self.keyed.items() if v[1] and stays(v[1])}
        self.histories = {k: h for k, h in self.histories.items() if stays(h[0][1])}
        self.listed = [r for r in self.listed if stays(r)]
        self.waiting = [(kind, r) for kind, r in self.waiting if stays(r)]

    def _partition(self, row: Row) -> Row:
        return tuple(row[self.names.index(k)] for k in self.program.partition_keys)

    def _write(self, rows: list[list[Cell]], *, by: str) -> None:
        if by == "java" and self.down and not self.waits:
            rows = self._flushed_by_java(rows)
        for kind, *cells in rows:
            if self.waits:
                self.waiting.append((kind, tuple(cells)))
            else:
                self._put(kind, tuple(cells))

    def _flushed_by_java(self, rows: list[list[Cell]]) -> list[list[Cell]]:
        """The rows that a write of 1.3.1 leaves: one of each key, its last in rising order.

        Its buffer sorts the rows of a key by rising sequence, whatever the table says, and the last
        stays. Files are merged as the table says.
        """
        kept: dict[Row, list[Cell]] = {}
        for row in sorted(rows, key=self._rising):  # stable: of equal ones the later stays
            kept[tuple(row[1 + self.names.index(k)] for k in self.keys)] = row
        return list(kept.values())

    def _rising(self, row: list[Cell]) -> list[tuple[bool, int]]:
        return [_whole_number(row[1 + self.names.index(name)]) for name in self.sequence]

    def _put(self, kind: str, row: Row) -> None:
        if not self.keys:
            self.listed.append(row)
            return
        if kind in {"-U", "-D"} and self.ignores_deletes:
            return
        key = tuple(row[self.names.index(k)] for k in self.keys)
        if self.combines:
            self.histories.setdefault(key, []).append((kind, row))
            return
        order = [self._order(row[self.names.index(s)]) for s in self.sequence]
        known = self.keyed.get(key)
        if known is None or order >= known[0]:
            self.keyed[key] = order, row if kind in {"+I", "+U"} else None

    def _order(self, cell: Cell) -> tuple[bool, int]:
        """Rises to what wins; the sort order turns values around, and a null beats none of them."""
        there, number = _whole_number(cell)
        return there, -number if self.down else number

    def _alter(self, change: dict[str, Any]) -> None:
        name = change.get("name")
        kind = change["change"]
        if isinstance(name, list):
            self._alter_inside(name[0], name[1:], change)
        elif kind == "add":
            at = len(self.names)
            if "after" in change:
                at = self.names.index(change["after"]) + 1
            elif change.get("first"):
                at = 0
            self.names.insert(at, name)
            self.types[name] = change["type"]
            self._each(lambda r: (*r[:at], None, *r[at:]))
        elif kind == "drop":
            at = self.names.index(name)
            del self.names[at]
            self._each(lambda r: (*r[:at], *r[at + 1 :]))
        elif kind == "rename":
            self.names[self.names.index(name)] = change["to"]
            self.types[change["to"]] = self.types.pop(name)
            self.sequence = [change["to"] if s == name else s for s in self.sequence]
        elif kind == "move":
            at = self.names.index(name)
            del self.names[at]
            to = 0 if change.get("first") else self.names.index(change["after"]) + 1
            self.names.insert(to, name)

            def moved(row: Row) -> Row:
                rest = (*row[:at], *row[at + 1 :])
                return (*rest[:to], row[at], *rest[to:])

            self._each(moved)
        elif kind == "retype":
            at, cast = self.names.index(name), WIDENED[change["from"], change["type"]]
            self.types[name] = change["type"]
            self._each(lambda r: (*r[:at], None if r[at] is None else cast(r[at]), *r[at + 1 :]))

    def _alter_inside(self, name: str, path: list[str], change: dict[str, Any]) -> None:
        at = self.names.index(name)
        self.types[name], changed = changed_inside(self.types[name], path, change)
        self._each(lambda r: (*r[:at], changed(r[at]), *r[at + 1 :]))

    def _each(self, changed: Any) -> None:
        self.keyed = {
            k: (order, None if row is None else changed(row))
            for k, (order, row) in self.keyed.items()
        }
        self.histories = {
            k: [(kind, changed(r)) for kind, r in h] for k, h in self.histories.items()
        }
        self.listed = [changed(r) for r in self.listed]
        self.waiting = [(kind, changed(r)) for kind, r in self.waiting]


def changed_inside(
    form: TypeForm, path: list[str], change: dict[str, Any]
) -> tuple[TypeForm, Callable[[Cell], Cell]]:
    """A nested type after a change at a path in it, and what becomes of its cells.

    The path goes through ``element``, ``key`` and ``value`` and the names of fields.
    """
    assert isinstance(form, dict)
    step, *rest = path
    root = form["type"].split()[0]
    if root == "ARRAY":
        element, changed = changed_inside(form["element"], rest, change)
        return {**form, "element": element}, _mapped(lambda cells: [changed(c) for c in cells])
    if root == "MAP":
        assert step == "value", "keys are not changed"
        value, changed = changed_inside(form["value"], rest, change)
        pairs = _mapped(lambda cells: [changed(c) if i % 2 else c for i, c in enumerate(cells)])
        return {**form, "value": value}, pairs
    fields = list(form["fields"])
    at = next((i for i, f in enumerate(fields) if f["name"] == step), len(fields))
    if rest:
        kind, changed = changed_inside(fields[at]["type"], rest, change)
        fields[at] = {**fields[at], "type": kind}
        return {**form, "fields": fields}, _mapped(
            lambda cells: [*cells[:at], changed(cells[at]), *cells[at + 1 :]]
        )
    match change["change"]:
        case "add":
            fields.append({"id": 0, "name": step, "type": change["type"]})
            grown = _mapped(lambda cells: [*cells, None])
            return {**form, "fields": fields}, grown
        case "drop":
            del fields[at]
            return {**form, "fields": fields}, _mapped(lambda c: [*c[:at], *c[at + 1 :]])
        case "rename":
            fields[at] = {**fields[at], "name": change["to"]}
            return {**form, "fields": fields}, lambda cell: cell
        case "retype":
            cast = WIDENED[change["from"], change["type"]]
            fields[at] = {**fields[at], "type": change["type"]}
            return {**form, "fields": fields}, _mapped(
                lambda c: [*c[:at], None if c[at] is None else cast(c[at]), *c[at + 1 :]]
            )
    message = f"the model knows no {change['change']} inside a column"
    raise AssertionError(message)


def _mapped(changed: Callable[[list[Cell]], list[Cell]]) -> Callable[[Cell], Cell]:
    """A change of the cells inside as a change of a cell."""
    return lambda cell: None if cell is None else with_inside(cell, changed(inside(cell)))


def _number(cell: str) -> str:
    return cell


WIDENED: dict[tuple[str, str], Any] = {
    ("TINYINT", "SMALLINT"): _number,
    ("TINYINT", "INT"): _number,
    ("SMALLINT", "INT"): _number,
    ("INT", "BIGINT"): _number,
    ("TINYINT", "BIGINT"): _number,
    ("SMALLINT", "BIGINT"): _number,
    ("INT", "STRING"): lambda c: f"s:{c}",
    ("BIGINT", "STRING"): lambda c: f"s:{c}",
    ("BOOLEAN", "STRING"): lambda c: f"s:{c}",
    ("VARCHAR(9)", "STRING"): _number,
    ("INT", "DECIMAL(20, 4)"): lambda c: f"n:{c}.0000",
    ("DECIMAL(5, 2)", "DECIMAL(20, 4)"): lambda c: f"{c}00",
}
"""Changes of type that the model knows, and what becomes of a cell."""
