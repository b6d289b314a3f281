"""Java's own REST catalog server with its tables in an S3, which we reach by keys that it gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.program import AbsentError as NoJars
from servers.s3 import KEY_ID, SECRET, S3Server

import tidelake
from interop.readers import AbsentError
from interop.rest_peer import JavaRest, RestPeer, Store
from tidelake.errors import StorageRefusedError

KEYED = {
    "columns": [["k", "BIGINT NOT NULL"], ["v", "STRING"]],
    "primary_keys": ["k"],
    "partition_keys": [],
    "options": {"bucket": "1"},
}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


@pytest.fixture(scope="module")
def peer(s3) -> Iterator[RestPeer]:
    java = JavaRest()
    try:
        java.prepare()
        made = RestPeer(java, Store("s3://lake/java", s3.url, KEY_ID, SECRET))
    except (AbsentError, NoJars) as reason:
        if str(reason).startswith("javac"):
            raise  # the other engine is there; our program for it is wrong
        pytest.skip(f"Java Paimon's REST catalog server is absent: {reason}")
    with made as started:
        yield started


def rows_of(table):
    return sorted([list(row.values()) for row in table.to_arrow().to_pylist()])


def test_both_write_a_table_in_turn_that_lies_in_a_store(peer, s3):
    catalog = tidelake.open(catalog=peer.options(), storage=s3.storage())
    peer.do("create", "a.t", **KEYED)
    peer.do("write", "a.t", rows=[[1, "j"], [2, "j"]])
    table = catalog.table("a.t")
    assert table.handle.uri == "s3://lake/java/a.db/t"
    assert rows_of(table) == [[1, "j"], [2, "j"]]
    table.write([{"k": 2, "v": "t"}, {"k": 3, "v": "t"}])
    assert sorted(peer.do("read", "a.t")) == [[1, "j"], [2, "t"], [3, "t"]]
    peer.do("write", "a.t", rows=[[3, "j"]])
    table.delete("k = 1")
    table.compact(full=True)
    expected = [[2, "t"], [3, "j"]]
    assert sorted(peer.do("read", "a.t")) == rows_of(catalog.table("a.t")) == expected
    assert peer.do("snapshot", "a.t") == table.latest_snapshot_id
    catalog.drop_table("a.t")
    assert peer.do("tables", database="a") == []
    assert s3.listing("java/a.db/t") == []


def test_keys_that_the_server_gives_open_its_store(peer, s3):
    peer.do("create", "a.vended", **KEYED)
    peer.do("write", "a.vended", rows=[[1, "j"]])
    given = {"fs.s3a.access.key": KEY_ID, "fs.s3a.secret.key": SECRET, "s3.endpoint": s3.url}
    peer.do("vend", "a.vended", keys=given | {"fs.s3a.session.token": "t1"}, life_ms=3_600_000)
    catalog = tidelake.open(catalog=peer.options() | {"data-token.enabled": "true"})
    table = catalog.table("a.vended")
    table.write([{"k": 2, "v": "t"}])
    s3.expired_tokens = {"t1"}
    try:
        with pytest.raises(StorageRefusedError, match="expired"):
            table.to_arrow()
        peer.do("vend", "a.vended", keys=given | {"fs.s3a.session.token": "t2"}, life_ms=3_600_000)
        assert rows_of(table) == [[1, "j"], [2, "t"]]
        table.write([{"k": 3, "v": "t"}])
    finally:
        s3.expired_tokens = set()
    assert sorted(peer.do("read", "a.vended")) == [[1, "j"], [2, "t"], [3, "t"]]
