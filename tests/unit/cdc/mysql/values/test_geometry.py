"""Geometries that are none."""

from __future__ import annotations

import struct

import pytest

from tidelake.cdc.mysql.values.geometry import geo_json


def test_damaged_geometries_are_told():
    for raw in (
        b"",
        bytes(4) + b"\1\x63\0\0\0",
        bytes(4) + struct.pack("<BIdd", 1, 1, 0, 0) + b"x",
    ):
        with pytest.raises(ValueError, match="well-known"):
            geo_json(raw)
