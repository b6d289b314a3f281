"""Java's own REST catalog server between Java's client and ours: each reads what the other did."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tidelake
from interop.catalog_peer import java_catalogs
from interop.readers import AbsentError
from interop.rest_peer import JavaRest, RestPeer, RestPeerError
from interop.views import check_views_are_shared
from tidelake.catalog.rest.vended_credentials import VendedCredentials
from tidelake.errors import (
    NotFoundError,
    OutcomeUnknownError,
    StorageRefusedError,
    UnsupportedError,
)

KEYED = {
    "columns": [["k", "BIGINT NOT NULL"], ["v", "STRING"]],
    "primary_keys": ["k"],
    "partition_keys": [],
    "options": {"bucket": "1"},
}


@pytest.fixture(scope="module")
def peer() -> Iterator[RestPeer]:
    """Java's server and client: one process for this module."""
    java = JavaRest()
    try:
        java.prepare()
    except AbsentError as reason:
        if str(reason).startswith("javac"):
            raise  # the other engine is there; our program for it is wrong
        pytest.skip(f"Java Paimon's REST catalog server is absent: {reason}")
    with RestPeer(java) as started:
        yield started


@pytest.fixture(scope="module")
def catalog(peer: RestPeer) -> tidelake.Catalog:
    return tidelake.open(catalog=peer.options())


def rows_of(table):
    return sorted([list(row.values()) for row in table.to_arrow().to_pylist()], key=str)


def test_java_makes_a_table_and_both_write_it_in_turn(peer, catalog):
    peer.do("create", "a.java", **KEYED)
    peer.do("write", "a.java", rows=[[1, "j"], [2, "j"]])
    table = catalog.table("a.java")
    assert rows_of(table) == [[1, "j"], [2, "j"]]
    table.write([{"k": 2, "v": "t"}, {"k": 3, "v": "t"}])
    assert sorted(peer.do("read", "a.java")) == [[1, "j"], [2, "t"], [3, "t"]]
    peer.do("write", "a.java", rows=[[3, "j"]])
    table.delete("k = 1")
    table.compact(full=True)
    expected = [[2, "t"], [3, "j"]]
    assert sorted(peer.do("read", "a.java")) == rows_of(catalog.table("a.java")) == expected
    assert peer.do("snapshot", "a.java") == table.latest_snapshot_id
    # time travel reads what was before
    assert rows_of_snapshot(table, 1) == [[1, "j"], [2, "j"]]


def rows_of_snapshot(table, snapshot_id):
    read = table.to_arrow(snapshot_id=snapshot_id).to_pylist()
    return sorted([list(row.values()) for row in read], key=str)


def test_we_make_a_table_and_java_reads_alters_and_writes_it(peer, catalog):
    table = catalog.create_table(
        "a.ours",
        pa.schema({"p": pa.string(), "n": pa.int32()}),
        partition_keys=["p"],
        options={"metastore.partitioned-table": "true"},
        comment="ours",
    )
    table.write([{"p": "x", "n": 1}, {"p": "y", "n": 2}])
    assert sorted(peer.do("read", "a.ours")) == [["x", 1], ["y", 2]]
    assert sorted(peer.do("partitions", "a.ours"), key=str) == [
        [{"p": "x"}, 1, 1],
        [{"p": "y"}, 1, 1],
    ]
    peer.do("add", "a.ours", column="s", type="STRING")
    peer.do("write", "a.ours", rows=[["y", 3, "java"]])
    table = catalog.table("a.ours")
    assert rows_of(table) == [["x", 1, None], ["y", 2, None], ["y", 3, "java"]]
    table.alter(
        tidelake.AddColumn("d", pa.int64(), position=tidelake.Position.first()),
        tidelake.RenameColumn("s", "text"),
        tidelake.UpdateColumnType("n", "BIGINT"),
        tidelake.SetOption("target-file-size", "64 mb"),
        tidelake.UpdateComment("changed"),
    )
    table.write(
        [{"d": 7, "p": "y", "n": 1 << 40, "text": "t"}], mode="overwrite", partition={"p": "y"}
    )
    expected = [[7, "y", 1 << 40, "t"], [None, "x", 1, None]]
    assert sorted(peer.do("read", "a.ours"), key=str) == rows_of(table) == expected
    assert table.table_schema.comment == "changed"


def test_names_are_seen_by_both_and_drops_too(peer, catalog):
    for number in range(3):
        catalog.create_table(f"n.t{number}", pa.schema({"k": pa.int64()}))
    assert "n" in peer.do("databases")
    assert sorted(peer.do("tables", database="n")) == catalog.list_tables("n") == ["t0", "t1", "t2"]
    catalog.drop_table("n.t0")
    peer.do("drop", "n.t1")
    assert peer.do("tables", database="n") == catalog.list_tables("n") == ["t2"]
    with pytest.raises(NotFoundError, match="There are: t2"):
        catalog.table("n.t1")
    with pytest.raises(RestPeerError, match="TableNotExist"):
        peer.do("read", "n.t0")
    catalog.drop_database("n", cascade=True)
    assert "n" not in peer.do("databases")


def test_a_commit_whose_answer_fails_is_settled_and_not_sent_again(peer, catalog):
    table = catalog.create_table("a.lost", pa.schema({"k": pa.int64()}), primary_keys=["k"])
    table.write([{"k": 1}])
    peer.do("fail after the next commit")
    table.write([{"k": 2}])
    assert table.latest_snapshot_id == peer.do("snapshot", "a.lost") == 2
    assert sorted(peer.do("read", "a.lost")) == [[1], [2]]


def test_a_rollback_goes_through_the_server(peer, catalog):
    table = catalog.create_table("a.back", pa.schema({"k": pa.int64()}))
    for number in range(3):
        table.write([{"k": number}])
    table.rollback_to(snapshot_id=1)
    assert peer.do("snapshot", "a.back") == 1
    table.write([{"k": 9}])
    assert sorted(peer.do("read", "a.back")) == [[0], [9]]


def test_views_are_shared(java, peer, catalog):
    """Java's client beside ours, at Java's server."""
    try:
        client = java_catalogs(java)
    except AbsentError as reason:
        pytest.skip(f"the drivers of Java are absent: {reason}")
    with client:
        client.open({**peer.options(), "metastore": "rest"})
        check_views_are_shared(client, catalog)


def test_a_wrong_token_is_refused(peer):
    with pytest.raises(StorageRefusedError, match="401") as refused:
        tidelake.open(catalog=peer.options() | {"token": "wrong-token"})
    assert refused.value.kind == "rest_unauthorized"
    assert "wrong-token" not in str(refused.value)
    assert not isinstance(refused.value, OutcomeUnknownError)


def test_branches_that_either_makes_are_written_and_published_by_both(peer, catalog):
    table = catalog.create_table(
        "a.branched",
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())]),
        primary_keys=["k"],
        options={"bucket": "1"},
    )
    table.write([{"k": 1, "v": "main"}])
    table.branches.create("ours", snapshot_id=1)
    ours = catalog.table("a.branched$branch_ours")
    ours.write([{"k": 2, "v": "t"}])
    peer.do("write", "a.branched$branch_ours", rows=[[3, "j"]])
    expected = [[1, "main"], [2, "t"], [3, "j"]]
    assert sorted(peer.do("read", "a.branched$branch_ours")) == rows_of(ours) == expected
    assert peer.do("read", "a.branched") == rows_of(table) == [[1, "main"]]
    table.branches.fast_forward("ours")
    assert sorted(peer.do("read", "a.branched")) == rows_of(catalog.table("a.branched")) == expected
    table.branches.delete("ours")
    assert peer.do("branches", "a.branched") == []
    # and the other way
    peer.do("tag", "a.branched", tag="start")
    peer.do("branch", "a.branched", branch="theirs", tag="start")
    theirs = catalog.table("a.branched").branch("theirs")
    theirs.write([{"k": 2, "v": "t2"}])
    peer.do("write", "a.branched$branch_theirs", rows=[[4, "j"]])
    peer.do("forward", "a.branched", branch="theirs")
    peer.do("unbranch", "a.branched", branch="theirs")
    expected = [[1, "main"], [2, "t2"], [3, "j"], [4, "j"]]
    assert sorted(peer.do("read", "a.branched")) == rows_of(catalog.table("a.branched")) == expected
    with pytest.raises(NotFoundError, match="has no branch 'theirs'"):
        catalog.table("a.branched$branch_theirs")


def test_keys_that_javas_server_gives_are_read_and_renewed(peer, catalog):
    peer.do("create", "a.vended", **KEYED)
    keys = VendedCredentials(catalog.metastore.client, "a", "vended", env=catalog.env)
    given = {"fs.s3a.access.key": "k1", "fs.s3a.secret.key": "s1", "fs.s3a.session.token": "t1"}
    ends_at_ms = peer.do("vend", "a.vended", keys=given, life_ms=3_600_000)
    first = keys.current()
    assert (first.s3_keys(), first.expires_at_ms) == (("k1", "s1", "t1"), ends_at_ms)
    peer.do("vend", "a.vended", keys={"s3.access-key": "k2", "s3.secret-key": "s2"}, life_ms=60_000)
    assert keys.renewed(first).s3_keys() == ("k2", "s2", None)
    peer.do("vend", "a.vended", keys={"fs.oss.accessKeyId": "k3"}, life_ms=60_000)
    with pytest.raises(UnsupportedError, match="accessKeyId"):
        keys.renewed(keys.current())
