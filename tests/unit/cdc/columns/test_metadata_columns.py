"""Metadata and order columns: Paimon's names and types, and their values."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from tidelake.cdc.columns.metadata_columns import MetadataColumns
from tidelake.cdc.columns.order_columns import ORDER_FIELDS, order_values
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError
from tidelake.types.arrow import to_arrow_schema

TABLE = SourceName("shop", "public", "orders")
LTZ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"


@pytest.mark.parametrize(
    ("source", "types"),
    [
        ("mysql", {"database_name": "STRING NOT NULL", "table_name": "STRING NOT NULL",
                   "op_ts": f"{LTZ} NOT NULL"}),
        ("postgres", {"database_name": "STRING NOT NULL", "table_name": "STRING NOT NULL",
                      "schema_name": "STRING NOT NULL", "op_ts": f"{LTZ} NOT NULL"}),
        ("kafka", {"topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": LTZ,
                   "timestamp_type": "STRING"}),
    ],
)  # fmt: skip
def test_names_and_types_are_paimons(source, types):
    made = MetadataColumns.of(source, types)
    assert {f.name: str(f.type) for f in made.fields} == types


def test_values_say_where_a_row_is_from():
    made = MetadataColumns.of(
        "postgres", ["op_ts", "schema_name", "database_name", "table_name"], prefix="__"
    )
    found = made.evaluate(TABLE, np.array([0, 1_704_585_662_123]))
    assert {name: array.to_pylist() for name, array in found.items()} == {
        "__op_ts": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
                    dt.datetime(2024, 1, 7, 0, 1, 2, 123_000, tzinfo=dt.UTC)],
        "__schema_name": ["public"] * 2, "__database_name": ["shop"] * 2,
        "__table_name": ["orders"] * 2,
    }  # fmt: skip
    assert [a.type for a in found.values()] == to_arrow_schema(made.fields).types


def test_values_of_kafka_are_given():
    made = MetadataColumns.of("kafka", ["partition", "timestamp", "topic"], prefix="K_",
                              case_sensitive=False)  # fmt: skip
    given = {"partition": pa.array([3]), "timestamp": pa.array([5]), "topic": pa.array(["t"])}
    found = made.evaluate(TABLE, np.array([0]), given)
    assert [*found] == ["k_partition", "k_timestamp", "k_topic"]
    assert [a.type for a in found.values()] == to_arrow_schema(made.fields).types


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["op_t"], "Source 'mysql' has no metadata column 'op_t'. Did you mean 'op_ts'?"),
        (["schema_name"], "no metadata column 'schema_name'"),
        (["op_ts", " op_ts"], "'op_ts' is named twice"),
    ],
)
def test_unknown_names_are_refused(names, said):
    with pytest.raises(InvalidInputError) as refused:
        MetadataColumns.of("mysql", names)
    assert said in str(refused.value)


def test_order_columns_are_two_numbers():
    found = order_values(np.array([[7, 0], [7, 1], [9, 0]]))
    assert {name: array.to_pylist() for name, array in found.items()} == {
        "_cdc_lsn": [7, 7, 9], "_cdc_seq": [0, 1, 0],
    }  # fmt: skip
    assert [a.type for a in found.values()] == to_arrow_schema(ORDER_FIELDS).types
