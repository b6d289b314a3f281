"""A Spark whose private names differ, as in a vendor's fork: it takes no class that needs them.

The session's own JVM has all classes. Here none counts as defined, and those that use a private
name are refused when they are to be: tables are attached, and the slower ways are taken.
"""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

import pyspark
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import tidelake.spark
from tidelake import UnsupportedError
from tidelake.spark.jvm import held_frames, java_class, slower
from tidelake.spark.jvm.private_names import private_names
from tidelake.spark.read import masked_scan

SAID = (
    "spark.sql reads tables of Tidelake by RDDs",
    "DELETE, UPDATE and MERGE run by tl.sql only",
    "writeStream.toTable needs .format(tidelake.spark.STREAM)",
)
"""What `attach` says, among others."""


@pytest.fixture(scope="module")
def fork(spark):
    """A session whose Spark takes no class with a private name."""
    needing = {user for name in private_names() for user in name.users}
    define, known = java_class._defined, java_class._DEFINED

    def defined(session, beside, full_name, text):
        name = full_name.rpartition(".")[2]
        if name in needing:
            raise Py4JError("no such class o17")
        lang = session._jvm.java.lang
        if lang.System.getProperty(known + name) is not None:
            return lang.Class.forName(full_name)
        made = define(session, beside, full_name, text)
        lang.System.setProperty(known + name, "true")  # for the tests that follow
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(java_class, "_DEFINED", "tidelake.of-a-fork.")
        patched.setattr(java_class, "_defined", defined)
        patched.setattr(masked_scan, "_TAKES_MASKS", WeakKeyDictionary())
        patched.setattr(held_frames.FRAMES, "_defined", WeakKeyDictionary())
        patched.setattr(slower, "_SAID", set())
        yield spark.newSession()


@pytest.fixture(scope="module")
def attached(fork, tmp_path_factory):
    """A warehouse of that session, with what was said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            lake = tidelake.spark.attach(fork, tmp_path_factory.mktemp("forked"), catalog="forked")
        lake.sql(
            "CREATE TABLE t (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
            " WITH ('bucket' = '2')"
        )
        lake.sql("CREATE TABLE a (k BIGINT, v STRING) WITH ('deletion-vectors.enabled' = 'true')")
        for name in ("t", "a"):
            fork.sql(f"INSERT INTO forked.default.{name} SELECT id, 'old' FROM range(10)")
            lake.sql(f"UPDATE {name} SET v = 'new' WHERE k < 3")
            lake.sql(f"DELETE FROM {name} WHERE k = 9")
        lake.table("default.t").count()
    return lake, [str(one.message) for one in said if one.category is RuntimeWarning]


def test_what_is_slower_is_said_once(attached):
    _, said = attached
    ends = ", because Spark {} does not take a Java class of Tidelake: no such class o17"
    slower_ways = [one.removesuffix(ends.format(pyspark.__version__)) for one in said]
    assert len(slower_ways) == len(set(slower_ways))
    for wanted in SAID:
        assert any(one.startswith(wanted) for one in slower_ways), slower_ways
    assert not any("o17" in one for one in slower_ways)


@pytest.mark.parametrize("name", ["t", "a"])
def test_every_door_reads_the_same_rows(fork, attached, name):
    lake, _ = attached
    query = f"SELECT v, count(*) FROM {{}}{name} GROUP BY v ORDER BY v"
    wanted = [("new", 3), ("old", 6)]
    assert [tuple(row) for row in lake.sql(query.format("")).collect()] == wanted
    assert [tuple(row) for row in fork.sql(query.format("forked.default.")).collect()] == wanted
    assert lake.table(f"default.{name}").where("v = 'new'").count() == 3
    by_format = fork.read.format("tidelake").option("warehouse", lake.catalog.uri)
    assert by_format.option("table", f"default.{name}").load().count() == 9


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE forked.default.t SET v = 'x'",
        "DELETE FROM forked.default.a WHERE k > 1",
        "MERGE INTO forked.default.t t USING (SELECT 1 AS k) s ON t.k = s.k"
        " WHEN MATCHED THEN DELETE",
    ],
)
def test_plain_statements_that_change_rows_are_refused(fork, attached, text):
    with pytest.raises(PySparkException, match=r"(?i)not support") as said:
        fork.sql(text)
    assert "\tat " not in str(said.value)
    assert attached[0].table("default.t").count() == 9


def test_streams_are_refused_and_written_by_tl(fork, attached, tmp_path):
    lake, _ = attached
    for opens in (
        lambda: lake.read_stream("default.t"),
        lambda: fork.readStream.table("forked.default.t"),
    ):
        with pytest.raises((UnsupportedError, PySparkException), match="that streams need"):
            opens()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"k": 1, "v": "streamed"}\n')
    lake.sql("CREATE TABLE o (k BIGINT, v STRING)")
    rows = fork.readStream.schema("k BIGINT, v STRING").json(str(tmp_path / "in"))
    checkpoint = str(tmp_path / "checkpoint")
    query = lake.write_stream(rows, "default.o", checkpoint=checkpoint, trigger="availableNow")
    assert query.awaitTermination(120)
    assert [tuple(row) for row in lake.table("default.o").collect()] == [(1, "streamed")]
