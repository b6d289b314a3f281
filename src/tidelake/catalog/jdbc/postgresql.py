"""PostgreSQL, by psycopg 3; properties of Java's driver ``pgjdbc`` are translated to libpq's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from urllib.parse import parse_qsl, unquote, urlsplit

from tidelake.catalog.jdbc import statements
from tidelake.catalog.jdbc._optional import psycopg
from tidelake.catalog.jdbc.dialect import Connection, DriverFailure
from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.telemetry.env import local_zone

POSTGRESQL_URI = "jdbc:postgresql:"
CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_MS = 10_000
LIMIT_LOCK_WAIT = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_MS}', false)"
    " WHERE current_setting('lock_timeout') = '0'"
)
"""Unless the user, the role or the database has a limit. It is no startup option because poolers
such as PgBouncer refuse connections that give those they do not know."""
TRANSLATED = {
    "user": "user",
    "password": "password",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "tcpKeepAlive": "keepalives",
    "targetServerType": "target_session_attrs",
    "currentSchema": "",
    "ssl": "",
}
"""Names of pgjdbc and libpq; those that libpq takes otherwise have none."""
SERVER_TYPES = {"any": "any", "primary": "primary", "master": "primary", "secondary": "standby"}
SECRET = "password"


class PostgresqlDialect:
    """A catalog in a database of PostgreSQL.

    Parameters
    ----------
    uri : str
        ``jdbc:postgresql://host:port/database?property=value``.
    properties : mapping
        Of the connection, without the prefix ``jdbc.``; they win over the URI's.
    """

    def __init__(self, uri: str, properties: Mapping[str, str]) -> None:
        self._driver: ModuleType | None = psycopg()
        parts = urlsplit(uri.removeprefix("jdbc:"))
        if "@" in parts.netloc:
            message = (
                "The catalog's 'uri' holds a user or a password before '@', which pgjdbc does not"
                " know: give 'jdbc.user' and 'jdbc.password'."
            )
            raise InvalidInputError(message, kind="catalog_option", option="uri")
        database = unquote(parts.path.removeprefix("/"))
        given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **properties}
        self._settings = _libpq_settings(given)
        if parts.netloc:
            self._settings |= _hosts(parts.netloc)
        if database:
            self._settings["dbname"] = database
        self.shown = f"{POSTGRESQL_URI}//{parts.netloc}/{database}"

    def __repr__(self) -> str:
        return f"PostgresqlDialect({self.shown!r})"

    def __getstate__(self) -> dict[str, object]:
        # a password leaves the process in no pickle; libpq finds another one in its environment
        settings = {k: v for k, v in self._settings.items() if k != SECRET}
        return {"shown": self.shown, "_settings": settings, "_driver": None}

    def _module(self) -> ModuleType:
        if self._driver is None:
            self._driver = psycopg()
        return self._driver

    @property
    def insert_lock(self) -> str:
        """By the database's clock, in microseconds."""
        return statements.INSERT_LOCK_ON_POSTGRESQL

    @property
    def delete_expired_lock(self) -> str:
        """As Java's."""
        return statements.DELETE_EXPIRED_LOCK_ON_POSTGRESQL

    def connect(self) -> Connection:
        """Open a connection whose statements do not wait for a row's lock for ever."""
        connection: Connection = self._module().connect(**self._settings, autocommit=True)
        try:
            connection.execute(LIMIT_LOCK_WAIT)
        except BaseException:
            connection.close()
            raise
        return connection

    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the driver."""
        return (self._module().Error,)

    def failure(self, error: Exception) -> DriverFailure:
        """By the state, or by the class where the server said nothing."""
        module, state = self._module(), getattr(error, "sqlstate", None) or ""
        if state == "23505":  # unique_violation
            return DriverFailure.TAKEN
        if state.startswith("55P"):  # lock_not_available
            return DriverFailure.LOCKED
        lost = not state and isinstance(error, (module.OperationalError, module.InterfaceError))
        if lost or state.startswith(("08", "57P")):  # connection exception, operator intervention
            return DriverFailure.LOST
        return DriverFailure.REFUSED

    def statement(self, text: str) -> str:
        """With ``%s``."""
        return text.replace("%", "%%").replace("?", "%s")

    def begin(self, connection: Connection) -> None:
        """Begin a transaction; the rows that it changes are locked."""
        connection.execute("BEGIN")

    def tables(self, connection: Connection, names: Sequence[str]) -> set[str]:
        """Ask for the tables in the search path."""
        rows = connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL",
            [list(names)],
        )
        return {name for (name,) in rows}

    def is_usable(self, connection: Connection) -> bool:
        """Ask for nothing."""
        try:
            connection.execute("SELECT 1")
        except self._module().Error:
            return False
        return True

    def hint(self, error: Exception) -> str:
        """By the state."""
        text, state = str(error), getattr(error, "sqlstate", None) or ""
        if state.startswith("28") or "password" in text:
            return (
                " Give 'jdbc.user' and 'jdbc.password', or PGPASSWORD or ~/.pgpass. Copies of a"
                " catalog in other processes do not carry the password."
            )
        if state == "42501":  # insufficient_privilege
            return " Grant the user what it lacks, or let an owner open the catalog once."
        return ""


def _libpq_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of pgjdbc."""
    made = {"connect_timeout": str(CONNECT_TIMEOUT_S)}
    zone = local_zone()
    if zone is not None:  # as pgjdbc does: locks are as old as their local time says
        made["options"] = f"-c TimeZone={zone}"
    for name, value in given.items():
        if name not in TRANSLATED:
            message = (
                f"Unknown property 'jdbc.{shortened(name)}' of PostgreSQL."
                f"{near_names(name, TRANSLATED)} Known are:"
                f" {', '.join(f'jdbc.{known}' for known in TRANSLATED)}."
            )
            raise InvalidInputError(message, kind="unknown_option", option=f"jdbc.{name}")
        if name == "currentSchema":
            made["options"] = f"{made.get('options', '')} -csearch_path={value}".strip()
        elif name == "options":
            made["options"] = f"{made.get('options', '')} {value}".strip()
        elif name == "ssl":
            made.setdefault("sslmode", "verify-full" if value.lower() != "false" else "disable")
        elif name == "tcpKeepAlive":
            made["keepalives"] = "1" if value.lower() == "true" else "0"
        elif name == "targetServerType":
            made["target_session_attrs"] = SERVER_TYPES.get(value, value)
        else:
            made[TRANSLATED[name]] = value
    return made


def _hosts(netloc: str) -> dict[str, str]:
    """Hosts and ports, perhaps several."""
    hosts, ports = [], []
    for place in netloc.split(","):
        host, _, port = place.rpartition(":") if _has_port(place) else (place, "", "")
        hosts.append(unquote(host.strip("[]")))
        ports.append(port)
    return {"host": ",".join(hosts)} | ({"port": ",".join(ports)} if any(ports) else {})


def _has_port(place: str) -> bool:
    return ":" in place and not place.endswith("]")
