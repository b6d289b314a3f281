"""A table in memory behind the small server, reached without sockets, and committers on it."""

from __future__ import annotations

import dataclasses
import json
import urllib.parse

from servers.rest_catalog import TOKEN, RestCatalogServer
from unit.commit.commit_world import KEYED, World

from tidelake.catalog.rest.client import RestClient
from tidelake.catalog.rest.failures import AnswerLostError, ServerAnswer
from tidelake.catalog.rest.server_commit import ServerCommit
from tidelake.catalog.rest.settings import RestSettings
from tidelake.commit import Committer
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import TablePaths
from tidelake.telemetry import Env
from tidelake.types.schema import field_to_json


class Direct:
    """Hands requests to the server's own code; `before_commit` runs before each commit."""

    def __init__(self, server, *, fails=True, before_commit=None):
        self.server, self.fails, self.before_commit = server, fails, before_commit

    def send(self, method, path, *, query=None, body=None, headers=None):
        if self.before_commit is not None and path.endswith("/commit"):
            self.before_commit()
        target = path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.server.handle(method, target, f"Bearer {TOKEN}", data, fails=self.fails)
        if answer is None:
            message = "the connection ended"
            raise AnswerLostError(message)
        status, content, *cut = answer
        return ServerAnswer(status, content[: len(content) // 2] if cut else content)

    def close(self):
        pass


def client_of(server, *, env=None, **more):
    settings = RestSettings.of(server.options(uri="http://none"))
    return RestClient(settings, env=env or Env.seeded(1), transport=Direct(server, **more))


class ServedWorld(World):
    """One table whose snapshots the server decides."""

    def __init__(self, schema=KEYED, **server):
        super().__init__(schema)
        self.fileio = MemoryFileIO()
        self.server = RestCatalogServer("/wh", fileio=self.fileio, **server)
        client = client_of(self.server, fails=False)
        client.create_database("db")
        client.create_table(
            "db",
            "t",
            {
                "fields": [field_to_json(f) for f in schema.fields],
                "partitionKeys": list(schema.partition_keys),
                "primaryKeys": list(schema.primary_keys),
                "options": dict(schema.options),
            },
        )
        self.entry = self.server.tables["db", "t"]
        self.paths = TablePaths.of(self.entry.location, schema)
        self.schema = self.server._files.table("db.t").table_schema

    def served(self, seed=1, *, fileio=None, **transport):
        """A committer that sends its snapshots to the server."""
        env = Env.seeded(seed)
        commit = ServerCommit(
            client_of(self.server, env=env, **transport),
            "db",
            "t",
            table_id=self.entry.id,
            paths=self.paths,
            env=env,
        )
        context = self.context(seed, fileio=fileio, env=env)
        return Committer(dataclasses.replace(context, snapshot_commit=commit))
