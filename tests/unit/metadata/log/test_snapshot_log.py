"""The log finds snapshots whatever the hints claim and however old a listing is."""

import pytest
from unit.metadata.made import PATHS, publish, snapshot

from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import SnapshotLog
from tidelake.metadata.log import snapshot_log
from tidelake.testing import FaultMode, FaultyFileIO


def log_of(count, *, first=1, hints=True):
    fileio = MemoryFileIO()
    log = SnapshotLog(fileio, PATHS)
    for snapshot_id in range(first, first + count):
        assert publish(log, snapshot(snapshot_id)) if hints else log.put(snapshot(snapshot_id))
    return fileio, log


def test_publishing_creates_a_snapshot_once_and_moves_the_hints():
    fileio, log = log_of(2)
    assert not publish(log, snapshot(2, commit_user="another"))
    assert log.load(2).commit_user == "loader"
    assert fileio.read_bytes(PATHS.latest_hint) == b"2"
    assert fileio.read_bytes(PATHS.earliest_hint) == b"1"


def test_a_failing_hint_does_not_fail_what_was_published():
    for call in (2, 3):
        log = SnapshotLog(FaultyFileIO(MemoryFileIO(), {call: FaultMode.EIO_BEFORE}), PATHS)
        assert publish(log, snapshot(1))
        assert log.latest_id() == 1


@pytest.mark.parametrize("hint", [None, b"", b"4", b"6", b"99", b"-1", b"0", b"garbage", b"5\n"])
@pytest.mark.parametrize("which", ["LATEST", "EARLIEST"])
def test_no_hint_leads_astray(hint, which):
    fileio, log = log_of(3, first=3, hints=False)
    path = f"{PATHS.snapshot_dir}/{which}"
    if hint is not None:
        fileio.replace(path, hint)
    assert log.latest_id() == 5
    if hint in {None, b"", b"99", b"-1", b"0", b"garbage", b"6"} or which == "LATEST":
        assert log.earliest_id() == 3
    assert log.ids() == [3, 4, 5]


@pytest.mark.parametrize("gone", [[3], [2, 3], [1, 2, 3]])
def test_a_hint_ahead_of_all_snapshots_decides_nothing(gone):
    """A slow writer may write it after a rollback; it is mended by the next commit."""
    fileio, log = log_of(3)
    for snapshot_id in gone:
        fileio.delete(PATHS.snapshot(snapshot_id))
    newest = 3 - len(gone)
    assert log.latest_id() == (newest or None)
    assert (log.latest() is None) == (newest == 0)
    assert fileio.read_bytes(PATHS.latest_hint) == b"3"
    assert publish(log, snapshot(newest + 1, commit_user="next"))
    assert log.latest().commit_user == "next"
    assert fileio.read_bytes(PATHS.latest_hint) == str(newest + 1).encode()


@pytest.mark.parametrize("left", [0, 1, 2])
def test_who_wrote_a_hint_mends_it_where_its_snapshot_is_gone(left):
    inner, _ = log_of(3)

    class RolledBack(FaultyFileIO):
        def replace(self, path, data, **held):
            for snapshot_id in range(left + 1, 4):
                inner.delete(PATHS.snapshot(snapshot_id))
            super().replace(path, data, **held)

    log = SnapshotLog(RolledBack(inner), PATHS)
    with log.open_dir() as place:
        log.write_hints(3, within=place)
    hint = inner.read_bytes(PATHS.latest_hint) if inner.exists(PATHS.latest_hint) else None
    assert hint == (str(left).encode() if left else None)


def test_the_first_commit_s_late_hint_does_not_move_the_beginning_back():
    fileio, log = log_of(4)
    fileio.replace(PATHS.earliest_hint, b"3")
    log.write_hints(1)
    assert log.earliest_id() == 3
    assert log.latest_id() == 4


def test_a_beginning_that_is_gone_is_mended():
    fileio, log = log_of(4)
    for hint, after in ((b"9", b"1"), (b"3", b"3")):
        fileio.replace(PATHS.earliest_hint, hint)
        log.mend_earliest()
        assert fileio.read_bytes(PATHS.earliest_hint) == after
    fileio.delete(PATHS.earliest_hint)
    log.mend_earliest()
    assert not fileio.exists(PATHS.earliest_hint)


def test_hints_and_snapshots_of_a_dropped_table_make_no_directory():
    fileio, log = log_of(2)
    with log.open_dir() as place:
        fileio.delete_dir(PATHS.location)
        with pytest.raises(NotFoundError):
            log.put(snapshot(3), within=place)
        log.write_hints(1, within=place)
        log.mend_earliest(within=place)
    with pytest.raises(NotFoundError):
        log.open_dir()
    assert not fileio.exists(PATHS.location)


@pytest.mark.parametrize("then", [b"2", b"", None])
def test_a_hint_that_another_writer_takes_back_is_no_damage(then):
    """Java's rollback writes the hint first, then removes the newer snapshots."""
    inner, _ = log_of(3)

    class RolledBack(FaultyFileIO):
        def read_bytes(self, path, **held):
            if path.endswith("snapshot-3") and inner.exists(path):
                inner.delete(PATHS.latest_hint)
                if then is not None:
                    inner.replace(PATHS.latest_hint, then)
                inner.delete(path)
            return super().read_bytes(path, **held)

    assert SnapshotLog(RolledBack(inner), PATHS).latest_id() == 2


def test_a_snapshot_that_is_seen_late_is_no_damage():
    inner, _ = log_of(3)

    class Late(FaultyFileIO):
        asked = 0

        def exists(self, path, **held):
            self.asked += path.endswith("snapshot-3")
            return super().exists(path, **held) and not (
                path.endswith("snapshot-3") and self.asked < 2
            )

    assert SnapshotLog(Late(inner), PATHS).latest_id() == 3


def test_a_gap_in_the_middle_is_damage_and_named():
    fileio, log = log_of(5)
    fileio.delete(PATHS.snapshot(3))
    assert log.latest_id() == 5
    with pytest.raises(CorruptError, match="snapshot-3 is missing, but snapshots 2 and 4"):
        log.ids()
    with pytest.raises(NotFoundError, match="no snapshot 3"):
        log.load(3)


def test_a_listing_taken_while_snapshots_expire_is_no_damage():
    """It may hold 1, removed since, and lack 2, removed before the listing came to it."""
    inner, _ = log_of(4)
    for snapshot_id in (1, 2):
        inner.delete(PATHS.snapshot(snapshot_id))
    listed = MemoryFileIO()
    for snapshot_id in (1, 3, 4):
        listed.write_once(PATHS.snapshot(snapshot_id), b"")

    class Expiring(FaultyFileIO):
        def list_dir(self, path):
            return listed.list_dir(path)

    assert SnapshotLog(Expiring(inner), PATHS).ids() == [1, 3, 4]


def test_the_hint_of_the_oldest_is_believed_while_older_ones_are_being_removed():
    fileio, log = log_of(5)
    fileio.replace(PATHS.earliest_hint, b"4")
    assert log.earliest_id() == 4


@pytest.mark.parametrize(("behind", "listings"), [(0, 0), (1, 0), (31, 0), (32, 1), (99, 1)])
def test_a_hint_that_is_a_little_behind_spares_the_listing(behind, listings):
    inner, _ = log_of(100)
    inner.replace(PATHS.latest_hint, str(100 - behind).encode())
    fileio = FaultyFileIO(inner)
    assert SnapshotLog(fileio, PATHS).latest_id() == 100
    assert [e.op for e in fileio.trace].count("list_dir") == listings


@pytest.mark.parametrize("mode", [FaultMode.STALE_LIST, FaultMode.EMPTY_LIST])
def test_an_old_listing_is_looked_through(mode, monkeypatch):
    monkeypatch.setattr(snapshot_log, "HINT_PROBES_MAX", 1)
    inner = MemoryFileIO()
    calls = len(_publishing(inner).trace)
    for call in range(calls + 1, calls + 8):
        fileio = _publishing(MemoryFileIO(), {call: mode})
        fileio.replace(PATHS.latest_hint, b"2")  # stale, so that the listing is asked
        assert SnapshotLog(fileio, PATHS).latest_id() == 4


def _publishing(inner, plan=None):
    fileio = FaultyFileIO(inner, plan or {})
    log = SnapshotLog(fileio, PATHS)
    for snapshot_id in range(1, 5):
        publish(log, snapshot(snapshot_id))
    return fileio


def test_an_empty_listing_does_not_hide_a_table_whose_first_snapshots_expired():
    inner, _ = log_of(3, first=7)
    inner.replace(PATHS.earliest_hint, b"7")
    inner.delete(PATHS.latest_hint)
    fileio = FaultyFileIO(inner, dict.fromkeys(range(1, 20), FaultMode.EMPTY_LIST))
    assert SnapshotLog(fileio, PATHS).latest_id() == 9


def test_a_table_without_snapshots_has_none():
    log = SnapshotLog(MemoryFileIO(), PATHS)
    assert (log.latest_id(), log.earliest_id(), log.latest(), log.ids()) == (None, None, None, [])
    with pytest.raises(NotFoundError, match="no snapshots yet"):
        log.load(1)
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        log.at_or_before(0)


def test_a_missing_snapshot_s_message_says_which_are_there():
    _, log = log_of(3, first=7, hints=False)
    with pytest.raises(NotFoundError, match=r"has expired. Snapshots 7 to 9 can be read"):
        log.load(3)
    with pytest.raises(NotFoundError, match="no snapshot 10: snapshots 7 to 9"):
        log.load(10)


def test_a_snapshot_under_another_s_name_is_damage():
    fileio, log = log_of(1)
    fileio.put_if_absent(PATHS.snapshot(2), snapshot(1).to_json().encode())
    with pytest.raises(CorruptError, match="contains snapshot 1"):
        log.load(2)


def test_other_files_of_the_directory_are_passed_over():
    fileio, log = log_of(2, hints=False)
    for name in (".snapshot-9.tmp", "snapshot-", "snapshot-x", "snapshot-1.bak", "snapshot-٣"):
        fileio.write_once(f"{PATHS.snapshot_dir}/{name}", b"")
    assert log.ids() == [1, 2]
    assert log.latest_id() == 2


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_time_means_the_newest_snapshot_up_to_it(count):
    _, log = log_of(count, first=5)
    for i in range(5, 5 + count):
        start = 1_700_000_000_000 + i * 1000
        assert log.at_or_before(start).id == i
        assert log.at_or_before(start + 999).id == i
    with pytest.raises(NotFoundError, match="oldest is 5"):
        log.at_or_before(1_700_000_000_000 + 5 * 1000 - 1)


def test_of_snapshots_of_one_time_the_newest_is_meant():
    fileio = MemoryFileIO()
    log = SnapshotLog(fileio, PATHS)
    for snapshot_id in range(1, 6):
        publish(log, snapshot(snapshot_id, time_ms=50 if snapshot_id > 1 else 10))
    publish(log, snapshot(6, time_ms=60))
    assert log.at_or_before(55).id == 5
    assert log.at_or_before(49).id == 1


def test_a_snapshot_that_expires_during_a_search_counts_as_older():
    fileio, log = log_of(9)
    for snapshot_id in (1, 2, 3, 4, 5):
        fileio.delete(PATHS.snapshot(snapshot_id))
    fileio.replace(PATHS.earliest_hint, b"1")
    assert log.at_or_before(1_700_000_000_000 + 7_500).id == 7


def test_a_storage_error_is_not_taken_for_an_empty_table():
    inner, _ = log_of(1)
    fileio = FaultyFileIO(inner, {2: FaultMode.EIO_BEFORE})
    with pytest.raises(StorageError):
        SnapshotLog(fileio, PATHS).latest_id()


def test_a_storage_whose_listing_stays_far_behind_is_called_inconsistent(monkeypatch):
    monkeypatch.setattr(snapshot_log, "PROBES_MAX", 2)
    inner, _ = log_of(9, hints=False)
    fileio = FaultyFileIO(inner, dict.fromkeys(range(1, 50), FaultMode.EMPTY_LIST))
    with pytest.raises(StorageError, match="inconsistent"):
        SnapshotLog(fileio, PATHS).latest_id()


def test_a_newest_snapshot_that_is_rolled_back_while_it_is_read_is_looked_for_again():
    inner, _ = log_of(3)

    class RolledBack(FaultyFileIO):
        def read_bytes(self, path, **bound):
            if path.endswith("snapshot-3"):
                self._inner.replace(PATHS.latest_hint, b"2")
                self._inner.delete(path)
            return super().read_bytes(path, **bound)

    assert SnapshotLog(RolledBack(inner), PATHS).latest().id == 2


def test_a_newest_snapshot_that_is_never_there_is_missing():
    class Lying(FaultyFileIO):
        def exists(self, path, **held):
            return path.endswith("snapshot-9") or super().exists(path, **held)

    inner, _ = log_of(1)
    inner.replace(PATHS.latest_hint, b"9")
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        SnapshotLog(Lying(inner), PATHS).latest()


def test_the_oldest_is_found_though_the_listing_is_empty():
    inner, _ = log_of(4, first=5)
    fileio = FaultyFileIO(inner, dict.fromkeys(range(1, 50), FaultMode.EMPTY_LIST))
    assert SnapshotLog(fileio, PATHS).earliest_id() == 5
