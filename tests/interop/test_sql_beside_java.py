"""The same statements on Java Paimon and on us: rows, snapshots and schemas are equal.

What Java answered to the scripts of ``sql/``, and the tables that it wrote, is kept
(``java_record.py``), so only we run them. Then each reads what the other wrote: Java's core our
tables, and we Java's. Where records are made or checked, Java's process runs the scripts at the
same time, and reads both sides' tables itself.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sizes import FULL, SIZE

import tidelake
import tidelake.spark
from interop import java_record
from interop.cells import difference as cells_difference
from interop.cells import inside, table_cells, with_inside
from interop.protocol import Request, Row
from interop.readers import HERE, SPARK_JAR, AbsentError, JavaCore21, JavaOnSpark, environment
from interop.sql_differences import READS_DIFFER, REASONS, ROWS_DIFFER
from interop.sql_scripts import Answer, difference, plain, run_script, scripts

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.timeout(900)]

JAVA_S_MAX = 600
SCRIPTS = {script.name: script for script in scripts()}
LONG = frozenset({"merge_append", "merge_keyed", "changelog"})
"""MERGE and changelogs have oracles of their own in tests/spark: these run at full size."""
OF_QUERIES = frozenset({"partitioned", "procedures", "queries", "system", "tags", "travel"})
"""What they write is of the kinds that the others write: these run at full size, too."""
AT_FULL_SIZE = LONG | OF_QUERIES
NAMES = [
    name for name in SCRIPTS if SIZE is FULL or java_record.is_live() or name not in AT_FULL_SIZE
]
OF_JAVA = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": 1}
"""Settings that Java's session has, and that of the tests has not."""
UNORDERED = ("s_nu",)
"""Columns of arrays without an order."""


@dataclass(frozen=True, slots=True)
class Both:
    """What both sides answered, and their warehouses."""

    java: dict[str, list[Answer]]
    ours: dict[str, list[Answer]]
    java_place: Path
    our_place: Path


@contextmanager
def _as_javas(spark: SparkSession) -> Iterator[None]:
    """The session of the tests, with the settings of Java's meanwhile and no views."""
    before = {key: spark.conf.get(key) for key in OF_JAVA}
    for key, value in OF_JAVA.items():
        spark.conf.set(key, value)
    for view in spark.catalog.listTables():
        if view.isTemporary:  # one of another test would hide a table of its name
            spark.catalog.dropTempView(view.name)
    try:
        yield
    finally:
        for key, text in before.items():
            spark.conf.set(key, text)


def _answers_of_ours(
    spark: SparkSession, names: Sequence[str], place: Path, fixtures: Path
) -> dict[str, list[Answer]]:
    with _as_javas(spark):
        lake = tidelake.spark.attach(spark, place)

        def run(text: str) -> tuple[list[str], list[Any]]:
            frame = lake.sql(text)
            return frame.columns, frame.collect()

        answers = {}
        for script in (SCRIPTS[name] for name in names):
            lake.sql(f"CREATE DATABASE {script.name}; USE {script.name}")
            answers[script.name] = run_script(script, run, place, fixtures=fixtures, java=False)
        return answers


def _selected(session: pytest.Session) -> list[str]:
    """The scripts of the tests that will run; all, where none of them is of one script."""
    of_scripts = [item for item in session.items if isinstance(item, pytest.Function)]
    of_scripts = [item for item in of_scripts if item.module.__name__ == __name__]
    named = {item.callspec.params["name"] for item in of_scripts if hasattr(item, "callspec")}
    return [name for name in NAMES if name in named or not named]


def _question(name: str) -> str:
    """What Java's answers to a script depend on."""
    files = [HERE / file for file in ("sql_scripts.py", "sql_dump.py")]
    return java_record.digest(HERE / f"sql/{name}.sql", *files, SPARK_JAR.name)


@contextmanager
def _running_java(
    names: Sequence[str], place: Path, fixtures: Path
) -> Iterator[subprocess.Popen[str]]:
    """Java's process, which runs the scripts."""
    reader = JavaOnSpark()
    try:
        reader.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon on Spark is absent: {reason}")
    (place / "java").mkdir()
    dump = [reader.python, HERE / "sql_dump.py", SPARK_JAR]
    words = [*dump, place / "java", fixtures, place / "answers.json", *names]
    with (
        (place / "java.log").open("w") as log,
        subprocess.Popen(
            [str(word) for word in words],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        ) as java,
    ):
        try:
            yield java
            java.communicate(f"{place / 'ours'}\n", timeout=JAVA_S_MAX)
        except BaseException:
            java.kill()
            raise
    assert java.returncode == 0, (place / "java.log").read_text()[-2000:]


@pytest.fixture(scope="module")
def both(
    request: pytest.FixtureRequest,
    oracle_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
) -> Both:
    """The scripts on both sides: Java's answers of the record, or both at the same time."""
    names = _selected(request.session)
    place = tmp_path_factory.mktemp("beside_java")
    java_place, our_place = place / "java", place / "ours"
    fixtures = oracle_dir / "fixtures/warehouse/db.db"
    is_live = java_record.is_live()
    with _running_java(names, place, fixtures) if is_live else contextlib.nullcontext():
        ours = _answers_of_ours(spark, names, our_place, fixtures)
    if is_live:
        java = json.loads((place / "answers.json").read_text())
        _check_what_java_reads(json.loads((place / "answers.read").read_text()), our_place)
        _compare_with_records(java, java_place)
    else:
        java = {
            name: java_record.load(f"sql-{name}", _question(name), java_place)["answers"]
            for name in names
        }
    return Both(java, ours, java_place, our_place)


def _check_what_java_reads(read: dict[str, dict[str, list[str] | str]], our_place: Path) -> None:
    """Java on Spark reads our tables as its own."""
    ours, own = read["ours"], read["java"]
    catalog = tidelake.open(our_place)
    for name, found in ours.items():
        assert isinstance(found, list), f"{name}: {found}"
        assert len(found) == catalog.table(name).count(), name
        if name not in ROWS_DIFFER:
            assert found == own.get(name, found), name


def _compare_with_records(java: dict[str, list[Answer]], java_place: Path) -> None:
    """Keep what Java answered; where that is not asked for, see that it is what is kept."""
    for name, answers in java.items():
        if java_record.is_rewritten():
            tables = [java_place / f"{name}.db"]
            java_record.keep(f"sql-{name}", _question(name), {"answers": answers}, tables)
            continue
        kept = java_record.load(f"sql-{name}", _question(name))["answers"]
        for step, now, before in zip(SCRIPTS[name].steps, answers, kept, strict=True):
            assert difference(step, now, before) is None, step.place


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_of_a_script_does_what_it_does_in_java(both: Both, name: str) -> None:
    faults = []
    for step, java, ours in zip(SCRIPTS[name].steps, both.java[name], both.ours[name], strict=True):
        found = difference(step, java, json.loads(json.dumps(ours)))
        if found is not None and step.differs is None:
            faults.append(f"{step.place}: {' '.join(step.text.split())}\n    {found}")
        if found is None and step.differs is not None:
            faults.append(f"{step.place}: no longer differs ({step.differs})")
    assert not faults, "\n".join(faults)


def test_what_we_refuse_is_refused_in_words_of_ours(both: Both) -> None:
    foreign = ("org.apache", "java.lang", "SQLSTATE", "py4j", "Traceback")
    ours = (
        "InvalidInputError", "NotFoundError", "UnsupportedError", "AlreadyExistsError",
        "ConflictError",
    )  # fmt: skip
    for answer in (a for answers in both.ours.values() for a in answers if "refused" in a):
        said = answer["refused"]
        assert said.startswith(ours), answer
        assert not any(word in said for word in foreign), answer


def _rows(table: Any) -> list[str]:
    rows = (tuple(row.values()) for row in table.to_arrow().to_pylist())
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def test_java_reads_our_tables_as_we_do(both: Both) -> None:
    """And we read ours as Java's, so Java's own as well."""
    java = JavaCore21()
    try:
        java.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon 2.1 is absent: {reason}")
    catalog = tidelake.open(both.our_place)
    places = {_name(place): place for place in _tables(both.our_place)}
    answers = java.ask([Request(name, str(place)) for name, place in places.items()])
    differ = set()
    for name in places:
        answer, rows = answers[name], catalog.table(name).to_arrow()
        assert answer.error is None, f"{name}: {answer.error}"
        assert answer.columns == rows.column_names, name
        theirs = _in_order(answer.rows, answer.columns)
        found = _in_order(table_cells(rows), answer.columns)
        if cells_difference(theirs, found, answer.columns) is not None:
            differ.add(name)
    assert differ <= READS_DIFFER.keys()
    assert differ >= READS_DIFFER.keys() & places.keys()


def _in_order(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Rows whose arrays without an order have one."""
    at = [place for place, name in enumerate(columns) if name in UNORDERED]
    cells = [list(row) for row in rows]
    for row in cells:
        for place in at:
            if (cell := row[place]) is not None:
                row[place] = with_inside(cell, sorted(inside(cell), key=str))
    return [tuple(row) for row in cells]


def _tables(warehouse: Path) -> list[Path]:
    return sorted(schema.parent for schema in warehouse.glob("*.db/*/schema"))


def _name(place: Path) -> str:
    return f"{place.parent.stem}.{place.name}"


def test_we_read_javas_tables_as_our_own(both: Both) -> None:
    ours, theirs = tidelake.open(both.our_place), tidelake.open(both.java_place)
    shared = {_name(p) for p in _tables(both.our_place)} & {
        _name(p) for p in _tables(both.java_place)
    }
    assert len(shared) >= len(both.ours)
    for name in shared:
        same = _rows(theirs.table(name)) == _rows(ours.table(name))
        assert same == (name not in ROWS_DIFFER), name


def test_each_reason_is_that_of_a_statement() -> None:
    said = {step.differs for script in SCRIPTS.values() for step in script.steps} - {None}
    assert said == set(REASONS)
    assert {*ROWS_DIFFER.values(), *READS_DIFFER.values()} <= said
