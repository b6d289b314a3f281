from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.types import DataField, parse_type
from tidelake.types.predicate import And, In, among_keys
from tidelake.types.predicate.key_values import VALUES_MAX

FIELDS = [DataField(0, "k", parse_type("INT")), DataField(1, "d", parse_type("DATE"))]


def keys(count, days=1):
    numbers = list(range(count))
    dates = pa.array([n % days for n in numbers], pa.int32()).cast(pa.date32())
    return pa.table({"k": pa.array(numbers, pa.int32()), "d": dates})


def test_each_column_has_one_of_the_values_of_the_keys():
    found = among_keys(keys(3, days=2), FIELDS)
    assert found == And((In("k", (0, 1, 2)), In("d", (0, 1))))


@pytest.mark.parametrize("count", [VALUES_MAX, VALUES_MAX + 1])
def test_a_column_with_too_many_values_gives_no_condition(count):
    found = among_keys(keys(count), FIELDS[:1])
    assert (found is None) == (count > VALUES_MAX)
    assert among_keys(keys(count), FIELDS[1:]) == In("d", (0,))
