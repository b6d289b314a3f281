import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.codec.bucket import hash_bytes
from tidelake.service.protocol import ownership
from tidelake.service.protocol.ownership import ANY_BUCKET, executor_of
from tidelake.types import parse_type

NONE = serialize_row((), ())
DAY = serialize_row(("2026-01-02",), [parse_type("STRING")])


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_buckets_of_a_partition_go_round(count):
    first = executor_of(DAY, 0, count)
    assert first == abs(hash_bytes(DAY[4:])) % count
    owners = [executor_of(DAY, bucket, count) for bucket in range(2 * count)]
    assert owners == [(first + bucket) % count for bucket in range(2 * count)]


def test_any_bucket_is_where_the_first_one_is():
    assert executor_of(DAY, ANY_BUCKET, 5) == executor_of(DAY, 0, 5)
    assert executor_of(NONE, 3, 1) == 0


def test_long_partitions_are_not_kept():
    before = ownership._kept_hash.cache_info().currsize
    rows = [serialize_row((f"{n}" * 300,), [parse_type("STRING")]) for n in range(9)]
    assert [executor_of(row, 1, 5) for row in rows] == [
        (abs(hash_bytes(row[4:])) % 5 + 1) % 5 for row in rows
    ]
    assert ownership._kept_hash.cache_info().currsize == before, "strangers choose their number"
