"""The simulator of compaction policies: it loses nothing, and its figures can be worked out."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path

import pytest
from proving.lsm_simulation import Bucket, Workload, commits_of, options_of, simulate

from tidelake.errors import InvalidInputError

SCRIPT = Path(__file__).parents[4] / "scripts" / "sim_compaction.py"
POLICIES = [
    {},
    {"num-sorted-run.compaction-trigger": "2", "num-levels": "3"},
    {"compaction.force-up-level-0": "true"},
    {"compaction.max-size-amplification-percent": "10", "target-file-size": "7 kb"},
    {"write-only": "true"},
]


def last(given, workload):
    return list(simulate(options_of(given), workload))[-1]


@pytest.mark.parametrize("given", POLICIES, ids=str)
@pytest.mark.parametrize("rising", [False, True])
def test_the_rows_that_are_left_are_those_that_were_written_and_not_deleted(given, rising):
    workload = Workload(commits=40, rows=300, updates=0.4, deletes=0.2, rising=rising)
    bucket = Bucket(options_of(given), workload.row_bytes)
    live: set[int] = set()
    for number, (rows, claimed) in enumerate(commits_of(workload), 1):
        bucket.commit(number, rows)
        live -= set(rows.keys[rows.deleted].tolist())
        live |= set(rows.keys[~rows.deleted].tolist())
        assert set(claimed.tolist()) == live
    assert set(bucket.live_keys().tolist()) == live


def test_nothing_is_written_twice_without_compaction():
    workload = Workload(commits=30, rows=100, updates=1.0)
    state = last({"write-only": "true"}, workload)
    assert state.write_amplification == 1.0
    assert state.read_amplification == 30
    assert state.space_amplification == 30.0  # a hundred keys, written thirty times
    assert state.levels == "30xL0"


def test_everything_is_written_again_where_every_commit_is_compacted_whole():
    workload = Workload(commits=10, rows=100, updates=0.0)
    state = last({"write-only": "true", "full-compaction.delta-commits": "1"}, workload)
    # commit n of new keys spread among the others rewrites n x 100 rows; the first is lifted
    assert state.written_bytes == 100 * 100 * (10 + sum(range(2, 11)))
    assert state.space_amplification == 1.0
    assert (state.levels, state.compactions) == ("L5", 10)


def test_keys_that_rise_are_lifted_and_not_written_again():
    files = {"target-file-size": "10 kb", "num-sorted-run.compaction-trigger": "2"}
    workload = Workload(commits=30, rows=100, updates=0.0, rising=True)
    assert last(files, workload).write_amplification == 1.0
    spread = Workload(commits=30, rows=100, updates=0.0)
    assert last(files, spread).write_amplification > 1.5


def test_less_space_costs_more_writing():
    workload = Workload(commits=100, rows=200, updates=0.9)
    less, more = (
        last({"compaction.max-size-amplification-percent": percent}, workload)
        for percent in ("10", "400")
    )
    assert less.write_amplification > more.write_amplification
    assert less.space_amplification < more.space_amplification


def test_there_are_never_more_runs_than_writers_wait_for():
    given = {"num-sorted-run.compaction-trigger": "4", "num-sorted-run.stop-trigger": "4"}
    states = simulate(options_of(given), Workload(commits=80, rows=50, updates=0.2))
    assert max(s.read_amplification for s in states) <= 4


def test_a_seed_gives_the_same_states():
    workload = Workload(commits=30, rows=100, updates=0.5, seed=3)
    assert list(simulate(options_of({}), workload)) == list(simulate(options_of({}), workload))


def test_an_option_that_no_table_takes_is_refused():
    with pytest.raises(InvalidInputError, match=r"compaction\.size-ratio"):
        options_of({"compaction.size-rato": "5"})


def run(*arguments):
    runpy.run_path(str(SCRIPT))["main"](list(arguments))


def test_the_script_prints_the_policies_side_by_side(capsys):
    run(
        "--commits=12",
        "--rows=50",
        "--lines=2",
        "--policy=a",
        "--policy=b:num-sorted-run.compaction-trigger=2,write-only=true",
    )
    out = capsys.readouterr().out
    assert "12 commits of 50 rows, 50% updates" in out
    assert "12xL0" in out
    assert "a: levels" in out
    assert "b: levels" in out


def test_the_page_shows_what_the_script_prints(capsys):
    page = (SCRIPT.parents[1] / "docs" / "compaction.md").read_text(encoding="utf-8")
    _, _, block = page.partition("$ python scripts/sim_compaction.py ")
    lines = block.partition("```")[0].splitlines()
    command = "".join(line.removesuffix("\\") for line in lines[:3])
    run(*shlex.split(command))
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == lines[3:]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--policy=a:write-onyl=true", "write-only"),
        ("--policy=a:write-only", "has no value"),
        ("--updates=1.5", "shares"),
        ("--commits=0", "from 1 on"),
    ],
)
def test_wrong_arguments_are_refused(argument, words, capsys):
    with pytest.raises(SystemExit):
        run(argument)
    assert words in capsys.readouterr().err
