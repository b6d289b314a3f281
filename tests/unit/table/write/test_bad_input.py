"""Bad input gets a clear error, and nothing is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    col,
)

GOOD = [{"k": 1, "v": "a", "n": 1}]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pa.table({"k": [1], "v": ["a"]}), "n"),
        (pa.table({"k": [1], "v": ["a"], "n": pa.array([1], pa.int32()), "x": [1]}), "'x'"),
        (pa.table({"k": [1], "v": ["a"], "n": ["one"]}), "'n'"),
        (pa.table({"k": [1], "v": ["a"], "n": pa.array([2**40])}), "'n'"),
        (pa.table({"k": [1.5], "v": ["a"], "n": pa.array([1], pa.int32())}), "'k'"),
        (
            pa.table(
                {"k": pa.array([None], pa.int64()), "v": ["a"], "n": pa.array([1], pa.int32())}
            ),
            "'k'",
        ),
        ([{"k": 1, "v": "a", "n": "one"}], "'n'"),
        ([{"k": 1, "v": "a", "n": 1, "extra": 2}], "'extra'"),
        ([{"v": "a", "n": 1}], "k"),
        (42, "does not hold rows"),
        ("rows", "does not hold rows"),
        ([1, 2], "does not hold rows"),
    ],
)
def test_wrong_rows_are_refused_and_what_was_there_stays(keyed, rows, says):
    keyed.write(GOOD)
    with pytest.raises(InvalidInputError, match=says) as caught:
        keyed.write(rows)
    assert "db.keyed" in str(caught.value)
    assert keyed.to_arrow().to_pylist() == GOOD
    assert keyed.history().num_rows == 1


@pytest.mark.parametrize("mode", ["replace", "", "upsert"])
def test_an_unknown_mode_is_refused(keyed, mode):
    with pytest.raises(InvalidInputError, match="'append'"):
        keyed.write(GOOD, mode=mode)


@pytest.mark.parametrize(
    ("scan", "error", "says"),
    [
        ({"columns": ["kk"]}, NotFoundError, "Did you mean 'k'"),
        ({"where": "kk = 1"}, TidelakeError, "kk"),
        ({"where": "k = 'one'"}, TidelakeError, "k"),
        ({"where": "k ="}, TidelakeError, "k ="),
        ({"where": "k = 1; DROP TABLE x"}, TidelakeError, ";"),
        ({"limit": -1}, InvalidInputError, "limit"),
    ],
)
def test_a_wrong_read_is_refused(keyed, scan, error, says):
    keyed.write(GOOD)
    with pytest.raises(error, match=says):
        keyed.to_arrow(**scan)


def test_unknown_options_of_a_use_are_refused(keyed):
    with pytest.raises(InvalidInputError, match=r"Did you mean 'scan.snapshot-id'"):
        keyed.copy({"scan.snapshot-ids": 1})


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (kind, damage)
        for kind in ("snapshot", "manifest", "manifest-list", "parquet", "schema")
        for damage in ("empty", "truncated", "garbage", "missing")
        if (kind, damage) != ("snapshot", "missing")  # that is how a rollback leaves it
    ],
)
def test_a_damaged_file_is_named_and_never_gives_wrong_rows(keyed, catalog, tmp_path, kind, damage):
    import tidelake

    keyed.write([{"k": k, "v": "x" * 50, "n": k} for k in range(1000)])
    home = tmp_path / "warehouse/db.db/keyed"
    pattern = {
        "snapshot": "snapshot/snapshot-1",
        "manifest": "manifest/manifest-[0-9a-f]*-*",
        "manifest-list": "manifest/manifest-list-*",
        "parquet": "bucket-*/*.parquet",
        "schema": "schema/schema-0",
    }[kind]
    victims = sorted(home.glob(pattern))
    assert victims
    victim = max(victims, key=lambda p: p.stat().st_size)
    data = victim.read_bytes()
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(
            {
                "empty": b"",
                "truncated": data[: len(data) // 2],
                "garbage": bytes(b ^ 0x5A for b in data),
            }[damage]
        )
    with pytest.raises((CorruptError, NotFoundError)) as caught:
        tidelake.open(tmp_path / "warehouse").table("db.keyed").to_arrow()
    if (kind, damage) != ("schema", "missing"):
        assert victim.name in str(caught.value)


def test_a_manifest_that_names_a_file_outside_the_table_is_corrupt(keyed):
    from tidelake.metadata.data_file import DataFileMeta

    keyed.write(GOOD)
    split = keyed.plan().splits[0]
    bad = [
        DataFileMeta(**{**{f: getattr(file, f) for f in file.__slots__}, "file_name": name})
        for file in split.files
        for name in ("../../x.parquet", "/etc/passwd", "a\\b", "..")
    ]
    for file in bad:
        with pytest.raises(CorruptError):
            keyed.paths.data_file(split.partition, split.bucket, file)


def test_files_with_a_row_count_other_than_the_manifest_says_are_corrupt(keyed, tmp_path):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(100)])
    files = sorted((tmp_path / "warehouse").rglob("*.parquet"))
    files[0].write_bytes(files[1].read_bytes())
    with pytest.raises(CorruptError, match=files[0].name):
        keyed.to_arrow()


def test_a_tag_twice_names_the_table_and_the_tag(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    keyed.tags.create("t1")
    with pytest.raises(AlreadyExistsError, match=r"Table 'db.keyed' already has a tag 't1'"):
        keyed.tags.create("t1")


@pytest.mark.parametrize("thing", [7, 1.5, object()])
def test_things_that_hold_no_rows_are_named_by_their_type(keyed, thing):
    with pytest.raises(InvalidInputError, match=r"An object of type \S+ does not hold rows"):
        keyed.write(thing)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, long: t.to_arrow(columns=[long]),
        lambda t, long: t.to_arrow(columns=[long, long]),
        lambda t, long: t.to_arrow(where=col(long) > 1),
        lambda t, long: t.to_arrow(limit=long),
        lambda t, long: t.to_arrow(tag=long),
        lambda t, long: t.to_arrow(timestamp=long),
        lambda t, long: t.to_arrow(snapshot_id=long),
        lambda t, long: t.changes(long),
        lambda t, long: t.write([{"k": 1, "v": "a", "n": 1, long: 1}]),
        lambda t, long: t.write([{"k": 1, "v": "a", "n": long}]),
        lambda t, long: t.copy({long: 1}),
        lambda t, long: t.copy({"bucket": long}),
        lambda t, long: t.copy({"write-buffer-size": long}),
        lambda t, long: t.copy(long),
        lambda t, long: t.tags.create(long),
    ],
)
def test_what_is_long_is_shortened_in_messages(keyed, call):
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    with pytest.raises(TidelakeError) as caught:
        call(keyed, "x" * 10_000)
    assert len(str(caught.value)) < 700


def test_a_newest_snapshot_that_is_missing_counts_as_rolled_back_whatever_the_hint_says(
    keyed, tmp_path
):
    keyed.write([{"k": 1, "v": "old", "n": 1}])
    keyed.write([{"k": 1, "v": "new", "n": 1}])
    snapshots = tmp_path / "warehouse/db.db/keyed/snapshot"
    assert (snapshots / "LATEST").read_text() == "2"
    (snapshots / "snapshot-2").unlink()
    assert keyed.to_arrow()["v"].to_pylist() == ["old"]
