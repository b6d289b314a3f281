"""Offsets: their text, which checkpoints hold, and what is refused."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.table.stream import StreamOffset

GOLDENS = {
    '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": 0, "phase": "delta"}': (
        StreamOffset("6f1c", 2, 7)
    ),
    '{"v": 1, "table": "6f1c", "schema": 0, "snapshot": 7, "index": 3, "phase": "full", '
    '"mark": 99}': StreamOffset("6f1c", 0, 7, 3, "full", 99),
    '{"v": 1, "table": "6f1c", "schema": 0, "snapshot": 1, "index": 0, "phase": "full", '
    '"created": 1700000000000}': StreamOffset(
        "6f1c", 0, 1, phase="full", created_ms=1_700_000_000_000
    ),
    '{"v": 1, "table": "6f1c", "schema": 0, "snapshot": 7, "index": 0, "phase": "delta", '
    '"before": "9b1e"}': StreamOffset("6f1c", 0, 7, before="9b1e"),
}


@pytest.mark.parametrize("text", GOLDENS)
def test_the_text_of_an_offset_never_changes(text):
    assert GOLDENS[text].to_json() == text
    assert StreamOffset.from_json(text, table="db.t") == GOLDENS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "{}",
        '{"v": 2}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": 0}',
        '{"v": 1, "table": 6, "schema": 2, "snapshot": 7, "index": 0, "phase": "delta"}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 0, "index": 0, "phase": "delta"}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": true, "index": 0, "phase": "delta"}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": -1, "phase": "delta"}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": 0, "phase": "half"}',
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": 0, "phase": "delta", '
        '"before": 7}',
    ],
)
def test_what_is_no_offset_is_refused(text):
    with pytest.raises(InvalidInputError, match=r"db\.t.*checkpoint") as caught:
        StreamOffset.from_json(text, table="db.t")
    assert caught.value.kind == "stream_offset"


def test_positions_rise_along_a_stream():
    walked = [
        StreamOffset("t", 0, 7, 0, "full"),
        StreamOffset("t", 0, 7, 2, "full"),
        StreamOffset("t", 0, 8),
        StreamOffset("t", 0, 8, 1),
        StreamOffset("t", 0, 9),
    ]
    assert sorted(walked, key=lambda offset: offset.position) == walked
