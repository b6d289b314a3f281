"""Types of targets that exist, for messages that name none."""

from __future__ import annotations

import pytest

import tidelake
from tidelake.cdc.command.declared_columns import DeclaredColumns
from tidelake.cdc.command.sync_config import config_of
from tidelake.cdc.command.values import given_of
from tidelake.cdc.source.source_table import SourceName

ORDERS = SourceName("shop", "", "Orders")


@pytest.fixture
def declared(tmp_path):
    catalog = tidelake.open(tmp_path)

    def made(columns, **more):
        catalog.create_table("ods.k_orders", columns)
        given = {
            "database": "ods",
            "table_prefix": "k_",
            "kafka_conf": {"topic": "t", "value.format": "canal-json"},
            **more,
        }
        config = config_of("kafka_sync_database", given_of("kafka_sync_database", given))
        return DeclaredColumns(
            catalog,
            config.routing,
            reserved=config.evolution.reserved,
            case_sensitive=config.case_sensitive,
        )

    return made


def test_columns_have_the_names_of_messages_and_the_types_of_the_target(declared):
    columns = {"id": "INT", "price": "DECIMAL(8, 2)", "_cdc_lsn": "BIGINT", "tags": "ARRAY<INT>"}
    found = declared(columns, catalog_conf={"case-sensitive": "false"})[ORDERS]
    assert (found["ID"].name, str(found["ID"].type)) == ("ID", "INT")
    assert found.get("price") is not None
    assert [found.get(name) for name in ("_cdc_lsn", "tags", "other")] == [None] * 3


def test_a_table_that_is_not_there_or_is_left_out_declares_nothing(declared):
    found = declared({"id": "INT"}, excluding_tables="bad.*")
    assert found.get(SourceName("shop", "", "new")) is None
    assert found.get(SourceName("shop", "", "bad1")) is None
    assert found[SourceName("shop", "", "orders")]["id"].name == "id"
