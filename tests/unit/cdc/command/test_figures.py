"""What a running job shows: rates, lag, how far a copy is, and the same for Prometheus."""

from __future__ import annotations

import urllib.request
from types import SimpleNamespace

import pytest

from tidelake.cdc.command.figures import SHOWN_EVERY_SECONDS, JobFigures, SyncProgress
from tidelake.cdc.command.metrics import JobMetrics
from tidelake.cdc.evolution.ddl_entry import DdlEntry
from tidelake.cdc.job.job import EpochDone
from tidelake.cdc.journal.entry import EntryKind
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.cli.cdc_command import _without_port
from tidelake.cli.output.sync_view import sync_lines
from tidelake.errors import InvalidInputError, StorageError

NAME = SourceName("shop", "public", "orders")


class Hand:
    """A clock that is set by hand."""

    seconds = 100.0

    def monotonic_seconds(self):
        return self.seconds

    def now_ms(self):
        return int(self.seconds * 1_000)


@pytest.fixture
def clock():
    return Hand()


def job(rows, phase=Phase.LIVE, reason="", quarantined=0):
    table = SyncedTable("ods.orders", phase, SourceTable(NAME, ()), rows_count=rows, reason=reason)
    return SimpleNamespace(state=JobState({NAME: table}, quarantined_count=quarantined))


def done(epoch, committed_ms=None, **more):
    return EpochDone(epoch, EntryKind.CHANGES, 1, f"0/{epoch}", f"0/{epoch}", committed_ms, **more)


def test_rates_are_of_the_last_seconds(clock):
    progress = SyncProgress("ods", clock)
    for second in range(5):
        clock.seconds = 100.0 + second
        progress.epoch_done(done(second, clock.now_ms() - 300), job(1_000 * second))
    [orders] = progress.figures.tables
    assert (orders.rows, orders.rows_per_second) == (4_000, 1_000.0)
    assert progress.figures.lag_ms == 300
    clock.seconds = 108.0
    progress.looked()
    assert progress.figures.tables[0].rows_per_second == 500.0
    clock.seconds = 130.0
    progress.looked()
    assert progress.figures.tables[0].rows_per_second == 0.0


def test_a_copy_says_how_long_it_takes_yet(clock):
    progress = SyncProgress("ods", clock)
    progress.copied("ods.orders", 0, 1_000)
    assert progress.figures.copy.seconds_left is None
    clock.seconds += 10
    progress.copied("ods.orders", 250, 1_000)
    assert (progress.figures.copy.share, progress.figures.copy.seconds_left) == (0.25, 30.0)
    progress.copied("ods.orders", 1_200, 1_000)  # the estimate was too low
    assert progress.figures.copy.share is None
    assert sync_lines(progress.figures)[-1] == "copying ods.orders, 1,200 rows"
    progress.epoch_done(done(1), job(1_200))
    assert progress.figures.copy is None


def test_the_figures_are_not_shown_more_often_than_people_read(clock):
    shown = []
    progress = SyncProgress("ods", clock, shown.append)
    for _ in range(10):
        progress.copied("ods.orders", 1, 10)
        clock.seconds += SHOWN_EVERY_SECONDS / 4
    assert len(shown) == 3


def test_the_lines_have_tables_ddl_and_what_is_wrong(clock):
    progress = SyncProgress("ods", clock)
    ddl = DdlEntry(3, "ods.orders", "shop.public.orders", ("ADD COLUMN x INT",), "0/1")
    progress.epoch_done(done(3, ddl=(ddl,)), job(7, Phase.SUSPENDED, "its key changed", 2))
    progress.epoch_done(done(4), job(7, Phase.SUSPENDED, "its key changed", 2))
    assert sync_lines(progress.figures) == [
        "job ods: epoch 4 at 0/4, 0.0 s after the source, 2 rows in the quarantine",
        "",
        "table       from                phase      rows applied  rows/s",
        "ods.orders  shop.public.orders  suspended             7       -",
        "shop.public.orders: suspended (its key changed)",
        "last DDL, epoch 3: ods.orders: ADD COLUMN x INT",
    ]


def test_prometheus_reads_the_same(clock):
    progress = SyncProgress("ods", clock)
    progress.epoch_done(done(3, clock.now_ms() - 500), job(7, quarantined=2))
    progress.copied("ods.users", 5, 10)
    server = JobMetrics(lambda: progress.figures, port=0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        with pytest.raises(StorageError, match="choose another --metrics-port"):
            JobMetrics(lambda: progress.figures, port=server.port)
    finally:
        server.close()
    labels = '{job="ods",source="shop.public.orders",table="ods.orders"}'
    assert f"tidelake_cdc_rows_total{labels} 7.0" in lines
    assert f"tidelake_cdc_table_live{labels} 1.0" in lines
    assert 'tidelake_cdc_epoch{job="ods"} 3.0' in lines
    assert 'tidelake_cdc_lag_seconds{job="ods"} 0.5' in lines
    assert 'tidelake_cdc_quarantined_rows{job="ods"} 2.0' in lines
    assert 'tidelake_cdc_copy_rows_estimated{job="ods"} 10.0' in lines


def test_a_job_that_begins_has_no_lag():
    assert sync_lines(JobFigures("ods")) == ["job ods: begins"]


@pytest.mark.parametrize("words", [["--metrics-port", "9100"], ["--metrics-port=9100"]])
def test_the_port_is_taken_from_the_words(words):
    assert _without_port(["run", *words, "job.toml"]) == (["run", "job.toml"], 9100)


@pytest.mark.parametrize("words", [["--metrics-port"], ["--metrics-port", "x"],
                                   ["--metrics-port=70000"]])  # fmt: skip
def test_a_port_that_is_none_is_refused(words):
    with pytest.raises(InvalidInputError, match="needs a port"):
        _without_port(["run", "job.toml", *words])
