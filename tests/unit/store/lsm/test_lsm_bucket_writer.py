from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.store.bucket_world import Bucket, kinds, schema_of, upserts

from tidelake.codec.binary_row import decode_row
from tidelake.errors import ClosedError, CorruptError, InvalidInputError, StorageError
from tidelake.merge import sections_of
from tidelake.merge.runs import spill
from tidelake.store.lsm import Levels, key_range
from tidelake.telemetry import Env


def write_only(**options: str) -> Bucket:
    return Bucket(schema_of(options={"write-only": "true", **options}))


def test_flush_sorts_merges_and_keeps_kinds():
    bucket = write_only()
    writer = bucket.writer()
    writer.write(bucket.batch([(3, "c", 1), (1, "a", 1), (2, "b", 1)]))
    writer.write(bucket.batch([(3, "c", 2), (2, None, 9), (7, "x", 0)]), kinds(2, 3, 1))
    message = writer.prepare_commit()
    [file] = message.new_files
    assert not message.compact_before
    assert bucket.stored(file) == [
        {"_KEY_k": 1, "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0, "k": 1, "name": "a", "v": 1},
        {"_KEY_k": 2, "_SEQUENCE_NUMBER": 4, "_VALUE_KIND": 3, "k": 2, "name": None, "v": 9},
        {"_KEY_k": 3, "_SEQUENCE_NUMBER": 3, "_VALUE_KIND": 2, "k": 3, "name": "c", "v": 2},
        {"_KEY_k": 7, "_SEQUENCE_NUMBER": 5, "_VALUE_KIND": 1, "k": 7, "name": "x", "v": 0},
    ]


def test_metadata_of_a_flushed_file():
    bucket = write_only()
    writer = bucket.writer()
    writer.write(bucket.batch([(5, "b", 1), (-2, "a", None), (9, None, 3)]), kinds(0, 0, 3))
    [file] = writer.prepare_commit().new_files
    types = [f.type for f in bucket.schema.fields]
    assert file.file_name.startswith("data-")
    assert file.file_name.endswith("-0.parquet")
    assert file.file_size_bytes == bucket.fileio.size(bucket.path(file))
    assert (file.row_count, file.delete_row_count) == (3, 1)
    assert decode_row(file.min_key, types[:1]) == (-2,)
    assert decode_row(file.max_key, types[:1]) == (9,)
    assert decode_row(file.key_stats.min_values, types[:1]) == (-2,)
    assert decode_row(file.key_stats.max_values, types[:1]) == (9,)
    assert file.key_stats.null_counts == (0,)
    assert decode_row(file.value_stats.min_values, types) == (-2, "a", 1)
    assert decode_row(file.value_stats.max_values, types) == (9, "b", 3)
    assert file.value_stats.null_counts == (0, 1, 1)
    assert file.value_stats_cols is None
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 2)
    assert (file.schema_id, file.level, file.file_source) == (0, 0, 0)
    assert file.creation_time_ms is not None
    assert file.extra_files == ()


def test_without_statistics_the_list_of_columns_is_empty():
    bucket = write_only(**{"metadata.stats-mode": "none"})
    writer = bucket.writer()
    writer.write(bucket.batch(upserts([1], 1)))
    [file] = writer.prepare_commit().new_files
    assert file.value_stats_cols == ()
    assert file.value_stats.null_counts == ()
    assert decode_row(file.key_stats.max_values, [bucket.schema.fields[0].type]) == (1,)


def test_sequence_numbers_go_on_from_the_live_files():
    bucket = write_only()
    for expected in ((0, 2), (3, 5)):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts([1, 2, 3], 1)))
        message = writer.prepare_commit()
        bucket.commit(message)
        [file] = message.new_files
        assert (file.min_sequence_number, file.max_sequence_number) == expected


def test_sequence_numbers_go_on_between_commits_of_one_writer():
    bucket = write_only()
    writer = bucket.writer()
    for _ in range(2):
        writer.write(bucket.batch(upserts([1, 2], 1)))
        bucket.commit(writer.prepare_commit())
    assert [f.min_sequence_number for f in bucket.live] == [0, 2]
    assert writer.prepare_commit().is_empty


def test_user_sequence_decides_inside_the_buffer():
    bucket = write_only(**{"sequence.field": "v"})
    writer = bucket.writer()
    writer.write(bucket.batch([(1, "late", 10), (1, "early", 5), (1, "null", None)]))
    [file] = writer.prepare_commit().new_files
    assert [row["name"] for row in bucket.stored(file)] == ["late"]


@pytest.mark.parametrize("bad", [kinds(0, 4), kinds(-1, 0), kinds(0)])
def test_a_kind_that_is_none_is_refused(bad):
    bucket = write_only()
    with pytest.raises(InvalidInputError, match="row kinds"):
        bucket.writer().write(bucket.batch(upserts([1, 2], 1)), bad)


def test_files_roll_at_the_target_size_and_do_not_overlap():
    bucket = write_only(**{"target-file-size": "1 mb"})
    writer = bucket.writer()
    rng = np.random.default_rng(3)
    values = rng.permutation(600_000)
    table = pa.table(
        {"k": values, "name": [f"{v * 7919}" for v in values], "v": values.astype("i4")}
    )
    writer.write(table.to_batches()[0])
    files = writer.prepare_commit().new_files
    assert len(files) > 3
    assert sum(f.row_count for f in files) == 600_000
    types = [bucket.schema.fields[0].type]
    assert len(sections_of([key_range(f, types) for f in files])) == len(files)
    assert max(f.file_size_bytes for f in files[:-1]) < 2 << 20
    assert len({f.file_name.rsplit("-", 1)[0] for f in files}) == 1


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update"])
def test_the_oldest_rows_are_spilled_as_far_as_wanted(tmp_path: Path, engine):
    results = []
    for spill_dir in (None, str(tmp_path)):
        bucket = write_only(**{"merge-engine": engine})
        bucket.spill_dir = spill_dir
        writer = bucket.writer()
        rng = np.random.default_rng(7)
        for part in range(12):
            writer.write(bucket.batch(upserts(rng.integers(0, 300, 100).tolist(), part)))
            if spill_dir is not None and part % 4 == 3:
                held = writer.buffered_bytes
                writer.spill(held // 3)
                assert held // 3 < writer.buffered_bytes <= held - held // 3
        assert len(list(tmp_path.iterdir())) == (0 if spill_dir is None else 3)
        [file] = writer.prepare_commit().new_files
        results.append(bucket.stored(file))
    assert results[0] == results[1]


def test_a_log_of_the_input_spills_whole(tmp_path: Path):
    bucket = write_only(**{"changelog-producer": "input"})
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    for part in range(4):
        writer.write(bucket.batch(upserts(range(100), part)))
    writer.spill(1)
    assert writer.buffered_bytes == 0
    message = writer.prepare_commit()
    assert sum(f.row_count for f in message.changelog) == 400
    assert sum(f.row_count for f in message.new_files) == 100


def test_spilled_runs_and_memory_give_the_same_file_as_memory_alone(tmp_path: Path):
    results = []
    for spill_dir in (None, str(tmp_path / "spill")):
        bucket = write_only()
        bucket.spill_dir = spill_dir
        writer = bucket.writer()
        rng = np.random.default_rng(5)
        for part in range(40):
            keys = rng.integers(0, 500, 100)
            writer.write(
                bucket.batch(upserts(keys.tolist(), part)), rng.integers(0, 4, 100).astype("i1")
            )
            if spill_dir is not None and part % 3 == 0:
                assert writer.buffered_bytes > 0
                writer.spill()
                assert writer.buffered_bytes == 0
                assert list(Path(spill_dir).iterdir())
        [file] = writer.prepare_commit().new_files
        results.append(bucket.stored(file))
        if spill_dir is not None:
            assert list(Path(spill_dir).iterdir()) == []
    assert results[0] == results[1]


def test_many_spilled_runs_are_joined_in_tiers(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(spill, "FAN_IN", 3)
    bucket = write_only()
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    for part in range(30):
        writer.write(bucket.batch(upserts([part % 7, part % 5, 100 + part], part)))
        writer.write(bucket.batch(upserts([200 + part], part)), kinds(3))
        writer.spill()
        assert len(list(tmp_path.iterdir())) <= 2 * 4
    bucket.commit(writer.prepare_commit())
    expected = {(k,): (k, f"name{k}", v) for v in range(30) for k in (v % 7, v % 5, 100 + v)}
    assert bucket.rows() == expected
    [file] = bucket.live
    assert file.delete_row_count == 30


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
def test_a_join_of_runs_that_fails_doubles_and_loses_nothing(tmp_path, monkeypatch, failing):
    """A caller may go on after a full disk; sums would show a row that was spilled and kept."""
    monkeypatch.setattr(spill, "FAN_IN", 2)
    sums = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    bucket = write_only(**sums)
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    joins, join = [], writer._spilled._join

    def full_at_times(runs):
        joins.append(1)
        if len(joins) == failing:
            raise StorageError("the disk is full", path=str(tmp_path))
        return join(runs)

    monkeypatch.setattr(writer._spilled, "_join", full_at_times)
    for part in range(12):
        writer.write(bucket.batch(upserts([1, 2 + part % 3], 1)))
        with contextlib.suppress(StorageError):
            writer.spill()
    assert len(joins) > failing
    bucket.commit(writer.prepare_commit())
    assert {k: row[2] for (k,), row in bucket.rows().items()} == {1: 12, 2: 4, 3: 4, 4: 4}
    assert list(tmp_path.iterdir()) == []


def test_spill_codecs(tmp_path: Path):
    for codec in ("zstd", "lz4", "none"):
        bucket = write_only(**{"spill-compression": codec})
        bucket.spill_dir = str(tmp_path)
        writer = bucket.writer()
        writer.write(bucket.batch(upserts(range(10), 1)))
        writer.spill()
        bucket.commit(writer.prepare_commit())
        assert len(bucket.rows()) == 10


def test_without_spilling_a_full_buffer_becomes_a_file(tmp_path: Path):
    bucket = write_only(**{"write-buffer-spillable": "false"})
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    for value in (1, 2):
        writer.write(bucket.batch(upserts([1, 2], value)))
        writer.spill()
        assert writer.buffered_bytes == 0
    message = writer.prepare_commit()
    assert len(message.new_files) == 2
    assert list(tmp_path.iterdir()) == []
    bucket.commit(message)
    assert bucket.rows()[1,] == (1, "name1", 2)


def test_deletes_leave_the_table_only_with_a_full_compaction():
    bucket = write_only()
    for value, kind in ((1, 0), (2, 3)):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts([1, 2], value)), kinds(kind, kind))
        bucket.commit(writer.prepare_commit())
    writer = bucket.writer()
    writer.compact(True)
    message = writer.prepare_commit()
    assert len(message.compact_before) == 2
    assert message.compact_after == ()
    bucket.commit(message)
    assert bucket.live == []


def test_full_compaction_makes_one_run_on_the_last_level():
    bucket = write_only()
    for value in range(3):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts(range(value, value + 10), value)))
        bucket.commit(writer.prepare_commit())
    before = bucket.rows()
    writer = bucket.writer()
    writer.compact(True)
    bucket.commit(writer.prepare_commit())
    [file] = bucket.live
    assert (file.level, file.file_source, file.delete_row_count) == (5, 1, 0)
    assert bucket.rows() == before
    numbers = [row["_SEQUENCE_NUMBER"] for row in bucket.stored(file)]
    assert (file.min_sequence_number, file.max_sequence_number) == (min(numbers), max(numbers))
    writer.compact(True)
    assert writer.prepare_commit().is_empty


def test_an_upgrade_changes_the_level_and_nothing_else():
    bucket = write_only()
    writer = bucket.writer()
    writer.write(bucket.batch(upserts(range(10), 1)))
    [file] = (message := writer.prepare_commit()).new_files
    bucket.commit(message)
    names = bucket.data_files()
    writer = bucket.writer()
    writer.compact(True)
    message = writer.prepare_commit()
    assert message.compact_before == (file,)
    [lifted] = message.compact_after
    assert (lifted.file_name, lifted.level, lifted.file_source) == (file.file_name, 5, 0)
    assert bucket.data_files() == names


def test_what_is_written_and_compacted_in_one_commit_is_added_before_it_is_replaced():
    bucket = Bucket(schema_of(options={"num-sorted-run.compaction-trigger": "2"}))
    writer = bucket.writer()
    for value in range(6):
        writer.write(bucket.batch(upserts(range(10), value)))
        writer.flush()
    message = writer.prepare_commit()
    assert len(message.new_files) == 6
    assert set(message.compact_before) <= set(message.new_files)
    bucket.commit(message)
    known = {f.file_name for f in (*message.new_files, *message.compact_after)}
    orphans = bucket.data_files() - known
    assert (
        orphans
    )  # results of compactions that later ones replaced: nothing goes before the commit
    writer.close()
    assert bucket.data_files() == known
    assert {row[2] for row in bucket.rows().values()} == {5}


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 0, 0, 2, 1, 3])), max_size=25),
        min_size=1,
        max_size=14,
    ),
    st.integers(1, 4),
    st.sampled_from(["1 b", "4 kb", "128 mb"]),
    st.integers(0, 2**32),
)
def test_commits_and_compactions_equal_a_dict(commits, trigger, target, seed):
    options = {"num-sorted-run.compaction-trigger": str(trigger), "target-file-size": target}
    bucket = Bucket(schema_of(options=options), env=Env.seeded(seed))
    model: dict[tuple[int], tuple[int, str, int]] = {}
    writer = bucket.writer()
    for number, changes in enumerate(commits):
        if (seed + number) % 3 == 0:
            writer.close()
            writer = bucket.writer()
        rows = [(k, f"name{k}", number) for k, _ in changes]
        writer.write(bucket.batch(rows), kinds(*(kind for _, kind in changes)))
        for row, (key, kind) in zip(rows, changes, strict=True):
            model.pop((key,), None)
            if kind % 2 == 0:
                model[key,] = row
        if (seed + number) % 5 == 0:
            writer.compact((seed + number) % 2 == 0)
        bucket.commit(writer.prepare_commit())
        assert bucket.rows() == model
        check_levels(bucket)
    names = {f.file_name for f in bucket.live}
    writer.compact(True)
    bucket.commit(writer.prepare_commit())
    writer.close()
    assert bucket.rows() == model
    assert all(f.level == bucket_levels(bucket).max_level for f in bucket.live)
    assert sum(f.row_count for f in bucket.live) == len(model)
    assert names <= bucket.data_files()  # older snapshots have them


def bucket_levels(bucket: Bucket) -> Levels:
    trigger = int(bucket.schema.options["num-sorted-run.compaction-trigger"])
    return Levels.of(bucket.live, count=trigger + 1)


def check_levels(bucket: Bucket) -> None:
    """Runs are bounded, files of one level are disjoint, and a newer row never lies beneath."""
    trigger = int(bucket.schema.options["num-sorted-run.compaction-trigger"])
    runs = bucket_levels(bucket).runs
    assert len(runs) <= trigger + 3
    types = [bucket.schema.fields[0].type]
    newest: dict[int, int] = {}
    for run in runs:
        assert len(sections_of([key_range(f, types) for f in run.files])) == len(run.files)
        for file in run.files:
            stored = bucket.stored(file)
            keys = [row["k"] for row in stored]
            assert keys == sorted(set(keys))
            assert (keys[0], keys[-1]) == tuple(
                decode_row(key, types)[0] for key in (file.min_key, file.max_key)
            )
            for row in stored:
                assert (
                    newest.setdefault(row["k"], row["_SEQUENCE_NUMBER"]) >= row["_SEQUENCE_NUMBER"]
                )


def test_write_only_never_compacts():
    bucket = write_only(**{"num-sorted-run.compaction-trigger": "2"})
    for value in range(12):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts([1], value)))
        bucket.commit(writer.prepare_commit())
    assert len(bucket.live) == 12


def test_a_bucket_full_of_runs_is_brought_below_the_stop_trigger():
    bucket = write_only()
    for value in range(30):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts(range(value + 1), value)))
        bucket.commit(writer.prepare_commit())
    bucket.schema = schema_of()
    writer = bucket.writer()
    writer.write(bucket.batch(upserts([0], 99)))
    bucket.commit(writer.prepare_commit())
    assert len(Levels.of(bucket.live, count=6).runs) <= 8
    assert bucket.rows()[0,] == (0, "name0", 99)
    assert len(bucket.rows()) == 30


@pytest.mark.parametrize(
    ("stop", "levels"),
    [
        ("4", [3, 4, 5]),  # waits: then the number of runs says what to take
        ("5", [1, 2, 3, 4, 5]),  # does not: the two runs of one size are one now
    ],
)
def test_a_writer_compacts_until_the_runs_are_no_more_than_the_stop_trigger(stop, levels):
    bucket = write_only()
    text = random.Random(1)
    rows: dict[tuple[int], tuple[int, str, int]] = {}

    def write(*, wide_bytes: int, value: int) -> None:
        writer = bucket.writer()
        own = [(k, text.randbytes(wide_bytes).hex(), value) for k in (0, value)]
        rows.update(((row[0],), row) for row in own)
        writer.write(bucket.batch(own))
        bucket.commit(writer.prepare_commit())

    for level, wide_bytes in ((5, 400_000), (4, 80_000), (3, 16_000), (2, 3_000), (1, 10)):
        write(wide_bytes=wide_bytes, value=level)
        bucket.live[-1] = replace(bucket.live[-1], level=level)
    options = {"num-sorted-run.compaction-trigger": "3", "num-sorted-run.stop-trigger": stop}
    bucket.schema = schema_of(options={"num-levels": "6", **options})
    write(wide_bytes=20, value=9)
    assert [run.level for run in Levels.of(bucket.live, count=6).runs] == levels
    assert bucket.rows() == rows


def test_abort_deletes_what_was_not_handed_out():
    bucket = write_only(**{"write-buffer-spillable": "false"})
    writer = bucket.writer()
    writer.write(bucket.batch(upserts([1], 1)))
    bucket.commit(writer.prepare_commit())
    committed = bucket.data_files()
    writer.write(bucket.batch(upserts([2], 1)))
    writer.flush()
    assert len(bucket.data_files()) == 2
    writer.close()
    assert bucket.data_files() == committed
    with pytest.raises(ClosedError):
        writer.write(bucket.batch(upserts([3], 1)))


def test_abort_removes_spilled_rows(tmp_path: Path):
    bucket = write_only()
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    writer.write(bucket.batch(upserts([1], 1)))
    writer.spill()
    assert list(tmp_path.iterdir())
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_stops_its_compaction_and_is_named():
    bucket = write_only()
    for value in range(2):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts([1, 2], value)))
        bucket.commit(writer.prepare_commit())
    damaged = bucket.path(bucket.live[0])
    bucket.fileio.replace(damaged, bucket.fileio.read_bytes(damaged)[:-9])
    writer = bucket.writer()
    with pytest.raises(CorruptError, match=bucket.live[0].file_name):
        writer.compact(True)
    names = bucket.data_files()
    writer.close()
    assert bucket.data_files() == {f.file_name for f in bucket.live}
    assert names >= bucket.data_files()


def test_rows_of_a_slice_do_not_pin_the_whole_batch():
    bucket = write_only()
    writer = bucket.writer()
    large = bucket.batch(upserts(range(300_000), 1))
    writer.write(large.slice(1000, 10))
    assert writer.buffered_bytes < 10_000
    before = pa.total_allocated_bytes()
    del large
    assert before - pa.total_allocated_bytes() > 3_000_000


def test_a_composite_key_with_text_keeps_its_order():
    schema = schema_of(
        (("a", "STRING NOT NULL"), ("v", "INT"), ("b", "DECIMAL(20, 2) NOT NULL")),
        primary_keys=("a", "b"),
        options={"write-only": "true"},
    )
    bucket = Bucket(schema)
    writer = bucket.writer()
    rows = [
        ("b", 1, Decimal("-3.00")),
        ("a\0", 2, Decimal("1")),
        ("a", 3, Decimal("2")),
        ("", 4, Decimal(0)),
    ]
    writer.write(bucket.batch([*rows, ("a", 5, Decimal("-1e15"))]))
    [file] = writer.prepare_commit().new_files
    assert [row["v"] for row in bucket.stored(file)] == [4, 5, 3, 2, 1]
    types = [schema.field(k).type for k in ("a", "b")]
    assert decode_row(file.min_key, types) == ("", 0)
    assert decode_row(file.max_key, types) == ("b", -300)
