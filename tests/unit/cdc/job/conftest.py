"""A job over a database in memory."""

from __future__ import annotations

import pytest
from unit.cdc.job.log_source import Database, LogSource, name_of

import tidelake
from tidelake.cdc.columns.order_columns import ORDER_FIELDS
from tidelake.cdc.evolution.new_table import TargetOptions
from tidelake.cdc.evolution.plan import EvolutionRules, Policy
from tidelake.cdc.job.job import JobSettings, SyncJob
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.job.targets import LakeSettings
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

ITEMS = [("id", "INT NOT NULL"), ("name", "STRING"), ("price", "DECIMAL(8, 2)")]
ORDERS = [("id", "BIGINT NOT NULL"), ("item", "INT")]


class Bench:
    """A database, a lake, and jobs between them."""

    def __init__(self, fileio=None):
        self.database = Database()
        self.fileio = fileio or MemoryFileIO()
        self.settings = {}
        self.confirmed = []
        self.lives = 0

    @property
    def catalog(self):
        env = Env.seeded(1)
        return tidelake.open("/lake", fileio=self.fileio, env=env)

    def job(self, fails=lambda _: None, *, fileio=None, **given):
        given = {**self.settings, **given}
        files = fileio or self.fileio
        self.lives += 1
        env = Env.seeded(self.lives)
        catalog = tidelake.open("/lake", fileio=files, env=env)
        policy = given.pop("policy", Policy.ADDITIVE)
        name = given.pop("name", "job")
        options = {"order": ORDER_FIELDS, "requires_key": False, **given.pop("options", {})}
        columns = given.pop("columns", AddedColumns())
        computed = [text.partition("=")[0] for text in columns.computed]
        reserved = frozenset([*(f.name for f in ORDER_FIELDS), *computed])
        lake = LakeWriter(
            catalog,
            LakeSettings(
                name,
                given.pop("routing", Routing("ods")),
                columns,
                TargetOptions(**options),
                EvolutionRules(policy, reserved=reserved),
                ignores_incompatible=given.pop("ignores_incompatible", False),
                quarantine_max=given.pop("quarantine_max", 100),
                reread_max=given.pop("reread_max", 1_000),
            ),
        )
        source = LogSource(self.database, fails)
        source.confirmed = self.confirmed
        source.starts_at = given.pop("starts_at", None)
        source.converges = given.pop("converges", False)
        limits = EpochLimits(rows_max=given.pop("rows_max", 1000))
        journal = FileJournal(files, f"/lake/_cdc/{name}", name)
        return SyncJob(JobSettings(name, limits, **given), source, journal, lake, env)

    def run(self, fails=lambda _: None, **given):
        """One life of a job: from its start until it has what the source has."""
        job = self.job(fails, **given)
        job.start()
        job.run_once()
        return job

    def content(self, table):
        """The source's columns of a target, by key."""
        names = [c.name for c in self.database.versions[name_of(table)].columns]
        keys = self.database.versions[name_of(table)].keys or names
        opened = self.catalog.table(f"ods.{table}")
        known = [name for name in names if name in opened.schema.names]
        found = opened.to_arrow(columns=known).to_pylist()
        # a column that was added shows with the first row after it
        found = [dict.fromkeys(names) | row for row in found]
        assert len(found) == len({tuple(r[k] for k in keys) for r in found})
        return {tuple(row[k] for k in keys): row for row in found}

    def check(self):
        for name, rows in self.database.rows.items():
            if not self.database.versions[name].keys:
                rows = {tuple(row.values()): row for row in rows.values()}
            assert self.content(name.table) == rows, name


@pytest.fixture
def bench():
    made = Bench()
    made.database.create("items", ITEMS)
    made.database.create("orders", ORDERS)
    return made
