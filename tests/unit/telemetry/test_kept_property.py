"""A kept property is computed once, and under no lock."""

import threading

from tidelake.telemetry import kept_property


class Rows:
    def __init__(self, number=3):
        self.number = number
        self.computed = 0

    @kept_property
    def doubled(self):
        """Twice as many."""
        self.computed += 1
        return 2 * self.number


class Waiting:
    """Computes when it may."""

    def __init__(self):
        self.begun, self.may = threading.Event(), threading.Event()

    @kept_property
    def value(self):
        self.begun.set()
        assert self.may.wait(60)
        return self


def test_it_is_computed_once_for_each_object():
    one, other = Rows(), Rows(5)
    assert (one.doubled, one.doubled, other.doubled) == (6, 6, 10)
    assert (one.computed, other.computed) == (1, 1)
    assert Rows.doubled.__doc__ == "Twice as many."


def test_an_object_does_not_wait_for_another():
    slow, quick = Waiting(), Waiting()
    quick.may.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(60)
    assert quick.value is quick  # a thread in the property of another object holds nothing
    slow.may.set()
    thread.join()
    assert slow.value is slow


def test_two_threads_get_one_value():
    class Made:
        begun = threading.Barrier(2)

        @kept_property
        def value(self):
            self.begun.wait(60)
            return object()

    one = Made()
    found = []
    threads = [threading.Thread(target=lambda: found.append(one.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is one.value
