"""Nested columns in Parquet files: groups and ids as Java writes them, found again by id."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.format.rows import PATH, field, parquet_of, put_parquet

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer, read_batches
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.arrow import VARIANT_STORAGE, fields_from_arrow, to_arrow_schema
from tidelake.types.variant.variant import encode_variant, variant_objects

GOLDEN = Path(__file__).parents[3] / "golden" / "parquet_schema_nested.txt"


def row(*fields, null=""):
    parts = [{"id": i, "name": name, "type": form} for i, name, form in fields]
    return {"type": f"ROW{null}", "fields": parts}


def array(element):
    return {"type": "ARRAY", "element": element}


def schema_text(files):
    text = str(parquet_of(files).schema).split("\n", 1)[1].strip() + "\n"
    return text.replace(", is_from_converted_type=false, force_set_converted_type=false", "")


def written(fields, rows):
    files = MemoryFileIO()
    out = open_writer(files, PATH, fields, FormatOptions(), stats_columns=frozenset())
    out.write(pa.Table.from_pylist(rows, schema=to_arrow_schema(fields)))
    out.close()
    return files


def read(files, fields, **more):
    batches = list(read_batches(files, PATH, fields, **more))
    return [r for b in batches for r in b.to_pylist()]


INNER = row((6, "y", array("TIMESTAMP(3)")))
INTS = {"type": "MAP", "key": "INT", "value": "INT"}


def test_the_groups_and_ids_are_paimons():
    """As Java 1.3.1's ParquetSchemaConverter makes them."""
    fields = (
        field(0, "a", array("INT NOT NULL")),
        field(1, "aa", array(array(array("DATE")))),
        field(2, "m", {"type": "MAP", "key": "STRING", "value": array("DECIMAL(20, 2)")}),
        field(3, "ms", {"type": "MULTISET", "element": "BYTES"}),
        field(9, "r", row((7, "x", INNER), (8, "z", "TINYINT NOT NULL"))),
        field(10, "v", "VARIANT"),
        field(13, "ar", array(row((11, "p", "TIME(3)"), (12, "q", INTS), null=" NOT NULL"))),
    )
    assert schema_text(written(fields, [])) == GOLDEN.read_text()


@pytest.mark.oracle
def test_the_schema_of_a_table_of_java_is_its_own_file_s(oracle_dir):
    place = oracle_dir / "fixtures/warehouse/db.db/types_append_parquet"
    schema = TableSchema.from_json((place / "schema/schema-0").read_bytes())
    (path,) = place.glob("bucket-0/*.parquet")
    theirs = str(pq.ParquetFile(path).schema).split("\n")[2:]
    ours = str(parquet_of(written(schema.fields, [])).schema).split("\n")[2:]
    # Java marks the repeated group of a map as one, too; readers do not look at it
    assert [line.replace("key_value (Map)", "key_value") for line in theirs] == ours


OLD = (
    field(0, "c", row((1, "a", "INT"), (2, "b", array(row((3, "x", "INT"), (4, "y", "STRING")))))),
)
ROWS = [
    {"c": {"a": 1, "b": [{"x": 2, "y": "z"}, None]}},
    {"c": None},
    {"c": {"a": None, "b": None}},
]


def test_fields_of_rows_are_found_by_id():
    new = (
        field(
            0,
            "renamed",
            row((2, "list", array(row((4, "text", "STRING"), (5, "x", "INT")))), (1, "b", "INT")),
        ),
    )
    assert read(written(OLD, ROWS), new) == [
        {"renamed": {"list": [{"text": "z", "x": None}, None], "b": 1}},
        {"renamed": None},
        {"renamed": {"list": None, "b": None}},
    ]


def test_a_struct_of_which_the_file_has_no_field_is_null_where_it_was():
    new = (field(0, "c", row((7, "new", "INT"))),)
    assert read(written(OLD, ROWS), new) == [
        {"c": {"new": None}},
        {"c": None},
        {"c": {"new": None}},
    ]


def test_a_field_that_the_file_s_schema_has_must_be_there():
    files = written(OLD, ROWS)
    new = (field(0, "c", row((1, "a", "INT"), (7, "lost", "INT"))),)
    with pytest.raises(CorruptError, match=r"'c\.lost' is missing"):
        read(files, new, file_fields=new)


def test_another_kind_of_column_is_refused():
    for form in (array("INT"), "INT", "VARIANT", {"type": "MAP", "key": "INT", "value": "INT"}):
        with pytest.raises(UnsupportedError, match="'c'"):
            read(written(OLD, ROWS), (field(0, "c", form),))


def test_values_inside_are_cast_as_those_of_columns_are():
    new = (field(0, "c", row((1, "a", "BIGINT"), (2, "b", array(row((3, "x", "DOUBLE")))))),)
    (first, *_) = read(written(OLD, ROWS), new)
    assert first == {"c": {"a": 1, "b": [{"x": 2.0}, None]}}


def test_files_without_ids_are_read_by_name():
    kind = pa.struct(
        {"b": pa.large_list(pa.struct({"y": pa.string(), "x": pa.int32()})), "a": pa.int32()}
    )
    table = pa.table({"c": pa.array([r["c"] for r in ROWS], kind)})
    assert read(put_parquet(table), OLD) == ROWS


def test_each_row_of_a_file_without_ids_has_names_of_its_own():
    """Fields of different rows may have equal ids: each is looked up among its siblings."""
    old = (
        field(0, "k", "INT"),
        field(1, "x", "INT"),
        field(2, "s", row((0, "x", "INT"), (1, "z", row((0, "z", "INT"), (2, "k", "INT"))))),
        field(3, "l", array(row((0, "z", "INT"), (3, "x", "INT")))),
        field(4, "m", {"type": "MAP", "key": "INT", "value": row((0, "s", "INT"))}),
    )
    value = {
        "k": 1,
        "x": 2,
        "s": {"x": 3, "z": {"z": 4, "k": 5}},
        "l": [{"z": 6, "x": 7}],
        "m": [(8, {"s": 9})],
    }
    files = put_parquet(pa.Table.from_pylist([value], schema=to_arrow_schema(old)))
    assert read(files, old, file_fields=old) == [value]
    renamed = (
        field(
            4, "m2", {"type": "MAP", "key": "INT", "value": row((2, "new", "INT"), (0, "a", "INT"))}
        ),
        field(3, "l2", array(row((3, "b", "INT"), (1, "new", "INT"), (0, "c", "INT")))),
        field(2, "s2", row((1, "d", row((2, "e", "INT"), (0, "f", "INT"))), (0, "g", "INT"))),
        field(0, "h", "INT"),
    )
    assert read(files, renamed, file_fields=old) == [
        {
            "m2": [(8, {"new": None, "a": 9})],
            "l2": [{"b": 7, "new": None, "c": 6}],
            "s2": {"d": {"e": 5, "f": 4}, "g": 3},
            "h": 1,
        }
    ]
    files = put_parquet(
        pa.table({"s": pa.array([value["s"]], to_arrow_schema(old).field("s").type)})
    )
    lost = (field(2, "s", row((0, "x", "INT"), (1, "z", row((0, "z", "INT"), (5, "y", "INT"))))),)
    with pytest.raises(CorruptError, match=r"'s\.z\.y' is missing"):
        read(files, lost, file_fields=lost)


def test_int96_inside_nested_columns_is_read():
    moments = pa.array([[1_500, None], None], pa.list_(pa.timestamp("ns")))
    files = put_parquet(pa.table({"c": moments}), use_deprecated_int96_timestamps=True)
    fields = fields_from_arrow(pa.schema({"c": pa.list_(pa.timestamp("ns"))}))
    (batch,) = read_batches(files, PATH, fields)
    assert batch.column("c").equals(moments)
    coarse = (DataField(0, "c", parse_type(array("TIMESTAMP(6)"))),)
    with pytest.raises(UnsupportedError, match="'c"):
        read(files, coarse)
    far = pa.array([[300_000 * 365 * 86_400 * 1_000]], pa.list_(pa.timestamp("ms")))
    files = put_parquet(pa.table({"c": far}), use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match="1677"):
        read(files, fields)


def shredded_row(number):
    """``{"a": number, "b": "x"}`` with a column for `a`."""
    raw, metadata = encode_variant({"b": "x"})
    return {"metadata": metadata, "value": raw, "typed_value": {"a": {"typed_value": number}}}


PARTS = pa.struct({"value": pa.binary(), "typed_value": pa.int64()})
SHREDDED = pa.struct(
    {"metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.struct({"a": PARTS})}
)


def test_shredded_variants_are_put_together():
    rows = [shredded_row(1), None, shredded_row(2**40)]
    files = put_parquet(pa.table({"c": pa.array(rows, SHREDDED), "k": [1, 2, 3]}))
    (batch,) = read_batches(files, PATH, (field(0, "c", "VARIANT"), field(1, "k", "BIGINT")))
    assert batch.schema.field("c").type == VARIANT_STORAGE
    assert variant_objects(batch["c"]) == [{"a": 1, "b": "x"}, None, {"a": 2**40, "b": "x"}]
    assert batch["k"].to_pylist() == [1, 2, 3]


def test_shredded_variants_inside_nested_columns_are_put_together():
    kind = pa.struct({"v": SHREDDED, "l": pa.list_(SHREDDED)})
    rows = [{"v": shredded_row(1), "l": [None, shredded_row(2)]}, None, {"v": None, "l": None}]
    files = put_parquet(pa.table({"c": pa.array(rows, kind)}))
    form = row((1, "l", array("VARIANT")), (2, "v", "VARIANT"))
    (batch,) = read_batches(files, PATH, (field(0, "c", form),))
    inside = batch["c"].flatten()
    assert variant_objects(inside[0].flatten()) == [None, {"a": 2, "b": "x"}]
    assert variant_objects(inside[1]) == [{"a": 1, "b": "x"}, None, None]


def test_shredded_variants_that_are_none_name_the_file():
    broken = {**shredded_row(1), "metadata": None}
    files = put_parquet(pa.table({"c": pa.array([broken], SHREDDED)}))
    with pytest.raises(CorruptError, match=PATH):
        read(files, (field(0, "c", "VARIANT"),))
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.uint8()})
    files = put_parquet(pa.table({"c": pa.array([None], kind)}))
    with pytest.raises(UnsupportedError, match=PATH):
        read(files, (field(0, "c", "VARIANT"),))
