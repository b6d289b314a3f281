"""The message of pgoutput that describes a table: :class:`RelationVersion`.

Layout, all numbers big endian (PostgreSQL, "Logical Replication Message Formats")::

    1  'R'
    4  oid
    .. schema, ended by a zero
    .. name, ended by a zero
    1  replica identity: 'd' default, 'n' nothing, 'f' full, 'i' index
    2  number of columns; of each:
       1  flags: 1 = part of the replica identity; under 'f' every column is
       .. name, ended by a zero
       4  oid of the type
       4  modifier of the type
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NUMBER, _COUNT, _TYPE = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">Ii")


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as the log describes it. It has no number, so a rename looks like a new column."""

    name: str
    type_oid: int
    modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class RelationVersion:
    """One version of a table as the log describes it; of partitions the root."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]

    @classmethod
    def parse(cls, message: bytes) -> RelationVersion:
        """Read a message, from its first byte on."""
        (oid,) = _NUMBER.unpack_from(message, 1)
        schema, at = _text(message, 5)
        name, at = _text(message, at)
        (count,) = _COUNT.unpack_from(message, at + 1)
        identity, at = chr(message[at]), at + 3
        columns = []
        for _ in range(count):
            flags = message[at]
            column, at = _text(message, at + 1)
            type_oid, modifier = _TYPE.unpack_from(message, at)
            columns.append(RelationColumn(column, type_oid, modifier, bool(flags & 1)))
            at += _TYPE.size
        return cls(oid, schema, name, identity, tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1
