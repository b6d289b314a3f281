"""The life of Iceberg metadata: rollback, expiry, tags, failures, races, places, refusals."""

import json
import logging

import pyarrow as pa
import pytest
from unit.commit.iceberg.iceberg_lake import OPTIONS, IcebergLake, assert_same_rows, rows_of

import tidelake
from tidelake.catalog.staging import put_in_place, staged_table
from tidelake.commit.iceberg import sync
from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.commit.iceberg.shown_files import ShownFiles
from tidelake.commit.iceberg.version_hint import VersionHint
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.maintenance import call
from tidelake.table.jobs.expiry import expire_after_compaction
from tidelake.telemetry import Env

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def lake(tmp_path):
    return IcebergLake(tmp_path, SCHEMA)


def write(lake, *keys):
    for k in keys:
        lake.table.write([{"k": k, "v": str(k)}])


def shown(lake):
    return [s["snapshot-id"] for s in lake.document()["snapshots"]]


def named_files(lake):
    """All files that the newest document leads to."""
    names = {f"v{lake.version}.metadata.json", "version-hint.text"}
    for snapshot in lake.document()["snapshots"]:
        names.add(snapshot["manifest-list"].rpartition("/")[2])
        for manifest in lake.records(snapshot["manifest-list"]):
            names.add(manifest["manifest_path"].rpartition("/")[2])
    return sorted(names)


def test_a_rollback_takes_the_metadata_back_and_new_commits_go_on_from_there(lake):
    write(lake, 1, 2, 3, 4)
    lake.table.rollback_to(snapshot_id=2)
    assert (lake.version, shown(lake)) == (2, [1, 2])
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)
    write(lake, 7)
    assert (lake.version, shown(lake)) == (3, [1, 2, 3])
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)


def test_a_commit_after_a_rollback_that_nobody_followed_shows_its_own_rows(lake):
    write(lake, 1, 2, 3)
    quiet = lake.table.with_options({"metadata.iceberg.storage": "disabled"})
    quiet.rollback_to(snapshot_id=1)
    quiet.write([{"k": 8, "v": "other"}])
    assert lake.version == 3
    write(lake, 9)
    assert (lake.version, shown(lake)) == (3, [1, 2, 3])
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)


def test_a_rollback_that_nobody_followed_leaves_the_manifests_of_kept_snapshots(lake):
    write(lake, 1, 2, 3, 4, 5, 6, 7, 8)
    lake.table.with_options({"metadata.iceberg.storage": "disabled"}).rollback_to(snapshot_id=5)
    lake.table.write([{"k": 9, "v": "9"}], mode="overwrite")
    assert shown(lake) == [1, 2, 3, 4, 5, 6]
    assert lake.names() == named_files(lake)
    for snapshot_id, keys in ((4, [1, 2, 3, 4]), (5, [1, 2, 3, 4, 5]), (6, [9])):
        found = lake.iceberg().scan(snapshot_id=snapshot_id).to_arrow()
        assert sorted(found.column("k").to_pylist()) == keys


def test_expired_snapshots_and_their_manifests_go(tmp_path):
    options = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    lake = IcebergLake(tmp_path, SCHEMA, options=options)
    write(lake, 1, 2, 3, 4, 5)
    assert shown(lake) == [4, 5]
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)
    lake.table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert shown(lake) == [5]
    assert lake.names() == named_files(lake)


def test_tags_are_refs_and_keep_their_snapshot(tmp_path):
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    lake = IcebergLake(tmp_path, SCHEMA, options=options)
    write(lake, 1)
    lake.table.tags.create("first")
    assert lake.document()["refs"]["first"] == {"snapshot-id": 1, "type": "tag"}
    before = rows_of(lake.table.to_arrow())
    write(lake, 2, 3)
    assert shown(lake) == [1, 3]
    table = lake.iceberg()
    found = table.scan(snapshot_id=table.snapshot_by_name("first").snapshot_id).to_arrow()
    assert rows_of(found) == before
    lake.table.tags.rename("first", "one")
    assert sorted(lake.document()["refs"]) == ["main", "one"]
    lake.table.tags.delete("one")
    assert (sorted(lake.document()["refs"]), shown(lake)) == (["main"], [3])
    assert lake.names() == named_files(lake)


def test_a_failure_is_a_warning_and_the_next_commit_makes_up_for_it(lake, caplog):
    write(lake, 1)
    hidden = lake.directory.with_name("hidden")
    lake.directory.rename(hidden)
    lake.directory.write_text("a file where the directory was")
    with caplog.at_level(logging.WARNING, "tidelake"):
        write(lake, 2)
    assert "CALL sys.sync_iceberg('db.t')" in caplog.text
    assert lake.table.count() == 2
    with pytest.raises(TidelakeError):
        lake.table.maintenance.sync_iceberg()
    lake.directory.unlink()
    hidden.rename(lake.directory)
    write(lake, 3)
    assert shown(lake) == [1, 2, 3]
    assert_same_rows(lake)


def test_lost_and_damaged_files_are_made_again(lake):
    write(lake, 1, 2, 3)
    for lost in ("snap-*.avro", "*.metadata.json", "version-hint.text"):
        for path in lake.directory.glob(lost):
            path.unlink()
        write(lake, 9)
        assert_same_rows(lake)
    for path in lake.directory.glob("*.avro"):
        path.write_bytes(path.read_bytes()[:-3])
    lake.table.maintenance.sync_iceberg(from_scratch=True)
    assert_same_rows(lake)
    (lake.directory / f"v{lake.version}.metadata.json").write_text("{}")
    (lake.directory / "version-hint.text").write_text("x")
    answer = call(lake.catalog, "sys.sync_iceberg", ("db.t",)).to_pylist()
    path = str(lake.directory / f"v{lake.version}.metadata.json")
    assert answer == [{"metadata_file": path, "snapshot_id": 6, "snapshots_count": 1}]
    assert_same_rows(lake)


@pytest.mark.parametrize("error", [AttributeError("x"), MemoryError()])
def test_whatever_fails_is_a_warning(lake, caplog, monkeypatch, error):
    def fail(*_):
        raise error

    caplog.set_level(logging.WARNING, "tidelake")
    with monkeypatch.context() as patched:
        patched.setattr(ShownFiles, "live", fail)
        write(lake, 1)
    assert "CALL sys.sync_iceberg('db.t')" in caplog.text
    assert lake.table.count() == 1
    write(lake, 2)
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)


def test_other_damage_of_the_base_is_mended_by_the_next_commit(lake, caplog):
    write(lake, 1, 2)
    document = lake.document()
    document["snapshots"][-1]["summary"]["total-files-size"] = "x"
    (lake.directory / "v2.metadata.json").write_text(json.dumps(document))
    with caplog.at_level(logging.WARNING, "tidelake"):
        write(lake, 3)
    assert caplog.text == ""
    assert shown(lake) == [3]
    assert_same_rows(lake)
    assert lake.names() == named_files(lake)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("snapshots", [{"snapshot-id": 2}]),
        ("snapshots", {}),
        ("partition-specs", []),
        ("format-version", "2"),
        ("location", None),
        ("next-row-id", "x"),
    ],
)
def test_a_document_with_other_values_is_no_base(lake, key, value):
    write(lake, 1, 2)
    path = lake.directory / "v2.metadata.json"
    path.write_text(json.dumps(lake.document() | {key: value}))
    write(lake, 3)
    assert shown(lake) == [3]
    assert_same_rows(lake)


def test_a_second_synchronisation_writes_nothing(lake):
    write(lake, 1, 2)
    before = {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in lake.directory.iterdir()}
    lake.table.maintenance.sync_iceberg()
    after = {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in lake.directory.iterdir()}
    assert after == before


def test_older_metadata_files_are_kept_if_wanted(tmp_path):
    for wanted, names in (
        ({"metadata.iceberg.previous-versions-max": "1"}, [3, 4]),
        ({"metadata.iceberg.delete-after-commit.enabled": "false"}, [1, 2, 3, 4]),
    ):
        lake = IcebergLake(tmp_path / str(len(names)), SCHEMA, options=wanted)
        write(lake, 1, 2, 3, 4)
        assert lake.names(".json") == [f"v{i}.metadata.json" for i in names]


def test_the_hint_of_a_slow_writer_never_goes_back(lake):
    write(lake, 1, 2)
    handle = lake.table.handle
    settings = IcebergSettings.of(
        handle.options, handle.paths.location, has_primary_key=False, table="db.t"
    )
    hint = VersionHint(handle.fileio, settings, handle.snapshots)
    (lake.directory / "v1.metadata.json").write_text(json.dumps(lake.document()))
    with handle.fileio.open_dir(settings.metadata_dir) as place:
        assert hint.move_to(1, within=place) == 2, "it is newer already"
        (lake.directory / "version-hint.text").write_text("1")  # the slow one wrote after all
        assert hint.move_to(1, within=place) == 2, "it looks again after it has written"
    assert lake.version == 2


def test_two_writers_of_one_version_leave_one_whole(lake):
    write(lake, 1)
    quiet = lake.table.with_options({"metadata.iceberg.storage": "disabled"})
    quiet.write([{"k": 2, "v": "2"}])
    context = lake.table.handle.commit_context()
    real = context.fileio.put_if_absent

    class Rival:
        """The other writer is faster at the last moment."""

        def __getattr__(self, name):
            return getattr(lake.table.handle.fileio, name)

        def put_if_absent(self, path, data, *, within=None):
            sync(context)
            return real(path, data, within=within)

    slow = lake.table.handle.with_options(lake.table.handle.options)
    sync(type(context)(Rival(), *_rest(slow.commit_context())))
    assert (lake.version, shown(lake)) == (2, [1, 2])
    assert lake.names() == named_files(lake)
    assert_same_rows(lake)


def test_the_slower_of_two_writers_deletes_no_file_of_the_faster_ones_document(lake):
    write(lake, 1, 2)
    quiet = lake.table.with_options({"metadata.iceberg.storage": "disabled"})
    quiet.write([{"k": 3, "v": "3"}])
    context = lake.table.handle.commit_context()

    class Rival:
        """The other writer saw a tag that was created after this one had read the tags."""

        def __getattr__(self, name):
            return getattr(context.fileio, name)

        def read_bytes(self, path, **more):
            if path.endswith("version-hint.text") and not quiet.tags.list():
                quiet.tags.create("first", snapshot_id=1)
                quiet.maintenance.expire_snapshots(retain_max=2, retain_min=2)
            return context.fileio.read_bytes(path, **more)

        def put_if_absent(self, path, data, *, within=None):
            sync(context)
            return context.fileio.put_if_absent(path, data, within=within)

    sync(type(context)(Rival(), *_rest(context)))
    assert (lake.version, shown(lake)) == (3, [1, 2, 3])
    assert lake.names() == named_files(lake)
    found = lake.iceberg().scan(snapshot_id=1).to_arrow()
    assert found.to_pylist() == [{"k": 1, "v": "1"}]


def _rest(context):
    return (
        context.paths,
        context.schema,
        context.options,
        context.env,
        context.manifests,
        context.table,
    )


def test_a_hadoop_catalog_lies_in_the_warehouse(tmp_path):
    lake = IcebergLake(tmp_path, SCHEMA, options={"metadata.iceberg.storage": "hadoop-catalog"})
    write(lake, 1, 2)
    directory = tmp_path / "iceberg" / "db" / "t" / "metadata"
    assert not lake.directory.exists()
    found = lake.iceberg(directory).scan().to_arrow()
    assert rows_of(found) == rows_of(lake.table.to_arrow())
    assert lake.catalog.list_tables("db") == ["t"]
    lake.catalog.drop_table("db.t")
    again = IcebergLake(tmp_path, SCHEMA, options={"metadata.iceberg.storage": "hadoop-catalog"})
    write(again, 5)
    assert rows_of(again.iceberg(directory).scan().to_arrow()) == rows_of(again.table.to_arrow())


def test_a_renamed_table_gets_new_metadata(lake):
    write(lake, 1, 2)
    table = lake.catalog.rename_table("db.t", "db.u")
    directory = lake.directory.parent.with_name("u") / "metadata"
    assert rows_of(lake.iceberg(directory).scan().to_arrow()) == rows_of(table.to_arrow())
    table.write([{"k": 3, "v": "3"}])
    assert rows_of(lake.iceberg(directory).scan().to_arrow()) == rows_of(table.to_arrow())


def test_a_replaced_table_gets_new_metadata(lake):
    write(lake, 1)
    staged = staged_table(lake.catalog, "db.t", SCHEMA, options=OPTIONS)
    staged.write([{"k": 2, "v": "2"}])
    put_in_place(lake.catalog, staged)
    assert_same_rows(lake, lake.catalog.table("db.t"))


def test_metadata_of_a_table_that_had_none_begins_with_all_files(tmp_path):
    catalog = tidelake.open(str(tmp_path))
    table = catalog.create_table("db.t", SCHEMA)
    for k in range(3):
        table.write([{"k": k, "v": None}])
    with pytest.raises(InvalidInputError, match="has no Iceberg metadata"):
        table.maintenance.sync_iceberg()
    assert not (tmp_path / "db.db/t/metadata").exists()
    table = table.set_options(
        {
            "metadata.iceberg.storage": "table-location",
            "metadata.iceberg.manifest-compression": "zstd",
        }
    )
    assert table.maintenance.sync_iceberg().snapshots_count == 1
    lake = object.__new__(IcebergLake)
    lake.warehouse, lake.catalog, lake.table = tmp_path, catalog, table
    assert_same_rows(lake)


@pytest.mark.parametrize(
    ("type_", "version", "reason"),
    [
        ("TINYINT", 2, "is a TINYINT, which Iceberg does not have: make it an INT"),
        ("SMALLINT", 3, "is a SMALLINT"),
        ("TIME", 3, "readers cannot read from these files"),
        ("TIMESTAMP(0)", 3, "give it 3 digits or more"),
        ("TIMESTAMP(9)", 2, "only version 3 of Iceberg has"),
        ("MULTISET<INT>", 3, "readers cannot read from these files"),
        ("ARRAY<ROW<a SMALLINT>>", 2, "is a SMALLINT"),
    ],
)
def test_types_that_iceberg_lacks_are_refused(tmp_path, type_, version, reason):
    catalog = tidelake.open(str(tmp_path))
    options = {
        "metadata.iceberg.storage": "table-location",
        "metadata.iceberg.format-version": str(version),
    }
    fields = {"k": "INT", "c": type_}
    with pytest.raises(UnsupportedError, match=r"(?s)column 'c'.*" + reason.replace("(", r"\(")):
        catalog.create_table("db.t", fields, options=options)
    table = catalog.create_table("db.t", fields)
    with pytest.raises(UnsupportedError, match="column 'c'"):
        table.set_options(options)
    other = catalog.create_table("db.u", {"k": "INT"}, options=options)
    with pytest.raises(UnsupportedError, match="column 'c'"):
        other.add_column("c", type_)


def test_changes_of_types_that_iceberg_cannot_follow_are_refused(lake):
    table = lake.table.add_column("n", "INT")
    for fine in ("BIGINT",):
        table = table.retype_column("n", fine)
    with pytest.raises(UnsupportedError, match="Iceberg cannot read column 'n' as STRING"):
        table.retype_column("n", "STRING")
    with pytest.raises(UnsupportedError, match="registers no table in Hive"):
        table.set_options({"metadata.iceberg.storage": "hive-catalog"})
    with pytest.raises(UnsupportedError, match="registers no table"):
        table.set_options({"metadata.iceberg.database": "x"})
    with pytest.raises(TidelakeError, match="format-versio"):
        table.set_options({"metadata.iceberg.format-versio": "3"})


class Looking(LocalFileIO):
    """Local files; something looks at them after each data file that is deleted."""

    def __init__(self):
        super().__init__(Env.system().ids)
        self.look = lambda: None

    def delete(self, path, **more):
        found = super().delete(path, **more)
        if path.endswith(".parquet"):
            self.look()
        return found


@pytest.mark.parametrize("by", ["commit", "call", "job"])
def test_a_reader_finds_its_files_while_old_snapshots_expire(tmp_path, by):
    """Where so few snapshots are retained that the one that readers see may expire."""
    files = Looking()
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    lake = IcebergLake(tmp_path, SCHEMA, options=retained, fileio=files)
    seen = []
    files.look = lambda: seen.append(sorted(lake.iceberg().scan().to_arrow()["k"].to_pylist()))
    table = lake.table
    if by != "commit":  # these leave expiry, or Iceberg's metadata, to others
        table = table.with_options({"write-only": "true"})
    table.write([{"k": 1, "v": "a"}])
    if by != "commit":
        table = table.with_options({"metadata.iceberg.storage": "disabled"})
    table.write([{"k": 2, "v": "b"}], mode="overwrite")
    if by == "call":
        lake.table.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=None)
    elif by == "job":
        expire_after_compaction(lake.table.with_options({"write-only": "true"}).handle)
    assert seen
    assert all(keys == [2] for keys in seen)
    assert lake.version == 2
    assert shown(lake) == [2]
    assert lake.names() == named_files(lake)
