from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.store.lsm.lsm_text import KEY_TYPES, data_file, parse_levels

from tidelake.options import Options
from tidelake.store.lsm import CompactionPolicy, Levels, OffPeak, Pick, pick

GOLDEN = Path(__file__).parents[3] / "golden" / "lsm_pick.txt"


def cases() -> list[object]:
    lines = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    blocks = ("\n".join(lines)).split("\npick ")
    found = []
    for number, block in enumerate(blocks[1:]):
        head, _, rest = block.partition("\n")
        levels, _, answer = rest.partition("----\n")
        found.append(
            pytest.param(head.split(), levels.strip(), answer.strip(), id=f"{number}-{head}")
        )
    return found


def answer_of(picked: Pick | None) -> str:
    if picked is None:
        return "nothing"
    found = sorted((file.max_sequence_number for file in picked.files), reverse=True)
    numbers = " ".join(f"#{number}" for number in found)
    rewrite = " rewrite" if picked.rewrites_all else " one by one" if picked.one_by_one else ""
    return f"L{picked.output_level} {'drop' if picked.drop_deletes else 'keep'} {numbers}{rewrite}"


@pytest.mark.parametrize(("head", "levels", "answer"), cases())
def test_golden_picks(head, levels, answer):
    given = dict(word.split("=") for word in head if "=" in word)
    policy = CompactionPolicy(
        runs_trigger=int(given["runs"]),
        size_amplification_percent_max=int(given.get("amplification", 200)),
        size_ratio_percent=int(given.get("ratio", 1)),
        empties_level_0="level0" in head or "level0" in given,
        level_0_runs_min=int(given.get("level0", 1)),
        full_below_bytes=int(given["below"]) if "below" in given else None,
        full_interval_ms=int(given["interval"]) if "interval" in given else None,
        off_peak=off_peak(given["offpeak"]) if "offpeak" in given else None,
        rewrites_all="rewrite" in head,
    )
    parsed = parse_levels(levels, count=int(given["levels"]))
    assert parsed.describe(KEY_TYPES) == levels
    picked = pick(parsed, policy, full="full" in head, now_ms=int(given.get("now", 0)))
    assert answer_of(picked) == answer


def off_peak(text):
    hours, _, ratio = text.partition(":")
    start, _, end = hours.partition("-")
    return OffPeak(int(start), int(end), int(ratio))


def test_every_option_of_the_policy_is_taken_from_the_table():
    given = {
        "num-sorted-run.compaction-trigger": "4",
        "compaction.max-size-amplification-percent": "50",
        "compaction.size-ratio": "7",
        "compaction.total-size-threshold": "3 mb",
        "compaction.optimization-interval": "2 h",
        "compaction.offpeak.start.hour": "2",
        "compaction.offpeak.end.hour": "18",
        "compaction.offpeak-ratio": "20",
        "compaction.force-rewrite-all-files": "true",
        "lookup-compact": "gentle",
    }
    options = Options.parse(given)
    policy = CompactionPolicy(
        runs_trigger=4,
        size_amplification_percent_max=50,
        size_ratio_percent=7,
        full_below_bytes=3 << 20,
        full_interval_ms=7_200_000,
        off_peak=OffPeak(2, 18, 20),
        rewrites_all=True,
    )
    assert CompactionPolicy.of(options) == policy
    assert policy.needs_time
    looks_up = CompactionPolicy.of(options, empties_level_0=True)
    assert looks_up == replace(policy, empties_level_0=True, level_0_runs_min=8)
    more = options.updated({"lookup-compact.max-interval": "30"})
    assert CompactionPolicy.of(more, empties_level_0=True).level_0_runs_min == 30
    less = options.updated({"lookup-compact.max-interval": "2"})
    assert CompactionPolicy.of(less, empties_level_0=True).level_0_runs_min == 4
    plain = Options.parse({"compaction.force-up-level-0": "true"})
    assert CompactionPolicy.of(plain) == CompactionPolicy(empties_level_0=True)
    assert not CompactionPolicy().needs_time


@pytest.mark.parametrize("hours", [(-1, 5), (5, -1), (5, 5)])
def test_there_are_off_peak_hours_only_between_two_hours(hours):
    keys = ("compaction.offpeak.start.hour", "compaction.offpeak.end.hour")
    given = dict(zip(keys, map(str, hours), strict=True)) | {"compaction.offpeak-ratio": "20"}
    assert CompactionPolicy.of(Options.parse(given)).off_peak is None


BUCKETS = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5]), st.integers(1, 10_000)),
    min_size=1,
    max_size=14,
)


@given(BUCKETS, st.integers(1, 6), st.booleans())
def test_a_pick_is_the_newest_runs_and_its_level_holds_nothing_else(shape, trigger, full):
    files = [
        data_file(f"k{i:03}", f"k{i:03}", number=i, size=size, level=level)
        for i, (level, size) in enumerate(shape)
    ]
    levels = Levels.of(files, count=6)
    picked = pick(levels, CompactionPolicy(runs_trigger=trigger), full=full)
    if picked is None:
        assert full or len(levels.runs) <= trigger
        return
    runs = levels.runs
    taken = [run for run in runs if set(run.files) <= set(picked.files)]
    assert taken == list(runs[: len(taken)])
    assert sum(len(run.files) for run in taken) == len(picked.files)
    left = [file for run in runs[len(taken) :] for file in run.files]
    assert all(file.level > picked.output_level for file in left)
    assert picked.output_level > 0
    assert picked.drop_deletes == (not left)


@given(BUCKETS, st.integers(1, 6))
def test_more_runs_than_the_trigger_always_become_fewer(shape, trigger):
    files = [
        data_file(f"k{i:03}", f"k{i:03}", number=i, size=size, level=level)
        for i, (level, size) in enumerate(shape)
    ]
    levels = Levels.of(files, count=6)
    while (count := len(levels.runs)) > trigger:
        picked = pick(levels, CompactionPolicy(runs_trigger=trigger))
        assert picked is not None
        merged = data_file("k", "l", number=1000 - count, size=5, level=picked.output_level)
        levels = levels.updated(picked.files, [merged])
        assert len(levels.runs) < count
