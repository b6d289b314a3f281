"""The options of ``format("tidelake")``: each key declared once, for reads, writes or both.

Spark passes options with lower-case keys, so keys are compared without case. An undeclared key is
an error with near names: an ignored misspelling of ``snapshot-id`` would read the newest rows. The
keys by which Paimon (``scan.snapshot-id``) and Delta (``versionAsOf``) name a moment are accepted
too. Besides these keys, every option of tables may be given for the one read or write, and is
checked as by :meth:`tidelake.Table.with_options`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidelake.engine.storage import FileIO, is_storage_key, parse_location
from tidelake.engine.tables import Catalog, Time
from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.options import declared, is_option
from tidelake.spark.streams.connector.stream_options import option_key

DATABASE_SUFFIX = ".db"
SPARK_PREFIX = "__"
"""Prefix of the keys that Spark's own writer adds, such as ``__partition_columns``."""

LOCATION_KEYS = ("path", "warehouse", "table")
BETWEEN = declared.INCREMENTAL_BETWEEN.key
BETWEEN_MODE = declared.INCREMENTAL_BETWEEN_SCAN_MODE.key
AUTO = declared.INCREMENTAL_BETWEEN_SCAN_MODE.default
READ_KEYS = (
    *LOCATION_KEYS,
    "columns",
    "where",
    "snapshot-id",
    "timestamp",
    "tag",
    BETWEEN,
    BETWEEN_MODE,
)
WRITE_KEYS = (
    *LOCATION_KEYS,
    "commit-user",
    "commit-identifier",
)
VERSION_AS_OF = "versionAsOf"
MOMENTS_ELSEWHERE = {
    declared.SCAN_SNAPSHOT_ID.key: "snapshot-id",
    declared.SCAN_TAG_NAME.key: "tag",
    declared.SCAN_TIMESTAMP_MILLIS.key: "timestamp",
    declared.SCAN_TIMESTAMP.key: "timestamp",
    "timestampAsOf": "timestamp",
}
"""Other formats' names of a moment, and ours."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What the format reaches beside what each process finds by itself. Picklable."""

    storages: Mapping[str, FileIO] = field(default_factory=dict)
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table's location: a warehouse and a name in it; and what reaches it, if that is known.

    Parameters
    ----------
    catalog : Catalog, optional
        An attached catalog of a server, which alone knows its tables.
    """

    warehouse: str
    table: str
    storage: FileIO | None = None
    catalog: Catalog | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TableLocation:
        """Take ``path``, or ``warehouse`` and ``table``.

        Raises
        ------
        InvalidInputError
            Neither is given, or a key of a storage is: plans would show it.
        """
        _check_no_storage_key(options)
        path, warehouse, name = (options.get(key) for key in LOCATION_KEYS)
        if path is not None and warehouse is None and name is None:
            return cls(*_split_path(path))
        if warehouse is None or name is None or path is not None:
            message = (
                "format('tidelake') needs the table's directory, as in"
                " load('/warehouse/db.db/table'), or option('warehouse', ...) together with"
                " option('table', 'db.table')."
            )
            raise InvalidInputError(message, kind="source_options")
        return cls(warehouse, name)

    def reached(self, attached: Attached) -> TableLocation:
        """Take what reaches an attached warehouse, if the table is in one.

        Raises
        ------
        InvalidInputError
            It is in a REST catalog that is not attached.
        """
        catalog = attached.catalogs.get(self.warehouse.rstrip("/"))
        if catalog is not None:
            return replace(self, catalog=catalog)
        if self.warehouse.startswith(("http://", "https://")):
            message = (
                f"No REST catalog {self.warehouse} is attached to the session: attach it, tl ="
                " tidelake.spark.attach(spark, tidelake.open(catalog={...})), and give"
                " option('warehouse', tl.catalog.uri)."
            )
            raise InvalidInputError(message, kind="source_options", option="warehouse")
        if not attached.storages:
            return self
        return replace(self, storage=attached.storages.get(str(parse_location(self.warehouse))))


@dataclass(frozen=True, slots=True)
class SourceReadOptions:
    """The arguments of a read; the parts as of :meth:`tidelake.table.Table.scan`.

    Examples
    --------
    >>> SourceReadOptions.of({"path": "/w/db.db/t", "versionasof": "3"}).snapshot_id
    3
    """

    location: TableLocation
    columns: tuple[str, ...] | None = None
    where: str | None = None
    snapshot_id: int | None = None
    timestamp: Time | None = None
    tag: str | None = None
    between: str | None = None
    changes_mode: str = AUTO
    table_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceReadOptions:
        """Parse the options of a read, keys in any case.

        Raises
        ------
        InvalidInputError
            A key is unknown or belongs to writes, a value is invalid, two keys name a moment, or
            both a moment and changes are wanted.
        """
        known = (*READ_KEYS, *MOMENTS_ELSEWHERE, VERSION_AS_OF)
        given = _known(options, known, "read", other=WRITE_KEYS)
        columns = given.get("columns")
        snapshot_id, timestamp, tag = _moment(given)
        between = given.get(BETWEEN)
        if between is not None and (snapshot_id, timestamp, tag) != (None, None, None):
            message = f"Give either option '{BETWEEN}', for changes, or a moment of the table."
            raise InvalidInputError(message, kind="two_moments")
        if between is None and BETWEEN_MODE in given:
            message = f"Option '{BETWEEN_MODE}' needs option '{BETWEEN}': give both."
            raise InvalidInputError(message, kind="source_options", option=BETWEEN_MODE)
        return cls(
            location=TableLocation.of(given),
            columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
            where=given.get("where"),
            snapshot_id=snapshot_id,
            timestamp=timestamp,
            tag=tag,
            between=between,
            changes_mode=given.get(BETWEEN_MODE, AUTO),
            table_options=_table_options(given, known),
        )


@dataclass(frozen=True, slots=True)
class SourceWriteOptions:
    """The arguments of a write: the table, the identity, and table options for this use."""

    location: TableLocation
    commit_user: str | None = None
    commit_identifier: int | None = None
    table_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceWriteOptions:
        """Parse the options of a write, keys in any case.

        Raises
        ------
        InvalidInputError
            A key is unknown or belongs to reads, or a value is invalid.
        """
        elsewhere = (*READ_KEYS, *MOMENTS_ELSEWHERE, VERSION_AS_OF)
        given = _known(options, WRITE_KEYS, "write", other=elsewhere)
        identifier = given.get("commit-identifier")
        return cls(
            location=TableLocation.of(given),
            commit_user=given.get("commit-user"),
            commit_identifier=(
                None if identifier is None else _number("commit-identifier", identifier)
            ),
            table_options=_table_options(given, WRITE_KEYS),
        )


def _known(
    options: Mapping[str, str], known: tuple[str, ...], direction: str, *, other: tuple[str, ...]
) -> dict[str, str]:
    """The options by their declared keys; Spark's own are left out, unknown ones refused."""
    _check_no_storage_key(options)
    spelling = {key.lower(): key for key in known}
    others = {key.lower() for key in other}
    given: dict[str, str] = {}
    for key, value in options.items():
        if key.startswith(SPARK_PREFIX):
            continue
        if key.lower() in spelling:
            given[spelling[key.lower()]] = str(value)
            continue
        if key.lower() not in others and is_option(option_key(key)):
            given[option_key(key)] = str(value)  # an option of the table, for this use
            continue
        if key.lower() == "paths":
            message = (
                "format('tidelake') reads one table: give load() one path, and union the frames."
            )
            raise InvalidInputError(message, kind="source_options", option=key)
        shown = shortened(key)
        if key.lower() in others:
            what = f"Option '{shown}' of format('tidelake') has no meaning for a {direction}."
        else:
            near = near_names(key.lower(), (*known, *declared.BY_KEY))
            what = f"format('tidelake') has no option '{shown}'.{near}"
        own = READ_KEYS if direction == "read" else WRITE_KEYS
        message = (
            f"{what} The options of a {direction} are {', '.join(own)}, and those of the table"
            " (docs/options.md)."
        )
        raise InvalidInputError(message, kind="source_options", option=key)
    return given


def _check_no_storage_key(options: Mapping[str, str]) -> None:
    for key in options:
        if is_storage_key(key.lower()):
            message = (
                f"Option '{shortened(key)}' of format('tidelake') would show in plans. Attach the"
                " warehouse to the session, tidelake.spark.attach(spark, 's3://...',"
                " storage={...}), and the format reaches it; or let executors find keys of their"
                " own, in their environment or by their role."
            )
            raise InvalidInputError(message, kind="source_options", option=key)


def _table_options(given: Mapping[str, str], own: tuple[str, ...]) -> dict[str, str]:
    """The table's options among these."""
    return {key: value for key, value in given.items() if key not in own}


def _moment(given: Mapping[str, str]) -> tuple[int | None, Time | None, str | None]:
    """The wanted snapshot id, time and tag: one of them at most."""
    keys = ("snapshot-id", "timestamp", "tag", *MOMENTS_ELSEWHERE, VERSION_AS_OF)
    named = [key for key in keys if key in given]
    if len(named) > 1:
        message = f"Give one of the options {', '.join(named)}: each names a moment of the table."
        raise InvalidInputError(message, kind="two_moments")
    if not named:
        return None, None, None
    key = named[0]
    value = given[key]
    if key == VERSION_AS_OF:
        meant = "snapshot-id" if value.isdecimal() else "tag"  # a tag's name is never a number
    else:
        meant = MOMENTS_ELSEWHERE.get(key, key)
    if meant == "snapshot-id":
        return _number(key, value), None, None
    if meant == "tag":
        return None, None, value
    in_ms = key == declared.SCAN_TIMESTAMP_MILLIS.key
    return None, _number(key, value) if in_ms else value, None


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        message = f"Option '{key}' must be a number, not '{shortened(text)}'."
        raise InvalidInputError(message, kind="source_options", option=key)
    return int(text)


def _split_path(path: str) -> tuple[str, str]:
    """Warehouse and name of a table's directory."""
    database_path, table = posixpath.split(path.rstrip("/"))
    warehouse, database = posixpath.split(database_path)
    if not (warehouse and table and database.endswith(DATABASE_SUFFIX)):
        message = (
            f"'{path}' is not the directory of a table, which is <warehouse>/<database>.db/<table>."
        )
        raise InvalidInputError(message, kind="source_path", path=path)
    return warehouse, f"{database.removesuffix(DATABASE_SUFFIX)}.{table}"
