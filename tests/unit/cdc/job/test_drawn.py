"""Drawn databases and drawn crashes: the lake is what the database is, each epoch came once.

In one draw of three the lake's tables have a constraint: what fulfils it is there, and nothing
else; each row that violates it waits in the quarantine.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest
from sizes import SIZE
from unit.cdc.job.conftest import ITEMS, ORDERS, Bench
from unit.cdc.job.log_source import name_of

from tidelake.cdc.routing.routing import Routing
from tidelake.cdc.target.row_maker import AddedColumns
from tidelake.errors import TidelakeError
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

CRASHES = (FaultMode.CRASH_BEFORE, FaultMode.CRASH_AFTER, FaultMode.TORN)
ERRORS = (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.ENOSPC)
LIVES_MAX = 60


SHELF = ("shelf", "STRING NOT NULL")
KEYS = {
    "source": {},
    "other": {"primary_keys": ("shelf", "id")},
    "computed": {"primary_keys": ("part", "id")},
    "partition": {"primary_keys": ("part", "id"), "partition_keys": ("part",)},
}
"""Keys of targets; but for the first they have a column that rows change."""


STORES = (
    {},
    {"deletion-vectors.enabled": "true"},
    {"write-only": "true"},
    {"file.format": "avro"},
    {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"},
)
KEYED_STORES = (
    {"changelog-producer": "lookup"},
    {"changelog-producer": "lookup", "deletion-vectors.enabled": "true", "bucket": "1"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    {"changelog-producer": "input"},
    {"bucket": "2"},
)
"""Options of targets; the second ones are of tables with a key alone."""
CONSTRAINED_EVERY = 3
CONSTRAINTS = ({"constraint.shelf": "shelf <> 'c'"}, {"constraint.shelf": "shelf IN ('a', 'b')"})


class Draw:
    """One database and its job."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.is_constrained = seed % CONSTRAINED_EVERY == 1
        self.bench = Bench()
        self.database = self.bench.database
        self.database.create("items", [*ITEMS, SHELF])
        self.database.create("orders", [*ORDERS, SHELF])
        self.conf = self.rng.choice([*STORES, *KEYED_STORES])
        self.tables = ["items", "orders"]
        if self.conf not in KEYED_STORES:
            self.database.create("events", [("n", "INT NOT NULL"), SHELF], keys=())
            self.tables.append("events")
        self.events = 0
        ordered = self.rng.random() < 0.5
        keys = self.rng.choice(["source", *KEYS])
        if self.is_constrained:
            keys = "source"  # a row that moves to another key, and fits nowhere there, is two rows
            self.conf = {**self.conf, **CONSTRAINTS[seed % len(CONSTRAINTS)]}
        given = {**KEYS[keys], "is_strict": False, "table_conf": self.conf}
        computed = ("part=upper(shelf)",) if "part" in given.get("primary_keys", ()) else ()
        self.bench.settings = {
            "rows_max": self.rng.choice([1, 3, 50]),
            "options": given if ordered else {**given, "order": ()},
            "columns": AddedColumns(computed, has_order=ordered),
            "routing": Routing("ods", partition_keys=given.get("partition_keys", ())),
            "quarantine_max": 100_000,
        }
        self.crashes = 0
        self.widened = False

    def change(self, table):
        """One change of a table; None if there is nothing to change."""
        rng, rows = self.rng, self.database.rows[name_of(table)]
        columns = self.database.versions[name_of(table)].columns
        what = rng.choice(["put", "put", "put", "delete", "move"])
        key = rng.randrange(12)
        row = {c.name: self.value(c, key) for c in columns}
        if what == "put":
            return (table, "put", row)
        if not rows:
            return None
        old = rng.choice(list(rows))
        if what == "delete":
            return (table, "delete", old)
        if (key,) in rows:
            return None
        return (table, "move", old, row)

    def value(self, column, key):
        if column.name == "id":
            return key
        if column.name == "shelf":
            return self.rng.choice("abc")
        text = str(column.type)
        if self.rng.random() < 0.2:
            return None
        number = self.rng.randrange(100)
        if text.startswith("DECIMAL"):
            return Decimal(number)
        return f"v{number}" if text == "STRING" else number

    def work(self):
        """Some transactions of the application."""
        for _ in range(self.rng.randrange(1, 6)):
            what = self.rng.random()
            if "events" in self.tables and self.rng.random() < 0.5:
                many = range(self.events, self.events + self.rng.randrange(1, 6))
                self.events = many.stop
                self.database.commit(*[("events", "put", {"n": n, "shelf": "a"}) for n in many])
            table = self.rng.choice(["items", "orders"])
            if what < 0.05:
                self.database.commit((table, "truncate"))
            elif what < 0.08:
                rows = self.database.rows[name_of(table)]
                for row in rows.values():
                    column = [name for name in row if name != "shelf"][-1]
                    row[column] = None
                self.database.commit((table, "reread"))
            elif what < 0.25 and len(self.database.versions[name_of("items")].columns) < 6:
                extra = len(self.database.versions[name_of("items")].columns)
                now = [(c.name, str(c.type)) for c in
                       self.database.versions[name_of("items")].columns]  # fmt: skip
                self.database.alter("items", [*now, (f"x{extra}", "INT")])
            elif what < 0.3 and not self.widened:
                self.widened = True
                self.database.alter(
                    "orders", [("id", "BIGINT NOT NULL"), ("item", "BIGINT"), SHELF]
                )
            else:
                changes = []
                for _ in range(self.rng.randrange(1, 5)):
                    changed = self.change(self.rng.choice(["items", "orders"]))
                    if changed is not None:
                        self.database.commit(changed) if self.rng.random() < 0.3 else None
                        if self.rng.random() < 0.5 and changed[1] == "put":
                            changes.append(changed)
                if changes:
                    self.database.commit(*changes)

    def life(self, *, crashes):
        """One life of the job; True if it ended by itself."""
        plan = {}
        if crashes:
            plan = {self.rng.randrange(1, 400): self.rng.choice(CRASHES + ERRORS)}
        chance = 0.03 if crashes else 0.0

        def fails(_):
            if self.rng.random() < chance:
                raise SimulatedCrash

        files = FaultyFileIO(self.bench.fileio, plan)
        try:
            job = self.bench.job(fails, fileio=files)
            try:
                job.start()
                job.run_once()
            finally:
                if self.rng.random() < 0.5 or not crashes:
                    job.close()
        except (SimulatedCrash, TidelakeError):
            if not crashes:
                raise
            self.crashes += 1
            return False
        return True

    def run(self):
        for _ in range(self.rng.randrange(2, 8)):
            self.work()
            self.life(crashes=self.rng.random() < 0.8)
        for _ in range(LIVES_MAX):
            if self.life(crashes=False):
                break
        if self.is_constrained:
            self.check_constrained()
        else:
            self.bench.check()
        self.check_epochs()
        if "changelog-producer" in self.conf:
            self.check_changes("items")
            self.check_changes("orders")

    def check_constrained(self):
        """Rows are there if they fulfil the constraint; the others were told with their reason.

        Of a row that violates it now, an older version that did not may still be there.
        """
        told = set()
        if self.bench.catalog.table_exists("ods.cdc_quarantine"):
            for row in self.bench.catalog.table("ods.cdc_quarantine").to_arrow().to_pylist():
                assert "constraint 'shelf'" in row["reason"], row
                payload = json.loads(row["payload"])
                assert payload["shelf"] == "c", row
                told.add((row["target"], int(payload["id"])))
        for name in ("items", "orders"):
            rows = self.database.rows[name_of(name)]
            found = (
                self.bench.content(name) if self.bench.catalog.table_exists(f"ods.{name}") else {}
            )
            fits = {key: row for key, row in rows.items() if row["shelf"] != "c"}
            waits = {key for key in rows if key not in fits}
            assert {key: row for key, row in found.items() if key not in waits} == fits, name
            assert all(found[key]["shelf"] != "c" for key in waits & set(found)), name
            assert {(f"ods.{name}", *key) for key in waits} <= told, name

    def check_epochs(self):
        """Each epoch was committed once to each table."""
        for table in self.tables:
            history = self.bench.catalog.table(f"ods.{table}").system_table("snapshots").to_arrow()
            commits = [row for row in history.to_pylist() if row["commit_kind"] != "COMPACT"]
            assert {row["commit_user"] for row in commits} == {"cdc-job"}
            epochs = [row["commit_identifier"] for row in commits]
            assert epochs == sorted(set(epochs)), (table, epochs)

    def check_changes(self, name):
        """The logged changes of a table, one after the other, lead to its rows."""
        table = self.bench.catalog.table(f"ods.{name}")
        keys = table.primary_keys
        rows = {}
        for row in table.changes(0, mode="changelog").to_pylist():
            is_old = row.pop("_row_kind") in {"-U", "-D"}
            key = tuple(row[k] for k in keys)
            if is_old:
                rows.pop(key, None)
            else:
                rows[key] = row
        assert rows == {tuple(row[k] for k in keys): row for row in table.to_arrow().to_pylist()}


@pytest.mark.parametrize("seed", range(SIZE.cdc_jobs))
def test_the_lake_is_what_a_drawn_database_is(seed):
    Draw(seed).run()
