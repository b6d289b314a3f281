"""Compare compaction policies over a workload that is made up, without any IO.

Usage: python scripts/sim_compaction.py [--commits N] [--rows N] [--updates SHARE] [--deletes SHARE]
       [--rising] [--row-bytes N] [--seed N] [--lines N] [--policy NAME:OPTION=VALUE,...] ...

A policy is a name and options of a table; without any, a few are compared. The pick policy is the
engine's own. docs/compaction.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from proving.lsm_simulation import (  # noqa: E402  (the path comes first)
    State,
    Workload,
    options_of,
    simulate,
)
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tidelake.errors import TidelakeError  # noqa: E402

POLICIES = (
    "default",
    "fewer runs:num-sorted-run.compaction-trigger=3",
    "more runs:num-sorted-run.compaction-trigger=10",
    "less space:compaction.max-size-amplification-percent=25",
    "job every 20:write-only=true,full-compaction.delta-commits=20",
)


def parsed(text: str) -> tuple[str, dict[str, str]]:
    """``name:option=value,option=value`` as name and options."""
    name, _, rest = text.partition(":")
    pairs = [part.partition("=") for part in rest.split(",") if part]
    for key, equals, _ in pairs:
        if not equals:
            message = f"'{key}' of policy '{name}' has no value: write {key}=..."
            raise argparse.ArgumentTypeError(message)
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def over_time(runs: dict[str, list[State]], lines: int) -> Table:
    """A row for each of some commits: levels, and what they cost so far."""
    table = Table("commit", title="levels, write x, space x after a commit")
    for name in runs:
        table.add_column(f"{name}: levels")
        table.add_column("W", justify="right")
        table.add_column("S", justify="right")
    commits = len(next(iter(runs.values())))
    shown = sorted({max(1, round(commits * (n + 1) / lines)) for n in range(lines)})
    for commit in shown:
        cells = [str(commit)]
        for states in runs.values():
            state = states[commit - 1]
            cells += [
                state.levels,
                f"{state.write_amplification:.1f}",
                f"{state.space_amplification:.2f}",
            ]
        table.add_row(*cells)
    return table


def in_all(runs: dict[str, list[State]]) -> Table:
    """A row for each policy."""
    table = Table(
        "policy",
        "compactions",
        "write x",
        "space x mean",
        "space x max",
        "read runs mean",
        "read runs max",
        title="in all",
    )
    for name, states in runs.items():
        space = [s.space_amplification for s in states]
        reads = [s.read_amplification for s in states]
        table.add_row(
            name,
            str(states[-1].compactions),
            f"{states[-1].write_amplification:.1f}",
            f"{statistics.mean(space):.2f}",
            f"{max(space):.2f}",
            f"{statistics.mean(reads):.1f}",
            str(max(reads)),
        )
    return table


def main(arguments: list[str] | None = None) -> None:
    """Simulate and print."""
    defaults = Workload()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=defaults.commits)
    parser.add_argument("--rows", type=int, default=defaults.rows, help="of each commit")
    parser.add_argument(
        "--updates", type=float, default=defaults.updates, help="share of rows with a known key"
    )
    parser.add_argument(
        "--deletes", type=float, default=defaults.deletes, help="share of rows that delete one"
    )
    parser.add_argument("--rising", action="store_true", help="new keys are larger than all others")
    parser.add_argument("--row-bytes", type=int, default=defaults.row_bytes)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--lines", type=int, default=10, help="commits that are shown")
    parser.add_argument("--policy", action="append", type=parsed, metavar="NAME:OPTION=VALUE,...")
    given = parser.parse_args(arguments)
    if min(given.commits, given.rows, given.row_bytes, given.lines) < 1:
        parser.error("--commits, --rows, --row-bytes and --lines are numbers from 1 on")
    if min(given.updates, given.deletes) < 0 or given.updates + given.deletes > 1:
        parser.error("--updates and --deletes are shares, together not more than 1")
    workload = Workload(
        given.commits,
        given.rows,
        given.updates,
        given.deletes,
        given.rising,
        given.row_bytes,
        given.seed,
    )
    runs: dict[str, list[State]] = {}
    for name, options in given.policy or map(parsed, POLICIES):
        try:
            runs[name] = list(simulate(options_of(options), workload))
        except TidelakeError as error:
            parser.error(str(error))
    console = Console(width=max(100, 12 + 32 * len(runs)))
    console.print(
        f"{workload.commits:,} commits of {workload.rows:,} rows,"
        f" {workload.updates:.0%} updates, {workload.deletes:.0%} deletes,"
        f" new keys {'rise' if workload.rising else 'are spread'}; seed {workload.seed}"
    )
    console.print(over_time(runs, given.lines))
    console.print(in_all(runs))


if __name__ == "__main__":
    main()
