"""Rates, lag and sums of a service, from two of its statuses."""

from __future__ import annotations

from unit.service.observe.statuses import AT_MS, executor, report, status, table

from tidelake.service.observe.figures import figures


def test_rates_are_what_was_counted_between_two_statuses():
    before = status([executor(0, report(1000, 500)), executor(1, report(100, 100))])
    after = status([executor(0, report(1600, 1000)), executor(1, report(300, 200))])
    shown = figures(after, before, now_ms=AT_MS, seconds=2)
    (only,) = shown.tables
    assert only.gets_per_second == 400
    assert only.hit_ratio == 600 / 800
    assert [one.gets_per_second for one in shown.executors] == [300, 100]
    assert (only.mapped_bytes, only.disk_bytes, only.files_count) == (2 << 20, 6 << 20, 4)
    assert (only.ready_count, only.executors_count, only.buckets_count) == (2, 2, 8)
    assert only.is_ready
    assert shown.up_ms == 61_000


def test_an_executor_that_began_anew_counts_from_zero():
    before = status([executor(0, report(1000, 1000))])
    after = status([executor(0, report(20, 10), instance="b")])
    (only,) = figures(after, before, now_ms=AT_MS, seconds=1).tables
    assert (only.gets_per_second, only.hit_ratio) == (20, 0.5)


def test_a_table_that_was_added_again_counts_from_zero():
    before = status([executor(0, report(1000, 1000))])
    (only,) = figures(status([executor(0, report(30, 3))]), before, now_ms=AT_MS, seconds=1).tables
    assert (only.gets_per_second, only.hit_ratio) == (30, 0.1)


def test_the_first_status_has_no_rates():
    (only,) = figures(status([executor(0, report(1000, 1000))]), now_ms=AT_MS).tables
    assert (only.gets_per_second, only.hit_ratio) == (0, None)


def test_lag_is_that_of_the_executor_that_is_behind_most():
    now = status(
        [executor(0, report(snapshot=7)), executor(1, report(snapshot=5, p99_us=9000))],
        [table(snapshot=8)],
    )
    (only,) = figures(now, now_ms=AT_MS).tables
    assert (only.snapshot, only.lag, only.lag_ms, only.p99_us) == (5, 3, 1500, 9000)


def test_an_executor_of_an_older_generation_has_no_lag_to_count():
    now = status([executor(0, report(snapshot=9))], [table(snapshot=2, generation=2)])
    assert figures(now, now_ms=AT_MS).tables[0].lag is None


def test_a_table_that_is_not_ready_says_why():
    loading = executor(0, report(ready=False, problem="the disk is full"), ready=False)
    shown = figures(status([loading]), now_ms=AT_MS)
    assert (shown.tables[0].ready_count, shown.ready_count) == (0, 0)
    assert shown.tables[0].problem == "the disk is full"
    assert not shown.tables[0].is_ready


def test_tables_come_by_name():
    now = status([], [table("b.t"), table("a.t")])
    assert [one.table for one in figures(now, now_ms=AT_MS).tables] == ["a.t", "b.t"]
