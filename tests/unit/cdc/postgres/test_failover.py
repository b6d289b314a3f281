"""A standby is promoted, and takes the place of the server that a job reads."""

from __future__ import annotations

import os
import subprocess
import time

import psycopg
import pytest
from servers.ports import free_port
from servers.postgres import PASSWORD, USER, Postgres, as_nobody, postgres
from sizes import FULL, SIZE

import tidelake
import tidelake.cdc
from tidelake.errors import InvalidInputError

STANDBY = "standby1"
SETTINGS = ("wal_level=logical", "max_wal_senders=10", "max_replication_slots=10")
WAIT_SECONDS_MAX = 400
"""The standby looks for slots now and then: after 13 or 95 seconds, as seen."""


def run(server, *statements):
    with psycopg.connect(**server.conninfo(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def rows(server, query):
    with psycopg.connect(**server.conninfo(), autocommit=True) as connection:
        return connection.execute(query).fetchall()


def wait_for(server, query, moves_on=lambda: None):
    """Wait until a query has a row."""
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not rows(server, query):
        assert time.monotonic() < ends, query
        moves_on()
        time.sleep(0.1)


@pytest.fixture
def pair():
    """A server, and a standby that keeps its slots."""
    # no reader may be ahead of the standby
    with postgres(18, *SETTINGS, f"synchronized_standby_slots={STANDBY}") as primary:
        run(primary, f"SELECT pg_create_physical_replication_slot('{STANDBY}')")
        data = primary.data.parent / "standby"
        subprocess.run(
            [str(primary.bin_path / "pg_basebackup"), "-D", str(data), "-S", STANDBY, "-R",
             "--checkpoint=fast", "-d", f"host=127.0.0.1 port={primary.port} user={USER}"
             " dbname=postgres"],
            check=True, env={**os.environ, "PGPASSWORD": PASSWORD}, **as_nobody(),
        )  # fmt: skip
        own = (
            "sync_replication_slots=on", "hot_standby_feedback=on", f"primary_slot_name={STANDBY}"
        )  # fmt: skip
        standby = Postgres(primary.bin_path, data, free_port(), (*SETTINGS, *own))
        standby.start()
        try:
            yield primary, standby
        finally:
            standby.stop()


def job(lake, server, *, failover):
    name = "kept" if failover else "lost"
    conf = {
        "hostname": "127.0.0.1", "port": server.port, "username": USER, "password": "env:CDC_WORD",
        "database-name": "lake", "slot.name": name, "slot.failover": str(failover).lower(),
    }  # fmt: skip
    return tidelake.cdc.postgres_sync_database(
        warehouse=str(lake), database=name, job=name, postgres_conf=conf
    )


@pytest.mark.skipif(
    SIZE is not FULL, reason="a standby takes a slot over within minutes: TIDELAKE_SIZE=full"
)
def test_a_job_goes_on_at_a_promoted_standby_that_has_its_slot(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("CDC_WORD", PASSWORD)
    primary, standby = pair
    run(primary, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    for failover in (True, False):
        job(tmp_path, primary, failover=failover).run(once=True)
    run(primary, "INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3 WHERE id = 1")
    for failover in (True, False):
        job(tmp_path, primary, failover=failover).run(once=True)
    synced = "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'kept' AND synced"

    def slot_moves_on():
        # a standby takes a slot over once that is ahead of what the standby can still decode
        run(primary, "SELECT pg_log_standby_snapshot()", "UPDATE t SET v = v WHERE id = 1")
        job(tmp_path, primary, failover=True).run(once=True)

    wait_for(standby, f"{synced} AND NOT temporary", slot_moves_on)
    # the job has not read these when the server is gone
    run(primary, "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    wait_for(standby, "SELECT 1 FROM t WHERE id = 4")
    primary.stop()
    run(standby, "SELECT pg_promote(true, 60)", "INSERT INTO t VALUES (5, 5)")
    job(tmp_path, standby, failover=True).run(once=True)
    found = tidelake.open(tmp_path).table("kept.t").to_arrow(columns=["id", "v"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 3), (4, 4), (5, 5)]
    # a slot that stayed behind: the log may lack what the job has not read
    with pytest.raises(InvalidInputError) as caught:
        job(tmp_path, standby, failover=False).run(once=True)
    assert caught.value.kind == "cdc_source_changed"
