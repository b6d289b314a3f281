from __future__ import annotations

import pytest
from unit.store.lsm.lsm_text import KEY_TYPES, parse_levels

from tidelake.store.lsm import Pick
from tidelake.store.lsm.compaction import ChangeTracking, Rewrite, Step, Upgrade, plan


def planned(
    levels: str, *, output: int = 5, target: int = 1000, tracking: ChangeTracking | None = None
) -> list[str]:
    parsed = parse_levels(levels)
    picked = Pick(parsed.files, output, drop_deletes=output == 5)
    steps = plan(
        picked, KEY_TYPES, max_level=parsed.max_level, target_size_bytes=target, tracking=tracking
    )
    return [text_of(step) for step in steps]


def text_of(step: Step) -> str:
    if isinstance(step, Upgrade):
        return f"upgrade #{step.file.max_sequence_number}"
    assert isinstance(step, Rewrite)
    sections = [
        "/".join("+".join(f"#{f.max_sequence_number}" for f in run) for run in section)
        for section in step.sections
    ]
    return "merge " + " ".join(sections)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("L0[a..m #2 900] L0[k..z #1 900]", ["merge #1/#2"]),
        ("L0[a..k #2 900] L0[l..z #1 900]", ["upgrade #2", "upgrade #1"]),
        # small files without overlap become one
        ("L0[a..k #2 100] L0[l..z #1 100]", ["merge #2 #1"]),
        # a single small file between large ones is not worth a rewrite
        (
            "L0[f..g #3 100] L0[a..e #2 900] L0[l..z #1 900]",
            ["upgrade #2", "upgrade #3", "upgrade #1"],
        ),
        # a small file goes along with the section before it, a large one ends that
        (
            "L0[a..c #5 100] L0[b..d #4 900] L0[e..f #3 100]"
            " L5[g..h #1 900 | i..j #2 10 | k..l #6 10]",
            ["merge #4/#5 #3", "merge #2 #6"],
        ),
        # deletes do not reach the last level
        ("L0[a..k #2 900 deletes] L0[l..z #1 900]", ["merge #2", "upgrade #1"]),
        # what is there already stays
        ("L0[a..b #2 900] L5[c..d #1 900]", ["upgrade #2"]),
        ("L5[c..d #1 900 deletes]", []),
        # disjoint files of level 0 lie in one run over the old one
        ("L0[a..b #3 10] L0[x..z #2 10] L5[a..z #1 900]", ["merge #1/#3+#2"]),
    ],
)
def test_plan_to_the_last_level(levels, expected):
    assert planned(levels) == expected


def test_a_file_with_deletes_is_upgraded_to_other_levels():
    assert planned("L0[a..k #2 900 deletes]", output=3) == ["upgrade #2"]


@pytest.mark.parametrize(
    ("lifts_new", "expected"),
    [(True, ["upgrade #3", "upgrade #2"]), (False, ["merge #3", "upgrade #2"])],
)
def test_a_new_file_is_rewritten_where_its_rows_depend_on_those_beneath(lifts_new, expected):
    tracking = ChangeTracking(new_below=1, beneath=(), lifts_new=lifts_new)
    assert planned("L0[a..k #3 900] L1[l..z #2 900]", output=3, tracking=tracking) == expected
