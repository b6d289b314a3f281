"""Streams mark partitions as done: at the end of their input, and by time."""

from __future__ import annotations

import pytest

DONE_OPTIONS = "'partition.end-input-to-done' = 'true'"
BY_TIME = "'partition.idle-time-to-done' = '0 s', 'partition.time-interval' = '1 d'"
AVAILABLE = {"trigger": "availableNow"}


@pytest.fixture
def start(lake, tmp_path):
    """Starts a stream from table ``a`` to table ``b``, whose partitions may be done."""

    def start(**how):
        frame = lake.read_stream("default.a").drop("_row_kind")
        given = {"checkpoint": str(tmp_path / "checkpoint"), **AVAILABLE, **how}
        return lake.write_stream(frame, "default.b", **given)

    return start


def make(lake, options):
    lake.sql("CREATE TABLE a (day STRING, k BIGINT)")
    lake.sql(
        "CREATE TABLE b (day STRING, k BIGINT) PARTITIONED BY (day)"
        f" WITH ({options}, 'bucket' = '-1')"
    )
    return lake.catalog.table("default.b")


def done(table):
    found = (entry.name for entry in table.fileio.list_dir(table.location))
    days = (name for name in found if name.startswith("day="))
    return sorted(d for d in days if table.fileio.exists(f"{table.location}/{d}/_SUCCESS"))


def test_the_end_of_input_marks_what_the_query_wrote(lake, start):
    table = make(lake, DONE_OPTIONS)
    lake.sql("INSERT INTO a VALUES ('x', 1), ('y', 2)")
    table.with_options({"partition.end-input-to-done": "false"}).write([{"day": "z", "k": 0}])
    start().awaitTermination()
    assert done(table) == ["day=x", "day=y"]
    lake.sql("INSERT INTO a VALUES ('w', 3)")
    start().awaitTermination()
    assert done(table) == ["day=w", "day=x", "day=y"]
    assert table.count() == 4


def test_a_query_that_is_stopped_leaves_its_marks_to_the_next_run(lake, start):
    table = make(lake, DONE_OPTIONS)
    lake.sql("INSERT INTO a VALUES ('x', 1)")
    query = start(trigger=None)
    query.processAllAvailable()
    query.stop()
    assert done(table) == []
    lake.sql("INSERT INTO a VALUES ('y', 2)")
    query = start()
    query._end.stopped()  # as if stop() came between two batches
    query.awaitTermination()
    assert table.count() == 2
    assert done(table) == []
    start().awaitTermination()
    assert done(table) == ["day=y"]


def test_a_stream_marks_what_is_done_by_time(lake, start):
    table = make(lake, BY_TIME)
    lake.sql("INSERT INTO a VALUES ('2024-01-31', 1), ('9999-12-31', 2), ('someday', 3)")
    start().awaitTermination()
    lake.sql("INSERT INTO a VALUES ('9999-12-31', 4)")
    start().awaitTermination()  # it looks before its first batch, and then every 15 seconds
    assert done(table) == ["day=2024-01-31"]
