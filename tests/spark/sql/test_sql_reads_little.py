"""What SQL does not do: read columns that nobody wants, or run a job for a number that is known."""

from __future__ import annotations

import contextlib

import numpy as np
import psutil
import pyarrow as pa
import pytest

# of what Spark makes of plans, as users have them
pytestmark = pytest.mark.usefixtures("production_conf")

COLUMNS_COUNT = 24
ROWS_COUNT = 60_000


@pytest.fixture
def wide(lake):
    """A table of 24 columns of numbers that do not compress, compacted; its bytes."""
    rng = np.random.default_rng(5)
    names = ["k", *(f"c{n}" for n in range(COLUMNS_COUNT - 1))]
    columns = [np.arange(ROWS_COUNT), *rng.integers(0, 1 << 62, (COLUMNS_COUNT - 1, ROWS_COUNT))]
    fields = [pa.field(name, pa.int64(), nullable=name != "k") for name in names]
    rows = pa.Table.from_arrays([pa.array(c) for c in columns], schema=pa.schema(fields))
    table = lake.catalog.create_table(
        "db.wide", rows.schema, primary_keys=["k"], options={"bucket": "2"}
    )
    table.write(rows)
    table.compact(full=True)
    files = lake.catalog.table("db.wide$files").to_arrow(columns=["file_size_in_bytes"])
    return sum(files.column(0).to_pylist())


def _counters():
    """What the JVM and its Python workers have asked the kernel to read; Spark counts a part.

    Of each process by its number and start: where one ended, its bytes go over to its parent.
    """
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found[process.pid, process.create_time()] = process.io_counters().read_chars
    return found


def _bytes_asked(read, attempts_count=5):
    """The bytes that `read` asks for, measured while no process ends (idle workers do)."""
    for _ in range(attempts_count):
        before = _counters()
        read()
        after = _counters()
        if before.keys() <= after.keys():
            return sum(asked - before.get(process, 0) for process, asked in after.items())
    raise AssertionError(f"a process ended in each of {attempts_count} reads")


@pytest.mark.parametrize("way", ["tl.sql", "spark.sql"])
def test_two_columns_read_a_small_part_of_the_bytes(spark, lake, wide, way):
    def read(columns):
        text = f"SELECT {', '.join(f'max({c} % 7)' for c in columns)} FROM "
        if way == "tl.sql":
            return lake.sql(f"{text} db.wide").collect()
        return spark.sql(f"{text} tidelake.db.wide").collect()

    read(["c1", "c2"])  # loads classes
    two = _bytes_asked(lambda: read(["c3", "c4"]))
    everything = _bytes_asked(lambda: read([f"c{n}" for n in range(COLUMNS_COUNT - 1)]))

    assert everything > 0.9 * wide, "bytes are not seen"
    assert two < 0.2 * wide


# Spark names the number of a scan of ours by a task of its own, which reads nothing
@pytest.mark.parametrize(("way", "tasks_count"), [("tl.sql", []), ("spark.sql", [1])])
def test_count_by_metadata_reads_no_file(spark, lake, wide, way, tasks_count):
    context = spark.sparkContext
    tracker = context.statusTracker()

    def tasks(run):
        group = f"{way} {run.__name__}"
        context.setJobGroup(group, "")
        try:
            found = run()
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        numbers = tracker.getJobIdsForGroup(group)
        stages = [s for number in numbers for s in tracker.getJobInfo(number).stageIds]
        return found, [tracker.getStageInfo(stage).numTasks for stage in stages]

    def counted():
        text = "SELECT count(*) FROM "
        if way == "tl.sql":
            return lake.sql(f"{text} db.wide").collect()[0][0]
        return spark.sql(f"{text} tidelake.db.wide").collect()[0][0]

    def summed():
        return spark.range(5).collect()[-1][0]

    assert tasks(counted) == (ROWS_COUNT, tasks_count)
    assert tasks(summed)[1] == [2], "tasks are not seen"
