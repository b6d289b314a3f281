"""Run every check at its full size, one after the other, and print one table.

Usage: python scripts/proof.py [PIECE ...] [--again]

Each piece is a command of its own. A failure does not end the run: the pieces after it run too, and
the exit code is 1 at last. What a piece gave is kept in out/proof.json with the commit it ran at;
pieces that were kept for this commit without a violation are not run again, so a run that was cut
off goes on where it was. --again runs them all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "out" / "proof.json"
LOGS = ROOT / "out" / "proof"
PYTEST = ("-m", "pytest", "--quiet", "--numprocesses", "2")
RELIABILITY = "scripts/reliability.py"
SIZE = "TIDELAKE_SIZE"
MARK = re.compile(r"pytest\.mark\.(?:share\(|full\b)|^@given\(", re.MULTILINE)
LEFT_OUT = {"check", "size", "seconds", "cpu_seconds", "violations", "caught", "kinds"}
"""Figures of a check that the table has no room for."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A command that checks something at full size."""

    arguments: tuple[str, ...]
    """Of this Python."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, log: Path) -> tuple[int, str]:
        """Its exit code, and all that it said; the log has it while it runs."""
        log.parent.mkdir(parents=True, exist_ok=True)
        given = {key: value for key, value in os.environ.items() if key != "CI"}
        path = os.pathsep.join(
            [str(ROOT / "src"), str(ROOT / "tests"), given.get("PYTHONPATH", "")]
        )
        with log.open("w", encoding="utf-8") as out:
            done = subprocess.run(
                [sys.executable, *self.arguments],
                cwd=ROOT,
                env={**given, "PYTHONPATH": path, SIZE: "full", **self.environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return done.returncode, log.read_text(encoding="utf-8", errors="replace")


def _tests(*places: str) -> Piece:
    return Piece((*PYTEST, "--dist", "worksteal", *places))


def marked() -> list[str]:
    """Modules of which a landing runs a share, by marks (`tests/conftest.py`) or of examples."""
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules}
    return [name for name, text in texts.items() if MARK.search(text)]


PIECES: dict[str, Piece] = {
    "faults": Piece((RELIABILITY, "faults", "--size", "full")),
    "damage": Piece((RELIABILITY, "damage", "--size", "full")),
    "sim": Piece((RELIABILITY, "sim", "--size", "full")),
    "concurrent": Piece((RELIABILITY, "concurrent", "--size", "full")),
    "wire": Piece((RELIABILITY, "wire", "--size", "full")),
    "sim-store": Piece((RELIABILITY, "sim-store", "--size", "full")),
    "late-puts": Piece((RELIABILITY, "late-puts", "--size", "full")),
    "commit-faults": _tests("tests/unit/commit/test_commit_faults.py"),
    "late-requests": _tests("tests/sim/test_late_puts.py", "-k", "http"),
    "race-store": Piece((RELIABILITY, "race-store", "--size", "full")),
    "kill-store": Piece((RELIABILITY, "kill-store", "--size", "full")),
    "race": Piece((RELIABILITY, "race", "--size", "full")),
    "kill": Piece((RELIABILITY, "kill", "--size", "full")),
    "fork": Piece((RELIABILITY, "fork", "--size", "full")),
    "abort": Piece((RELIABILITY, "abort", "--size", "full")),
    "soak": Piece((RELIABILITY, "soak", "--size", "full")),
    "orphans": _tests("tests/sim/test_orphans.py"),
    "upkeep": _tests("tests/sim/test_upkeep.py"),
    "soak-maintained": Piece((RELIABILITY, "soak-maintained", "--size", "full")),
    "kept-small": Piece((RELIABILITY, "kept-small", "--size", "full")),
    "soak-store": Piece((RELIABILITY, "soak-store", "--size", "full")),
    "service": Piece((RELIABILITY, "service", "--size", "full")),
    "service-spark": Piece((RELIABILITY, "service-spark", "--size", "full")),
    "lookup-checks": _tests("tests/sim/test_lookup_checks.py"),
    "service-go": _tests("tests/unit/service/client/test_go_client.py"),
    "service-strangers": _tests("tests/unit/service/executor/test_hostile.py"),
    "masks": Piece((RELIABILITY, "masks", "--size", "full")),
    "masks-spark": _tests("tests/spark/read/test_masks.py", "-k", "drawn"),
    "mutants": Piece((RELIABILITY, "mutants", "--size", "full")),
    "machine": _tests("tests/model/test_state_machine.py"),
    "grid": _tests("tests/unit/table/write/test_engine_grid.py"),
    "histories": _tests(
        "tests/unit/table/changelog/test_lookup_changelog.py",
        "tests/unit/table/read/test_same_answer.py",
        "tests/unit/table/write/test_deletion_vectors.py",
        "tests/unit/table/write/test_first_row.py",
    ),
    "interleavings": _tests("tests/sim/test_faults.py", "-k", "in_between or directed"),
    "memory": Piece(("scripts/memory.py", "--size", "full")),
    "memory-small": _tests("tests/memory"),
    "stores": Piece(("-m", "pytest", "--quiet", "tests/stores"), {"TIDELAKE_STORES": "1"}),
    "interop": Piece(("scripts/interop.py",)),
    "sql-beside-java": _tests("tests/interop/test_sql_beside_java.py"),
    "interop-fuzz": Piece(("scripts/interop_fuzz.py",)),
    "java-versions": _tests(
        "tests/interop/test_automatic_tags.py",
        "tests/interop/test_branches.py",
        "tests/interop/test_clustering.py",
        "tests/interop/test_expiry.py",
        "tests/interop/test_orphans.py",
        "tests/interop/test_partition_expiry.py",
        "tests/interop/test_record_expiry.py",
        "tests/interop/test_row_tracking.py",
        "tests/interop/test_versions.py",
    ),
    "lookup": _tests(
        "tests/unit/table/query/test_same_as_read.py",
        "tests/unit/service/client/test_same_as_read.py",
    ),
    "lookup-java": _tests("tests/interop/test_lookups_beside_java.py"),
    "moments": _tests("tests/sim/test_moments.py"),
    "frames": _tests("tests/unit/table/conversion/test_round_trips.py"),
    "demo-sql": _tests("tests/spark/test_demo_sql.py"),
    "merges": _tests("tests/spark/rowlevel/test_merge.py"),
    "pipelines": _tests("tests/unit/table/stream/test_pipelines.py"),
    "pipelines-spark": _tests("tests/spark/test_pipelines.py"),
    "cdc": _tests(
        "tests/sim/test_cdc_servers.py",
        "tests/unit/cdc/job/test_drawn.py",
        "tests/unit/cdc/kafka/test_drawn.py",
        "tests/unit/cdc/kafka/test_broker_that_dies.py",
        "tests/unit/cdc/postgres",
    ),
    "cdc-messages": _tests("tests/interop/test_cdc_messages.py"),
    "filtered-changes": _tests(
        "tests/unit/table/changelog/test_filtered_changes.py",
        "tests/spark/read/test_filtered_changes.py",
    ),
    "connect": _tests("tests/spark/test_connect.py"),
    "dbt": _tests("tests/spark/test_dbt.py"),
    "executors": _tests("tests/spark/test_local_cluster.py"),
    "engines-spark": _tests("tests/spark/test_engines_on_executors.py"),
    "own-jvm": _tests("tests/spark/sessions/test_session.py"),
    "statements": _tests("tests/spark/test_statements.py", "tests/spark/catalog/test_old_times.py"),
    "dml": _tests("tests/spark/rowlevel/test_dml_doors.py"),
    "soak-service": Piece(("-m", "proving.service_soak")),
    "soak-streams": Piece(("-m", "proving.stream_soak")),
    "streams": _tests(
        "tests/spark/streams/write/test_stream_kills.py",
        "tests/unit/table/stream",
        "tests/sim/test_stream_histories.py",
    ),
    "shares": Piece((*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder", *marked())),
    "ui": Piece(("scripts/ui_check.py",)),
}
"""In this order: what fails soonest stands first."""


def ran(said: str) -> str:
    """What a piece tried, in its own figures."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith('{"check"'):
            figures = {k: v for k, v in json.loads(line).items() if k not in LEFT_OUT}
            return ", ".join(f"{key} {value}" for key, value in figures.items())
        if re.search(r"\d+ (passed|failed|error)", line):
            return re.sub(r" in [\d.]+s.*", "", line.strip("= "))
        if re.search(r"\d+ (compared|seeds)", line):
            return line
    works = sum(" MiB beside " in line for line in lines)
    return f"{works} pieces of work" if works else (lines[-1][:70] if lines else "nothing")


def violations(code: int, said: str) -> int:
    """How many promises a piece saw broken; one where it failed and says no number."""
    found = [int(n) for n in re.findall(r"(\d+) (?:failed|errors?\b|differ\b)", said)]
    found += [int(n) for n in re.findall(r"'failed': (\d+)", said)]
    return max(1, sum(found[-2:])) if code else 0


def kept() -> dict[str, dict[str, object]]:
    """What earlier runs left, by piece."""
    return dict(json.loads(KEPT.read_text())) if KEPT.is_file() else {}


def commit() -> str:
    """The commit that is checked out; with a mark where files differ from it."""
    named = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    said = subprocess.run(named, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


def table(results: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The lines of the table, in the order of the pieces."""
    lines = [f"{'check':15}{'violations':>10}{'minutes':>9}  ran"]
    for name in (name for name in PIECES if name in results):
        found = results[name]
        lines.append(f"{name:15}{found['violations']:>10}{found['minutes']:>9}  {found['ran']}")
    minutes = sum(float(str(found["minutes"])) for found in results.values())
    broken = sum(int(str(found["violations"])) for found in results.values())
    return [
        *lines,
        f"{'all':15}{broken:>10}{minutes:>9.1f}  {len(results)} of {len(PIECES)} checks",
    ]


def prove(names: Sequence[str], *, again: bool) -> int:
    """Run pieces and print the table of what is known of this commit; the exit code."""
    now, results = commit(), kept()
    for name in names:
        before = results.get(name, {})
        is_kept = before.get("commit") == now and not now.endswith("-dirty")
        if is_kept and before.get("violations") == 0 and not again:
            print(f"{name}: kept, 0 violations", flush=True)
            continue
        print(f"{name} runs; its words are in {(LOGS / name).relative_to(ROOT)}", flush=True)
        began = time.monotonic()
        code, said = PIECES[name].run(LOGS / name)
        results[name] = {
            "commit": now,
            "ran": ran(said),
            "violations": violations(code, said),
            "minutes": round((time.monotonic() - began) / 60, 1),
        }
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(results, indent=2))
        if code:
            print("\n".join(said.splitlines()[-30:]), flush=True)
    of_now = {name: found for name, found in results.items() if found.get("commit") == now}
    print("\n".join(table(of_now)), flush=True)
    return 1 if any(found["violations"] for found in of_now.values()) else 0


def main() -> int:
    """Run what the command line names, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=", ".join(PIECES))
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.pieces if name not in PIECES]
    if unknown:
        parser.error(f"no check is called {unknown[0]!r}: {', '.join(PIECES)}")
    return prove(arguments.pieces or list(PIECES), again=arguments.again)


if __name__ == "__main__":
    sys.exit(main())
