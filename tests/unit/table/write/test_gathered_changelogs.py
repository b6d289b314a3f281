"""``precommit-compact``: one changelog file for each partition, and the same changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from proving.fsck import check_table

import tidelake
from tidelake import ConflictError
from tidelake.commit import Committer
from tidelake.errors import CorruptError, TidelakeError
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.format.compacted import slice_of
from tidelake.metadata.manifest.snapshot_entries import changelog_manifests, read_manifests
from tidelake.testing import FaultMode, FaultyFileIO

SCHEMA = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
KEYS = range(12)


def table_of(fileio, **options):
    catalog = tidelake.open("/w", fileio=fileio)
    given = {"bucket": "3", "changelog-producer": "input", "precommit-compact": "true"} | options
    return catalog.create_table(
        "db.t", SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=given
    )


def fill(table, value=0, partitions="ab"):
    table.write([{"p": p, "k": k, "v": value} for p in partitions for k in KEYS])


def changes(table, start=0):
    found = table.changes(start, mode="changelog").to_pylist()
    return sorted(tuple(row.values()) for row in found)


def changelog_paths(fileio):
    """The files that there are, by their directory."""
    where = [f"/w/db.db/t/p={p}/bucket-{b}" for p in "ab" for b in range(3)]
    return [
        f"{directory}/{file.name}"
        for directory in where
        for file in fileio.list_dir(directory)
        if "changelog" in file.name
    ]


@pytest.mark.parametrize("producer", ["input", "lookup"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_each_partition_has_one_file_and_the_changes_are_the_same(file_format, producer):
    fileio, plain = MemoryFileIO(), MemoryFileIO()
    options = {"file.format": file_format, "changelog-producer": producer}
    one = table_of(fileio, **options)
    many = table_of(plain, **options | {"precommit-compact": "false"})
    for value in range(2):
        fill(one, value)
        fill(many, value)
    assert changes(one) == changes(many)
    files, single = changelog_paths(fileio), changelog_paths(plain)
    assert (len(files), len(single)) == (4, 12)
    assert sum(map(fileio.size, files)) == sum(map(plain.size, single))
    [first, *_] = one.changes_batches(0, columns=["k"], mode="changelog")
    assert first.num_columns == 2


def test_parts_have_the_names_that_flink_gives_them():
    fileio = MemoryFileIO()
    table = table_of(fileio)
    fill(table, partitions="a")
    [path] = changelog_paths(fileio)
    entries = table.handle.snapshots.latest()
    parts = [
        slice_of(f"/w/db.db/t/p=a/bucket-{row['bucket']}/{row['file_name']}")
        for row in changelog_rows(table, entries)
    ]
    assert {part.path for part in parts} == {path}
    assert path.startswith("/w/db.db/t/p=a/bucket-0/compacted-changelog-")
    assert path.endswith(f"$0-{parts[0].length_bytes}.cc-parquet")
    ends = [part.offset_bytes + part.length_bytes for part in parts]
    assert [part.offset_bytes for part in parts] == [0, *ends[:-1]]
    assert ends[-1] == fileio.size(path)


def changelog_rows(table, snapshot):
    where, cache = (table.handle.fileio, table.handle.paths), table.handle.manifests
    manifests = changelog_manifests(*where, snapshot, cache)
    found = read_manifests(*where, manifests, cache)
    rows = [
        {"bucket": bucket, "file_name": file.file_name}
        for entries in found
        for bucket, file in zip(entries["bucket"].tolist(), entries.files(), strict=True)
    ]
    return sorted(rows, key=lambda row: row["bucket"])


def test_a_stream_gives_the_changes_and_expiry_deletes_the_file():
    fileio = MemoryFileIO()
    table = table_of(fileio)
    fill(table)
    fill(table, 1)
    rows = [row for batch in table.stream(start=2, timeout=0) for row in batch.data.to_pylist()]
    assert {row["v"] for row in rows} == {1}
    assert len(rows) == 2 * len(KEYS)
    before = set(changelog_paths(fileio))
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert len(before) == 4
    assert len(before & set(changelog_paths(fileio))) == 2


def test_one_bucket_has_a_file_of_its_own():
    fileio = MemoryFileIO()
    fill(table_of(fileio, bucket="1"), partitions="a")
    [path] = changelog_paths(fileio)
    assert slice_of(path) is None


def test_files_as_large_as_a_data_file_stay_alone():
    fileio = MemoryFileIO()
    table = table_of(fileio, **{"target-file-size": "1 b"})
    fill(table, partitions="a")
    assert all(slice_of(path) is None for path in changelog_paths(fileio))
    assert len(changes(table)) == len(KEYS)


def test_a_refused_commit_leaves_no_file(monkeypatch):
    fileio = MemoryFileIO()
    table = table_of(fileio)

    def refuse(*_, **__):
        raise ConflictError("refused", kind="test")

    monkeypatch.setattr(Committer, "commit", refuse)
    with pytest.raises(ConflictError):
        fill(table)
    assert changelog_paths(fileio) == []


def write_once_more(fileio):
    """The same commit each time: what it does again where it was made already is nothing."""
    rows = [{"p": "a", "k": k, "v": 1} for k in KEYS]
    table = tidelake.open("/w", fileio=fileio).table("db.t")
    table.write(rows, commit_user="u", commit_identifier=1)
    return table


@pytest.fixture(scope="module")
def calls():
    """The numbers of a write's calls, from the first of the large file to the last."""
    memory = MemoryFileIO()
    table_of(memory, bucket="2")
    trial = FaultyFileIO(memory)
    write_once_more(trial)
    paths = [call.path for call in trial.trace]
    first = next(n for n, path in enumerate(paths, 1) if "compacted-changelog" in path)
    assert len(paths) - first > 10
    return range(first, len(paths) + 1)


@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.ENOSPC])
def test_no_fault_loses_or_doubles_a_change(mode, calls):
    failed = 0
    for call in calls:
        memory = MemoryFileIO()
        table_of(memory, bucket="2")
        try:
            write_once_more(FaultyFileIO(memory, {call: mode}))
        except TidelakeError:
            failed += 1
        table = write_once_more(memory)
        assert changes(table) == [("+I", "a", k, 1) for k in KEYS], call
        check_table(memory, "/w/db.db/t", newest_only=True)
    assert failed > 3


def test_a_file_that_is_cut_short_is_damage(tmp_path):
    fileio = LocalFileIO()
    table = tidelake.open(tmp_path).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int32(), nullable=False)]),
        primary_keys=["k"],
        options={"bucket": "3", "changelog-producer": "input", "precommit-compact": "true"},
    )
    table.write([{"k": k} for k in KEYS])
    [path] = tmp_path.rglob("compacted-changelog-*")
    data = fileio.read_bytes(str(path))
    path.chmod(0o644)
    path.write_bytes(data[:-10])
    with pytest.raises(CorruptError, match=r"compacted-changelog-.* a part of it ends at byte"):
        changes(table)
