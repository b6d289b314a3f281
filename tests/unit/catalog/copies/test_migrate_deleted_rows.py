"""Delta tables whose files have deletion vectors: deleted rows stay deleted, in Paimon's vectors.

The vectors here are made with another library's bitmaps, by the text of Delta's protocol, and what
is to be read is what deltalake reads. Delta itself wrote one table, and said what it holds
(``record_delta_vectors.py``).
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from proving.expiring import ALL, Meanwhile
from proving.fsck import check_table, walk
from pyroaring import BitMap64
from sizes import FULL, SIZE

import tidelake
from tidelake import ConflictError, CorruptError, InvalidInputError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.table.migration.delta_vectors import decode_z85
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

MAGIC = (1681511377).to_bytes(4, "little")
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
NAME_Z85 = "^-aqEH.-t@S}K{vb[*k^"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ROWS_COUNT = 70_000
FEW = [3, 4, 7, 11, 18, 29]
MANY = [0, *range(60_000, 66_000), 69_999]
"""A run over the border of two containers."""
OPTION = "deletion-vectors.enabled"
RECORDED = Path(__file__).parents[3] / "golden" / "delta_vectors"


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "wh")


def written(place, *partitions, rows_count=ROWS_COUNT):
    """A Delta table with a file for each partition; its files by their partition."""
    for p in partitions:
        rows = {"k": range(rows_count), "p": [p] * rows_count}
        write_deltalake(
            str(place),
            pa.table(rows),
            mode="append",
            partition_by=["p"],
            configuration={"delta.enableDeletionVectors": "true"},
        )
    return {p: add for add in adds(place) for p in [add["partitionValues"]["p"]]}


def adds(place):
    versions = sorted(Path(place, "_delta_log").glob("*.json"))
    lines = [line for version in versions for line in version.read_text("utf-8").splitlines()]
    return [action["add"] for line in lines if "add" in (action := json.loads(line))]


def vector(rows):
    return MAGIC + BitMap64(rows).serialize()


def frame(data):
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def stored(path, *vectors):
    """Write a file of vectors; the place of each."""
    data, places = b"\x01", []
    for one in vectors:
        places.append({"offset": len(data), "sizeInBytes": len(one)})
        data += frame(one)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return places


def marked(place, *adds):
    """Commit that files have deletion vectors; what they had before goes."""
    lines = [{"remove": {**add, "dataChange": True}} for add, _ in adds]
    lines += [{"add": {**add, "deletionVector": descriptor}} for add, descriptor in adds]
    log = Path(place, "_delta_log")
    version = log / f"{len(list(log.glob('*.json'))):020}.json"
    version.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def z85(data):
    """Text of bytes, filled up with zeros, one digit at a time."""
    text = ""
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4].ljust(4, b"\0"), "big")
        text += "".join(DIGITS[word // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text


def in_a_file(place, prefix=""):
    """A table with two partitions, and vectors of both in one file."""
    files = written(place, "a", "b", "c")
    places = stored(place / prefix / NAME, vector(FEW), vector(MANY))
    how = {"storageType": "u", "pathOrInlineDv": prefix + NAME_Z85}
    first, second = (how | where for where in places)
    marked(
        place,
        (files["a"], first | {"cardinality": len(FEW)}),
        (files["b"], second | {"cardinality": len(MANY)}),
    )


def counted_by_delta(place):
    query = QueryBuilder().register("t", DeltaTable(str(place)))
    return counts(pa.table(query.execute("SELECT p, k FROM t").read_all()))


def counts(rows):
    """For each partition how many rows there are, and their keys in order."""
    found = {}
    partitions = rows["p"].cast(pa.string())
    for p in sorted(partitions.unique().to_pylist()):
        own = rows["k"].filter(pc.equal(partitions, p))
        found[p] = (len(own), sorted(own.to_pylist()))
    return found


def index_files(table):
    return [path for path, _ in walk(LocalFileIO(), table.location) if "/index/index-" in path]


def test_a_table_that_delta_wrote_holds_what_delta_read(catalog, tmp_path):
    """Its vectors were replaced several times, lie in files of several, and in a checkpoint."""
    place = shutil.copytree(RECORDED / "table", tmp_path / "delta")
    assert any("_delta_log" in str(path) for path in place.rglob("*.checkpoint.parquet"))
    wanted = json.loads((RECORDED / "expected.json").read_text("utf-8"))
    done = catalog.migrate_table("delta", place, "db.t")
    assert done.rows_count == sum(count for _, _, count in wanted)
    rows = catalog.table("db.t").to_arrow().group_by(["g", "v"]).aggregate([([], "count_all")])
    found = rows.select(["g", "v", "count_all"]).to_pylist()
    assert sorted(list(row.values()) for row in found) == wanted
    assert index_files(catalog.table("db.t"))


@pytest.mark.parametrize("prefix", ["", "ab"])
def test_deleted_rows_stay_deleted(catalog, tmp_path, prefix):
    place = tmp_path / "delta"
    in_a_file(place, prefix)
    wanted = counted_by_delta(place)
    assert [count for count, _ in wanted.values()] == [
        ROWS_COUNT - len(FEW),
        ROWS_COUNT - len(MANY),
        ROWS_COUNT,
    ]
    would = catalog.migrate_table("delta", place, "db.t", dry_run=True)
    done = catalog.migrate_table("delta", place, "db.t")
    assert done.rows_count == would.rows_count == 3 * ROWS_COUNT - len(FEW) - len(MANY)
    assert (done.files_count, done.linked_count) == (3, 3)
    table = catalog.table("db.t")
    assert table.table_schema.options[OPTION] == "true"
    assert counts(table.to_arrow()) == wanted
    assert table.count() == done.rows_count
    assert table.count(where="k = 60000") == 2
    check_table(LocalFileIO(), table.location)
    assert not is_of_64_bits(index_files(table))


def is_of_64_bits(paths):
    """Whether the first vector of each file is, by its magic number."""
    return {Path(path).read_bytes()[5:9] == MAGIC for path in paths} == {True}


def test_a_table_with_vectors_of_64_bits_gets_such(catalog, tmp_path):
    place = tmp_path / "delta"
    in_a_file(place)
    wide = {"deletion-vectors.bitmap64": "true"}
    catalog.migrate_table("delta", place, "db.t", options=wide)
    table = catalog.table("db.t")
    assert is_of_64_bits(index_files(table))
    assert counts(table.to_arrow()) == counted_by_delta(place)


def test_a_table_with_deleted_rows_is_changed_and_kept_as_any_other(catalog, tmp_path):
    place = tmp_path / "delta"
    in_a_file(place)
    wanted = counted_by_delta(place)
    catalog.migrate_table("delta", place, "db.t")
    table = catalog.table("db.t")
    table.delete("k < 5 AND p < 'c'")
    table.update({"k": -1}, "k = 69999")
    table.write([{"k": -2, "p": "a"}])
    more = counts(table.to_arrow())
    gone = {"a": {0, 1, 2, 69_999}, "b": {1, 2, 3, 4}, "c": {69_999}}
    new = {"a": [-2, -1], "b": [], "c": [-1]}
    for p, (_, keys) in wanted.items():
        assert more[p][1] == sorted([*(k for k in keys if k not in gone[p]), *new[p]])
    table.compact(full=True)
    table.maintenance.expire_snapshots(**ALL)
    table.maintenance.remove_orphan_files()
    assert counts(table.to_arrow()) == more
    check_table(LocalFileIO(), table.location)
    catalog.clone_table("db.t", "db.c")
    assert counts(catalog.table("db.c").to_arrow()) == more
    assert counted_by_delta(place) == wanted


def test_a_vector_is_in_the_log_or_at_an_absolute_path(catalog, tmp_path):
    place = tmp_path / "delta"
    files = written(place, "a", "b", rows_count=50)
    (there,) = stored(tmp_path / "else where" / "v.bin", vector([7]))
    text = f"file://{tmp_path}/else%20where/v.bin"
    absolute = {"storageType": "p", "pathOrInlineDv": text, **there, "cardinality": 1}
    data = vector(range(7))
    inline = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data)}
    marked(
        place,
        (files["a"], absolute),
        (files["b"], inline | {"cardinality": 7}),
    )
    catalog.migrate_table("delta", place, "db.t")
    found = counts(catalog.table("db.t").to_arrow())
    assert found == counted_by_delta(place)
    assert set(range(50)) - set(found["a"][1]) == {7}
    assert set(range(50)) - set(found["b"][1]) == set(range(7))
    assert len(data) % 4, "the last group of the text is filled up"


def test_a_file_of_deleted_rows_alone_stays_behind(catalog, tmp_path):
    place = tmp_path / "delta"
    files = written(place, "a", "b", rows_count=3)
    (all_of_it, none) = stored(place / NAME, vector(range(3)), vector([]))
    how = {"storageType": "u", "pathOrInlineDv": NAME_Z85}
    marked(
        place,
        (files["a"], how | all_of_it | {"cardinality": 3}),
        (files["b"], how | none | {"cardinality": 0}),
    )
    done = catalog.migrate_table("delta", place, "db.t")
    assert (done.rows_count, done.files_count) == (3, 1)
    table = catalog.table("db.t")
    assert counts(table.to_arrow()) == {"b": (3, [0, 1, 2])}
    assert index_files(table) == []
    marked(place, (files["b"], how | all_of_it | {"cardinality": 3}))
    assert catalog.migrate_table("delta", place, "db.u").rows_count == 0
    assert catalog.table("db.u").count() == 0


def test_the_newest_vector_of_a_file_counts_from_a_checkpoint_too(catalog, tmp_path):
    place = tmp_path / "delta"
    files = written(place, "a", rows_count=9)
    old, new = stored(place / NAME, vector([1]), vector([1, 2]))
    how = {"storageType": "u", "pathOrInlineDv": NAME_Z85}
    marked(place, (files["a"], how | old | {"cardinality": 1}))
    marked(place, (adds(place)[-1], how | new | {"cardinality": 2}))
    DeltaTable(str(place)).create_checkpoint()
    for version in (place / "_delta_log").glob("*.json"):
        version.unlink()
    catalog.migrate_table("delta", place, "db.t")
    assert counts(catalog.table("db.t").to_arrow()) == {"a": (7, [0, 3, 4, 5, 6, 7, 8])}


GOOD = {"storageType": "u", "pathOrInlineDv": NAME_Z85, "offset": 1, "cardinality": 2}


@pytest.mark.parametrize(
    ("data", "descriptor", "reason"),
    [
        (b"\x01" + frame(vector([1, 2]))[:-1] + b"x", {}, "checksum does not match"),
        (b"\x01" + frame(vector([1, 2, 3])), {"sizeInBytes": 38}, "names 3 rows, and .* says 2"),
        (b"\x01" + frame(vector([1, 2])), {"sizeInBytes": 34}, "claims 36 bytes, not 34"),
        (b"\x01" + frame(vector([1, 2])), {"sizeInBytes": 10**9}, "too many for 9 rows"),
        (b"\x01" + frame(vector([1, 9])), {}, "9"),
        (b"\x02" + frame(vector([1, 2])), {}, "version 2"),
        (b"\x01" + frame(b"abcd" + vector([1, 2])[4:]), {}, "Delta's protocol"),
        (b"\x01" + frame(vector([1, 2]))[:9], {}, "damaged"),
        (None, {}, "exist|missing|no file"),
        (b"", {"storageType": "x"}, "type is 'x'"),
        (b"", {"storageType": None}, "type is 'None'"),
        (b"", {"pathOrInlineDv": "../" + NAME_Z85}, "prefix"),
        (b"", {"pathOrInlineDv": "abc"}, "Z85"),
        (b"", {"pathOrInlineDv": '"' * 20}, "not Z85"),
        (b"", {"storageType": "i", "pathOrInlineDv": "#####"}, "Z85"),
        (b"", {"cardinality": -1}, "negative"),
        (b"", {"sizeInBytes": None}, "int"),
    ],
)
def test_a_damaged_vector_is_refused_by_name(catalog, tmp_path, data, descriptor, reason):
    place = tmp_path / "delta"
    files = written(place, "a", rows_count=9)
    if data is not None:
        (place / NAME).write_bytes(data)
    marked(place, (files["a"], GOOD | {"sizeInBytes": 36} | descriptor))
    before = [*walk(LocalFileIO(), str(tmp_path))]
    for dry_run in (True, False):
        with pytest.raises(CorruptError, match=reason) as caught:
            catalog.migrate_table("delta", place, "db.t", dry_run=dry_run)
        assert files["a"]["path"] in caught.value.message
        assert "Nothing was done" in caught.value.message
    assert [*walk(LocalFileIO(), str(tmp_path))] == before
    assert not catalog.table_exists("db.t")


def test_a_descriptor_without_a_key_is_refused(catalog, tmp_path):
    place = tmp_path / "delta"
    files = written(place, "a", rows_count=9)
    marked(place, (files["a"], {"x": 1}))
    with pytest.raises(CorruptError, match="lacks 'storageType'"):
        catalog.migrate_table("delta", place, "db.t")


def test_a_vector_in_another_storage_is_refused(catalog, tmp_path):
    place = tmp_path / "delta"
    files = written(place, "a", rows_count=9)
    path = {"storageType": "p", "pathOrInlineDv": "s3://bucket/v.bin"}
    marked(place, (files["a"], GOOD | {"sizeInBytes": 36} | path))
    with pytest.raises(UnsupportedError, match=r"vector s3://bucket/v\.bin lies in another"):
        catalog.migrate_table("delta", place, "db.t")


def test_a_table_without_vectors_takes_no_deleted_rows(catalog, tmp_path):
    place = tmp_path / "delta"
    in_a_file(place)
    with pytest.raises(InvalidInputError, match=f"{OPTION} = false does not have"):
        catalog.migrate_table("delta", place, "db.t", options={OPTION: "false"})
    assert not catalog.table_exists("db.t")


@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.CRASH_AFTER])
def test_after_a_failure_deleted_rows_do_not_come_back(tmp_path, mode):
    place = tmp_path / "delta"
    in_a_file(place)
    live = 3 * ROWS_COUNT - len(FEW) - len(MANY)
    number = 0
    while True:
        number += 1 if SIZE is FULL else 5
        faulty = FaultyFileIO(LocalFileIO(), {number: mode})
        try:
            tidelake.open(tmp_path / "wh", fileio=faulty).migrate_table("delta", place, "db.t")
        except (tidelake.TidelakeError, SimulatedCrash):
            catalog = tidelake.open(tmp_path / "wh")
            if catalog.table_exists("db.t"):
                assert catalog.table("db.t").count() in {0, live}
                catalog.drop_table("db.t")
            continue
        break
    assert tidelake.open(tmp_path / "wh").table("db.t").count() == live


def test_who_writes_meanwhile_keeps_his_rows_and_the_vectors_go(tmp_path):
    place = tmp_path / "delta"
    in_a_file(place)
    others = tidelake.open(tmp_path / "wh")

    def write():
        others.table("db.t").write([{"k": 5, "p": "a"}])

    first = str(place / adds(place)[0]["path"])
    beside = Meanwhile(LocalFileIO(), "copy_within", first, write)
    with pytest.raises(ConflictError, match="Others have written"):
        tidelake.open(tmp_path / "wh", fileio=beside).migrate_table("delta", place, "db.t")
    table = others.table("db.t")
    assert table.to_arrow().to_pylist() == [{"k": 5, "p": "a"}]
    assert index_files(table) == []
    check_table(LocalFileIO(), table.location)


def test_text_of_z85_is_as_its_authors_say():
    """ZeroMQ's RFC 32 has this example; Delta's protocol has the other."""
    assert decode_z85("HelloWorld", size_bytes=8).hex() == "864fd26fb559f75b"
    name = decode_z85(NAME_Z85, size_bytes=16)
    assert str(UUID(bytes=name)) in NAME
    assert decode_z85("", size_bytes=0) == b""
