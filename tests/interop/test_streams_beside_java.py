"""A stream from here gives the rows of Java Paimon's stream of the same table, start by start.

Java's rows are kept (``java_record.py``).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

import tidelake
from interop import java_record
from interop.readers import HERE, SPARK_JAR, AbsentError, JavaOnSpark, environment
from interop.stream_tables import CASES, SKIPS, TABLES, history, options_of, written
from tidelake.table.stream import StreamPlan

pytestmark = pytest.mark.oracle


def ours(table, options):
    plan = StreamPlan.of(table.handle, {**SKIPS, **options})
    start, until = plan.initial(), plan.latest()
    rows = []
    while start is not None and start.position < until.position:
        end = plan.next(start, until=until)
        assert end != start
        rows += plan.parts(start, end).reader().read_all().to_pylist()
        start = end
    keyed = bool(table.primary_keys)
    return [list(row.values())[0 if keyed else 1 :] for row in rows]


def java_s(places):
    """Java's rows of each stream, in one Spark session for all."""
    engine = JavaOnSpark()
    try:
        engine.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon on Spark is absent: {reason}")
    with tempfile.TemporaryDirectory() as scratch:
        requests, answers = Path(scratch, "requests.json"), Path(scratch, "answers.json")
        requests.write_text(json.dumps(places))
        command = [engine.python, HERE / "stream_dump.py", requests, answers, SPARK_JAR]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(answers.read_text())


def request_of(table, options):
    """A stream as Java's process is asked for it."""
    changes = {"read.changelog": "true"} if table.primary_keys else {}
    return {"table": table.paths.location, "options": options | changes}


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Each stream's table, options, and Java's rows, kept or asked for now."""
    catalog = tidelake.open(tmp_path_factory.mktemp("streams"))
    tables = {name: written(catalog, name) for name in TABLES}
    asked = {}
    for case in CASES:
        table = tables[case.partition("/")[0]]
        asked[case] = (table, options_of(case, table))
    files = [HERE / name for name in ("stream_tables.py", "stream_dump.py")]
    histories = {name: history(table) for name, table in tables.items()}
    question = java_record.digest(*files, SPARK_JAR.name, json.dumps(histories))
    answers = None
    if java_record.is_live():
        answers = java_s({case: request_of(*pair) for case, pair in asked.items()})
    if java_record.is_rewritten():
        java_record.keep("streams", question, {"rows": answers})
    kept = java_record.load("streams", question)["rows"]
    assert answers in (None, kept)
    return {case: (*pair, kept[case]) for case, pair in asked.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_stream_gives_the_rows_of_java_s(streams, case):
    table, options, java = streams[case]
    mine = ours(table, options)
    if case.endswith(("/default", "/compacted")):  # Java shows deletes that a state still holds
        java = [row for row in java if row[0] != "-D" or row in mine]
    assert sorted(map(str, mine)) == sorted(map(str, java))
    if TABLES[case.partition("/")[0]][2].get("bucket") == "1":  # within a bucket order holds
        assert mine == java
