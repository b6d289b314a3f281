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
==============  ==================================================================================
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from interop.cells import Cell

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

    def rows(self) -> list[Row]:
        """The rows there are, in no order."""
        if not self.keys:
            return list(self.listed)
        return [row for _, row in self.keyed.values() if row is not None]

    def apply(self, step: Step) -> None:
        """Take a step."""
        match step["op"]:
            case "write":
                self._write(step["rows"])
            case "overwrite":
                touched = {self._partition(r[1:]) for r in step["rows"]}
                dynamic = step["dynamic"] and bool(self.program.partition_keys)

                def kept(row: Row) -> bool:
                    return dynamic and self._partition(row) not in touched

                # what a delete leaves behind (its order) goes with its partition too
                self.keyed = {k: v for k, v in self.keyed.items() if v[1] and kept(v[1])}
                self.listed = [r for r in self.listed if kept(r)]
                self._write(step["rows"])
            case "alter":
                for change in step["changes"]:
                    self._alter(change)

    def _partition(self, row: Row) -> Row:
        return tuple(row[self.names.index(k)] for k in self.program.partition_keys)

    def _write(self, rows: list[list[Cell]]) -> None:
        for kind, *cells in rows:
            row = tuple(cells)
            if not self.keys:
                self.listed.append(row)
                continue
            if kind in {"-U", "-D"} and self.ignores_deletes:
                continue
            key = tuple(row[self.names.index(k)] for k in self.keys)
            order = [self._order(row[self.names.index(s)]) for s in self.sequence]
            known = self.keyed.get(key)
            if known is None or self._wins(order, known[0]):
                self.keyed[key] = order, row if kind in {"+I", "+U"} else None

    @staticmethod
    def _order(cell: Cell) -> tuple[bool, int]:
        return cell is not None, 0 if cell is None else int(cell.rpartition(":")[2])

    def _wins(self, order: Any, known: Any) -> bool:
        if not self.down:
            return bool(order >= known)
        # the order of nulls turns with the sort order too
        return bool(order <= known)

    def _alter(self, change: dict[str, Any]) -> None:
        name = change.get("name")
        kind = change["change"]
        if kind == "add":
            at = len(self.names)
            if "after" in change:
                at = self.names.index(change["after"]) + 1
            elif change.get("first"):
                at = 0
            self.names.insert(at, name)
            self._each(lambda r: (*r[:at], None, *r[at:]))
        elif kind == "drop":
            at = self.names.index(name)
            del self.names[at]
            self._each(lambda r: (*r[:at], *r[at + 1 :]))
        elif kind == "rename":
            self.names[self.names.index(name)] = change["to"]
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
            self._each(lambda r: (*r[:at], None if r[at] is None else cast(r[at]), *r[at + 1 :]))

    def _each(self, changed: Any) -> None:
        self.keyed = {
            k: (order, None if row is None else changed(row))
            for k, (order, row) in self.keyed.items()
        }
        self.listed = [changed(r) for r in self.listed]


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
