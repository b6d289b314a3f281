from __future__ import annotations

import os
import threading

import pytest

from tidelake.telemetry import RecentlyUsed


def test_the_entry_unused_for_longest_goes_first():
    kept = RecentlyUsed(entries_max=3)
    for key in "abc":
        kept.keep(key, key)
    assert kept.get("a") == "a"
    assert kept.keep("d", "d") == [("b", "b")]
    assert kept.get("b") is None
    assert [key for key, _, _ in kept.sizes()] == ["c", "a", "d"]


def test_sizes_stay_within_the_bound():
    kept = RecentlyUsed(bytes_max=10)
    kept.keep("a", 1, 4)
    kept.keep("b", 2, 6)
    assert kept.keep("c", 3, 5) == [("a", 1), ("b", 2)]
    assert (kept.nbytes, len(kept)) == (5, 1)
    assert kept.keep("c", 4, 2) == []
    assert (kept.nbytes, kept.get("c")) == (2, 4)


def test_a_value_larger_than_the_bound_is_not_kept_and_its_older_one_goes():
    kept = RecentlyUsed(bytes_max=10)
    kept.keep("a", 1, 4)
    kept.keep("b", 2, 4)
    assert kept.keep("a", 3, 11) == []
    assert "a" not in kept
    assert (kept.nbytes, "b" in kept) == (4, True)


def test_a_call_gives_its_own_bound():
    kept = RecentlyUsed()
    for number in range(100):
        kept.keep(number, number, 1)
    assert len(kept) == 100
    kept.keep("x", "x", 3, bytes_max=5)
    assert [key for key, _, _ in kept.sizes()] == [98, 99, "x"]
    assert kept.shrink(0) == [(98, 98), (99, 99), ("x", "x")]
    assert kept.nbytes == 0


def test_what_is_taken_out_frees_its_size():
    kept = RecentlyUsed(bytes_max=10)
    kept.keep("a", 1, 4)
    assert kept.pop("a") == 1
    assert kept.pop("a") is None
    assert (kept.nbytes, len(kept)) == (0, 0)


def test_several_calls_are_one_step_under_the_lock():
    kept = RecentlyUsed(entries_max=1)
    seen = []
    with kept.lock:
        kept.keep("a", 1)
        other = threading.Thread(target=lambda: seen.append(kept.get("a")))
        other.start()
        kept.pop("a")
    other.join(60)
    assert seen == [None]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the runner has threads
def test_a_forked_child_has_what_was_there_and_a_lock_of_its_own():
    kept = RecentlyUsed(entries_max=2)
    kept.keep("a", 1)
    with kept.lock:
        child = os.fork()
        if child == 0:
            found = []
            reader = threading.Thread(target=lambda: found.append(kept.get("a")), daemon=True)
            reader.start()
            reader.join(60)
            os._exit(0 if found == [1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
