"""Scripts of SQL that run on Java Paimon and on us, and what is written down of each statement.

A script is a file of ``sql/``; it runs in a database of its own name that is empty at first.
Statements end with ``;`` at the end of a line. Lines ``--! word: rest`` stand before a statement:

=================  ===============================================================================
``copy: a b``      tables that real Paimon wrote are copied into the database first
``java: text``     Java gets this text instead (several lines are joined)
``settle``         the columns of the answer are compared, its rows are not
``differs: name``  the answers differ, for a reason of ``differences.py``
=================  ===============================================================================

In a statement ``@db`` is the script's database, ``@millis(t, 2)`` and ``@time(t, 2)`` are when a
snapshot was committed, in milliseconds and as text of UTC.

What is written down of a statement: columns and rows (sorted), or that it was refused; then, read
from the tables' own files, every snapshot and every schema that it made. Nothing of either product
is used here: the standard library alone, so both ends of the comparison can run this file.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("sql")

Answer = dict[str, Any]
Run = Callable[[str], tuple[Sequence[str], Sequence[Sequence[object]]]]

_DIRECTIVE = re.compile(r"--! (\w+):? ?(.*)")
_MOMENT = re.compile(r"@(millis|time)\((\w+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Step:
    """One statement and where it stands."""

    place: str
    text: str
    java: str | None = None
    copy: tuple[str, ...] = ()
    differs: str | None = None
    settle: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The statements of one file, and what its first line says that they are about."""

    name: str
    about: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Said:
    """What the lines before a statement say of it."""

    words: dict[str, list[str]] = field(default_factory=dict)

    def take(self) -> dict[str, str]:
        taken = {word: " ".join(lines) for word, lines in self.words.items()}
        self.words = {}
        return taken


def read_script(path: Path) -> Script:
    """Read one file."""
    steps: list[Step] = []
    said, lines, start = _Said(), [], 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        directive = _DIRECTIVE.fullmatch(line)
        if directive is not None:
            said.words.setdefault(directive[1], []).append(directive[2])
            continue
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        start = start or number
        lines.append(line)
        if line.endswith(";"):
            words = said.take()
            unknown = words.keys() - {"java", "copy", "differs", "settle"}
            assert not unknown, f"{path.name}:{number}: {unknown}"
            steps.append(
                Step(
                    f"{path.name}:{start}",
                    "\n".join(lines)[:-1],
                    words.get("java"),
                    tuple(words.get("copy", "").split()),
                    words.get("differs"),
                    "settle" in words,
                )
            )
            lines, start = [], 0
    assert not lines, f"{path.name}:{start}: the statement has no ';'"
    about = path.read_text().partition("\n")[0].removeprefix("-- ")
    return Script(path.stem, about, tuple(steps))


def scripts() -> Iterator[Script]:
    """All scripts, by name."""
    return map(read_script, sorted(PLACE.glob("*.sql")))


def plain(value: Any) -> Any:
    """A cell of a DataFrame's row as JSON has it."""
    if isinstance(value, bytes | bytearray):
        return {"hex": bytes(value).hex()}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return {"time": value.isoformat()}
    if isinstance(value, Mapping):
        return {"map": sorted(([plain(k), plain(v)] for k, v in value.items()), key=repr)}
    if hasattr(value, "toJson"):  # a variant
        return {"variant": value.toJson()}
    if isinstance(value, list | tuple):  # a Row is a tuple
        return [plain(v) for v in value]
    if isinstance(value, float):
        return {"float": repr(value)}
    return value


def run_script(
    script: Script, run: Run, warehouse: Path, *, fixtures: Path, java: bool
) -> list[Answer]:
    """Run all statements of a script; an answer for each."""
    place = warehouse / f"{script.name}.db"
    seen: set[Path] = set()
    answers = []
    for step in script.steps:
        for table in step.copy:
            shutil.copytree(fixtures / table, place / table)
            seen |= set(_metadata(place / table))
        text = step.java if java and step.java is not None else step.text
        answer: Answer = {"place": step.place}
        try:
            columns, rows = run(_with_moments(text.replace("@db", script.name), place))
            found = [[plain(cell) for cell in row] for row in rows]
            answer["columns"] = list(columns)
            answer["rows"] = sorted(found, key=lambda row: json.dumps(row, sort_keys=True))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            answer["refused"] = f"{type(error).__name__}: {error}"[:2000]
        fresh = [p for p in _all_metadata(place) if p not in seen]
        seen |= set(fresh)
        answer["snapshots"] = [_snapshot(p) for p in fresh if p.parent.name == "snapshot"]
        answer["schemas"] = [_schema(p) for p in fresh if p.parent.name == "schema"]
        answers.append(answer)
    return answers


def _with_moments(text: str, place: Path) -> str:
    def moment(found: re.Match[str]) -> str:
        path = place / found[2] / "snapshot" / f"snapshot-{found[3]}"
        millis = json.loads(path.read_text())["timeMillis"]
        if found[1] == "millis":
            return str(millis)
        time = dt.datetime.fromtimestamp(millis / 1000, dt.UTC)
        return f"{time:%Y-%m-%d %H:%M:%S}.{millis % 1000:03}"

    return _MOMENT.sub(moment, text)


def _number(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _metadata(table: Path) -> list[Path]:
    found = [*table.glob("snapshot/snapshot-*"), *table.glob("schema/schema-*")]
    return sorted(found, key=lambda p: (p.parent.name, _number(p)))


def _all_metadata(place: Path) -> Iterator[Path]:
    for table in sorted(place.glob("*")):
        yield from _metadata(table)


def _snapshot(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    counts = {key: found.get(f"{key}RecordCount") for key in ("total", "delta", "changelog")}
    return {
        "table": path.parents[1].name,
        "snapshot": found["id"],
        "schema": found["schemaId"],
        "kind": found["commitKind"],
        **{key: count or 0 for key, count in counts.items()},
    }


def _schema(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    keys = ("id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment")
    # Java's catalog on Spark writes down who made the table
    found["options"].pop("owner", None)
    return {"table": path.parents[1].name, **{key: found.get(key) for key in keys}}


def difference(step: Step, java: Answer, ours: Answer) -> str | None:
    """What differs between two answers, in words; None where they are equal."""
    if ("refused" in java) != ("refused" in ours):
        who, whom, why = (
            ("Java", "we", java.get("refused"))
            if "refused" in java
            else ("we", "Java", ours.get("refused"))
        )
        return f"{who} refused what {whom} did: {' '.join(str(why).split())[:400]}"
    keys = ["columns"] if step.settle else ["columns", "rows"]
    for key in (*keys, "snapshots", "schemas"):
        theirs, own = java.get(key), ours.get(key)
        if theirs != own:
            return f"{key}: {_apart(theirs, own)}"
    return None


def _apart(theirs: Any, own: Any) -> str:
    if isinstance(theirs, list) and isinstance(own, list):
        texts = [[json.dumps(v, sort_keys=True) for v in side] for side in (theirs, own)]
        only = [[t for t in a if t not in b] for a, b in (texts, texts[::-1])]
        if any(only):
            return f"Java alone has {only[0]}, we alone have {only[1]}"
    return f"Java has {theirs}, we have {own}"
