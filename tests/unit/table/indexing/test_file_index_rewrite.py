"""File indexes of files that exist: reads skip files, rows and data files stay."""

from __future__ import annotations

import contextlib
import json

import pytest
from proving.expiring import ALL, TABLES, Meanwhile, check, make, rows
from proving.fsck import check_table, walk
from proving.reach import missing, stray

import tidelake
from tidelake import ConflictError, InvalidInputError, StorageError
from tidelake.cli.main import main
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import call
from tidelake.telemetry import Env
from tidelake.testing import FaultMode, FaultyFileIO

BITMAP = "file-index.bitmap.columns"


def opened(files, seed=11):
    return tidelake.open("/w", fileio=files, env=Env.seeded(seed)).table("db.t")


def made(kind, **options):
    files = MemoryFileIO()
    table = make(files, **{**TABLES[kind], "write-only": "true", **options})
    for turn in range(3):
        table.write([{"k": k, "v": 100 * k + turn, "p": "ab"[k % 2]} for k in range(turn, 6)])
    if kind in {"append-dv", "dv"}:
        table.delete("k = 4")
    table.alter(tidelake.RenameColumn("v", "w"))
    table.alter(tidelake.SetOption(BITMAP, "w"))
    return files, opened(files)


def data_files(files):
    return {p for p, _ in walk(files, "/w") if p.endswith(".parquet")}


def files_read(table, where):
    return sum(len(split.files) for split in table.plan(where=where).splits)


@pytest.mark.parametrize("kind", ["append", "partitions", "append-dv", "three", "dv", "dynamic"])
@pytest.mark.parametrize("threshold", ["1 b", "4 mb"])
def test_files_get_indexes_and_reads_skip_them(kind, threshold):
    files, table = made(kind, **{"file-index.in-manifest-threshold": threshold})
    shown, before = rows(table), data_files(files)
    assert files_read(table, "w = 255") > 0
    dry = table.maintenance.rewrite_file_index(dry_run=True)
    assert (dry.snapshot_id, data_files(files)) == (None, before)
    done = table.maintenance.rewrite_file_index()
    assert (done.files_count, done.buckets_dropped) == (dry.files_count, 0)
    assert done.files_count > 0
    table = opened(files, 12)
    assert (rows(table), data_files(files)) == (shown, before)
    assert files_read(table, "w = 255") == 0
    assert [row for row in rows(table) if "'k': 5" in row] == rows(table, where="k = 5")
    check_table(files, table.location)
    assert table.maintenance.rewrite_file_index().files_count == 0
    # other options: made anew, and then none
    table.alter(tidelake.SetOption(BITMAP, "k,w"))
    table = opened(files, 13)
    assert table.maintenance.rewrite_file_index().files_count == done.files_count
    table.alter(tidelake.RemoveOption(BITMAP))
    table = opened(files, 14)
    assert table.maintenance.rewrite_file_index().files_count == done.files_count
    for _ in range(2):
        table.maintenance.expire_snapshots(**ALL)
        assert rows(table) == shown
        assert missing(files, table.location) == set()
        # what was replaced is left to the removal of orphan files
        assert all(path.endswith(".index") for path in stray(files, table.location))
        table.compact(full=True)


def test_one_partition_by_procedure_and_another_by_command(tmp_path, capsys):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT", "p": "INT"}, partition_keys=["p"])
    table.write([{"k": k, "p": k % 2} for k in range(6)])
    table.alter(tidelake.SetOption("file-index.bitmap.columns", "k"))
    with pytest.raises(InvalidInputError, match="partition"):
        call(catalog, "rewrite_file_index", ("db.t", "k = 1"))
    answer = call(catalog, "rewrite_file_index", ("db.t", "p = 1")).to_pylist()
    assert answer == [{"written_partitions": 1, "written_indexes": 1}]
    words = ["index", "-w", str(tmp_path), "t", "-d", "db"]
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out == "db.t: 1 file would get indexes\n"
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_count"] == 1
    assert main([*words, "--where", "k = 1"]) == 1
    assert catalog.table("db.t").count() == 6


def test_a_bucket_that_others_compacted_is_left_and_nothing_of_ours_stays():
    files, table = made("append", **{"file-index.in-manifest-threshold": "1 b"})
    shown = rows(table)
    path = table.plan().splits[0].files[0].file_name

    def compact():
        opened(files, 5).compact(full=True)

    beside = Meanwhile(files, "open_input", f"{table.location}/bucket-0/{path}", compact)
    with pytest.raises(ConflictError):
        opened(beside).maintenance.rewrite_file_index()
    assert rows(opened(files, 6)) == shown
    opened(files, 7).maintenance.expire_snapshots(**ALL)
    check(opened(files, 8))
    indexes = [p for p, _ in walk(files, "/w") if p.endswith(".index")]
    assert all(p.endswith(".parquet.index") for p in indexes)  # of the compaction


def test_after_a_failure_the_table_is_as_it_was_or_has_its_indexes():
    made_files, table = made("append", **{"file-index.in-manifest-threshold": "1 b"})
    shown = rows(table)
    for number in range(1, 60, 6):
        faulty = FaultyFileIO(made_files, {number: FaultMode.EIO_BEFORE})
        with contextlib.suppress(StorageError):
            opened(faulty, 200 + number).maintenance.rewrite_file_index()
        assert rows(opened(made_files, 100 + number)) == shown
    opened(made_files, 9).maintenance.rewrite_file_index()
    assert files_read(opened(made_files, 10), "w = 255") == 0
