"""Parses the command line."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from tidelake.cli.clustering.arguments import ClusterArguments
from tidelake.cli.command_line.flag import PROGRAM, WAREHOUSE_VARIABLE
from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.compare.arguments import (
    CompareArguments,
    bisect_arguments,
    blame_arguments,
    diff_arguments,
)
from tidelake.cli.copies.arguments import COPY_READERS, CopyArguments
from tidelake.cli.declaration import (
    BISECT,
    BLAME,
    BRANCH,
    CDC,
    CLUSTER,
    COMMANDS,
    COMPACT,
    CONNECT,
    DIFF,
    DOCTOR,
    EXPIRE,
    FILES,
    GET,
    HISTORY,
    LS,
    ORPHANS,
    ROLLBACK,
    SERVE,
    SHOW,
    SLOTS,
    SNAPSHOTS,
    SQL,
    TABLE,
    TAG,
    TAIL,
)
from tidelake.cli.health.arguments import (
    FilesArguments,
    TableDoctorArguments,
    files_arguments,
    table_doctor_arguments,
)
from tidelake.cli.health.declaration import FSCK, REPAIR
from tidelake.cli.indexing.arguments import INDEX_READERS, IndexArguments
from tidelake.cli.pages.arguments import PageArguments, page_arguments
from tidelake.cli.pages.declaration import REPORT, UI
from tidelake.cli.parser import command_parser
from tidelake.cli.upkeep.arguments import CompactArguments, ExpireArguments, OrphansArguments
from tidelake.cli.versions.arguments import (
    LookArguments,
    VersionArguments,
    look_arguments,
    version_arguments,
)
from tidelake.errors import near_names

N = TypeVar("N", int, float)
PORT_MAX = 65_535
CONNECT_PORT = 15_002


@dataclass(frozen=True, slots=True)
class SqlArguments:
    """Arguments of ``tidelake sql``.

    Parameters
    ----------
    texts : tuple of str
        Statements of ``--command``.
    files : tuple of str
        Names of ``--file``; ``-`` is the standard input.
    spark : bool
        Spark may start.
    echo, timing, pager : bool
        Show statements, show times, page long answers.
    """

    warehouse: str
    texts: tuple[str, ...]
    files: tuple[str, ...]
    format: str
    catalog: str
    database: str
    spark: bool
    master: str | None
    conf: Mapping[str, str]
    memory: str | None
    echo: bool
    timing: bool
    pager: bool
    history: str | None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TailArguments:
    """Arguments of ``tidelake tail``.

    Parameters
    ----------
    columns : tuple of str, optional
        The columns; all by default.
    limit : int, optional
        Most rows.
    timeout : float, optional
        It ends after this many seconds without a change.
    """

    warehouse: str
    table: str
    start: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    format: str = "table"
    limit: int | None = None
    timeout: float | None = None
    consumer_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ServeArguments:
    """Arguments of ``tidelake serve``.

    Parameters
    ----------
    tables : tuple of str
        ``"database.table"``, each once.
    on : str
        ``"local"`` or ``"spark"``.
    bind : str
        The address that clients reach, perhaps with a port.
    insecure : bool
        Another address without TLS and tokens is wanted.
    metrics_port : int, optional
        Port of metrics; none by default.
    interval : float
        Seconds between two looks.
    log_format : str
        ``"text"`` or ``"json"``.
    """

    warehouse: str
    tables: tuple[str, ...]
    on: str = "local"
    parallelism: int = 2
    bind: str = "127.0.0.1"
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tokens: str | None = None
    insecure: bool = False
    metrics_port: int | None = None
    interval: float = 2.0
    log_format: str = "text"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ConnectArguments:
    """Arguments of ``tidelake connect``.

    Parameters
    ----------
    token : str, optional
        The file with the token.
    catalog : str
        The warehouse's name in statements.
    """

    warehouse: str
    port: int = CONNECT_PORT
    token: str | None = None
    catalog: str = "tidelake"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class GetArguments:
    """Arguments of ``tidelake get``.

    Parameters
    ----------
    columns : tuple of str, optional
        The columns; all by default.
    as_json : bool
        Print JSON objects.
    local : bool
        Ask no service.
    timeout : float
        Seconds until the service must have answered.
    """

    warehouse: str
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    as_json: bool = False
    local: bool = False
    token: str | None = None
    tls_ca: str | None = None
    timeout: float = 30.0
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class DoctorArguments:
    """What ``tidelake doctor`` was asked to do.

    Parameters
    ----------
    what : str
        ``"storage"``.
    catalog_options : mapping
        How to reach the store; kept out of the ``repr``.
    """

    warehouse: str
    what: str
    processes: int
    names: int
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CdcArguments:
    """Arguments of ``tidelake cdc``.

    Parameters
    ----------
    words : tuple of str
        All that follows, which the job's own declaration reads; may hold a secret.
    """

    words: tuple[str, ...] = field(repr=False)


Arguments: TypeAlias = (
    SqlArguments
    | TailArguments
    | ServeArguments
    | ConnectArguments
    | GetArguments
    | DoctorArguments
    | OrphansArguments
    | ExpireArguments
    | CompareArguments
    | LookArguments
    | VersionArguments
    | ClusterArguments
    | CompactArguments
    | CopyArguments
    | IndexArguments
    | TableDoctorArguments
    | FilesArguments
    | PageArguments
    | CdcArguments
)


def read_arguments(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Arguments:
    """Parse the command line.

    Parameters
    ----------
    argv : sequence of str
        Arguments without the program's name.

    Raises
    ------
    UsageError
        The command line is wrong.
    SystemExit
        After ``--help`` or ``--version``.

    Examples
    --------
    >>> given = read_arguments(["sql", "-w", "lake", "-c", "SHOW TABLES", "--format=json"], {})
    >>> given.warehouse, given.texts, given.format
    ('lake', ('SHOW TABLES',), 'json')
    """
    if argv and argv[0] == CDC:
        return CdcArguments(tuple(argv[1:]))
    if tuple(argv[:2]) == (DOCTOR.name, SLOTS):
        return CdcArguments(tuple(argv[1:]))
    parsed, unknown = command_parser().parse_known_args(list(argv))
    given = vars(parsed)
    if unknown:
        raise _unknown(unknown, given["command_name"])
    if given["command_name"] is None:
        names = ", ".join([*(command.name for command in COMMANDS), CDC])
        message = f"a command is missing; there are: {names}"
        raise UsageError(f"{message}\nTry '{PROGRAM} --help'.")
    options = _catalog_options(given)
    given["catalog_options"] = options
    warehouse = given["warehouse"] or options.pop("warehouse", environ.get(WAREHOUSE_VARIABLE))
    if not warehouse:
        message = f"the warehouse is missing: give --warehouse PATH, or set {WAREHOUSE_VARIABLE}"
        if given["command_name"] == SQL.name:
            message += "; the first table creates the directory"
        raise UsageError(message)
    return _READERS[given["command_name"]](given, warehouse)


def _unknown(arguments: Sequence[str], command_name: str | None) -> UsageError:
    """Say which argument is not known, and which one may be meant."""
    name = next((one for one in arguments if one.startswith("-")), arguments[0])
    flags = [flag for one in COMMANDS if one.name == command_name for flag in one.flags]
    near = near_names(name.partition("=")[0], [n for flag in flags for n in flag.names])
    whose = PROGRAM if command_name is None else f"{PROGRAM} {command_name}"
    message = f"unrecognized arguments: {' '.join(arguments)}.{near}".rstrip(".")
    return UsageError(f"{message}\nTry '{whose} --help'.")


def _sql_arguments(given: Mapping[str, Any], warehouse: str) -> SqlArguments:
    files = tuple(given["file"] or ())
    for name in files:
        if name != "-" and not Path(name).is_file():
            message = f"there is no file {name}"
            raise UsageError(message)
    if files.count("-") > 1:
        message = "the standard input (-f -) can be read only once"
        raise UsageError(message)
    return SqlArguments(
        warehouse=warehouse,
        texts=tuple(given["command"] or ()),
        files=files,
        format=given["format"] or "table",
        catalog=given["catalog"] or "tidelake",
        database=given["database"] or "default",
        spark=not given["no_spark"],
        master=given["master"],
        conf=_pairs(given["conf"], "--conf"),
        memory=given["memory"],
        echo=given["echo"],
        timing=given["timing"],
        pager=not given["no_pager"],
        history=given["history"],
        catalog_options=given["catalog_options"],
    )


def _tail_arguments(given: Mapping[str, Any], warehouse: str) -> TailArguments:
    columns = given["columns"]
    return TailArguments(
        warehouse=warehouse,
        table=_qualified(given["table"], given),
        start=given["from"],
        columns=None if columns is None else _names(columns),
        where=given["where"],
        format=given["format"] or "table",
        limit=_number(given["limit"], "--limit", int, least=1),
        timeout=_number(given["timeout"], "--timeout", float, least=0),
        consumer_id=given["consumer_id"],
        options=_pairs(given["option"], "--option"),
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _serve_arguments(given: Mapping[str, Any], warehouse: str) -> ServeArguments:
    on = given["on"] or "local"
    _check_spark_flags(given, on)
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        message = "--tls-cert and --tls-key need each other"
        raise UsageError(message)
    if given["tls_ca"] and not given["tls_cert"]:
        message = "--tls-ca needs --tls-cert and --tls-key"
        raise UsageError(message)
    return ServeArguments(
        warehouse=warehouse,
        # a table that is named twice is served once
        tables=tuple(dict.fromkeys(_qualified(name, given) for name in given["tables"])),
        on=on,
        parallelism=_number(given["parallelism"], "--parallelism", int, least=1) or 2,
        bind=given["bind"] or "127.0.0.1",
        tls_cert=_file(given["tls_cert"], "--tls-cert"),
        tls_key=_file(given["tls_key"], "--tls-key"),
        tls_ca=_file(given["tls_ca"], "--tls-ca"),
        tokens=_file(given["tokens"], "--tokens"),
        insecure=given["insecure"],
        metrics_port=_port(given["metrics_port"], "--metrics-port"),
        interval=_seconds(given["interval"], "--interval", default=2.0),
        log_format=given["log_format"] or "text",
        master=given["master"],
        conf=_pairs(given["conf"], "--conf"),
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _connect_arguments(given: Mapping[str, Any], warehouse: str) -> ConnectArguments:
    port = _port(given["port"], "--port")
    return ConnectArguments(
        warehouse=warehouse,
        port=CONNECT_PORT if port is None else port,
        token=_file(given["token"], "--token"),
        catalog=given["catalog"] or "tidelake",
        master=given["master"],
        conf=_pairs(given["conf"], "--conf"),
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _get_arguments(given: Mapping[str, Any], warehouse: str) -> GetArguments:
    columns = given["columns"]
    if given["local"] and (given["token"] or given["tls_ca"]):
        message = "--token and --tls-ca are for a service, which --local does not ask"
        raise UsageError(message)
    return GetArguments(
        warehouse=warehouse,
        table=_qualified(given["table"], given),
        keys=tuple(given["keys"]),
        columns=None if columns is None else _names(columns),
        as_json=given["json"],
        local=given["local"],
        token=_file(given["token"], "--token"),
        tls_ca=_file(given["tls_ca"], "--tls-ca"),
        timeout=_seconds(given["timeout"], "--timeout", default=30.0),
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _doctor_arguments(
    given: Mapping[str, Any], warehouse: str
) -> DoctorArguments | TableDoctorArguments:
    if given["what"] == TABLE:
        return table_doctor_arguments(given, warehouse)
    if given["name"] is not None:
        message = f"doctor {given['what']} takes no table"
        raise UsageError(message)
    return DoctorArguments(
        warehouse=warehouse,
        what=given["what"],
        processes=_number(given["processes"], "--processes", int, least=1) or 4,
        names=_number(given["names"], "--names", int, least=1) or 200,
        catalog_options=given["catalog_options"],
    )


def _orphans_arguments(given: Mapping[str, Any], warehouse: str) -> OrphansArguments:
    table, undelete = _qualified(given["table"], given), tuple(given["undelete"] or ())
    if table.endswith(".*") and (given["list"] or undelete):
        message = "--list and --undelete take one table"
        raise UsageError(message)
    if given["list"] + bool(undelete) + (given["dry_run"] or given["older_than"] is not None) > 1:
        message = "--list, --undelete, and --dry-run with --older-than, go one at a time"
        raise UsageError(message)
    return OrphansArguments(
        warehouse=warehouse,
        table=table,
        dry_run=given["dry_run"],
        older_than=given["older_than"],
        shows=given["list"],
        undelete=undelete,
        parallelism=_number(given["parallelism"], "--parallelism", int, least=1),
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def _expire_arguments(given: Mapping[str, Any], warehouse: str) -> ExpireArguments:
    what, known = given["what"], EXPIRE.flags[0].choices
    if what not in known:
        message = f"'{what}' does not expire: give {', '.join(known)}.{near_names(what, known)}"
        raise UsageError(message)
    if given["older_than"] is not None and what == "partitions":
        message = "--older-than is of snapshots and tags: give --expiration-time"
        raise UsageError(message)
    if given["expiration_time"] is not None and what != "partitions":
        message = "--expiration-time is of partitions: give --older-than"
        raise UsageError(message)
    return ExpireArguments(
        warehouse=warehouse,
        what=what,
        table=_qualified(given["table"], given),
        dry_run=given["dry_run"],
        older_than=given["older_than"],
        expiration_time=given["expiration_time"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def _cluster_arguments(given: Mapping[str, Any], warehouse: str) -> ClusterArguments:
    order, by = given["order_strategy"], given["order_by"]
    if order is None and by is not None:
        message = "--order-by needs --order-strategy"
        raise UsageError(message)
    return ClusterArguments(
        warehouse=warehouse,
        table=_qualified(given["table"], given),
        order=order,
        by=None if by is None else tuple(name.strip() for name in by.split(",")),
        where=given["where"],
        full=given["full"],
        dry_run=given["dry_run"],
        as_json=given["json"],
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _compact_arguments(given: Mapping[str, Any], warehouse: str) -> CompactArguments:
    on = given["on"] or "local"
    _check_spark_flags(given, on)
    modes = [f"--{name}" for name in ("watch", "once", "full") if given[name]]
    if len(modes) > 1:
        message = f"{modes[0]} and {modes[1]} do not go together"
        raise UsageError(message)
    if given["dry_run"] and given["full"]:
        message = "--dry-run shows what is due, which --full does not ask"
        raise UsageError(message)
    return CompactArguments(
        warehouse=warehouse,
        tables=tuple(dict.fromkeys(_qualified(name, given) for name in given["tables"])),
        watch=given["watch"],
        once=given["once"],
        full=given["full"],
        dry_run=given["dry_run"],
        interval=_seconds(given["interval"], "--interval", default=10.0),
        options=_pairs(given["option"], "--option"),
        as_json=given["json"],
        on=on,
        metrics_port=_port(given["metrics_port"], "--metrics-port"),
        master=given["master"],
        conf=_pairs(given["conf"], "--conf"),
        memory=given["memory"],
        catalog_options=given["catalog_options"],
    )


def _check_spark_flags(given: Mapping[str, Any], on: str) -> None:
    of_spark = [f"--{name}" for name in ("master", "conf") if given[name]]
    if on == "local" and of_spark:
        message = f"{of_spark[0]} is of Spark: give --on spark too"
        raise UsageError(message)


_READERS: Mapping[str, Callable[[Mapping[str, Any], str], Arguments]] = {
    SQL.name: _sql_arguments,
    TAIL.name: _tail_arguments,
    SERVE.name: _serve_arguments,
    CONNECT.name: _connect_arguments,
    GET.name: _get_arguments,
    DOCTOR.name: _doctor_arguments,
    ORPHANS.name: _orphans_arguments,
    EXPIRE.name: _expire_arguments,
    DIFF.name: diff_arguments,
    BLAME.name: blame_arguments,
    BISECT.name: bisect_arguments,
    FSCK.name: files_arguments,
    REPAIR.name: files_arguments,
    UI.name: page_arguments,
    REPORT.name: page_arguments,
    **COPY_READERS,
    **INDEX_READERS,
    CLUSTER.name: _cluster_arguments,
    COMPACT.name: _compact_arguments,
    **{one.name: look_arguments for one in (LS, SHOW, FILES, SNAPSHOTS, HISTORY)},
    **{one.name: version_arguments for one in (TAG, BRANCH, ROLLBACK)},
}


def _qualified(table: str, given: Mapping[str, Any]) -> str:
    """The name of a table with its database."""
    return table if "." in table else f"{given['database'] or 'default'}.{table}"


def _file(name: str | None, flag: str) -> str | None:
    if name is not None and not Path(name).is_file():
        message = f"{flag}: there is no file {name}"
        raise UsageError(message)
    return name


def _port(text: str | None, flag: str) -> int | None:
    port = _number(text, flag, int, least=0)
    if port is not None and port > PORT_MAX:
        message = f"{flag} takes a port up to {PORT_MAX}, not '{text}'"
        raise UsageError(message)
    return port


def _seconds(text: str | None, flag: str, *, default: float) -> float:
    seconds = _number(text, flag, float, least=0)
    if seconds == 0:
        message = f"{flag} takes a number of seconds above 0, not '{text}'"
        raise UsageError(message)
    return default if seconds is None else seconds


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        message = f"--columns takes names with commas between, not '{text}'"
        raise UsageError(message)
    return names


def _number(text: str | None, flag: str, kind: Callable[[str], N], *, least: int) -> N | None:
    if text is None:
        return None
    try:
        value = kind(text)
        if least <= value < math.inf:
            return value
    except ValueError:
        pass
    what = "a whole number" if kind is int else "a number of seconds"
    message = f"{flag} takes {what} from {least} on, not '{text}'"
    raise UsageError(message)


def _pairs(texts: Sequence[str] | None, flag: str) -> dict[str, str]:
    return dict(_pair(text, flag) for text in texts or ())


def _pair(text: str, flag: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"{flag} takes KEY=VALUE, not '{text}'"
        raise UsageError(message)
    return key.strip(), value.strip()


def _catalog_options(given: Mapping[str, Any]) -> dict[str, str]:
    """Options of the catalog: those of the file, and over them those of the command line."""
    options: dict[str, str] = {}
    name = _file(given.get("catalog_file"), "--catalog-file")
    if name is not None:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            key, equals, value = line.partition("=")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not equals or not key.strip():  # the line may hold a password: it is not shown
                message = f"--catalog-file: line {number} of {name} is not KEY=VALUE"
                raise UsageError(message)
            options[key.strip()] = value.strip()
    return options | _pairs(given.get("catalog_option"), "--catalog-option")
