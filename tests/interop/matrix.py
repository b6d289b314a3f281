"""The check itself: cases x readers, and the oracle's own tables read by us."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tidelake
from interop.cases import Case, Compact, Write, row_cells
from interop.cells import difference, table_cells
from interop.expected import all_expected
from interop.make import Made, Moment, make_table
from interop.protocol import Answer, Request
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
    moments = [m for m in made.moments if _is_asked(m, reader)]
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
        wrong = difference(moment.rows, answer.rows, columns)
        if wrong:
            return Verdict(case.name, reader, DIFFERS, f"{moment.label}: {wrong}")
    return Verdict(case.name, reader, EQUAL, f"{len(moments)} moments")


def _is_asked(moment: Moment, reader: str) -> bool:
    return moment.system is None or reader in {"tidelake", "java-1.3"}


def _ours(made: Made) -> dict[str, Answer]:
    """What we read of our own table."""
    table = tidelake.open(str(made.path.parents[1])).table(f"db.{made.path.name}")
    answers = {}
    for moment in made.moments:
        if moment.system is not None:
            view = table.system_table(moment.system)
            rows = view.changes(0, mode="changelog") if moment.option else view.to_arrow()
            answers[f"{made.case.name}|{moment.label}"] = Answer(
                rows.column_names, table_cells(rows)
            )
            continue
        snapshot = moment.option.get("scan.snapshot-id")
        rows = table.to_arrow(
            snapshot_id=None if snapshot is None else int(snapshot),
            tag=moment.option.get("scan.tag-name"),
        )
        answers[f"{made.case.name}|{moment.label}"] = Answer(rows.column_names, table_cells(rows))
    return answers


def prepared(
    names: Sequence[str], *, cached_only: Sequence[str] = ()
) -> Iterator[Reader | Verdict]:
    """The readers, made ready; a verdict of absence for one that cannot be."""
    for name in names:
        reader = READERS[name]()
        if name in cached_only and not reader.is_cached():
            yield Verdict("all", name, ABSENT, "not made ready here yet: run `make interop`")
            continue
        try:
            reader.prepare()
        except AbsentError as reason:
            yield Verdict("all", name, ABSENT, str(reason))
        else:
            yield reader


def read_by_others(
    warehouse: Path, cases: Sequence[Case], readers: Sequence[Reader], say: Callable[[str], None]
) -> list[Verdict]:
    """Our tables as each reader reads them, ourselves first."""
    tables = []
    for case in cases:
        tables.append(make_table(warehouse, case))
        say(f"made {case.name}")
    verdicts = [_judge(made, "tidelake", _ours(made)) for made in tables]
    for reader in readers:
        say(f"{reader.title} reads")
        answers = reader.ask(
            [
                Request(
                    f"{made.case.name}|{moment.label}",
                    str(made.path),
                    moment.option,
                    system=moment.system,
                )
                for made in tables
                for moment in made.moments
                if _is_asked(moment, reader.name)
            ]
        )
        verdicts += [_judge(made, reader.name, answers) for made in tables]
    return [*verdicts, *_written_by_others(warehouse, tables, readers, say)]


def _written_by_others(
    warehouse: Path, tables: Sequence[Made], readers: Sequence[Reader], say: Callable[[str], None]
) -> list[Verdict]:
    """Another engine upserts into a copy of our table; then we read it."""
    verdicts = []
    wanted = [made for made in tables if made.case.peer_rows]
    for reader in readers:
        if reader.name == "pypaimon":
            continue  # its end of the protocol only reads
        say(f"{reader.title} writes")
        target = warehouse.parent / f"written-by-{reader.name}"
        requests = []
        for made in wanted:
            if reader.name in made.case.peer_left_out:
                continue
            place = target / "db.db" / made.path.name
            shutil.copytree(made.path, place)
            cells = row_cells(made.model.columns, made.case.peer_rows)
            rows = tuple(("+I", *c) for c in cells)
            requests.append(Request(made.case.name, str(place), op="write", rows=rows))
        answers = reader.ask(requests)
        for made in wanted:
            name = f"{made.case.name}, then written by {reader.name}"
            if reader.name in made.case.peer_left_out:
                why = made.case.peer_left_out[reader.name]
                verdicts.append(Verdict(name, "tidelake", CANNOT, why))
                continue
            failed = answers[made.case.name].error
            if failed:
                verdicts.append(Verdict(name, "tidelake", DIFFERS, f"the write: {failed[:300]}"))
                continue
            model = copy.deepcopy(made.model)  # each engine writes into a copy of its own
            model.apply(Write(made.case.peer_rows))
            table = tidelake.open(str(target)).table(f"db.{made.path.name}")
            if model.waits:
                table.compact()
                model.apply(Compact())
            rows = table.to_arrow()
            expected = model.cells()
            wrong = difference(expected, table_cells(rows), rows.column_names)
            word, more = (DIFFERS, wrong) if wrong else (EQUAL, f"{rows.num_rows} rows")
            verdicts.append(Verdict(name, "tidelake", word, more))
    return verdicts


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
            rows = catalog.table(f"db.{expected.table}").to_arrow(
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
