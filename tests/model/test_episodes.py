"""Seeded runs of 50 operations against a dict."""

import collections
import functools
import random

import pytest
from proving import branching, engine_draws, episode, fsck, more_draws, wire, world
from sizes import FULL, SIZE

from tidelake.fileio import MemoryFileIO

SEEDS_PER_TEST = 5
KINDS_OF_BUCKETS = ("fixed", "dynamic", "moving", "postpone")
OPTIONS_DRAWN = (
    "changelog-file.format",
    "changelog-producer.row-deduplicate",
    "changelog-producer.row-deduplicate-ignore-fields",
    "deletion-vectors.enabled",
    "file.format=avro",
    "file.format=orc",
    "force-lookup",
    "full-compaction.delta-commits",
    "ignore-delete",
    "ignore-update-before",
    "pk-clustering-override",
    "record-level.expire-time",
    "rowkind.field",
    "sequence.field",
    "write-only",
)


@pytest.mark.parametrize("first", range(0, SIZE.model_seeds, SEEDS_PER_TEST))
def test_engine_equals_the_dict(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        episode.run_seed(seed, SIZE.model_steps)


@pytest.mark.parametrize("first", range(0, SIZE.branched_seeds, SEEDS_PER_TEST))
def test_main_and_branches_equal_a_dict_each(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        branching.Branching(seed).run(SIZE.model_steps // 2)


def test_engine_equals_the_dict_in_an_object_store(s3):
    for seed in range(SIZE.store_seeds):
        episode.run_seed(seed, SIZE.model_steps, fileio=wire.new_bucket(s3))


def test_the_same_seed_gives_the_same_files():
    def run():
        fileio = MemoryFileIO()
        episode.Episode(3, fileio=fileio).run(15)
        return sorted(fsck.walk(fileio, episode.LOCATION))

    assert run() == run()


@functools.cache
def shapes():
    """The tables of the full size, by seed; nothing runs on them."""
    return [world.shape_of(seed, random.Random(seed)) for seed in range(FULL.model_seeds)]


def engine_of(shape):
    groups = any(key.endswith(".sequence-group") for key, _ in shape.options)
    return f"{shape.engine} by groups" if groups else shape.engine


def buckets_of(shape):
    number = shape.option("bucket")
    if number == "-1":
        return "moving" if shape.keys_may_move else "dynamic"
    return "postpone" if number == "-2" else "fixed"


def test_every_cell_is_drawn():
    cells = collections.Counter(
        (engine_of(shape), shape.option("changelog-producer") or "none", buckets_of(shape))
        for shape in shapes()
        if shape.keys
    )
    valid = {
        (engine, producer, buckets)
        for engine in engine_draws.ENGINES
        for producer in engine_draws.PRODUCERS
        for buckets in KINDS_OF_BUCKETS
        if engine != "first-row" or producer in ("none", "lookup")
    }
    assert len(valid) == 72
    assert set(cells) == valid
    assert min(cells.values()) >= 5


def test_every_option_and_function_is_drawn_often():
    drawn = collections.Counter(
        found
        for shape in shapes()
        for key, value in shape.options
        for found in (key, f"{key}={value}")
    )
    seldom = {option: drawn[option] for option in OPTIONS_DRAWN if drawn[option] < 50}
    assert not seldom
    named = collections.Counter(
        value
        for shape in shapes()
        for key, value in shape.options
        if key.endswith(".aggregate-function")
    )
    known = {*more_draws.FUNCTIONS.values(), *engine_draws.FIRST}
    for by_column in (engine_draws.ANY_ORDER, engine_draws.IN_ORDER):
        known.update(*by_column.values())
    assert {name for name in known if named[name] < 20} == set()
    settings = ("distinct", "list-agg-delimiter", "nested-key", "count-limit", "ignore-retract")
    assert [s for s in settings if not any(key.endswith(s) for key in drawn)] == []


def test_mixed_commits_of_every_engine_retract():
    mixes = collections.Counter(
        (engine_of(shape), shape.rules.deletes) for shape in shapes() if shape.rules.mixes
    )
    for engine in ("partial-update", "partial-update by groups", "aggregation"):
        deletes = {d for e, d in mixes if e == engine}
        assert deletes >= {"remove" if engine != "partial-update by groups" else "retract"}
    assert ("aggregation", "retract") in mixes


def test_odd_seeds_draw_nothing_more():
    for seed, shape in enumerate(shapes()):
        if seed % 2:
            assert shape == world.draw_shape(random.Random(seed))
