"""What tests of the query service share: tables, executors in threads, a raw stub."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

import grpc
import pyarrow as pa
from waiting import SECONDS_MAX, until

from tidelake.codec.binary_row import serialize_row
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.security import Security
from tidelake.service.executor.config import ExecutorConfig, Limits
from tidelake.service.executor.executor import QueryExecutor
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.packed_columns import bits_set, pack, unpack
from tidelake.service.protocol.reasons import REASON_KEY, TOKEN_KEY, bearer

SECRET = "secret-of-the-service"
EMPTY_ROW = serialize_row((), ())
SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})


def made_table(catalog, name="db.t", *, buckets=2, rows=100, **options):
    table = catalog.create_table(
        name, SCHEMA, primary_keys=["id"], options={"bucket": buckets, **options}
    )
    if rows:
        table.write([{"id": i, "v": f"v{i}"} for i in range(rows)])
    return table


@contextmanager
def running(
    catalog, tables=("db.t",), *, count=2, security=None, limits=None, directory=None, server=None
):
    """An address server and executors in threads of this process."""
    security = security or Security()
    own = server is None
    server = server or AddressServer(
        catalog, tables, executors_count=count, secret=SECRET, security=security
    )
    executors, threads = [], []
    stop = threading.Event()
    try:
        for index in range(count):
            config = ExecutorConfig(
                address=server.address,
                service_id=server.service_id,
                secret=SECRET,
                warehouse=catalog.warehouse,
                index=index,
                executors_count=count,
                security=security,
                limits=limits or Limits(),
                directory=directory,
            )
            executor = QueryExecutor(config, catalog)
            thread = threading.Thread(target=executor.run, args=(stop,), daemon=True)
            thread.start()
            executors.append(executor)
            threads.append(thread)
        yield Running(server, executors, threads)
    finally:
        server.tell_stop()
        stop.set()
        for thread in threads:
            thread.join(10)
        if own:
            server.stop(wait_seconds=0)


class Running:
    def __init__(self, server, executors, threads):
        self.server = server
        self.executors = executors
        self.threads = threads

    def wait_ready(self, *tables, seconds=SECONDS_MAX):
        until(lambda: is_ready(self.server.status(), tables or ("db.t",)), seconds=seconds)
        return self

    def wait_ready_at(self, table, *, seconds=SECONDS_MAX):
        """Wait until all executors have the table's newest snapshot and schema."""
        snapshot, schema = table.latest_snapshot_id or 0, table.handle.schemas.latest_id()

        def is_there():
            status = self.server.status()
            newest = {t.table: t.version for t in status.tables}.get(table.identifier)
            if newest is None or (newest.snapshot, newest.schema) != (snapshot, schema):
                return False
            return is_ready(status, (table.identifier,))

        until(is_there, seconds=seconds)


def is_ready(status, tables):
    newest = {t.table: t.version for t in status.tables}
    if len(status.executors) < status.executors_count:
        return False
    for executor in status.executors:
        told = {t.table: t for t in executor.tables}
        for table in tables:
            if table not in told or not told[table].ready or told[table].version != newest[table]:
                return False
    return True


def as_killed(server):
    """End an address server as a kill does: nobody is told, no file is removed."""
    server._leave = lambda served: None
    for served in server.served():
        served.leaving.set()
    server._listener.stop(0)


class Asked:
    """A raw client: no retry, no cache."""

    def __init__(self, address, *, token=None, channel=None):
        self.channel = channel or grpc.insecure_channel(
            address, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self.address_stub = rpc.AddressStub(self.channel)
        self.query_stub = rpc.TableQueryStub(self.channel)
        self.metadata = ((TOKEN_KEY, bearer(token)),) if token else ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def locate(self, table="db.t", **fields):
        request = pb.LocateRequest(protocol=1, table=table, **fields)
        return self.address_stub.Locate(request, timeout=5, metadata=self.metadata)

    def lookup(self, request, *, timeout=5.0):
        return self.query_stub.Lookup(request, timeout=timeout, metadata=self.metadata)


def request_of(of, ids, *, bucket=None, **fields):
    """A lookup of keys `ids` (values or tuples) in one bucket, or in any of the executor."""
    schema = of.handle.schema
    keys = [key if isinstance(key, tuple) else (key,) for key in ids]
    columns = [schema.field(name) for name in of.primary_keys]
    arrays = {
        field.name: pa.array([key[i] for key in keys], of.schema.field(field.name).type)
        for i, field in enumerate(columns)
    }
    packed = pack(pa.record_batch(arrays), [field.type for field in columns])
    if bucket is None:
        slices = [pb.Slice(bucket=-1, count=len(keys))]
    else:
        buckets = int(of.options.raw["bucket"])
        slices = [pb.Slice(partition=EMPTY_ROW, bucket=bucket, count=len(keys), buckets=buckets)]
    fields = {"protocol": 1, "table": of.identifier, "slices": slices, "keys": packed} | fields
    return pb.LookupRequest(**fields)


def rows_of(reply, table, columns=None):
    """What was found, as dicts; None for what was not."""
    schema = table.handle.schemas.load(reply.version.schema)
    fields = [schema.field(c) for c in columns] if columns else list(schema.fields)
    rows = iter(unpack(reply.rows, fields).to_pylist())
    count = len(reply.found) * 8
    flags = bits_set(reply.found, count)
    return [next(rows) if flag else None for flag in flags]


def asked_everywhere(server, table, ids, **fields):
    """Ask all executors for keys in any bucket; the rows found, by id."""
    found = {}
    with Asked(server.address) as asked:
        layout = asked.locate(table.identifier)
    ids = list(ids)
    for executor in layout.executors:
        with Asked(executor.address) as asked:
            reply = asked.lookup(request_of(table, ids, **fields))
            for key, row in zip(ids, rows_of(reply, table), strict=False):
                if row is not None:
                    assert key not in found
                    found[key] = row
    return found


def refusal(call):
    """The status, reason and message of a call that is refused."""
    try:
        call()
    except grpc.RpcError as error:
        trailing = dict(error.trailing_metadata() or ())
        return error.code().name, trailing.get(REASON_KEY, ""), error.details()
    raise AssertionError("the call was answered")


def with_limits(**changes):
    return replace(Limits(), **changes)
