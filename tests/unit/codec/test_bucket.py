import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.codec.golden_cases import cases, types_of, values_of
from unit.types.strategies import tables

from tidelake.codec.binary_row import encode_row
from tidelake.codec.bucket import BLOCK_ROWS, buckets_of, hash_bytes, hash_rows
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types import TableSchema, parse_type
from tidelake.types.values import storage_to_arrow

GOLDEN = list(cases("bucket.txt"))


def columns_of_rows(rows, types):
    return [storage_to_arrow([row[i] for row in rows], t) for i, t in enumerate(types)]


@pytest.mark.parametrize(("head", "lines", "answer"), GOLDEN)
def test_golden_hashes_and_buckets_of_java(head, lines, answer):
    types, row = types_of(head), values_of(lines[0])
    columns = columns_of_rows([row], types)
    words = answer[0].split()
    assert hash_rows(columns, types).tolist() == [int(words[1])]
    assert hash_bytes(encode_row(row, types)) == int(words[1])
    for count, bucket in zip(words[2::2], words[3::2], strict=True):
        assert buckets_of(columns, types, int(count[2:])).tolist() == [int(bucket)]


def test_golden_holds_all_vectors():
    assert len(GOLDEN) == 37


@given(tables(columns_max=4))
def test_whole_columns_hash_as_single_rows_do(table):
    types, rows = table
    expected = [hash_bytes(encode_row(row, types)) for row in rows]
    assert hash_rows(columns_of_rows(rows, types), types).tolist() == expected


@given(tables(columns_max=2, rows_max=30), st.data())
def test_slices_and_chunks_hash_as_the_whole_does(table, data):
    types, rows = table
    columns = columns_of_rows(rows, types)
    whole = hash_rows(columns, types)
    cut = data.draw(st.integers(0, len(rows)))
    assert hash_rows([c.slice(cut) for c in columns], types).tolist() == whole[cut:].tolist()
    chunked = [pa.chunked_array([c.slice(0, cut), c.slice(cut)]) for c in columns]
    assert hash_rows(chunked, types).tolist() == whole.tolist()


@given(tables(columns_max=3, rows_max=3))
def test_many_columns_use_a_longer_header(table):
    types, rows = table
    wide_types = (types * 60)[:130]
    wide = [(row * 60)[:130] for row in rows]
    expected = [hash_bytes(encode_row(row, wide_types)) for row in wide]
    assert hash_rows(columns_of_rows(wide, wide_types), wide_types).tolist() == expected


def test_rows_of_several_blocks_with_few_very_long_strings():
    count = BLOCK_ROWS * 2 + 17
    texts = [None if i % 11 == 0 else "x" * (i % 40) for i in range(count)]
    texts[5], texts[BLOCK_ROWS + 1] = "é" * 300_000, "y" * 1_000_003
    numbers = list(range(count))
    types = [parse_type("STRING"), parse_type("BIGINT")]
    hashes = hash_rows([pa.array(texts), pa.array(numbers)], types)
    for i in [0, 1, 5, 11, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, count - 1]:
        assert hashes[i] == hash_bytes(encode_row((texts[i], numbers[i]), types))


@pytest.mark.parametrize("length", [63, 64, 65, 71, 72, 73, 200])
def test_few_long_strings_are_finished_one_by_one(length):
    types = [parse_type("STRING")]
    texts = ["z" * (length + i) for i in range(5)]
    expected = [hash_bytes(encode_row((t,), types)) for t in texts]
    assert hash_rows([pa.array(texts)], types).tolist() == expected


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "abcdefghij"], pa.large_string()),
        pa.array(["a", None, "abcdefghij"]).dictionary_encode(),
        pa.array(["a", None, "abcdefghij"], pa.string_view()),
    ],
)
def test_other_layouts_of_strings_hash_alike(array):
    types = [parse_type("STRING")]
    plain = pa.array(["a", None, "abcdefghij"])
    assert hash_rows([array], types).tolist() == hash_rows([plain], types).tolist()


def test_no_rows_have_no_hashes():
    for text in ("INT", "STRING", "DECIMAL(38, 0)", "TIMESTAMP(9)", "BOOLEAN"):
        data_type = parse_type(text)
        assert len(hash_rows([storage_to_arrow([], data_type)], [data_type])) == 0
        assert len(buckets_of([pa.chunked_array([], pa.string())], [parse_type("STRING")], 3)) == 0


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.none()), st.integers(1, 100))
def test_mod_is_the_floor_modulus_and_null_counts_as_zero(numbers, count):
    buckets = buckets_of(
        [pa.array(numbers, pa.int32())], [parse_type("INT")], count, function="mod"
    )
    assert buckets.tolist() == [(n or 0) % count for n in numbers]


def test_mod_needs_one_integer_column():
    with pytest.raises(InvalidInputError, match="one bucket-key column"):
        buckets_of([pa.array(["a"])], [parse_type("STRING")], 2, function="mod")


def test_other_functions_are_refused():
    with pytest.raises(UnsupportedError, match="spark"):
        buckets_of([pa.array([1])], [parse_type("BIGINT")], 2, function="spark")


def test_nested_columns_are_refused():
    nested = parse_type({"type": "ARRAY", "element": "INT"})
    with pytest.raises(UnsupportedError, match="nested"):
        hash_rows([pa.array([[1]], pa.list_(pa.int32()))], [nested])


def test_a_bucket_is_within_the_count_for_the_smallest_hash():
    hashes = hash_rows([pa.array(range(200_000), pa.int64())], [parse_type("BIGINT")])
    buckets = buckets_of([pa.array(range(200_000), pa.int64())], [parse_type("BIGINT")], 7)
    assert buckets.tolist() == [abs(h) % 7 for h in hashes.tolist()]


def test_java_put_its_rows_into_the_buckets_we_compute(oracle_dir):
    files_count = 0
    for table in sorted((oracle_dir / "fixtures" / "warehouse" / "db.db").iterdir()):
        schema = TableSchema.from_json((table / "schema" / "schema-0").read_bytes())
        count = int(schema.options.get("bucket", "-1"))
        if count < 2 or len(list((table / "schema").iterdir())) > 1:
            continue
        types = [schema.field(k).type for k in schema.bucket_keys]
        for path in table.glob("**/bucket-*/data-*.parquet"):
            rows = pq.read_table(path, columns=list(schema.bucket_keys), partitioning=None)
            buckets = buckets_of(rows.columns, types, count)
            assert set(buckets.tolist()) == {int(path.parent.name.split("-")[1])}
            files_count += 1
    assert files_count > 3


def test_speed_is_far_from_row_at_a_time():
    # a tenth of what is measured on an idle machine (100 M and 10 M rows per CPU-second)
    count = 300_000
    numbers = np.random.default_rng(1).integers(-(2**62), 2**62, count)
    texts = pa.array([f"customer-{n}" for n in (numbers % 10**9).tolist()])
    for column, type_text, rows_per_s_min in (
        (pa.array(numbers), "BIGINT", 10e6),
        (texts, "STRING", 1e6),
    ):
        begin = time.process_time()
        hash_rows([column], [parse_type(type_text)])
        assert count / (time.process_time() - begin) > rows_per_s_min
