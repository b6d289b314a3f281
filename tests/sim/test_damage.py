"""Every kind of file, damaged in many places: the truth, or an error that names the file."""

import pytest
from proving import damage

STEPS = {"data-": 97, "manifest-": 47, "manifest-list-": 31}
"""Places that are left out between two: all are tried by ``make damage``."""


@pytest.fixture(scope="module")
def world():
    return damage.sound_table()


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damage_is_named_or_changes_nothing(world, kind):
    outcomes = damage.check_kind(world, kind, step=STEPS.get(kind, 11))
    assert outcomes["error"] or kind in {"LATEST", "EARLIEST"}


@pytest.mark.parametrize("kind", sorted(set(damage.KINDS) - {"LATEST", "EARLIEST"}))
def test_a_file_that_is_gone_or_another_s_is_named(world, kind):
    paths = world.of_kind(kind)
    if kind not in {"schema-", "tag-"}:  # then there is no such table, or tag
        assert damage.check(world, paths[-1], "gone", None) == "error"
    content = world.files[world.of_kind("manifest-list-" if kind == "data-" else "data-")[0]]
    assert damage.check(world, paths[-1], "is another kind of file", content) == "error"


def test_a_check_that_finds_other_rows_fails(world):
    lie = damage.World(world.files, truth=([], [], [], [], 0))
    with pytest.raises(damage.DamageViolation, match="other rows"):
        damage.check(
            lie, world.of_kind("tag-")[0], "nothing", world.files[world.of_kind("tag-")[0]]
        )


def test_a_damaged_file_index_costs_reading_and_no_row():
    world = damage.sound_table(
        {
            "file-index.range-bitmap.columns": "k",
            "file-index.bitmap.columns": "v",
            "file-index.in-manifest-threshold": "0 b",
        }
    )
    path = next(p for p in world.of_kind("data-") if p.endswith(".index"))
    for what, data in damage.damages(world.files[path], step=29):
        assert damage.check(world, path, what, data) == "truth"
    assert damage.check(world, path, "gone", None) == "truth"
