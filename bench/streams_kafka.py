"""A stream of Kafka's messages beside Spark's own connector, in one session, in turn.

Messages are JSON of five columns. Each run reads all of them in four batches, decodes all columns,
and hands the rows to Spark's sink that keeps none (``noop``). Spark's connector is 4.2.0 (there is
none of 4.3, and it runs there) with ``from_json``. The broker's seconds are in nobody's account:
the worker that is measured is a process beside it.

Usage of the worker: python streams_kafka.py both WORK_DIR SERVERS JAR ...
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import kafka_broker  # noqa: E402  (the path comes first)
from kernel import Line, scratch  # noqa: E402
from measure import ratio  # noqa: E402
from pipeline import Worker  # noqa: E402
from tree_cpu import TreeCpu  # noqa: E402

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
JARS = kafka_broker.JARS.parent / "connector-4.2.0"
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
MESSAGES = {"small": 50_000, "full": 1_000_000}
ROUNDS = {"small": 1, "full": 5}
TOPIC, PARTITIONS, BATCHES = "flights", 4, 4
SCHEMA = "id BIGINT, carrier STRING, delay INT, distance DOUBLE, at TIMESTAMP"
WAYS = ("ours", "connector")
SUMS = ("count(*)", "sum(id)", "max(carrier)", "sum(delay)", "sum(distance)", "max(at)")


def produce(servers: str, count: int) -> None:
    """Fill the topic."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    config = {"max.message.bytes": "2000000"}
    new = [NewTopic(TOPIC, PARTITIONS, 1, config=config)]
    admin = AdminClient({"bootstrap.servers": servers})  # lives until it has answered
    for made in admin.create_topics(new).values():
        made.result(30)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    for n in range(count):
        text = (
            f'{{"id":{n},"carrier":"C{n % 16:02}","delay":{n % 300 - 60},'
            f'"distance":{n % 2500}.5,"at":"2026-11-24 {n % 24:02}:{n % 60:02}:00.{n % 1000:03}"}}'
        )
        producer.produce(TOPIC, text.encode(), partition=n % PARTITIONS)
        if n % 50_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the broker did not take all messages")


class Streams:
    """Both ways to read the topic, in one session."""

    def __init__(self, work: Path, servers: str, jars: list[str]) -> None:
        import tidelake.spark as ts

        conf = {
            "spark.jars": ",".join(jars),
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
        }
        self.spark = ts.session("bench", master="local[2]", conf=conf)
        self.lake = ts.attach(self.spark, work / "warehouse")
        self.work, self.servers, self.runs = work, servers, 0
        columns = SCHEMA.replace("at TIMESTAMP", "at TIMESTAMP(3)")
        self.lake.sql(f"""
            CREATE TABLE flights ({columns}) WITH (
                'connector' = 'kafka', 'topic' = '{TOPIC}', 'format' = 'json',
                'properties.bootstrap.servers' = '{servers}',
                'scan.startup.mode' = 'earliest-offset'
            )
        """)

    def frame(self, way: str, limit: int):
        if way == "ours":
            options = {"read.stream.maxRowsPerTrigger": limit}
            return self.lake.read_kafka_stream("flights", options=options)
        from pyspark.sql import functions as F

        read = self.spark.readStream.format("kafka").option("subscribe", TOPIC)
        read = read.option("kafka.bootstrap.servers", self.servers)
        read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", limit)
        schema = SCHEMA.replace("at TIMESTAMP", "at TIMESTAMP_NTZ")
        parsed = F.from_json(F.col("value").cast("string"), schema)
        return read.load().select(parsed.alias("row")).select("row.*")

    def run(self, way: str, count: int) -> int:
        """Read all messages; number of rows."""
        self.runs += 1
        writer = self.frame(way, count // BATCHES).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(self.work / f"checkpoint-{self.runs}"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(p["numInputRows"] for p in query.recentProgress)

    def answer(self, way: str, count: int) -> list[str]:
        """Figures of all columns, by which both ways are compared."""
        self.runs += 1
        frame = self.frame(way, count).selectExpr(*SUMS)
        writer = frame.writeStream.format("memory").queryName(f"answer_{self.runs}")
        writer.outputMode("complete").trigger(availableNow=True).start().awaitTermination()
        return [str(v) for v in self.spark.table(f"answer_{self.runs}").first()]


def expected(count: int) -> list[str]:
    """The same figures by arithmetic alone."""
    numbers = range(count)
    return [
        str(count),
        str(sum(numbers)),
        f"C{min(15, count - 1):02}",
        str(sum(n % 300 - 60 for n in numbers)),
        str(sum(n % 2500 + 0.5 for n in numbers)),
        str(max(f"2026-11-24 {n % 24:02}:{n % 60:02}:00.{n % 1000:03}000" for n in numbers)),
    ]


class StreamWorker(Worker):
    """A worker of this file."""

    script = "streams_kafka.py"


def lines(size_name: str) -> Iterator[Line]:
    """Both ways in turn, either of them first."""
    count, what = MESSAGES[size_name], "Kafka JSON, 5 columns, {:,} messages in 4 batches"
    against = "Spark's connector 4.2.0 with from_json"
    try:
        jars = kafka_broker.jars(JARS, CONNECTOR)
    except kafka_broker.AbsentError as reason:
        yield Line("Kafka", what.format(count), against, None, "<= 1.0", str(reason))
        return
    needed = [str(jar) for jar in jars if jar.name.startswith(NEEDED)]
    with scratch() as place, kafka_broker.broker(place) as broker:
        produce(broker.servers, count)
        worker = StreamWorker(sys.executable, "both", place, broker.servers, *needed)
        try:
            answers = {way: worker.do("answer", way, count)["answer"] for way in WAYS}
            if any(answer != expected(count) for answer in answers.values()):
                raise AssertionError(f"{answers} are not {expected(count)}")
            taken = _in_turn(worker, count, ROUNDS[size_name])
        finally:
            worker.close()
    ours, theirs = taken["ours"], taken["connector"]
    walls = [a["wall"] / b["wall"] for a, b in zip(ours, theirs, strict=True)]
    found = ratio([a["cpu"] for a in ours], [b["cpu"] for b in theirs], walls)
    yield Line("Kafka", what.format(count), against, found, "<= 1.0")


def _in_turn(worker: StreamWorker, count: int, rounds: int) -> dict[str, list[dict]]:
    """Figures of each way; the first round warms up."""
    taken: dict[str, list[dict]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS[:: 1 if number % 2 else -1]:
            figures = worker.do("run", way, count)
            if figures["answer"] != count:
                raise AssertionError(f"{way} read {figures['answer']} of {count} messages")
            if number:
                taken[way].append(figures)
    return taken


def main() -> None:
    """Answer commands until stdin ends."""
    tree = TreeCpu()
    streams = Streams(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        cpu, began = tree.seconds(), time.perf_counter()
        answer = getattr(streams, name)(*arguments)
        wall = time.perf_counter() - began
        figures = {"wall": wall, "cpu": tree.seconds() - cpu, "answer": answer}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
