"""The check itself: cases x readers, and the oracle's own tables read by us."""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import tidelake
from interop.case import Case, Compact, Write, row_cells
from interop.cells import difference, inside, table_cells, with_inside
from interop.expected import all_expected
from interop.make import MODE, Made, Moment, after_newest, make_table
from interop.protocol import Answer, Request, Row
from interop.readers import READERS, AbsentError, Reader
from tidelake.errors import UnsupportedError

EQUAL, DIFFERS, CANNOT, ABSENT = "equal", "differs", "cannot", "absent"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cell of the matrix."""

    case: str
    reader: str
    word: str
    more: str = ""


def _judge(made: Made, reader: str, answers: dict[str, Answer]) -> Verdict:
    """All moments of one table as one reader saw them."""
    case = made.case
    if reader in case.left_out:
        return Verdict(case.name, reader, CANNOT, case.left_out[reader])
    moments = [m for m in made.moments if _is_asked(made, m, reader)]
    for moment in moments:
        columns = moment.columns
        answer = answers[f"{case.name}|{moment.label}"]
        if answer.error is not None:
            expected = case.cannot.get(reader)
            if expected is not None and re.search(expected, answer.error):
                return Verdict(case.name, reader, CANNOT, expected)
            return Verdict(case.name, reader, DIFFERS, f"{moment.label}: {answer.error[:300]}")
        if answer.columns != columns:
            more = f"{moment.label}: columns {answer.columns} instead of {columns}"
            return Verdict(case.name, reader, DIFFERS, more)
        wrong = _difference(case, moment.rows_for(reader), answer.rows, columns)
        if wrong:
            return Verdict(case.name, reader, DIFFERS, f"{moment.label}: {wrong}")
    return Verdict(case.name, reader, EQUAL, f"{len(moments)} moments")


def _difference(
    case: Case, expected: Sequence[Row], found: Sequence[Row], columns: list[str]
) -> str | None:
    """The first difference; arrays that have no order are compared without."""
    places = [at for at, name in enumerate(columns) if name in case.unordered]

    def sorted_inside(row: Row) -> Row:
        cells = list(row)
        for at in places:
            if cells[at] is not None:
                cells[at] = with_inside(cells[at], sorted(inside(cells[at]), key=str))
        return tuple(cells)

    return difference(
        [sorted_inside(row) for row in expected], [sorted_inside(row) for row in found], columns
    )


def _is_asked(made: Made, moment: Moment, reader: str) -> bool:
    if moment.system is None and moment.between is None:
        return True
    if reader == "java-2.1":  # a query costs Spark more, and its core is asked for all views
        return "changelog-producer" in made.case.options
    return reader != "pypaimon"  # its end of the protocol knows no views


def _ours(made: Made) -> dict[str, Answer]:
    """What we read of our own table."""
    table = tidelake.open(str(made.path.parents[1])).table(f"db.{made.path.name}")
    answers = {}
    for moment in made.moments:
        rows = _read(table, moment)
        answers[f"{made.case.name}|{moment.label}"] = Answer(rows.column_names, table_cells(rows))
    return answers


def _read(table: tidelake.Table, moment: Moment) -> pa.Table:
    shown = table if moment.system is None else table.system_table(moment.system)
    if moment.between is None:
        snapshot = moment.option.get("scan.snapshot-id")
        return shown.to_arrow(
            snapshot_id=None if snapshot is None else int(snapshot),
            tag=moment.option.get("scan.tag-name"),
        )
    changes = shown.changes(*moment.between, mode=moment.option[MODE])
    return changes if moment.system is not None else changes.drop_columns(["_row_kind"])


def prepared(names: Sequence[str]) -> Iterator[Reader | Verdict]:
    """The readers, made ready; a verdict of absence for one that cannot be."""
    for name in names:
        reader = READERS[name]()
        try:
            reader.prepare()
        except AbsentError as reason:
            yield Verdict("all", name, ABSENT, str(reason))
        else:
            yield reader


def make_tables(warehouse: Path, cases: Sequence[Case], say: Callable[[str], None]) -> list[Made]:
    """Our tables."""
    tables = []
    for case in cases:
        tables.append(make_table(warehouse, case))
        say(f"made {case.name}")
    return tables


def read_by_us(tables: Sequence[Made]) -> list[Verdict]:
    """Our tables as we read them."""
    return [_judge(made, "tidelake", _ours(made)) for made in tables]


def read_by_other(
    tables: Sequence[Made], reader: Reader, say: Callable[[str], None]
) -> list[Verdict]:
    """Our tables as another engine reads them; what it then writes, we read."""
    say(f"{reader.title} reads")
    answers = _asked(reader, {made.case.name: _reads(made, reader.name) for made in tables}, tables)
    verdicts = [_judge(made, reader.name, answers) for made in tables]
    return [*verdicts, *_written_by_other(tables, reader, say)]


def _reads(made: Made, reader: str) -> list[Request]:
    return [
        Request(
            f"{made.case.name}|{moment.label}",
            str(made.path),
            moment.option,
            system=moment.system,
            changes=moment.between is not None,
        )
        for moment in made.moments
        if _is_asked(made, moment, reader)
    ]


def _asked(
    reader: Reader, requests: Mapping[str, Sequence[Request]], tables: Sequence[Made]
) -> dict[str, Answer]:
    """The answers to each table's requests, of one process but for tables that need their own."""
    alone = {made.case.name for made in tables if made.case.alone and reader.is_core}
    together = [r for name, own in requests.items() if name not in alone for r in own]
    answers = reader.ask(together) if together else {}
    for name in alone & set(requests):
        answers |= reader.ask(requests[name])
    return answers


def read_by_others(
    warehouse: Path, cases: Sequence[Case], readers: Sequence[Reader], say: Callable[[str], None]
) -> list[Verdict]:
    """Our tables as each reader reads them, ourselves first."""
    tables = make_tables(warehouse, cases, say)
    verdicts = read_by_us(tables)
    for reader in readers:
        verdicts += read_by_other(tables, reader, say)
    return verdicts


def _written_by_other(
    tables: Sequence[Made], reader: Reader, say: Callable[[str], None]
) -> list[Verdict]:
    """Another engine upserts into a copy of our table; then we read it."""
    verdicts = []
    wanted = [made for made in tables if made.case.peer_rows]
    if reader.name == "pypaimon":
        return []  # its end of the protocol only reads
    say(f"{reader.title} writes")
    with tempfile.TemporaryDirectory(prefix=f"written-by-{reader.name}-") as place:
        target = Path(place)
        requests = {}
        for made in wanted:
            if reader.name in made.case.peer_left_out:
                continue
            copied = target / "db.db" / made.path.name
            shutil.copytree(made.path, copied)
            requests[made.case.name] = _writes(made, copied, compacts=reader.is_core)
        answers = _asked(reader, requests, wanted)
        told = _changes_of_other(target, [m for m in wanted if m.case.name in requests], reader)
        for made in wanted:
            name = f"{made.case.name}, then written by {reader.name}"
            if reader.name in made.case.peer_left_out:
                why = made.case.peer_left_out[reader.name]
                verdicts.append(Verdict(name, "tidelake", CANNOT, why))
                continue
            failed = [answers[r.id].error for r in requests[made.case.name] if answers[r.id].error]
            if failed:
                verdicts.append(Verdict(name, "tidelake", DIFFERS, f"the write: {failed[0][:300]}"))
                continue
            table = tidelake.open(str(target)).table(f"db.{made.path.name}")
            compacted = len(requests[made.case.name]) > 1
            verdict = _judge_written(name, table, made, compacted=compacted)
            if verdict.word == EQUAL and made.case.name in told:
                verdict = Verdict(name, "tidelake", DIFFERS, told[made.case.name])
            verdicts.append(verdict)
    return verdicts


def _changes_of_other(target: Path, tables: Sequence[Made], reader: Reader) -> dict[str, str]:
    """What differs where we read the changes that the other engine wrote, and it reads them."""
    if not reader.is_core:
        return {}
    ours, requests = {}, {}
    for made in tables:
        if not made.case.is_viewed:
            continue
        table = tidelake.open(str(target)).table(f"db.{made.path.name}")
        moments = after_newest(table, made)
        ours[made.case.name] = moments
        requests[made.case.name] = [
            Request(
                f"{made.case.name}|{moment.label}",
                str(target / "db.db" / made.path.name),
                moment.option,
                system=moment.system,
                changes=True,
            )
            for moment in moments
        ]
    answers = _asked(reader, requests, tables)
    wrong = {}
    for name, moments in ours.items():
        for moment in moments:
            answer = answers[f"{name}|{moment.label}"]
            expected = moment.rows_for(reader.name)
            more = answer.error or difference(expected, answer.rows, moment.columns)
            if more is not None:
                wrong[name] = f"{moment.label}: {more[:300]}"
    return wrong


def _writes(made: Made, place: Path, *, compacts: bool) -> list[Request]:
    cells = row_cells(made.model.columns, made.case.peer_rows)
    rows = tuple(("+I", *c) for c in cells)
    requests = [Request(made.case.name, str(place), op="write", rows=rows)]
    if compacts and made.case.compacts:
        requests.append(Request(f"{made.case.name}|compact", str(place), op="compact", full=True))
    return requests


def _judge_written(name: str, table: tidelake.Table, made: Made, *, compacted: bool) -> Verdict:
    model = copy.deepcopy(made.model)  # each engine writes into a copy of its own
    model.apply(Write(made.case.peer_rows))
    if model.waits:
        table.compact()
        model.apply(Compact())
    seen = {"now": table.to_arrow()}
    if compacted:
        # what was written, merged by us; then by them: the last level has it all
        written = made.newest + 1
        assert table.latest_snapshot_id > written, f"{name}: nothing was compacted"
        seen = {"written": table.to_arrow(snapshot_id=written), **seen}
        seen["compacted"] = table.system_table("ro").to_arrow()
    for moment, rows in seen.items():
        wrong = _difference(made.case, model.cells(), table_cells(rows), rows.column_names)
        if wrong:
            return Verdict(name, "tidelake", DIFFERS, f"{moment}: {wrong}")
    return Verdict(name, "tidelake", EQUAL, f"{rows.num_rows} rows")


def fixtures_read_by_us(oracle: Path, scratch: Path) -> list[Verdict]:
    """The oracle's tables at every moment whose rows it lists."""
    shutil.copytree(oracle / "fixtures" / "warehouse", scratch, dirs_exist_ok=True)
    catalog = tidelake.open(str(scratch))
    verdicts: dict[str, Verdict] = {}
    moments: dict[str, int] = {}
    for expected in all_expected(oracle / "fixtures"):
        known = verdicts.get(expected.case)
        if known is not None and known.word != EQUAL:
            continue
        snapshot = expected.version.get("scan.snapshot-id")
        try:
            table = catalog.table(f"db.{expected.table}")
            as_java = table.with_options({"deletion-vectors.merge-on-read": "false"})
            rows = as_java.to_arrow(
                snapshot_id=None if snapshot is None else int(snapshot),
                tag=expected.version.get("scan.tag-name"),
            )
        except UnsupportedError as refusal:
            verdicts[expected.case] = Verdict(expected.case, "tidelake", CANNOT, refusal.message)
            continue
        wrong = difference(list(expected.rows), table_cells(rows), list(expected.columns))
        moments[expected.case] = moments.get(expected.case, 0) + 1
        word, more = EQUAL, f"{moments[expected.case]} moments"
        if wrong:
            word, more = DIFFERS, f"{expected.moment}: {wrong}"
        verdicts[expected.case] = Verdict(expected.case, "tidelake", word, more)
    return list(verdicts.values())
