"""Positions and sets of GTIDs."""

from __future__ import annotations

import struct

import pytest

from tidelake.cdc.mysql.position import BinlogPosition, MariaGtids, MySqlGtids
from tidelake.errors import InvalidInputError

ONE, TWO = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    "text", ["bin.000001:4:0", "my-bin.10:99:3;0-1-5,1-1-7", f"b.1:4:0;{ONE}:1-9"]
)
def test_a_text_is_read_and_printed(text):
    assert str(BinlogPosition.parse(text)) == text


@pytest.mark.parametrize("text", ["", "bin:4:0", "bin.000001:4", "bin.x:4:0", "bin.1:-4:0"])
def test_what_is_no_position_is_refused(text):
    with pytest.raises(InvalidInputError):
        BinlogPosition.parse(text)


def test_files_are_compared_by_number():
    texts = ("bin.999999:99:0", "bin.1000000:4:0", "bin.1000000:4:3", "bin.1000000:5:0")
    places = [BinlogPosition.parse(text).rank for text in texts]
    assert places == sorted(places)
    assert (
        BinlogPosition.parse("bin.2:4:0").order > BinlogPosition.parse("bin.1:1073741824:0").order
    )


def test_sets_of_mysql():
    found = MySqlGtids.parse(f"{ONE}:1-3:7, {TWO}:5")
    for number in (4, 8, 5, 6):
        found.add(ONE, number)
    assert str(found) == f"{ONE}:1-8,{TWO}:5"
    assert found.covers(MySqlGtids.parse(f"{ONE}:2-3:8"))
    assert not found.covers(MySqlGtids.parse(f"{ONE}:8-9"))
    assert not MySqlGtids.parse("").covers(found)
    assert found.packed() == (
        struct.pack("<Q", 2) + bytes(15) + b"\1" + struct.pack("<QQQ", 1, 1, 9)
        + bytes(15) + b"\2" + struct.pack("<QQQ", 1, 5, 6)
    )  # fmt: skip


def test_positions_of_mariadb():
    found = MariaGtids.parse("1-1-7,0-1-5")
    found.add(0, 2, 6)
    assert str(found) == "0-2-6,1-1-7"
    for wrong in ("0-1", ONE):
        with pytest.raises(InvalidInputError):
            MariaGtids.parse(wrong)
    with pytest.raises(InvalidInputError):
        MySqlGtids.parse("0-1-5")
