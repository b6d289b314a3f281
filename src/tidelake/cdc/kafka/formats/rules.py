"""The JSON formats that a table of rules describes: where a message has what.

===============  ==========================================================================
Format           Messages
===============  ==========================================================================
``canal-json``   ``data`` is a list of rows of texts; ``old`` has what an update changed;
                 ``mysqlType`` and ``pkNames`` give types and key
``maxwell-json``  ``data`` is a row, ``old`` what an update changed, ``primary_key_columns``
                 the key
``ogg-json``     ``before`` and ``after``, ``op_type`` I, U, D or T; ``table`` is
                 ``OWNER.TABLE``; ``pos`` the place in the trail
``aws-dms-json``  ``data`` is a row, with the old values of an update as ``BI_name``;
                 ``metadata`` the rest
``aliyun-json``  ``payload`` has the rows, ``schema`` names, key and types
``json``         the message is the row; each is an insert, or an upsert with a key
===============  ==========================================================================

Source: Paimon's parsers of records (``CanalRecordParser`` and so on). Where it writes an update as
a delete and an insert, we write one +U, unless the key changed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec

from tidelake.cdc.kafka.events import DELETE, INSERT, UPDATE, MessageEvents, TableEvents
from tidelake.cdc.kafka.formats.debezium_json import json_key_names
from tidelake.cdc.kafka.formats.mysql_types import mysql_column
from tidelake.cdc.kafka.images import RowLayout
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.order import (
    Order,
    binlog_order,
    offset_order,
    trail_order,
    unplaced_order,
)
from tidelake.cdc.kafka.wire import WireColumn, WireForm, column, text_column
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.types import DataType, TypeRoot

OPEN = RowLayout((), is_open=True)
LAYOUTS_KEPT = 1_024
Path = tuple[str, ...]
Row = dict[str, Any]
Change = tuple[int, Row, Row | None]
"""Kind, row, and of an update the old row or a part of it."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class Op(StrEnum):
    """What a message does."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    SKIP = "skip"
    """Nothing to rows: a change of a schema, a mark."""


class Old(StrEnum):
    """What messages have of the row before an update."""

    NOTHING = "nothing"
    CHANGED = "changed"
    """The values that changed."""
    WHOLE = "whole"
    """The row, which a delete has in place of the new one."""
    PREFIXED = "prefixed"
    """Members of the new row, with a prefix."""


class _MissingError(Exception):
    """A member is missing; the text names it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Where messages of a format have what; a path is the names of members from the outside in.

    Parameters
    ----------
    op : tuple of str
        Empty: each message is an insert.
    is_many : bool
        Whether a message has a list of rows.
    skips : tuple of paths and values
        A message with another value at a path is passed over; a value of None: with any value.
    ddl : tuple of str
        Where true says that the message is a statement, which is passed over.
    types : callable, optional
        Makes the layout from the document.
    changed_ms : callable
        When the source made the change; None where it is not said.
    place : callable
        The order by the source's log, if the format has it.
    """

    name: str
    op: Path
    ops: Mapping[str, Op]
    row: Path
    old: Path = ()
    old_is: Old = Old.NOTHING
    is_many: bool = False
    skips: tuple[tuple[Path, Any], ...] = ()
    ddl: Path = ()
    database: Path = ()
    table: Path = ()
    keys: Path = ()
    types: Callable[[Row, TypeMapping], Sequence[WireColumn] | None] | None = None
    types_at: Path = ()
    changed_ms: Callable[[Row], int | None] = field(default=lambda _: None)
    place: Callable[[Row], Order | None] | None = None
    is_dotted: bool = False


def at(document: Any, path: Path) -> Any:
    """Give what is at a path; None where nothing is."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


class RuledJson:
    """Reads a format by its rules. For one thread.

    Cost: a Python loop over messages, about 5 us each.
    """

    def __init__(
        self, rules: Rules, *, mapping: TypeMapping | None = None, uses_places: bool = True
    ) -> None:
        self._rules = rules
        self._mapping = mapping or TypeMapping()
        self._uses_places = uses_places
        self._layouts: dict[bytes, RowLayout] = {}

    def events(self, batch: MessageBatch) -> MessageEvents:
        """Say what messages say."""
        groups: dict[tuple[SourceName, int, tuple[str, ...]], TableEvents] = {}
        truncated: dict[int, SourceName] = {}
        bad: dict[int, str] = {}
        offsets, partitions = batch.offsets.tolist(), batch.partitions.tolist()
        times = batch.times_ms.tolist()
        of_topics = {} if self._rules.keys else self._message_keys(batch)
        for place, value in enumerate(batch.values):
            if not value:
                continue
            try:
                document = _decode(value)
                op = self._op(document)
                if op is Op.SKIP:
                    continue
                name = self._name(document, batch.topics[place])
                if op is Op.TRUNCATE:
                    truncated[place] = name
                    continue
                layout = self._layout(document)
                changes = list(self._changes(document, op))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                bad[place] = f"not a message of {self._rules.name}: {error}"
                continue
            except _MissingError as error:
                bad[place] = str(error)
                continue
            layout = self._with_others(layout, changes)
            keys = self._keys(document) if self._rules.keys else of_topics[batch.topics[place]]
            events = groups.get((name, id(layout), keys))
            if events is None:
                hides_moves = self._rules.old_is in (Old.WHOLE, Old.PREFIXED)
                events = TableEvents(name, layout, keys, hides_moves=hides_moves)
                groups[name, id(layout), keys] = events
            changed_ms = self._rules.changed_ms(document)
            where = self._order(document, partitions[place], offsets[place])
            for number, (kind, row, old) in enumerate(changes):
                events.messages.append(place)
                events.kinds.append(kind)
                events.images.append(row)
                events.before.append(old)
                events.first.append(where[0])
                events.second.append(where[1] + (number << 1))
                events.changed_ms.append(times[place] if changed_ms is None else changed_ms)
        return MessageEvents(tuple(groups.values()), truncated, bad)

    def _op(self, document: Any) -> Op:
        rules = self._rules
        if not isinstance(document, dict):
            raise _MissingError(f"a message of {rules.name} is an object")
        for path, wanted in rules.skips:
            if path[:-1] and not isinstance(at(document, path[:-1]), dict):
                raise _MissingError(f"member '{'.'.join(path[:-1])}' is missing")
            if at(document, path) != wanted:
                return Op.SKIP
        if not rules.op:
            return Op.INSERT
        given = at(document, rules.op)
        if given is None:
            raise _MissingError(f"member '{'.'.join(rules.op)}' is missing")
        op = rules.ops.get(str(given))
        if rules.ddl and at(document, rules.ddl) is True and op is not Op.TRUNCATE:
            return Op.SKIP
        if op is None:
            known = ", ".join(rules.ops)
            raise _MissingError(f"{'.'.join(rules.op)} '{given}' is not one of {known}")
        return op

    def _name(self, document: Row, topic: str) -> SourceName:
        database, table = at(document, self._rules.database), at(document, self._rules.table)
        if not self._rules.table or table is None:
            return SourceName("", "", topic)
        if self._rules.is_dotted:
            owner, _, table = str(table).rpartition(".")
            return SourceName(owner, "", table)
        return SourceName("" if database is None else str(database), "", str(table))

    def _keys(self, document: Row) -> tuple[str, ...]:
        found = at(document, self._rules.keys)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def _message_keys(self, batch: MessageBatch) -> dict[str, tuple[str, ...]]:
        """By topic: the names in the first of Kafka's keys that is an object of JSON."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(batch.topics, ())
        left = set(found) if not self._rules.op else set[str]()
        for topic, key in zip(batch.topics, batch.keys, strict=True):
            if not left:
                break
            if key and topic in left and (names := json_key_names(key)):
                found[topic] = names
                left.remove(topic)
        return found

    def _with_others(self, layout: RowLayout, changes: Sequence[Change]) -> RowLayout:
        """Add the columns of rows that the types lack, as texts."""
        if layout.is_open:
            return layout
        known = {one.name for one in layout.columns}
        others = tuple(n for _, row, _ in changes if not row.keys() <= known for n in row)
        others = tuple(dict.fromkeys(name for name in others if name not in known))
        if not others:
            return layout
        mark = b"+%d" % id(layout) + msgspec.json.encode(others)
        found = self._layouts.get(mark)
        if found is None:
            columns = (*layout.columns, *map(text_column, others))
            found = self._layouts[mark] = RowLayout(columns)
        return found

    def _layout(self, document: Row) -> RowLayout:
        rules = self._rules
        if rules.types is None:
            return OPEN
        given = at(document, rules.types_at)
        if given is None:
            return OPEN
        mark = msgspec.json.encode(given)
        known = self._layouts.get(mark)
        if known is None:
            columns = rules.types(given, self._mapping)
            if len(self._layouts) >= LAYOUTS_KEPT:
                self._layouts.clear()
            known = OPEN if columns is None else RowLayout(tuple(columns))
            self._layouts[mark] = known
        return known

    def _order(self, document: Row, partition: int, offset: int) -> Order:
        if self._rules.place is None or not self._uses_places:
            return offset_order(partition, offset)
        return self._rules.place(document) or unplaced_order(offset)

    def _changes(self, document: Row, op: Op) -> Iterator[Change]:
        rules = self._rules
        if op is Op.DELETE and rules.old_is is Old.WHOLE:
            yield DELETE, self._row(at(document, rules.old), rules.old), None
            return
        given = at(document, rules.row)
        if rules.is_many:
            if not isinstance(given, list):
                raise _MissingError(f"member '{'.'.join(rules.row)}' is missing")
            rows = [self._row(one, rules.row) for one in given]
        else:
            rows = [self._row(given, rules.row)]
        if op is Op.INSERT:
            kind = INSERT if rules.op else UPDATE
            for row in rows:
                yield kind, row, None
        elif op is Op.DELETE:
            for row in rows:
                yield DELETE, row, None
        else:
            yield from self._updates(document, rows)

    def _updates(self, document: Row, rows: Sequence[Row]) -> Iterator[Change]:
        rules = self._rules
        if rules.old_is is Old.PREFIXED:
            for row in rows:
                new = {n: v for n, v in row.items() if not n.startswith(DMS_PREFIX)}
                old = {n.removeprefix(DMS_PREFIX): v for n, v in row.items() if n not in new}
                yield UPDATE, new, {**new, **old} if old else None
            return
        given = at(document, rules.old)
        olds = given if rules.is_many else [given]
        if not isinstance(olds, list) or len(olds) != len(rows):
            raise _MissingError(f"member '{'.'.join(rules.old)}' has not the rows of an update")
        for row, old in zip(rows, olds, strict=True):
            if old is not None and not isinstance(old, dict):
                raise _MissingError(f"member '{'.'.join(rules.old)}' has no row")
            whole = old if old is None or rules.old_is is Old.WHOLE else {**row, **old}
            yield UPDATE, row, whole

    def _row(self, given: Any, path: Path) -> Row:
        if not isinstance(given, dict):
            raise _MissingError(f"member '{'.'.join(path) or 'of rows'}' is missing")
        return given


# ---- the table

DMS_PREFIX = "BI_"
_I, _U, _D, _T, _SKIP = Op.INSERT, Op.UPDATE, Op.DELETE, Op.TRUNCATE, Op.SKIP
_OGG_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?")


def _mysql_types(given: Any, mapping: TypeMapping) -> list[WireColumn] | None:
    if not isinstance(given, dict):
        return None
    return [mysql_column(name, str(text), mapping) for name, text in given.items()]


def _aliyun_types(given: Any, mapping: TypeMapping) -> list[WireColumn] | None:
    """The columns of DataWorks' types; DATE is a count of milliseconds, with the time of day."""
    if not isinstance(given, list):
        return None
    columns = []
    for one in given:
        name, kind = str(one["name"]), str(one["type"]).upper()
        if kind == "DATE":
            target = DataType(TypeRoot.TIMESTAMP, precision=3)
            columns.append(column(name, kind, target, WireForm.MILLIS))
        else:
            columns.append(mysql_column(name, kind, mapping))
    return columns


def _whole(path: Path, factor: int = 1) -> Callable[[Row], int | None]:
    """Read a time as a count of units of `factor` milliseconds; -1 is none."""

    def read(document: Row) -> int | None:
        given = at(document, path)
        return given * factor if isinstance(given, int) and given >= 0 else None

    return read


def _text_time(path: Path) -> Callable[[Row], int | None]:
    """Read a time as text, in UTC."""

    def read(document: Row) -> int | None:
        found = _OGG_TIME.match(str(at(document, path) or ""))
        if found is None:
            return None
        moment = dt.datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ''}+00:00")
        return int(moment.timestamp() * 1000)

    return read


def _maxwell_order(document: Row) -> Order | None:
    file, _, position = str(document.get("position") or "").rpartition(":")
    offset = document.get("xoffset")
    if not position.isdigit():
        return None
    return binlog_order(file, int(position), offset if isinstance(offset, int) else 0)


def _aliyun_order(document: Row) -> Order | None:
    text = str(at(document, ("payload", "sequenceId")))
    return (int(text), 0) if text.isdigit() else None


CANAL = Rules(
    "canal-json",
    ("type",),
    {
        "INSERT": _I, "ROW": _I, "UPDATE": _U, "DELETE": _D, "TRUNCATE": _T, "CREATE": _SKIP,
        "TIDB_WATERMARK": _SKIP,
    },
    ("data",),
    ("old",),
    Old.CHANGED,
    is_many=True,
    ddl=("isDdl",),
    database=("database",),
    table=("table",),
    keys=("pkNames",),
    types=_mysql_types,
    types_at=("mysqlType",),
    changed_ms=_whole(("es",)),
)  # fmt: skip
MAXWELL = Rules(
    "maxwell-json",
    ("type",),
    {
        "insert": _I, "bootstrap-insert": _I, "update": _U, "delete": _D, "table-truncate": _T,
        "bootstrap-start": _SKIP, "bootstrap-complete": _SKIP, "table-create": _SKIP,
        "table-alter": _SKIP, "table-drop": _SKIP, "database-create": _SKIP,
        "database-alter": _SKIP, "database-drop": _SKIP,
    },
    ("data",),
    ("old",),
    Old.CHANGED,
    database=("database",),
    table=("table",),
    keys=("primary_key_columns",),
    changed_ms=_whole(("ts",), 1_000),
    place=_maxwell_order,
)  # fmt: skip
OGG = Rules(
    "ogg-json",
    ("op_type",),
    {"I": _I, "U": _U, "D": _D, "T": _T},
    ("after",),
    ("before",),
    Old.WHOLE,
    table=("table",),
    keys=("primary_keys",),
    changed_ms=_text_time(("op_ts",)),
    place=lambda document: trail_order(str(document.get("pos") or "")),
    is_dotted=True,
)
AWS_DMS = Rules(
    "aws-dms-json",
    ("metadata", "operation"),
    {"load": _I, "insert": _I, "update": _U, "delete": _D},
    ("data",),
    (),
    Old.PREFIXED,
    skips=((("metadata", "record-type"), "data"),),
    database=("metadata", "schema-name"),
    table=("metadata", "table-name"),
    changed_ms=_text_time(("metadata", "timestamp")),
)
ALIYUN = Rules(
    "aliyun-json",
    ("payload", "op"),
    {"INSERT": _I, "UPDATE_AFTER": _U, "UPDATE_BEFORE": _D, "DELETE": _D},
    ("payload", "after", "dataColumn"),
    ("payload", "before", "dataColumn"),
    Old.WHOLE,
    skips=((("payload", "ddl"), None),),
    database=("schema", "source", "dbName"),
    table=("schema", "source", "tableName"),
    keys=("schema", "primaryKey"),
    types=_aliyun_types,
    types_at=("schema", "dataColumn"),
    changed_ms=_whole(("payload", "timestamp", "eventTime")),
    place=_aliyun_order,
)
PLAIN = Rules("json", (), {}, ())
RULES = {one.name: one for one in (CANAL, MAXWELL, OGG, AWS_DMS, ALIYUN, PLAIN)}
