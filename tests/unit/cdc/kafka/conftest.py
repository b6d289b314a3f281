"""Topics on the broker of the test run, and jobs that read them."""

from __future__ import annotations

import pytest
from unit.kafka.conftest import Topics

import tidelake
from tidelake.cdc.columns.order_columns import ORDER_FIELDS
from tidelake.cdc.evolution.new_table import TargetOptions
from tidelake.cdc.evolution.plan import EvolutionRules, Policy
from tidelake.cdc.job.job import JobSettings, SyncJob
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.job.targets import LakeSettings
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.kafka.settings import KafkaSettings
from tidelake.cdc.kafka.topic_source import TopicSource
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.engine.env import SystemClock
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

LIMITS = EpochLimits(rows_max=1_000, wait_ms=300, gather_ms=50)


@pytest.fixture(scope="session")
def topics(broker):
    return Topics(broker.servers)


class KafkaBench:
    """A lake, and jobs that read topics into it."""

    def __init__(self, servers):
        self.fileio = MemoryFileIO()
        self.lives = 0
        self.open = []
        self.conf = {
            "properties.bootstrap.servers": servers,
            "value.format": "debezium-json",
            "scan.startup.mode": "earliest-offset",
        }

    def settings(self, **conf):
        given = {**self.conf, **{key.replace("__", "."): value for key, value in conf.items()}}
        return KafkaSettings.of({key: value for key, value in given.items() if value is not None})

    def source(self, *, keys=(), declared=None, **conf):
        made = TopicSource(self.settings(**conf), SystemClock(), keys=keys, declared=declared)
        self.open.append(made)
        return made

    @property
    def catalog(self):
        return tidelake.open("/lake", fileio=self.fileio, env=Env.seeded(1))

    def job(self, *, fileio=None, limits=LIMITS, source=None, **given):
        files = fileio or self.fileio
        self.lives += 1
        env = Env.seeded(self.lives)
        columns = given.pop("columns", AddedColumns())
        conf = {"bucket": "1", **given.pop("table_conf", {})}
        reserved = frozenset(f.name for f in ORDER_FIELDS)
        lake = LakeWriter(
            tidelake.open("/lake", fileio=files, env=env),
            LakeSettings(
                "job",
                given.pop("routing", Routing("ods")),
                columns,
                TargetOptions(table_conf=conf, order=ORDER_FIELDS, requires_key=False),
                EvolutionRules(Policy.PAIMON, reserved=reserved),
                quarantine_max=given.pop("quarantine_max", 100),
            ),
        )
        journal = FileJournal(files, "/lake/_cdc/job", "job")
        settings = JobSettings("job", limits, **given)
        return SyncJob(settings, source or self.source(), journal, lake, env)

    def run(self, **given):
        """One life of a job, until it has what the topics have."""
        job = self.job(**given)
        job.start()
        job.run_once()
        return job

    def content(self, table, *columns):
        opened = self.catalog.table(f"ods.{table}")
        added = {f.name for f in ORDER_FIELDS}
        names = list(columns) or [n for n in opened.schema.names if n not in added]
        return {row["id"]: row for row in opened.to_arrow(columns=names).to_pylist()}

    def quarantine(self):
        found = self.catalog.table("ods.cdc_quarantine").to_arrow().to_pylist()
        return [(row["source_table"], row["reason"], row["payload"]) for row in found]


@pytest.fixture
def bench(topics):
    made = KafkaBench(topics.servers)
    yield made
    for source in made.open:
        source.close()
