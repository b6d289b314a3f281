"""Executors follow their tables: commits, compactions, rollbacks, schemas, buckets, drops."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.service.service_kit import Asked, asked_everywhere, made_table, refusal, request_of
from waiting import until

from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.types.schema_change import SetOption

KEYS = list(range(-5, 130))


def batch(table, keys=KEYS):
    """What a batch read finds for some keys."""
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    return {key: rows[key] for key in keys if key in rows}


def agrees(service, table, keys=KEYS):
    """Wait until the service has seen the newest snapshot, then compare."""
    service.wait_ready_at(table)
    found = asked_everywhere(service.server, table, keys)
    assert found == batch(table, keys)
    return found


def test_a_commit_is_read_by_who_asks_for_its_snapshot(catalog, serve):
    table = made_table(catalog)
    service = serve()
    for number in range(5):
        table.write([{"id": 7, "v": f"new{number}"}])
        least = pb.Version(snapshot=table.latest_snapshot_id)
        assert asked_everywhere(service.server, table, [7], at_least=least) == batch(table, [7])


def test_compactions_and_expiries_change_no_answer(catalog, serve):
    table = made_table(catalog)
    service = serve()
    for number in range(4):
        table.write([{"id": i, "v": f"{number}"} for i in range(number, 120, 7)])
    table.delete("id < 10")
    agrees(service, table)
    table.compact(full=True)
    agrees(service, table)
    files = {e.instance: t.files for e in service.server.status().executors for t in e.tables}
    table.maintenance.expire_snapshots(
        retain_max=1, retain_min=1, older_than="2100-01-01 00:00:00Z"
    )
    agrees(service, table)
    assert set(files.values()) != {0}


def test_a_rollback_is_seen_and_is_a_newer_generation(catalog, serve):
    table = made_table(catalog)
    service = serve()
    table.write([{"id": 7, "v": "gone"}])
    agrees(service, table)
    with Asked(service.server.address) as asked:
        before = asked.locate().version
        table.rollback_to(1)
        agrees(service, table)
        after = asked.locate().version
    assert after.generation > before.generation
    # who has seen snapshot 2 of the old generation is answered by the new one
    found = asked_everywhere(service.server, table, [7], at_least=before)
    assert found == {7: {"id": 7, "v": "v7"}}


def test_answers_have_the_newest_columns(catalog, serve):
    table = made_table(catalog)
    service = serve()
    table = table.add_column("w", "INT").rename_column("v", "value")
    agrees(service, table)
    table.write([{"id": 7, "value": "x", "w": 3}])
    assert agrees(service, table)[7] == {"id": 7, "value": "x", "w": 3}
    table = table.drop_column("value")
    agrees(service, table)
    with Asked(service.executors[0].address) as asked:
        old = request_of(table, [7], at_least=pb.Version(schema=0))
        assert asked.lookup(old).version.schema == table.handle.schema.id
        gone = request_of(table, [7], columns=["value"])
        assert refusal(lambda: asked.lookup(gone))[:2] == ("INVALID_ARGUMENT", "unknown-column")


def test_a_rescaled_table_is_routed_by_the_number_of_each_partition(catalog, serve):
    schema = pa.schema({"id": pa.int64(), "p": pa.string(), "v": pa.string()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": 2}
    )
    rows = [{"id": i, "p": p, "v": "old"} for i in range(40) for p in ("a", "b")]
    table.write(rows)
    service = serve()
    table = table.alter(SetOption("bucket", "4"))
    table.write([r for r in rows if r["p"] == "a"], mode="overwrite", partition={"p": "a"})
    service.wait_ready_at(table)
    told = [executor.tables.find("db.t")._open for executor in service.executors]
    (small,) = {partition for o in told for partition in o.buckets}
    assert all(o.buckets == {small: 2} for o in told)
    assert all(o.default_buckets == 4 for o in told)


def test_a_table_that_is_made_anew_is_served_again(catalog, serve):
    table = made_table(catalog)
    service = serve()
    catalog.drop_table("db.t")
    with Asked(service.executors[0].address) as asked:
        until(lambda: not service.executors[0].tables.all())
        gone = refusal(lambda: asked.lookup(request_of(table, [1])))
        assert gone[:2] == ("NOT_FOUND", "table-not-served")
    table = made_table(catalog, buckets=3, rows=50)
    agrees(service, table)


def test_tables_come_and_go_while_it_runs(catalog, serve):
    table, other = made_table(catalog), made_table(catalog, "db.u", rows=30)
    service = serve("db.t")
    service.server.add("db.u")
    agrees(service, other)
    service.server.remove("db.t")
    until(lambda: all(len(e.tables.all()) == 1 for e in service.executors))
    with Asked(service.executors[0].address) as asked:
        assert refusal(lambda: asked.lookup(request_of(table, [1])))[0] == "NOT_FOUND"
    agrees(service, other)


@pytest.mark.parametrize(
    ("primary_keys", "options"),
    [
        (["id", "p"], {"bucket": -1, "dynamic-bucket.target-row-num": 9}),
        (["id"], {"bucket": -1, "dynamic-bucket.target-row-num": 9}),
        (["id", "p"], {"bucket": 3, "merge-engine": "partial-update"}),
        (["id", "p"], {"bucket": 2, "deletion-vectors.enabled": "true"}),
    ],
    ids=["dynamic", "cross-partition", "partial-update", "deletion-vectors"],
)
def test_every_kind_of_buckets_is_answered_by_exactly_one_executor(
    catalog, serve, primary_keys, options
):
    schema = pa.schema({"id": pa.int64(), "p": pa.string(), "v": pa.string()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=primary_keys, partition_keys=["p"], options=options
    )
    table.write([{"id": i, "p": f"p{i % 3}", "v": "first"} for i in range(60)])
    table.write([{"id": i, "p": f"p{(i + i % 2) % 3}", "v": "second"} for i in range(0, 60, 5)])
    service = serve(count=3)
    service.wait_ready_at(table)
    rows = {tuple(r[k] for k in primary_keys): r for r in table.to_arrow().to_pylist()}
    wanted = [(i, f"p{p}") for i in range(70) for p in range(4)]
    wanted = sorted({key[: len(primary_keys)] for key in wanted})
    found = asked_everywhere(service.server, table, wanted)
    assert found == {key: rows[key] for key in wanted if key in rows}
    assert len({e.index for e in service.server.status().executors}) == 3


def test_a_table_without_a_snapshot_has_no_rows_until_it_has_one(catalog, serve):
    table = made_table(catalog, rows=0)
    service = serve()
    assert asked_everywhere(service.server, table, [1, 2]) == {}
    table.write([{"id": 1, "v": "a"}])
    assert agrees(service, table) == {1: {"id": 1, "v": "a"}}
