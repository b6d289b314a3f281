"""Limits of a batch, and what they admit."""

from __future__ import annotations

import numpy as np
import pytest

from tidelake.errors import InvalidInputError
from tidelake.options import Options
from tidelake.table.stream import NO_LIMITS, ReadLimits
from tidelake.table.stream.limits import Admission

FILES, SIZES, ROWS = (np.array(v) for v in ([1, 2, 1, 1], [10, 20, 30, 40], [5, 5, 0, 90]))


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (NO_LIMITS, 4),
        (ReadLimits(files=3), 2),
        (ReadLimits(files=4), 3),
        (ReadLimits(bytes=59), 2),
        (ReadLimits(bytes=60), 3),
        (ReadLimits(rows=10), 3),
        (ReadLimits(rows=10, files=1), 1),
    ],
)
def test_units_are_taken_as_long_as_they_fit(limits, taken):
    assert Admission(limits).take(FILES, SIZES, ROWS) == taken


def test_the_first_unit_always_passes_and_a_later_one_does_not():
    admission = Admission(ReadLimits(rows=3))
    assert admission.take(FILES, SIZES, ROWS) == 1
    assert admission.take(FILES[1:], SIZES[1:], ROWS[1:]) == 0
    assert (admission.files, admission.bytes, admission.rows) == (1, 10, 5)


def test_no_units_take_nothing():
    empty = np.zeros(0, np.int64)
    assert Admission(ReadLimits(rows=3)).take(empty, empty, empty) == 0


def test_options_say_the_limits():
    options = Options.parse(
        {
            "read.stream.maxFilesPerTrigger": "3",
            "read.stream.maxBytesPerTrigger": "1 mb",
            "read.stream.maxRowsPerTrigger": "9",
            "read.stream.minRowsPerTrigger": "5",
            "read.stream.maxTriggerDelayMs": "1000",
        }
    )
    assert ReadLimits.of(options, table="db.t") == ReadLimits(3, 1 << 20, 9, 5, 1000)
    assert ReadLimits.of(Options.parse({}), table="db.t") == NO_LIMITS


@pytest.mark.parametrize("key", ["read.stream.minRowsPerTrigger", "read.stream.maxTriggerDelayMs"])
def test_a_wait_without_its_bound_is_refused(key):
    with pytest.raises(InvalidInputError, match="both or neither") as caught:
        ReadLimits.of(Options.parse({key: "5"}), table="db.t")
    assert caught.value.kind == "stream_limits"
