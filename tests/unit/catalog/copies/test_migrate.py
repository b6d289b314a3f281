"""Tables of other formats that move in: the rows that their own readers give, in the same bytes."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.expiring import ALL
from proving.fsck import walk
from proving.iceberg_tables import memory_catalog
from pyiceberg.types import LongType
from sizes import FULL, SIZE

import tidelake
from tidelake import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from tidelake.cli.main import main
from tidelake.fileio import LocalFileIO
from tidelake.maintenance import call
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

ROWS = pa.table(
    {
        "k": pa.array(range(6), pa.int64()),
        "s": ["a", "b", None, "d", "e", "f"],
        "f": [1.5, float("nan"), 2.0, None, -0.0, 5.0],
        "i": pa.array([1, 2, 3, 4, 5, None], pa.int16()),
        "d": [dt.date(2024, 1, day) for day in range(1, 7)],
        "t": pa.array([dt.datetime(2024, 1, 1, h) for h in range(6)], pa.timestamp("us", "UTC")),
        "n": pa.array([Decimal(k) for k in range(6)], pa.decimal128(20, 2)),
        "b": [b"x", b"", None, b"y", b"z", b"w"],
        "p": pa.array([1, 1, 2, 2, None, 2], pa.int32()),
        "q": ["x/y", "x", "x", "7", "x", "x"],
    }
)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "wh")


@pytest.fixture
def hive(tmp_path):
    pq.write_to_dataset(ROWS, tmp_path / "hive", partition_cols=["p", "q"])
    return tmp_path / "hive"


def shown(table, order="k"):
    return [repr(row) for row in table.sort_by(order).to_pylist()]


def bytes_below(path):
    return {p: os.stat(p).st_ino for p, _ in walk(LocalFileIO(), str(path))}


def test_a_hive_table_has_its_rows_and_keeps_its_bytes(catalog, hive):
    before = bytes_below(hive)
    done = catalog.migrate_table("hive", hive, "db.t")
    assert (done.rows_count, done.files_count, done.linked_count) == (6, len(before), len(before))
    table = catalog.table("db.t")
    assert table.partition_keys == ("p", "q")
    assert shown(table.to_arrow().select(ROWS.schema.names)) == shown(ROWS)
    live = [p for p, _ in walk(LocalFileIO(), table.location) if p.endswith(".parquet")]
    assert {os.stat(path).st_ino for path in live} == set(before.values())
    assert bytes_below(hive) == before
    # filters of every column give what an independent reader gives
    for where in (
        "p = 2",
        "p IS NULL",
        "q = 'x' AND k > 1",
        "p = 1 OR k = 5",
        "s = 'd'",
        "f > 2",
        "q <> 'x' OR d = DATE '2024-01-05'",
        "n >= 4",
    ):
        wanted = duckdb.sql(f"SELECT k FROM ROWS WHERE {where}").fetchall()
        found = table.scan(where=where).to_arrow()["k"].to_pylist()
        assert sorted(found) == sorted(k for (k,) in wanted), where
    assert table.scan(where="p = 2", columns=["p"]).to_arrow()["p"].to_pylist() == [2, 2, 2]
    assert table.count() == 6


def test_what_was_moved_in_is_written_compacted_and_expired_as_any_table(catalog, hive):
    catalog.migrate_table("hive", hive, "db.t", options={"deletion-vectors.enabled": "true"})
    table = catalog.table("db.t")
    table.write(ROWS.slice(0, 1))
    table.delete("k = 0 OR p IS NULL")
    table.update({"s": "u"}, "k = 3")
    table.alter(tidelake.AddColumn("z", "INT"), tidelake.RenameColumn("s", "s2"))
    wanted = sorted([(1, "b", 1), (2, None, 2), (3, "u", 2), (5, "f", 2)])

    def rows():
        columns = table.to_arrow().select(["k", "s2", "p"]).to_pylist()
        return sorted(tuple(row.values()) for row in columns)

    assert rows() == wanted
    table.compact(full=True)
    assert rows() == wanted
    table.maintenance.expire_snapshots(**ALL)
    table.maintenance.remove_orphan_files()
    assert rows() == wanted
    catalog.clone_table("db.t", "db.c")
    assert catalog.table("db.c").count() == 4
    assert pq.ParquetDataset(hive).read().num_rows == 6


def test_a_directory_of_files_of_other_columns_is_read_by_names(catalog, tmp_path):
    source = tmp_path / "plain"
    source.mkdir()
    pq.write_table(ROWS.select(["k", "s"]).slice(0, 3), source / "a.parquet")
    pq.write_table(ROWS.select(["i", "k"]).slice(3), source / "b.parquet")
    pq.write_table(ROWS.slice(0, 0), source / "none.parquet")
    (source / "_SUCCESS").write_text("")
    done = catalog.migrate_table("parquet", source, "db.t")
    assert (done.files_count, done.schemas_count, done.partition_keys) == (2, 3, ())
    expected = duckdb.sql(
        f"SELECT k, s, i FROM read_parquet('{source}/*.parquet', union_by_name = true) ORDER BY k"
    ).fetchall()
    found = catalog.table("db.t").to_arrow().sort_by("k").select(["k", "s", "i"]).to_pylist()
    assert [tuple(row.values()) for row in found] == expected


def actions(path, version, *lines):
    name = path / "_delta_log" / f"{version:020}.json"
    name.parent.mkdir(exist_ok=True)
    name.write_text("\n".join(json.dumps(line) for line in lines))


def delta_schema(*columns, mapped=False):
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": i + 1,
                "delta.columnMapping.physicalName": f"col-{i}",
            }
            if mapped
            else {},
        }
        for i, (name, kind) in enumerate(columns)
    ]
    return json.dumps({"type": "struct", "fields": fields})


def metadata(*columns, keys=(), mapped=False, **configuration):
    return {
        "metaData": {
            "id": "1",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": delta_schema(*columns, mapped=mapped),
            "partitionColumns": list(keys),
            "configuration": configuration,
        }
    }


def added(path, rows, name, version_of_file=None, **partition):
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path / name)
    size = (path / name).stat().st_size
    return {
        "add": {
            "path": name.replace(" ", "%20"),
            "partitionValues": partition,
            "size": size,
            "modificationTime": 1,
            "dataChange": True,
        }
    }


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
COLUMNS = (("k", "long"), ("s", "string"), ("p", "integer"))


def delta(path):
    """Two versions of one table: a partition each, one file replaced, one column added."""
    one, two = ROWS.select(["k", "s"]).slice(0, 2), ROWS.select(["k", "s"]).slice(2, 2)
    first = added(path, one, "p=1/a b.parquet", p="1")
    actions(
        path,
        0,
        PROTOCOL,
        metadata(*COLUMNS, keys=["p"]),
        first,
        added(path, two, "p=2/gone.parquet", p="2"),
    )
    wide = two.append_column("z", pa.array([7, 8], pa.int64()))
    actions(
        path,
        1,
        {"remove": {"path": "p=2/gone.parquet"}},
        metadata(*COLUMNS, ("z", "long"), keys=["p"]),
        added(path, wide, "p=2/b.parquet", p="2"),
        added(
            path,
            ROWS.select(["k", "s"]).slice(4, 1),
            "p=__HIVE_DEFAULT_PARTITION__/c.parquet",
            p=None,
        ),
    )
    return path


DELTA_ROWS = [
    (0, "a", 1, None),
    (1, "b", 1, None),
    (2, None, 2, 7),
    (3, "d", 2, 8),
    (4, "e", None, None),
]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_delta_table_has_the_rows_of_its_newest_version(catalog, tmp_path, checkpoint):
    path = delta(tmp_path / "delta")
    if checkpoint:
        lines = [
            json.loads(line)
            for version in (0, 1)
            for line in (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        ]
        state = [PROTOCOL, lines[5], *[a for a in (lines[2], *lines[6:]) if "add" in a]]
        types = pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", pa.map_(pa.string(), pa.string())),
                ("size", pa.int64()),
            ]
        )
        meta = pa.struct(
            [
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", pa.map_(pa.string(), pa.string())),
            ]
        )
        protocol = pa.struct([("minReaderVersion", pa.int32())])
        rows = [
            {
                "add": {**a["add"], "partitionValues": list(a["add"]["partitionValues"].items())}
                if "add" in a
                else None,
                "metaData": a.get("metaData") and {**a["metaData"], "configuration": []},
                "protocol": a.get("protocol"),
            }
            for a in state
        ]
        schema = pa.schema([("add", types), ("metaData", meta), ("protocol", protocol)])
        name = path / "_delta_log" / f"{1:020}.checkpoint.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), name)
        for version in (0, 1):
            (path / "_delta_log" / f"{version:020}.json").unlink()
    done = catalog.migrate_table("delta", path, "db.t")
    assert done.partition_keys == ("p",)
    found = catalog.table("db.t").to_arrow().sort_by("k").select(["k", "s", "p", "z"]).to_pylist()
    assert [tuple(row.values()) for row in found] == DELTA_ROWS


def test_a_delta_table_with_mapped_columns_is_read_by_ids(catalog, tmp_path):
    path = tmp_path / "delta"
    named = pa.schema(
        [
            pa.field(f"col-{i}", one, metadata={"PARQUET:field_id": str(i + 1)})
            for i, one in enumerate((pa.int64(), pa.string()))
        ]
    )
    rows = pa.table([ROWS["k"], ROWS["s"]], schema=named)
    mode = {"delta.columnMapping.mode": "name"}
    protocol = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["columnMapping"]}}
    columns = (("k", "long"), ("new", "string"))
    line = metadata(*columns, mapped=True, **mode)
    actions(path := _made(path), 0, protocol, line, added(path, rows, "a.parquet"))
    catalog.migrate_table("delta", path, "db.t")
    found = catalog.table("db.t").to_arrow().sort_by("k")
    assert found.schema.names == ["k", "new"]
    assert found["new"].to_pylist() == ROWS["s"].to_pylist()


def _made(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_what_the_files_of_a_delta_table_do_not_say_is_refused(catalog, tmp_path):
    def refuses(match, *lines, error=UnsupportedError):
        path = _made(tmp_path / f"d{len(list(tmp_path.iterdir()))}")
        good = added(path, ROWS.select(["k"]), "a.parquet")
        actions(path, 0, *[line if line != "add" else good for line in lines])
        with pytest.raises(error, match=match):
            catalog.migrate_table("delta", path, "db.t")
        assert not catalog.table_exists("db.t")

    k = metadata(("k", "long"))
    refuses("outside", PROTOCOL, k, {"add": {"path": "s3://b/a.parquet", "size": 1}})
    refuses("version 4", {"protocol": {"minReaderVersion": 4}}, k, "add")
    v3 = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["v2Checkpoint"]}}
    refuses("v2Checkpoint", v3, k, "add")
    variants = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["variantType"]}}
    refuses("type variant", variants, metadata(("k", "variant")), "add")
    refuses("type void", PROTOCOL, metadata(("k", "void")), "add")
    refuses("BIGINT", PROTOCOL, metadata(("k", "integer")), "add", error=InvalidInputError)
    refuses("no schema", PROTOCOL, "add", error=CorruptError)
    refuses("DECIMAL", PROTOCOL, metadata(("k", "decimal(3,1)"), keys=["k"]), "add")


def test_an_iceberg_table_has_the_rows_of_its_snapshot(catalog, tmp_path):
    source = memory_catalog(f"file://{tmp_path}/ice").create_table(
        "t", schema=pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
    )
    with source.update_spec() as spec:
        spec.add_identity("p")
    source.append(pa.table({"k": [1, 2], "v": ["a", "b"], "p": pa.array([1, 2], pa.int32())}))
    with source.update_schema() as change:
        change.rename_column("v", "w")
        change.add_column("z", LongType())
    more = {"k": [3, 4], "w": ["c", "d"], "p": pa.array([1, None], pa.int32()), "z": [9, 8]}
    source.append(pa.table(more))
    source.delete("k = 2")
    wanted = shown(source.scan().to_arrow())
    done = catalog.migrate_table("iceberg", source.metadata_location, "db.t")
    table = catalog.table("db.t")
    assert (shown(table.to_arrow()), done.partition_keys) == (wanted, ("p",))
    assert table.scan(where="w = 'a'").to_arrow()["k"].to_pylist() == [1]
    earlier = source.metadata.metadata_log[-1].metadata_file  # before the delete
    assert catalog.migrate_table("iceberg", earlier, "db.u").rows_count == 4
    with pytest.raises(InvalidInputError, match="may tell of an older state"):
        catalog.migrate_table("iceberg", earlier, "db.x", delete_origin=True)
    table.write([{"k": 5, "w": "e", "p": 1, "z": 1}])
    table.compact(full=True)
    assert table.count() == 4


def test_other_partitions_of_iceberg_become_none(catalog, tmp_path):
    ice = memory_catalog(f"file://{tmp_path}/ice")
    source = ice.create_table("t", schema=pa.schema([("k", pa.int64()), ("p", pa.int32())]))
    with source.update_spec() as spec:
        spec.add_identity("p")
    source.append(pa.table({"k": [1], "p": pa.array([1], pa.int32())}))
    with source.update_spec() as spec:
        spec.remove_field("p")
    source.append(pa.table({"k": [2], "p": pa.array([2], pa.int32())}))
    done = catalog.migrate_table("iceberg", source.metadata_location, "db.t")
    assert done.partition_keys == ()
    assert shown(catalog.table("db.t").to_arrow()) == shown(source.scan().to_arrow())


def test_what_cannot_join_is_refused_before_the_first_byte(catalog, tmp_path, hive):
    catalog.create_table("db.taken", {"k": "INT"})

    def refuses(error, match, source, kind="parquet", target="db.t", **given):
        with pytest.raises(error, match=match):
            catalog.migrate_table(kind, source, target, **given)
        assert catalog.list_tables("db") == ["taken"]

    def file(rows, **how):
        path = _made(tmp_path / f"f{len(list(tmp_path.iterdir()))}")
        pq.write_table(rows, path / "a.parquet", **how)
        return path

    refuses(AlreadyExistsError, "exists", hive, kind="hive", target="db.taken")
    refuses(InvalidInputError, "kind 'hive'", hive)
    refuses(InvalidInputError, "Did you mean 'hive'", hive, kind="hiv")
    refuses(NotFoundError, "no data file", tmp_path / "none")
    refuses(NotFoundError, "no log", hive, kind="delta")
    refuses(NotFoundError, "no metadata", hive, kind="iceberg")
    refuses(InvalidInputError, "is no INT", hive, kind="hive", partition_types={"q": "INT"})
    refuses(InvalidInputError, "no partition column", hive, "hive", partition_types={"r": "INT"})
    refuses(InvalidInputError, "bucket", hive, kind="hive", options={"bucket": 2})
    refuses(UnsupportedError, "uint8", file(pa.table({"a": pa.array([1], pa.uint8())})))
    refuses(UnsupportedError, "uint8", file(pa.table({"a": pa.array([[1]], pa.list_(pa.uint8()))})))
    refuses(
        UnsupportedError,
        "INT96, by a writer whose zone is not known",
        file(
            pa.table({"a": pa.array([1], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True
        ),
    )
    refuses(
        UnsupportedError,
        "nanoseconds",
        file(pa.table({"a": pa.array([1], pa.timestamp("ns"))}), version="2.6"),
    )
    plain = pa.table({"a": ["x"]})
    refuses(
        UnsupportedError,
        "DELTA_BYTE_ARRAY",
        file(plain, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"),
    )
    refuses(UnsupportedError, "BROTLI", file(plain, compression="brotli"))
    mixed = file(plain)
    pq.write_table(pa.table({"a": [1]}), mixed / "b.parquet")
    refuses(InvalidInputError, "column 'a'", mixed)
    (mixed / "b.parquet").write_bytes(b"no parquet")
    refuses(CorruptError, r"b\.parquet", mixed)
    deep = tmp_path / "deep"
    pq.write_to_dataset(ROWS, deep, partition_cols=["p"])
    pq.write_table(ROWS, deep / "top.parquet")
    refuses(InvalidInputError, "all files of a table", deep, kind="hive")


@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.CRASH_AFTER])
def test_after_a_failure_the_source_is_as_it_was(tmp_path, hive, mode):
    before = bytes_below(hive)
    number = 0
    while True:
        number += 1 if SIZE is FULL else 5
        faulty = FaultyFileIO(LocalFileIO(), {number: mode})
        try:
            tidelake.open(tmp_path / "wh", fileio=faulty).migrate_table("hive", hive, "db.t")
        except (tidelake.TidelakeError, SimulatedCrash):
            catalog = tidelake.open(tmp_path / "wh")
            assert bytes_below(hive) == before
            if catalog.table_exists("db.t"):
                assert catalog.table("db.t").count() in {0, 6}
                catalog.drop_table("db.t")
            continue
        break
    assert tidelake.open(tmp_path / "wh").table("db.t").count() == 6


def test_the_origin_goes_if_asked(catalog, hive, capsys, tmp_path):
    words = ["migrate", "-w", str(tmp_path / "wh"), "hive", str(hive), "t", "-d", "db"]
    assert main([*words, "--partition-type", "p=STRING", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_count"] == 6
    assert main([*words, "--partition-type", "p=STRING", "--delete-origin"]) == 0
    assert "the source is deleted" in capsys.readouterr().out
    assert not hive.exists()
    assert set(catalog.table("db.t").to_arrow()["p"].to_pylist()) == {"1", "2", None}
    assert main(["migrate", "-w", str(tmp_path / "wh"), "orc", "x", "t"]) == 2
    assert main([*words]) == 1


def test_the_procedure_takes_paimon_s_arguments(catalog, hive):
    with pytest.raises(UnsupportedError, match="no Hive metastore"):
        call(catalog, "migrate_table", ("hive", "db.t"))
    given = {
        "source_path": str(hive),
        "options": "snapshot.num-retained.max=50",
        "target_table": "db.u",
    }
    (answer,) = call(catalog, "migrate_table", ("hive", "db.t"), given).to_pylist()
    assert (answer["result"], answer["rowsCount"]) == (True, 6)
    assert catalog.table("db.u").table_schema.options["snapshot.num-retained.max"] == "50"
    assert hive.exists()


def test_an_origin_that_changed_meanwhile_or_holds_the_table_stays(catalog, hive, tmp_path):
    class Late(LocalFileIO):
        """A writer adds a file to the source when the table is made."""

        def put_if_absent(self, path, data, **how):
            if path.endswith("/schema/schema-0"):
                pq.write_table(ROWS.select(["k"]), hive / "p=1" / "late.parquet")
            return super().put_if_absent(path, data, **how)

    late = tidelake.open(tmp_path / "wh", fileio=Late())
    done = late.migrate_table("hive", str(hive), "db.t", delete_origin=True)
    assert (done.origin_deleted, done.rows_count) == (False, 6)
    assert "the source stays: files came or went" in str(done)
    assert sum(len(files) for _, _, files in os.walk(hive)) == done.files_count + 1
    (tmp_path / "flat").mkdir()
    inside = tidelake.open(tmp_path / "flat" / "_wh")
    pq.write_table(ROWS.select(["k"]), tmp_path / "flat" / "a.parquet")
    with pytest.raises(InvalidInputError, match=r"cannot be deleted: table 'db.t' is to lie in"):
        inside.migrate_table("parquet", str(tmp_path / "flat"), "db.t", delete_origin=True)
    assert not inside.table_exists("db.t")
    assert inside.migrate_table("parquet", str(tmp_path / "flat"), "db.t").rows_count == 6


def test_texts_in_all_layouts_of_arrow_move_in(catalog, tmp_path):
    texts = ["a", "b", None]
    rows = {
        "large": pa.array(texts, pa.large_string()),
        "coded": pa.array(texts).dictionary_encode(),
    }
    (tmp_path / "src").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "src" / "a.parquet")
    catalog.migrate_table("parquet", str(tmp_path / "src"), "db.t")
    table = catalog.table("db.t")
    assert table.to_arrow().to_pylist() == [{"large": v, "coded": v} for v in texts]
    assert table.count(where="large = 'b' AND coded = 'b'") == 1
    assert table.plan(where="coded > 'b'").splits == ()


def test_files_that_a_log_does_not_name_are_not_taken(catalog, tmp_path):
    path = delta(tmp_path / "delta")
    with pytest.raises(InvalidInputError, match="Give the kind 'delta'"):
        catalog.migrate_table("hive", str(path), "db.t")
    place = tmp_path / "ice"
    (place / "data").mkdir(parents=True)
    (place / "metadata").mkdir()
    (place / "metadata" / "v1.metadata.json").write_text("{}")
    pq.write_table(ROWS.select(["k"]), place / "data" / "a.parquet")
    for where in (place, place / "data"):
        with pytest.raises(InvalidInputError, match="Give the kind 'iceberg'"):
            catalog.migrate_table("parquet", str(where), "db.t")
    (tmp_path / "hudi" / ".hoodie").mkdir(parents=True)
    with pytest.raises(UnsupportedError, match="a table of Hudi"):
        catalog.migrate_table("parquet", str(tmp_path / "hudi"), "db.t")
    assert not catalog.table_exists("db.t")


def test_a_file_with_its_partition_column_is_refused(catalog, tmp_path):
    (tmp_path / "src" / "p=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1], "p": [2]}), tmp_path / "src" / "p=1" / "a.parquet")
    with pytest.raises(InvalidInputError, match="holds partition column 'p' itself"):
        catalog.migrate_table("hive", str(tmp_path / "src"), "db.t", dry_run=True)


def test_names_of_delta_have_no_case(catalog, tmp_path):
    path = tmp_path / "delta"
    actions(
        path,
        0,
        PROTOCOL,
        metadata(("id", "long"), ("s", "string")),
        added(path, pa.table({"ID": [1, 2], "s": ["a", "b"]}), "a.parquet"),
    )
    catalog.migrate_table("delta", str(path), "db.t")
    table = catalog.table("db.t")
    assert table.to_arrow(where="id >= 2").to_pylist() == [{"id": 2, "s": "b"}]
    assert table.count() == 2
