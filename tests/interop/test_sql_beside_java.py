"""The same statements on Java Paimon and on us: rows, snapshots and schemas are equal.

Java's process runs the scripts of ``sql/`` while this one does; then each reads what the other
wrote.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelake
import tidelake.spark
from interop.readers import HERE, SPARK_JAR, AbsentError, JavaOnSpark, environment
from interop.sql_differences import REASONS, ROWS_DIFFER
from interop.sql_scripts import Answer, difference, plain, run_script, scripts

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.timeout(900)]

JAVA_S_MAX = 600
SCRIPTS = {script.name: script for script in scripts()}
OF_JAVA = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": 1}
"""Settings that Java's session has, and that of the tests has not."""


@dataclass(frozen=True, slots=True)
class Both:
    """What both sides answered, and their warehouses."""

    java: dict[str, list[Answer]]
    ours: dict[str, list[Answer]]
    java_place: Path
    our_place: Path
    read_by_java: dict[str, dict[str, list[str] | str]]


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
    return [name for name in SCRIPTS if name in named or not named]


@pytest.fixture(scope="module")
def both(
    request: pytest.FixtureRequest,
    oracle_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
) -> Both:
    """The scripts on both sides at the same time."""
    names = _selected(request.session)
    reader = JavaOnSpark()
    try:
        reader.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon on Spark is absent: {reason}")
    place = tmp_path_factory.mktemp("beside_java")
    java_place, our_place, answers = place / "java", place / "ours", place / "answers.json"
    java_place.mkdir()
    fixtures = oracle_dir / "fixtures/warehouse/db.db"
    words = [reader.python, HERE / "sql_dump.py", SPARK_JAR, java_place, fixtures, answers, *names]
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
            ours = _answers_of_ours(spark, names, our_place, fixtures)
            java.communicate(f"{our_place}\n", timeout=JAVA_S_MAX)
        except BaseException:
            java.kill()
            raise
    assert java.returncode == 0, (place / "java.log").read_text()[-2000:]
    read_by_java = json.loads(answers.with_suffix(".read").read_text())
    return Both(json.loads(answers.read_text()), ours, java_place, our_place, read_by_java)


@pytest.mark.parametrize("name", SCRIPTS)
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


def test_java_reads_our_tables_as_its_own(both: Both) -> None:
    ours, own = both.read_by_java["ours"], both.read_by_java["java"]
    catalog = tidelake.open(both.our_place)
    for name, found in ours.items():
        assert isinstance(found, list), f"{name}: {found}"
        assert len(found) == catalog.table(name).count(), name
        if name not in ROWS_DIFFER:
            assert found == own.get(name, found), name
    assert len(ours.keys() & own.keys()) >= len(both.ours)


def test_we_read_javas_tables_as_our_own(both: Both) -> None:
    ours, theirs = tidelake.open(both.our_place), tidelake.open(both.java_place)
    for name in both.read_by_java["ours"].keys() & both.read_by_java["java"].keys():
        same = _rows(theirs.table(name)) == _rows(ours.table(name))
        assert same == (name not in ROWS_DIFFER), name


def test_each_reason_is_that_of_a_statement() -> None:
    said = {step.differs for script in SCRIPTS.values() for step in script.steps} - {None}
    assert said == set(REASONS)
    assert set(ROWS_DIFFER.values()) <= said
