"""A broker that is killed under a job, and comes back with what it has on its disk."""

from __future__ import annotations

import pytest
from kafka_broker import AbsentError, mortal_broker
from sizes import FULL, SIZE
from unit.cdc.kafka.change_stream import Tables
from unit.cdc.kafka.conftest import KafkaBench
from unit.cdc.kafka.test_topic_source import ROW
from unit.kafka.conftest import Topics

from tidelake.cdc.kafka import topic_reader
from tidelake.cdc.source.source import EpochLimits
from tidelake.errors import StorageError

SMALL = EpochLimits(rows_max=20, wait_ms=300, gather_ms=20)


def steps(job):
    while True:  # some messages had arrived before
        job.step()


@pytest.mark.skipif(SIZE is not FULL, reason="waits for half a minute: TIDELAKE_SIZE=full")
def test_a_job_goes_on_when_a_killed_broker_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_reader, "DOWN_MS_MAX", 1_000)
    changes = Tables(schemas={"items": ROW, "orders": ROW})
    for number in range(100):
        changes.put("items", {"id": number % 40, "name": f"n{number}"})
        changes.put("orders", {"id": number, "name": "o"})
    try:
        with mortal_broker(tmp_path / "kafka") as broker:
            topics = Topics(broker.servers)
            topic = topics.make(partitions=2)
            for number, one in enumerate(changes.sent):
                topics.send(topic, one.value, keys=[one.key], partition=number % 2)
            bench = KafkaBench(broker.servers)
            job = bench.job(source=bench.source(topic=topic), limits=SMALL)
            job.start()
            job.step()
            broker.kill()
            with pytest.raises(StorageError):
                steps(job)
            broker.start()
            job.close()
            again = bench.job(source=bench.source(topic=topic), limits=SMALL)
            again.start()
            again.run_once()
            for table in ("items", "orders"):
                assert bench.content(table) == changes.rows[table]
            for source in bench.open:
                source.close()
    except AbsentError as reason:
        pytest.skip(str(reason))
