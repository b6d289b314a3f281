"""Geometries as GeoJSON text, in the form of Paimon: ``coordinates``, ``type``, ``srid``.

MySQL keeps four bytes of SRID and then the well-known binary form. Source of the text's form:
``MySqlTypeUtils.convertWkbArray`` of Paimon, where a map of Java puts the members in this order.
One value at a time.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

DEPTH_MAX = 32
_NAMES = {1: "Point", 2: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString",
          6: "MultiPolygon", 7: "GeometryCollection"}  # fmt: skip


def geo_json(data: bytes) -> str:
    r"""Print a geometry.

    Raises
    ------
    ValueError
        The bytes are no geometry.

    Examples
    --------
    >>> point = bytes(4) + b"\x01" + struct.pack("<Idd", 1, 1.0, 2.5)
    >>> geo_json(point)
    '{"coordinates":[1,2.5],"type":"Point","srid":0}'
    """
    try:
        srid = struct.unpack_from("<I", data)[0]
        found, at = _geometry(data, 4, 0)
    except (struct.error, IndexError, KeyError) as error:
        message = "it is not in the well-known binary form"
        raise ValueError(message) from error
    if at != len(data):
        message = "bytes follow its well-known binary form"
        raise ValueError(message)
    name = "geometries" if "geometries" in found else "coordinates"
    whole = {name: found[name], "type": found["type"], "srid": srid}
    return json.dumps(whole, separators=(",", ":"))


def _geometry(data: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth > DEPTH_MAX:
        message = "it is nested too deeply"
        raise ValueError(message)
    order = "<" if data[at] == 1 else ">"
    kind = struct.unpack_from(f"{order}I", data, at + 1)[0]
    name = _NAMES[kind]
    at += 5
    if kind == 1:
        point, at = _points(data, at, order, 1)
        return {"type": name, "coordinates": point[0]}, at
    count = struct.unpack_from(f"{order}I", data, at)[0]
    at += 4
    if kind == 2:
        line, at = _points(data, at, order, count)
        return {"type": name, "coordinates": line}, at
    parts: list[Any] = []
    for _ in range(count):
        if kind == 3:
            size = struct.unpack_from(f"{order}I", data, at)[0]
            ring, at = _points(data, at + 4, order, size)
            parts.append(ring)
        else:
            part, at = _geometry(data, at, depth + 1)
            parts.append(part if kind == 7 else part["coordinates"])
    return {"type": name, "geometries" if kind == 7 else "coordinates": parts}, at


def _points(data: bytes, at: int, order: str, count: int) -> tuple[list[list[float]], int]:
    numbers = struct.unpack_from(f"{order}{2 * count}d", data, at)
    pairs = [[_number(x), _number(y)] for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
    return pairs, at + 16 * count


def _number(value: float) -> float:
    """Whole numbers without a point, as Java's writer has them."""
    return int(value) if math.isfinite(value) and value == int(value) else value
