"""Numbers come back as they were written, and broken ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.codec import varint


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_numbers_come_back(number, before):
    data = before + varint.encode(number) + b"\x7f"
    assert varint.decode(data, len(before)) == (number, len(data) - 1)
    assert len(data) - len(before) - 1 <= varint.BYTES_MAX


@given(st.integers(-(2**63), 2**63 - 1))
def test_signs_come_back(number):
    assert varint.unzigzag(varint.zigzag(number)) == number
    assert 0 <= varint.zigzag(number) < 2**64


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_a_number_that_ends_early_is_refused(data):
    with pytest.raises(ValueError, match="cut short"):
        varint.decode(data)


@pytest.mark.parametrize("data", [b"\xff" * 10, b"\x80" * 10 + b"\x01"])
def test_a_number_of_too_many_bytes_is_refused(data):
    with pytest.raises(ValueError, match="too long"):
        varint.decode(data)
