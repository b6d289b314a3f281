"""What a plan leaves out, with the reasons; objects only when somebody looks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.scan.pruning.pruned_files import PrunedFile, PrunedFiles

PARTS = [(pa.array(["a", "b"]), "bucket"), (pa.array(["c"]), "limit"), (pa.array(["d"]), "bucket")]
REASONS = ["bucket", "bucket", "limit", "bucket"]
FILES = tuple(PrunedFile(n, r) for n, r in zip("abcd", REASONS, strict=True))


def test_names_and_reasons_stand_in_order():
    pruned = PrunedFiles(PARTS)
    assert tuple(pruned) == FILES
    assert (len(pruned), pruned.counts) == (4, {"bucket": 3, "limit": 1})
    assert pruned == FILES
    assert pruned == PrunedFiles([(pa.array([f.name]), f.reason) for f in FILES])
    assert pruned != FILES[:3]
    assert repr(pruned) == repr(FILES)


@pytest.mark.parametrize(
    "place", [0, -1, slice(2), slice(0), slice(1, 3), slice(-1), slice(0, 4, 2)]
)
def test_a_place_or_a_slice_is_that_of_the_tuple(place):
    assert PrunedFiles(PARTS)[place] == FILES[place]


def test_pruned_files_are_listed_with_their_reasons(table):
    for low in (0, 100):
        table.write([{"p": p, "k": low + k, "v": low} for p in "ab" for k in range(3)])
    plan = table.plan(where="p = 'a' AND k >= 100")
    assert plan.pruned == {"partition": 2, "key statistics": 1}
    assert {f.reason for f in plan.pruned_files} == {"partition", "key statistics"}
    assert plan.files_total == plan.files_read + len(plan.pruned_files) == 4
    by_value = table.plan(where="v = 100")
    assert by_value.pruned == {"value statistics": 2}
    assert all(s.raw for s in by_value.splits)
