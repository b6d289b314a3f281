"""Numbers of tasks, on a Spark that shuffles by hashes alone."""

from __future__ import annotations

import pytest

from tidelake.engine.codec import hash_bytes
from tidelake.spark.expression import by_number


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_each_number_has_one_whose_hash_leads_to_its_task(count):
    values = by_number._preimages(count)
    tasks = [hash_bytes(value.to_bytes(4, "little")) % count for value in values]
    assert tasks == list(range(count))


def test_the_hash_is_spark_s():
    """The answers of ``SELECT hash(0), hash(1), hash(42)``."""
    given = [hash_bytes(value.to_bytes(4, "little")) for value in (0, 1, 42)]
    assert given == [933211791, -559580957, 29417773]
