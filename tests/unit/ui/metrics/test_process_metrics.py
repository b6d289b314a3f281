"""A process that writes or maintains tables answers Prometheus."""

import urllib.request

import pytest
from unit.ui.metrics.test_table_metrics import samples

from tidelake.errors import StorageError, TidelakeError
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.ui.metrics.commit_metrics import CommitCollector
from tidelake.ui.metrics.families import text_of
from tidelake.ui.metrics.maintenance_metrics import MaintenanceCollector
from tidelake.ui.metrics.process_metrics import metrics_port

PATIENCE_S = 60
TABLE = ("table", "shop.orders")


def asked(port):
    address = f"http://127.0.0.1:{port.port}/metrics"
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return samples(answer.read())


def test_commits_of_this_process_are_counted_with_their_seconds(lake, orders):
    row = {"day": "2026-11-20", "id": 1, "item": "tea"}
    for _ in range(3):
        orders.write([row])
    found = samples(text_of(CommitCollector(lake.env.commits))[0])
    kind = ("kind", CommitKind.APPEND.value)
    assert found["tidelake_commit_seconds_count", kind, TABLE] == 3
    assert found["tidelake_commit_seconds_bucket", kind, ("le", "+Inf"), TABLE] == 3
    assert found["tidelake_commit_seconds_sum", kind, TABLE] > 0
    assert found["tidelake_commit_conflicts_total", kind, TABLE] == 0
    assert found["tidelake_commit_failures_total", kind, TABLE] == 0


def test_a_lost_race_and_a_failure_are_counted(lake, orders):
    row = {"day": "2026-11-20", "id": 1, "item": "tea"}
    kind = ("kind", "APPEND")
    log = type(orders.handle.snapshots)
    put, is_first = log.put, [True]

    def late(self, *given, **more):
        if is_first.pop():
            is_first.append(False)
            lake.table("shop.orders").write([row])
        else:
            is_first.append(False)
        return put(self, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "put", late)
        orders.write([row])
    found = samples(text_of(CommitCollector(lake.env.commits))[0])
    assert found["tidelake_commit_conflicts_total", kind, TABLE] == 1
    assert found["tidelake_commit_seconds_count", kind, TABLE] == 2

    def fails(self, *given, **more):
        message = "The disk is full."
        raise StorageError(message, kind="storage")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "put", fails)
        with pytest.raises(TidelakeError):
            orders.write([row])
    found = samples(text_of(CommitCollector(lake.env.commits))[0])
    assert found["tidelake_commit_failures_total", kind, TABLE] == 1
    assert found["tidelake_commit_seconds_count", kind, TABLE] == 2


def test_a_job_tells_of_tables_rounds_and_commits(lake, orders):
    rounds = MaintenanceCollector(lake.env.clock)
    with metrics_port(lake, rounds, names=lambda: ["shop.orders"]) as port:
        assert ("tidelake_maintenance_last_round_timestamp_seconds",) not in asked(port)
        lake.maintain("shop.orders", rounds=1, watch=rounds.take)
        found = asked(port)
        taken = port.port
        with pytest.raises(StorageError, match="--metrics-port"), metrics_port(lake, port=taken):
            pass
    task = ("task", "compaction")
    assert found["tidelake_maintenance_rounds_total",] == 1
    assert found["tidelake_maintenance_tables",] == 1
    assert found["tidelake_maintenance_round_seconds_total",] > 0
    assert found["tidelake_maintenance_last_round_timestamp_seconds",] > 1e9
    assert found["tidelake_maintenance_tasks_total", TABLE, task] == 1
    assert found["tidelake_maintenance_work_total", TABLE, task, ("what", "files")] >= 1
    assert found["tidelake_commit_seconds_count", ("kind", "COMPACT"), TABLE] >= 1
    assert found["tidelake_table_files", TABLE] >= 1


def test_failures_and_tables_of_other_jobs_are_counted(lake, orders):
    rounds = MaintenanceCollector(lake.env.clock)
    for file in orders.handle.fileio.list_dir(orders.paths.manifest_dir):
        orders.handle.fileio.delete(f"{orders.paths.manifest_dir}/{file.name}")
    lake.maintain("shop.orders", rounds=1, watch=rounds.take)
    found = samples(text_of(rounds)[0])
    failed = {key: n for key, n in found.items() if key[0] == "tidelake_maintenance_failures_total"}
    assert sum(failed.values()) == 1
