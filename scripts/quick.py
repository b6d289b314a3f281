"""The inner loop: what a change is likely to break, in less than two minutes.

Usage: python scripts/quick.py

1. What changed: every file that differs from where this branch left main, committed or not.
2. ruff on the Python files among them.
3. tests/arch, the rules of the house.
4. The tests that changed, and the tests of each module that did (tests/unit mirrors src/tidelake).
5. All tests of the rooms that changed (the folder that mirrors the module's, else its package's);
   of a large one (:data:`LARGE`) those named by a word of the module's, or else that mention it.

It starts no JVM: tests/spark and tests/interop are left to `make test`, and so it says.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT = Path("tests/unit")
SRC = Path("src/tidelake")
LARGE = {"table", "table/write"}
"""Folders whose tests take more than half a minute."""
NEEDS_A_JVM = ("tests/spark", "tests/interop")
QUICK_TESTS = ("tests/unit", "tests/golden", "tests/history")


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def changed_files() -> list[Path]:
    """Files that differ from main, or are new; those that are gone are left out."""
    heads = _git("for-each-ref", "--format=%(refname)", "refs/heads/main", "refs/remotes/*/main")
    base = _git("merge-base", "HEAD", heads[0])[0] if heads else "HEAD"
    named = {
        *_git("diff", "--name-only", base),
        *_git("ls-files", "--others", "--exclude-standard"),
    }
    return [Path(name) for name in sorted(named) if (ROOT / name).is_file()]


def tests_for(changed: Iterable[Path]) -> list[Path]:
    """The files and folders of tests that a change asks for."""
    found: set[Path] = set()
    for path in changed:
        if path.is_relative_to(SRC) and path.suffix == ".py" and len(path.parts) > 3:
            found |= _tests_of_module(path.relative_to(SRC))
        elif path.name.startswith("test_") and str(path).startswith(QUICK_TESTS):
            found.add(path)
    folders = {path for path in found if (ROOT / path).is_dir()}
    return sorted(path for path in found if not folders & set(path.parents))


def _tests_of_module(module: Path) -> set[Path]:
    folder = next((p for p in module.parents if p.parts and (ROOT / UNIT / p).is_dir()), None)
    if folder is None:
        return set()
    if str(folder) not in LARGE:
        return {UNIT / folder}
    words = [word for word in module.stem.strip("_").split("_") if len(word) > 3]
    tests = [path.relative_to(ROOT) for path in sorted((ROOT / UNIT / folder).rglob("test_*.py"))]
    named = {path for path in tests if any(word in path.stem for word in words)}
    return named or {path for path in tests if module.stem in (ROOT / path).read_text("utf-8")}


def steps_for(changed: Sequence[Path]) -> list[list[str]]:
    """The commands, each as arguments of this Python."""
    python = [str(path) for path in changed if path.suffix == ".py"]
    steps = []
    if python:
        steps += [["-m", "ruff", "check", *python], ["-m", "ruff", "format", "--check", *python]]
    tests = [str(path) for path in tests_for(changed)]
    pytest = ["-m", "pytest", "--quiet", "--maxfail", "5", "--numprocesses", "2"]
    return [*steps, [*pytest, "--dist", "worksteal", "tests/arch", *tests]]


def main() -> int:
    """Run the steps; 1 if one of them failed."""
    began = time.monotonic()
    changed = changed_files()
    print(f"{len(changed)} files differ from main", flush=True)
    failed = []
    for step in steps_for(changed):
        shown = " ".join(step[1:])
        print(f"$ {shown if len(shown) <= 300 else shown[:300] + ' ...'}", flush=True)
        if subprocess.run([sys.executable, *step], cwd=ROOT, check=False).returncode:
            failed.append(" ".join(step[1:3]))
    left = [path for path in changed if str(path).startswith(("src/tidelake/spark", *NEEDS_A_JVM))]
    if left:
        print(f"Not run, they start a JVM: {' and '.join(NEEDS_A_JVM)}, for {len(left)} files")
    print(f"{time.monotonic() - began:.0f} seconds; failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
