"""The end of the protocol for Java Paimon on Spark; runs in a virtual environment of its own.

Usage: ``python spark_dump.py REQUESTS ANSWERS PAIMON_SPARK_JAR``
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from interop.cells import table_cells
from interop.protocol import Row, serve


def _session(jar: str) -> SparkSession:
    loopback = "127.0.0.1"
    settings = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1500m",
        "spark.driver.host": loopback,
        "spark.driver.bindAddress": loopback,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    }
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _cell_to_column(name: str, kind: str) -> functions.Column:
    """SQL that turns the text of a cell (``cells.py``) into a value of the Spark type."""
    text = functions.col(name)
    body = functions.regexp_replace(text, "(?s)^[a-z]+:", "")
    if kind == "string" or kind.startswith(("char", "varchar")):
        return body
    if kind == "binary":
        return functions.unhex(body)
    if kind == "date":
        return functions.date_from_unix_date(body.cast("int"))
    if kind in {"timestamp", "timestamp_ntz"}:
        micros = functions.floor(body.cast("decimal(38,0)") / functions.lit(1000)).cast("bigint")
        return functions.timestamp_micros(micros).cast(kind)
    if kind in _FLOATS:
        return text
    return (body if kind.startswith("decimal") else text).cast(kind)


_FLOATS = {"float": ">f", "double": ">d"}


def _plain(cell: str | None, kind: str) -> object:
    """A cell as it goes into the session: floats from their bits, all else as its text."""
    if cell is None or kind not in _FLOATS:
        return cell
    return struct.unpack(_FLOATS[kind], bytes.fromhex(cell.partition(":")[2]))[0]


def main() -> None:
    """Serve all requests in one session."""
    session = _session(sys.argv[3])
    catalogs: dict[str, str] = {}

    def load(table: str, options: Mapping[str, str]) -> DataFrame:
        return session.read.format("paimon").options(**options).load(f"file:{table}")

    def view(table: str, system: str, options: Mapping[str, str]) -> DataFrame:
        # only a catalog knows the name of a view: one for each warehouse
        warehouse, database, name = table.rsplit("/", 2)
        catalog = catalogs.setdefault(warehouse, f"w{len(catalogs)}")
        session.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.paimon.spark.SparkCatalog")
        session.conf.set(f"spark.sql.catalog.{catalog}.warehouse", f"file:{warehouse}")
        session.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
        full_name = f"{catalog}.{database.removesuffix('.db')}.`{name}${system}`"
        return session.read.format("paimon").options(**options).table(full_name)

    def read(
        table: str, options: Mapping[str, str], system: str | None
    ) -> tuple[list[str], list[Row]]:
        frame = load(table, options) if system is None else view(table, system, options)
        # toArrow() fails on a NOT NULL field of a null struct, when it names the types anew
        batches = frame._collect_as_arrow()
        return frame.columns, table_cells(pa.Table.from_batches(batches)) if batches else []

    def write(table: str, rows: list[list[str | None]]) -> int:
        if any(row[0] != "+I" for row in rows):
            message = "a DataFrame write has no row kinds"
            raise TypeError(message)
        kinds = dict(load(table, {}).dtypes)
        types = [kind if kind in _FLOATS else "string" for kind in kinds.values()]
        text = ", ".join(f"`{name}` {kind}" for name, kind in zip(kinds, types, strict=True))
        plain = [tuple(_plain(c, k) for c, k in zip(row[1:], types, strict=True)) for row in rows]
        frame = session.createDataFrame(plain, text)
        frame = frame.select(*(_cell_to_column(n, k).alias(n) for n, k in kinds.items()))
        frame.write.format("paimon").mode("append").save(f"file:{table}")
        return len(rows)

    serve(Path(sys.argv[1]), Path(sys.argv[2]), read=read, write=write)
    session.stop()


if __name__ == "__main__":
    main()
