"""Of several maintenance jobs one at a time has a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelake.errors import NotFoundError
from tidelake.table.upkeep.claim import CLAIM_TIMEOUT_MS, TableClaim, newest_claim
from tidelake.telemetry import Env, ManualClock, ManualKeeper


@pytest.fixture
def clock():
    return ManualClock(1_000_000_000)


@pytest.fixture
def handle(appended, clock):
    keeper = ManualKeeper(is_running=True)
    return replace(appended.handle, env=replace(Env.seeded(1), clock=clock, keeper=keeper))


def files(handle):
    return sorted(status.name for status in handle.fileio.list_dir(handle.paths.upkeep_dir))


def test_the_second_job_is_refused_until_the_first_ends(handle):
    with TableClaim.take(handle, "a"):
        assert TableClaim.take(handle, "b") is None
    with TableClaim.take(handle, "b"):
        assert TableClaim.take(handle, "a") is None
    assert files(handle) == ["claim-2"]


@pytest.mark.parametrize("silence_ms", [CLAIM_TIMEOUT_MS, -CLAIM_TIMEOUT_MS])
def test_a_silent_job_loses_the_table_also_if_a_clock_was_set_back(handle, clock, silence_ms):
    first = TableClaim.take(handle, "a")
    clock.sleep_ms(silence_ms)
    second = TableClaim.take(handle, "b")
    first.end()  # writes nothing: the table is another's now
    assert newest_claim(handle).run_id == "b"
    assert TableClaim.take(handle, "c") is None
    second.end()


def test_the_keeper_renews_it(handle, clock):
    with TableClaim.take(handle, "a"):
        for _ in range(5):
            clock.sleep_ms(CLAIM_TIMEOUT_MS // 2)
            handle.env.keeper.tend()
            assert TableClaim.take(handle, "b") is None


def test_a_job_whose_process_has_ended_loses_the_table(handle, monkeypatch):
    TableClaim.take(handle, "a")
    monkeypatch.setattr("tidelake.table.upkeep.claim.has_ended", lambda process: bool(process))
    assert TableClaim.take(handle, "b") is not None


def test_a_torn_file_counts_as_ended(handle):
    TableClaim.take(handle, "a")
    path = f"{handle.paths.upkeep_dir}/claim-1"
    handle.fileio.replace(path, handle.fileio.read_bytes(path)[:40])
    with TableClaim.take(handle, "b"):
        assert files(handle) == ["claim-2"]


def test_the_time_of_the_last_search_stays(handle, clock):
    with TableClaim.take(handle, "a") as claim:
        assert claim.orphans_ms == 0
        claim.note_orphans()
    clock.sleep_ms(5)
    with TableClaim.take(handle, "b") as claim:
        assert claim.orphans_ms == 1_000_000_000
    assert newest_claim(handle).orphans_ms == 1_000_000_000


def test_a_dropped_table_is_not_claimed_nor_made_anew(catalog, appended):
    handle = appended.handle
    claim = TableClaim.take(handle, "a")
    catalog.drop_table("db.appended")
    claim.end()
    with pytest.raises(NotFoundError):
        TableClaim.take(handle, "b")
    assert not handle.fileio.exists(handle.paths.location)


class InterruptedFileIO:
    """Raises :class:`KeyboardInterrupt` once, before or after a call of a number."""

    def __init__(self, inner, at, *, before):
        self._inner = inner
        self._left = at
        self._before = before

    def __getattr__(self, name):
        call = getattr(self._inner, name)

        def counted(*arguments, **options):
            self._left -= 1
            if self._left == 0 and self._before:
                raise KeyboardInterrupt
            answer = call(*arguments, **options)
            if self._left == 0:
                raise KeyboardInterrupt
            return answer

        return counted


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_at_any_call_leaves_the_table_free(handle, before):
    for at in range(1, 100):
        watched = replace(handle, fileio=InterruptedFileIO(handle.fileio, at, before=before))
        try:
            with TableClaim.take(watched, f"a{at}"):
                pass
        except KeyboardInterrupt:
            handle.env.keeper.tend()  # as it does within a second, or when the process ends
            assert newest_claim(handle).is_closed
            with TableClaim.take(handle, f"b{at}"):
                handle.env.keeper.tend()
                assert handle.env.keeper.kept_count == 1
        else:
            break
    assert 8 < at < 99
