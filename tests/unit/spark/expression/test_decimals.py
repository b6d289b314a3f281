"""Decimals that travel as numbers."""

from decimal import Decimal

import pyarrow as pa
import pytest

from tidelake.spark.expression.decimals import with_decimals

VALUES = [None, 0, 1, -1, 10**18 - 1, 1 - 10**18, 12345, None, -12345]


@pytest.mark.parametrize("kind", [pa.decimal128(18, 0), pa.decimal128(18, 4)])
@pytest.mark.parametrize("cut", [slice(None), slice(3, None), slice(2, 8), slice(4, 4)])
def test_every_number_is_the_decimal_of_its_digits(kind, cut):
    batch = pa.record_batch({"n": list(range(len(VALUES))), "d": pa.array(VALUES, pa.int64())})
    first, last = cut.start or 0, len(VALUES) if cut.stop is None else cut.stop
    found = with_decimals(batch.slice(first, last - first), {1: kind})
    found.validate(full=True)
    assert found.schema.names == ["n", "d"]
    assert found.column(0).to_pylist() == list(range(first, last))
    expected = [None if v is None else Decimal(v).scaleb(-kind.scale) for v in VALUES[cut]]
    assert found.column(1).equals(pa.array(expected, kind))
