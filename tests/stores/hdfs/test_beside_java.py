"""Java Paimon on one HDFS beside us: each reads the other's tables, and both commit to one."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from interop.catalog_peer import CatalogPeer
from interop.readers import AbsentError, JavaCore, _tool

import tidelake

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
OPTIONS = {"bucket": "1", "write-only": "true"}
"""Two that compact one bucket at once hinder each other: Java's commit is refused then."""
WRITES = 12


@pytest.fixture(scope="module")
def java():
    """Java Paimon 1.3.1, whose Hadoop jars are the client's."""
    core = JavaCore()
    try:
        core.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon 1.3.1 is absent: {reason}")
    command = [_tool("java"), *core.settings, "-cp", core.class_path, "Catalogs"]
    with CatalogPeer(command) as peer:
        yield peer


def rows(table):
    return {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}


def test_each_reads_the_other_s_tables_and_both_commit_to_one(hdfs, root, java):
    ours = tidelake.open(hdfs.uri(root))
    ours.create_table("mine.t", COLUMNS, primary_keys=["k"], options=OPTIONS).write(
        [{"k": 1, "v": "ours"}]
    )
    java.open({"warehouse": hdfs.uri(root), "cache-enabled": "false"})
    assert java.tables() == {"mine.t": "1=ours", "mine": ""}
    java.do("write", "mine.t", "2", "theirs")
    java.do("create", "yours.u")
    java.do("write", "yours.u", "5", "theirs")
    java.do("rename", "yours.u", "yours.v")
    assert rows(ours.table("mine.t")) == {1: "ours", 2: "theirs"}
    ours.table("yours.v").write([{"k": 6, "v": "ours"}])
    assert java.tables()["yours.v"] == "5=theirs,6=ours"

    table = ours.table("mine.t")

    def write():
        for i in range(WRITES):
            table.write([{"k": 100 + i, "v": "ours"}])

    writer = threading.Thread(target=write)
    writer.start()
    for i in range(WRITES):
        java.do("write", "mine.t", str(200 + i), "theirs")
    writer.join()
    found = rows(ours.table("mine.t"))
    assert sum(value == "ours" for value in found.values()) == 1 + WRITES
    assert sum(value == "theirs" for value in found.values()) == 1 + WRITES
    snapshots = ours.table("mine.t").system_table("snapshots").to_arrow()
    assert len(set(snapshots["snapshot_id"].to_pylist())) == snapshots.num_rows

    ours.rename_table("mine.t", "mine.w")
    assert sorted(java.tables()) == ["mine", "mine.w", "yours", "yours.v"]
    java.do("drop", "mine.w")
    ours.drop_table("yours.v")
    assert java.tables() == {"mine": "", "yours": ""}
