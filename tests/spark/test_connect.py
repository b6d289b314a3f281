"""Spark Connect: clients without a JVM, and the server of ``tidelake connect``.

Clients of one program attach a warehouse themselves, as they would on any server. Those of the
other have PySpark alone, and the server's own catalog.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import quick_spark
from servers.s3 import S3Server
from sizes import FULL, SIZE

from tidelake.spark.sessions.java_runtime import java_home
from tidelake.spark.versions import FORMAT_STREAMS_READ, has

pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
pytestmark = pytest.mark.timeout(1_000)  # the first test waits for all scenarios

INTERRUPTED = 130
LEFT_OUT = [] if SIZE is FULL else ["queries", "procedures", "frames", "stored"]
"""Scenarios that go the same ways through Connect as the others do: marked `full` below."""
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # to compile costs more than these few rows
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": quick_spark.JVM,
    "spark.sql.session.timeZone": "America/New_York",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="module")
def store():
    with S3Server() as running:
        yield running


@pytest.fixture(scope="module")
def environment(store, tmp_path_factory):
    """Of server and client: our packages, this interpreter, no session of the tests around."""
    given = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"):
        given.pop(name, None)
    return given | {
        "PYSPARK_PYTHON": quick_spark.python(tmp_path_factory.mktemp("python")),
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_ENDPOINT_URL": store.url,
        "AWS_ACCESS_KEY_ID": "of-the-machine",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


@pytest.fixture(scope="module")
def server(environment, tmp_path_factory):
    """The address of a small server, with its token."""
    work = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "tidelake", "connect", "--warehouse", str(work / "warehouse")]
    command += ["--catalog", "served", "--port", "0", "--master", "local[2]"]
    for key, value in SETTINGS.items():
        command += ["--conf", f"{key}={value}"]
    log = work / "log"
    with log.open("w") as out:
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=out, text=True, cwd=work, env=environment
        )
    try:
        said = running.stdout.readline()
        assert "sc://" in said, said + log.read_text()[-4000:]
        yield "sc://" + said.partition("sc://")[2].strip()
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=60) == INTERRUPTED, log.read_text()[-4000:]


@pytest.fixture(scope="module")
def seen(server, environment, tmp_path_factory):
    """What the scenarios of connect_program.py saw."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("connect_program.py")),
            str(tmp_path_factory.mktemp("connect")),
            *LEFT_OUT,
        ],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment | {"SPARK_REMOTE": server},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"noise": done.stderr}


@pytest.fixture(scope="module")
def plain(server, environment, tmp_path_factory):
    """What the scenarios of connect_catalog_program.py saw."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("connect_catalog_program.py")),
            str(tmp_path_factory.mktemp("plain")),
            str(SIZE.connect_s),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment | {"SPARK_URL": server},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_data_source_is_found_by_its_name_in_a_session_that_nobody_prepared(seen):
    found = seen["unregistered"]
    assert found == [[1, "a"], [2, "b"], [3, "new"], [4, "new"]], found


def test_session_gives_the_one_of_connect(seen):
    assert seen["session"] is True, seen["session"]


def test_definitions(seen):
    tables, columns = seen["definitions"]
    assert {"items", "log", "orders"} <= set(tables)
    assert columns[:3] == ["item", "n", "note"]


def test_inserts_write_on_the_servers_executors(seen):
    orders, items, log = seen["inserts"]
    assert orders == [
        [1, "mon", "1.50", "2026-11-21 10:00:00"],
        [2, "mon", "2.50", None],
        [3, "tue", "3.50", "2026-11-21 12:00:00"],
        [20, "wed", "9.00", None],
    ]
    assert items == [["oil", 2, None], ["rye", 3, None], ["tea", 1, None]]
    assert log == [[100, 4950]]


@pytest.mark.full
def test_queries_join_travel_and_see_the_sessions_views(seen):
    joined, travelled, hinted, named, system, mixed, view = seen["queries"]
    assert joined == [[1, "tea", "line 1"], [3, "rye", "line 3"]]
    assert (travelled, hinted, named) == ([[3]], [[1], [2]], [["oil"]])
    assert [kind for _, kind in system][:2] == ["APPEND", "COMPACT"]
    assert (mixed, view) == ([["x", "tue"]], [[1], [2]])


def test_updates_and_deletes(seen):
    orders, items, log = seen["changes_rows"]
    assert orders == [[1, "2.50"], [2, "2.50"], [3, "3.50"]]
    assert items == [["oil", 2, "few"], ["rye", 3, None], ["tea", 1, "few"]]
    assert log == [[0, "line 0"], [10, "LINE 10"], [20, "LINE 20"], [30, "line 30"]]


def test_merges_by_statement_and_by_frame(seen):
    items, log, ambiguous = seen["merges"]
    assert items == [["fig", 7, None], ["oil", 9, "alone"], ["tea", 51, "few"]]
    assert log == [
        [0, "line 0"], [2, "oil"], [7, "fig"], [10, "LINE 10"], [20, "LINE 20"], [30, "line 30"],
        [40, "line 40"], [50, "line 50"], [51, "tea"],
    ]  # fmt: skip
    assert ambiguous["kind"] == "merge_row_twice"


@pytest.mark.full
def test_procedures_run(seen):
    kinds, tagged, orders = seen["procedures"]
    assert kinds == [["APPEND"], ["COMPACT"], ["OVERWRITE"]]
    assert tagged == [[3]]
    assert orders == [[1, "2.50"], [2, "2.50"], [3, "3.50"]]


@pytest.mark.full
def test_frames_are_written_read_and_changed(seen):
    wide, count, changes, read, copied = seen["frames"]
    assert wide == [[1, "new"], [3, "new!"], [5, "new"], [7, "new"]]
    assert count == 500
    assert changes == [["+U", 5], ["-U", 5]]
    assert read == [[1, "mon"], [2, "mon"], [3, "tue"], [7, "sun"]]
    assert copied == [[13]]


def test_a_stream_is_written_once_by_the_servers_process(seen):
    errors, found, log, _ = seen["streams"]
    assert errors == [None, None]
    assert found == [[k, 10 * k] for k in range(6)]
    assert log == [[0], [1], [2]]


def test_a_stream_is_read_by_the_readers_format(seen):
    *_, copied = seen["streams"]
    if has(FORMAT_STREAMS_READ):
        assert copied == [[k] for k in range(2, 6)]
    else:
        assert f"needs Spark {FORMAT_STREAMS_READ.since}" in copied["text"], copied


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("table", "table_not_found", "Did you mean 'orders'? At line 1, column 15:"),
        ("column", "sql_analysis", "no column `prize`. Did you mean 'price'? At line 1, column 8:"),
        ("token", "sql_syntax", "At line 1, column 16:"),
        ("type", "column_type", "write CAST(... AS TINYINT)"),
        ("null", "null_value", "Column 'id' of table 'shop.strict' is NOT NULL"),
        ("width", "value_range", "The value 300 does not fit column 'n' of table 'strict'"),
        ("arity", "column_count", "The query gives 1 column, but table 'strict' takes 2: id, n."),
        ("value", "spark", 'cannot be cast to "INT"'),
        ("procedure", "procedure_not_found", "Did you mean 'compact'"),
        ("source option", "spark", "no option 'colums'. Did you mean 'columns'?"),
        ("source table", "spark", "'ordersx'"),
        ("source write", "spark", "price"),
        ("frame", "column_missing", "lacks the column 'placed' of table 'shop.orders'"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_ours(seen, name, kind, words):
    said = seen["errors"][name]
    assert words in said["text"], said
    assert said["kind"] == kind, said
    assert "org.apache" not in said["text"]


def test_a_refused_row_leaves_nothing(seen):
    assert seen["errors"]["strict"]["text"] == "[]"


@pytest.mark.full
def test_an_object_store_is_reached_with_keys_of_the_servers_environment(seen):
    found, asked = seen["stored"]
    assert found == [[0], [1], [3]], found
    assert asked["kind"] == "spark_connect"
    assert "s3://lake/house" in asked["text"]


def test_what_connect_cannot_is_refused_with_what_to_do(seen):
    asked = seen["plain_sql"]["asked"]
    assert asked["kind"] == "spark_connect"
    assert "use tl.sql" in asked["text"]
    assert seen["plain_sql"]["not asked"]["class"] == "none"
    assert seen["plain_sql"]["sql"]["class"] == "AnalysisException"


# ---- the catalog of the server


def test_who_does_not_know_the_token_gets_nothing(plain):
    said = plain["stranger"]
    assert said["class"] != "none", said
    assert "UNAUTHENTICATED" in said["text"] or "authenticat" in said["text"].lower(), said


def test_plain_statements_and_frames_of_two_clients_reach_the_tables(plain):
    items, before, copied, compacted, scanned = plain["statements"]
    assert items == [["fig", 7], ["oil", 2], ["rye", 3], ["tea", 10], ["x0", 0], ["x1", 1]]
    assert (before, copied) == ([[3]], [[23]])
    assert compacted is True
    assert scanned is True


def test_plain_update_delete_and_merge_of_two_clients(plain):
    found, key, twice, left = plain["changes"]
    assert found == left == [["fig", 7], ["oil", 25]]
    assert key["class"] == "IllegalArgumentException", key
    assert "primary key" in key["text"]
    assert twice["class"] == "IllegalArgumentException", twice
    assert "2 rows of the source match one row of table" in twice["text"], twice


def test_sessions_of_clients_are_apart(plain):
    counts, other = plain["apart"]
    assert counts == [3, 6, 3]
    assert "TABLE_OR_VIEW_NOT_FOUND" in other["text"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("table", "AnalysisException", "`served`.`shop`.`itemz`"),
        ("null", "IllegalArgumentException", "Column 'item' of table"),
        ("option", "IllegalArgumentException", "Did you mean 'bucket'"),
    ],
)
def test_a_client_of_pyspark_reads_our_words(plain, name, kind, words):
    said = plain["wrong"][name]
    assert said["class"] == kind, said
    assert words in said["text"], said
    assert "org.apache" not in said["text"]


def test_a_client_streams_from_table_to_table(plain):
    copied, merged = plain["streams"]
    assert copied == [[0], [1], [2], [3], [4], [7]]
    assert sorted(n for n, seen in merged for _ in range(seen)) == [0, 1, 2, 3, 4, 7, 7]


def test_a_client_that_leaves_in_the_middle_of_a_write_leaves_nothing(plain):
    found, snapshots, was_ended = plain["leaves"]
    assert (found, snapshots) == ([[1], [2]], [[1], [2]])
    assert was_ended is True


def test_two_clients_write_merge_and_stream_what_a_model_says(plain):
    seen = plain["proof"]
    assert not seen["failed"], seen["failed"][0]
    assert all(seen["turns"])
    assert seen["kept"] is True
    assert seen["log"] is True
    assert seen["copies"] == [True, True]
