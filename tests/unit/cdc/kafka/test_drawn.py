"""Drawn topics and drawn crashes: the lake has what the tables had that the messages tell of.

Messages of a key are in one partition in three draws of four. In the fourth they are anywhere; then
the target is not compacted, as a row that comes after its delete was compacted away would live
again.
"""

from __future__ import annotations

import random

import pytest
from sizes import SIZE
from unit.cdc.kafka.change_stream import Tables
from unit.cdc.kafka.conftest import KafkaBench

from tidelake.cdc.source.source import EpochLimits
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

CRASHES = (FaultMode.CRASH_BEFORE, FaultMode.CRASH_AFTER, FaultMode.TORN)
LIVES_MAX = 30
COLUMNS = {
    "id": {"type": "int64", "optional": False, "field": "id"},
    "name": {"type": "string", "optional": True, "field": "name"},
    "size": {"type": "int32", "optional": True, "field": "size"},
}
FORMS = ("debezium", "debezium with schema", "maxwell")


class Draw:
    """Two tables, their topics, and a job."""

    def __init__(self, seed, topics):
        self.rng = random.Random(seed)
        self.form = FORMS[seed % 3]
        self.is_keyed = seed % 4 != 3
        self.topics = topics
        self.bench = KafkaBench(topics.servers)
        self.columns = ["id", "name"]
        self.tables = Tables("maxwell" if self.form == "maxwell" else "debezium")
        self.partitions = self.rng.choice([1, 2, 4])
        first = topics.make(self.partitions)
        is_one = self.rng.random() < 0.5
        self.topic = {"items": first, "orders": first if is_one else topics.make(self.partitions)}
        self.cursor = 0
        self.limits = EpochLimits(self.rng.choice([1, 7, 200]), wait_ms=150, gather_ms=20)
        shown = ["items", "orders"] if self.rng.random() < 0.5 else ["items"]
        for table in shown:  # another one shows while the job runs
            self.describe(table)
            self.tables.put(table, self.row(0))
        self.send()

    def row(self, key):
        name, size = self.rng.choice(["a", "ö", None]), self.rng.randrange(9)
        values = {"id": key, "name": name, "size": size}
        return {name: values[name] for name in self.columns}

    def describe(self, table):
        if self.form == "debezium with schema":
            self.tables.schemas[table] = [COLUMNS[name] for name in self.columns]

    def work(self):
        """Some changes, and their messages."""
        if "size" not in self.columns and self.rng.random() < 0.3:
            self.columns.append("size")
        for _ in range(self.rng.randrange(1, 30)):
            table = self.rng.choice(["items", "orders"])
            self.describe(table)
            rows = self.tables.rows.setdefault(table, {})
            what, key = self.rng.random(), self.rng.randrange(10)
            if what < 0.6 or not rows:
                self.tables.put(table, self.row(key))
            elif what < 0.8:
                self.tables.delete(table, self.rng.choice(list(rows)))
            elif key not in rows:
                self.tables.move(table, self.rng.choice(list(rows)), self.row(key))
        self.send()
        if self.rng.random() < 0.4:  # the connector lost its offset, and sends some again
            self.cursor = self.rng.randrange(len(self.tables.sent))
            self.send()

    def send(self):
        sent = self.tables.sent[self.cursor :]
        self.cursor = len(self.tables.sent)
        producer = self.topics.producer()
        for one in sent:
            if not self.is_keyed:
                partition = self.rng.randrange(self.partitions)
            elif self.form == "maxwell":  # a key that moves is told under the new key
                partition = 0
            else:
                partition = hash(one.place[1]) % self.partitions
            producer.produce(self.topic[one.table], one.value, one.key, partition=partition)
            if self.rng.random() < 0.05:
                producer.produce(self.topic[one.table], None, one.key, partition=partition)
            producer.poll(0)
        assert producer.flush(20) == 0

    def life(self, *, crashes):
        """One life of the job; True if it ended by itself."""
        plan = {}
        if crashes:
            plan = {self.rng.randrange(1, 300): self.rng.choice(CRASHES)}
        conf = {} if self.is_keyed else {"write-only": "true"}
        form = "maxwell-json" if self.form == "maxwell" else "debezium-json"
        source = self.bench.source(
            topic=",".join(sorted(set(self.topic.values()))), **{"value.format": form}
        )
        try:
            job = self.bench.job(
                fileio=FaultyFileIO(self.bench.fileio, plan),
                source=source,
                limits=self.limits,
                table_conf=conf,
            )
            job.start()
            job.run_once()
            if self.rng.random() < 0.3:
                job.close()
                self.bench.open.remove(source)
        except SimulatedCrash:
            return False
        finally:
            for one in self.bench.open:
                one.close()
            self.bench.open.clear()
        return True

    def run(self):
        for _ in range(self.rng.randrange(2, 5)):
            self.work()
            self.life(crashes=self.rng.random() < 0.7)
        for _ in range(LIVES_MAX):
            if self.life(crashes=False):
                break
        self.check()

    def check(self):
        for table, rows in self.tables.rows.items():
            if not any(one.table == table for one in self.tables.sent):
                continue
            found = self.bench.content(table)
            text = self.form != "debezium with schema"
            for row in rows.values():
                wanted = {name: row.get(name) for name in next(iter(found.values()), row)}
                if text:
                    wanted = {n: None if v is None else str(v) for n, v in wanted.items()}
                assert found[wanted["id"]] == wanted, table
            assert len(found) == len(rows), table


@pytest.mark.parametrize("seed", range(SIZE.cdc_topics))
def test_the_lake_has_what_drawn_topics_tell(seed, topics):
    Draw(seed, topics).run()
