"""Changelogs that outlive their snapshots: told as before, and gone with all their files later."""

from __future__ import annotations

import pytest
from proving.expiring import ALL, TABLES, again, check, make, rows, work
from proving.reach import missing, stray

from tidelake import InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO

LONGER = {"changelog.num-retained.min": "2", "changelog.num-retained.max": "99"}
TOLD = {
    "append": "delta",
    "none": "delta",
    "dynamic": "delta",
    "dv": "delta",
    "input": "changelog",
    "lookup": "changelog",
    "full": "changelog",
    "partial": "changelog",
}


@pytest.fixture
def fileio():
    return MemoryFileIO()


def changes(table, start: int, end: int, kind: str) -> list:
    return [repr(row) for row in table.changes(start, end, mode=TOLD[kind]).to_pylist()]


def kept_ids(table) -> list[int]:
    names = [s.name for s in table.fileio.list_dir(table.handle.paths.changelog_dir)]
    return sorted(int(n.split("-")[1]) for n in names if n.startswith("changelog-"))


@pytest.mark.parametrize("kind", TOLD)
def test_a_changelog_tells_what_its_snapshot_told_until_it_expires(fileio, kind):
    table = make(fileio, **TABLES[kind], **LONGER)
    work(table)
    newest = table.handle.snapshots.latest_id()
    before = {i: changes(table, i - 1, i, kind) for i in range(1, newest + 1)}
    assert any(before.values())
    table.tags.create("t", snapshot_id=newest // 2)
    then = rows(table, tag="t")
    expired = table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    assert expired.ids == tuple(kept_ids(table)) == tuple(range(1, newest - 1))
    check(table)
    cold = again(table, fileio)
    assert {i: changes(cold, i - 1, i, kind) for i in range(1, newest + 1)} == before
    for oldest in (newest // 2 + 1, newest - 1):
        told = table.maintenance.expire_changelogs(
            retain_max=newest - oldest + 1, retain_min=1, dry_run=True
        )
        assert (
            table.maintenance.expire_changelogs(retain_max=newest - oldest + 1, retain_min=1)
            == told
        )
        assert kept_ids(table) == list(range(oldest, newest - 1))
        kept = {i: changes(again(table, fileio), i - 1, i, kind) for i in before if i >= oldest}
        assert kept == {i: told for i, told in before.items() if i >= oldest}
        assert rows(table, tag="t") == then
        check(table)
    table.tags.delete("t")
    check(table)
    with pytest.raises(NotFoundError, match="expired"):
        changes(table, 0, newest, kind)


@pytest.mark.parametrize("kind", ["none", "lookup"])
def test_commits_keep_snapshots_and_changelogs_as_the_options_say(fileio, kind):
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    longer = {"changelog.num-retained.min": "2", "changelog.num-retained.max": "8"}
    table = make(fileio, **TABLES[kind], **retained, **longer)
    work(table)
    newest = table.handle.snapshots.latest_id()
    assert table.handle.snapshots.ids() == list(range(newest - 2, newest + 1))
    assert kept_ids(table) == list(range(newest - 7, newest - 2))
    check(table)


@pytest.mark.parametrize("kind", TOLD)
def test_a_tag_that_goes_leaves_what_changelogs_tell(fileio, kind):
    table = make(fileio, **TABLES[kind], **LONGER)
    work(table, 6)
    newest = table.handle.snapshots.latest_id()
    before = {i: changes(table, i - 1, i, kind) for i in range(1, newest + 1)}
    for number in (2, newest // 2, newest - 1):
        table.tags.create(f"t{number}", snapshot_id=number)
    table.maintenance.expire_snapshots(**ALL)
    for number in (newest // 2, 2, newest - 1):
        table.tags.delete(f"t{number}")
        check(table)
    cold = again(table, fileio)
    assert {i: changes(cold, i - 1, i, kind) for i in range(1, newest + 1)} == before
    table.maintenance.expire_changelogs(delete_all=True)
    check(table)


def test_by_age(fileio):
    ages = {"snapshot.time-retained": "1 min", "changelog.time-retained": "10 min"}
    never = {"num-sorted-run.compaction-trigger": "99", "num-sorted-run.stop-trigger": "99"}
    least = {"snapshot.num-retained.min": "1"}
    table = make(fileio, **TABLES["input"], **ages, **never, **least)
    for k in range(14):
        table.write([{"k": k, "v": k, "p": "a"}])
        table.handle.env.clock.sleep_ms(60_000)
    # the next of 12 is just older than a minute, and that of 13 not yet
    assert table.handle.snapshots.ids() == [13, 14]
    assert kept_ids(table) == list(range(4, 13))
    check(table)


def test_a_consumer_keeps_changelogs_too(fileio):
    table = make(fileio, **TABLES["input"], **LONGER)
    work(table, 4)
    table.maintenance.expire_snapshots(**ALL)
    fileio.replace(f"{table.handle.paths.consumer_dir}/consumer-a", b'{"nextSnapshot": 3}')
    assert table.maintenance.expire_changelogs(**ALL).ids == (1, 2)
    assert (
        table.maintenance.expire_changelogs(delete_all=True).ids[0] == 3
    )  # asked for in so many words
    check(table)


@pytest.mark.parametrize("kind", ["lookup", "none"])
def test_all_of_them_go_when_asked_and_when_the_table_stops_keeping_them(fileio, kind):
    table = make(fileio, **TABLES[kind], **LONGER)
    work(table, 4)
    table.maintenance.expire_snapshots(**ALL)
    ids = table.maintenance.expire_changelogs(delete_all=True, dry_run=True).ids
    assert ids == tuple(kept_ids(table)) != ()
    assert table.maintenance.expire_changelogs(delete_all=True).ids == ids
    assert table.fileio.list_dir(table.handle.paths.changelog_dir) == []
    check(table)
    work(table, 4)
    table.maintenance.expire_snapshots(**ALL)
    assert kept_ids(table)
    short = table.with_options(
        {
            "changelog.num-retained.min": "1",
            "changelog.num-retained.max": "1",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
        }
    )
    short.write([{"k": 1, "v": 1, "p": "a"}])
    assert kept_ids(table) == []
    check(table)


def test_a_changelog_of_a_history_that_was_rolled_back_is_not_taken_for_the_new_one(fileio):
    table = make(fileio, **TABLES["input"], **LONGER)
    work(table, 5)
    table.tags.create("t", snapshot_id=3)
    paths = table.handle.paths
    old = fileio.read_bytes(paths.snapshot(4))
    table.maintenance.expire_snapshots(**ALL)
    table.rollback_to("t")
    assert kept_ids(table) == [1, 2, 3]
    assert table.maintenance.expire_changelogs(delete_all=True).ids == (
        1,
        2,
    )  # 3 is a snapshot again
    fileio.write_once(paths.changelog(4), old)  # a rollback of Java's that was killed leaves it
    work(table, 3)
    newest = table.handle.snapshots.latest_id()
    told = changes(table, 3, newest, "input")
    table.maintenance.expire_snapshots(**ALL)
    assert fileio.read_bytes(paths.changelog(4)) != old
    assert changes(table, 3, newest, "input") == told
    table.tags.delete("t")
    table.maintenance.expire_changelogs(delete_all=True)
    assert missing(fileio, paths.location) == set()


@pytest.mark.parametrize("kind", TOLD)
def test_a_purge_takes_what_only_changelogs_keep(fileio, kind):
    table = make(fileio, **TABLES[kind], **LONGER)
    work(table)
    table.maintenance.expire_snapshots(**ALL)
    assert kept_ids(table)
    told = table.maintenance.purge_files(dry_run=True)
    purged = table.maintenance.purge_files()
    assert purged == told
    assert kept_ids(table) == []
    check(table)


def test_a_call_keeps_the_changelogs_that_the_options_keep(fileio):
    table = make(fileio, **TABLES["input"], **{"changelog.time-retained": "1 d"})
    work(table, 4)
    newest = table.handle.snapshots.latest_id()
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=1)
    assert kept_ids(table) == list(range(1, newest))
    check(table)


def test_an_expiry_that_was_killed_is_gone_on_with(fileio):
    table = make(fileio, **TABLES["none"], **LONGER)
    work(table, 5)
    table.maintenance.expire_snapshots(**ALL)
    newest = table.handle.snapshots.latest_id()
    hint = f"{table.handle.paths.changelog_dir}/EARLIEST"
    fileio.replace(hint, b"4")  # announced, and nothing removed
    assert table.maintenance.expire_changelogs(retain_max=newest - 4, retain_min=1).ids == (
        1,
        2,
        3,
        4,
    )
    fileio.delete(hint)
    assert table.maintenance.expire_changelogs(**ALL).ids == tuple(range(5, newest))
    check(table)


def test_a_table_that_did_without_a_producer_before(fileio):
    table = make(fileio, **TABLES["none"], **LONGER)
    work(table, 4)
    table.maintenance.expire_snapshots(**ALL)
    with_producer = table.with_options({"changelog-producer": "lookup"})
    work(with_producer, 3)
    with_producer.maintenance.expire_snapshots(**ALL)
    assert missing(table.fileio, table.handle.paths.location) == set()
    with_producer.maintenance.expire_changelogs(delete_all=True)
    assert missing(table.fileio, table.handle.paths.location) == set()
    assert stray(table.fileio, table.handle.paths.location) == set()


def test_what_contradicts_itself_is_refused(fileio):
    table = make(fileio, **TABLES["input"], **LONGER)
    work(table, 2)
    with pytest.raises(InvalidInputError, match="keeps 2 changelogs: give retain_min too"):
        table.maintenance.expire_changelogs(retain_max=1)
    with pytest.raises(InvalidInputError, match="max_deletes is -1"):
        table.maintenance.expire_changelogs(max_deletes=-1)
    assert table.maintenance.expire_changelogs().ids == ()
