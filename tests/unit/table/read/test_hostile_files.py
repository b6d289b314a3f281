"""Files that fit each other and say what no writer says: refused, and nothing outside touched."""

from __future__ import annotations

import contextlib
import io
import json
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving import damage
from proving.forge import forged
from proving.world import LOCATION, NAME, open_catalog

import tidelake
from tidelake.errors import CorruptError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio import MemoryFileIO

OUTSIDE = "/warehouse/db.db/other/secret"
NAMES = [
    "../../other/secret", "/warehouse/db.db/other/secret", "..", ".", "", "a\x00b", "a\\b", "a/b",
    "x" * 5_000, "..\\..\\other",
]  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return damage.sound_table()


def stored(files):
    fileio = MemoryFileIO()
    fileio.write_once(OUTSIDE, b"not ours")
    for path, data in files.items():
        fileio.write_once(path, data)
    return fileio


def files_below(fileio, path):
    found = {}
    for entry in fileio.list_dir(path):
        below = f"{path}/{entry.name}"
        found |= files_below(fileio, below) if entry.is_dir else {below: fileio.read_bytes(below)}
    return found


def everything(fileio):
    table = open_catalog(fileio, 3).table(NAME)
    return table.to_arrow().to_pylist()


def set_file(**values):
    return lambda entry: entry["_FILE"].update(values)


def set_top(**values):
    return lambda record: record.update(values)


def test_a_forgery_that_changes_nothing_reads_the_same(world):
    assert everything(stored(forged(world.files))) == world.truth[0]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_that_leaves_its_directory_is_refused_and_nothing_is_deleted(world, name):
    places = [
        {"entry": set_file(_FILE_NAME=name)},
        {"listed": set_top(_FILE_NAME=name)},
        {"snapshot": set_top(deltaManifestList=name)},
        {"snapshot": set_top(baseManifestList=name)},
    ]
    for place in places:
        fileio = stored(forged(world.files, **place))
        with pytest.raises((CorruptError, UnsupportedError, NotFoundError)):
            everything(fileio)
        catalog = open_catalog(fileio, 4)
        for change in (
            lambda t: t.compact(full=True),
            lambda t: t.copy({"dynamic-partition-overwrite": "false"}).write([], mode="overwrite"),
        ):
            with contextlib.suppress(TidelakeError):
                change(catalog.table(NAME))
        assert fileio.read_bytes(OUTSIDE) == b"not ours"
        catalog.drop_table(NAME)
        assert fileio.read_bytes(OUTSIDE) == b"not ours"


HUGE = 2**62
FORGED_ENTRIES = {
    "row count beyond the file's": set_file(_ROW_COUNT=HUGE),
    "negative row count": set_file(_ROW_COUNT=-1),
    "size beyond the file's": set_file(_FILE_SIZE=HUGE),
    "unknown schema": set_file(_SCHEMA_ID=77),
    "negative schema": set_file(_SCHEMA_ID=-1),
    "no key": set_file(_MIN_KEY=b""),
    "key of garbage": set_file(_MAX_KEY=b"\xff" * 40),
    "key with a huge length": set_file(_MIN_KEY=b"\0\0\0\x01" + b"\xff" * 16),
    "external path": set_file(_EXTERNAL_PATH="file:/etc/passwd"),
    "extra files elsewhere": set_file(_EXTRA_FILES=["../../other/secret"]),
    "partition of garbage": set_top(_PARTITION=b"\xff" * 9),
    "partition of too many columns": set_top(_PARTITION=b"\0\0\0\x09" + b"\0" * 80),
    "negative bucket": set_top(_BUCKET=-7),
    "unknown kind": set_top(_KIND=9),
    "later version": set_top(_VERSION=3),
}
MAY_READ = {"no key", "key of garbage", "key with a huge length", "extra files elsewhere"}
"""A read of all rows needs neither; what it gives is the truth."""


@pytest.mark.parametrize("what", FORGED_ENTRIES)
def test_an_entry_that_no_writer_makes_is_refused(world, what):
    fileio = stored(forged(world.files, entry=FORGED_ENTRIES[what]))
    found = None
    with contextlib.suppress(CorruptError, UnsupportedError, NotFoundError):
        found = everything(fileio)
    assert found is None or (what in MAY_READ and found == world.truth[0])
    if what == "later version":
        with pytest.raises(UnsupportedError, match="version"):
            everything(fileio)
    assert fileio.read_bytes(OUTSIDE) == b"not ours"


def test_a_list_that_names_a_manifest_often_is_refused_at_once(world):
    fileio = stored(forged(world.files, copies=50_000))
    began = time.process_time()
    with pytest.raises(CorruptError, match=r"names manifest 'manifest-.*' 50000 times"):
        everything(fileio)
    assert time.process_time() - began < 10  # of CPU: it was 26, and decoding the list takes 1


@pytest.mark.parametrize("keys", [["k"], []], ids=["keyed", "appended"])
def test_rows_beyond_the_last_sequence_number_are_refused_and_those_there_are_read(keys):
    fileio = MemoryFileIO()
    options = {"bucket": "1", "bucket-key": "k"}
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    table = open_catalog(fileio, 1).create_table(NAME, schema, primary_keys=keys, options=options)
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    numbers = set_file(_MAX_SEQUENCE_NUMBER=2**63 - 1)
    fileio = stored(forged(files_below(fileio, LOCATION), entry=numbers))
    table = open_catalog(fileio, 3).table(NAME)
    before, rows = files_below(fileio, LOCATION), table.to_arrow()
    assert rows.num_rows == table.count() == 2
    with pytest.raises(UnsupportedError, match="mode='overwrite'") as caught:
        table.write(rows)
    assert caught.value.kind == "sequence_number"
    assert files_below(fileio, LOCATION) == before
    table.compact(full=True)
    assert table.to_arrow() == rows
    table.write(rows, mode="overwrite")
    table.write(rows)
    assert table.count() == (2 if keys else 4)


LARGE_BYTES = 1 << 40
"""Of a file with a hole: it takes no place on the disk, and no memory holds it."""
LARGE_FILES = {
    "schema/schema-0": lambda t: t.to_arrow(),
    "snapshot/snapshot-2": lambda t: t.to_arrow(),
    "tag/tag-old": lambda t: t.to_arrow(tag="old"),
    "consumer/consumer-c": lambda t: t.system_table("consumers").to_arrow(),
    "statistics/": lambda t: t.system_table("statistics").to_arrow(),
    "manifest/manifest-list": lambda t: t.to_arrow(),
    "manifest/manifest-": lambda t: t.to_arrow(),
}


@pytest.mark.parametrize("kind", LARGE_FILES)
def test_a_file_larger_than_any_memory_is_refused_before_it_is_read(tmp_path, kind):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}), options={"bucket": "-1"})
    table.write([{"k": 1}])
    table.tags.create("old")
    table.maintenance.analyze()
    home = tmp_path / "db.db/t"
    (home / "consumer").mkdir()
    (home / "consumer/consumer-c").write_text('{"nextSnapshot": 1}')
    paths = [p for p in home.rglob("*") if kind in str(p)]
    assert paths
    for path in paths:
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            file.truncate(LARGE_BYTES)
    with pytest.raises(CorruptError, match=f"has {LARGE_BYTES} bytes") as caught:
        LARGE_FILES[kind](tidelake.open(tmp_path).table("db.t"))
    assert caught.value.kind == "file_too_large"
    assert any(str(path) in caught.value.message for path in paths)


def test_a_hint_larger_than_any_memory_is_passed_over(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", pa.schema({"k": pa.int64()}))
    table.write([{"k": 1}])
    for hint in ("LATEST", "EARLIEST"):
        with (tmp_path / "db.db/t/snapshot" / hint).open("wb") as file:
            file.truncate(LARGE_BYTES)
    assert tidelake.open(tmp_path).table("db.t").count() == 1


def test_newer_versions_are_refused_in_words(world):
    fileio = stored(forged(world.files, snapshot=set_top(version=4)))
    with pytest.raises(UnsupportedError, match="version 4"):
        everything(fileio)
    path = next(p for p in world.files if "/schema/" in p)
    document = json.loads(world.files[path]) | {"version": 9}
    document.pop("tidelake.checksum")
    fileio = stored(world.files | {path: json.dumps(document).encode()})
    with pytest.raises(UnsupportedError, match="version 9"):
        everything(fileio)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 1_000_000,
        b'{"version": ' + b"9" * 100_000 + b"}",
        b'{"id": 1e999999}',
        b"\xff\xfe\x00",
        b'"' + b"x" * (17 << 20),
    ],
    ids=["deep objects", "deep lists", "long number", "infinite", "no UTF-8", "large"],
)
@pytest.mark.parametrize("kind", ["schema-", "snapshot-", "tag-"])
def test_json_without_measure_is_refused(world, kind, text):
    assert damage.check(world, world.of_kind(kind)[-1], "hostile", text) == "error"


def parquet(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def with_data_file(world, change):
    """The newest data file replaced by another Parquet file, metadata that fits it."""
    path = next(p for p in world.of_kind("data-") if json_entry(world)["_FILE"]["_FILE_NAME"] in p)
    data = change(pq.read_table(io.BytesIO(world.files[path])))
    return forged(world.files, entry=set_file(_FILE_SIZE=len(data))) | {path: data}


def json_entry(world):
    seen = []
    forged(world.files, entry=seen.append)
    return seen[0]


HOSTILE_PARQUET = {
    "no columns that are known": lambda t: parquet(
        pa.table({f"q{i}": column.to_pylist() for i, column in enumerate(t.columns)})
    ),
    "a text where a number should be": lambda t: parquet(
        t.set_column(t.schema.get_field_index("k"), "k", pa.array(["x"] * len(t)))
    ),
    "a list where a number should be": lambda t: parquet(
        t.set_column(t.schema.get_field_index("n"), "n", pa.array([[1]] * len(t)))
    ),
    "nulls in the key": lambda t: parquet(
        t.set_column(t.schema.get_field_index("k"), "k", pa.nulls(len(t), pa.int64()))
    ),
    "more rows": lambda t: parquet(pa.concat_tables([t, t])),
    "fewer rows": lambda t: parquet(t.slice(1)),
    "a column twice": lambda t: parquet(t.append_column("k", t["k"])),
    "no rows": lambda t: parquet(t.slice(0, 0)),
    "a footer that is longer than the file": lambda t: parquet(t)[:-8] + b"\xff\xff\xff\x7fPAR1",
    "an encrypted footer": lambda t: parquet(t)[:-4] + b"PARE",
    "nothing but magic": lambda t: b"PAR1\0\0\0\0PAR1",
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE_PARQUET)
def test_a_data_file_that_is_another_is_refused(world, what):
    fileio = stored(with_data_file(world, HOSTILE_PARQUET[what]))
    with pytest.raises((CorruptError, UnsupportedError)) as caught:
        everything(fileio)
    assert ".parquet" in str(caught.value)


def test_a_data_file_written_anew_with_the_same_rows_reads_the_same(world):
    assert everything(stored(with_data_file(world, parquet))) == world.truth[0]


def test_dropping_a_table_does_not_follow_links_out_of_it(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    catalog = tidelake.open(tmp_path / "w")
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}), options={"bucket": "-1"})
    table.write([{"k": 1}])
    home = tmp_path / "w/db.db/t"
    os.symlink(outside, home / "bucket-9")
    os.symlink(outside / "kept", home / "manifest" / "manifest-link")
    catalog.drop_table("db.t")
    assert not home.exists()
    assert (outside / "kept").read_text() == "kept"
