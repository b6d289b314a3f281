"""The client against the service itself: the answers of a batch read, TLS, tokens, its end."""

import datetime as dt
import hashlib
import json
import socket
from decimal import Decimal

import pyarrow as pa
import pytest
from unit.service.certificates import Authority
from unit.service.service_kit import made_table, running

import tidelake
from tidelake.errors import CorruptError, InvalidInputError, StorageError
from tidelake.service.address.security import Security
from tidelake.service.client.connection.tls import Tls
from tidelake.service.protocol.reasons import PROTOCOL
from tidelake.service.protocol.service_file import (
    ServiceFile,
    service_file_path,
    write_service_file,
)

DAY = dt.date(2026, 1, 1)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


TABLES = {
    "fixed": (
        {"k": pa.int32(), "v": pa.string(), "x": pa.float64()},
        {"primary_keys": ["k"], "options": {"bucket": 3}},
        [{"k": k, "v": None if k % 7 == 0 else f"v{k}", "x": k / 3} for k in range(60)],
        ["k"],
    ),
    "partitions, many columns": (
        {"d": pa.date32(), "k": pa.string(), "n": pa.decimal128(20, 3), "t": pa.timestamp("us")},
        {"primary_keys": ["d", "k"], "partition_keys": ["d"], "options": {"bucket": 2}},
        [
            {
                "d": DAY + dt.timedelta(k % 3),
                "k": f"k{k}" * (k % 4 + 1),
                "n": Decimal(k) / 8,
                "t": dt.datetime(2026, 1, 1, 0, 0, k),
            }
            for k in range(60)
        ],
        ["d", "k"],
    ),
    "dynamic": (
        {"d": pa.int32(), "k": pa.int64(), "v": pa.binary()},
        {"primary_keys": ["d", "k"], "partition_keys": ["d"], "options": {"bucket": -1}},
        [{"d": k % 2, "k": k, "v": bytes([k])} for k in range(60)],
        ["d", "k"],
    ),
    "cross-partition": (
        {"d": pa.int32(), "k": pa.int64(), "v": pa.bool_()},
        {"primary_keys": ["k"], "partition_keys": ["d"], "options": {"bucket": -1}},
        [{"d": k % 3, "k": k, "v": k % 2 == 0} for k in range(60)],
        ["k"],
    ),
    "nested": (
        {"k": pa.int64(), "tags": pa.list_(pa.string()), "at": pa.struct({"x": pa.int32()})},
        {"primary_keys": ["k"], "options": {"bucket": 2}},
        [{"k": k, "tags": ["a"] * (k % 3), "at": {"x": k}} for k in range(60)],
        ["k"],
    ),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("columns", "given", "rows", "key"), TABLES.values(), ids=TABLES)
def test_answers_are_those_of_a_batch_read(
    catalog, authority, columns, given, rows, key, is_secure
):
    table = catalog.create_table("db.t", pa.schema(columns), **given)
    table.write(pa.Table.from_pylist(rows, schema=table.schema))
    table.delete(tidelake.col("k") == rows[5]["k"])
    held = {tuple(row[c] for c in key): row for row in table.to_arrow().to_pylist()}
    keys = [tuple(row[c] for c in key) for row in rows]
    security = Security(*authority.signed("server")) if is_secure else None
    tls = authority.ca if is_secure else None
    with (
        running(catalog, security=security),
        tidelake.lookup_client(catalog, "db.t", tls=tls) as query,
    ):
        assert query.get_many(keys) == [held.get(k) for k in keys]
        assert [query.get(k) for k in keys[:9]] == [held.get(k) for k in keys[:9]]
        arrow = pa.Table.from_pylist([dict(zip(key, k, strict=True)) for k in keys])
        arrow = arrow.cast(pa.schema([table.schema.field(c) for c in key]))
        nothing = dict.fromkeys(columns)
        assert query.get_many(arrow).to_pylist() == [held.get(k, nothing) for k in keys]
        one = list(columns)[-1]
        assert query.get(keys[1], columns=[one]) == {one: held[keys[1]][one]}


def test_a_write_is_read_at_once_and_a_service_that_ends_is_told(catalog):
    table = made_table(catalog, rows=20)
    with running(catalog):
        query = tidelake.lookup_client(catalog, "db.t", deadline_seconds=60)
        assert query.get(3) == {"id": 3, "v": "v3"}
        for n in range(3):
            written = table.write([{"id": 3, "v": f"new {n}"}])
            found = query.get(3, min_snapshot=written.snapshot_ids[-1])
            assert found == {"id": 3, "v": f"new {n}"}
            assert query.snapshot_id >= written.snapshot_ids[-1]
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=0.3, fallback=True) as local:
        assert local.get(3) == {"id": 3, "v": "new 2"}
        assert local.is_local
        table.write([{"id": 3, "v": "later"}])
        assert local.get_many([3, 99]) == [{"id": 3, "v": "later"}, None]
        assert local.get_many(pa.array([3])).to_pylist() == [{"id": 3, "v": "later"}]
        assert local.snapshot_id == table.latest_snapshot_id
        with pytest.raises(StorageError, match="no snapshot 99 yet"):
            local.get(3, min_snapshot=99)
    query.close()
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=2, fallback=True) as gone:
        gone.get(3)
        with running(catalog) as back:
            back.wait_ready()
            gone._client._full.local._asked_at = -1e9  # five seconds later
            assert gone.get(3) == {"id": 3, "v": "later"}
            assert not gone.is_local


def test_a_table_that_is_evolved_rescaled_and_rolled_back_is_followed(catalog):
    table = made_table(catalog, rows=20)
    with running(catalog), tidelake.lookup_client(catalog, "db.t", deadline_seconds=60) as query:
        assert query.get(3) == {"id": 3, "v": "v3"}
        table.add_column("n", pa.int32())
        table = catalog.table("db.t")
        last = table.write([{"id": 3, "v": "x", "n": 7}])
        assert query.get(3, min_snapshot=last.snapshot_ids[-1]) == {"id": 3, "v": "x", "n": 7}
        assert query.get(3, columns=["n"]) == {"n": 7}
        table.rescale_bucket(5)
        table = catalog.table("db.t")
        keys = list(range(25))
        held = {row["id"]: row for row in table.to_arrow().to_pylist()}
        found = query.get_many(keys, min_snapshot=table.latest_snapshot_id)
        assert found == [held.get(k) for k in keys]


def test_tls_on_both_sides_and_tokens_by_table(catalog, tmp_path):
    made_table(catalog, rows=20)
    authority = Authority(tmp_path / "tls")
    tokens = tmp_path / "tokens.json"
    digest = hashlib.sha256(b"open sesame").hexdigest()
    tokens.write_text(json.dumps({"tokens": [{"name": "a", "sha256": digest, "tables": ["db.*"]}]}))
    pair = authority.signed("server")
    security = Security(*pair, tls_ca=authority.ca, tokens=str(tokens))
    mutual = Tls(authority.ca, *authority.signed("client"))
    with running(catalog, security=security):
        with tidelake.lookup_client(catalog, "db.t", tls=mutual, token="open sesame") as query:
            assert query.get(3) == {"id": 3, "v": "v3"}
        with (
            tidelake.lookup_client(catalog, "db.t", tls=mutual, token="wrong") as query,
            pytest.raises(InvalidInputError, match="refused the token"),
        ):
            query.get(3)
        for tls in (authority.ca, None):
            options = {"tls": tls, "token": "open sesame", "deadline_seconds": 0.5}
            with (
                tidelake.lookup_client(catalog, "db.t", **options) as query,
                pytest.raises(StorageError),
            ):
                query.get(3)


def test_a_key_of_another_certificate_is_named(catalog, tmp_path):
    made_table(catalog, rows=1)
    authority = Authority(tmp_path / "tls")
    certificate, other_key = authority.signed("server")[0], authority.signed("client")[1]
    pair = {"tls_cert": certificate, "tls_key": other_key}
    with pytest.raises(InvalidInputError, match="do not make a pair") as raised:
        tidelake.serve(catalog.warehouse, ["db.t"], **pair)
    assert raised.value.kind == "service_security"


def test_a_damaged_service_file_is_not_the_end(catalog):
    table = made_table(catalog, rows=9)
    path = service_file_path(table.paths.location)
    with running(catalog) as service, tidelake.lookup_client(catalog, "db.t") as query:
        service.wait_ready()
        table.fileio.replace(path, b"garbage")  # its service writes it anew within a second
        assert query.get(3) == {"id": 3, "v": "v3"}
    table.fileio.replace(path, b"garbage")
    with pytest.raises(CorruptError, match="does not name an address server"):
        tidelake.lookup_client(catalog, "db.t")
    with tidelake.lookup_client(catalog, "db.t", fallback=True) as query:
        assert query.get(3) == {"id": 3, "v": "v3"}
        assert query.is_local


def test_an_address_server_that_does_not_answer_is_named(catalog):
    table = made_table(catalog, rows=1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        write_service_file(
            table.fileio, table.paths.location, ServiceFile(address, "x", False, PROTOCOL)
        )
        with (
            tidelake.lookup_client(catalog, "db.t", deadline_seconds=0.3) as query,
            pytest.raises(StorageError, match=f"The service at {address} did not answer"),
        ):
            query.get(1)


def test_files_of_tls_are_checked(catalog):
    with pytest.raises(InvalidInputError, match="go together"):
        Tls(certificate="a.pem")
    made_table(catalog, rows=1)
    with (
        running(catalog),
        tidelake.lookup_client(catalog, "db.t", tls="/nowhere/ca.pem") as query,
        pytest.raises(InvalidInputError, match="cannot be read"),
    ):
        query.get(1)


@pytest.mark.parametrize(
    ("kind", "partitions"), [("FLOAT", []), ("INT", ["part"])], ids=["type", "partitions"]
)
def test_a_table_made_anew_with_another_key_is_followed(catalog, kind, partitions):
    columns = {"id": "INT", "part": "INT", "v": "STRING"}
    given = {"primary_keys": ["id", "part"], "options": {"bucket": 2}}
    catalog.create_table("db.t", columns, **given).write([{"id": 1, "part": 0, "v": "old"}])
    keys = [(id, 0) for id in range(50)]
    with running(catalog, count=1) as service, tidelake.lookup_client(catalog, "db.t") as query:
        assert query.get((1, 0)) == {"id": 1, "part": 0, "v": "old"}
        catalog.drop_table("db.t")
        columns["id"] = kind  # as wide as before: nothing in the bytes tells
        table = catalog.create_table("db.t", columns, **given, partition_keys=partitions)
        rows = [{"id": id, "part": part, "v": "new"} for id, part in keys]
        table.write(rows)
        table.write(rows[:1])  # snapshot 2: the old table had none, so this waits for the new one
        service.wait_ready_at(table)
        assert query.get_many(keys) == rows
        assert [query.get(key) for key in keys[:3]] == rows[:3]
        assert query.get_many(key for key in keys) == rows
