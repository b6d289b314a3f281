"""Run what every Spark must do on each minor version that Tidelake runs on.

Usage: python scripts/sparks.py [MINOR ...]

1. An environment for each minor version but the installed one, in ``.sparks``: its newest PySpark,
   and by a path file everything else of ``.venv``. It is made once.
2. The Java classes of Tidelake are compiled against it.
3. ``tests/spark/test_every_version.py`` and the table of private names are run.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from tidelake.spark.versions import MINORS

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".sparks"
TESTS = ("tests/spark/test_every_version.py", "tests/spark/test_private_names.py")


def environment(minor: str) -> Path:
    """The Python of an environment with that Spark."""
    folder = PLACE / minor
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if done.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"pyspark=={minor}.*"], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    shared = (ROOT / "src", sysconfig.get_paths()["purelib"])
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in shared))
    done.touch()
    return python


def main() -> int:
    """Run them; the number of versions that failed."""
    failed = []
    for minor in sys.argv[1:] or MINORS[:-1]:
        print(f"Spark {minor}", flush=True)
        python = str(environment(minor))
        steps = (
            ["scripts/compile_java.py"],
            ["-m", "pytest", "-p", "no:cacheprovider", "-q", *TESTS],
        )
        if any(subprocess.run([python, *step], cwd=ROOT, check=False).returncode for step in steps):
            failed.append(minor)
    print(f"failed: {', '.join(failed)}" if failed else "all passed", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
