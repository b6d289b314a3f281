"""Makes a small warehouse for the pages that are checked and pictured: seeded, a few seconds."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import tidelake

ITEMS = ("tea", "coffee", "cake", "rye bread", "honey")
PAGES = ("/", "/cart", "/search", "/item/17", "/help")
BATCHES = (300, 1_200, 4_000, 9_000)


def make(place: Path) -> tidelake.Catalog:
    """Make tables of a shop: one that is behind with its compaction, others in good order."""
    draw = random.Random(7)
    lake = tidelake.open(place)
    _orders(lake, draw)
    _clicks(lake, draw)
    _stock(lake)
    lake.create_table(
        "shop.customers",
        pa.schema({"id": pa.int64(), "name": pa.string(), "mail": pa.string()}),
        primary_keys=["id"],
        options={"bucket": 2},
        comment="One row a customer, by change data capture",
    ).write(
        [{"id": n, "name": f"customer {n}", "mail": f"c{n}@example.org"} for n in range(4_000)],
        commit_user="cdc-shop",
        commit_identifier=1,
    )
    lake.create_table(
        "web.sessions",
        pa.schema({"session": pa.string(), "seconds": pa.int32()}),
        comment="Filled from Monday on",
    )
    return lake


def _orders(lake: tidelake.Catalog, draw: random.Random) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "item": pa.string(),
            "price": pa.float64(),
            "day": pa.string(),
        }
    )
    orders = lake.create_table(
        "shop.orders",
        schema,
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={
            "bucket": 3,
            "write-only": True,
            "num-sorted-run.compaction-trigger": 4,
            "snapshot.num-retained.max": 200,
        },
        comment="Orders of the shop, as they come from the tills",
    )
    for number in range(46):
        day = f"2026-11-{24 + number // 10}"
        rows = [
            {
                "id": draw.randrange(40_000),
                "item": draw.choice(ITEMS),
                "price": round(draw.uniform(2, 30), 2),
                "day": day,
            }
            for _ in range(draw.choice(BATCHES))
        ]
        orders.write(rows, commit_user="tills", commit_identifier=number)
        if number in (11, 23, 34):
            orders.compact(full=number == 23)
        if number == 30:
            orders.tags.create("before-sale", time_retained="30 d")
        if number == 27:
            for batch in orders.stream(start=20, consumer_id="mailer", timeout=0):
                assert batch.data.num_rows >= 0
        if number == 38:
            orders.delete("price > 29")
    lake.alter_table("shop.orders", [tidelake.types.schema_change.AddColumn("note", "STRING")])


def _clicks(lake: tidelake.Catalog, draw: random.Random) -> None:
    clicks = lake.create_table(
        "web.clicks",
        pa.schema({"user": pa.int64(), "page": pa.string()}),
        comment="Clicks, one file a minute",
    )
    for _ in range(14):
        count = draw.randrange(200, 3_000)
        clicks.write([{"user": n, "page": draw.choice(PAGES)} for n in range(count)])


def _stock(lake: tidelake.Catalog) -> None:
    stock = lake.create_table(
        "shop.stock",
        pa.schema({"sku": pa.int64(), "left": pa.int32()}),
        primary_keys=["sku"],
        options={"bucket": 2},
        comment="How much is left",
    )
    for left in range(9):
        stock.write([{"sku": sku, "left": left} for sku in range(2_500)])
