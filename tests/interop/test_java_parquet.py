"""What Java 1.3.1 alone writes into Parquet: shredded variants, INT96 that counts backwards."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

import tidelake
from interop.case import row_cells
from interop.cells import difference, table_cells
from tidelake.types.variant.variant import encode_variant, variant_objects

pytestmark = pytest.mark.oracle


def table_of(peer, place, types, rows, options):
    peer.do(
        "create",
        place,
        columns=[list(item) for item in types.items()],
        primary_keys=["k"],
        partition_keys=[],
        options={"bucket": "1", **options},
    )
    peer.do("write", place, rows=[["+I", *cells] for cells in row_cells(types, rows)])
    return tidelake.open(place.parents[1]).table(f"db.{place.name}")


OBJECTS = [
    {"age": 35, "name": "Ann", "tags": ["x", "y"], "deep": {"a": 1.5, "b": [None, True]}},
    {"age": "thirty", "name": None, "other": {"name": 1}},
    {},
    [1, {"age": 2}],
    "text",
    7,
    None,
    {"age": 2**40, "tags": ["one", 2, None], "deep": {"a": "no", "c": {"d": 1}}, "z": {"age": 1}},
    {"deep": [], "tags": {}},
]
INSIDE = [{"id": 10, "name": "a", "type": "DOUBLE"}, {"id": 11, "name": "c", "type": "VARIANT"}]
SHREDDED = {
    "type": "ROW",
    "fields": [
        {"id": 1, "name": "age", "type": "INT"},
        {"id": 2, "name": "name", "type": "STRING"},
        {"id": 3, "name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
        {"id": 4, "name": "deep", "type": {"type": "ROW", "fields": INSIDE}},
    ],
}


@pytest.mark.parametrize("shape", [SHREDDED, "INT", {"type": "ARRAY", "element": "BIGINT"}])
def test_variants_that_java_shreds_are_read_byte_for_byte_as_java_reads_them(peer, tmp_path, shape):
    if isinstance(shape, str) or shape["type"] == "ARRAY":  # Java takes rows alone for a column
        shape = {"type": "ROW", "fields": [{"id": 1, "name": "age", "type": shape}]}
    fields = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": shape}]}
    types = {"k": "INT NOT NULL", "v": "VARIANT"}
    rows = [(i, o if o is None else encode_variant(o)) for i, o in enumerate(OBJECTS)]
    options = {"parquet.variant.shreddingSchema": json.dumps(fields)}
    place = tmp_path / "w/db.db/t"
    table = table_of(peer, place, types, rows, options)
    (path,) = place.glob("bucket-0/*.parquet")
    assert pq.read_schema(path).field("v").type.field("typed_value")
    found = table.to_arrow().sort_by("k")
    assert variant_objects(found["v"].combine_chunks()) == OBJECTS
    columns, theirs = peer.read(place)
    assert difference(theirs, table_cells(found), columns) is None


def test_int96_of_java_before_1970_is_read_right(peer, tmp_path):
    types = {"k": "INT NOT NULL", "t": "TIMESTAMP(9)", "l": "TIMESTAMP_LTZ(9)"}
    day = 86_400 * 10**9
    moments = [0, -1, -1_000_000, -day, -day - 1, 1, -9 * 10**18, 9 * 10**18, None]
    rows = [(i, m, m) for i, m in enumerate(moments)]
    place = tmp_path / "w/db.db/t"
    table = table_of(peer, place, types, rows, {"num-sorted-run.compaction-trigger": "9"})
    found = table.to_arrow()
    assert difference(row_cells(types, rows), table_cells(found), found.column_names) is None
