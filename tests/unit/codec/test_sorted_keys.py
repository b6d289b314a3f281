from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelake.codec import sorted_keys
from tidelake.codec.sorted_keys import SortedKeys
from tidelake.types import parse_type

TYPES = [parse_type("STRING NOT NULL"), parse_type("BYTES"), parse_type("INT NOT NULL")]
texts = st.text("ab\0é", max_size=6)
keys = st.tuples(texts, st.one_of(st.none(), st.binary(max_size=5)), st.integers(0, 2))


def columns_of(rows):
    types = (pa.string(), pa.binary(), pa.int32())
    return [pa.array([row[n] for row in rows], own) for n, own in enumerate(types)]


def rank(row):
    text, data, number = row
    return (text.encode(), data is not None, data or b"", number)


@given(
    st.lists(keys, max_size=12, unique=True), st.lists(keys, min_size=1, max_size=12, unique=True)
)
def test_keys_are_found_whatever_their_lengths(sought, rows):
    rows = sorted(rows, key=rank)
    ordinals, positions = SortedKeys(columns_of(sought), TYPES).found_in(columns_of(rows))
    found = {(sought[n], at) for n, at in zip(ordinals, positions, strict=True)}
    assert found == {(row, at) for at, row in enumerate(rows) if row in sought}
    assert len(ordinals) == len(found)


def test_a_long_key_of_a_batch_does_not_widen_those_that_are_sought(monkeypatch):
    sizes = []
    encode = sorted_keys.encode_keys

    def encoded(*arguments):
        keys = encode(*arguments)
        sizes.append(keys.nbytes)
        return keys

    monkeypatch.setattr(sorted_keys, "encode_keys", encoded)
    types = [parse_type("STRING NOT NULL")]
    sought = SortedKeys([pa.array([f"{n:05}" for n in range(1000)])], types)
    assert sought.key_bytes == 8
    for batch in (["00007", "0" * 20_000, "00900"], ["x" * 20_000]):
        sought.found_in([pa.array(sorted(batch))])
    assert max(sizes) == 8_000
