"""Tables with dynamic buckets: every key in one bucket, whoever writes, as the index says."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from unit.table.bucketing.dynamic_tables import check_index, hashes_named, left_over

import tidelake
from tidelake.errors import ConflictError, NotFoundError
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.scan import live_buckets
from tidelake.table.bucketing import dynamic_buckets, key_hash_index

SMALL = {"dynamic-bucket.target-row-num": "5"}


@pytest.fixture(params=[False, True])
def _sorting(request, monkeypatch):
    """Index files as they come, and sorted however small."""
    if request.param:
        monkeypatch.setattr(dynamic_buckets, "SORTED_MIN", 1)
        monkeypatch.setattr(dynamic_buckets, "TAIL_SHARE", 3)
        monkeypatch.setattr(key_hash_index, "SEARCH_COST", 0)
        monkeypatch.setattr(key_hash_index, "BATCH_SHARE", 0)


def make(catalog, name="db.dyn", **options):
    return catalog.create_table(
        name,
        {"p": "string", "k": "int64", "v": "int64"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options=SMALL | {key.replace("_", "-"): v for key, v in options.items()},
    )


def rows(keys, v=0, p="a"):
    return [{"p": p, "k": int(k), "v": v} for k in keys]


def content(table):
    return {(r["p"], r["k"]): r["v"] for r in table.to_arrow().to_pylist()}


@pytest.mark.usefixtures("_sorting")
def test_keys_stay_in_their_buckets_over_many_commits(catalog):
    table = make(catalog)
    rng, model, first_keys = np.random.default_rng(1), {}, set()
    for number in range(12):
        keys, p = rng.integers(0, 60, 25), "ab"[number % 2]
        table.write(rows(keys, number, p))
        first_keys = first_keys or set(keys.tolist())
        model |= {(p, int(k)): number for k in keys}
        if number == 6:
            table.delete([{"p": "a", "k": k} for k in range(30)])
            model = {key: v for key, v in model.items() if key[0] == "b" or key[1] >= 30}
        assert content(table) == model
    named = check_index(table)
    assert max(len(hashes) for hashes in named.values()) <= 5
    table.compact(full=True)
    assert content(table) == model
    assert check_index(table) == named
    early = table.to_arrow(snapshot_id=1).column("k").to_pylist()
    assert set(early) == first_keys


def test_a_large_bucket_has_a_sorted_index_and_keeps_its_keys(catalog, monkeypatch):
    monkeypatch.setattr(dynamic_buckets, "SORTED_MIN", 60)
    monkeypatch.setattr(key_hash_index, "SEARCH_COST", 1)
    table = make(catalog, **{"dynamic-bucket.target-row-num": "1000"})
    names = []
    for keys in (range(900), range(850, 950), range(940, 1000), range(990, 1050), range(7)):
        table.write(rows(keys, keys[0]))
        names.append(next(e.file.file_name for e in index_of(table) if e.bucket == 0))
        check_index(table)
    counts = [name.partition("-sorted-")[2] for name in names]
    assert counts == ["900", "900", "1000", "1000", "1000"]
    assert len(content(table)) == 1050


def test_what_is_deleted_finds_its_bucket_again(catalog):
    table = make(catalog)
    table.write(rows(range(20)))
    before = check_index(table)
    table.delete("k >= 0")
    assert content(table) == {}
    table.write(rows(range(20), 7))
    assert check_index(table) == before
    assert len(content(table)) == 20


def test_an_overwrite_begins_the_index_anew(catalog):
    table = make(catalog)
    table.write(rows(range(20)) + rows(range(20), p="b"))
    table.write(rows(range(18, 24), 1), mode="overwrite", partition={"p": "a"})
    named = check_index(table)
    assert [len(named[p]) for p in sorted(named)] == [5, 1, 5, 5, 5, 5]
    table.write([], mode="overwrite", partition={"p": "a"})
    assert len(check_index(table)) == 4
    table.delete("p = 'b'")
    assert check_index(table) == {}
    assert table.handle.snapshots.latest().index_manifest is None
    table.write(rows([1]))
    assert len(check_index(table)) == 1


@pytest.mark.usefixtures("_sorting")
def test_writers_at_once_never_put_a_key_into_two_buckets(catalog, tmp_path):
    table = make(catalog)
    writers, writes = 4, 5

    def work(writer):
        own = tidelake.open(tmp_path / "warehouse").table("db.dyn")
        rng = np.random.default_rng(writer)
        for number in range(writes):
            keys = rng.permutation(40)[:15]
            for _ in range(20):
                try:
                    own.write(rows(keys, writer * 100 + number))
                except ConflictError:
                    continue
                break
            else:
                raise AssertionError("no write went through")

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(work, range(writers)))
    check_index(table)
    got = table.to_arrow().column("k").to_pylist()
    assert len(got) == len(set(got))
    table.compact(full=True)
    assert sorted(table.to_arrow().column("k").to_pylist()) == sorted(got)


@pytest.mark.usefixtures("_sorting")
def test_keys_of_two_writers_are_united_or_one_is_refused(catalog, tmp_path):
    table = make(catalog)
    table.write(rows([1]))
    other = tidelake.open(tmp_path / "warehouse").table("db.dyn")
    with table.writer() as out:
        out.write(rows([2], 1))
        other.write(rows([3], 1))
    assert sorted(map(len, check_index(table).values())) == [3]
    orphans = left_over(table)  # the file that the union took the place of
    assert len(orphans) == 1
    out = table.writer()
    out.write(rows([4, 5], 2))
    other.write(rows([6, 7], 2))
    other.write(rows([5], 2))  # into another bucket: the first is full by then
    with pytest.raises(ConflictError, match="chose buckets by an index"):
        out.commit()
    assert 4 not in table.to_arrow().column("k").to_pylist()
    table.write(rows([4, 5], 2))
    assert sorted(table.to_arrow().column("k").to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    check_index(table)
    assert left_over(table) == orphans


def test_an_overwrite_beside_an_upsert_is_noticed(catalog, tmp_path):
    table = make(catalog)
    table.write(rows(range(12)))
    other = tidelake.open(tmp_path / "warehouse").table("db.dyn")
    out = table.writer()
    out.write(rows([11], 1))
    other.write(rows([11], 2), mode="overwrite", partition={"p": "a"})
    with pytest.raises(ConflictError, match="overwritten"):
        out.commit()
    assert content(table) == {("a", 11): 2}


def test_rows_that_are_given_up_leave_nothing(catalog):
    table = make(catalog)
    table.write(rows([1]))
    out = table.writer()
    out.write(rows(range(30)))
    out.abort()
    assert not left_over(table)
    out = table.writer()
    out.write(rows(range(30)))
    with pytest.raises(tidelake.InvalidInputError):
        out.write([{"k": "none"}])
    assert not left_over(table)


def test_deletes_that_are_ignored_come_into_no_index(catalog):
    table = make(catalog, ignore_delete="true")
    table.write(rows([1, 2]), row_kinds=["-D", "+I"])
    assert list(map(len, check_index(table).values())) == [1]
    table.write(rows([3]), row_kinds=["-D"])
    assert list(map(len, check_index(table).values())) == [1]


def test_index_files_may_lie_beside_the_data(catalog):
    table = make(catalog, index_file_in_data_file_dir="true")
    table.write(rows(range(7)))
    table.write(rows(range(9), 1))
    assert len(content(table)) == 9
    handle = table.handle
    names = [f.name for f in handle.fileio.list_dir(f"{handle.paths.location}/p=a/bucket-0")]
    assert any(name.startswith("index-") for name in names)


def test_the_first_bucket_is_enough_for_two_million_keys(catalog):
    table = catalog.create_table("db.plain", {"k": "int64"}, primary_keys=["k"])
    table.write(pa.table({"k": np.arange(100_000)}))
    snapshot = table.handle.snapshots.latest()
    found = live_buckets(table.handle.read_context(), snapshot, manifests=table.handle.manifests)
    assert [b.bucket for b in found] == [0]


@pytest.mark.parametrize("where", ["warehouse_1_3_1.db/pk_dyn", "warehouse/db.db/pk_dynamic"])
def test_a_table_of_real_paimon_is_written_on(oracle_dir, tmp_path, where):
    shutil.copytree(oracle_dir / "fixtures" / where, tmp_path / "w" / "db.db" / "t")
    table = tidelake.open(tmp_path / "w").table("db.t")
    before = table.to_arrow()
    named = hashes_named(table)
    table.write(before)
    table.compact(full=True)
    assert hashes_named(table) == named
    assert table.to_arrow().sort_by(before.schema.names[0]) == before.sort_by(
        before.schema.names[0]
    )


@pytest.mark.parametrize("more", [[80], []])
def test_an_index_file_that_expired_under_a_writer_is_a_conflict(catalog, more):
    table = make(catalog)
    table.write(rows(range(3)))
    (entry,) = index_of(table)
    writer = catalog.table("db.dyn").writer()
    writer.write(rows([0, 70]))
    table.write(rows([50]))  # another index file comes in its place
    table.handle.fileio.delete(f"{table.handle.paths.location}/index/{entry.file.file_name}")
    with pytest.raises(ConflictError, match="index file that it read was replaced") as error:
        write_and_commit(writer, rows(more))
    assert error.value.kind == "bucket_assignment"
    assert content(table) == {("a", k): 0 for k in (0, 1, 2, 50)}


def test_an_index_file_that_is_missing_is_damage(catalog):
    table = make(catalog)
    table.write(rows(range(3)))
    (entry,) = index_of(table)
    table.handle.fileio.delete(f"{table.handle.paths.location}/index/{entry.file.file_name}")
    with pytest.raises(NotFoundError, match=entry.file.file_name):
        table.write(rows([0]))


def write_and_commit(writer, data):
    if data:
        writer.write(data)
    writer.commit()


def index_of(table):
    handle = table.handle
    snapshot = handle.snapshots.latest()
    return index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
