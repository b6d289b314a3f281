"""CALL of a job's procedures, by `tl.sql` and by `spark.sql`, on a real PostgreSQL."""

from __future__ import annotations

import json

import pytest
from servers.postgres import PASSWORD

from tidelake.errors import InvalidInputError, NotFoundError


@pytest.fixture
def job_file(shop, tmp_path):
    """A file with the password itself, of the warehouse that is attached."""

    def written(**more):
        given = {
            "command": "postgres_sync_database",
            "warehouse": shop.lake.catalog.uri,
            "database": "ods",
            **more,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        conf = {**shop.conf, "password": PASSWORD}
        lines += ["[postgres_conf]", *(f"{key} = {json.dumps(v)}" for key, v in conf.items())]
        path = tmp_path / "shop.toml"
        path.write_text("\n".join(lines))
        return path

    return written


def rows(frame):
    return [row.asDict() for row in frame.collect()]


def test_a_job_is_planned_run_asked_and_dropped_by_statements(shop, job_file):
    lake, spark = shop.lake, shop.lake.spark
    path = job_file()
    plan = [row["result"] for row in rows(lake.sql(f"CALL sys.cdc_plan('{path}')"))]
    assert "create ods.orders from" in "\n".join(plan)
    [before] = rows(lake.sql(f"CALL sys.cdc_status('{path}')"))
    assert (before["job"], before["epoch"], before["target_table"]) == ("ods", None, None)
    assert before["is_behind"] is True

    shop.run("INSERT INTO orders VALUES (1, 'a', 1.5, now()), (2, 'b', 2.5, now())")
    ran = rows(lake.sql(f"CALL sys.cdc_run(job_file => '{path}')"))
    assert {row["target_table"]: row["rows"] for row in ran} == {"ods.orders": 2, "ods.users": 1}
    assert shop.is_equal("orders", "id", "item", "price", "at")
    assert [job.name for job in lake.jobs()] == ["cdc-ods"]

    shop.run("DELETE FROM orders WHERE id = 1")
    name = lake.catalog_name
    found = rows(spark.sql(f"CALL {name}.sys.cdc_status(job_file => '{path}')"))
    assert {row["phase"] for row in found} == {"live"}
    assert json.loads(found[0]["source_facts"])["slot"] == shop.conf["slot.name"]
    rows(spark.sql(f"CALL {name}.sys.cdc_run('{path}')"))
    assert shop.is_equal("orders", "id", "item", "price", "at")

    [asked] = rows(lake.sql(f"CALL sys.cdc_resnapshot('{path}', 'ods.orders')"))
    assert asked == {"result": True}
    ran = rows(lake.sql(f"CALL sys.cdc_run('{path}')"))
    assert {row["target_table"]: row["copies"] for row in ran} == {"ods.orders": 2, "ods.users": 1}
    with pytest.raises(NotFoundError, match=r"has no table 'ods\.order'"):
        lake.sql(f"CALL sys.cdc_resnapshot('{path}', 'ods.order')")

    epochs = rows(lake.sql(f"CALL sys.cdc_epochs('{path}')"))
    assert [row["kind"] for row in epochs[:1]] == ["copy"]
    assert epochs[0]["is_whole"] is True
    # before a copy that shows a later position nothing is whole, and the note says so
    assert all(row["is_whole"] or "copied" in row["note"] for row in epochs)
    assert json.loads(epochs[-1]["snapshots"]).keys() == {"ods.orders", "ods.users"}
    same = rows(spark.sql(f"CALL {name}.sys.cdc_epochs(job_file => '{path}')"))
    assert same == epochs
    [none] = rows(spark.sql(f"CALL {name}.sys.cdc_replay('{path}', 'ods.orders')"))
    assert none["result"].startswith("0 rows of the quarantine can be applied")

    said = [row["result"] for row in rows(lake.sql(f"CALL sys.cdc_drop('{path}')"))]
    assert f"dropped the replication slot {shop.conf['slot.name']}" in said
    assert said[-1] == "removed the journal of job 'ods'"
    assert shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []

    store = spark._jsparkSession.sharedState().statusStore().executionsList()
    shown = [
        f"{run.physicalPlanDescription()} {run.details()} {run.description()}"
        for run in (store.apply(place) for place in range(store.size()))
    ]
    shown += [str(found), str(plan), str(ran), str(said)]
    assert shown
    assert not any(PASSWORD in text for text in shown)


def test_a_file_that_is_none_or_of_another_warehouse_is_refused(shop, job_file, tmp_path):
    with pytest.raises(InvalidInputError, match=r"none\.toml cannot be read"):
        shop.lake.sql(f"CALL sys.cdc_status('{tmp_path / 'none.toml'}')")
    path = job_file(warehouse=str(tmp_path / "elsewhere"))
    with pytest.raises(InvalidInputError, match="warehouse that is attached"):
        shop.lake.sql(f"CALL sys.cdc_status('{path}')")
    assert not (tmp_path / "elsewhere").exists()
    path.write_text("command = 'postgres_sync_databse'")
    with pytest.raises(InvalidInputError, match="Did you mean 'postgres_sync_database'"):
        shop.lake.sql(f"CALL sys.cdc_run('{path}')")
