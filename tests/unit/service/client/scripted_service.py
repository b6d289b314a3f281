"""A query service whose servers answer from dicts, and fail as a test tells them to."""

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pyarrow as pa

from tidelake.codec.bucket import buckets_of
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.ownership import executor_of
from tidelake.service.protocol.packed_columns import bits, pack, unpack
from tidelake.service.protocol.reasons import BUCKETS_KEY, REASON_KEY, TOKEN_KEY
from tidelake.service.protocol.service_file import (
    ServiceFile,
    remove_service_file,
    write_service_file,
)

Code = grpc.StatusCode


class Executor(rpc.TableQueryServicer):
    """Owns its share of the buckets; `script` is what the next calls do instead of answering."""

    def __init__(self, service, index):
        self.service = service
        self.index = index
        self.script = deque()
        self.requests = []
        self.running = 0
        self.running_max = 0
        self.snapshot = None
        self.lock = threading.Lock()
        self.start()

    def start(self, port=0):
        self.server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
        rpc.add_TableQueryServicer_to_server(self, self.server)
        self.port = self.service.bind(self.server, port)
        self.server.start()

    def kill(self):
        self.server.stop(0).wait()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def Lookup(self, request, context):
        with self.lock:
            self.requests.append(request)
            self.running += 1
            self.running_max = max(self.running_max, self.running)
            act = self.script.popleft() if self.script else None
        try:
            self.service.check_token(context)
            if act is not None:
                answer = act(self, request, context)
                if answer is not None:
                    return answer
            return self.answer(request, context)
        finally:
            with self.lock:
                self.running -= 1

    def answer(self, request, context):
        service = self.service
        table = service.table
        snapshot = self.snapshot or service.snapshot
        if (request.at_least.generation, request.at_least.snapshot) > (
            service.generation,
            snapshot,
        ):
            if request.at_least.snapshot <= service.snapshot:
                self.snapshot = snapshot = service.snapshot  # refreshes at once
            else:
                refuse(context, Code.UNAVAILABLE, "not-ready")
        others = {}
        for number, one in enumerate(request.slices):
            buckets = service.buckets_of(one.partition)
            if one.bucket >= 0 and one.buckets != buckets:
                others[number] = buckets
            elif (
                one.partition
                and executor_of(one.partition, one.bucket, len(service.executors)) != self.index
            ):
                refuse(context, Code.FAILED_PRECONDITION, "wrong-owner")
        if others:
            said = ",".join(f"{n}={c}" for n, c in others.items())
            refuse(context, Code.FAILED_PRECONDITION, "bucket-count", (BUCKETS_KEY, said))
        assert sum(s.count for s in request.slices) == request.keys.count
        fields = [table.table_schema.field(n) for n in table.primary_keys]
        batch = unpack(request.keys, fields)
        keys = batch.to_pylist()
        at = 0
        for one in request.slices:
            if one.bucket >= 0:
                part = batch.slice(at, one.count)
                buckets = buckets_of(part.columns, [f.type for f in fields], one.buckets)
                assert set(buckets.tolist()) == {one.bucket}, "keys of another bucket"
            at += one.count
        rows = service.rows_at(snapshot)
        found = [rows.get(tuple(key.values())) for key in keys]
        if service.cross:
            found = [
                row
                if row is not None and hash(row["v"]) % len(service.executors) == self.index
                else None
                for row in found
            ]
        names = list(request.columns) or list(table.table_schema.field_names)
        wanted = [table.table_schema.field(n) for n in names]
        there = pa.RecordBatch.from_pylist(
            [{n: row[n] for n in names} for row in found if row is not None],
            schema=pa.schema([table.schema.field(n) for n in names]),
        )
        import numpy as np

        return pb.LookupReply(
            version=service.version(snapshot),
            found=bits(np.array([row is not None for row in found], bool)),
            rows=pack(there, [f.type for f in wanted]),
        )


class Service(rpc.AddressServicer):
    """An address server and its executors."""

    def __init__(self, table, *, executors=2, credentials=None, token=None, cross=False):
        self.table = table
        self.credentials = credentials
        self.token = token
        self.cross = cross
        self.generation, self.snapshot, self.epoch = 1, 1, 1
        self.counts = {}
        self.history = {}
        self.locates = 0
        self.script = deque()
        self.service_id = "scripted"
        self.executors = [Executor(self, index) for index in range(executors)]
        self.hidden = set()
        self.start()

    def start(self):
        self.server = grpc.server(ThreadPoolExecutor(16))
        rpc.add_AddressServicer_to_server(self, self.server)
        self.port = self.bind(self.server, 0)
        self.server.start()
        self.register()

    def register(self):
        write_service_file(
            self.table.fileio,
            self.table.paths.location,
            ServiceFile(f"127.0.0.1:{self.port}", self.service_id, self.credentials is not None),
        )

    def bind(self, server, port):
        address = f"127.0.0.1:{port}"
        if self.credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, self.credentials)

    def check_token(self, context):
        if self.token is not None:
            given = dict(context.invocation_metadata()).get(TOKEN_KEY)
            if given != f"Bearer {self.token}":
                context.abort(Code.UNAUTHENTICATED, "no such token")

    def Locate(self, request, context):
        self.check_token(context)
        self.locates += 1
        if self.script:
            act = self.script.popleft()
            act(self, request, context)
        assert request.table == self.table.identifier
        return pb.Layout(
            epoch=self.epoch,
            table=request.table,
            service_id=self.service_id,
            executors_count=len(self.executors),
            executors=[
                pb.ExecutorAddress(index=e.index, address=e.address, ready=True)
                for e in self.executors
                if e.index not in self.hidden
            ],
            version=self.version(self.snapshot),
            bucket_mode="fixed",
        )

    def version(self, snapshot):
        schema = self.table.table_schema.id
        return pb.Version(generation=self.generation, snapshot=snapshot, schema=schema)

    def buckets_of(self, partition):
        return self.counts.get(partition, int(self.table.table_schema.options["bucket"]))

    def rows_at(self, snapshot):
        """Rows by key: those of the newest change up to a snapshot."""
        return self.history[max(s for s in self.history if s <= snapshot)]

    def commit(self, rows, *, snapshot=None):
        """Show rows, `{key tuple: row}`, from the next snapshot on."""
        self.snapshot = (self.snapshot + 1) if snapshot is None else snapshot
        self.history[self.snapshot] = rows

    @property
    def requests(self):
        return [request for executor in self.executors for request in executor.requests]

    def stop(self, *, keep_file=False):
        if not keep_file:
            remove_service_file(self.table.fileio, self.table.paths.location, self.service_id)
        for server in (self.server, *(e.server for e in self.executors)):
            server.stop(0)


def refuse(context, code, reason="", *metadata):
    context.set_trailing_metadata(((REASON_KEY, reason), *metadata))
    context.abort(code, f"told to say {code.name} {reason}")


def fails(code, reason="", *metadata):
    """A step of a script: the call fails."""

    def act(self, request, context):
        refuse(context, code, reason, *metadata)

    return act


def slow(seconds):
    """A step of a script: the call takes a while."""

    def act(self, request, context):
        time.sleep(seconds)

    return act


def then(call):
    """A step of a script: something happens, and the call is answered."""

    def act(self, request, context):
        call()

    return act


@contextmanager
def serving(table, rows, **options):
    service = Service(table, **options)
    service.history[1] = rows
    try:
        yield service
    finally:
        service.stop()
