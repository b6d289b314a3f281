"""Geometries as GeoJSON texts with a number of the reference system, as Paimon writes them.

Bytes are OGC's well-known binary: a byte order, a type in four bytes, and numbers. MySQL puts four
bytes of the reference system before it; PostGIS says in the type that they follow it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

_NAMES = ("", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon",
          "GeometryCollection")  # fmt: skip
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_HAS_SRID, _TYPE_MASK = 0x20000000, 0x0FFFFFFF
_DEPTH_MAX = 32


class _Reader:
    """Reads well-known binary; raises ``ValueError``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._order = "<"
        self.srid: int | None = None

    def _take(self, form: str) -> tuple[Any, ...]:
        try:
            found = struct.unpack_from(self._order + form, self._data, self._at)
        except struct.error as error:
            raise ValueError(str(error)) from error
        self._at += struct.calcsize(self._order + form)
        return found

    def _count(self) -> int:
        (count,) = self._take("I")
        if count > len(self._data):
            raise ValueError("more parts than bytes")
        return int(count)

    def _points(self) -> list[Any]:
        return [self._point() for _ in range(self._count())]

    def _point(self) -> list[Any]:
        return [int(v) if v == int(v) else v for v in self._take("2d")]

    def geometry(self, depth: int = 0) -> dict[str, Any]:
        """Read one geometry, with those inside it."""
        (order,) = self._take("B")
        self._order = "<" if order else ">"
        (kind,) = self._take("I")
        if kind & _HAS_SRID:
            (self.srid,) = self._take("I")
        number = kind & _TYPE_MASK
        if not 0 < number < len(_NAMES) or depth > _DEPTH_MAX:
            raise ValueError(f"geometry of type {number}")
        if number == _COLLECTION:
            parts = [_type_first(self.geometry(depth + 1)) for _ in range(self._count())]
            return {"geometries": parts, "type": _NAMES[number]}
        return {"coordinates": self._coordinates(number, depth), "type": _NAMES[number]}

    def _coordinates(self, number: int, depth: int) -> list[Any]:
        if number == _POINT:
            return self._point()
        if number == _LINE:
            return self._points()
        if number == _POLYGON:
            return [self._points() for _ in range(self._count())]
        return [self.geometry(depth + 1)["coordinates"] for _ in range(self._count())]


def _type_first(given: dict[str, Any]) -> dict[str, Any]:
    """Put the members of a part in the order that Paimon gives them."""
    return {"type": given["type"], **given}


def geo_json(data: bytes, srid: int | None = None) -> str:
    """Write a geometry as text; raises ``ValueError``.

    Examples
    --------
    >>> geo_json(bytes.fromhex("0101000000000000000000f03f000000000000f03f"))
    '{"coordinates":[1,1],"type":"Point","srid":0}'
    """
    reader = _Reader(data)
    found = reader.geometry()
    found["srid"] = srid or reader.srid or 0
    return json.dumps(found, separators=(",", ":"))


def mysql_geo_json(data: bytes) -> str:
    """Write a geometry as MySQL keeps it; raises ``ValueError``."""
    return geo_json(data[4:], int.from_bytes(data[:4], "little"))
