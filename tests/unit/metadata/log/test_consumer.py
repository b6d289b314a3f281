"""Consumers and their leases as files: Paimon's, read as Paimon reads them."""

from __future__ import annotations

import json

import pytest

from tidelake import CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog, ConsumerState, Lease
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import ManualClock, process_name

LEASE = Lease("c", 1, "run", 5, renewed_ms=1_000, timeout_ms=100)


@pytest.fixture
def clock():
    return ManualClock(7_000)


@pytest.fixture
def fileio(clock):
    made = MemoryFileIO(clock=clock)
    made.make_dirs("/t")
    return made


@pytest.fixture
def log(fileio):
    return ConsumerLog(fileio, TablePaths("/t"))


def test_a_consumer_s_file_is_paimon_s(fileio, log):
    log.record("job", 7)
    document = json.loads(fileio.read_bytes("/t/consumer/consumer-job"))
    assert document["nextSnapshot"] == 7
    fileio.replace("/t/consumer/consumer-java", b'{\n  "nextSnapshot" : 4\n}')
    assert log.next_ids() == {"java": 4, "job": 7}
    assert (log.next_id("java"), log.next_id("none")) == (4, None)


def test_a_lease_is_no_consumer_to_paimon(fileio, log):
    with log.open_dir() as place:
        assert log.take(LEASE, within=place)
    assert [s.name for s in fileio.list_dir("/t/consumer")] == ["lease-1-c"]
    assert log.next_ids() == {}


def test_a_term_is_taken_once_and_removes_those_before(fileio, log):
    later = Lease("c", 2, "other", 6, renewed_ms=1_000, timeout_ms=100)
    with log.open_dir() as place:
        assert log.take(LEASE, within=place)
        assert not log.take(Lease("c", 1, "late", 6, renewed_ms=1, timeout_ms=1), within=place)
        assert log.lease("c") == LEASE
        assert log.take(later, within=place)
    assert log.lease("c") == later
    assert [s.name for s in fileio.list_dir("/t/consumer")] == ["lease-2-c"]


def test_ids_with_dashes_and_digits_are_distinguished(log):
    with log.open_dir() as place:
        for consumer_id in ("a", "1-a", "a-1"):
            log.take(Lease(consumer_id, 3, "r", 5, renewed_ms=1, timeout_ms=1), within=place)
    assert sorted(log.states()) == ["1-a", "a", "a-1"]
    assert log.lease("a").consumer_id == "a"
    log.delete("a")
    assert sorted(log.states()) == ["1-a", "a-1"]


@pytest.mark.parametrize(
    ("lease", "is_live"),
    [
        (LEASE, True),
        (Lease("c", 1, "run", 5, renewed_ms=1_000, timeout_ms=99), False),
        (Lease("c", 1, "run", 5, renewed_ms=1_000, timeout_ms=100, is_closed=True), False),
        (Lease("c", 1, "run", 5, 1_000, 100, process=process_name()), True),
        (Lease("c", 1, "run", 5, 1_000, 100, process=process_name() + "0"), False),
        (Lease("c", 1, "run", 5, 1_000, 100, process="another-boot/pid:[1]/1/1"), True),
    ],
)
def test_a_lease_lives_until_silence_close_or_the_end_of_its_process(lease, is_live):
    assert lease.is_live(1_099) is is_live


def test_a_live_lease_keeps_what_its_own_file_says():
    state = ConsumerState("c", 9, 1_000, LEASE)
    assert state.held_from(1_050) == 5
    assert state.held_from(2_000) == 9
    assert ConsumerState("c", None, 0, LEASE).held_from(2_000) is None


@pytest.mark.parametrize(
    ("state", "retained_ms", "is_forgotten"),
    [
        (ConsumerState("c", 3, 1_000), None, False),
        (ConsumerState("c", 3, 1_000), 8_999, True),
        (ConsumerState("c", 3, 1_000), 9_000, False),
        (ConsumerState("c", 3, 1_000, Lease("c", 1, "r", 3, 5_000, 100)), 5_000, False),
        (ConsumerState("c", 3, 1_000, Lease("c", 1, "r", 3, 5_000, 100, 4_000)), None, True),
        (ConsumerState("c", 3, 1_000, Lease("c", 1, "r", 3, 5_000, 100, 6_000)), 1, False),
        (ConsumerState("c", 3, 1_000, Lease("c", 1, "r", 3, 9_950, 100, 1)), 1, False),
        (ConsumerState("c", None, 0, Lease("c", 1, "r", 3, 9_000, 100, 99_999)), None, True),
    ],
)
def test_a_consumer_is_forgotten_after_silence(state, retained_ms, is_forgotten):
    assert state.is_forgotten(10_000, retained_ms) is is_forgotten


def test_times_of_files_are_those_of_the_storage(clock, log):
    log.record("a", 1)
    clock.sleep_ms(50)
    log.record("b", 1)
    assert {name: state.modified_ms for name, state in log.states().items()} == {
        "a": 7_000,
        "b": 7_050,
    }


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b'{"nextSnapshot": true}', b'{"nextSnapshot": "1"}']
)
def test_a_damaged_consumer_is_named(fileio, log, data):
    fileio.make_dirs("/t/consumer")
    fileio.replace("/t/consumer/consumer-bad", data)
    for read in (log.next_ids, log.states, lambda: log.next_id("bad")):
        with pytest.raises(CorruptError, match="consumer-bad"):
            read()


@pytest.mark.parametrize("data", [b"", b"{}", LEASE.to_json().encode()[:40], b'{"runId": 1}'])
def test_a_torn_lease_has_ended_and_keeps_its_term(fileio, log, data):
    fileio.make_dirs("/t/consumer")
    fileio.replace("/t/consumer/lease-4-c", data)
    found = log.lease("c")
    assert found.term == 4
    assert not found.is_live(0)


def test_of_a_torn_consumer_the_lease_tells_the_next_snapshot(fileio, log):
    with log.open_dir() as place:
        log.take(LEASE, within=place)
    fileio.replace("/t/consumer/consumer-c", b'{"next')
    assert log.next_id("c") == LEASE.next_snapshot_id
    assert log.states()["c"].next_snapshot_id == LEASE.next_snapshot_id


def test_a_term_that_is_free_again_is_not_taken_behind_a_later_one(log):
    with log.open_dir() as place:
        log.take(Lease("c", 2, "other", 6, renewed_ms=1, timeout_ms=1), within=place)
        assert not log.take(LEASE, within=place)
    assert log.newest_term("c") == 2
    assert [state.lease.run_id for state in log.states().values()] == ["other"]


def test_half_a_file_that_java_writes_is_read_again(fileio, log, monkeypatch):
    log.record("c", 3)
    whole = fileio.read_bytes("/t/consumer/consumer-c")
    answers = iter([b"", whole[:5], whole])
    monkeypatch.setattr(fileio, "read_bytes", lambda path: next(answers))
    assert log.next_id("c") == 3
