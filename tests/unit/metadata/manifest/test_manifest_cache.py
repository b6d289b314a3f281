"""What was decoded stays decoded, within its bound."""

import threading
from dataclasses import replace

import pytest
from unit.metadata.made import PARTITIONED, PATHS, added, partition, write_manifest, written

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import (
    EntryTable,
    ManifestCache,
    ManifestFile,
)
from tidelake.metadata.manifest.manifest_cache import TABLE_BYTES
from tidelake.testing import DelayedFileIO, FaultyFileIO


def test_a_manifest_is_decoded_once():
    fileio, path, file = written()
    counting = FaultyFileIO(fileio)
    cache = ManifestCache(1 << 20)
    assert cache.entries(counting, path) is cache.entries(counting, path, expected=file)
    assert len(counting.trace) == 1
    assert cache.nbytes > 0


def test_the_cache_throws_out_what_was_not_used_longest():
    table = EntryTable.of([added()])
    size_bytes = table.nbytes + TABLE_BYTES
    cache = ManifestCache(size_bytes * 2)
    for name in ("a", "b"):
        cache.keep(name, table)
    empty = MemoryFileIO()
    cache.entries(empty, "a")
    cache.keep("c", table)
    assert cache.entries(empty, "a") is table
    assert cache.entries(empty, "c") is table
    with pytest.raises(NotFoundError):
        cache.entries(empty, "/b")
    assert cache.nbytes == size_bytes * 2


def test_what_is_larger_than_the_cache_is_not_kept():
    fileio, path, _ = written()
    cache = ManifestCache(10)
    assert cache.entries(fileio, path).num_rows == 3
    assert cache.nbytes == 0


def test_keeping_the_same_manifest_again_counts_it_once():
    table = EntryTable.of([added()])
    cache = ManifestCache(1 << 20)
    for _ in range(3):
        cache.keep("a", table)
    assert cache.nbytes == table.nbytes + TABLE_BYTES


def test_what_is_removed_is_forgotten():
    table = EntryTable.of([added()])
    cache = ManifestCache(1 << 20)
    for name in ("/a", "/b"):
        cache.keep(name, table)
    cache.forget(["/a", "/never"])
    assert cache.nbytes == table.nbytes + TABLE_BYTES
    with pytest.raises(NotFoundError):
        cache.entries(MemoryFileIO(), "/a")
    assert cache.entries(MemoryFileIO(), "/b") is table


def many_small(count=12, each=20):
    fileio, files, entries = MemoryFileIO(), [], {}
    for number in range(count):
        own = [
            added(
                f"data-{number}-{i}.parquet",
                place=(partition(f"p{number % 3}"), i % 2),
                level=i % 3,
            )
            for i in range(each)
        ]
        file = write_manifest(
            fileio, PARTITIONED, f"manifest-{number}", own, schema_id=0, codec="zstandard"
        )
        files.append(file)
        entries[file.file_name] = own
    return fileio, files, entries


def test_many_small_manifests_are_read_once_and_decoded_as_alone():
    fileio, files, entries = many_small()
    counting = FaultyFileIO(fileio)
    cache = ManifestCache(1 << 20)
    tables = cache.all_entries(counting, PARTITIONED, [*files, files[3]])
    assert [t.to_entries() for t in tables] == [entries[f.file_name] for f in (*files, files[3])]
    again = cache.all_entries(counting, PARTITIONED, files)
    assert [a is b for a, b in zip(again, tables, strict=False)] == [True] * len(files)
    assert len(counting.trace) == len(files)
    assert cache.nbytes >= TABLE_BYTES * len(files)
    assert EntryTable.fold(tables[:-1]).num_rows == sum(map(len, entries.values()))


def test_a_damaged_one_of_many_small_manifests_is_named():
    fileio, files, _ = many_small()
    path = PARTITIONED.manifest(files[7].file_name)
    whole = fileio.read_bytes(path)
    fileio.replace(path, whole[:-40] + b"x" + whole[-39:])
    with pytest.raises(CorruptError, match="manifest-7 is not"):
        ManifestCache(1 << 20).all_entries(fileio, PARTITIONED, files)
    fileio.replace(path, whole)
    wrong = replace(files[5], added_count=3)
    with pytest.raises(CorruptError, match=r"manifest-5 holds 20 entries.*says 3"):
        ManifestCache(1 << 20).all_entries(fileio, PARTITIONED, [*files[:5], wrong, *files[6:]])


def test_few_entries_in_many_manifests_are_decoded_one_by_one():
    fileio, files, entries = many_small(9, each=1)
    tables = ManifestCache(1 << 20).all_entries(fileio, PARTITIONED, files)
    assert [t.to_entries() for t in tables] == list(entries.values())


def test_threads_share_a_cache():
    fileio, path, _ = written(50)
    cache = ManifestCache(1 << 20)
    rows, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        rows.extend(cache.entries(fileio, path).num_rows for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows == [50] * 400
    assert cache.nbytes == cache.entries(fileio, path).nbytes + TABLE_BYTES


def test_a_manifest_that_is_not_what_its_list_says_is_refused():
    fileio, path, file = written()
    for wrong in ("file_size_bytes", "added_count", "deleted_count"):
        values = {n: getattr(file, n) for n in file.__dataclass_fields__}
        values[wrong] += 1
        with pytest.raises(CorruptError, match="manifest/m"):
            ManifestCache(0).entries(fileio, path, expected=ManifestFile(**values))


def test_a_list_that_names_a_manifest_twice_gives_each_its_own_entries():
    inner = MemoryFileIO()
    first, second = (
        write_manifest(inner, PATHS, name, [added(name)], schema_id=0) for name in ("m1", "m2")
    )
    remote = DelayedFileIO(inner, delay_ms=0)
    cache = ManifestCache(1 << 20)
    for _ in range(2):
        tables = cache.all_entries(remote, PATHS, [first, first, second])
        names = [table["file_name"].to_pylist() for table in tables]
        assert names == [["m1"], ["m1"], ["m2"]]
    assert remote.counts.requests == 2
