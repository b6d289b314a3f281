"""Commits make all of their files visible or none, once, whoever else commits."""

import dataclasses
import json

import pytest
from unit.commit.commit_world import (
    APPEND,
    EMPTY_ROW,
    KEYED,
    Racing,
    World,
    data_file,
    keyed,
    message,
)
from unit.metadata.made import publish

from tidelake.commit.plans import StreamProgress
from tidelake.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedError,
)
from tidelake.metadata import BATCH_IDENTIFIER, CommitKind, ManifestCache, SchemaLog, Snapshot
from tidelake.metadata.index.index_manifest import write_index_manifest
from tidelake.metadata.index_entry import DELETION_VECTORS, IndexEntry, IndexFile
from tidelake.metadata.log.chain import BASE
from tidelake.metadata.manifest.snapshot_entries import manifest_files
from tidelake.telemetry import Env, ManualClock, SeededIds, SeededRng, SerialExecutor
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import TableSchema, parse_type


def test_a_first_commit_makes_snapshot_1_and_both_hints():
    world = World()
    done = world.committer().commit([message("a", "b")], user="u", identifier=7)
    (snapshot,) = done
    assert (snapshot.id, snapshot.schema_id, snapshot.commit_kind) == (1, 0, CommitKind.APPEND)
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("u", 7)
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (20, 20)
    assert not done.dropped_compactions
    assert not done.replayed
    assert world.log.load(1) == snapshot
    assert world.names() == {"a", "b"}
    assert world.fileio.read_bytes(world.paths.latest_hint) == b"1"
    assert world.fileio.read_bytes(world.paths.earliest_hint) == b"1"


def test_each_commit_builds_on_the_one_before():
    world = World()
    for i in range(5):
        world.committer(i).commit([message(f"f{i}")], user="u", identifier=i)
    assert world.log.ids() == [1, 2, 3, 4, 5]
    assert world.names() == {f"f{i}" for i in range(5)}
    assert world.names(2) == {"f0", "f1"}
    assert world.log.load(5).total_record_count == 50


def test_nothing_to_commit_makes_no_snapshot():
    world = World()
    assert not world.committer().commit([], user="u").snapshots
    assert not world.committer().commit([message()], user="u").snapshots
    assert world.log.ids() == []
    assert world.manifest_files() == set()


def test_new_files_and_a_compaction_are_two_snapshots_of_one_identity():
    world = World()
    new = data_file("new", keys=(1, 5), sequences=(0, 9))
    out = data_file("out", keys=(1, 5), level=5)
    done = world.committer().commit(
        [message(new, before=[new], after=[out])], user="u", identifier=3
    )
    assert [s.commit_kind for s in done] == [CommitKind.APPEND, CommitKind.COMPACT]
    assert {(s.commit_user, s.commit_identifier) for s in done} == {("u", 3)}
    assert world.names(1) == {"new"}
    assert world.live(2) == {(EMPTY_ROW, 0, 5): {"out"}}
    assert world.log.load(2).delta_record_count == 0


def test_a_compaction_s_intermediate_files_never_appear():
    world = World()
    new = data_file("new", keys=(1, 5))
    step, out = data_file("step", keys=(1, 5), level=4), data_file("out", keys=(1, 5), level=5)
    world.committer().commit([message(new, before=[new, step], after=[step, out])], user="u")
    assert world.names() == {"out"}


def test_an_upgrade_moves_a_file_to_another_level():
    world = World()
    low = data_file("f", keys=(1, 5))
    high = data_file("f", keys=(1, 5), level=5)
    world.committer().commit([message(low)], user="u", identifier=1)
    world.committer().commit([message(before=[low], after=[high])], user="u", identifier=2)
    assert world.live() == {(EMPTY_ROW, 0, 5): {"f"}}


# -- exactly once
def test_a_commit_tried_again_is_applied_once():
    world = World()
    first = world.committer(1).commit([message("a")], user="u", identifier=7)
    again = world.committer(2).commit([message("b")], user="u", identifier=7)
    assert again.snapshots == first.snapshots
    assert again.replayed
    assert world.names() == {"a"}
    assert world.log.ids() == [1]


def test_a_commit_is_recognised_behind_others_commits():
    world = World()
    world.committer(1).commit([message("a")], user="u", identifier=7)
    for i in range(8):
        world.committer(2 + i).commit([message(f"o{i}")], user="other", identifier=i)
    assert world.committer(20).commit([message("b")], user="u", identifier=7).replayed
    assert "b" not in world.names()


def test_an_older_identifier_than_the_user_s_newest_is_recognised_too():
    world = World()
    for i in (5, 6, 8):
        world.committer(i).commit([message(f"f{i}")], user="u", identifier=i)
    assert world.committer(20).commit([message("x")], user="u", identifier=6).replayed
    assert not world.committer(21).commit([message("y")], user="u", identifier=7).replayed


def test_the_search_stops_at_the_user_s_newest_commit():
    world = World()
    for i in range(60):
        world.committer(i).commit([message(f"o{i}")], user="u", identifier=i)
    fileio = FaultyFileIO(world.fileio)
    world.committer(99, fileio=fileio).commit([message("n")], user="u", identifier=60)
    loads = [t for t in fileio.trace if t.op == "read_bytes" and "/snapshot-" in t.path]
    # the base and the one before it, the next one, which is missing; the one read back and the base
    # behind the put; and the second, by whose time the first may expire
    assert len(loads) <= 6


def test_a_new_user_reads_each_snapshot_once_and_parses_none(monkeypatch):
    world = World()
    for i in range(70):
        world.committer(i).commit([message(f"o{i}")], user="u", identifier=i)
    fileio = FaultyFileIO(world.fileio)
    committer = world.committer(99, fileio=fileio)
    parsed = []
    from_json = Snapshot.from_json
    monkeypatch.setattr(
        Snapshot,
        "from_json",
        classmethod(lambda cls, text, *, path: parsed.append(path) or from_json(text, path=path)),
    )
    committer.commit([message("n")], user="new", identifier=1)
    loads = [t.path for t in fileio.trace if t.op == "read_bytes" and "/snapshot-" in t.path]
    # all that there were, the one before the base, the missing next one, the one read back, the
    # base once more behind the put, and the second, by whose time the first may expire
    assert len(loads) == 75
    assert len(parsed) == 5  # the base twice, the one before it, and these two


@pytest.mark.parametrize("user", ["u", "dé", 'a"b', "tidelake"])
def test_a_user_is_recognised_however_the_file_spells_the_name(user):
    world = World()
    first = world.committer(1).commit([message("a")], user=user, identifier=7)
    for i in range(5):
        world.committer(2 + i).commit([message(f"o{i}")], user="other", identifier=i)
    path = world.paths.snapshot(1)
    document = json.loads(world.fileio.read_bytes(path))
    escaped = "".join(f"\\u{ord(c):04x}" for c in user)
    spellings = [
        json.dumps(document, indent=2),
        json.dumps(document, ensure_ascii=False, separators=(" , ", " : ")),
        json.dumps(document).replace(json.dumps(user), f'"{escaped}"'),
    ]
    for spelling in spellings:
        world.fileio.replace(path, spelling.encode())
        again = world.committer(20).commit([message("b")], user=user, identifier=7)
        assert again.replayed
        assert again.snapshots == first.snapshots
        assert world.committer(21).filter_committed(user, [6, 7, 8]) == [8]


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 50, b'{"id": 1'])
def test_a_damaged_snapshot_on_the_way_is_an_error(damage):
    world = World()
    for i in range(4):
        world.committer(i).commit([message(f"o{i}")], user="other", identifier=i)
    world.fileio.replace(world.paths.snapshot(2), damage)
    with pytest.raises(CorruptError, match="snapshot-2"):
        world.committer(9).commit([message("n")], user="u", identifier=1)


def test_two_batch_commits_of_one_user_are_two():
    world = World()
    world.committer(1).commit([message("a")], user="u")
    done = world.committer(2).commit([message("b")], user="u")
    assert not done.replayed
    assert world.names() == {"a", "b"}


def test_the_same_batch_messages_are_committed_once():
    world = World()
    world.committer(1).commit([message("z")], user="other")
    messages = [message("a")]
    assert not world.committer(2).commit(messages, user="u", base_snapshot_id=1).replayed
    assert world.committer(3).commit(messages, user="u", base_snapshot_id=1).replayed
    assert world.committer(4).commit(messages, user="u").replayed
    assert world.log.ids() == [1, 2]


def test_a_batch_compaction_that_moves_an_older_file_of_the_user_is_not_taken_for_a_replay():
    world = World()
    low, high = data_file("f", keys=(1, 5)), data_file("f", keys=(1, 5), level=5)
    world.committer(1).commit([message(low)], user="u")
    new = data_file("g", keys=(7, 9), sequences=(10, 19))
    done = world.committer(2).commit([message(new, before=[low], after=[high])], user="u")
    assert not done.replayed
    assert world.names() == {"f", "g"}
    assert (
        world.committer(3).commit([message(before=[low], after=[high])], user="u").snapshots[0].id
        == 3
    )


def test_after_a_crash_between_both_snapshots_the_compaction_is_caught_up():
    world = World()
    new, out = data_file("new", keys=(1, 5)), data_file("out", keys=(1, 5), level=5)
    both = [message(new, before=[new], after=[out])]
    world.committer(1).commit([message(new)], user="u", identifier=1)
    done = world.committer(2).commit(both, user="u", identifier=1)
    assert done.replayed
    assert [s.id for s in done] == [1, 2]
    assert world.names() == {"out"}
    assert [s.id for s in world.committer(3).commit(both, user="u", identifier=1)] == [1, 2]


def test_filter_committed_keeps_what_is_newer_than_the_user_s_last():
    world = World()
    committer = world.committer()
    assert committer.filter_committed("u", [1, 2]) == [1, 2]
    committer.commit([message("a")], user="u", identifier=1)
    committer.commit([message("b")], user="other", identifier=9)
    committer.commit([message("c")], user="u")  # a batch write says nothing about identifiers
    assert committer.filter_committed("u", [1, 2, 0, 3]) == [2, 3]
    assert committer.filter_committed("nobody", [1]) == [1]


# -- races


def test_who_loses_a_race_tries_again_and_leaves_nothing_behind():
    world = World()
    clock = ManualClock()
    env = Env(clock, SeededRng(1), SeededIds(1), SerialExecutor())
    (snapshot,) = world.committer(fileio=Racing(world, 3), env=env).commit(
        [message("mine")], user="u", identifier=1
    )
    assert snapshot.id == 4
    assert world.names() == {"mine", "rival1", "rival2", "rival3"}
    assert world.manifest_files() == world.referenced_manifest_files()
    assert 70 <= clock.now_ms() - 1_700_000_000_000 <= 84  # 10 + 20 + 40 ms, up to a fifth more


def test_who_loses_too_often_gives_up_and_leaves_nothing_behind():
    world = World(**{"commit.max-retries": 2})
    with pytest.raises(ConflictError, match="3 times") as caught:
        world.committer(fileio=Racing(world, 9)).commit([message("mine")], user="u")
    assert caught.value.kind == "commit_race_lost"
    assert "mine" not in world.names()
    assert world.manifest_files() == world.referenced_manifest_files()


def test_a_commit_stops_trying_after_its_timeout():
    world = World(**{"commit.timeout": "25 ms"})
    with pytest.raises(ConflictError):
        world.committer(fileio=Racing(world, 99)).commit([message("mine")], user="u")
    assert len(world.log.ids()) < 5


def test_a_twin_that_commits_first_is_noticed_at_the_next_attempt():
    world = World()

    def twin(number):
        world.committer(50).commit([message("twin")], user="u", identifier=1)

    done = world.committer(fileio=Racing(world, 1, twin)).commit(
        [message("mine")], user="u", identifier=1
    )
    assert done.replayed
    assert world.names() == {"twin"}
    assert world.manifest_files() == world.referenced_manifest_files()


# -- what the storage says while publishing
def put_call(world, seed=1):
    """Number of the call that publishes."""
    trial = FaultyFileIO(_copy(world))
    world.committer(seed, fileio=trial).commit([message("mine")], user="u", identifier=1)
    return next(t.call for t in trial.trace if t.op == "put_if_absent")


def _copy(world):
    from tidelake.fileio import MemoryFileIO

    fresh = MemoryFileIO()
    SchemaLog(fresh, world.paths).create(world.schema)
    return fresh


@pytest.mark.parametrize("mode", [FaultMode.EIO_AFTER, FaultMode.DUP])
def test_a_put_that_worked_though_it_looked_otherwise_is_acknowledged(mode):
    world = World()
    fileio = FaultyFileIO(world.fileio, {put_call(world): mode})
    (snapshot,) = world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
    assert snapshot.id == 1
    assert world.log.ids() == [1]
    assert world.names() == {"mine"}


def test_a_put_that_failed_is_tried_again():
    world = World()
    fileio = FaultyFileIO(world.fileio, {put_call(world): FaultMode.EIO_BEFORE})
    (snapshot,) = world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
    assert snapshot.id == 1
    assert world.names() == {"mine"}


@pytest.mark.parametrize("mode", [FaultMode.EIO_AFTER, FaultMode.EIO_BEFORE])
def test_an_outcome_that_cannot_be_found_out_is_said_to_be_unknown_and_nothing_is_deleted(mode):
    world = World()
    call = put_call(world)
    plan = {call: mode} | dict.fromkeys(range(call + 1, call + 10), FaultMode.EIO_BEFORE)
    fileio = FaultyFileIO(world.fileio, plan)
    with pytest.raises(OutcomeUnknownError, match="Nothing was deleted"):
        world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
    assert "delete" not in {t.op for t in fileio.trace}
    assert len(world.manifest_files()) == 3
    # trying again settles it
    world.committer(2).commit([message("mine")], user="u", identifier=1)
    assert world.log.ids() == [1]
    assert world.names() == {"mine"}


def test_after_a_doubtful_put_any_further_failure_is_an_unknown_outcome():
    world = World()
    call = put_call(world)
    # not there when read back; then the storage stays broken
    plan = {call: FaultMode.EIO_BEFORE}
    plan |= dict.fromkeys(range(call + 2, call + 40), FaultMode.EIO_BEFORE)
    fileio = FaultyFileIO(world.fileio, plan)
    with pytest.raises(OutcomeUnknownError):
        world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
    assert "delete" not in {t.op for t in fileio.trace}


def test_a_failure_before_publishing_is_a_plain_one_and_leaves_nothing_behind():
    world = World()
    for call in range(1, put_call(world)):
        fileio = FaultyFileIO(world.fileio, {call: FaultMode.EIO_AFTER})
        if _is_hint(world, call):
            world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
            world = World()
            continue
        with pytest.raises(StorageError) as caught:
            world.committer(fileio=fileio).commit([message("mine")], user="u", identifier=1)
        assert not isinstance(caught.value, OutcomeUnknownError)
        assert world.log.ids() == []
        assert world.manifest_files() == set()


def _is_hint(world, call):
    """Whether a call only reads a hint: failing to is no matter."""
    trial = FaultyFileIO(_copy(world))
    world.committer(fileio=trial).commit([message("mine")], user="u", identifier=1)
    return trial.trace[call - 1].path.endswith(("LATEST", "EARLIEST"))


def test_a_snapshot_replaced_by_an_engine_that_renames_is_not_acknowledged():
    world = World()

    class Replacing(FaultyFileIO):
        def put_if_absent(self, path, data, **held):
            done = super().put_if_absent(path, data, **held)
            if path.endswith("snapshot-1"):
                world.committer(77, fileio=_renamed(world)).commit([message("rival")], user="r")
            return done

    (snapshot,) = world.committer(fileio=Replacing(world.fileio)).commit(
        [message("mine")], user="u", identifier=1
    )
    assert snapshot.id == 2
    assert world.names() == {"mine", "rival"}


def _renamed(world):
    """A storage on which snapshot-1 does not exist and a put replaces it."""

    class Renaming(FaultyFileIO):
        def exists(self, path, **held):
            return False if path.endswith("snapshot-1") else super().exists(path, **held)

        def list_dir(self, path):
            return [s for s in super().list_dir(path) if s.name != "snapshot-1"]

        def put_if_absent(self, path, data, **held):
            self._inner.replace(path, data)
            return True

    return Renaming(world.fileio)


# -- what a snapshot takes over
def test_watermark_statistics_and_row_ids_are_taken_over():
    world = World()
    (first,) = world.committer(1).commit([message("a")], user="u", identifier=1)
    document = first.to_document() | {
        "id": 2,
        "watermark": 17,
        "statistics": "stat-1",
        "nextRowId": 40,
        "properties": {"once": "1"},
    }
    assert publish(world.log, Snapshot.from_document(document, path="x"))
    (third,) = world.committer(2).commit([message("b")], user="u", identifier=2)
    assert (third.watermark, third.statistics, third.next_row_id) == (17, "stat-1", 40)
    assert third.properties == {BASE: first.base_manifest_list}, "the base's own are not handed on"
    SchemaLog(world.fileio, world.paths).create(TableSchema(1, KEYED.fields, 1, (), ("k",)))
    (fourth,) = world.committer(3).commit([message("c")], user="u", identifier=3)
    assert (fourth.schema_id, fourth.statistics, fourth.watermark) == (1, None, 17)


def test_the_log_s_times_never_fall():
    world = World()
    late = Env(ManualClock(9_000), SeededRng(1), SeededIds(1), SerialExecutor())
    early = Env(ManualClock(1_000), SeededRng(2), SeededIds(2), SerialExecutor())
    world.committer(env=late).commit([message("a")], user="u", identifier=1)
    world.committer(env=early).commit([message("b")], user="u", identifier=2)
    assert [world.log.load(i).time_ms for i in (1, 2)] == [9_000, 9_000]


def test_a_base_without_a_record_count_is_counted():
    world = World()
    (first,) = world.committer(1).commit([message("a")], user="u", identifier=1)
    document = first.to_document() | {"id": 2, "totalRecordCount": None}
    publish(world.log, Snapshot.from_document(document, path="x"))
    document = {k: v for k, v in document.items() if k != "totalRecordCount"}
    (third,) = world.committer(2).commit([message("b", place=(EMPTY_ROW, 1))], user="v")
    assert third.total_record_count == 20


# -- refusals
def test_a_message_given_twice_is_refused_before_anything_is_written():
    world = World()
    with pytest.raises(InvalidInputError, match="'a' occurs twice"):
        world.committer().commit([message("a"), message("a")], user="u")
    assert world.manifest_files() == set()


def test_messages_of_one_partition_have_one_number_of_buckets():
    world = World()
    with pytest.raises(InvalidInputError, match="with 2 and with 4 buckets"):
        world.committer().commit([message("a"), message("b", total_buckets=4)], user="u")


@pytest.mark.parametrize("user", ["", "a/b", "x" * 300, "a\nb"])
def test_a_user_whose_name_is_none_is_refused(user):
    world = World()
    with pytest.raises(InvalidInputError, match="user name"):
        world.committer().commit([message("a")], user=user)
    assert world.log.ids() == []


def test_a_kind_that_does_not_fit_is_refused():
    committer = World().committer()
    for kind in (CommitKind.OVERWRITE, CommitKind.ANALYZE, CommitKind.COMPACT):
        with pytest.raises(InvalidInputError, match="does not go with"):
            committer.commit([message("a")], user="u", kind=kind)


def test_a_table_with_deletion_vectors_is_refused():
    world = World()
    vectors = IndexFile(DELETION_VECTORS, "index-a-0", 33, 1, ranges=(("data-a", 1, 24, 2),))
    entries = [IndexEntry(EMPTY_ROW, 0, vectors)]
    write_index_manifest(world.fileio, world.paths, "index-manifest-1", entries)
    (first,) = world.committer(1).commit([message("a")], user="u", identifier=1)
    document = first.to_document() | {"id": 2, "indexManifest": "index-manifest-1"}
    publish(world.log, Snapshot.from_document(document, path="x"))
    before = world.manifest_files()
    with pytest.raises(UnsupportedError, match="DELETION_VECTORS"):
        world.committer(2).commit([message("b")], user="u", identifier=2)
    assert world.manifest_files() == before


def test_a_dropped_table_is_not_brought_back():
    world = World()
    committer = world.committer()
    world.fileio.delete_dir("/wh/db.db/t")
    with pytest.raises(NotFoundError, match="dropped"):
        committer.commit([message("a")], user="u")
    assert world.fileio.list_dir("/wh/db.db") == []


# -- cost
def test_the_cost_of_a_commit_does_not_grow_with_their_number():
    world = World(APPEND)
    committer = world.committer()
    calls, lists = [], []
    for i in range(300):
        fileio = FaultyFileIO(world.fileio)
        # one process, one cache
        committer._context = dataclasses.replace(committer._context, fileio=fileio)
        committer.commit([message(f"f{i}", total_buckets=-1)], user="u", identifier=i)
        calls.append(len(fileio.trace))
        lists.append(len(manifest_files(world.fileio, world.paths, world.log.latest(),
                                        ManifestCache(1 << 24))))  # fmt: skip
    assert max(lists) <= 40
    assert max(calls[-100:]) <= max(calls[:100])
    assert len(world.names()) == 300


def test_batch_identifier_is_paimon_s():
    assert BATCH_IDENTIFIER == 9223372036854775807
    assert parse_type("BIGINT") == KEYED.fields[0].type.as_nullable()


# -- rare turns
def test_a_put_that_takes_effect_late_is_found_at_the_next_attempt():
    world = World()

    class Late(FaultyFileIO):
        """The first put of a snapshot fails, and happens after it was looked for."""

        late = None

        def put_if_absent(self, path, data, **held):
            if self.late is None and "/snapshot-" in path:
                self.late = path, data
                raise StorageError("timed out", path=path)
            return super().put_if_absent(path, data, **held)

        def read_bytes(self, path, **bound):
            try:
                return super().read_bytes(path, **bound)
            finally:
                if self.late and path == self.late[0] and not self._inner.exists(path):
                    self._inner.put_if_absent(*self.late)

    done = world.committer(fileio=Late(world.fileio)).commit([message("mine")], user="u")
    assert [s.id for s in done] == [1]
    assert not done.replayed
    assert world.names() == {"mine"}
    assert world.referenced_manifest_files() <= world.manifest_files()


def test_a_compaction_in_doubt_that_gives_way_then_is_unknown():
    world = World()
    old = keyed("old", (1, 5))
    world.committer(1).commit([message(old)], user="u", identifier=1)

    class Doubtful(FaultyFileIO):
        def put_if_absent(self, path, data, **held):
            if self.trace and not getattr(self, "failed", False):
                self.failed = True
                raise StorageError("timed out", path=path)
            return super().put_if_absent(path, data, **held)

        def exists(self, path, **held):
            if getattr(self, "failed", False) and not getattr(self, "raced", False):
                self.raced = True
                world.committer(50).commit(
                    [message(before=[old], after=[keyed("theirs", (1, 5), level=5)])], user="c"
                )
            return super().exists(path, **held)

    mine = [message(before=[old], after=[keyed("mine", (1, 5), level=5)])]
    with pytest.raises(OutcomeUnknownError):
        world.committer(9, fileio=Doubtful(world.fileio)).commit(mine, user="d")
    assert world.names() == {"theirs"}


def test_expired_snapshots_end_the_searches():
    world = World()
    for i in range(6):
        file = data_file(f"f{i}", keys=(1, 5), sequences=(10 * i, 10 * i + 9))
        world.committer(i).commit([message(file)], user=f"u{i}", identifier=1)
    for snapshot_id in (1, 2, 3):
        world.fileio.delete(world.paths.snapshot(snapshot_id))
    committer = world.committer(20)
    assert committer.filter_committed("u0", [1]) == [1]  # nothing is known of it any more
    file = data_file("mine", keys=(1, 5), sequences=(45, 45))
    done = committer.commit([message(file)], user="u9", identifier=1, base_snapshot_id=1)
    assert done.interleaved == ((EMPTY_ROW, 0),)
    assert not done.replayed


def test_a_compaction_of_a_dropped_table_is_refused():
    world = World()
    old = keyed("old", (1, 5))
    world.committer(1).commit([message(old)], user="u", identifier=1)
    world.fileio.delete(world.paths.schema(0))
    with pytest.raises(NotFoundError, match="has no schema"):
        world.committer(2).commit([message(before=[old])], user="c")


def test_a_watermark_is_kept_and_never_falls():
    world = World()
    seen = []
    for i, given in enumerate([None, 500, 300, None, 700]):
        done = world.committer(i).commit(
            [message(f"f{i}")], user="u", identifier=i, stream=StreamProgress(given)
        )
        seen += [snapshot.watermark for snapshot in done]
    assert seen == [None, 500, 500, 500, 700]


def test_a_compaction_and_an_overwrite_have_the_watermark_too():
    world = World()
    new = data_file("new", keys=(1, 5), sequences=(0, 9))
    out = data_file("out", keys=(1, 5), level=5)
    done = world.committer().commit(
        [message(new, before=[new], after=[out])], user="u", stream=StreamProgress(40)
    )
    over = world.committer(2).overwrite([message("o")], user="v", stream=StreamProgress(90))
    assert [snapshot.watermark for snapshot in (*done, *over)] == [40, 40, 90]


@pytest.mark.parametrize("how", ["commit", "overwrite", "dynamic"])
def test_an_empty_commit_that_is_wanted_makes_a_snapshot_once(how):
    world = World()
    for _ in range(2):
        committer = world.committer()
        wanted = {"user": "u", "identifier": 3, "stream": StreamProgress(9, is_wanted_empty=True)}
        if how == "commit":
            committer.commit([], **wanted)
        else:
            committer.overwrite([], partitions="dynamic" if how == "dynamic" else None, **wanted)
    assert world.log.ids() == [1]
    assert (world.log.load(1).watermark, world.log.load(1).commit_identifier) == (9, 3)
    assert world.names() == set()
