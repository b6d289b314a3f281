"""Snapshots expire: what is kept reads as before, and nothing that nobody needs stays."""

from __future__ import annotations

import pytest
from proving.expiring import ALL, TABLES, Meanwhile, again, check, make, rows, states, work
from proving.reach import missing

import tidelake
from tidelake import CorruptError, InvalidInputError, NotFoundError
from tidelake.commit.expiry import snapshots
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.avro import avro
from tidelake.metadata.manifest import manifest_cache
from tidelake.metadata.manifest.snapshot_entries import read_manifests
from tidelake.telemetry import Env
from tidelake.testing import FaultyFileIO


@pytest.fixture
def fileio():
    return MemoryFileIO()


@pytest.mark.parametrize("kind", TABLES)
def test_what_stays_reads_as_before_and_what_goes_leaves_nothing(fileio, kind):
    table = make(fileio, **TABLES[kind])
    work(table)
    before = states(table)
    newest = max(before)
    kept = {newest // 3, newest // 2}
    for number in kept:
        table.tags.create(f"t{number}", snapshot_id=number)
    with_stats = table.system_table("statistics").to_arrow().to_pylist()
    for upto in (2, newest // 2, newest):
        told = table.maintenance.expire_snapshots(
            retain_max=newest - upto + 1, retain_min=1, max_deletes=99, dry_run=True
        )
        assert (
            table.maintenance.expire_snapshots(retain_max=newest - upto + 1, retain_min=1) == told
        )
        assert table.handle.snapshots.ids() == list(range(upto, newest + 1))
        assert states(table) == {i: r for i, r in before.items() if i >= upto}
        for number in kept:
            assert rows(table, tag=f"t{number}") == before[number]
        check(table)
    assert table.system_table("statistics").to_arrow().to_pylist() == with_stats
    for number in kept:
        table.tags.delete(f"t{number}")
    check(table)
    work(table, 2)  # the table goes on
    table.maintenance.expire_snapshots(**ALL)
    check(table)


@pytest.mark.parametrize("kind", ["append", "lookup"])
def test_snapshots_that_are_read_ahead_expire_as_those_that_are_read_in_their_turn(
    kind, monkeypatch
):
    left = []
    for at_least in (2, 999):
        monkeypatch.setattr(snapshots, "AHEAD_MIN", at_least)
        monkeypatch.setattr(snapshots, "AHEAD_COUNT", 5)
        monkeypatch.setattr(manifest_cache, "SMALL_MIN", at_least)
        monkeypatch.setattr(avro, "COLUMNS_RECORDS_MIN", at_least)
        fileio = MemoryFileIO()
        work(make(fileio, **TABLES[kind]))
        table = tidelake.open("/w", fileio=fileio, env=Env.seeded(8)).table("db.t")
        before = rows(table)
        table.tags.create("kept", snapshot_id=4)
        told = table.maintenance.expire_snapshots(**ALL)
        assert rows(table) == before
        check(table)
        left.append((told, sorted(map(str, fileio.list_dir("/w/db.db/t/manifest")))))
    assert left[0] == left[1]


def test_only_small_manifests_are_read_ahead_and_only_so_many(monkeypatch):
    calls, read_at_once = {}, []

    def noted(fileio, paths, files, manifests):
        read_at_once.append([file.file_size_bytes for file in files])
        return read_manifests(fileio, paths, files, manifests)

    monkeypatch.setattr(snapshots, "read_manifests", noted)
    for at_least in (2, 999):
        monkeypatch.setattr(snapshots, "AHEAD_MIN", at_least)
        storage = MemoryFileIO()
        work(make(storage, **TABLES["append"]))
        for small, together in ((16 << 10, 4 << 20), (16 << 10, 3_000), (100, 4 << 20)):
            monkeypatch.setattr(snapshots, "SMALL_BYTES_MAX", small)
            monkeypatch.setattr(snapshots, "AHEAD_BYTES_MAX", together)
            counting = FaultyFileIO(storage)
            table = tidelake.open("/w", fileio=counting, env=Env.seeded(8)).table("db.t")
            ids = table.handle.snapshots.ids()
            counting.trace.clear()
            table.maintenance.expire_snapshots(retain_max=len(ids) - 4, retain_min=1)
            calls[at_least, small, together] = len(counting.trace)
        check(again(table, storage))
    everything, some, nothing = read_at_once
    assert len(everything) > len(some) > 0 == len(nothing)
    assert sum(some) <= 3_000 < sum(everything)
    assert all(calls[2, *limits] <= calls[999, *limits] for _, *limits in calls)


@pytest.mark.parametrize("kind", ["append", "dynamic", "lookup"])
def test_commits_keep_what_the_options_say(fileio, kind):
    retained = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    table = make(fileio, **TABLES[kind], **retained)
    other = make(MemoryFileIO(), **TABLES[kind])
    work(table)
    work(other)
    assert len(table.handle.snapshots.ids()) == 3
    assert rows(table) == rows(other)
    check(table)


def test_by_default_ten_and_what_is_younger_than_an_hour(fileio):
    table = make(fileio)
    clock = table.handle.env.clock
    for k in range(12):
        table.write([{"k": k, "v": k, "p": "a"}])
        clock.sleep_ms(1_000)
    assert len(table.handle.snapshots.ids()) == 12
    clock.sleep_ms(3_600_000)
    table.write([{"k": 12, "v": 1, "p": "a"}])
    # 11 and 12 are older than an hour too, and are of the ten
    assert table.handle.snapshots.ids() == list(range(4, 14))
    # the next one of 13 is young, whatever its own age
    clock.sleep_ms(3_600_000)
    young = table.with_options({"snapshot.num-retained.min": "1"})
    young.write([{"k": 13, "v": 1, "p": "a"}])
    assert table.handle.snapshots.ids() == [13, 14]


def test_a_clock_that_is_behind_counts_as_at_the_newest_snapshot(fileio):
    table = make(fileio, **{"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 min"})
    clock = table.handle.env.clock
    for k in range(3):
        table.write([{"k": k, "v": k, "p": "a"}])
        clock.sleep_ms(40_000)
    clock.sleep_ms(-86_400_000)
    assert len(table.handle.snapshots.ids()) == 3
    clock.sleep_ms(86_400_000 + 3_600_000)
    table.write([{"k": 9, "v": 9, "p": "a"}])  # an hour later, the third is kept: 4 is its next
    assert table.handle.snapshots.ids() == [3, 4]
    clock.sleep_ms(90_000)
    table.write([{"k": 9, "v": 9, "p": "a"}])
    assert table.handle.snapshots.ids() == [4, 5]
    clock.sleep_ms(-86_400_000)  # 5 is 90 s younger than 4, whatever the clock says
    assert table.maintenance.expire_snapshots(retain_min=1).ids == ()
    table.write([{"k": 9, "v": 9, "p": "a"}])
    assert table.handle.snapshots.ids() == [4, 5, 6]
    check(table)


def test_what_was_decoded_of_expired_snapshots_is_not_kept(fileio):
    table = make(fileio, **next(iter(TABLES.values())))
    work(table)
    states(table)
    manifests = table.handle.manifests
    before = manifests.nbytes
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, max_deletes=99)
    assert manifests.nbytes < before / 2


def test_no_more_at_a_time_than_the_limit(fileio):
    table = make(fileio)
    for k in range(8):
        table.write([{"k": k, "v": k, "p": "a"}])
    assert table.maintenance.expire_snapshots(**ALL, max_deletes=3).ids == (1, 2, 3)
    assert table.with_options({"snapshot.expire.limit": 2}).maintenance.expire_snapshots(
        **ALL
    ).ids == (4, 5)
    assert table.maintenance.expire_snapshots(**ALL).ids == (6, 7)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()


def test_older_than_a_time(fileio):
    table = make(fileio)
    clock = table.handle.env.clock
    for k in range(5):
        table.write([{"k": k, "v": k, "p": "a"}])
        clock.sleep_ms(10_000)
    third = table.handle.snapshots.load(3).time_ms
    assert table.maintenance.expire_snapshots(retain_min=1, older_than=third).ids == (1,)
    assert table.maintenance.expire_snapshots(retain_min=1, older_than=third + 1).ids == (2,)
    assert table.maintenance.expire_snapshots(retain_min=3, older_than="2100-01-01T00Z").ids == ()
    assert table.maintenance.expire_snapshots(retain_min=1, older_than="2100-01-01T00Z").ids == (
        3,
        4,
    )
    assert rows(table) == [repr({"k": k, "v": k, "p": "a"}) for k in range(5)]


def test_a_consumer_keeps_what_it_has_still_to_read(fileio):
    table = make(fileio, **TABLES["lookup"])
    work(table, 3)
    directory = table.handle.paths.consumer_dir
    fileio.replace(f"{directory}/consumer-a", b'{"nextSnapshot": 3}')
    fileio.replace(f"{directory}/consumer-b", b'{"nextSnapshot": 5}')
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)
    fileio.delete(f"{directory}/consumer-a")
    assert table.maintenance.expire_snapshots(**ALL).ids == (3, 4)
    fileio.replace(f"{directory}/consumer-b", b"{}")
    with pytest.raises(CorruptError, match="consumer-b has no nextSnapshot"):
        table.maintenance.expire_snapshots(**ALL)
    check(table)


def test_a_consumer_that_comes_while_the_oldest_is_announced_is_seen(fileio):
    table = make(fileio)
    work(table, 3)
    paths = table.handle.paths
    consumer = f"{paths.consumer_dir}/consumer-late"
    meanwhile = Meanwhile(
        fileio,
        "replace",
        paths.earliest_hint,
        lambda: fileio.replace(consumer, b'{"nextSnapshot": 2}'),
    )
    assert again(table, meanwhile).maintenance.expire_snapshots(**ALL).ids == (1,)
    assert table.handle.snapshots.earliest_id() == 2
    assert fileio.read_bytes(paths.earliest_hint) == b"2"
    check(table)


@pytest.mark.parametrize("how", ["create", "replace"])
@pytest.mark.parametrize("after", [False, True])
def test_a_tag_made_while_its_snapshot_expires_is_kept_or_refused(fileio, how, after):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    before = rows(table, snapshot_id=2)
    if how == "replace":
        table.tags.create("late", snapshot_id=4)
    outcome: list[object] = []

    def tag():
        try:
            method = table.tags.create if how == "create" else table.tags.replace
            method("late", snapshot_id=2)
            outcome.append("kept")
        except NotFoundError as error:
            outcome.append(error)

    path = table.handle.paths.snapshot(2)
    again(table, Meanwhile(fileio, "delete", path, tag, after=after)).maintenance.expire_snapshots(
        **ALL
    )
    if after:  # its file was gone when the tag was to be made
        assert "expired" in str(outcome[0])
        assert table.handle.tags.names() == (["late"] if how == "replace" else [])
    else:
        assert outcome == ["kept"]
        assert rows(table, tag="late") == before
    check(table)


@pytest.mark.parametrize("moment", ["list", "load"])
def test_a_tag_that_gets_another_name_while_tags_are_looked_at_is_seen(fileio, moment):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    table.tags.create("one", snapshot_id=2)
    before = rows(table, tag="one")
    paths = table.handle.paths
    call, path = (
        ("list_dir", paths.tag_dir) if moment == "list" else ("read_bytes", paths.tag("one"))
    )
    rename = Meanwhile(fileio, call, path, lambda: table.tags.rename("one", "two"))
    again(table, rename).maintenance.expire_snapshots(**ALL)
    assert rows(table, tag="two") == before
    check(table)


def test_a_tag_made_of_one_that_is_deleted_keeps_its_files(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    table.tags.create("one", snapshot_id=2)
    before = rows(table, tag="one")
    table.maintenance.expire_snapshots(**ALL)
    copy = Meanwhile(
        fileio,
        "delete",
        table.handle.paths.tag("one"),
        lambda: table.tags.create("two", snapshot_id=2),
    )
    again(table, copy).tags.delete("one")
    assert rows(table, tag="two") == before
    check(table)


@pytest.mark.parametrize("target", [2, "t"])
def test_a_rollback_under_which_its_snapshot_expires_gets_it_back(fileio, target):
    table = make(fileio, **TABLES["dv"])
    work(table, 4)
    table.tags.create("t", snapshot_id=2)
    then = rows(table, snapshot_id=2)
    if target == 2:
        table.tags.delete("t")
    newest = table.handle.snapshots.latest_id()
    expiry = Meanwhile(
        fileio,
        "delete",
        table.handle.paths.snapshot(newest),
        lambda: again(table, fileio).maintenance.expire_snapshots(
            retain_max=newest - 3, retain_min=1
        ),
    )
    again(table, expiry).rollback_to(target)
    table = again(table, fileio)
    assert table.handle.snapshots.latest_id() == 2
    assert rows(table) == then
    assert table.handle.tags.names() == ([] if target == 2 else ["t"])
    work(table, 2)
    assert missing(fileio, table.handle.paths.location) == set()


def test_a_rollback_to_what_expires_before_it_begins_changes_nothing(fileio):
    longer = {"changelog.num-retained.min": "2", "changelog.num-retained.max": "99"}
    table = make(fileio, **TABLES["input"], **longer)
    work(table, 4)
    paths = table.handle.paths
    expiry = Meanwhile(
        fileio, "list_dir", paths.tag_dir, lambda: table.maintenance.expire_snapshots(**ALL)
    )
    reader = again(table, expiry)
    with pytest.raises(
        NotFoundError, match="expired while the table was rolled back to it; nothing"
    ):
        reader.rollback_to(2)
    kept = [s.name for s in fileio.list_dir(paths.changelog_dir)]
    newest = table.handle.snapshots.latest_id()
    assert {f"changelog-{number}" for number in range(1, newest)} <= set(kept)
    assert fileio.read_bytes(paths.latest_hint) == str(newest).encode()
    assert table.handle.tags.names() == []
    check(table)


def test_a_tag_behind_those_that_java_left_half_removed_is_kept(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 5)
    table.tags.create("t", snapshot_id=4)
    then = rows(table, tag="t")
    log, paths = table.handle.snapshots, table.handle.paths
    fileio.delete(paths.manifest(log.load(3).base_manifest_list))
    fileio.delete(paths.manifest(log.load(3).delta_manifest_list))
    cold = again(table, fileio)
    list(cold.scan(snapshot_id=2).batches())  # what 2 names is known, and what 3 does is not
    cold.maintenance.expire_snapshots(**ALL)
    assert rows(again(table, fileio), tag="t") == then
    assert missing(fileio, paths.location) == set()


def test_a_tag_in_a_gap_keeps_its_files(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 5)
    table.tags.create("t", snapshot_id=4)
    then = rows(table, tag="t")
    for number in (3, 4):
        fileio.delete(table.handle.paths.snapshot(number))
    fileio.delete(table.handle.paths.earliest_hint)
    newest = table.handle.snapshots.latest_id()
    table = again(table, fileio)
    table.maintenance.expire_snapshots(retain_max=newest - 4, retain_min=1)
    table.maintenance.expire_snapshots(**ALL)
    assert rows(table, tag="t") == then
    assert missing(fileio, table.handle.paths.location) == set()


def test_a_tag_that_cannot_be_read_stops_it_and_can_be_deleted(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 3)
    table.tags.create("t", snapshot_id=2)
    paths = table.handle.paths
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, max_deletes=2)
    fileio.delete(paths.manifest(table.handle.tags.load("t").snapshot.base_manifest_list))
    table = again(table, fileio)
    hint = fileio.read_bytes(paths.earliest_hint)
    with pytest.raises(NotFoundError, match="manifest-list"):
        table.maintenance.expire_snapshots(**ALL)
    assert fileio.read_bytes(paths.earliest_hint) == hint
    table.tags.delete("t")
    table.maintenance.expire_snapshots(**ALL)
    assert missing(fileio, paths.location) == set()


def test_an_expiry_that_another_overtakes_says_nothing(fileio):
    table = make(fileio)
    work(table, 5)
    path = table.handle.paths.consumer_dir
    rival = Meanwhile(fileio, "list_dir", path, lambda: table.maintenance.expire_snapshots(**ALL))
    expired = again(table, rival).maintenance.expire_snapshots(retain_max=4, retain_min=1)
    assert expired.ids == ()
    check(table)


def test_a_snapshot_that_goes_between_reading_it_and_tagging_it_is_no_tag_s(fileio):
    table = make(fileio)
    work(table, 3)
    path = table.handle.paths.tag("late")
    meanwhile = Meanwhile(
        fileio, "put_if_absent", path, lambda: table.maintenance.expire_snapshots(**ALL)
    )
    with pytest.raises(NotFoundError, match=r"Snapshot 2 .* expired while tag 'late' was created"):
        again(table, meanwhile).tags.create("late", snapshot_id=2)
    assert table.handle.tags.names() == []
    check(table)


def test_two_expiries_at_once_remove_the_same(fileio):
    table = make(fileio, **TABLES["lookup"])
    work(table, 5)
    now = rows(table)
    path = table.handle.paths.snapshot(3)
    rival = []
    meanwhile = Meanwhile(
        fileio, "delete", path, lambda: rival.append(table.maintenance.expire_snapshots(**ALL))
    )
    own = again(table, meanwhile).maintenance.expire_snapshots(**ALL)
    [other] = rival
    newest = table.handle.snapshots.latest_id()
    assert sorted((*own.ids, *other.ids)) == list(range(1, newest))
    assert rows(table) == now
    check(table)


def test_what_java_left_half_removed_goes_too(fileio):
    """Java Paimon removes manifests of all first, then snapshots: killed, it leaves these."""
    table = make(fileio, **TABLES["input"])
    work(table, 5)
    now = rows(table)
    paths = table.handle.paths
    for number in (1, 2, 3):
        snapshot = table.handle.snapshots.load(number)
        for name in (
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
        ):
            if name is not None:
                fileio.delete(paths.manifest(name))
    cold = again(table, fileio)
    assert cold.maintenance.expire_snapshots(**ALL).ids[:3] == (1, 2, 3)
    assert rows(cold) == now
    assert missing(fileio, paths.location) == set()


@pytest.mark.parametrize("what", ["manifest", "tag", "snapshot"])
def test_what_cannot_be_read_stops_it_and_is_named(fileio, what):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    table.tags.create("t", snapshot_id=3)
    paths = table.handle.paths
    newest = table.handle.snapshots.latest()
    path = {
        "manifest": paths.manifest(newest.delta_manifest_list),
        "tag": paths.tag("t"),
        "snapshot": paths.snapshot(2),
    }[what]
    kept = fileio.read_bytes(path)
    fileio.replace(path, b"{")
    with pytest.raises(CorruptError, match=path.rsplit("/", 1)[1]):
        again(table, fileio).maintenance.expire_snapshots(**ALL)
    fileio.replace(path, kept)
    table = again(table, fileio)
    assert table.handle.snapshots.latest_id() == newest.id
    assert rows(table, tag="t")
    table.maintenance.expire_snapshots(**ALL)
    check(table)


def test_a_commit_is_done_whatever_its_expiry_meets(fileio, caplog):
    table = make(fileio, **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    table.write([{"k": 1, "v": 1, "p": "a"}])
    consumer = f"{table.handle.paths.consumer_dir}/consumer-a"
    fileio.replace(consumer, b"[]")
    result = table.write([{"k": 2, "v": 2, "p": "a"}])
    assert result.snapshot_ids == (2,)
    assert "Table db.t: old snapshots could not expire" in caplog.text
    assert "consumer-a" in caplog.text
    fileio.delete(consumer)
    table.write([{"k": 3, "v": 3, "p": "a"}])
    assert table.handle.snapshots.ids() == [3]
    check(table)


def test_write_only_leaves_it_to_the_compaction_job(fileio):
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = make(fileio, **TABLES["none"], **retained, **{"write-only": "true"})
    for k in range(5):
        table.write([{"k": k, "v": k, "p": "a"}])
    assert len(table.handle.snapshots.ids()) == 5
    table.compact()
    assert len(table.handle.snapshots.ids()) == 2
    check(table)
    for k in range(2):  # nothing to compact: the job looks all the same
        table.write([{"k": k, "v": k, "p": "a"}])
    table.compact(options={"num-sorted-run.compaction-trigger": 9})
    assert len(table.handle.snapshots.ids()) == 2


def test_branches_keep_what_they_were_made_from(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    paths = table.handle.paths
    table.tags.create("fork", snapshot_id=3)
    branch = f"{paths.branch_dir}/branch-b"
    for path, data in {
        "tag/tag-fork": fileio.read_bytes(paths.tag("fork")),
        "snapshot/snapshot-3": fileio.read_bytes(paths.snapshot(3)),
    }.items():
        fileio.write_once(f"{branch}/{path}", data)
    forked = rows(table, snapshot_id=3)
    fileio.delete(paths.tag("fork"))  # as Java may
    table.maintenance.expire_snapshots(**ALL)
    check(table)
    fileio.delete(f"{branch}/tag/tag-fork")  # its oldest snapshot tells too
    table.write([{"k": 1, "v": 1, "p": "a"}])
    table.maintenance.expire_snapshots(**ALL)
    check(table)
    fileio.write_once(paths.tag("fork"), fileio.read_bytes(f"{branch}/snapshot/snapshot-3"))
    assert rows(again(table, fileio), tag="fork") == forked


def test_a_rollback_to_a_tag_of_an_expired_snapshot_and_on(fileio):
    table = make(fileio, **TABLES["dv"])
    work(table, 5)
    table.tags.create("back", snapshot_id=3)
    then = rows(table, snapshot_id=3)
    table.maintenance.expire_snapshots(**ALL)
    table.rollback_to(tag="back")
    assert rows(table) == then
    work(table, 3)
    table.maintenance.expire_snapshots(**ALL)
    assert rows(table, tag="back") == then
    assert missing(fileio, table.handle.paths.location) == set()


def test_a_reader_of_what_is_gone_is_told_so(fileio):
    table = make(fileio)
    work(table, 3)
    table.maintenance.expire_snapshots(**ALL)
    newest = table.handle.snapshots.latest_id()
    with pytest.raises(
        NotFoundError, match=f"expired or never was. Snapshots {newest} to {newest}"
    ):
        table.to_arrow(snapshot_id=1)


def test_a_snapshot_that_expires_while_it_is_read_says_so(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 4)
    number = table.handle.snapshots.latest_id()
    scan = table.scan()
    changed = table.plan()
    table.compact(full=True)
    table.write([{"k": 1, "v": 1, "p": "a"}], mode="overwrite")
    table.maintenance.expire_snapshots(**ALL)
    message = rf"Snapshot {number} of table .*db.db/t expired while it was read: /w/.* was deleted"
    with pytest.raises(NotFoundError, match=message) as caught:
        scan.to_arrow()
    assert caught.value.kind == "snapshot_expired"
    assert changed.splits
    path = next(s.name for s in fileio.list_dir(f"{table.handle.paths.location}/bucket-0"))
    table.tags.create("t")
    fileio.delete(f"{table.handle.paths.location}/bucket-0/{path}")
    with pytest.raises(NotFoundError, match="does not exist") as caught:
        table.to_arrow()  # lost, and not expired
    assert caught.value.kind == "file_not_found"
    table.write([{"k": 2, "v": 1, "p": "a"}], mode="overwrite")
    table.maintenance.expire_snapshots(**ALL)
    with pytest.raises(NotFoundError, match="does not exist") as caught:
        table.to_arrow(tag="t")  # which keeps it
    assert caught.value.kind == "file_not_found"


def test_a_read_of_the_newest_looks_again_where_that_expires_under_it(fileio):
    table = make(fileio, **TABLES["none"])
    work(table, 2)
    newest = table.handle.snapshots.latest()

    def on_it_goes():
        table.write([{"k": 77, "v": 1, "p": "a"}])
        table.maintenance.expire_snapshots(**ALL)

    path = table.handle.paths.manifest(newest.base_manifest_list)
    reader = again(table, Meanwhile(fileio, "read_bytes", path, on_it_goes))
    assert 77 in reader.to_arrow()["k"].to_pylist()
    reader = again(table, Meanwhile(fileio, "read_bytes", path, on_it_goes))
    with pytest.raises(NotFoundError, match="expired or never was"):
        reader.to_arrow(snapshot_id=newest.id)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"retain_max": 3}, "retain_max is 3, .* keeps 10 snapshots: give retain_min too"),
        ({"retain_min": 0}, "retain_min is 0 but must be at least 1"),
        ({"max_deletes": 0}, "max_deletes is 0"),
        ({"older_than": "soon"}, "soon"),
    ],
)
def test_what_contradicts_itself_is_refused(fileio, asked, told):
    table = make(fileio)
    work(table, 2)
    before = table.handle.snapshots.ids()
    with pytest.raises(InvalidInputError, match=told):
        table.maintenance.expire_snapshots(**asked)
    assert table.handle.snapshots.ids() == before


def test_a_table_that_contradicts_itself_is_not_made_nor_written(fileio):
    options = {"snapshot.num-retained.max": "5"}
    with pytest.raises(InvalidInputError, match="at most 5 snapshots would be kept"):
        make(fileio, **options)
    table = make(fileio)
    with pytest.raises(InvalidInputError, match=r"set both 'snapshot.num-retained.min' and"):
        table.with_options(options).write([{"k": 1, "v": 1, "p": "a"}])
    with pytest.raises(InvalidInputError, match="at most 3 changelogs would be kept"):
        make(fileio, name="db.u", **{"changelog.num-retained.max": "3"})
    assert table.handle.snapshots.latest_id() is None


def test_a_snapshot_that_comes_back_long_after_it_expired_is_passed_over_and_removed(
    fileio, caplog
):
    """Its put was answered, and arrived once more when the number was free again."""
    table = make(fileio, **next(iter(TABLES.values())))
    work(table)
    path = table.handle.paths.snapshot(2)
    late = fileio.read_bytes(path)
    newest = table.latest_snapshot_id
    table.maintenance.expire_snapshots(retain_max=newest - 4, retain_min=1)
    before = states(table)
    fileio.write_once(path, late)
    assert table.history()["snapshot_id"].to_pylist() == list(range(5, newest + 1))
    listed = table.system_table("snapshots").to_arrow()["snapshot_id"].to_pylist()
    assert listed == list(range(5, newest + 1))
    assert "Snapshots 2 " in caplog.text
    assert (
        table.maintenance.expire_snapshots(retain_max=newest - 4, retain_min=1, dry_run=True).ids
        == ()
    )
    assert fileio.exists(path)
    table.maintenance.expire_snapshots(retain_max=newest - 4, retain_min=1)
    assert not fileio.exists(path)
    assert states(table) == before
    check(table)


def test_a_deleted_tag_that_comes_back_stops_no_expiry_and_is_named(fileio, caplog):
    table = make(fileio, **next(iter(TABLES.values())))
    work(table)
    table.tags.create("late", snapshot_id=2)
    table.tags.create("good", snapshot_id=1)
    good = rows(table, tag="good")
    path = table.handle.paths.tag("late")
    late = fileio.read_bytes(path)
    table.maintenance.expire_snapshots(retain_max=table.latest_snapshot_id - 4, retain_min=1)
    table.tags.delete("late")
    fileio.write_once(path, late)
    work(table, 2)
    told = table.maintenance.expire_snapshots(**ALL)
    assert told.ids
    assert "Tag 'late'" in caplog.text
    assert rows(table, tag="good") == good
    table.tags.delete("late")
    assert table.handle.tags.names() == ["good"]
    check(table)


def test_a_tag_of_which_a_part_is_lost_stops_the_expiry_and_is_named(fileio):
    table = make(fileio, **next(iter(TABLES.values())))
    work(table)
    table.tags.create("torn", snapshot_id=2)
    snapshot = table.handle.tags.load("torn").snapshot
    table.maintenance.expire_snapshots(retain_max=table.latest_snapshot_id - 4, retain_min=1)
    fileio.delete(table.handle.paths.manifest(snapshot.base_manifest_list))
    with pytest.raises(NotFoundError, match="Tag 'torn'") as caught:
        again(table, fileio).maintenance.expire_snapshots(**ALL)
    assert caught.value.kind == "tag_unreadable"
