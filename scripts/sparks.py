"""Run what every Spark must do on each minor version that Tidelake runs on.

Usage: python scripts/sparks.py [--install] [MINOR ...]

1. An environment for each minor version but the installed one, in ``.sparks``: its newest PySpark,
   and by a path file everything else of ``.venv``. It is made once; with --install that is all.
2. The Java classes of Tidelake are compiled against it.
3. ``tests/spark/test_every_version.py`` runs whole. What it saw is kept in
   ``tests/spark/every_version.json`` if all passed: the docs' table of versions is made of it
   (``make docs-gen``).
4. The tests of Spark Connect and of the table of private names run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import sizes
from versions_page import RECORD

from tidelake.spark.versions import MINORS

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".sparks"
CORE = "tests/spark/test_every_version.py"
OTHERS = ("tests/spark/test_private_names.py", "tests/spark/test_connect.py")
OWN = MINORS[-1]
"""The one of ``.venv``."""


def environment(minor: str) -> Path:
    """The Python of an environment with that Spark."""
    if minor == OWN:
        return Path(sys.executable)
    folder = PLACE / minor
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if done.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, f"pyspark=={minor}.*"], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    shared = (ROOT / "src", sysconfig.get_paths()["purelib"])
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in shared))
    done.touch()
    return python


def seen_by_tests(report: Path) -> dict[str, dict[str, object]]:
    """What the tests that show something recorded, by their names without parameters.

    Raises
    ------
    AssertionError
        One of them was left out.
    """
    found: dict[str, dict[str, object]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        given = {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
        if "shows" not in given:
            continue
        name = case.attrib["name"].partition("[")[0]
        assert case.find("skipped") is None, f"{name} was left out"
        seen: dict[str, object] = {"shows": given["shows"]}
        if "has" in given:
            seen["has"] = given["has"] == str(True)
        found[name] = seen
    return found


def keep(minor: str, python: Path, tests: Mapping[str, object]) -> None:
    """Keep what was seen on a version."""
    asked = "import pyspark; print(pyspark.__version__)"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    kept[minor] = {
        "pyspark": done.stdout.strip(),
        "python": platform.python_version(),
        "tests": tests,
    }
    ordered = {one: kept[one] for one in MINORS if one in kept}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n")


def passed(minor: str) -> bool:
    """Run all of it on one version, and keep what the core saw if it passed."""
    print(f"Spark {minor}", flush=True)
    python = environment(minor)
    places = map(str, (ROOT / "src", ROOT / "tests"))
    given = dict(os.environ, PYTHONPATH=os.pathsep.join(places))

    def runs(*words: str, **more: str) -> bool:
        done = subprocess.run([python, *words], cwd=ROOT, env=given | more, check=False)
        return done.returncode == 0

    pytest = ("-m", "pytest", "-p", "no:cacheprovider", "-q")
    with tempfile.TemporaryDirectory() as work:
        report = Path(work, "report.xml")
        if not runs("scripts/compile_java.py"):
            return False
        # at full size none of them is left out
        to_report = ("-o", "junit_family=legacy", f"--junitxml={report}")
        if not runs(*pytest, *to_report, CORE, **{sizes.VARIABLE: "full"}):
            return False
        keep(minor, python, seen_by_tests(report))
    return runs(*pytest, *OTHERS)


def main() -> int:
    """Run them; the number of versions that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minors", nargs="*", choices=[*MINORS, []], default=[])
    parser.add_argument("--install", action="store_true", help="make the environments alone")
    asked = parser.parse_args()
    minors = asked.minors or MINORS
    if asked.install:
        for minor in minors:
            environment(minor)
        return 0
    failed = [minor for minor in minors if not passed(minor)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
