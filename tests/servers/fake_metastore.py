"""A Hive Metastore of a few dictionaries, in this process: what a test cannot ask of a real one.

It answers as Hive 2.3 does, checked beside a real one in ``tests/interop/test_hive_catalogs.py``.
A test may let it hang up, be slow, be without a method, or refuse.
"""

from __future__ import annotations

import copy
import itertools
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TBufferedTransport, TSocket

from servers.ports import listening
from tidelake.catalog.hive.connection import protocol


@dataclass
class FakeMetastore:
    """Its state, and what goes wrong.

    Parameters
    ----------
    before : callable, optional
        Called with the method's name before each call; what it raises goes to the caller, and
        ``ConnectionError`` hangs up.
    after : callable, optional
        The same once the call is done.
    is_strict : bool
        Whether it refuses column types that do not go with the old ones at their positions, as
        ``hive.metastore.disallow.incompatible.col.type.changes`` does by default.
    """

    port: int = 0
    databases: dict[str, Any] = field(default_factory=dict)
    tables: dict[tuple[str, str], Any] = field(default_factory=dict)
    partitions: dict[tuple[str, str], dict[tuple[str, ...], Any]] = field(default_factory=dict)
    marks: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Partitions that were marked as loaded: database, table, values by name."""
    locks: dict[int, tuple[str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], None] | None = None
    after: Callable[[str], None] | None = None
    is_strict: bool = False
    partitions_max: int | None = None

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def options(self, **more):
        return {"type": "hive", "uri": self.uri, **more}


class _Handler:
    """The service's methods."""

    def __init__(self, fake: FakeMetastore) -> None:
        self._fake = fake
        self._structs = protocol()
        self._lock = threading.RLock()
        self._ids = itertools.count(1)

    def __getattribute__(self, name: str) -> Any:
        method = object.__getattribute__(self, name)
        if name.startswith("_"):
            return method

        def call(*arguments: Any) -> Any:
            with self._lock:
                self._fake.calls.append(name)
            if self._fake.before is not None:
                self._fake.before(name)
            with self._lock:
                answer = method(*arguments)
            if self._fake.after is not None:
                self._fake.after(name)
            return answer

        return call

    def set_ugi(self, user_name, group_names):
        return [user_name]

    def get_all_databases(self):
        return sorted(self._fake.databases)

    def get_database(self, name):
        found = self._fake.databases.get(name.lower())
        if found is None:
            raise self._structs.NoSuchObjectException(message=name)
        return copy.deepcopy(found)

    def create_database(self, database):
        database.name = database.name.lower()
        if database.name in self._fake.databases:
            raise self._structs.AlreadyExistsException(message=database.name)
        self._fake.databases[database.name] = database

    def drop_database(self, name, deleteData, cascade):
        if name not in self._fake.databases:
            raise self._structs.NoSuchObjectException(message=name)
        if any(key[0] == name for key in self._fake.tables):
            raise self._structs.InvalidOperationException(message=f"Database {name} is not empty")
        del self._fake.databases[name]

    def get_all_tables(self, db_name):
        return sorted(name for database, name in self._fake.tables if database == db_name)

    def get_table(self, dbname, tbl_name):
        return self._table(dbname, tbl_name)

    def _table(self, dbname, tbl_name):
        found = self._fake.tables.get((dbname.lower(), tbl_name.lower()))
        if found is None:
            raise self._structs.NoSuchObjectException(message=f"{dbname}.{tbl_name}")
        return copy.deepcopy(found)

    def get_table_req(self, req):
        found = self._table(req.dbName, req.tblName)
        return self._structs.GetTableResult(table=found)

    def get_table_objects_by_name(self, dbname, tbl_names):
        return self._tables(dbname, tbl_names)

    def _tables(self, dbname, tbl_names):
        keys = [(dbname, name) for name in tbl_names]
        return [copy.deepcopy(self._fake.tables[key]) for key in keys if key in self._fake.tables]

    def get_table_objects_by_name_req(self, req):
        found = self._tables(req.dbName, req.tblNames)
        return self._structs.GetTablesResult(tables=found)

    def create_table(self, tbl):
        key = (tbl.dbName.lower(), tbl.tableName.lower())
        if key in self._fake.tables:
            raise self._structs.AlreadyExistsException(message=f"Table {key} already exists")
        if key[0] not in self._fake.databases:
            raise self._structs.InvalidObjectException(message=key[0])
        self._fake.tables[key] = tbl

    def drop_table(self, dbname, name, deleteData):
        self._table(dbname, name)
        del self._fake.tables[dbname, name]
        self._fake.partitions.pop((dbname, name), None)

    def alter_table_with_environment_context(self, dbname, tbl_name, new_tbl, environment_context):
        old, new = (dbname, tbl_name), (new_tbl.dbName.lower(), new_tbl.tableName.lower())
        if old not in self._fake.tables:
            message = f"table {old} doesn't exist"
            raise self._structs.InvalidOperationException(message=message)
        if old != new and new in self._fake.tables:
            message = f"new table {new} already exists"
            raise self._structs.InvalidOperationException(message=message)
        self._check_columns(self._fake.tables[old], new_tbl)
        del self._fake.tables[old]
        self._fake.tables[new] = new_tbl
        self._fake.partitions[new] = self._fake.partitions.pop(old, {})

    def _check_columns(self, old, new):
        keys = [[(c.name, c.type) for c in table.partitionKeys or ()] for table in (old, new)]
        if keys[0] != keys[1]:
            message = "partition keys can not be changed."
            raise self._structs.InvalidOperationException(message=message)
        pairs = zip(old.sd.cols, new.sd.cols, strict=False)
        bad = [b.name for a, b in pairs if not _goes_with(a.type, b.type)]
        if bad and self._fake.is_strict:
            said = "The following columns have types incompatible with the existing columns in"
            message = f"{said} their respective positions :\n{','.join(bad)}"
            raise self._structs.InvalidOperationException(message=message)

    def add_partitions_req(self, request):
        known = self._fake.partitions.setdefault((request.dbName, request.tblName), {})
        for part in request.parts:
            known.setdefault(tuple(part.values), part)
        return self._structs.AddPartitionsResult()

    def get_partitions(self, db_name, tbl_name, max_parts):
        self._fake.partitions_max = max_parts
        return list(self._fake.partitions.get((db_name, tbl_name), {}).values())

    def drop_partition(self, db_name, tbl_name, part_vals, deleteData):
        known = self._fake.partitions.get((db_name, tbl_name), {})
        if tuple(part_vals) not in known:
            raise self._structs.NoSuchObjectException(message=str(part_vals))
        del known[tuple(part_vals)]
        return True

    def alter_partition(self, db_name, tbl_name, new_part):
        self._fake.partitions[db_name, tbl_name][tuple(new_part.values)] = new_part

    def markPartitionForEvent(self, db_name, tbl_name, part_vals, eventType):
        found = self._fake.tables.get((db_name, tbl_name))
        if found is None:
            raise self._structs.UnknownTableException(message=f"Table: {tbl_name} not found")
        if {key.name for key in found.partitionKeys} != part_vals.keys():
            raise self._structs.InvalidPartitionException(message="No value for a column")
        assert eventType == self._structs.PartitionEventType.LOAD_DONE
        self._fake.marks.append((db_name, tbl_name, part_vals))

    def lock(self, rqst):
        part = rqst.component[0]
        lock_id = next(self._ids)
        self._fake.locks[lock_id] = (part.dbname, part.tablename)
        return self._answer(lock_id)

    def check_lock(self, rqst):
        if rqst.lockid not in self._fake.locks:
            raise self._structs.NoSuchLockException(message=str(rqst.lockid))
        return self._answer(rqst.lockid)

    def unlock(self, rqst):
        self._fake.locks.pop(rqst.lockid, None)

    def _answer(self, lock_id):
        wanted = self._fake.locks[lock_id]
        first = min(i for i, table in self._fake.locks.items() if table == wanted)
        states = self._structs.LockState
        state = states.ACQUIRED if first == lock_id else states.WAITING
        return self._structs.LockResponse(lockid=lock_id, state=state)


_WIDER = ("tinyint", "smallint", "int", "bigint", "float", "double", "string")


def _goes_with(old: str, new: str) -> bool:
    if old == new:
        return True
    return old in _WIDER and new in _WIDER and _WIDER.index(old) < _WIDER.index(new)


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        socket = TSocket()
        socket.set_handle(self.request)
        transport = TBufferedTransport(socket)
        spoken = TBinaryProtocol(transport)
        processor = TProcessor(protocol().ThriftHiveMetastore, self.server.handler)  # type: ignore[attr-defined]
        with suppress(Exception):  # the caller hung up, or a test asked for it
            while True:
                processor.process(spoken, spoken)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        self.socket.close()
        self.socket = listening()
        self.server_address = self.socket.getsockname()


def unknown_method(name: str) -> TApplicationException:
    """What a metastore answers that has left a method out."""
    return TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Unknown function {name}")


@contextmanager
def fake_metastore() -> Iterator[FakeMetastore]:
    """Run one until the block ends."""
    fake = FakeMetastore()
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.handler = _Handler(fake)  # type: ignore[attr-defined]
        fake.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
