"""Run the benchmarks and print or write their table.

Usage: python bench/run.py [kernel] [pipeline] [--size small|full] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import kernel  # noqa: E402  (the path comes first)
import peers  # noqa: E402
import pipeline  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

QUESTIONS = {"kernel": kernel.lines, "peers": peers.lines, "pipeline": pipeline.lines}
PACKAGES = ("tidelake", "pyarrow", "numpy", "pyspark", "fastavro")


def versions() -> str:
    """The machine and the versions, for the head of the table."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return f"Python {platform.python_version()}, {', '.join(found)}, {platform.machine()}, 2 cores"


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, []], default=[])
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--write", type=Path, help="also keep the lines as JSON beside the page")
    arguments = parser.parse_args()
    table = Table("workload", "what", "against", "CPU ratio (spread)", "wall", "target")
    kept = []
    for question in arguments.questions or list(QUESTIONS):
        for line in QUESTIONS[question](arguments.size):
            wall = f"{line.ratio.wall_median:.2f}" if line.ratio else ""
            shown = str(line.ratio) if line.ratio else line.note
            table.add_row(line.workload, line.what, line.against, shown, wall, line.target)
            kept.append([line.workload, line.what, line.against, shown, wall, line.target])
            print(json.dumps(kept[-1]), flush=True)
    console = Console(width=160)
    console.print(f"size {arguments.size}; {versions()}")
    console.print(table)
    if arguments.write:
        arguments.write.write_text(json.dumps({"head": versions(), "lines": kept}, indent=1))


if __name__ == "__main__":
    main()
