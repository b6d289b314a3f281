"""Run by test_dbt.py with the Python of .venv-dbt: examples/dbt, built twice and after changes.

Takes a work folder and how many days of flights come first, and as many later. The second build is
the command ``dbt`` itself, a client of Spark Connect. Prints one JSON object at last: what each
step gave.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import quick_spark
from dbt.cli.main import dbtRunner

import tidelake
import tidelake.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "dbt"
WORK = Path(sys.argv[1])
DAYS = int(sys.argv[2])
WAREHOUSE = str(WORK / "warehouse")
PROJECT = WORK / "project"
CHECKED = ("model", "seats")
IN_ORDER = ("success", "pass")
ODD_SEED = """k,words,day,share
1,O'Hare,2026-01-01,1.5
2,,2026-01-02,
9007199254740993,"a\\b""c%s",,2
"""
SEED_CONFIG = """
seeds:
  - name: odd
    config:
      column_types: {k: bigint, words: string}
      tblproperties: {primary-key: k, bucket: '1'}
"""
ODD_MODEL = """
{{ config(
    materialized='incremental', incremental_strategy='append',
    on_schema_change='sync_all_columns', persist_docs={'relation': true}
) }}
select id, {% if is_incremental() %} id * 3 as thrice {% else %} 1 as gone {% endif %}
from range(2)
"""
VIEW = "{{ config(materialized='view') }} select 1 as one"
LATE = 1000.0
"""Minutes: a delay that no flight of these days had."""


def dbt(*arguments: str) -> list[str]:
    """Run dbt; what failed, one text a node."""
    place = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT)]
    done = dbtRunner().invoke(["--quiet", *arguments, *place])
    if done.exception is not None:
        return [str(done.exception)]
    nodes = getattr(done.result, "results", None) or []
    return [f"{one.node.name}: {one.message}" for one in nodes if one.status not in IN_ORDER]


def dbt_command(url: str, *arguments: str) -> list[str]:
    """The same by the program, whose session is that of a server of Spark Connect."""
    quiet = "ignore::UserWarning:pyspark.sql.connect.conf"
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dbt")), *arguments],
        cwd=PROJECT,
        env=os.environ | {"SPARK_REMOTE": url, "PYTHONWARNINGS": quiet},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    nodes = json.loads((PROJECT / "target" / "run_results.json").read_text())["results"]
    failed = [f"{one['unique_id']}: {one['message']}" for one in nodes]
    failed = [
        said for said, one in zip(failed, nodes, strict=True) if one["status"] not in IN_ORDER
    ]
    noise = [done.stderr] if done.stderr else []
    return failed + noise if done.returncode == 0 else [done.stdout[-3000:], *failed, *noise]


def odd_parts() -> None:
    """Beside the example: a seed of odd values, and a model whose columns come and go."""
    (PROJECT / "seeds" / "odd.csv").write_text(ODD_SEED)
    (PROJECT / "seeds" / "odd.yml").write_text(SEED_CONFIG)
    (PROJECT / "models" / "OddName.sql").write_text(ODD_MODEL)


def rows(name: str) -> list[str]:
    """The rows of a table, sorted, as texts."""
    return sorted(map(repr, tidelake.open(WAREHOUSE).table(name).to_arrow().to_pylist()))


def models() -> list[str]:
    return sorted(path.stem for path in (EXAMPLE / "models").glob("*.sql"))


def tables(schema: str) -> dict[str, list[str]]:
    return {name: rows(f"{schema}.{name}") for name in models()}


class History:
    """SCD 2 in Python: versions of each plane, the last one open while the plane is there."""

    def __init__(self) -> None:
        self.closed: list[list[object]] = []
        self.open: dict[str, list[object]] = {}

    def look(self) -> None:
        """Take in the planes as they are now."""
        planes = tidelake.open(WAREHOUSE).table("raw.planes").to_arrow().to_pylist()
        now = {plane["tailnum"]: [plane[column] for column in CHECKED] for plane in planes}
        for tailnum, version in list(self.open.items()):
            if now.get(tailnum) != version:
                self.closed.append([tailnum, *version, False])
                del self.open[tailnum]
        self.open |= now

    def versions(self) -> list[str]:
        still = [[tailnum, *version, True] for tailnum, version in self.open.items()]
        return sorted(map(repr, self.closed + still))


def versions() -> list[str]:
    """The same of the snapshot that dbt keeps."""
    kept = tidelake.open(WAREHOUSE).table("air.planes_history").to_arrow().to_pylist()
    return sorted(
        repr([row["tailnum"], *(row[column] for column in CHECKED), row["dbt_valid_to"] is None])
        for row in kept
    )


def gaps() -> list[str]:
    """Planes whose next version does not begin when the one before ends."""
    kept = tidelake.open(WAREHOUSE).table("air.planes_history").to_arrow().to_pylist()
    by_plane: dict[str, list[tuple[object, object]]] = {}
    for row in sorted(kept, key=lambda row: row["dbt_valid_from"]):
        by_plane.setdefault(row["tailnum"], []).append((row["dbt_valid_from"], row["dbt_valid_to"]))
    return [
        tailnum
        for tailnum, spans in by_plane.items()
        if any(end != start for (_, end), (start, _) in itertools.pairwise(spans))
    ]


def change() -> dict[str, int]:
    """Later days, corrections of the last day that was there, planes rebuilt and one gone."""
    lake = tidelake.open(WAREHOUSE)
    flights = lake.table("raw.flights")
    late = flights.to_arrow(where=f"day = {DAYS} and arr_delay > 60").to_pylist()
    flights.write([row | {"arr_delay": LATE} for row in late])
    planes = lake.table("raw.planes")
    known = planes.to_arrow().sort_by("tailnum").to_pylist()
    load.main(WAREHOUSE, DAYS + 1, 2 * DAYS)
    planes = lake.table("raw.planes")
    planes.write([row | {"seats": row["seats"] + 1} for row in known[:7]])
    gone = planes.delete(f"tailnum = '{known[10]['tailnum']}'").rows
    return {"late": len(late), "rebuilt": 7, "gone": gone}


sys.path.insert(0, str(EXAMPLE))
load = importlib.import_module("load")


def main() -> None:
    ignored = shutil.ignore_patterns("dbt_packages", "target", "logs", "package-lock.yml")
    shutil.copytree(EXAMPLE, PROJECT, ignore=ignored)
    os.chdir(PROJECT)  # Spark and dbt leave their own files where they run
    odd_parts()
    lake = tidelake.spark.attach(quick_spark.session(WORK), WAREHOUSE)
    seen: dict[str, object] = {}
    history = History()
    load.main(WAREHOUSE, 1, DAYS)
    history.look()
    seen["deps"] = dbt("deps")
    seen["first"] = dbt("build")
    first = tables("air")
    seen["odd"] = [rows("air.odd"), rows("air.oddname")]
    with tidelake.spark.connect_server(lake) as server:
        seen["again"] = dbt_command(server.url, "build")
    seen["odd"] += [rows("air.odd"), rows("air.oddname")]
    seen["same"] = [name for name, found in tables("air").items() if found != first[name]]
    seen["change"] = change()
    history.look()
    seen["changed"] = dbt("build")
    grown = tables("air")
    seen["counts"] = {name: [len(first[name]), len(found)] for name, found in grown.items()}
    os.environ["AIR_SCHEMA"] = "fresh"
    seen["refreshed"] = dbt("build", "--full-refresh")
    fresh = tables("fresh")
    seen["unequal"] = [name for name, found in grown.items() if found != fresh[name]]
    del os.environ["AIR_SCHEMA"]
    seen["history"] = [versions(), history.versions()]
    seen["gaps"] = gaps()
    seen["docs"] = dbt("docs", "generate")
    catalog = json.loads((PROJECT / "target" / "catalog.json").read_text())
    seen["described"] = {
        node.rpartition(".")[2]: list(told["columns"]) for node, told in catalog["nodes"].items()
    }
    (PROJECT / "models" / "seen.sql").write_text(VIEW)
    seen["view"] = dbt("run", "--select", "seen")
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
