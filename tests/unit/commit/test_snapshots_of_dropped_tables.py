"""A store has no directories: a starved commit to a dropped table may land in the new one."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from proving.fsck import check_table
from unit.commit.commit_world import KEYED, RemoteHolding, RemoteMemory, World, message

import tidelake
from tidelake.errors import ConflictError, NotFoundError, OutcomeUnknownError
from tidelake.fileio.object_store import ObjectStoreFileIO
from tidelake.metadata import SchemaLog
from tidelake.metadata.log.chain import BASE
from tidelake.metadata.log.incarnation import OPENED_SCHEMA
from tidelake.testing import FaultyFileIO

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
PATH = "/w/db.db/t"
OPTIONS = {"bucket": "1", "commit.max-retries": "1"}


def opened(s3):
    return tidelake.open("s3://lake/w", storage=s3.storage())


def create(s3):
    return opened(s3).create_table("db.t", SCHEMA, primary_keys=["k"], options=OPTIONS)


def keys(table, **selection):
    return sorted(row["k"] for row in table.to_arrow(**selection).to_pylist())


class Starved:
    """A writer that has checked everything when its table is dropped and created again.

    `beside` acts on the new table when the writer's snapshot has just landed there.
    """

    def __init__(self, s3, monkeypatch, *, commits, again, beside):
        self._s3, self._again, self._beside = s3, again, beside
        self.old = create(s3)
        for k in range(commits):
            self.old.write([{"k": k, "v": "old"}])
        self.id = commits + 1
        self._put = ObjectStoreFileIO.put_if_absent
        self._patch = monkeypatch

    def write(self):
        self._patch.setattr(ObjectStoreFileIO, "put_if_absent", self._put_late())
        return self.old.write([{"k": 100, "v": "late"}])

    def _put_late(self):
        put = self._put

        def put_if_absent(files, path, data, **given):
            if not path.endswith(f"/snapshot-{self.id}"):
                return put(files, path, data, **given)
            self._patch.setattr(ObjectStoreFileIO, "put_if_absent", put)
            opened(self._s3).drop_table("db.t")
            new = create(self._s3)
            for k in range(self._again):
                new.write([{"k": 50 + k, "v": "new"}])
            done = put(files, path, data, **given)
            assert done, "its name was free"
            self._beside(new)
            return done

        return put_if_absent


@pytest.mark.parametrize(("commits", "again"), [(1, 1), (0, 0), (2, 1), (2, 0)])
def test_no_commit_builds_on_it_and_no_reader_sees_it(s3, monkeypatch, commits, again):
    own = [50 + k for k in range(again)]

    def beside(new):
        for table in (new, opened(s3).table("db.t")):
            assert keys(table) == own
            assert table.latest_snapshot_id == (again or None)
        if again == commits:  # the next id is taken
            with pytest.raises(ConflictError, match=f"Snapshot {commits + 1} .*dropped"):
                new.write([{"k": 60, "v": "b"}])
        else:
            new.write([{"k": 60, "v": "b"}])
            own.append(60)
        assert keys(new) == own

    starved = Starved(s3, monkeypatch, commits=commits, again=again, beside=beside)
    with pytest.raises(NotFoundError, match="recreated"):
        starved.write()
    new = opened(s3).table("db.t")
    assert keys(new) == own
    new.write([{"k": 70, "v": "c"}])
    assert keys(new) == [*own, 70]
    check_table(new.handle.fileio, PATH)


# a writer that does not come back

AFTER_ALL = 1_000_000
LATE = 2


@pytest.fixture
def new(s3):
    """A table with one snapshot, behind which a put to a dropped one has taken effect late."""
    old = create(s3)
    old.write([{"k": 1, "v": "old"}])
    s3.fault("defer", "PUT", f"snapshot-{LATE}", after=AFTER_ALL)
    old.write([{"k": 2, "v": "old"}])  # it was sent again
    opened(s3).drop_table("db.t")
    made = create(s3)
    made.write([{"k": 50, "v": "new"}])
    s3.settle()
    assert s3.listing(f"w/db.db/t/snapshot/snapshot-{LATE}")
    return made


def test_a_put_that_took_effect_late_is_never_seen(s3, new):
    handle = new.handle
    for hint in ("LATEST", "EARLIEST"):
        handle.fileio.delete(f"{PATH}/snapshot/{hint}")
    log = handle.snapshots
    assert (log.latest().id, log.latest_id(), log.earliest_id(), log.ids()) == (1, 1, 1, [1])
    assert (log.find(LATE), log.is_kept(LATE), log.is_of_dropped_table(LATE)) == (None, False, True)
    assert log.at_or_before(2**62).id == 1
    assert new.system_table("snapshots").to_arrow().num_rows == 1
    assert [batch.snapshot_id for batch in new.stream(start=1, timeout=0)] == [1]
    for refused in (lambda: new.to_arrow(snapshot_id=LATE), lambda: log.load_or_changelog(LATE)):
        with pytest.raises(NotFoundError) as missing:
            refused()
        assert missing.value.kind == "snapshot_not_found"
    new.tags.create("now")
    assert handle.tags.load("now").snapshot.id == 1
    new.maintenance.expire_snapshots(retain_min=1, retain_max=1)
    assert keys(new) == keys(new, tag="now") == [50]


def test_one_with_an_id_before_the_tables_own_is_passed_over(s3, new):
    new.rollback_to(snapshot_id=1)
    for k in range(51, 54):
        new.write([{"k": k, "v": "new"}])
    handle = new.handle
    new.maintenance.expire_snapshots(retain_min=1, retain_max=2)
    late = dataclasses.replace(handle.snapshots.load(4), properties={OPENED_SCHEMA: "0@1"}, id=2)
    assert handle.snapshots.put(late)
    handle.fileio.delete(f"{PATH}/snapshot/EARLIEST")
    assert (handle.snapshots.ids(), handle.snapshots.earliest_id()) == ([3, 4], 3)
    assert new.system_table("snapshots").to_arrow().num_rows == 2
    assert new.maintenance.expire_snapshots(retain_min=1, retain_max=1).ids == (3,)
    assert new.maintenance.purge_files().removed_snapshot_ids == (4,)
    handle.fileio.delete(f"{PATH}/snapshot/snapshot-2")
    check_table(handle.fileio, PATH)


def test_the_error_says_how_it_is_removed(s3, new):
    with pytest.raises(ConflictError, match="roll the table back to snapshot 1") as blocked:
        new.write([{"k": 60, "v": "b"}])
    assert (blocked.value.kind, blocked.value.context["snapshot"]) == (
        "snapshot_of_dropped_table",
        LATE,
    )
    new.rollback_to(snapshot_id=1)
    new.write([{"k": 60, "v": "b"}])
    assert keys(opened(s3).table("db.t")) == [50, 60]
    check_table(new.handle.fileio, PATH)


def test_an_empty_table_names_the_file_that_is_in_the_way(s3):
    old = create(s3)
    s3.fault("defer", "PUT", "snapshot-1", after=AFTER_ALL)
    old.write([{"k": 1, "v": "old"}])
    opened(s3).drop_table("db.t")
    made = create(s3)
    s3.settle()
    assert (keys(made), made.handle.snapshots.earliest_id()) == ([], None)
    with pytest.raises(ConflictError, match=r"delete the file s3://lake/w/.*/snapshot-1\."):
        made.write([{"k": 60, "v": "b"}])
    made.handle.fileio.delete(f"{PATH}/snapshot/snapshot-1")
    made.write([{"k": 60, "v": "b"}])
    assert keys(made) == [60]


def test_whoever_has_the_dropped_table_open_is_told_so(s3):
    old = create(s3)
    old.write([{"k": 1, "v": "old"}])
    opened(s3).drop_table("db.t")
    create(s3).write([{"k": 50, "v": "new"}])
    for use in (old.to_arrow, lambda: old.write([{"k": 2, "v": "old"}])):
        with pytest.raises(NotFoundError) as told:
            use()
        assert told.value.kind == "table_recreated"


def test_snapshots_of_other_schemas_of_the_table_are_its_own(s3):
    """Of each schema one file is read, once in a process."""
    create(s3).write([{"k": 1, "v": "a"}])
    before = opened(s3).table("db.t")
    opened(s3).table("db.t").add_column("n", "INT")
    after = opened(s3).table("db.t")
    assert after.latest_snapshot_id == 1
    s3.forget()
    assert opened(s3).table("db.t").latest_snapshot_id == 1
    assert s3.count("GET", "schema-0") == 0
    after.write([{"k": 2, "v": "b", "n": 1}])
    before.write([{"k": 3, "v": "c"}])  # opened before the change
    assert keys(after) == keys(before) == [1, 2, 3]
    marks = [after.handle.snapshots.load(i).properties[OPENED_SCHEMA] for i in (1, 2)]
    assert [mark.partition("@")[0] for mark in marks] == ["0", "1"]


def test_a_handle_with_a_schema_that_is_not_stored_has_the_tables_snapshots(s3):
    """A merge checks a draft of the schema that it will make; another may be made meanwhile."""
    create(s3).write([{"k": 1, "v": "a"}])
    handle = opened(s3).table("db.t").handle
    draft = dataclasses.replace(
        handle, schema=dataclasses.replace(handle.schema, id=handle.schema.id + 1)
    )
    assert draft.snapshots.latest().id == 1
    opened(s3).table("db.t").add_column("n", "INT")
    opened(s3).table("db.t").write([{"k": 2, "v": "b", "n": 1}])
    assert draft.snapshots.latest().id == 2


def test_a_damaged_schema_hides_nothing(s3):
    create(s3).write([{"k": 1, "v": "a"}])
    opened(s3).table("db.t").add_column("n", "INT")
    table = opened(s3).table("db.t")
    table.handle.fileio.replace(f"{PATH}/schema/schema-0", b"{}")
    assert table.handle.snapshots.latest().id == 1


def test_a_copied_table_says_that_its_schema_files_are_missing(s3, caplog):
    table = create(s3)
    table.write([{"k": 1, "v": "a"}])
    files = table.handle.fileio
    schema = dataclasses.replace(table.handle.schema, time_ms=table.handle.schema.time_ms + 1)
    files.replace(f"{PATH}/schema/schema-0", schema.to_json().encode())
    copy = opened(s3).table("db.t")
    assert keys(copy) == keys(opened(s3).table("db.t")) == []
    told = [r.getMessage() for r in caplog.records if "passed over" in r.getMessage()]
    assert len(told) == 1
    assert "needs its schema files" in told[0]
    with pytest.raises(ConflictError, match="needs its schema files") as blocked:
        copy.write([{"k": 2, "v": "b"}])
    assert blocked.value.kind == "snapshot_of_dropped_table"


# the rule, on files in memory


class Far(World):
    files = RemoteMemory


class Held(World):
    files = RemoteHolding


def commit(world, name, *, fileio=None):
    committer = world.committer(ord(name), fileio=fileio)
    return committer.commit([message(name)], user=name, identifier=1)


def test_only_stores_without_directories_mark_snapshots():
    for made, marked in ((World(), False), (Held(), False), (Far(), True)):
        commit(made, "a")
        assert (made.log.load(1).properties is not None) == marked


@pytest.mark.parametrize("text", ["", "x", "1@", "@1", "one@two"])
def test_a_snapshot_with_no_mark_or_an_odd_one_is_believed(text):
    """Other engines write none."""
    world = Far()
    commit(world, "a")
    theirs = dataclasses.replace(
        world.log.load(1), id=2, properties={OPENED_SCHEMA: text} if text else None
    )
    assert world.log.put(theirs)
    assert [s.id for s in commit(world, "b").snapshots] == [3]


class CreatedAgain(FaultyFileIO):
    """Once snapshot 2 is put the table is another one, and a snapshot 3 stands behind it."""

    def __init__(self, world, **next_one):
        super().__init__(world.fileio)
        self._world, self._next = world, {"id": 3, **next_one}

    def put_if_absent(self, path, data, **held):
        done, world = super().put_if_absent(path, data, **held), self._world
        if path == world.paths.snapshot(2):
            assert world.log.put(dataclasses.replace(world.log.load(2), **self._next))
            world.fileio.delete(world.paths.schema(0))
            other = dataclasses.replace(KEYED, time_ms=KEYED.time_ms + 1)
            assert SchemaLog(world.fileio, world.paths).create(other)
        return done


def test_a_second_late_commit_keeps_the_first_from_nothing():
    world = Far()
    commit(world, "a")
    with pytest.raises(NotFoundError, match="recreated"):
        commit(world, "b", fileio=CreatedAgain(world))
    assert world.log.find(2) is None


def test_a_late_commit_to_a_third_table_keeps_it_from_nothing_either():
    """It names its base, which is another."""
    world = Far()
    commit(world, "a")
    third = {OPENED_SCHEMA: "0@1", BASE: "list-of-the-third"}
    with pytest.raises(NotFoundError, match="recreated"):
        commit(world, "b", fileio=CreatedAgain(world, properties=third))
    assert world.log.find(2) is None


def test_what_another_engine_built_on_it_stays():
    world = Far()
    commit(world, "a")
    with pytest.raises(OutcomeUnknownError, match="builds on it"):
        commit(world, "b", fileio=CreatedAgain(world, properties=None))
    assert world.log.find(2) is not None
