"""What work on threads leaves behind: nothing that runs, and the true error."""

from __future__ import annotations

import _thread
import gc
import pickle
import signal
import threading
import time
from contextlib import closing, contextmanager

import pytest
from waiting import SECONDS_MAX, until

from tidelake.telemetry import CoreExecutor, SerialExecutor, ThreadExecutor, check_wanted


@contextmanager
def interrupted_twice(is_begun, released):
    """Interrupt the main thread twice when something has begun; then let it go on."""
    main, noticed = threading.main_thread(), threading.Semaphore(0)

    def interrupt() -> None:
        assert is_begun()
        for _ in range(2):
            signal.pthread_kill(main.ident, signal.SIGINT)  # which ends a wait, too
            assert noticed.acquire(timeout=SECONDS_MAX)
            time.sleep(0.2)
        released.set()

    def notice(*_: object) -> None:
        noticed.release()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, notice)
    interrupts = threading.Thread(target=interrupt)
    try:
        interrupts.start()
        yield
    finally:
        interrupts.join(SECONDS_MAX)  # none comes later
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(3)])
def test_results_come_in_the_order_of_the_items(executor):
    assert list(executor.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]
    assert executor.uninterrupted(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        list(executor.map(lambda n: 1 // n, [1, 0, 1]))
    with pytest.raises(ZeroDivisionError):
        executor.uninterrupted(lambda: 1 // 0)


def test_an_error_leaves_when_what_runs_has_ended_and_the_rest_never_begins():
    begun, ended = [], []
    reached = threading.Event()

    def work(n: int) -> None:
        begun.append(n)
        if n == 0:
            assert reached.wait(SECONDS_MAX)
            raise ZeroDivisionError
        reached.set()
        time.sleep(0.3)
        ended.append(n)

    with pytest.raises(ZeroDivisionError):
        list(ThreadExecutor(2).map(work, range(20)))
    assert sorted(begun) == [0, *sorted(ended)]
    assert len(begun) < 20
    count = len(begun)
    time.sleep(0.4)
    assert len(begun) == count


def test_a_second_interrupt_waits_too_and_no_work_runs_when_it_leaves():
    begun, released, ended = threading.Semaphore(0), threading.Event(), []

    def work(n: int) -> None:
        begun.release()
        assert released.wait(SECONDS_MAX)
        ended.append(n)

    def both_work() -> bool:
        return all(begun.acquire(timeout=SECONDS_MAX) for _ in range(2))

    with interrupted_twice(both_work, released), pytest.raises(KeyboardInterrupt):
        list(ThreadExecutor(2).map(work, range(9)))
    assert sorted(ended) == [0, 1]


def test_a_long_piece_of_work_learns_that_nobody_wants_it():
    rounds = []
    reached = threading.Event()

    def work(n: int) -> None:
        if n == 0:
            assert reached.wait(SECONDS_MAX)
            raise ZeroDivisionError
        for _ in range(SECONDS_MAX * 100):
            check_wanted()
            rounds.append(n)
            reached.set()
            time.sleep(0.01)

    with pytest.raises(ZeroDivisionError):
        list(ThreadExecutor(2).map(work, range(2)))
    count = len(rounds)
    assert count < SECONDS_MAX * 50
    time.sleep(0.1)
    assert len(rounds) == count
    check_wanted()  # nothing where no executor runs


def test_a_closed_iterator_has_no_work_under_way():
    running = []

    def work(n: int) -> int:
        running.append(n)
        time.sleep(0.05)
        running.remove(n)
        return n

    with closing(ThreadExecutor(3).map(work, range(50))) as results:
        assert next(results) == 0
    assert running == []


def test_work_that_hands_out_work_does_not_wait_for_itself():
    executor = ThreadExecutor(2)
    sums = executor.map(lambda n: sum(executor.map(lambda m: n * m, range(4))), range(8))
    assert list(sums) == [6 * n for n in range(8)]


def test_interrupts_at_any_moment_leave_threads_that_work():
    """One inside a lock of the pool left it held: no piece ended any more."""
    executor = ThreadExecutor(2)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupted = 0
    try:
        for n in range(2_000):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + n % 50 * 1e-5)
                    assert list(executor.map(str, range(20))) == [str(n) for n in range(20)]
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 100
    assert list(executor.map(str, range(3))) == ["0", "1", "2"]


def test_idle_threads_end_and_come_back(monkeypatch):
    """A catalog that was opened and forgotten leaves no thread behind."""
    monkeypatch.setattr("tidelake.telemetry.executor.IDLE_SECONDS", 0.01)
    before = _thread._count()
    for _ in range(3):
        executor = ThreadExecutor(4)
        assert list(executor.map(str, range(8))) == [str(n) for n in range(8)]
        until = time.monotonic() + SECONDS_MAX
        while _thread._count() > before and time.monotonic() < until:
            time.sleep(0.01)
        assert _thread._count() <= before
    assert list(executor.map(str, range(2))) == ["0", "1"]


class SlowToLeave:
    """A lock that is free some time before its caller goes on."""

    def __init__(self):
        self._lock = threading.Lock()

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()
        time.sleep(0.003)


def test_no_piece_is_lost_beside_threads_that_end(monkeypatch):
    monkeypatch.setattr("tidelake.telemetry.executor.IDLE_SECONDS", 1e-4)
    executor = ThreadExecutor(2)
    executor._threads.value._starts = SlowToLeave()
    found = []

    def call_again_and_again():
        for turn in range(60):
            found.extend(executor.map(lambda n: n, range(turn % 3)))

    callers = [threading.Thread(target=call_again_and_again, daemon=True) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(SECONDS_MAX)
        assert not caller.is_alive()
    assert sorted(found) == [0] * 80 + [1] * 40


def test_a_system_without_threads_gives_an_error_and_no_endless_wait(monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    executor = ThreadExecutor(2)
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refused)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="start new thread"):
                list(executor.map(str, range(3)))
        assert executor.uninterrupted(lambda: 7) == 7
    assert list(executor.map(str, range(3))) == ["0", "1", "2"]


def test_a_system_without_threads_makes_items_where_they_are_wanted(monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    makers: list[int] = []

    def items():
        for n in range(4):
            makers.append(threading.get_ident())
            yield n

    executor = ThreadExecutor(2)
    with executor.ahead(items()) as taken:
        with monkeypatch.context() as patch:
            patch.setattr(_thread, "start_new_thread", refused)
            assert [next(taken), next(taken)] == [0, 1]
            assert set(makers) == {threading.get_ident()}
        assert list(taken) == [2, 3]
    assert len(makers) == 4
    assert len(set(makers)) == 2


def test_a_clean_up_is_not_cut_short_by_an_interrupt():
    begun, released, done = threading.Event(), threading.Event(), []

    def clean_up() -> None:
        begun.set()
        assert released.wait(SECONDS_MAX)
        done.extend(range(20))

    with (
        interrupted_twice(lambda: begun.wait(SECONDS_MAX), released),
        pytest.raises(KeyboardInterrupt),
    ):
        ThreadExecutor(2).uninterrupted(clean_up)
    assert len(done) == 20


def test_a_pickled_executor_has_as_many_threads():
    again = pickle.loads(pickle.dumps(ThreadExecutor(3)))
    assert list(again.map(str, range(3))) == ["0", "1", "2"]


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(3)])
def test_work_ahead_gives_results_in_order_and_the_true_error(executor):
    found = executor.map_ahead(lambda n: n * n, range(50), weight=lambda _: 1, weight_max=5)
    assert list(found) == [n * n for n in range(50)]
    assert list(executor.map_ahead(abs, [], weight=abs, weight_max=1)) == []
    failing = executor.map_ahead(lambda n: 1 // n, [1, 0], weight=lambda _: 1, weight_max=9)
    assert next(failing) == 1
    with pytest.raises(ZeroDivisionError):
        next(failing)


def test_work_ahead_begins_only_what_the_weights_allow():
    begun: list[int] = []
    with closing(
        ThreadExecutor(8).map_ahead(begun.append, [4, 4, 4, 90, 1], weight=abs, weight_max=10)
    ) as found:
        assert begun == []
        next(found)
        until(lambda: len(begun) == 2)
        time.sleep(0.05)
        assert sorted(begun) == [4, 4]  # a third one would weigh 12
        next(found)
        until(lambda: len(begun) == 3)
        next(found)
        time.sleep(0.05)
        assert sorted(begun) == [4, 4, 4]  # what weighs more than all runs alone
        next(found)
        assert sorted(begun) == [4, 4, 4, 90]
        next(found)
        assert next(found, "end") == "end"
    assert sorted(begun) == [1, 4, 4, 4, 90]


def test_work_that_was_begun_ahead_ends_with_the_iterator():
    ended: list[int] = []

    def work(n: int) -> int:
        time.sleep(0.05 * n)
        ended.append(n)
        return n

    with closing(
        ThreadExecutor(2).map_ahead(work, range(9), weight=lambda _: 1, weight_max=9)
    ) as found:
        assert next(found) == 0
    count = len(ended)
    time.sleep(0.2)
    assert len(ended) == count < 9


def test_work_may_wait_for_threads_of_a_higher_level_only():
    low, high = ThreadExecutor(1), ThreadExecutor(1, level=1)
    names = {"main": threading.current_thread().name}

    def here(name: str) -> str:
        names[name] = threading.current_thread().name
        return name

    def inside(executor: ThreadExecutor, name: str) -> list[str]:
        here(f"outside {name}")
        return list(executor.map_ahead(here, [name], weight=len, weight_max=99))

    assert list(low.map(lambda n: inside(high, n), ["up"])) == [["up"]]
    assert names["up"] != names["outside up"]
    assert list(high.map(lambda n: inside(low, n), ["down"])) == [["down"]]
    assert names["down"] == names["outside down"]
    assert list(high.map(lambda n: inside(high, n), ["level"])) == [["level"]]
    assert names["level"] == names["outside level"]
    copied = pickle.loads(pickle.dumps(high))
    assert list(copied.map(lambda n: inside(copied, n), ["copy"])) == [["copy"]]
    assert names["copy"] == names["outside copy"]


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadExecutor(2)])
def test_the_next_item_is_made_early_and_errors_come_in_their_turn(executor):
    with executor.ahead(iter(range(50))) as items:
        assert list(items) == list(range(50))
        assert next(items, "end") == "end"

    def failing():
        yield 1
        yield 1 // 0

    with executor.ahead(failing()) as items:
        assert next(items) == 1
        with pytest.raises(ZeroDivisionError):
            next(items)


def test_one_item_is_made_early_and_no_more():
    made: list[int] = []

    def items():
        for n in range(9):
            made.append(n)
            yield n

    with ThreadExecutor(2).ahead(items()) as taken:
        time.sleep(0.05)
        assert made == []
        assert next(taken) == 0
        until(lambda: made == [0, 1])
        time.sleep(0.05)
        assert made == [0, 1]
        assert next(taken) == 1
        until(lambda: made == [0, 1, 2])


def test_items_that_were_closed_are_at_their_end():
    """One was begun; whoever asked for it waited for ever."""
    items = ThreadExecutor(1).ahead(iter(range(9)))
    assert next(items) == 0
    items.close()
    rest = []
    late = threading.Thread(target=lambda: rest.extend(items), daemon=True)
    late.start()
    late.join(SECONDS_MAX)
    assert not late.is_alive()
    assert rest == []


def test_an_iterator_left_early_is_closed_when_nobody_works_on_it():
    events: list[str] = []

    def items():
        try:
            for n in range(9):
                time.sleep(0.05)
                events.append(f"made {n}")
                yield n
        finally:
            events.append("closed")

    with ThreadExecutor(2).ahead(items()) as taken:
        assert next(taken) == 0
        until(lambda: threading.active_count() > 1)
    assert events[-1] == "closed"
    count = len(events)
    time.sleep(0.1)
    assert len(events) == count <= 3


class Cycle:
    """What only the garbage collector finds."""

    def __init__(self, iterator) -> None:
        self.itself, self.iterator = self, iterator


def _left_in(executor, go, collected, events):
    """Items in a cycle; the piece that makes the second one collects them."""

    def items():
        try:
            yield 0
            go.wait(SECONDS_MAX)
            gc.collect()
            collected.set()
            yield 1
        finally:
            events.append("closed")

    def taken():
        with executor.ahead(items()) as ahead:
            yield from ahead

    return Cycle(taken())


def test_a_read_that_is_collected_by_its_own_thread_ends_and_others_go_on():
    executor, events = CoreExecutor(1, level=1), []
    go, collected = threading.Event(), threading.Event()
    cycle = _left_in(executor, go, collected, events)
    assert next(cycle.iterator) == 0
    gc.disable()
    try:
        del cycle
        go.set()
        assert collected.wait(SECONDS_MAX)
    finally:
        gc.enable()
    with executor.ahead(iter(range(5))) as items:
        assert list(items) == list(range(5))
    assert events == ["closed"]


def test_a_read_that_is_collected_by_work_it_waits_for_ends_too():
    executor, inner = ThreadExecutor(1), ThreadExecutor(1, level=1)
    go, collected, closed = threading.Event(), threading.Event(), threading.Event()

    def collect(_: int) -> int:
        go.wait(SECONDS_MAX)
        gc.collect()
        collected.set()
        return 1

    def items():
        try:
            yield 0
            yield from inner.map(collect, [0])
        finally:
            closed.set()

    def taken():
        with executor.ahead(items()) as ahead:
            yield from ahead

    cycle = Cycle(taken())
    assert next(cycle.iterator) == 0
    gc.disable()
    try:
        del cycle
        go.set()
        assert collected.wait(SECONDS_MAX)
    finally:
        gc.enable()
    assert closed.wait(SECONDS_MAX)
    assert list(inner.map(str, range(3))) == ["0", "1", "2"]
    assert list(executor.map(str, range(3))) == ["0", "1", "2"]


def test_a_map_that_is_collected_by_its_own_thread_ends():
    executor, collected = ThreadExecutor(1), threading.Event()
    go = threading.Event()

    def work(n: int) -> int:
        if n:
            go.wait(SECONDS_MAX)
            gc.collect()
            collected.set()
        return n

    cycle = Cycle(executor.map(work, range(2)))
    assert next(cycle.iterator) == 0
    gc.disable()
    try:
        del cycle
        go.set()
        assert collected.wait(SECONDS_MAX)
    finally:
        gc.enable()
    assert list(executor.map(str, range(3))) == ["0", "1", "2"]


def test_items_wanted_by_a_thread_of_the_same_level_are_made_there():
    executor = ThreadExecutor(1)

    def total(n: int) -> int:
        with executor.ahead(iter(range(n))) as items:
            return sum(items)

    assert list(executor.map(total, [3, 4])) == [3, 6]


def test_items_that_many_callers_take_do_not_wait_for_each_other():
    executor = ThreadExecutor(1)
    with executor.ahead(iter(range(100))) as one, executor.ahead(iter(range(100))) as other:
        assert [(a, b) for a, b in zip(one, other, strict=True)] == [(n, n) for n in range(100)]


def test_threads_of_the_cores_stay_in_their_process():
    assert isinstance(pickle.loads(pickle.dumps(CoreExecutor(2))), SerialExecutor)
