"""Run the benchmarks and print or write their table.

Usage: python bench/run.py [QUESTION ...] [--size small|full|huge] [--spark MINOR] [--write]

Only `scale` has the size huge. With --spark the questions run on another Spark, in an environment
that `make sparks` has made. With --write the figures are kept in bench/figures.json, those of
questions that were not asked as they were, and docs/internals/benchmarks-record.md shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import cdc_copy  # noqa: E402  (the path comes first)
import cdc_decode  # noqa: E402
import cdc_kafka  # noqa: E402
import cdc_lag  # noqa: E402
import change_feeds  # noqa: E402
import clustering  # noqa: E402
import compacting  # noqa: E402
import engines  # noqa: E402
import expiring  # noqa: E402
import first_minutes  # noqa: E402
import health  # noqa: E402
import indexes  # noqa: E402
import kernel  # noqa: E402
import leases  # noqa: E402
import lookup  # noqa: E402
import lookup_join  # noqa: E402
import merging  # noqa: E402
import orphans  # noqa: E402
import pages  # noqa: E402
import peers  # noqa: E402
import pipeline  # noqa: E402
import planning  # noqa: E402
import pyspark  # noqa: E402
import scale  # noqa: E402
import service  # noqa: E402
import service_java  # noqa: E402
import service_tls  # noqa: E402
import sparks  # noqa: E402
import sql  # noqa: E402
import stores  # noqa: E402
import stores_spark  # noqa: E402
import streams  # noqa: E402
import streams_kafka  # noqa: E402
import tpc_peers  # noqa: E402
import tpcds  # noqa: E402
import tpch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tidelake.spark.versions import MINORS, minor_of  # noqa: E402

FIGURES = HERE / "figures.json"
PAGE = HERE.parent / "docs" / "internals" / "benchmarks-record.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
QUESTIONS = {
    "kernel": kernel.lines,
    "engines": engines.lines,
    "indexes": indexes.lines,
    "lookup": lookup.lines,
    "planning": planning.lines,
    "orphans": orphans.lines,
    "expiring": expiring.lines,
    "health": health.lines,
    "pages": pages.lines,
    "leases": leases.lines,
    "compacting": compacting.lines,
    "clustering": clustering.lines,
    "scale": scale.lines,
    "peers": peers.lines,
    "pipeline": pipeline.lines,
    "sparks": sparks.lines,
    "first-minutes": first_minutes.lines,
    "merging": merging.lines,
    "merging-others": merging.other_lines,
    "sql": sql.lines,
    "sql-merge": sql.merge_lines,
    "lookup-join": lookup_join.lines,
    "streams-source": streams.source_lines,
    "streams-changes": streams.change_lines,
    "streams-filters": streams.filter_lines,
    "streams-triggers": streams.trigger_lines,
    "streams-growth": streams.growth_lines,
    "streams-sink": streams.sink_lines,
    "streams-follow": streams.follow_lines,
    "streams-kafka": streams_kafka.lines,
    "cdc-kafka": cdc_kafka.lines,
    "cdc-decode": cdc_decode.lines,
    "cdc-copy": cdc_copy.lines,
    "cdc-lag": cdc_lag.lag_lines,
    "cdc-held": cdc_lag.held_lines,
    "change-feeds": change_feeds.lines,
    "service-single": service.single_lines,
    "service-batch": service.batch_lines,
    "service-lone": service.lone_lines,
    "service-java": service_java.lines,
    "service-tls": service_tls.lines,
    "stores": stores.lines,
    "stores-spark": stores_spark.lines,
    "tpch": tpch.lines,
    "tpch-peers": tpc_peers.tpch_lines,
    "tpcds": tpcds.lines,
    "tpcds-peers": tpc_peers.tpcds_lines,
}
GROUPS = {
    group: [name for name in QUESTIONS if name.startswith(f"{group}-")]
    for group in ("streams", "service", "cdc")
}
"""Questions that have a name together."""
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


def missed(line: kernel.Line) -> bool:
    """Whether a line has a target and its ratio is above it."""
    return bool(line.ratio and line.target.startswith("<=")) and (
        line.ratio.median > float(line.target.removeprefix("<=").partition(",")[0])
    )


def keep(found: dict[str, list[kernel.Line]]) -> None:
    """Write the figures down, and the page anew."""
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for question, lines in found.items():
        rows = [
            {
                "workload": line.workload,
                "what": line.what,
                "against": line.against,
                "ratio": str(line.ratio) if line.ratio else line.note,
                "wall": f"{line.ratio.wall_median:.2f}" if line.ratio else "",
                "target": f"{line.target}, **missed**" if missed(line) else line.target,
            }
            for line in lines
        ]
        kept[question] = {"versions": versions(), "lines": rows}
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
    parts = [
        "",
        "| Workload | What | Against | CPU ratio (spread) | Wall | Target |",
        "|---|---|---|---|---|---|",
    ]
    for question in kept.values():
        parts += [f"| {' | '.join(row.values())} |" for row in question["lines"]]
    parts += ["", *sorted({question["versions"] + "." for question in kept.values()}), ""]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join(parts) + "\n" + END + rest.split(END)[1])


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, *GROUPS, []], default=[])
    parser.add_argument("--size", choices=["small", "full", "huge"], default="small")
    parser.add_argument("--spark", choices=MINORS, help="another version")
    parser.add_argument("--write", action="store_true", help="keep the figures, for the page")
    arguments = parser.parse_args()
    if arguments.size == "huge" and arguments.questions != ["scale"]:
        parser.error("--size huge goes with scale alone")
    if arguments.spark and arguments.spark != minor_of(pyspark.__version__):
        python = str(sparks.python_of(arguments.spark))
        os.execv(python, [python, *sys.argv])
    on = f" on Spark {arguments.spark}" if arguments.spark else ""
    table = Table("workload", "what", "against", "CPU ratio (spread)", "wall", "target")
    found: dict[str, list[kernel.Line]] = {}
    asked = [one for name in arguments.questions for one in GROUPS.get(name, [name])]
    for question in asked or list(QUESTIONS):
        lines = found[question + on] = []
        for asked_line in QUESTIONS[question](arguments.size):
            line = replace(asked_line, workload=asked_line.workload + on)
            lines.append(line)
            wall = f"{line.ratio.wall_median:.2f}" if line.ratio else ""
            shown = str(line.ratio) if line.ratio else line.note
            table.add_row(line.workload, line.what, line.against, shown, wall, line.target)
            print(f"{line.workload} {line.what}: {shown}", flush=True)
        if arguments.write:
            keep(found)
    console = Console(width=160)
    console.print(f"size {arguments.size}; {versions()}")
    console.print(table)


if __name__ == "__main__":
    main()
