"""A small warehouse with something in every part of a page."""

import shutil

import pyarrow as pa
import pytest

import tidelake
from tidelake.ui.model.warehouse_watch import WarehouseWatch

EVIL = "<script>alert('x')</script>\"&"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Two partitions, two buckets, level 0 and the top level, a tag and a consumer; made once."""
    place = tmp_path_factory.mktemp("made") / "lake"
    table = tidelake.open(place).create_table(
        "shop.orders",
        pa.schema({"day": pa.string(), "id": pa.int64(), "item": pa.string()}),
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={"bucket": 2, "write-only": True, "num-sorted-run.compaction-trigger": 3},
        comment=f"orders {EVIL}",
    )
    rows = [{"day": f"2026-11-{20 + n % 2}", "id": n, "item": EVIL} for n in range(40)]
    table.write(rows)
    table.compact(full=True)
    for batch in table.stream(start=1, consumer_id="mailer", timeout=0):
        assert batch.data.num_rows
    table.tags.create("before", time_retained="30 d")
    for _ in range(4):
        table.write(rows[:8])
    return place


@pytest.fixture
def lake(tmp_path):
    return tidelake.open(tmp_path / "lake")


@pytest.fixture
def orders(lake, made, tmp_path):
    shutil.copytree(made, tmp_path / "lake", dirs_exist_ok=True)
    return lake.table("shop.orders")


@pytest.fixture
def watch(lake):
    with WarehouseWatch(lake) as found:
        yield found
