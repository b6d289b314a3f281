"""A Paimon REST catalog in the test's own process: small, strict, and unreliable on order.

    with RestCatalogServer(directory) as server:
        tidelake.open("lake", catalog={"type": "rest", "uri": server.url, "token": TOKEN})
        server.fault("lost", "POST", "/commit")

It keeps names and ids of tables itself; schemas and snapshots are files, as at Paimon's own
servers. A rename changes the name, and leaves the files where they are. Each request is recorded.
"""

from __future__ import annotations

import itertools
import json
import threading
import urllib.parse
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from servers.ports import HttpServer
from tidelake.catalog import open_catalog
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio import FileIO
from tidelake.metadata import SnapshotLog, TablePaths
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.types import DataField, parse_type
from tidelake.types.schema import field_to_json
from tidelake.types.schema_change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)

TOKEN = "tide-token-d4e5f6"
MODES = frozenset(
    {
        *("status", "status_after", "status_later", "drop", "lost", "dup", "defer"),
        *("html", "html_after", "cut"),
    }
)
PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"


@dataclass(slots=True)
class Fault:
    """An ordered fault; see :meth:`RestCatalogServer.fault`."""

    mode: str
    method: str
    path: str
    nth: int
    count: int
    status: int
    after: int
    body: bytes
    met: int = 0


@dataclass(slots=True)
class Entry:
    """A table as the server knows it."""

    id: str
    location: str
    newest: Snapshot | None = None
    shown: str = ""
    """The path that is told to clients, if it is another one."""
    branch: str = "main"
    branches: dict[str, Entry] = field(default_factory=dict)
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)


class _RequestError(Exception):
    def __init__(self, status: int, resource: str | None = None, name: str = "", message: str = ""):
        super().__init__(message)
        self.status, self.resource, self.name = status, resource, name
        self.message = message or f"{resource} {name}"


class RestCatalogServer:
    """Answers on a port of the loopback interface until it is closed.

    Parameters
    ----------
    directory : Path
        The warehouse's files.
    token : str or None
        The bearer token that requests must bear.
    prefix : str
        The prefix of paths, as told by the configuration.
    checks_base : bool
        Whether a commit must name the uuid of the newest snapshot, as at servers of 2.x.
    vends : bool
        Whether it gives keys for the storage.
    fileio : FileIO, optional
        The storage of the files; local files by default.
    shown_as : str
        What stands before the paths that are told to clients, such as ``s3://bucket``.
    """

    def __init__(
        self,
        directory: Path,
        *,
        token: str | None = TOKEN,
        prefix: str = "tide lake",
        checks_base: bool = True,
        vends: bool = False,
        fileio: FileIO | None = None,
        shown_as: str = "file:",
    ) -> None:
        self.directory = Path(directory)
        self.token, self.prefix, self.checks_base = token, prefix, checks_base
        self.defaults = {"prefix": prefix}
        self.overrides = {"data-token.enabled": "true"} if vends else {}
        self.shown_as = shown_as
        self.vends_sessions = False
        """Whether a session token belongs to the keys."""
        self.page_rows, self.token_life_ms, self.now_ms = 2, 3_600_000, None
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.databases: dict[str, dict[str, str]] = {}
        self.tables: dict[tuple[str, str], Entry] = {}
        self.views: dict[tuple[str, str], dict[str, Any]] = {}
        self.forbidden: set[str] = set()
        self._files = open_catalog(self.directory, fileio=fileio)
        self._faults: list[Fault] = []
        self._deferred: list[tuple[int, str, str, dict[str, str], Any]] = []
        self._lock = threading.RLock()
        self._keys = itertools.count(1)
        self._server = HttpServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def options(self, **more: str) -> dict[str, str]:
        """The options of a catalog at this server."""
        auth = {} if self.token is None else {"token.provider": "bear", "token": self.token}
        return {"type": "rest", "uri": self.url, "warehouse": "lake", **auth, **more}

    def fault(
        self,
        mode: str,
        method: str,
        path: str,
        *,
        nth: int = 1,
        count: int = 1,
        status: int = 500,
        after: int = 1,
        body: bytes = b"",
    ) -> Fault:
        """Order a fault: of the requests whose path holds `path`, the nth and the next ones fail.

        ================  ==================================================================
        status            refused with a status; no effect
        status_after      the effect happens, then the answer is a status
        status_later      the answer is a status; the effect comes `after` further requests
        drop              the connection ends before the effect
        lost              the effect happens, then the connection ends
        dup               the request is delivered twice; the second answer arrives
        defer             the connection ends; the effect comes `after` further requests
        html, html_after  a page for people, with status 200, before or after the effect
        cut               the effect happens; the answer is half
        ================  ==================================================================
        """
        assert mode in MODES, mode
        ordered = Fault(mode, method, path, nth, count, status, after, body)
        self._faults.append(ordered)
        return ordered

    def count(self, text: str) -> int:
        """How many requests held a text, such as ``"POST"`` or ``"/commit"``."""
        return sum(text in request for request in self.requests)

    def keys(self, number: int) -> dict[str, str]:
        """The keys that it gives."""
        if self.shown_as.startswith("gs:"):
            return {"gcs.access-token": f"oauth-{number}", "gcs.project-id": "p"}
        keys = {"s3.access-key": f"key-{number}", "s3.secret-key": f"secret-{number}"}
        if self.vends_sessions:
            keys["s3.session-token"] = f"session-{number}"
        return keys

    def make_database(self, name: str) -> None:
        """Make a database by hand, wherever the warehouse lies."""
        (self.directory / f"{name}.db").mkdir(parents=True)
        self.databases[name] = {}

    def log(self, table: str) -> SnapshotLog:
        """The snapshot files of a table."""
        return self._log(self.tables[tuple(table.split("."))])

    def _log(self, entry: Entry) -> SnapshotLog:
        paths = TablePaths(entry.location).of_branch(entry.branch)
        return SnapshotLog(self._files.fileio, paths)

    # what follows runs in the server's threads

    def handle(
        self, method: str, target: str, token: str | None, body: bytes, *, fails: bool = True
    ) -> Any:
        """The status and body of the answer; None ends the connection without one."""
        path, _, query = target.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        with self._lock:
            self.requests.append(f"{method} {path}")
            self._run_deferred()
            given = json.loads(body) if body else None
            self.bodies.append(given)
            fault = self._met(method, path) if fails else None
            if fault is None:
                return self._answer(method, path, asked, given, token)
            mode = fault.mode
            if mode in {"defer", "status_later"}:
                due = len(self.requests) + fault.after
                self._deferred.append((due, method, path, asked, given))
            if mode in {"drop", "defer"}:
                return None
            if mode in {"status", "status_later"}:
                return fault.status, fault.body
            if mode == "html":
                return 200, PAGE
            answer = self._answer(method, path, asked, given, token)
            if mode == "dup":
                return self._answer(method, path, asked, given, token)
            if mode == "lost":
                return None
            if mode == "status_after":
                return fault.status, fault.body
            if mode == "html_after":
                return 200, PAGE
            return (*answer, True)

    def _run_deferred(self) -> None:
        due = [d for d in self._deferred if d[0] <= len(self.requests)]
        self._deferred = [d for d in self._deferred if d not in due]
        for _, method, path, asked, given in due:
            self._answer(method, path, asked, given, self._wanted())

    def run_deferred(self) -> None:
        """Let the effects of all deferred requests happen now."""
        with self._lock:
            for _, method, path, asked, given in self._deferred:
                self._answer(method, path, asked, given, self._wanted())
            self._deferred = []

    def _met(self, method: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.method in {"", method} and fault.path in path:
                fault.met += 1
                if fault.nth <= fault.met < fault.nth + fault.count:
                    return fault
        return None

    def _wanted(self) -> str | None:
        return None if self.token is None else f"Bearer {self.token}"

    def _answer(
        self, method: str, path: str, asked: dict[str, str], given: Any, token: str | None
    ) -> tuple[int, bytes]:
        if token != self._wanted():
            return 401, b""
        try:
            document = self._route(method, path, asked, given)
        except _RequestError as error:
            document = {
                "resourceType": error.resource,
                "resourceName": error.name,
                "message": error.message,
                "code": error.status,
            }
            return error.status, json.dumps(document).encode()
        return 200, b"" if document is None else json.dumps(document).encode()

    def _route(self, method: str, path: str, asked: dict[str, str], given: Any) -> Any:
        if path == "/v1/config":
            if asked.get("warehouse") != "lake":
                raise _RequestError(404, None, message="no such warehouse")
            return {"defaults": self.defaults, "overrides": self.overrides}
        parts = [urllib.parse.unquote_plus(p) for p in path.removeprefix("/").split("/")]
        if parts[:2] != ["v1", self.prefix]:
            raise _RequestError(404, None, message="no such path")
        match (method, *parts[2:]):
            case ("GET", "databases"):
                return self._page("databases", self.databases, asked)
            case ("POST", "databases"):
                return self._create_database(given)
            case ("POST", "tables", "rename"):
                return self._rename(given)
            case (_, "databases", database, *rest):
                if database in self.forbidden:
                    raise _RequestError(403, "DATABASE", database, "no permission")
                if database not in self.databases:
                    raise _RequestError(404, "DATABASE", database)
                return self._in_database(method, database, rest, asked, given)
        raise _RequestError(404, None, message="no such path")

    def _in_database(
        self, method: str, database: str, rest: list[str], asked: dict[str, str], given: Any
    ) -> Any:
        match (method, *rest):
            case ("GET",):
                options = self.databases[database]
                return {"id": "1", "name": database, "location": "/tmp", "options": options}
            case ("POST",):
                for key in given["removals"]:
                    self.databases[database].pop(key, None)
                self.databases[database] |= given["updates"]
                return {"removed": given["removals"], "updated": list(given["updates"])}
            case ("DELETE",):
                for of, name in [t for t in self.tables if t[0] == database]:
                    self._drop(of, name)
                self._files.drop_database(database, cascade=True)
                del self.databases[database]
                return None
            case ("GET", "tables"):
                names = [name for of, name in self.tables if of == database]
                return self._page("tables", names, asked)
            case ("GET", "views"):
                return self._page("views", [n for of, n in self.views if of == database], asked)
            case ("POST", "views"):
                key = (database, given["identifier"]["object"])
                if key in self.views:
                    raise _RequestError(409, "VIEW", key[1])
                self.views[key] = given["schema"]
                return None
            case (_, "views", name):
                return self._of_view(method, (database, name), given)
            case ("POST", "tables"):
                return self._create_table(database, given)
            case (_, "tables", name, *more):
                if f"{database}.{name}" in self.forbidden:
                    raise _RequestError(403, "TABLE", name, "no permission")
                table, _, branch = name.partition("$branch_")
                entry = self.tables.get((database, table))
                if entry is not None and branch:
                    entry = entry.branches.get(branch)
                if entry is None:
                    raise _RequestError(404, "TABLE", name)
                return self._of_table(method, database, name, entry, more, given)
        raise _RequestError(404, None, message="no such path")

    def _of_view(self, method: str, key: tuple[str, str], given: Any) -> Any:
        if key not in self.views:
            raise _RequestError(404, "VIEW", key[1])
        if method == "DELETE":
            del self.views[key]
            return None
        if method == "POST":
            dialects = self.views[key]["dialects"]
            for change in given["changes"]:
                if change["action"] == "dropDialect":
                    del dialects[change["dialect"]]
                else:
                    dialects[change["dialect"]] = change["query"]
            return None
        return {"id": "1", "name": key[1], "schema": self.views[key], "owner": "me"}

    def _of_table(
        self, method: str, database: str, name: str, entry: Entry, more: list[str], given: Any
    ) -> Any:
        match (method, *more):
            case ("GET",):
                return self._shown(name, entry)
            case ("POST",):
                return self._alter(entry, given)
            case ("DELETE",):
                return self._drop(database, name)
            case ("POST", "commit"):
                return self._commit(name, entry, given)
            case ("GET", "snapshot"):
                if entry.newest is None:
                    raise _RequestError(404, "SNAPSHOT", database, "No Snapshot")
                return {"snapshot": {"snapshot": entry.newest.to_document(), "recordCount": 0}}
            case ("GET", "snapshots", version):
                found = self._log(entry).find(int(version))
                if found is None:
                    raise _RequestError(404, "SNAPSHOT", database, "No Snapshot")
                return {"snapshot": found.to_document()}
            case ("POST", "rollback"):
                return self._roll_back(entry, given)
            case ("GET", "token"):
                number, now_ms = next(self._keys), self._files.env.clock.now_ms()
                keys = self.keys(number)
                now_ms = now_ms if self.now_ms is None else self.now_ms
                return {"token": keys, "expiresAtMillis": now_ms + self.token_life_ms}
            case ("GET", "partitions"):
                return {"partitions": list(self._partitions(entry).values())}
            case ("POST", "partitions", "mark"):
                known = self._partitions(entry)
                for spec in given["specs"]:
                    known[json.dumps(spec, sort_keys=True)]["done"] = True
                return None
            case (_, "branches", *which):
                root = self.tables[database, name.partition("$")[0]]
                return self._of_branches(method, root, entry, which, given)
        raise _RequestError(404, None, message="no such path")

    def _of_branches(
        self, method: str, root: Entry, entry: Entry, which: list[str], given: Any
    ) -> Any:
        table = self._files_table(entry)
        match (method, *which):
            case ("GET",):
                return {"branches": sorted(root.branches) or None}
            case ("POST",):
                name, tag = given["branch"], given["fromTag"]
                if name in root.branches:
                    raise _RequestError(409, "BRANCH", name)
                if tag is not None and tag not in [t.name for t in table.tags]:
                    raise _RequestError(404, "TAG", tag)
                table.branches.create(name, tag=tag)
                made = Entry(root.id, root.location, branch=name, shown=root.shown)
                made.newest = self._log(made).latest()
                root.branches[name] = made
                return None
            case (_, name, *_) if name not in root.branches:
                raise _RequestError(404, "BRANCH", name)
            case ("DELETE", name):
                del root.branches[name]
                self._files.fileio.delete_dir(table.paths.of_branch(name).log_dir)
                return None
            case ("POST", name, "forward"):
                table.branches.fast_forward(name)
                entry.newest = root.branches[name].newest
                return None
        raise _RequestError(404, None, message="no such path")

    def _partitions(self, entry: Entry) -> dict[str, dict[str, Any]]:
        schema = self._files_table(entry).table_schema
        if schema.options.get("metastore.partitioned-table") != "true":
            raise _RequestError(501)
        return entry.partitions

    def _files_table(self, entry: Entry) -> Any:
        name = ".".join(Path(entry.location).parts[-2:]).replace(".db.", ".")
        return self._files.table(name).branch(entry.branch)

    def _shown(self, name: str, entry: Entry) -> Any:
        schema = self._files_table(entry).table_schema
        return {
            "id": entry.id,
            "name": name,
            "path": entry.shown or f"{self.shown_as}{entry.location}",
            "isExternal": False,
            "schemaId": schema.id,
            "schema": {
                "fields": [field_to_json(f) for f in schema.fields],
                "partitionKeys": list(schema.partition_keys),
                "primaryKeys": list(schema.primary_keys),
                "options": dict(schema.options),
                "comment": schema.comment,
            },
            "owner": "o",
            "createdAt": 1,
        }

    def _page(self, key: str, names: Any, asked: dict[str, str]) -> Any:
        wanted = min(int(asked.get("maxResults") or self.page_rows), self.page_rows)
        rest = sorted(n for n in names if n > asked.get("pageToken", ""))
        page = rest[:wanted]
        return {key: page, "nextPageToken": page[-1] if len(rest) > wanted else None}

    def _create_database(self, given: Any) -> None:
        if given["name"] in self.databases:
            raise _RequestError(409, "DATABASE", given["name"])
        self._files.create_database(given["name"])
        self.databases[given["name"]] = dict(given["options"] or {})

    def _create_table(self, database: str, given: Any) -> None:
        name, schema = given["identifier"]["object"], given["schema"]
        if (database, name) in self.tables:
            raise _RequestError(409, "TABLE", name)
        fields = tuple(
            DataField(
                f["id"],
                f["name"],
                parse_type(f["type"]),
                f.get("description"),
                f.get("defaultValue"),
            )
            for f in schema["fields"]
        )
        # a renamed table's files keep their place, so the new one's get another
        place = name
        while self._files.fileio.exists(f"{self.directory}/{database}.db/{place}"):
            place += "_"
        try:
            table = self._files.create_table(
                f"{database}.{place}",
                fields,
                primary_keys=schema["primaryKeys"],
                partition_keys=schema["partitionKeys"],
                options=schema["options"],
                comment=schema.get("comment"),
            )
        except TidelakeError as error:
            raise _RequestError(400, None, message=error.message) from error
        self.tables[database, name] = Entry(str(uuid.uuid4()), table.paths.location)

    def _alter(self, entry: Entry, given: Any) -> None:
        try:
            self._files_table(entry).alter(*map(_change, given["changes"]))
        except NotFoundError as error:
            raise _RequestError(404, "COLUMN", message=error.message) from error
        except AlreadyExistsError as error:
            raise _RequestError(409, "COLUMN", message=error.message) from error
        except (InvalidInputError, UnsupportedError) as error:
            raise _RequestError(400, message=error.message) from error

    def _drop(self, database: str, name: str) -> None:
        entry = self.tables.pop((database, name))
        self._files.drop_table(self._files_table(entry).identifier)

    def _rename(self, given: Any) -> None:
        source, target = (
            (given[k]["database"], given[k]["object"]) for k in ("source", "destination")
        )
        if source not in self.tables:
            raise _RequestError(404, "TABLE", source[1])
        if target in self.tables:
            raise _RequestError(409, "TABLE", target[1])
        self.tables[target] = self.tables.pop(source)

    def _commit(self, name: str, entry: Entry, given: Any) -> Any:
        if given["tableId"] != entry.id:
            raise _RequestError(404, "TABLE", name)
        snapshot = Snapshot.from_document(given["snapshot"], path="a request")
        base = None if entry.newest is None else entry.newest.uuid
        if self.checks_base and given["baseSnapshotUuid"] != base:
            return {"success": False}
        log = self._log(entry)
        if not log.put(snapshot):
            return {"success": False}
        log.write_hints(snapshot.id)
        entry.newest = snapshot
        for part in given["statistics"]:
            key = json.dumps(part["spec"], sort_keys=True)
            known = entry.partitions.setdefault(key, {"spec": part["spec"], "done": False})
            for figure in ("recordCount", "fileSizeInBytes", "fileCount"):
                known[figure] = known.get(figure, 0) + part[figure]
            known["lastFileCreationTime"] = part["lastFileCreationTime"]
            if known["fileCount"] == 0:
                del entry.partitions[key]
        return {"success": True}

    def _roll_back(self, entry: Entry, given: Any) -> None:
        target = self._log(entry).find(given["instant"]["snapshotId"])
        if target is None:
            raise _RequestError(404, "SNAPSHOT", str(given["instant"]["snapshotId"]))
        self._files_table(entry).rollback_to(snapshot_id=target.id)
        entry.newest = target


def _change(given: Any) -> Any:
    name = tuple(given.get("fieldNames") or ())
    move = given.get("move")
    position = move and Position(move["type"].lower(), move["referenceFieldName"])
    match given["action"]:
        case "addColumn":
            return AddColumn(name, parse_type(given["dataType"]), given["comment"], position)
        case "renameColumn":
            return RenameColumn(name, given["newName"])
        case "dropColumn":
            return DropColumn(name)
        case "updateColumnType":
            new = parse_type(given["newDataType"])
            return UpdateColumnType(name, new, given["keepNullability"])
        case "updateColumnNullability":
            return UpdateColumnNullability(name, given["newNullability"])
        case "updateColumnComment":
            return UpdateColumnComment(name, given["newComment"])
        case "updateColumnDefaultValue":
            return UpdateColumnDefaultValue(name, given["newDefaultValue"])
        case "updateColumnPosition":
            return UpdateColumnPosition(move["fieldName"], position)
        case "setOption":
            return SetOption(given["key"], given["value"])
        case "removeOption":
            return RemoveOption(given["key"])
        case "updateComment":
            return UpdateComment(given["comment"])
    raise _RequestError(400, message=f"unknown change {given['action']}")


def _handler_of(catalog: RestCatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            token = self.headers.get("authorization")
            answer = catalog.handle(self.command, self.path, token, body)
            if answer is None:
                self.close_connection = True
                return
            status, data, *cut = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection = bool(cut)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
