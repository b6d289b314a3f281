"""Which clustered files are sorted again together; levels as text, keys are clustering columns."""

import pytest
from unit.store.lsm.lsm_text import KEY_TYPES, parse_levels

from tidelake.merge import FileKeys
from tidelake.store.lsm.clustered_picker import pick_groups
from tidelake.store.lsm.compaction_picker import CompactionPolicy

ORDER = FileKeys(KEY_TYPES)


def picked(text: str, *, trigger: int = 3, target: int = 1000, **more):
    policy = CompactionPolicy(runs_trigger=trigger, **more.pop("policy", {}))
    files = parse_levels(text).files
    groups = pick_groups(files, ORDER, policy, target_size_bytes=target, **more)
    return [sorted(file.max_sequence_number for file in group) for group in groups]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("", []),
        ("L1[a..c #1 900]", []),
        # two that overlap are no more than the trigger allows
        ("L1[a..z #1 900 | a..z #2 900]", []),
        ("L1[a..z #1 900 | a..z #2 900 | a..z #3 900]", [[1, 2, 3]]),
        # newer ones much smaller: they alone, once there are more than the trigger
        ("L1[a..z #1 9000 | a..z #2 100 | a..z #3 100 | a..z #4 100]", [[2, 3, 4]]),
        # what overlaps none of those taken stays
        (
            "L1[a..c #1 700 | d..k #2 700 | m..z #3 700 | a..e #4 900 | a..e #5 900]",
            [[1, 2, 4, 5]],
        ),
        # small files beside each other
        ("L1[a..b #1 100 | c..d #2 100]", []),
        ("L1[a..b #1 100 | c..d #2 100 | e..f #3 100]", [[1, 2, 3]]),
        ("L1[a..b #1 100 | c..d #2 800 | e..f #3 100 | g..h #4 100]", []),
        # files that share a bound, or have one value alone, do not overlap
        ("L1[a..a #1 900 | a..a #2 900 | a..a #3 900 | a..c #4 900 | c..e #5 900]", []),
        ("L1[c..c #1 900 | a..e #2 900 | a..e #3 900]", [[1, 2, 3]]),
    ],
)
def test_files_that_overlap_or_are_small_are_taken(text, groups):
    assert picked(text) == groups


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("L1[a..c #1 900]", []),
        ("L1[a..c #1 900 | d..f #2 900]", []),
        ("L1[a..c #1 900 | d..f #2 100]", []),
        ("L1[a..c #1 100 | d..f #2 100]", [[1, 2]]),
        ("L1[a..e #1 900 | d..f #2 900]", [[1, 2]]),
        ("L1[a..c #1 900 | c..c #2 900 | c..c #3 900 | c..f #4 900]", []),
    ],
)
def test_a_full_compaction_takes_all_where_that_changes_anything(text, groups):
    assert picked(text, full=True) == groups


def test_a_full_compaction_rewrites_files_with_deleted_rows_one_by_one():
    text = "L1[a..c #1 900 | d..f #2 900]"
    found = picked(text, full=True, needs_rewrite=lambda file: file.max_sequence_number == 2)
    assert found == [[2]]


def test_small_tables_and_old_files_are_taken_whole_by_the_options():
    text = "L1[a..c #1 100 | a..f #2 100]"
    assert picked(text, policy={"full_below_bytes": 201}) == [[1, 2]]
    assert picked(text, policy={"full_below_bytes": 200}) == []
    assert picked(text, policy={"full_interval_ms": 10}, now_ms=13) == [[1, 2]]
    assert picked(text, policy={"full_interval_ms": 10}, now_ms=12) == []
