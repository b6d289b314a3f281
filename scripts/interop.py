"""Read our tables with the real Paimon and theirs with ours; print the matrix.

Usage: python scripts/interop.py [--small] [--cases NAME ...] [--readers java-1.3 core-2.1 ...]

Each reader is made ready on first use (Maven, pip) under .venv-oracle/. Exit code 1 if anything
differs; a reader that cannot be had on this machine is shown as absent, with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from interop import cases, matrix, readers  # noqa: E402  (the path comes first)
from interop.fuzz.made import judged, made_by_java  # noqa: E402
from interop.peer import JavaPeer  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

STYLES = {"equal": "green", "differs": "bold red", "cannot": "yellow", "absent": "dim"}


def show(title: str, verdicts: list[matrix.Verdict], console: Console) -> None:
    """Print verdicts as case x reader, and every difference in full."""
    names = list(dict.fromkeys(v.reader for v in verdicts))
    table = Table("table", *names, title=title, title_justify="left")
    rows: dict[str, dict[str, matrix.Verdict]] = {}
    for verdict in verdicts:
        rows.setdefault(verdict.case, {})[verdict.reader] = verdict
    for case, by_reader in rows.items():
        shown = []
        for name in names:
            verdict = by_reader.get(name)
            if verdict is None:
                shown.append("")
                continue
            style = STYLES[verdict.word]
            more = verdict.more if verdict.word == "equal" else verdict.more[:60]
            shown.append(f"[{style}]{verdict.word}[/{style}] {more}".replace("[0", "\\[0"))
        table.add_row(case, *shown)
    console.print(table)
    for verdict in verdicts:
        if verdict.word == "differs":
            console.print(f"{verdict.case}, {verdict.reader}: {verdict.more}", markup=False)


def main() -> int:
    """Run the check; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="the cases of CI")
    parser.add_argument("--cases", nargs="+", help="only our tables of these names")
    parser.add_argument("--readers", nargs="+", choices=list(readers.READERS))
    arguments = parser.parse_args()
    console = Console(width=int(os.environ.get("COLUMNS", "160")))
    chosen = cases.small_cases() if arguments.small else cases.all_cases()
    if arguments.cases:
        chosen = [case for case in chosen if case.name in arguments.cases]
    ready = list(matrix.prepared(arguments.readers or list(readers.READERS)))
    absent = [r for r in ready if isinstance(r, matrix.Verdict)]
    present = [r for r in ready if isinstance(r, readers.Reader)]
    with tempfile.TemporaryDirectory(prefix="tidelake-interop-") as scratch:
        place = Path(scratch)
        with console.status("making tables") as status:
            ours = matrix.read_by_others(place / "ours", chosen, present, status.update)
        show("Tables written by Tidelake, and read by", [*ours, *absent], console)
        theirs: list[matrix.Verdict] = []
        if arguments.cases:
            pass
        elif (readers.ORACLE / "fixtures").is_dir():
            theirs = matrix.fixtures_read_by_us(readers.ORACLE, place / "theirs")
            show("Tables written by Java Paimon 2.1, and read by", theirs, console)
        else:
            console.print("The oracle's fixture tables are not beside this checkout: left out.")
    made = []
    core = next((r for r in present if r.name == "java-1.3"), None)
    if core is not None and not arguments.cases:
        tables = made_by_java()[:: 16 if arguments.small else 1]
        with JavaPeer(core) as peer, console.status("Java makes tables") as status:
            for table in tables:
                status.update(table.name)
                with tempfile.TemporaryDirectory(prefix="tidelake-made-") as warehouse:
                    made.append(judged(table, peer, Path(warehouse)))
        show("Tables made by Java Paimon 1.3.1 just now, and read by", made, console)
    wrong = sum(v.word == "differs" for v in [*ours, *theirs, *made])
    console.print(f"{len(ours) + len(theirs) + len(made)} compared, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
