"""How a column's values are sent, and the conversion of them to the lake's type.

A column is read in one of two ways, with the same result:

1. as a whole: Arrow reads the JSON of all rows with the type of :func:`json_type`, and
   :func:`from_json` converts it. Either raises if one value does not fit.
2. value by value: :func:`of_values` takes decoded values, of JSON or Avro, and gives a reason for
   each that does not fit. Values with a fraction come as :class:`~decimal.Decimal`, so that a text
   keeps all digits.

Source of the meanings: Debezium's connector pages, Kafka Connect's ``data`` package, and Paimon's
``DebeziumSchemaUtils`` and ``CanalFieldParser``. Where Paimon keeps fewer digits, we keep all.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cdc.kafka.geometry import geo_json, mysql_geo_json
from tidelake.cdc.source.source_table import SourceColumn
from tidelake.errors import shortened
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import STRING_LENGTH_MAX

VALUE_SHOWN_MAX = 60
MISFITS = (ValueError, TypeError, OverflowError, ArithmeticError, KeyError, pa.ArrowException)
STRING = DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX)
BYTES = DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BINARIES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_DIGITS = Context(prec=80)
_EPOCH = dt.date(1970, 1, 1)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_json_text = msgspec.json.Encoder(decimal_format="number").encode


class WireForm(StrEnum):
    """How values are sent."""

    PLAIN = "plain"
    """As the kind of JSON or Avro that the type has."""
    TEXT = "text"
    """As anything: the lake has its text."""
    FROM_TEXT = "from text"
    """As the text of SQL."""
    BASE64 = "base64"
    LATIN1 = "latin1"
    """Bytes as text, a character for each."""
    BITS = "bits"
    """Base64, the last byte first."""
    DECIMAL_BYTES = "decimal bytes"
    """Base64 of the unscaled value, or a number."""
    VARIABLE_DECIMAL = "variable decimal"
    """An object with scale and bytes; the lake has the number's text."""
    DAYS = "days"
    MILLIS = "ms"
    MICROS = "us"
    NANOS = "ns"
    ZONED = "zoned"
    """A text in ISO 8601 with a zone; a TIMESTAMP shows it in UTC."""
    ENUM = "enum"
    """The number of the label, from 1, or the label."""
    SET = "set"
    """A bit for each label, or the labels with commas."""
    GEOMETRY = "geometry"
    """An object with well-known binary, or MySQL's bytes as text; the lake has GeoJSON."""


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column of messages.

    Parameters
    ----------
    source : SourceColumn
        With a type in the lake.
    scale : int
        Digits behind the point of DECIMAL_BYTES.
    labels : tuple of str
        Of ENUM and SET.
    """

    source: SourceColumn
    wire: WireForm
    scale: int = 0
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in messages and in the lake."""
        return self.source.name

    @property
    def type(self) -> DataType:
        """Its type in the lake."""
        assert self.source.type is not None, "a wire column has a type"
        return self.source.type


def column(
    name: str,
    native: str,
    kind: DataType,
    wire: WireForm,
    scale: int = 0,
    labels: Sequence[str] = (),
) -> WireColumn:
    """Make a column."""
    return WireColumn(SourceColumn(name, native, kind), wire, scale, tuple(labels))


def text_column(name: str, native: str = "") -> WireColumn:
    """Make a column of texts of anything: of messages that name no types."""
    return column(name, native, STRING, WireForm.TEXT)


def declared_column(field: DataField) -> WireColumn:
    """Make a column whose type is known from elsewhere: of a table that exists.

    Its values are of the kind of JSON that the type has, or texts of SQL; bytes are base64.
    """
    kind = field.type.as_nullable()
    if kind.root in TEXTS:
        return column(field.name, "", kind, WireForm.TEXT)
    if kind.root in _BINARIES:
        return column(field.name, "", kind, WireForm.BASE64)
    is_time = kind.root in (TypeRoot.DATE, TypeRoot.TIME) or kind.root in _TIMESTAMPS
    return column(field.name, "", kind, WireForm.FROM_TEXT if is_time else WireForm.PLAIN)


def kind_column(name: str, value: Any) -> WireColumn:
    """Make a column of the type that a decoded value has in JSON.

    Examples
    --------
    >>> str(kind_column("a", 7).type), str(kind_column("a", Decimal("1.5")).type)
    ('BIGINT', 'DOUBLE')
    """
    if isinstance(value, bool):
        return column(name, "boolean", DataType(TypeRoot.BOOLEAN), WireForm.PLAIN)
    if isinstance(value, int):
        return column(name, "integer", DataType(TypeRoot.BIGINT), WireForm.PLAIN)
    if isinstance(value, (Decimal, float)):
        return column(name, "number", DataType(TypeRoot.DOUBLE), WireForm.PLAIN)
    return text_column(name)


# ---- as a whole


def json_type(given: WireColumn) -> pa.DataType | None:
    """Name the type with which Arrow reads the column's JSON; None if it cannot."""
    root = given.type.root
    if given.wire is WireForm.PLAIN:
        if root in TEXTS:
            return pa.string()
        if root is TypeRoot.BOOLEAN or root in INTEGER_BITS or root is TypeRoot.DECIMAL:
            return to_arrow_type(given.type)
        return pa.float64() if root in _FLOATS else None
    return _JSON_TYPES.get(given.wire)


_JSON_TYPES = {
    WireForm.TEXT: pa.string(),  # where all values are texts; others are read one by one
    WireForm.FROM_TEXT: pa.string(),
    WireForm.BASE64: pa.string(),
    WireForm.LATIN1: pa.string(),
    WireForm.BITS: pa.string(),
    WireForm.DECIMAL_BYTES: pa.string(),
    WireForm.DAYS: pa.int32(),
    WireForm.MILLIS: pa.int64(),
    WireForm.MICROS: pa.int64(),
    WireForm.NANOS: pa.int64(),
    WireForm.ZONED: pa.string(),
}


def from_json(given: WireColumn, values: pa.Array) -> pa.Array:
    """Convert a column that Arrow read with :func:`json_type`; raises at a misfit."""
    target = to_arrow_type(given.type)
    if given.wire in (WireForm.PLAIN, WireForm.TEXT):
        return values if values.type == target else values.cast(target, safe=False)
    if given.wire in _COUNTS:
        return _of_counts(values, given)
    if given.wire is WireForm.FROM_TEXT and _casts_texts(given.type):
        return values.cast(target)
    if given.wire is WireForm.ZONED:
        return values.cast(pa.timestamp("us", "UTC")).cast(target)
    convert = _value_reader(given)
    return pa.array([None if v is None else convert(v) for v in values.to_pylist()], target)


_COUNTS = frozenset({WireForm.DAYS, WireForm.MILLIS, WireForm.MICROS, WireForm.NANOS})
_NANOS = {WireForm.MILLIS: 1_000_000, WireForm.MICROS: 1_000, WireForm.NANOS: 1}


def _of_counts(values: pa.Array, given: WireColumn) -> pa.Array:
    target = to_arrow_type(given.type)
    if given.wire is WireForm.DAYS:
        return values.cast(pa.int32()).cast(pa.date32())
    if given.type.root is TypeRoot.TIME:  # the lake has milliseconds, whatever the precision
        millis = values if given.wire is WireForm.MILLIS else _divided(values, given)
        return millis.cast(pa.int32()).cast(target)
    return values.cast(pa.int64()).cast(pa.timestamp(str(given.wire))).cast(target)


def _divided(values: pa.Array, given: WireColumn) -> pa.Array:
    return pc.divide(values, 1_000_000 // _NANOS[given.wire])


def _casts_texts(kind: DataType) -> bool:
    """Whether Arrow's cast reads the texts of a type as SQL does."""
    return kind.root not in _BINARIES and kind.root is not TypeRoot.TIME and not kind.is_nested


# ---- value by value


def of_values(given: WireColumn, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Convert decoded values; gives a reason for each that does not fit, too."""
    target = to_arrow_type(given.type)
    whole = _whole(given, values, target)
    if whole is not None:
        return whole, {}
    convert = _value_reader(given)
    found: list[Any] = []
    bad: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            found.append(None if value is None else convert(value))
        except MISFITS:
            bad[place] = _reason(given, value)
            found.append(None)
    try:
        return pa.array(found, target), bad
    except MISFITS:
        return _one_by_one(given, values, found, bad)


def _one_by_one(
    given: WireColumn, values: Sequence[Any], found: list[Any], bad: dict[int, str]
) -> tuple[pa.Array, dict[int, str]]:
    """Find the values that Arrow refuses."""
    target = to_arrow_type(given.type)
    for place, value in enumerate(found):
        try:
            pa.scalar(value, target)
        except MISFITS:
            bad[place] = _reason(given, values[place])
            found[place] = None
    return pa.array(found, target), bad


def _whole(given: WireColumn, values: Sequence[Any], target: pa.DataType) -> pa.Array | None:
    """Convert values of one kind by Arrow."""
    root = given.type.root
    try:
        if given.wire is WireForm.PLAIN and root in TEXTS:
            return pa.array(values, target)
        if given.wire is WireForm.PLAIN and (root in INTEGER_BITS or root is TypeRoot.BOOLEAN):
            found = pa.array(values)  # as integers, Arrow would cut 1.5 to 1
            wanted = (pa.null(), pa.bool_() if root is TypeRoot.BOOLEAN else pa.int64())
            return found.cast(target) if found.type in wanted else None
        if given.wire in _COUNTS:
            found = pa.array(values)
            return _of_counts(found, given) if found.type == pa.int64() else None
        if given.wire in (WireForm.FROM_TEXT, WireForm.ZONED):
            return from_json(given, pa.array(values, pa.string()))
    except MISFITS:
        pass
    return None


def _reason(given: WireColumn, value: Any) -> str:
    shown = shortened(value if isinstance(value, str) else _text(value), VALUE_SHOWN_MAX)
    return f"column '{given.name}': '{shown}' is not a value of {given.type.as_nullable()}"


def _value_reader(given: WireColumn) -> Callable[[Any], Any]:
    """Make the converter of one value to what Arrow takes; it raises at a misfit."""
    reader = _READERS[given.wire]
    return lambda value: reader(value, given)


def _plain(value: Any, given: WireColumn) -> Any:
    root = given.type.root
    if root in TEXTS:
        return _of(value, str)
    if isinstance(value, str) and (root is TypeRoot.BOOLEAN or root in INTEGER_BITS):
        return _from_text(value, given)
    if root is TypeRoot.BOOLEAN:
        return _of(value, bool)
    if root in INTEGER_BITS:
        return _integer(_number(value), INTEGER_BITS[root])
    if root in _FLOATS:
        if isinstance(value, str):
            return _NOT_FINITE[value] if value in _NOT_FINITE else _from_text(value, given)
        return float(_number(value))
    if root is TypeRoot.DECIMAL:
        text = value if isinstance(value, str) else str(_number(value))
        return _exact(Decimal(text), given.type)
    return value


def _from_text(value: Any, given: WireColumn) -> Any:
    text = _of(value, str) if isinstance(value, str) else _text(value)
    if given.type.root is TypeRoot.TIME:
        return _time_ms(text)
    if given.type.root in _BINARIES:
        return text.encode()
    if given.type.root in TEXTS:
        return text
    return pa.scalar(text).cast(to_arrow_type(given.type)).as_py()


def _decimal_bytes(value: Any, given: WireColumn) -> Any:
    if isinstance(value, bytes):
        number = _scaled(value, given.scale)
    elif isinstance(value, str):
        number = _scaled(_unbase64(value), given.scale)
    else:
        number = Decimal(str(_number(value)))
    return f"{number:f}" if given.type.root in TEXTS else _exact(number, given.type)


def _scaled(data: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _DIGITS)


def _variable_decimal(value: Any, _: WireColumn) -> Any:
    if not isinstance(value, dict):
        return _text(value)
    data = value["value"]
    number = _scaled(data if isinstance(data, bytes) else _unbase64(data), int(value["scale"]))
    return f"{number:f}"


def _count(value: Any, given: WireColumn) -> Any:
    count = _integer(_number(value), 64)
    if given.wire is WireForm.DAYS:
        return _EPOCH + dt.timedelta(days=count)
    return _of_counts(pa.array([count], pa.int64()), given)[0].as_py()


def _zoned(value: Any, _: WireColumn) -> Any:
    moment = dt.datetime.fromisoformat(_of(value, str))
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(dt.UTC)


def _enum(value: Any, given: WireColumn) -> Any:
    text = _text(value)
    if not text.isdigit():
        return text
    number = int(text)
    if number == 0:
        return ""  # MySQL's value for a text that is no label
    return given.labels[number - 1] if number <= len(given.labels) else _refuse()


def _set(value: Any, given: WireColumn) -> Any:
    text = _text(value)
    if not text.isdigit():
        return [one for one in text.split(",") if one]
    bits = int(text)
    if bits >> len(given.labels):
        raise ValueError
    return [label for place, label in enumerate(given.labels) if bits >> place & 1]


def _refuse() -> Any:
    raise ValueError


_READERS: dict[WireForm, Callable[[Any, WireColumn], Any]] = {
    WireForm.PLAIN: _plain,
    WireForm.TEXT: lambda value, _: _text(value),
    WireForm.FROM_TEXT: _from_text,
    WireForm.BASE64: lambda value, _: value if isinstance(value, bytes) else _unbase64(value),
    WireForm.LATIN1: lambda value, _: _latin1(value),
    WireForm.BITS: lambda value, _: (value if isinstance(value, bytes) else _unbase64(value))[::-1],
    WireForm.DECIMAL_BYTES: _decimal_bytes,
    WireForm.VARIABLE_DECIMAL: _variable_decimal,
    WireForm.DAYS: _count,
    WireForm.MILLIS: _count,
    WireForm.MICROS: _count,
    WireForm.NANOS: _count,
    WireForm.ZONED: _zoned,
    WireForm.ENUM: _enum,
    WireForm.SET: _set,
    WireForm.GEOMETRY: lambda value, _: _geometry(value),
}


def _text(value: Any) -> str:
    """The text of any value; of a nested one its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal, float)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _json_text(value).decode()


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError
    return value


def _integer(value: Any, bits: int) -> int:
    whole = int(value)
    if whole != value or not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError
    return whole


def _exact(number: Decimal, kind: DataType) -> Decimal:
    """A decimal that has no more digits than its type."""
    if not number.is_finite():
        raise ValueError
    scaled = number.quantize(Decimal(1).scaleb(-(kind.scale or 0)), context=_DIGITS)
    if scaled != number or scaled.adjusted() + 1 + (kind.scale or 0) > (kind.precision or 0):
        raise ValueError
    return scaled


def _unbase64(value: Any) -> bytes:
    return base64.b64decode(_of(value, str), validate=True)


def _latin1(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = _of(value, str)
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _geometry(value: Any) -> str:
    if not isinstance(value, dict):
        return mysql_geo_json(_latin1(value))
    data = value["wkb"]
    return geo_json(data if isinstance(data, bytes) else _unbase64(data), value.get("srid"))


def _time_ms(text: str) -> dt.time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError
    micros = int((found[4] or "").ljust(6, "0")[:6])
    return dt.time(int(found[1]), int(found[2]), int(found[3]), micros // 1000 * 1000)
