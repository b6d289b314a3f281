"""Every kind of file, damaged in many places: the truth, or an error that names the file."""

import functools

import pytest
from proving import damage
from sizes import SIZE

STEPS = {"data-": 97, "manifest-": 47, "manifest-list-": 31, "index-manifest-": 47, ".index": 29}
"""Bytes from one place to the next, times the size's own; ``make damage`` tries every byte."""


@functools.cache
def table(name):
    return damage.sound_table(name)


def step_of(kind):
    return max(1, STEPS.get(kind.begins, 11) * SIZE.damage_step)


@pytest.fixture
def world():
    return table("parquet")


@pytest.mark.parametrize("kind", damage.CHECKED, ids=str)
def test_damage_is_named_or_changes_nothing(kind):
    outcomes = damage.check_kind(table(kind.table), kind, step=step_of(kind))
    if kind.begins == damage.INDEX:  # one that cannot be read costs reading more
        assert outcomes["truth"] > 5 * outcomes["unseen"]
        assert not outcomes["error"]
    else:
        assert outcomes["error"] or kind.begins in {"LATEST", "EARLIEST"}


HINTS_AND_INDEXES = {"LATEST", "EARLIEST", damage.INDEX}


@pytest.mark.parametrize(
    "kind", [k for k in damage.CHECKED if k.begins not in HINTS_AND_INDEXES], ids=str
)
def test_a_file_that_is_gone_or_another_s_is_named(kind):
    world = table(kind.table)
    path = world.of_kind(kind.begins)[-1]
    # without it there is no such table, or tag; or as an expiry or a rollback leaves it
    if kind.begins not in {"schema-", "tag-", "snapshot-"}:
        assert damage.check(world, path, "gone", None) == "error"
    other = "manifest-list-" if kind.begins == "data-" else "data-"
    content = world.files[world.of_kind(other)[0]]
    assert damage.check(world, path, "is another kind of file", content) == "error"


def test_a_file_index_that_is_gone_costs_reading_and_no_row():
    world = table("indexed")
    (path, *_) = world.of_kind(damage.INDEX)
    assert damage.check(world, path, "gone", None) == "truth"


def test_a_check_that_finds_other_rows_fails(world):
    lie = damage.World(world.files, truth=())
    with pytest.raises(damage.DamageViolation, match="other rows"):
        damage.check(
            lie, world.of_kind("tag-")[0], "nothing", world.files[world.of_kind("tag-")[0]]
        )
