"""The memory contract at a small size, in processes with a limited address space.

``make memory`` runs it at full size; see ``scripts/memory.py``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "memory.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("shape", ["narrow", "wide", "nested", "buckets"])
def test_writing_reading_compacting_and_planning_stay_inside_their_memory(shape):
    done = run("--shape", shape)
    assert done.returncode == 0, done.stdout + done.stderr
    works = 6 if shape == "narrow" else 5
    assert done.stdout.count(" of 64 MiB beside ") == works, done.stdout


def test_a_memory_that_is_not_there_is_found_out():
    # the check bites: with eight times the memory that the process has, each piece of work fails
    done = run("--shape", "narrow", "--plant", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" does not fit ") == 5, done.stdout
