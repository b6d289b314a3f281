"""The commands that developers run: what they would run is there, and they count right."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import minutes
import pytest
import sizes

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quick, proof = script("quick"), script("proof")


def test_quick_runs_the_tests_of_a_package_whose_module_changed():
    changed = [Path("src/tidelake/scan/plan.py"), Path("tests/unit/scan/test_plan.py")]
    assert quick.tests_for(changed) == [Path("tests/unit/scan")]
    assert quick.tests_for([Path("docs/index.md"), Path("tests/spark/sql/test_sql.py")]) == []


def test_quick_runs_the_tests_of_the_room_whose_module_changed():
    changed = [Path("src/tidelake/table/rowlevel/update.py")]
    assert quick.tests_for(changed) == [Path("tests/unit/table/rowlevel")]


def test_quick_runs_of_a_large_room_the_tests_of_the_module():
    room = Path("tests/unit/table/write")
    session = [Path("src/tidelake/table/write/write_session.py")]
    assert room / "test_write_session.py" in quick.tests_for(session)
    assert room / "test_fork.py" not in quick.tests_for(session)
    found = quick.tests_for([Path("src/tidelake/table/table.py")])  # the face of a large package
    assert found
    assert all("table" in path.name for path in found)


def test_the_proof_runs_what_is_there():
    named = [word for piece in proof.PIECES.values() for word in piece.arguments if "/" in word]
    assert named
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_the_proof_runs_all_of_what_a_landing_runs_a_share_of():
    shares = proof.PIECES["shares"].arguments
    for name in ("tests/spark/test_store_on_cluster.py", "tests/unit/merge/runs/test_bounded.py"):
        assert name in shares
    assert "tests/arch/test_docstrings.py" not in shares


PAIRS = ["pairs[1-2]", "pairs[1-3]", "pairs[2-2]"]
MARKED = """
import pytest

@pytest.mark.full
def test_long(): pass

@pytest.mark.share(2)
@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b", range(2))
def test_grid(a, b): pass

@pytest.mark.share(2)
@pytest.mark.parametrize(("c", "d"), [(1, 2), (1, 3), (2, 2)])
def test_pairs(c, d): pass
"""


@pytest.mark.parametrize(
    ("size", "named", "left"),
    [
        (
            "small",
            "",
            ["grid[0-0]", "grid[0-2]", "grid[1-1]", "grid[1-3]", "pairs[1-2]", "pairs[2-2]"],
        ),
        ("full", "", ["long", *(f"grid[{b}-{a}]" for b in range(2) for a in range(4)), *PAIRS]),
        ("small", "::test_grid[0-1]", ["grid[0-1]"]),
    ],
    ids=["small", "full", "named"],
)
def test_a_landing_runs_the_share_that_a_mark_says(tmp_path, size, named, left):
    module = tmp_path / "test_marked.py"
    module.write_text(MARKED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "conftest"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), f"{module}{named}"],
        env={**os.environ, sizes.VARIABLE: size, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert re.findall(r"::test_(\S+)", done.stdout) == left, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("code", "said", "ran", "violations"),
    [
        (0, '{"check": "race", "commits": 9, "violations": 0, "seconds": 2}', "commits 9", 0),
        (1, "= 2 failed, 3 passed, 1 warning in 9.12s =", "2 failed, 3 passed, 1 warning", 2),
        (0, "500 seeds, 9 snapshots read by both: {'equal': 500}", None, 0),
        (1, "500 seeds, 9 snapshots read by both: {'equal': 497, 'failed': 3}", None, 3),
        (1, "90 compared, 4 differ", "90 compared, 4 differ", 4),
        (1, "Traceback\nAssertionError: lost", "AssertionError: lost", 1),
    ],
)
def test_the_proof_counts_what_was_broken(code, said, ran, violations):
    assert proof.ran(said) == (said if ran is None else ran)
    assert proof.violations(code, said) == violations


def test_a_run_of_the_proof_goes_on_after_a_failure_and_remembers(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(proof, "ROOT", tmp_path)
    monkeypatch.setattr(proof, "KEPT", tmp_path / "out" / "proof.json")
    monkeypatch.setattr(proof, "LOGS", tmp_path / "out" / "proof")
    monkeypatch.setattr(proof, "commit", lambda: "abc")
    breaks, holds = (proof.Piece(("-c", f"print('1 passed'); raise SystemExit({n})")) for n in "10")
    monkeypatch.setattr(proof, "PIECES", {"breaks": breaks, "holds": holds})
    assert proof.prove(["breaks", "holds"], again=False) == 1
    kept = json.loads(proof.KEPT.read_text())
    assert [kept[name]["violations"] for name in ("breaks", "holds")] == [1, 0]
    proof.PIECES["breaks"] = holds
    capsys.readouterr()
    assert proof.prove(["breaks", "holds"], again=False) == 0
    shown = capsys.readouterr().out
    assert "holds: kept, 0 violations" in shown
    assert "2 of 2 checks" in shown


def test_minutes_of_several_runs_add_up(tmp_path):
    file = tmp_path / "out" / "minutes.json"
    first = {"tests/sim": [3, 60.0, 90.0]}
    then = {"tests/sim": [1, 6.0, 6.0], "tests/spark": [1, 60.0, 1.0]}
    minutes.merged(file, {"began": 1000.0, "ended": 1060.0, "folders": first})
    kept = minutes.merged(file, {"began": 1010.0, "ended": 1090.0, "folders": then})
    assert (kept["began"], kept["ended"]) == (1000, 1090)
    assert kept == json.loads(file.read_text())
    assert [line.split() for line in minutes.table(kept)[1:]] == [
        ["tests/sim", "4", "1.1", "1.6"],
        ["tests/spark", "1", "1.0", "0.0"],
        ["all", "5", "2.1", "1.6"],
        ["wall:", "1.5", "minutes"],
    ]
    assert minutes.folder_of("tests/unit/scan/test_plan.py::test_it[a/b]") == "tests/unit/scan"
    assert minutes.folder_of("tests/spark/seeds/test_seeds.py::test_it") == "tests/spark"


def test_every_folder_of_tests_has_its_minutes():
    folders = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    told = re.findall(r"`tests/(\w+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert folders - set(told) == set()


def test_the_modules_that_run_first_are_there():
    there = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(minutes.LONGEST_FIRST) <= there


def test_the_full_size_tries_no_less_than_the_small_one():
    small, full = sizes.SMALL, sizes.FULL
    for name in ("faults_step", "local_faults_step", "damage_step", "made_by_java_step"):
        assert getattr(full, name) < getattr(small, name)
    for name in ("model_seeds", "machine_runs", "grid_seeds", "race_commits", "kills"):
        assert getattr(full, name) > getattr(small, name)


def test_the_strict_build_of_the_docs_is_not_quiet():
    """With --quiet mkdocs sees no warning, and so a broken link does not fail a strict build."""
    texts = [(ROOT / name).read_text() for name in ("Makefile", ".pre-commit-config.yaml")]
    builds = [line for text in texts for line in text.splitlines() if "mkdocs build --st" in line]
    assert len(builds) == 3
    assert [line for line in builds if "--quiet" in line or " -q" in line] == []


def test_the_page_of_errors_has_those_of_coroutines():
    """`make docs-check` compares the page with the source."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    section = page.split("\n## StorageError\n")[1].split("\n## ")[0]
    assert "\n- `service_inconsistent`: " in section
