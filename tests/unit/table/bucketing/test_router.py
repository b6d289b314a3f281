"""Every row goes to its bucket, none is lost, and rows of a bucket keep their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.codec.binary_row import serialize_row
from tidelake.codec.bucket import buckets_of
from tidelake.table.bucketing.router import Router, _dense
from tidelake.types import DataField, parse_type

STRING, INT, BIGINT = (parse_type(t) for t in ("STRING", "INT", "BIGINT NOT NULL"))
P, Q, K = DataField(0, "p", STRING), DataField(1, "q", INT), DataField(2, "k", BIGINT)

rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "  ", None]),
        st.one_of(st.none(), st.integers(-2, 2)),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=60,
)


@given(rows, st.integers(1, 5), st.sampled_from([(), (P,), (P, Q)]))
def test_rows_reach_their_bucket_in_order(data, buckets, partition):
    count = len(data)
    batch = pa.record_batch(
        {
            "p": pa.array([r[0] for r in data]).cast(pa.string()),
            "q": pa.array([r[1] for r in data], pa.int32()),
            "k": pa.array([r[2] for r in data], pa.int64()),
            "place": pa.array(range(count)),
        }
    )
    kinds = np.arange(count, dtype=np.int8) % 4
    router = Router(partition, [K], buckets_count=buckets)
    expected = buckets_of([batch.column("k")], [BIGINT], buckets)
    seen = []
    pieces = list(router.route(batch, kinds))
    assert len({(p.partition, p.bucket) for p in pieces}) == len(pieces)
    for piece in pieces:
        places = piece.rows.column("place").to_pylist()
        assert places == sorted(places)
        seen += places
        assert piece.kinds.tolist() == [place % 4 for place in places]
        for place in places:
            values = [data[place][i] for i in range(len(partition))]
            assert piece.partition == serialize_row(values, [f.type for f in partition])
            assert piece.bucket == expected[place]
    assert sorted(seen) == list(range(count))


def test_a_batch_of_one_bucket_is_not_copied():
    batch = pa.record_batch({"p": ["a"] * 5, "k": pa.array(range(5), pa.int64())})
    (piece,) = Router([P], [], buckets_count=-1).route(batch, None)
    assert piece.rows is batch
    assert piece.bucket == 0
    assert piece.kinds is None


def test_no_rows_go_nowhere():
    batch = pa.record_batch({"k": pa.array([], pa.int64())})
    assert list(Router([], [K], buckets_count=3).route(batch, None)) == []


@pytest.mark.parametrize("size", [10, 1 << 40])
@given(codes=st.lists(st.integers(0, 9), min_size=1, max_size=50))
def test_dense_codes_are_equal_iff_the_codes_are(codes, size):
    dense, first = _dense(np.array(codes, dtype=np.int64), size=size)
    assert [codes[i] for i in first[dense]] == codes
    assert len(set(dense.tolist())) == len(first) == len(set(codes))
    assert all(codes.index(codes[i]) == i for i in first)
