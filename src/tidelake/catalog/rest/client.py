"""Paimon's REST API, one method per call: paths, pages, repeats, errors.

1. ``GET /v1/config`` gives defaults and overrides of the options, and the prefix of all other
   paths. Defaults stand below the user's options, overrides above them.
2. A GET is repeated after a failure, with waits that double, until its time is up. Another call is
   repeated only if the server certainly took nothing: it was not reached, or it was too busy.
3. Lists come in pages; a page that names itself, or one already seen, as the next is an error.

A copy in another process has the token if secrets are carried there, as on Spark; the copies of a
process share one client. A copy without it says so at its first call.

A call that changes something raises :class:`~tidelake.catalog.rest.failures.AnswerLostError` if it
may have taken effect; the caller finds out. Source: Paimon's ``RESTApi`` and ``ResourcePaths``
(1.3.1), ``docs/static/rest-catalog-open-api.yaml`` (2.1).
"""

from __future__ import annotations

import email.utils
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote_plus

from tidelake.catalog.rest.failures import (
    AnswerLostError,
    ServerAnswer,
    ServerBusyError,
    ServerUnreachableError,
    TokenLeftOutError,
    failure_of,
)
from tidelake.catalog.rest.models import (
    ServerDatabase,
    ServerPartition,
    ServerTable,
    ServerToken,
    decoded,
    json_object,
)
from tidelake.catalog.rest.settings import PREFIX, RestSettings, header_map, option_map, storage_map
from tidelake.catalog.rest.transport import Transport
from tidelake.errors import CorruptError, InvalidInputError, NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.telemetry import Backoff, Env, PerProcess, RecentlyUsed

TRIES_MAX = 8
"""Times that one request is sent."""
DEADLINE_MS = 120_000
"""Time after which no request is sent again."""
WAITS = Backoff(first_ms=100, longest_ms=10_000, longer=0.2)
PAGE_ROWS_MAX = 1_000
PAGES_MAX = 100_000
SUCCESS_BELOW = 300
COPIES_MAX = 16
"""Clients that copies in this process share; the one unused for the longest time is let go."""

T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Config:
    """What the server's configuration gives; its headers are not shown."""

    options: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    storage_below: Mapping[str, str] = field(repr=False)
    storage_above: Mapping[str, str] = field(repr=False)


class RestClient:
    """A catalog's server. Thread-safe."""

    def __init__(
        self, settings: RestSettings, *, env: Env, transport: Transport | None = None
    ) -> None:
        self.settings = settings
        self._env = env
        self._transport = transport or Transport(settings, env=env)
        self._config: PerProcess[_Config] = PerProcess(self._load_config)

    def __repr__(self) -> str:
        return f"RestClient({self.settings.uri!r}, {self.settings.warehouse!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_arrived, (self.settings, self._env))

    @property
    def options(self) -> Mapping[str, str]:
        """The catalog's options, as merged with those of the server.

        Raises
        ------
        StorageError, InvalidInputError
            The server cannot be reached, or refuses.
        """
        return self._config.value.options

    def storage_options(self, given: Mapping[str, object]) -> dict[str, object]:
        """Options of a storage: the server's defaults, those given, the server's overrides.

        The same key may have two spellings; that of the later one comes later.
        """
        config = self._config.value
        merged: dict[str, object] = {}
        for part in (config.storage_below, given, config.storage_above):
            for key, value in part.items():
                merged.pop(key, None)
                merged[key] = value
        return merged

    def _load_config(self) -> _Config:
        query = {"warehouse": self.settings.warehouse}
        document = self._call("GET", "/v1/config", query=query, headers={})
        if not isinstance(document, dict) or not all(
            isinstance(document.get(part) or {}, dict) for part in ("defaults", "overrides")
        ):
            message = (
                f"The server {self.settings.uri} answered /v1/config with another object: it is no"
                " Paimon catalog. Look at the option 'uri'."
            )
            raise CorruptError(message, kind="rest_answer")
        defaults, overrides = (
            {str(k): str(v) for k, v in (document.get(part) or {}).items() if v is not None}
            for part in ("defaults", "overrides")
        )
        merged = {**defaults, **self.settings.options, **overrides}
        own = {name.lower() for name in self.settings.headers}
        if self.settings.token is not None:
            own.add("authorization")
        try:
            headers = {k: v for k, v in header_map(defaults).items() if k.lower() not in own}
            headers |= header_map(overrides)
        except InvalidInputError as error:
            message = f"The catalog's server gave a wrong configuration. {error}"
            raise CorruptError(message, kind="rest_answer") from error
        below, above = storage_map(defaults), storage_map(overrides)
        return _Config(option_map(merged), headers, below, above)

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""
        return sorted(self._pages(self._path("databases"), "databases", str))

    def database(self, name: str) -> ServerDatabase:
        """One database.

        Raises
        ------
        NotFoundError
            There is none.
        """
        path = self._path("databases", name)
        return decoded(self._get(path), ServerDatabase, what=f"GET {path}")

    def create_database(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """Create a database.

        Raises
        ------
        AlreadyExistsError
            It exists.
        """
        self._change(
            "POST", self._path("databases"), {"name": name, "options": dict(options or {})}
        )

    def drop_database(self, name: str) -> None:
        """Drop a database and what is in it."""
        self._change("DELETE", self._path("databases", name))

    def alter_database(
        self, name: str, *, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Set and remove options of a database."""
        body = {"updates": dict(updates), "removals": list(removals)}
        self._change("POST", self._path("databases", name), body)

    def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        return sorted(self._pages(self._path("databases", database, "tables"), "tables", str))

    def table(self, database: str, name: str) -> ServerTable:
        """One table.

        Raises
        ------
        NotFoundError
            There is no such database or table.
        """
        path = self._table(database, name)
        return decoded(self._get(path), ServerTable, what=f"GET {path}")

    def create_table(self, database: str, name: str, schema: Json) -> None:
        """Create a table.

        Raises
        ------
        AlreadyExistsError, NotFoundError
            It exists; its database does not.
        """
        body = {"identifier": {"database": database, "object": name}, "schema": schema}
        self._change("POST", self._path("databases", database, "tables"), body)

    def alter_table(self, database: str, name: str, changes: Sequence[Json]) -> None:
        """Change a table's schema."""
        self._change("POST", self._table(database, name), {"changes": list(changes)})

    def drop_table(self, database: str, name: str) -> None:
        """Drop a table."""
        self._change("DELETE", self._table(database, name))

    def rename_table(self, source: tuple[str, str], destination: tuple[str, str]) -> None:
        """Rename a table."""
        body = {
            key: {"database": database, "object": name}
            for key, (database, name) in (("source", source), ("destination", destination))
        }
        self._change("POST", self._path("tables", "rename"), body)

    def views(self, database: str) -> list[str]:
        """Names of a database's views, sorted."""
        return sorted(self._pages(self._path("databases", database, "views"), "views", str))

    def view(self, database: str, name: str) -> Json:
        """One view, as the server tells it.

        Raises
        ------
        NotFoundError
            There is no such view.
        """
        path = self._path("databases", database, "views", name)
        return json_object(self._get(path), what=f"GET {path}")

    def create_view(self, database: str, name: str, schema: Json) -> None:
        """Create a view.

        Raises
        ------
        AlreadyExistsError
            It exists.
        """
        body = {"identifier": {"database": database, "object": name}, "schema": schema}
        self._change("POST", self._path("databases", database, "views"), body)

    def alter_view(self, database: str, name: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change a view."""
        path = self._path("databases", database, "views", name)
        self._change("POST", path, {"changes": list(changes)})

    def drop_view(self, database: str, name: str) -> None:
        """Drop a view."""
        self._change("DELETE", self._path("databases", database, "views", name))

    def snapshot(self, database: str, name: str) -> Snapshot | None:
        """The newest snapshot; None for a table without any.

        Raises
        ------
        NotFoundError
            There is no such table.
        """
        return self._snapshot(f"{self._table(database, name)}/snapshot", of_table=True)

    def snapshot_of(self, database: str, name: str, version: int | str) -> Snapshot | None:
        """The snapshot of an id or a tag; None if there is none."""
        where = f"{self._table(database, name)}/snapshots/{quote_plus(str(version))}"
        return self._snapshot(where)

    def _snapshot(self, path: str, *, of_table: bool = False) -> Snapshot | None:
        try:
            document = self._get(path)
        except NotFoundError as error:
            if error.kind == "snapshot_not_found":
                return None
            raise
        found = document.get("snapshot") if isinstance(document, dict) else None
        if of_table and isinstance(found, dict):
            found = found.get("snapshot")  # beside it stand figures of the table
        if not isinstance(found, dict):
            message = f"The catalog's server answered GET {path} without a snapshot."
            raise CorruptError(message, kind="rest_answer")
        return Snapshot.from_document(found, path=path)

    def commit(self, database: str, name: str, body: Json) -> bool:
        """Send a snapshot, once; whether the server took it.

        Raises
        ------
        NotFoundError
            The table was dropped, or is another one now.
        StorageRefusedError, InvalidInputError, UnsupportedError
            The server refused; nothing was committed.
        AnswerLostError
            The snapshot may be visible.
        """
        path = f"{self._table(database, name)}/commit"
        document = self._change("POST", path, body)
        if not isinstance(document, dict) or not isinstance(document.get("success"), bool):
            message = f"The catalog's server answered POST {path} without saying whether it did it."
            raise AnswerLostError(message)
        return document["success"]

    def roll_back(self, database: str, name: str, snapshot_id: int) -> None:
        """Make an older snapshot the newest."""
        instant = {"type": "snapshot", "snapshotId": snapshot_id}
        self._change("POST", f"{self._table(database, name)}/rollback", {"instant": instant})

    def token(self, database: str, name: str) -> ServerToken:
        """New keys of a table's storage."""
        path = f"{self._table(database, name)}/token"
        return decoded(self._get(path), ServerToken, what=f"GET {path}")

    def partitions(self, database: str, name: str) -> list[ServerPartition]:
        """The partitions of a table, as far as the server keeps them.

        Raises
        ------
        UnsupportedError
            It does not keep them: ``metastore.partitioned-table`` is not set.
        """
        path = f"{self._table(database, name)}/partitions"
        found = self._pages(path, "partitions", dict)
        return [decoded(p, ServerPartition, what=f"GET {path}") for p in found]

    def mark_partitions(
        self, database: str, name: str, partitions: Sequence[Mapping[str, str]]
    ) -> None:
        """Mark partitions of a table as done.

        Raises
        ------
        UnsupportedError
            The server does not keep them: ``metastore.partitioned-table`` is not set.
        """
        body = {"specs": [dict(one) for one in partitions]}
        self._change("POST", f"{self._table(database, name)}/partitions/mark", body)

    def branches(self, database: str, name: str) -> list[str]:
        """Names of a table's branches, sorted."""
        path = f"{self._table(database, name)}/branches"
        found = json_object(self._get(path), what=f"GET {path}").get("branches") or []
        return sorted(decoded(found, list[str], what=f"GET {path}"))

    def create_branch(self, database: str, name: str, branch: str, *, tag: str | None) -> None:
        """Create a branch of a table, empty or at a tag.

        Raises
        ------
        AlreadyExistsError, NotFoundError
            It exists; there is no such table or tag.
        """
        path = f"{self._table(database, name)}/branches"
        self._change("POST", path, {"branch": branch, "fromTag": tag})

    def delete_branch(self, database: str, name: str, branch: str) -> None:
        """Delete a branch of a table.

        Raises
        ------
        NotFoundError
            There is no such table or branch.
        """
        self._change("DELETE", self._branch(database, name, branch))

    def fast_forward(self, database: str, name: str, branch: str) -> None:
        """Make a table what one of its branches is.

        Raises
        ------
        NotFoundError
            There is no such table or branch.
        """
        self._change("POST", f"{self._branch(database, name, branch)}/forward", {})

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _table(self, database: str, name: str) -> str:
        return self._path("databases", database, "tables", name)

    def _branch(self, database: str, name: str, branch: str) -> str:
        return f"{self._table(database, name)}/branches/{quote_plus(branch)}"

    def _path(self, *parts: str) -> str:
        prefix = self.options.get(PREFIX)
        return "/".join(["/v1", *(quote_plus(p) for p in ((prefix, *parts) if prefix else parts))])

    def _pages(self, path: str, key: str, kind: type[T]) -> list[T]:
        """All elements of a list that comes in pages."""
        found: list[T] = []
        query = {"maxResults": str(PAGE_ROWS_MAX)}
        seen: set[str] = set()
        for _ in range(PAGES_MAX):
            document = json_object(self._get(path, query), what=f"GET {path}")
            elements = document.get(key) or []
            if not isinstance(elements, list) or not all(isinstance(e, kind) for e in elements):
                message = f"The catalog's server answered GET {path} with another list than asked."
                raise CorruptError(message, kind="rest_answer")
            found += elements
            token = document.get("nextPageToken")
            if not token:
                return found
            token = decoded(token, str, what=f"GET {path}")
            if token in seen:
                break
            seen.add(token)
            query = {**query, "pageToken": token}
        message = (
            f"The catalog's server gave the same page of {path} again and again: its list has no"
            " end. Report it to the server's operator."
        )
        raise CorruptError(message, kind="rest_answer")

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return self._call("GET", path, query=query, headers=self._config.value.headers)

    def _change(self, method: str, path: str, body: object = None) -> Any:
        return self._call(method, path, body=body, headers=self._config.value.headers)

    def _call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Any:
        """One call; the JSON of its answer. See the head for what is repeated."""
        if self.settings.lost_secrets:
            message = (
                f"The catalog '{self.settings.warehouse}' at {self.settings.uri} was copied into"
                " another process, and its token did not come along, since secrets are left out of"
                " what is sent between processes: open the catalog there. On Spark they come along"
                " in a session with a JVM of its own."
            )
            raise TokenLeftOutError(message)
        clock, started_ms = self._env.clock, self._env.clock.now_ms()
        busy: ServerBusyError | None = None
        for attempt in range(TRIES_MAX):
            wait_ms = int(WAITS.wait_ms(attempt, self._env.rng))
            try:
                answer = self._transport.send(method, path, query=query, body=body, headers=headers)
                if answer.status < SUCCESS_BELOW:
                    return self._document(answer, f"{method} {path}")
                wait_ms = max(wait_ms, self._asked_wait_ms(answer))
                raise failure_of(answer, what=f"{method} {path}", hide=self.settings.hidden_in)
            except (ServerUnreachableError, ServerBusyError, AnswerLostError) as error:
                busy = busy or (error if isinstance(error, ServerBusyError) else None)
                may_repeat = method == "GET" or not isinstance(error, AnswerLostError)
                spent_ms = clock.now_ms() - started_ms + wait_ms
                if not may_repeat or attempt == TRIES_MAX - 1 or spent_ms > DEADLINE_MS:
                    if busy is not None and isinstance(error, ServerUnreachableError):
                        raise busy from error  # it answered before, so something was sent
                    raise
                clock.sleep_ms(wait_ms)
        raise AssertionError("unreachable")

    def _document(self, answer: ServerAnswer, what: str) -> Any:
        try:
            return answer.document()
        except ValueError as error:
            message = (
                f"The catalog's server answered {what} with something else than JSON: perhaps a"
                f" gateway or a page of sign-in answers at {self.settings.uri}. Look at the option"
                " 'uri'."
            )
            raise AnswerLostError(message) from error

    def _asked_wait_ms(self, answer: ServerAnswer) -> int:
        """The wait that the server asks for, in ms; 0 if for none."""
        text = answer.retry_after.strip()
        try:
            if text.isascii() and text.isdigit():
                return int(text) * 1000
            moment = email.utils.parsedate_to_datetime(text)
            return max(0, int(moment.timestamp() * 1000) - self._env.clock.now_ms())
        except (TypeError, ValueError, OverflowError):
            return 0


_COPIES: PerProcess[RecentlyUsed[tuple[object, ...], RestClient]] = PerProcess(
    lambda: RecentlyUsed(entries_max=COPIES_MAX)
)


def _arrived(settings: RestSettings, env: Env) -> RestClient:
    """The client of a copy: one for all copies of this process."""
    copies = _COPIES.value
    secrets = (settings.token, frozenset(settings.headers.items()), settings.lost_secrets)
    key = (settings.uri, settings.warehouse, secrets, frozenset(settings.options.items()))
    client = copies.get(key)
    if client is None:
        client = RestClient(settings, env=env)
        copies.keep(key, client)
    return client
