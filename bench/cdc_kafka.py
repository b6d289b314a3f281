"""Debezium's JSON to typed rows, beside Spark's ``from_json``: two processes, in turn.

Messages are of PostgreSQL, without a schema, with an old row where there is one: ten columns, about
660 bytes. Ours goes from bytes to the parts that a job applies: kinds, order and metadata of each
row, too. Spark reads the bytes of a Parquet file, and hands the rows to its sink that keeps none.

Usage of the worker: python cdc_kafka.py decode WORK_DIR ours|from_json
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from kernel import Line, scratch  # noqa: E402
from measure import ratio  # noqa: E402
from pipeline import Worker  # noqa: E402
from tree_cpu import TreeCpu  # noqa: E402

MESSAGES = {"small": 20_000, "full": 400_000}
ROUNDS = {"small": 1, "full": 5}
BATCH = 10_000
KEYS = 20_000
COLUMNS = {
    "id": "BIGINT", "a": "INT", "b": "BIGINT", "c": "DECIMAL(12, 2)", "d": "STRING", "e": "STRING",
    "f": "DOUBLE", "g": "BOOLEAN", "h": "BIGINT", "i": "INT",
}  # fmt: skip
WAYS = ("ours", "from_json")


def messages(count: int) -> Iterator[bytes]:
    """A stream of inserts, updates and deletes."""
    rng, rows, lsn = random.Random(1), {}, 1_000
    for n in range(count):
        key = rng.randrange(KEYS)
        lsn += rng.randrange(40, 900)
        before = rows.get(key)
        after = {
            "id": key, "a": rng.randrange(1000), "b": rng.randrange(1 << 40),
            "c": f"{rng.randrange(10**7) / 100:.2f}", "d": f"name {key}",
            "e": f"{rng.getrandbits(128):032x}", "f": rng.random() * 1e6, "g": rng.random() < 0.5,
            "h": 1_704_067_200_000_000 + n * 1000, "i": 19_723 + rng.randrange(365),
        }  # fmt: skip
        op = "c" if before is None else "u"
        if before is not None and rng.random() < 0.1:
            op, after = "d", None
        rows[key] = after
        source = {
            "version": "3.6.1.Final", "connector": "postgresql", "name": "shop",
            "ts_ms": 1_704_067_200_000 + n, "snapshot": "false", "db": "shop",
            "sequence": f'["{lsn - 40}","{lsn}"]', "ts_us": 1_704_067_200_000_000 + n,
            "ts_ns": 1_704_067_200_000_000_000 + n, "schema": "public", "table": "t",
            "txId": 700 + n // 10, "lsn": lsn, "xmin": None,
        }  # fmt: skip
        envelope = {
            "before": before, "after": after, "source": source, "transaction": None, "op": op,
            "ts_ms": 1_704_067_200_400 + n,
        }  # fmt: skip
        yield json.dumps(envelope, separators=(",", ":")).encode()


class Ours:
    """Decodes in this process."""

    def __init__(self, place: Path) -> None:
        from tidelake.cdc.kafka.formats.debezium_json import DebeziumJson
        from tidelake.cdc.kafka.row_changes import Tables
        from tidelake.cdc.kafka.wire import declared_column
        from tidelake.cdc.source.source_table import SourceName
        from tidelake.types import DataField, parse_type

        columns = {
            name: declared_column(DataField(n, name, parse_type(kind)))
            for n, (name, kind) in enumerate(COLUMNS.items())
        }
        self.form = DebeziumJson()
        self.tables = Tables(declared={SourceName("shop", "public", "t"): columns})
        self.values = pq.read_table(place / "messages.parquet")["value"].to_pylist()

    def run(self) -> list[int]:
        """Decode all messages; the number of rows, and sums of what they hold."""
        import pyarrow.compute as pc

        from tidelake.cdc.kafka.messages import MessageBatch
        from tidelake.cdc.kafka.row_changes import row_changes

        found = [0, 0, 0]
        for first in range(0, len(self.values), BATCH):
            values = self.values[first : first + BATCH]
            batch = MessageBatch.of_values(values, [b'{"id":1}'] * len(values))
            for events in self.form.events(batch).tables:
                part = row_changes(events, batch, self.tables)
                sums = (pc.sum(part.rows[name]).as_py() for name in ("b", "i"))
                found = [x + y for x, y in zip(found, (len(part.kinds), *sums), strict=True)]
        return found


class FromJson:
    """Decodes in Spark."""

    def __init__(self, place: Path) -> None:
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F

        made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        self.spark = made.config("spark.driver.memory", "1g").getOrCreate()
        row = "struct<" + ",".join(f"{n}:{kind.lower()}" for n, kind in COLUMNS.items()) + ">"
        kinds = f"op string, source struct<lsn:bigint>, before {row}, after {row}"
        value = F.from_json(F.col("value").cast("string"), kinds).alias("j")
        image = F.expr("coalesce(j.after, j.before)").alias("r")
        read = self.spark.read.parquet(str(place / "messages.parquet")).select(value)
        self.frame = read.select("j.op", "j.source.lsn", image).select("op", "lsn", "r.*")

    def run(self) -> list[int]:
        """Decode all messages for the same answer, which needs all columns to be read."""
        self.frame.write.format("noop").mode("overwrite").save()
        return []

    def answer(self) -> list[int]:
        """The figures of :meth:`Ours.run`."""
        return [int(v) for v in self.frame.selectExpr("count(*)", "sum(b)", "sum(i)").first()]


class DecodeWorker(Worker):
    """A worker of this file."""

    script = "cdc_kafka.py"


def lines(size_name: str) -> Iterator[Line]:
    """Both ways in turn, either of them first."""
    count = MESSAGES[size_name]
    with scratch() as place:
        table = pa.table({"value": pa.array(list(messages(count)), pa.binary())})
        pq.write_table(table, place / "messages.parquet", row_group_size=50_000)
        workers = {way: DecodeWorker(sys.executable, "decode", place, way) for way in WAYS}
        try:
            answers = [workers["ours"].do("run")["answer"], workers["from_json"].do("answer")]
            if answers[0] != answers[1]["answer"]:
                raise AssertionError(f"{answers} differ")
            taken: dict[str, list[dict]] = {way: [] for way in WAYS}
            for number in range(ROUNDS[size_name] + 1):
                for way in WAYS[:: 1 if number % 2 else -1]:
                    figures = workers[way].do("run")
                    if number:  # the first round warms up
                        taken[way].append(figures)
        finally:
            for worker in workers.values():
                worker.close()
    walls = [a["wall"] / b["wall"] for a, b in zip(*taken.values(), strict=True)]
    cpu = [[one["cpu"] for one in taken[way]] for way in WAYS]
    found = ratio(*cpu, walls)
    rate = count * len(cpu[0]) / sum(cpu[0]) / 1000
    what = f"Debezium JSON to rows, 10 columns, {count:,} messages"
    note = f"{rate:.0f} k messages per CPU-second"
    yield Line("CDC of Kafka", what, "Spark's from_json", found, "<= 0.5", note)


def main() -> None:
    """Answer commands until stdin ends."""
    tree = TreeCpu()
    way = {"ours": Ours, "from_json": FromJson}[sys.argv[3]](Path(sys.argv[2]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        cpu, began = tree.seconds(), time.perf_counter()
        answer = getattr(way, name)(*arguments)
        wall = time.perf_counter() - began
        figures = {"wall": wall, "cpu": tree.seconds() - cpu, "answer": answer}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
