"""Iceberg metadata of the same table by Java 1.3.1 and by us, field by field."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import tidelake
from interop.case import row_cells
from tidelake.metadata.avro.avro import decode_container

pytestmark = pytest.mark.oracle

DAY_NS = 86_400 * 10**9
WIDE = {
    "p": "STRING",
    "k": "INT",
    "n": "BIGINT",
    "b": "BOOLEAN",
    "f": "FLOAT",
    "d": "DOUBLE",
    "price": "DECIMAL(10, 2)",
    "huge": "DECIMAL(30, 5)",
    "day": "DATE",
    "at": "TIMESTAMP(4)",  # 1.3.1 takes no fewer digits
    "fine": "TIMESTAMP(6)",
    "instant": "TIMESTAMP_LTZ(6)",
    "raw": "BYTES",
}


def wide_rows(start):
    return [
        ("a" if k % 2 else None, k, -k, k % 3 == 0, k / 2, k / 4,
         Decimal(100 * k - 7) / 100, Decimal(-(10**20) * k), 18_000 + k,
         k * DAY_NS, k * DAY_NS + 1000, -k * DAY_NS, bytes([k]))
        for k in range(start, start + 4)
    ] + [(None, 99 + start, *[None] * 11)]  # fmt: skip


KEYED = {"k": "INT NOT NULL", "v": "STRING"}
OPTIONS = {
    "metadata.iceberg.storage": "table-location",
    "metadata.iceberg.manifest-compression": "deflate",
}


def metadata_of(table: Path):
    """The newest document, and the entries of the live files by path, all without the location."""
    directory = table / "metadata"
    version = (directory / "version-hint.text").read_text()
    text = (directory / f"v{version}.metadata.json").read_text()
    for prefix in (f"file:{table}", str(table)):
        text = text.replace(prefix, "")
    document = json.loads(text)
    for field in (f for schema in document["schemas"] for f in schema["fields"]):
        if field.get("doc") is None:
            field.pop("doc", None)
    entries = {}
    for manifest in records(table, document["snapshots"][-1]["manifest-list"]):
        for entry in records(table, manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            known = {k: plain(v, table) for k, v in file.items() if v is not None}
            entries[known["file_path"], known.get("referenced_data_file")] = known
    return document, entries


def records(table, address):
    path = table / "metadata" / Path(address).name
    return decode_container(path.read_bytes(), path=str(path))


def plain(value, table):
    if isinstance(value, list):  # a map
        return {pair["key"]: pair["value"] for pair in value}
    if isinstance(value, str):
        return value.removeprefix("file:").removeprefix(str(table))
    return value


def both(peer, tmp_path, columns, commits, *, options, full=False, **keys):
    """Java's table with Java's metadata, and the same files with ours."""
    javas, ours = tmp_path / "java/db.db/t", tmp_path / "ours/db.db/t"
    given = {"primary_keys": [], "partition_keys": []} | keys
    peer.do("create", javas, columns=[list(c) for c in columns.items()],
            options=OPTIONS | options, **given)  # fmt: skip
    for rows in commits:
        peer.do("write", javas, rows=[["+I", *own] for own in row_cells(columns, rows)])
    if full:
        peer.do("compact", javas, full=True)
    shutil.copytree(javas, ours)
    shutil.rmtree(ours / "metadata")
    table = tidelake.open(ours.parents[1]).table("db.t")
    table.maintenance.sync_iceberg()
    return metadata_of(javas), metadata_of(ours), table


def assert_same(java, ours):
    (their_document, their_entries), (our_document, our_entries) = java, ours
    assert our_entries == their_entries
    for key in ("format-version", "location", "last-sequence-number", "last-column-id", "schemas",
                "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id",
                "sort-orders", "default-sort-order-id", "current-snapshot-id"):  # fmt: skip
        assert our_document[key] == their_document[key], key
    theirs, mine = (d["snapshots"][-1] for d in (their_document, our_document))
    for key in ("snapshot-id", "sequence-number", "schema-id"):
        assert mine[key] == theirs[key], key


def test_append_tables_have_java_s_metadata(peer, tmp_path):
    java, ours, table = both(
        peer, tmp_path, WIDE, [wide_rows(0), wide_rows(10)],
        options={"bucket": "-1"}, partition_keys=["p"],
    )  # fmt: skip
    assert len(ours[1]) == 4
    assert_same(java, ours)
    found = (
        StaticTable.from_metadata(table.maintenance.sync_iceberg().metadata_file).scan().to_arrow()
    )
    assert found.num_rows == table.count()


def test_compacted_primary_key_tables_have_java_s_metadata(peer, tmp_path):
    rows = [[(k, f"v{version}") for k in range(version, 12)] for version in range(3)]
    java, ours, table = both(
        peer, tmp_path, KEYED, rows, options={"bucket": "2"}, primary_keys=["k"], full=True
    )
    assert len(ours[1]) == 2
    assert_same(java, ours)
    table.write([{"k": 1, "v": "later"}])
    assert metadata_of(tmp_path / "ours/db.db/t")[1] == ours[1]


def test_java_goes_on_where_we_wrote_and_we_where_java_did(peer, tmp_path):
    _, _, table = both(peer, tmp_path, KEYED, [[(1, "a")]], options={"bucket": "-1"})
    place = tmp_path / "ours/db.db/t"
    table.write([{"k": 2, "v": "b"}])
    peer.do("write", place, rows=[["+I", *own] for own in row_cells(KEYED, [(3, "c")])])
    document, entries = metadata_of(place)
    assert (document["current-snapshot-id"], len(entries)) == (3, 3)
    table.write([{"k": 4, "v": "d"}])
    document, entries = metadata_of(place)
    assert (document["current-snapshot-id"], len(entries)) == (4, 4)
    found = (
        StaticTable.from_metadata(table.maintenance.sync_iceberg().metadata_file).scan().to_arrow()
    )
    assert sorted(found["k"].to_pylist()) == [1, 2, 3, 4]
