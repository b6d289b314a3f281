"""A column of one version of a table, with all that reads its values.

The log's own metadata is the truth of a version. What it does not say comes from
``information_schema`` as it is now, by the column's name: whether ``tinyint`` is ``tinyint(1)``,
defaults, comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidelake.cdc.mysql.binlog.table_map import BINARY_COLLATION, MappedColumn, TableMap
from tidelake.cdc.mysql.values.charset import BINARY, bytes_max, decode_text, is_known
from tidelake.cdc.mysql.values.native_type import (
    BLOBS,
    TEXTS,
    MySqlType,
    native_type_of,
    to_lake_type,
)
from tidelake.cdc.source.source_table import SourceColumn, SourceName, SourceTable
from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataType

_CHARACTER = TEXTS | {"enum", "set"}


@dataclass(frozen=True, slots=True)
class ReadableColumn:
    """A column whose values can be read.

    Parameters
    ----------
    native : MySqlType
        Its type in the server.
    type : DataType or None
        Its type in the lake.
    charset : str
        Of text, ENUM and SET, by MySQL's name; ``binary`` of others.
    """

    name: str
    native: MySqlType
    type: DataType | None
    charset: str = BINARY
    has_default: bool = False
    is_generated: bool = False
    comment: str | None = None

    @property
    def source(self) -> SourceColumn:
        """What a job knows of it."""
        return SourceColumn(
            self.name, str(self.native), self.type, has_default=self.has_default,
            comment=self.comment or None,
        )  # fmt: skip

    @classmethod
    def of(
        cls, name: str, native: MySqlType, charset: str, *, is_nullable: bool, mapping: TypeMapping
    ) -> ReadableColumn:
        """Make one, with its type in the lake."""
        kind = to_lake_type(native, mapping)
        if native.name in _CHARACTER and not is_known(charset):
            kind = None
        if kind is not None and not (is_nullable or Switch.TO_NULLABLE in mapping):
            kind = kind.not_null()
        return cls(name, native, kind, charset)


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """One version of a table, with all that reads its rows."""

    name: SourceName
    columns: tuple[ReadableColumn, ...]
    keys: tuple[str, ...]
    comment: str | None = None

    @property
    def source(self) -> SourceTable:
        """What a job knows of it."""
        return SourceTable(
            self.name, tuple(c.source for c in self.columns), self.keys,
            comment=self.comment or None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnnamedColumns:
    """Why the rows of a version cannot be read: its names are not known."""

    reason: str


def table_of(
    found: TableMap, known: ReadableTable | None, charsets: Mapping[int, str], mapping: TypeMapping
) -> ReadableTable | UnnamedColumns:
    """Put together what the log and ``information_schema`` say of a version.

    Parameters
    ----------
    known : ReadableTable or None
        The table as it is now; None if it is gone.
    charsets : mapping of int to str
        Charset of each collation.
    """
    if not found.has_names:
        return _named_by_schema(found, known)
    now = {column.name: column for column in known.columns} if known else {}
    has_same_places = known is not None and len(known.columns) == len(found.columns)
    columns = []
    for place, mapped in enumerate(found.columns):
        assert mapped.name is not None
        column = _logged(mapped, charsets, mapping)
        other = now.get(mapped.name)
        if other is None and has_same_places and known is not None:
            other = known.columns[place]  # renamed since: what has no name stays the same
        if other is not None and _is_same(column.native, other.native):
            native = other.native
            column = replace(
                ReadableColumn.of(mapped.name, native, column.charset, mapping=mapping,
                          is_nullable=mapped.is_nullable),
                has_default=other.has_default, is_generated=other.is_generated,
                comment=other.comment,
            )  # fmt: skip
        columns.append(column)
    names = [column.name for column in columns]
    keys = tuple(names[i] for i in found.keys or ())
    comment = known.comment if known else None
    return ReadableTable(SourceName(found.database, "", found.table), tuple(columns), keys, comment)


def _logged(
    mapped: MappedColumn, charsets: Mapping[int, str], mapping: TypeMapping
) -> ReadableColumn:
    """Read a column from the log's metadata alone."""
    assert mapped.name is not None
    charset = charsets.get(mapped.collation or BINARY_COLLATION, "")
    labels = tuple(
        decode_text(one, charset if is_known(charset) else "latin1") for one in mapped.labels or ()
    )
    native = native_type_of(mapped, labels, bytes_max(charset))
    column = ReadableColumn.of(
        mapped.name, native, charset, is_nullable=mapped.is_nullable, mapping=mapping
    )
    # NOT NULL without a default fills old rows with 0 or '' when the column is added
    return replace(column, has_default=not mapped.is_nullable)


def _is_same(logged: MySqlType, now: MySqlType) -> bool:
    """Whether a type of the log may be what ``information_schema`` says.

    MariaDB's INET4, INET6 and UUID are strings of bytes in the log.
    """
    if logged == now or replace(now, length=0) == logged:
        return True
    return now.name in {"inet4", "inet6", "uuid"} and logged.name in {"binary", "char"}


def _named_by_schema(
    found: TableMap, known: ReadableTable | None
) -> ReadableTable | UnnamedColumns:
    """Take names from ``information_schema``, where count and types of the columns fit."""
    name = f"{found.database}.{found.table}"
    if known is None:
        return UnnamedColumns(f"the log has no names of columns, and {name} is gone")
    if len(known.columns) != len(found.columns):
        return UnnamedColumns("its columns changed, and the log has no names of columns")
    for mapped, column in zip(found.columns, known.columns, strict=True):
        is_binary = column.native.name in BLOBS | {"binary", "varbinary"}
        full = replace(
            mapped, is_unsigned=column.native.is_unsigned,
            collation=BINARY_COLLATION if is_binary else 0,
        )  # fmt: skip
        native = native_type_of(full, column.native.labels, bytes_max(column.charset))
        plain = "geometry" if native.name == "geometry" else column.native.name
        if not _is_same(native, replace(column.native, name=plain)):
            return UnnamedColumns(
                f"its column '{column.name}' changed to {column.native}, and the log has no names"
                " of columns"
            )
    return known
