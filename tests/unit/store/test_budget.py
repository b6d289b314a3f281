from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelake.store import MemoryBudget

HELD = st.dictionaries(st.text(max_size=3), st.integers(0, 1000))


@given(HELD, st.integers(0, 3000), st.integers(3, 9))
def test_victims_are_the_largest_and_bring_the_sum_to_half(held, limit, reliefs):
    given_up = dict(MemoryBudget(limit).victims(held, reliefs=reliefs))
    left = {key: size for key, size in held.items() if key not in given_up}
    if sum(held.values()) <= limit:
        assert given_up == {}
    else:
        assert all(size == held[key] for key, size in given_up.items())
        assert sum(left.values()) <= limit // 2
        assert min((held[v] for v in given_up), default=0) >= max(left.values(), default=0)
        without_last = sum(left.values()) + held[list(given_up)[-1]]
        assert without_last > limit // 2


@given(HELD, st.integers(0, 3000), st.integers(0, 2))
def test_the_first_reliefs_are_exact_parts_of_the_budget(held, limit, reliefs):
    given_up = MemoryBudget(limit).victims(held, reliefs=reliefs)
    left = sum(held.values()) - sum(size for _, size in given_up)
    if sum(held.values()) <= limit:
        assert given_up == ()
    else:
        assert left == limit - limit // (8, 4, 2)[reliefs]
        assert all(size == held[key] for key, size in given_up[:-1])


def test_equal_writers_are_taken_in_order_of_their_keys():
    equal = {"b": 4, "a": 4, "c": 4}
    assert MemoryBudget(10).victims(equal, reliefs=3) == (("a", 4), ("b", 4))
