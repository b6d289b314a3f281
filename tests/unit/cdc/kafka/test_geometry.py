"""Geometries as GeoJSON, from MySQL's bytes and from well-known binary."""

from __future__ import annotations

import json
import struct

import pytest

from tidelake.cdc.kafka.geometry import geo_json, mysql_geo_json


def head(number, order="<"):
    return (b"\1" if order == "<" else b"\0") + struct.pack(f"{order}I", number)


def point(x, y, order="<"):
    return head(1, order) + struct.pack(f"{order}2d", x, y)


def points(*given):
    return struct.pack("<I", len(given)) + b"".join(struct.pack("<2d", *p) for p in given)


def many(number, *parts):
    return head(number) + struct.pack("<I", len(parts)) + b"".join(parts)


LINE = head(2) + points((3, 0), (3, 3), (3, 5))
RING = points((1, 1), (2, 1), (2, 2), (1, 1))
POLYGON = many(3, RING)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (point(1, 1), {"coordinates": [1, 1], "type": "Point"}),
        (point(1.5, -2, ">"), {"coordinates": [1.5, -2], "type": "Point"}),
        (LINE, {"coordinates": [[3, 0], [3, 3], [3, 5]], "type": "LineString"}),
        (POLYGON, {"coordinates": [[[1, 1], [2, 1], [2, 2], [1, 1]]], "type": "Polygon"}),
        (many(4, point(1, 1), point(2, 2)), {"coordinates": [[1, 1], [2, 2]],
                                             "type": "MultiPoint"}),
        (many(5, LINE), {"coordinates": [[[3, 0], [3, 3], [3, 5]]], "type": "MultiLineString"}),
        (many(6, POLYGON), {"coordinates": [[[[1, 1], [2, 1], [2, 2], [1, 1]]]],
                            "type": "MultiPolygon"}),
        (many(7, point(10, 10), LINE), {
            "geometries": [
                {"coordinates": [10, 10], "type": "Point"},
                {"coordinates": [[3, 0], [3, 3], [3, 5]], "type": "LineString"},
            ],
            "type": "GeometryCollection",
        }),
    ],
)  # fmt: skip
def test_each_kind_is_written(data, wanted):
    assert json.loads(geo_json(data)) == {**wanted, "srid": 0}
    assert json.loads(mysql_geo_json(b"\xe6\x10\0\0" + data)) == {**wanted, "srid": 4326}


def test_the_reference_system_may_stand_in_the_type():
    data = head(1 | 0x20000000) + struct.pack("<I", 4326) + struct.pack("<2d", 1, 2)
    assert json.loads(geo_json(data))["srid"] == 4326


@pytest.mark.parametrize("data", [b"", point(1, 1)[:-1], head(9), many(5)[:-4] + b"\xff" * 4])
def test_damage_is_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        geo_json(data)
