"""Positions in the log, and sets of GTIDs of both flavours.

A position is ``file:offset:rows``, and ``;gtids`` behind it where the server has GTIDs::

    bin.000003:9228962:0;0-1-105
    bin.000003:4127:12;3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77

File and offset are where a transaction ends, or begins; `rows` is how many row *events* of the
transaction that follows are read already, because a large one is cut. GTIDs are those up to that
place. A log is read on by GTIDs where there are some: then the server itself refuses a history that
is another one. A position without GTIDs stays one: a set that lacks what came before would make the
server send it again. The order of positions is that of file number, offset and rows.
"""

from __future__ import annotations

import re
import struct
import uuid
from dataclasses import dataclass, field

from tidelake.errors import InvalidInputError

FILE_SHIFT = 32
"""Bits of an offset where a transaction begins; a file ends soon after 1 GiB."""

_POSITION = re.compile(r"(?P<file>[^:;]+):(?P<offset>\d+):(?P<rows>\d+)(?:;(?P<gtids>.*))?")
_MARIA = re.compile(r"(\d+)-(\d+)-(\d+)")
_MYSQL = re.compile(r"([0-9a-fA-F-]{36}):([0-9:-]+)")


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place in the log."""

    file: str
    offset: int
    rows: int = 0
    gtids: str = ""

    @classmethod
    def parse(cls, text: str) -> BinlogPosition:
        """Read a position.

        Raises
        ------
        InvalidInputError
            The text is none.

        Examples
        --------
        >>> BinlogPosition.parse("bin.000003:4:0;0-1-105").gtids
        '0-1-105'
        """
        found = _POSITION.fullmatch(text)
        if not found or not found["file"].rpartition(".")[2].isdigit():
            message = f"'{text}' is no position of a binlog; one reads bin.000003:4:0;0-1-105."
            raise InvalidInputError(message, kind="cdc_position")
        return cls(found["file"], int(found["offset"]), int(found["rows"]), found["gtids"] or "")

    def __str__(self) -> str:
        text = f"{self.file}:{self.offset}:{self.rows}"
        return f"{text};{self.gtids}" if self.gtids else text

    @property
    def number(self) -> int:
        """Number of the file."""
        return int(self.file.rpartition(".")[2])

    @property
    def rank(self) -> tuple[int, int, int]:
        """What positions are compared by."""
        return self.number, self.offset, self.rows

    @property
    def order(self) -> int:
        """File and offset as one number, which rises from transaction to transaction."""
        return self.number << FILE_SHIFT | self.offset


class BinlogPositions:
    """What positions of the log say of each other."""

    def is_position(self, text: str) -> bool:
        """Whether a text is one."""
        try:
            BinlogPosition.parse(text)
        except InvalidInputError:
            return False
        return True

    def is_before(self, left: str, right: str) -> bool:
        """Whether one position is before another."""
        return BinlogPosition.parse(left).rank < BinlogPosition.parse(right).rank

    def is_between_transactions(self, position: str) -> bool | None:
        """Whether no transaction is cut at a position."""
        return BinlogPosition.parse(position).rows == 0


@dataclass(slots=True)
class MariaGtids:
    """The last GTID of each domain of MariaDB."""

    last: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MariaGtids:
        """Read ``0-1-105,1-1-7``."""
        found = cls()
        for part in filter(None, (one.strip() for one in text.split(","))):
            match = _MARIA.fullmatch(part)
            if not match:
                message = f"'{part}' is no GTID of MariaDB; one reads 0-1-105."
                raise InvalidInputError(message, kind="cdc_position")
            domain, server, number = map(int, match.groups())
            found.last[domain] = (server, number)
        return found

    def add(self, domain: int, server: int, number: int) -> None:
        """Take a GTID that is done."""
        self.last[domain] = (server, number)

    def __str__(self) -> str:
        return ",".join(f"{d}-{s}-{n}" for d, (s, n) in sorted(self.last.items()))


@dataclass(slots=True)
class MySqlGtids:
    """Sets of MySQL's GTIDs: for each server's uuid, ranges that do not touch, ascending."""

    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MySqlGtids:
        """Read ``uuid:1-77:80,uuid:5``.

        Examples
        --------
        >>> one = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        >>> str(MySqlGtids.parse(f"{one}:1-5:6:9"))[37:]
        '1-6:9'
        """
        found = cls()
        for part in filter(None, (one.strip() for one in text.split(","))):
            match = _MYSQL.fullmatch(part)
            if not match:
                message = f"'{part}' is no set of GTIDs of MySQL; one reads uuid:1-77."
                raise InvalidInputError(message, kind="cdc_position")
            for one in match[2].split(":"):
                low, _, high = one.partition("-")
                found._add_range(match[1].lower(), int(low), int(high or low))
        return found

    def add(self, server: str, number: int) -> None:
        """Take a GTID that is done."""
        ranges = self.ranges.get(server)
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            self._add_range(server, number, number)

    def _add_range(self, server: str, low: int, high: int) -> None:
        merged: list[tuple[int, int]] = []
        for start, stop in sorted([*self.ranges.get(server, []), (low, high)]):
            if merged and start <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        self.ranges[server] = merged

    def covers(self, other: MySqlGtids) -> bool:
        """Whether all of the other set is in this one."""
        return all(
            any(low <= start and stop <= high for low, high in self.ranges.get(server, []))
            for server, ranges in other.ranges.items()
            for start, stop in ranges
        )

    @classmethod
    def unpacked(cls, data: bytes) -> MySqlGtids:
        """Read the body of a PREVIOUS_GTIDS, which has the form of :meth:`packed`."""
        found, at = cls(), 8
        for _ in range(int.from_bytes(data[:8], "little")):
            server, count = str(uuid.UUID(bytes=data[at : at + 16])), data[at + 16 : at + 24]
            at += 24
            for _ in range(int.from_bytes(count, "little")):
                low, high = struct.unpack_from("<QQ", data, at)
                found._add_range(server, low, high - 1)
                at += 16
        return found

    def packed(self) -> bytes:
        """As COM_BINLOG_DUMP_GTID has them; the ends of ranges are not in them there."""
        parts = [struct.pack("<Q", len(self.ranges))]
        for server, ranges in sorted(self.ranges.items()):
            parts += [uuid.UUID(server).bytes, struct.pack("<Q", len(ranges))]
            parts += [struct.pack("<QQ", low, high + 1) for low, high in ranges]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            f"{server}:" + ":".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)
            for server, ranges in sorted(self.ranges.items())
        )


def gtids_of(text: str, *, is_maria: bool) -> MariaGtids | MySqlGtids:
    """Read a set of the server's flavour."""
    return MariaGtids.parse(text) if is_maria else MySqlGtids.parse(text)
