"""Random tables, written and read by Tidelake and by Java Paimon 1.3.1 in one process.

Usage: python scripts/interop_fuzz.py [--seeds 500] [--seed N] [--uncovered] [--keep DIRECTORY]

Each seed draws a table and what the two engines do to it, in turns; then every snapshot and the
system tables are read by both, and judged by a dict. ``--seed N`` replays one seed. A failing one
is made small, printed, and kept as a fixture that the tests run from then on. ``--uncovered`` also
draws what this version may refuse. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from interop.fuzz.both import Outcome, run  # noqa: E402  (the path comes first)
from interop.fuzz.draw import draw  # noqa: E402
from interop.fuzz.program import Program  # noqa: E402
from interop.fuzz.shrink import shrink  # noqa: E402
from interop.peer import JavaPeer  # noqa: E402
from interop.readers import AbsentError, JavaCore  # noqa: E402
from rich.console import Console  # noqa: E402

FIXTURES = ROOT / "tests" / "interop" / "fuzz" / "fixtures"


def tried(program: Program, java: JavaPeer) -> Outcome:
    """The outcome of a program in a warehouse that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="tidelake-fuzz-") as warehouse:
        return run(program, java, Path(warehouse))


def made_small(program: Program, word: str, java: JavaPeer, keep: Path, console: Console) -> None:
    """Shrink a failing program, print it and keep it."""

    def fails(smaller: Program) -> bool:
        failure = tried(smaller, java).failure
        return failure is not None and failure.word == word

    small = shrink(program, fails)
    keep.mkdir(parents=True, exist_ok=True)
    place = keep / f"seed_{program.seed}.json"
    place.write_text(small.to_json(), encoding="utf-8")
    console.print(small.to_json(), markup=False, highlight=False)
    failure = tried(small, java).failure
    console.print(f"{failure}\nkept as {place}", markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    """Run the seeds; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many, from --from on")
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--uncovered", action="store_true")
    parser.add_argument("--keep", type=Path, default=FIXTURES)
    arguments = parser.parse_args()
    console = Console()
    seeds = range(arguments.start, arguments.start + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    java = JavaCore()
    try:
        java.prepare()
    except AbsentError as reason:
        console.print(f"Java Paimon is absent: {reason}")
        return 1
    words: collections.Counter[str] = collections.Counter()
    snapshots = 0
    with JavaPeer(java) as peer, console.status("") as status:
        for seed in seeds:
            status.update(f"seed {seed}: {dict(words)}")
            program = draw(seed, uncovered=arguments.uncovered)
            outcome = tried(program, peer)
            snapshots += outcome.snapshots
            if (seed + 1) % 50 == 0:
                console.print(f"up to seed {seed}: {dict(words)}")
            if outcome.failure is None:
                words["refused" if outcome.refused else "equal"] += 1
                continue
            words["failed"] += 1
            word, detail = outcome.failure.word, outcome.failure.detail
            console.print(f"seed {seed}: {word}: {detail}", markup=False, soft_wrap=True)
            made_small(program, word, peer, arguments.keep, console)
    console.print(f"{len(seeds)} seeds, {snapshots} snapshots read by both: {dict(words)}")
    return 1 if words["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
