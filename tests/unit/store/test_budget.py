from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelake.store import MemoryBudget


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000)), st.integers(0, 3000))
def test_victims_are_the_largest_and_bring_the_sum_to_half(held, limit):
    victims = MemoryBudget(limit).victims(held)
    left = {key: size for key, size in held.items() if key not in victims}
    if sum(held.values()) <= limit:
        assert victims == ()
    else:
        assert sum(left.values()) <= max(limit // 2, 0)
        assert min((held[v] for v in victims), default=0) >= max(left.values(), default=0)
        without_last = sum(left.values()) + held[victims[-1]]
        assert without_last > limit // 2


def test_equal_writers_are_taken_in_order_of_their_keys():
    assert MemoryBudget(10).victims({"b": 4, "a": 4, "c": 4}) == ("a", "b")
