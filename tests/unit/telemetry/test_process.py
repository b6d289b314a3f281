"""Processes by names that tell whether they have ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelake.telemetry import has_ended, process_name

NAME = "from tidelake.telemetry import process_name; print(process_name(), flush=True); input()"


def test_a_process_has_ended_once_it_was_killed():
    with subprocess.Popen(
        [sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        name = child.stdout.readline().strip()
        assert name != process_name()
        assert not has_ended(name)
        child.kill()
        child.wait()
        assert has_ended(name)


def test_the_same_number_begun_at_another_time_is_another_process():
    here, _, began = process_name().rpartition("/")
    assert has_ended(f"{here}/{int(began) + 1}")
    assert not has_ended(f"{here}/{began}")


@pytest.mark.parametrize("name", ["", "x", "boot/pid:[1]/1/5", "///"])
def test_of_what_is_elsewhere_nobody_knows(name):
    assert not has_ended(name)
