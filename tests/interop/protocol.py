"""Requests to and answers from another engine: two files of JSON lines.

A request is one line: ``{"id", "op": "read", "table", "options", "system"}`` (``system`` names a
system table), ``{"id", "op": "write", "table", "rows": [[kind, cell, ...], ...]}``, cells as in
``cells.py``, or ``{"id", "op": "compact", "table", "full"}``.
An answer is a line ``{"id", "columns"}``, one line ``[kind, cell, ...]`` per row, and a line
``{"id", "rows"}``; or a line ``{"id", "error"}`` where the engine refuses. ``java/Dump.java``,
``spark_dump.py`` and ``pypaimon_dump.py`` are the other end. Standard library only.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """Read a table (at a snapshot or tag) or a system table of it, or write rows into it."""

    id: str
    table: str
    options: Mapping[str, str] = field(default_factory=dict)
    op: str = "read"
    rows: tuple[Row, ...] = ()
    system: str | None = None
    full: bool = False
    """Of ``"compact"``: everything into one file."""
    changes: bool = False
    """The rows are changes: of any kind."""

    def to_json(self) -> str:
        of_system = {} if self.system is None else {"system": self.system}
        return json.dumps(
            {
                **of_system,
                "id": self.id,
                "op": self.op,
                "table": self.table,
                "options": dict(self.options),
                "rows": [list(r) for r in self.rows],
                "full": self.full,
            },
            ensure_ascii=False,
        )


@dataclass(slots=True)
class Answer:
    """What an engine said: columns and rows without their kinds, or why not."""

    columns: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    error: str | None = None


def write_requests(path: Path, requests: Iterable[Request]) -> None:
    """Write the requests, one a line."""
    path.write_text("".join(r.to_json() + "\n" for r in requests), encoding="utf-8")


def read_answers(path: Path, requests: Sequence[Request]) -> dict[str, Answer]:
    """Read the answers by request id; a request whose answer breaks off has an error.

    A batch read must give rows that are there, anything else is an error.
    """
    changes = {request.id for request in requests if request.changes}
    answers: dict[str, Answer] = {}
    current: Answer | None = None
    current_id = ""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            value = json.loads(line)
            if isinstance(value, list):
                assert current is not None
                if value[0] not in {"+I", "+U"} and current_id not in changes:
                    current.error = f"a row of kind {value[0]} came out of a batch read"
                current.rows.append(tuple(value[1:]))
                continue
            current_id = value["id"]
            current = answers.setdefault(current_id, Answer(error="the answer breaks off"))
            if "columns" in value:
                current.columns = value["columns"]
            elif "error" in value:
                current.error = value["error"]
            elif current.error == "the answer breaks off":
                current.error = None
    return answers


def serve(
    requests: Path,
    answers: Path,
    *,
    read: Callable[[str, Mapping[str, str], str | None], tuple[list[str], list[Row]]],
    write: Callable[[str, list[list[str | None]]], int] | None = None,
) -> None:
    """The other end in Python: answer every request; an engine's error is an answer too."""
    with answers.open("w", encoding="utf-8") as out:

        def say(value: object) -> None:
            out.write(json.dumps(value, ensure_ascii=False) + "\n")

        for line in requests.read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            try:
                if request["op"] == "write":
                    assert write is not None, "this engine is asked to read only"
                    say({"id": request["id"], "rows": write(request["table"], request["rows"])})
                    continue
                columns, rows = read(request["table"], request["options"], request.get("system"))
                say({"id": request["id"], "columns": columns})
                for row in rows:
                    say(["+I", *row])
                say({"id": request["id"], "rows": len(rows)})
            except Exception as failure:  # noqa: BLE001  the report prints it
                traceback.print_exc()
                reason = f"{type(failure).__name__}: {failure}"
                say({"id": request["id"], "error": reason})
