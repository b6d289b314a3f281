"""A Hive Metastore that Java 2.1 and we share: entries, rows, changes, renames, drops, locks.

It is Hive 2.3's own, on Derby. Java's HiveCatalog is in the oracle's jar.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from servers.hive_metastore import JARS, hive_metastore
from servers.program import AbsentError as NoJavaError

import tidelake
from interop.catalog_peer import CatalogPeer, PeerError
from interop.readers import AbsentError, JavaCore21, _tool
from tidelake import AddColumn, DropColumn
from tidelake.errors import AlreadyExistsError, StorageRefusedError
from tidelake.maintenance import call

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
UNCACHED = {"cache-enabled": "false"}  # Java keeps tables that it has opened
VARYING = {"transient_lastDdlTime", "totalSize", "numFiles", "numRows", "rawDataSize"}
"""Parameters that the metastore itself writes."""


@pytest.fixture(scope="module")
def server():
    try:
        with hive_metastore() as running:
            yield running
    except NoJavaError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return f"file:{tmp_path_factory.mktemp('hive')}/w"


@pytest.fixture(scope="module")
def ours(server, warehouse):
    return tidelake.open(catalog=server.options(warehouse=warehouse))


@pytest.fixture(scope="module")
def java(server, warehouse):
    reader = JavaCore21()
    try:
        reader.prepare()
    except AbsentError as reason:
        pytest.skip(str(reason))
    class_path = os.pathsep.join([reader.class_path, f"{JARS}/*"])
    with CatalogPeer([_tool("java"), *reader.settings, "-cp", class_path, "Catalogs"]) as peer:
        peer.open({**server.options(warehouse=warehouse), **UNCACHED})
        yield peer


def make(catalog, name, **row):
    table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": 1})
    if row:
        table.write([row])
    return table


def rows(catalog, name):
    return {row["k"]: row["v"] for row in catalog.table(name).to_arrow().to_pylist()}


def entry(catalog, name):
    return catalog.metastore.register.table(*name.split("."))


def test_a_table_of_java_and_ours_have_equal_entries(ours, java):
    make(ours, "same.ours")
    java.do("create", "same.theirs")
    mine, theirs = entry(ours, "same.ours"), entry(ours, "same.theirs")
    for part in (
        "columns",
        "partition_keys",
        "table_type",
        "input_format",
        "output_format",
        "serde",
    ):
        assert getattr(mine, part) == getattr(theirs, part)
    shown = [
        {k: v for k, v in found.parameters.items() if k not in VARYING} for found in (mine, theirs)
    ]
    assert shown[0] == shown[1]
    assert mine.location == theirs.location.replace("theirs", "ours")
    sds = [found.origin.sd for found in (mine, theirs)]
    assert sds[0].serdeInfo.parameters == sds[1].serdeInfo.parameters


def test_java_and_we_share_tables(ours, java):
    make(ours, "mine.t", k=1, v="tidelake")
    make(ours, "mine.away", k=1, v="x")
    make(ours, "mine.gone")
    seen = java.tables()
    assert {n: seen[n] for n in ("mine.t", "mine.away", "mine.gone")} == {
        "mine.t": "1=tidelake",
        "mine.away": "1=x",
        "mine.gone": "",
    }
    java.do("write", "mine.t", "2", "theirs")
    java.do("rename", "mine.away", "mine.renamed")
    java.do("drop", "mine.gone")
    java.do("create", "yours.u")
    java.do("write", "yours.u", "5", "theirs")
    with pytest.raises(PeerError, match=r"(?i)exist"):
        java.do("create", "mine.t")
    with pytest.raises(AlreadyExistsError):
        make(ours, "yours.u")
    assert ours.list_tables("mine") == ["renamed", "t"]
    assert rows(ours, "mine.t") == {1: "tidelake", 2: "theirs"}
    assert rows(ours, "mine.renamed") == {1: "x"}
    ours.table("yours.u").write([{"k": 5, "v": "again"}])
    ours.rename_table("yours.u", "yours.v")
    ours.drop_table("mine.renamed")
    java.do("alter", "yours.v", "snapshot.num-retained.max", "70")
    assert ours.table("yours.v").options.raw["snapshot.num-retained.max"] == "70"
    seen = java.tables()
    assert {n: v for n, v in seen.items() if n.startswith(("mine", "yours"))} == {
        "mine.t": "1=tidelake,2=theirs",
        "mine": "",
        "yours.v": "5=again",
        "yours": "",
    }
    java.do("dropdb", "yours")
    assert not ours.database_exists("yours")


def test_java_reads_a_table_that_was_listed_by_its_files(ours, java):
    files = tidelake.open(ours.warehouse)
    make(files, "found.t", k=1, v="alone")
    assert "found.t" not in java.tables()
    assert ours.repair("found") == {"found.t": "created"}
    java.do("write", "found.t", "2", "theirs")
    assert rows(ours, "found.t") == {1: "alone", 2: "theirs"}
    files.table("found.t").alter(tidelake.AddColumn("w", "INT"))
    assert ours.repair("found.t") == {"found.t": "changed"}
    assert java.tables()["found.t"] == "1=alone,2=theirs"
    assert [column.name for column in entry(ours, "found.t").columns][-1] == "w"


def test_a_change_of_columns_is_in_the_metastore_or_refused(ours):
    table = make(ours, "changed.t", k=1, v="a")
    table.alter(AddColumn("w", "DECIMAL(10, 2)"))
    assert [(c.name, c.type) for c in entry(ours, "changed.t").columns][2] == ("w", "decimal(10,2)")
    with pytest.raises(StorageRefusedError, match=r"disallow\.incompatible"):
        ours.table("changed.t").alter(DropColumn("v"))
    assert ours.table("changed.t").schema.names == ["k", "v", "w"]


def test_of_many_creators_one_wins(ours):
    ours.create_database("race")

    def create(_number):
        try:
            make(ours, "race.t")
        except AlreadyExistsError:
            return 0
        return 1

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(create, range(4))) == 1


def test_the_metastores_lock_is_taken_and_let_go(server, warehouse):
    options = {"lock.enabled": "true", "lock-acquire-timeout": "1 s", "lock-check-max-sleep": "1 s"}
    catalog = tidelake.open(catalog=server.options(warehouse=warehouse, **options))
    make(catalog, "locked.t", k=1, v="a")
    catalog.table("locked.t").write([{"k": 2, "v": "b"}])
    with catalog.table("locked.t").handle.guard():
        other = tidelake.open(catalog=server.options(warehouse=warehouse, **options))
        with pytest.raises(StorageRefusedError, match="could not be locked"):
            other.table("locked.t").write([{"k": 3, "v": "c"}])
    other.table("locked.t").write([{"k": 3, "v": "c"}])
    assert len(rows(catalog, "locked.t")) == 3


def test_a_database_and_views(ours, java):
    make(ours, "shown.t")
    fields = ours.table("shown.t").table_schema.fields
    ours.create_view("shown.v", "SELECT * FROM t", fields, comment="c")
    assert ours.view("shown.v").query == "SELECT * FROM t"
    assert ours.list_tables("shown") == ["t"]
    assert any(line.startswith("v\t") for line in java.do("views", "shown"))
    ours.drop_database("shown", cascade=True)
    assert "shown" not in ours.list_databases()


def test_partitions_are_shown_as_they_are_written_and_dropped(ours):
    table = ours.create_table(
        "parts.t",
        {"k": "BIGINT NOT NULL", "day": "STRING NOT NULL"},
        primary_keys=["k", "day"],
        partition_keys=["day"],
        options={"bucket": 1, "metastore.partitioned-table": True},
    )
    register = ours.metastore.register
    found = entry(ours, "parts.t")
    assert [c.name for c in found.columns] == ["k"]
    assert [c.name for c in found.partition_keys] == ["day"]
    table.write([{"k": 1, "day": "a"}, {"k": 1, "day": "b"}])
    table.write([{"k": 2, "day": "b"}])
    assert [p.values for p in register.partitions(found)] == [("a",), ("b",)]
    table.drop_partitions([{"day": "a"}])
    assert [p.values for p in register.partitions(found)] == [("b",)]
    ours.rename_table("parts.t", "parts.u")
    moved = entry(ours, "parts.u")
    (left,) = register.partitions(moved)
    assert left.location.endswith("/parts.db/u/day=b")
    ours.table("parts.u").set_options({"partition.mark-done-action": "mark-event"})
    call(ours, "mark_partition_done", ("parts.u", "day=b"), {})
    with pytest.raises(StorageRefusedError, match="No value found for partition column: day"):
        register.mark_done(moved, {"hour": "b"})
