"""W13 on Spark: a table on MinIO read by Python workers, by our native scan, and by Spark alone.

MinIO runs on this machine, so there is no distance: the figures are the work of the ways to read.
Three of 20 columns of four files are summed, as a query does. MinIO's binary and the jars of
``s3a`` come from the cache of `make stores`; without them the line says so. Answers are compared
before anything is timed.

Run by `python bench/run.py stores-spark [--size full]`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from kernel import Line
from measure import Ratio, paired
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tree_cpu import TreeCpu

import tidelake.spark as ts
from tidelake.table import Table

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from servers.hadoop_aws import s3a_jars
from servers.program import AbsentError
from servers.real_stores import RealStore, minio

COLUMNS, FILES = 20, 4
WANTED = ("c3", "c10", "c17")


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    rounds: int


SIZES = {"small": Size(40_000, 1), "full": Size(1_250_000, 5)}


def sums(frame: DataFrame) -> tuple[object, ...]:
    """Sums of the wanted columns."""
    columns = [F.sum(F.col(name) % 1000) for name in WANTED]
    return tuple(frame.select(*WANTED).agg(F.count("*"), *columns).first())


def session(store: RealStore, jars: list[Path]) -> SparkSession:
    """A session whose Hadoop reaches the store, too."""
    of_hadoop = {
        "endpoint": store.options["s3.endpoint"],
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": store.options["s3.access-key"],
        "secret.key": store.options["s3.secret-key"],
    }
    conf = {
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, jars)),
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in of_hadoop.items()},
    }
    return ts.session("bench stores", master="local[2]", conf=conf)


def filled(lake: ts.Lake, size: Size) -> list[str]:
    """Fill a table; its files as Spark names them."""
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(COLUMNS)])
    table = lake.catalog.create_table("db.t", schema, options={"bucket": "-1"})
    assert isinstance(table, Table)
    rng = np.random.default_rng(1)
    for _ in range(FILES):
        table.write(
            pa.table({name: rng.integers(0, 2**62, size.rows // FILES) for name in schema.names})
        )
    scan = table.scan()
    paths = [
        scan.context.paths.data_file(split.partition, split.bucket, file)
        for split in scan.plan.splits
        for file in split.files
    ]
    assert len(paths) == FILES, paths
    return [table.fileio.uri_of(path).replace("s3://", "s3a://", 1) for path in paths]


def of_wall(ratio: Ratio) -> Ratio:
    """The ratio by wall time: requests wait."""
    wall = ratio.wall_median
    return replace(ratio, median=wall, low=wall, high=wall)


def lines(size_name: str) -> Iterator[Line]:
    """The lines of the table."""
    size = SIZES[size_name]
    what = "sum of 3 of 20 columns, on MinIO through Spark"
    try:
        with minio() as store:
            yield from measured(store, s3a_jars("4.3"), size, what)
    except AbsentError as reason:
        yield Line("W13", what, "", None, "", note=f"not measured: {reason}")


def measured(store: RealStore, jars: list[Path], size: Size, what: str) -> Iterator[Line]:
    """The lines, on a store that runs."""
    spark = session(store, jars)
    try:
        lake = ts.attach(spark, store.fresh(), storage=store.storage())
        files = filled(lake, size)
        plain = spark.read.parquet(*files)
        by_python = lake.table("db.t", columns=WANTED, options={"read.native": "never"})
        native = lake.table("db.t", columns=WANTED, options={"read.native": "always"})
        assert sums(by_python) == sums(native) == sums(plain)
        tree = TreeCpu()
        for name, ours, against, theirs, target in (
            ("Python workers", by_python, "native s3a", native, "<= 2.0"),
            ("native s3a", native, "Spark's own read of the files", plain, "<= 1.1"),
            ("control", plain, "Spark's own read of the files", plain, "1.00"),
        ):
            found = paired(
                lambda ours=ours: sums(ours),  # type: ignore[misc]
                lambda theirs=theirs: sums(theirs),  # type: ignore[misc]
                rounds=size.rounds,
                cpu=tree.seconds,
            )
            note = f"{found.median:.2f} x the CPU, MinIO's with it"
            yield Line("W13", f"{what}: {name}, wall", against, of_wall(found), target, note)
    finally:
        spark.stop()
