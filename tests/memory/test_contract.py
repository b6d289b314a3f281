"""The memory contract at a small size, in processes with a limited address space.

``make memory`` runs it at full size; see ``scripts/memory.py``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sizes import SIZE

SCRIPT = Path(__file__).parents[2] / "scripts" / "memory.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


SHAPES = [
    *[("wide", 5), ("buckets", 5), ("partial", 3), ("searched", 4), ("marked", 5)],
    *[("narrow", 6), ("nested", 5), ("aggregated", 3), ("logged", 4), ("first", 4)],
]
"""Of narrow rows and of those of `logged` a test below is, too; so the others come first."""


@pytest.mark.parametrize(("shape", "works"), SHAPES[: SIZE.memory_shapes])
def test_writing_reading_compacting_and_planning_stay_inside_their_memory(shape, works):
    # the engine holds three quarters of 64 MiB at most; a quarter is left to the allocator
    done = run("--shape", shape)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" of 48 MiB beside ") == works, done.stdout


@pytest.mark.full  # its pieces of work run above in a smaller memory
def test_what_stays_resident_with_the_allocators_as_they_are_fits_too():
    done = run("--shape", "logged", "--resident")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" of 64 MiB beside ") == 4, done.stdout


def test_a_memory_that_is_not_there_is_found_out():
    # the check bites: with eight times the memory that the process has, each piece of work fails
    done = run("--shape", "narrow", "--plant", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" does not fit ") == 5, done.stdout
