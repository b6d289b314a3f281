"""Run a reliability check at a chosen size and print its figures.

Usage: python scripts/reliability.py
       {faults,damage,sim,concurrent,wire,sim-store,late-puts,race-store,kill-store,race,kill,fork,
        abort,soak,soak-store,soak-maintained,kept-small,service,service-spark,masks,mutants,all}
       [--size small|full] [--seed N] [--from N] [--minutes M]

`sim` and `concurrent` take one seed with --seed (an exact replay) or a range by size, which begins
at --from (to go on where an earlier run stopped: seeds know nothing of each other) and from which
--minutes cuts off what is not done then; so does `masks`. `soak` runs for --minutes if they are
given. Figures are printed as one JSON line per check, so that they can be put into
docs/internals/proof.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
)

from proving import (  # noqa: E402  (the path comes first)
    aborts,
    concurrent,
    damage,
    episode,
    faults,
    forks,
    kept_small,
    kill,
    late_puts,
    maintained_soak,
    mask_tables,
    mutants,
    race,
    service_kills,
    soak,
    wire,
)
from proving.lineage import Broken  # noqa: E402
from proving.rooted import RootedFileIO  # noqa: E402
from proving.scenarios import scenarios  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from servers.s3 import S3Server  # noqa: E402
from sizes import SIZES as NUMBERS  # noqa: E402

from tidelake.testing import FaultMode  # noqa: E402

CONSOLE = Console(stderr=True)
SOUND = {"violations": 0}
DAMAGE_STEPS = {"small": 11, "full": 1}
MAINTAINED_S = {"small": 20, "full": 1_800}
KEPT_SMALL_S = {"small": 20, "full": 3_600}
SETTLED_S = {"small": 0, "full": 12}
SIZES = {
    name: {
        "seeds": numbers.model_seeds,
        "steps": numbers.model_steps,
        "commits": numbers.race_commits,
        "store_commits": numbers.store_race_commits,
        "store_seeds": numbers.store_seeds,
        "late_puts": numbers.late_puts,
        "meetings": numbers.meetings,
        "soak_s": numbers.soak_s,
        "kills": numbers.kills,
        "forks": numbers.forks,
        "aborts": numbers.aborts,
        "service_steps": numbers.service_steps,
        "mask_tables": numbers.mask_tables,
        "settled_s": SETTLED_S[name],
        "name": name,
        "damage_step": DAMAGE_STEPS[name],
    }
    for name, numbers in NUMBERS.items()
}


def check_faults(_: dict, __: int | None) -> dict:
    """Every call of every scenario in every mode, in memory and on local files."""
    runs = list(faults.all_faults())
    late = [run for run in runs if run[2] is FaultMode.LATE]
    for scenario, call, mode in track(runs, description="in memory", console=CONSOLE):
        faults.run_fault(scenario, call, mode)
    for scenario, call, mode in track(late, description="by each delay", console=CONSOLE):
        for late_calls in faults.LATE_CALLS:
            faults.run_fault(scenario, call, mode, late_calls=late_calls)
    for scenario, call, mode in track(runs, description="local files", console=CONSOLE):
        with tempfile.TemporaryDirectory() as place:
            faults.run_fault(scenario, call, mode, RootedFileIO(Path(place)))
    count = 2 * len(runs) + len(late) * len(faults.LATE_CALLS)
    return {"scenarios": len(scenarios()), "runs": count, "violations": 0}


def _one_seed(job: tuple[int, int]) -> str | None:
    try:
        episode.run_seed(*job)
    except episode.ModelMismatch as error:
        return str(error)
    return None


def check_sim(size: dict, seed: int | None) -> dict:
    """Seeded episodes against the dict; failing seeds are named and replay exactly."""
    if seed is not None:
        episode.run_seed(seed, size["steps"])
        return {"seeds": [seed], "steps": size["steps"], "violations": 0}
    seeds = _seeds(size, "seeds", _one_seed, size["steps"])
    return {"seeds": f"{seeds[0]} to {seeds[-1]}", "steps": len(seeds) * size["steps"]} | SOUND


def check_concurrent(size: dict, seed: int | None) -> dict:
    """Seeded runs of processes that meet on one table; failing seeds replay exactly."""
    if seed is not None:
        concurrent.run_seed(seed)
        return {"seeds": [seed], **SOUND}
    seeds = _seeds(size, "meetings", _one_meeting, concurrent.ROUNDS)
    return {"seeds": f"{seeds[0]} to {seeds[-1]}", **SOUND}


def _one_meeting(job: tuple[int, int]) -> str | None:
    try:
        concurrent.run_seed(*job)
    except Broken as error:
        return str(error)
    return None


def _seeds(size: dict, count: str, run: Callable, length: int) -> range:
    """Run seeds on all cores; those that ran, or AssertionError with all that failed."""
    first = size["from"]
    jobs = [(seed, length) for seed in range(first, size[count])]
    if not jobs:
        raise SystemExit(f"--from {first} leaves no seed: this size ends before {size[count]}")
    until = time.monotonic() + 60 * (size["minutes"] or 24 * 60)
    violations: list[str] = []
    done = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        outcomes = pool.imap(run, jobs, chunksize=4)
        for outcome in track(outcomes, total=len(jobs), description="seeds", console=CONSOLE):
            done += 1
            if outcome is not None:
                CONSOLE.print(outcome, markup=False)
                violations.append(outcome)
            if time.monotonic() > until:
                break
    if violations:
        raise AssertionError("\n".join(violations))
    return range(first, first + done)


def check_masks(size: dict, seed: int | None) -> dict:
    """Drawn tables whose rows by masks are those of the merge, also while another process works."""
    seeds = list(range(size["from"], size["mask_tables"])) if seed is None else [seed]
    until = time.perf_counter() + 60 * size["minutes"] if size["minutes"] else None
    done = masked = merged = rows = 0
    for each in track(seeds, description="tables by masks", console=CONSOLE):
        reader = mask_tables.run_seed(each)
        done, masked = done + 1, masked + reader.masked_count
        merged, rows = merged + reader.merged_count, rows + reader.rows_merged
        if until is not None and time.perf_counter() > until:
            break
    figures = {"tables": done, "by_masks": masked, "by_merges": merged, "rows_merged_apart": rows}
    return {**figures, **SOUND}


def check_wire(_: dict, __: int | None) -> dict:
    """Every changing request of some scenarios fails in every way on its way to an S3."""
    with S3Server() as s3:
        runs = list(wire.all_faults(s3))
        for run in track(runs, description="on the wire", console=CONSOLE):
            wire.run_fault(run[0], s3, *run[1:])
    return {"scenarios": len(wire.NAMES), "runs": len(runs), "violations": 0}


def check_sim_store(size: dict, seed: int | None) -> dict:
    """Seeded episodes against the dict, on a table in an object store."""
    seeds = range(size["from"], size["store_seeds"]) if seed is None else [seed]
    with S3Server() as s3:
        for each in track(seeds, description="seeds in a store", console=CONSOLE):
            episode.run_seed(each, size["steps"], fileio=wire.new_bucket(s3))
    return {"seeds": len(seeds), "steps": len(seeds) * size["steps"], **SOUND}


def _one_schedule(job: tuple[int, int]) -> str | None:
    try:
        late_puts.check_schedule(job[0])
    except AssertionError as error:
        return str(error)
    return None


def check_late_puts(size: dict, seed: int | None) -> dict:
    """Drawn schedules of requests that arrive late; failing ones are named and replay exactly."""
    if seed is not None:
        late_puts.check_schedule(seed)
        return {"schedules": [seed], **SOUND}
    seeds = _seeds(size, "late_puts", _one_schedule, late_puts.STEPS)
    return {"schedules": f"{seeds[0]} to {seeds[-1]}", **SOUND}


def check_race_store(size: dict, _: int | None) -> dict:
    """Four processes commit to one table in an object store at once."""
    with tempfile.TemporaryDirectory() as directory, S3Server() as s3:
        s3.keeps_requests = False
        return race.race(
            Path(directory),
            processes=4,
            commits=size["store_commits"],
            options={"bucket": "1", "num-sorted-run.compaction-trigger": "20"},
            warehouse="s3://lake/house",
            storage=s3.storage(),
        )


def check_kill_store(size: dict, seed: int | None) -> dict:
    """A writer to an object store is killed at random moments."""
    with tempfile.TemporaryDirectory() as directory, S3Server() as s3:
        return kill.kills(
            Path(directory),
            count=size["kills"],
            seed=seed or 1,
            warehouse="s3://lake/house",
            storage=s3.storage(),
        )


def check_race(size: dict, _: int | None) -> dict:
    """Four processes commit to one table at once."""
    with tempfile.TemporaryDirectory() as directory:
        return race.race(
            Path(directory), processes=4, commits=size["commits"], options={"bucket": "4"}
        )


def check_kill(size: dict, seed: int | None) -> dict:
    """A writer is killed at random moments."""
    with tempfile.TemporaryDirectory() as directory:
        return kill.kills(Path(directory), count=size["kills"], seed=seed or 1)


def check_fork(size: dict, seed: int | None) -> dict:
    """A process forks while its threads read and write."""
    with tempfile.TemporaryDirectory() as directory:
        return forks.forks(Path(directory), count=size["forks"], seed=seed or 1)


def check_abort(size: dict, seed: int | None) -> dict:
    """Writes, compactions and updates are interrupted at random moments."""
    with tempfile.TemporaryDirectory() as directory:
        return aborts.aborts(Path(directory), count=size["aborts"], seed=seed or 1)


def check_soak(size: dict, seed: int | None) -> dict:
    """Six processes do everything to a few tables, and a reader of the files watches."""
    seconds = 60 * size["minutes"] if size["minutes"] else size["soak_s"]
    with tempfile.TemporaryDirectory() as directory:
        return soak.soak(Path(directory), seconds=seconds, seed=seed or 1)


def check_soak_store(size: dict, seed: int | None) -> dict:
    """Six processes do everything to a few tables in an object store."""
    seconds = 60 * size["minutes"] if size["minutes"] else size["soak_s"] / 2
    with tempfile.TemporaryDirectory() as directory, S3Server() as s3:
        s3.keeps_requests = False
        return soak.soak(Path(directory), seconds=seconds, seed=seed or 1, s3=s3)


def check_soak_maintained(size: dict, seed: int | None) -> dict:
    """Four writers, two readers and two maintenance jobs; of each table one snapshot is kept."""
    seconds = 60 * size["minutes"] if size["minutes"] else MAINTAINED_S[size["name"]]
    with tempfile.TemporaryDirectory() as directory:
        return maintained_soak.soak(Path(directory), seconds=seconds, seed=seed or 1)


def check_kept_small(size: dict, seed: int | None) -> dict:
    """Twenty tables that nobody compacts but `tidelake compact --watch`, for an hour."""
    seconds = 60 * size["minutes"] if size["minutes"] else KEPT_SMALL_S[size["name"]]
    with tempfile.TemporaryDirectory() as directory:
        return kept_small.kept_small(Path(directory), seconds=seconds, seed=seed or 1)


def check_service(size: dict, seed: int | None) -> dict:
    """A query service of local processes is killed piece by piece while 64 clients ask."""
    return _service_kills(size, seed, on="local", share=1)


def check_service_spark(size: dict, seed: int | None) -> dict:
    """One on Spark, whose driver is killed too; fewer steps, as a driver takes long to start."""
    return _service_kills(size, seed, on="spark", share=4)


def _service_kills(size: dict, seed: int | None, *, on: str, share: int) -> dict:
    seed = seed or 1
    steps = service_kills.steps_of(size["service_steps"], seed)
    with tempfile.TemporaryDirectory() as directory:
        return service_kills.service_kills(
            Path(directory),
            steps[: max(5, len(steps) // share)],
            on=on,
            seed=seed,
            settled_s=size["settled_s"],
        )


def check_mutants(_: dict, __: int | None) -> dict:
    """Every planted bug must be caught."""
    caught = {}
    for mutant in mutants.MUTANTS:
        by = caught[mutant.name] = mutants.hunt(mutant)
        CONSOLE.print(f"{mutant.name:45} {by or '[red]not caught'}", soft_wrap=True)
    missed = [name for name, by in caught.items() if by is None]
    if missed:
        raise AssertionError(f"planted bugs that no check caught: {missed}")
    return {"planted": len(caught), "caught": caught}


def check_damage(size: dict, _: int | None) -> dict:
    """Each kind of file damaged at every place, or at every few."""
    worlds = {name: damage.sound_table(name) for name in damage.TABLES}
    outcomes = {}
    for kind in track(damage.CHECKED, description="damage", console=CONSOLE):
        step = size["damage_step"]
        outcomes[str(kind)] = damage.check_kind(worlds[kind.table], kind, step=step)
        CONSOLE.print(f"{kind!s:30} {outcomes[str(kind)]}", soft_wrap=True)
    total = {w: sum(o[w] for o in outcomes.values()) for w in ("truth", "error", "unseen")}
    return {**total, "violations": 0, "kinds": outcomes}


CHECKS = {
    "faults": check_faults,
    "damage": check_damage,
    "sim": check_sim,
    "concurrent": check_concurrent,
    "wire": check_wire,
    "sim-store": check_sim_store,
    "late-puts": check_late_puts,
    "race-store": check_race_store,
    "kill-store": check_kill_store,
    "race": check_race,
    "kill": check_kill,
    "fork": check_fork,
    "abort": check_abort,
    "soak": check_soak,
    "soak-store": check_soak_store,
    "soak-maintained": check_soak_maintained,
    "kept-small": check_kept_small,
    "service": check_service,
    "service-spark": check_service_spark,
    "masks": check_masks,
    "mutants": check_mutants,
}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("check", choices=[*CHECKS, "all"])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--minutes", type=float, default=0)
    arguments = parser.parse_args()
    size = SIZES[arguments.size] | {"minutes": arguments.minutes, "from": arguments.first}
    for name in CHECKS if arguments.check == "all" else [arguments.check]:
        began, cpu = time.perf_counter(), time.process_time()
        figures = CHECKS[name](size, arguments.seed)
        figures |= {
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
        }
        print(json.dumps({"check": name, "size": arguments.size, **figures}))


if __name__ == "__main__":
    main()
