"""Processes by names that tell whether they have ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(
    ("signalled", "ended"),
    [(None, False), (PermissionError(1, "theirs"), False), (ProcessLookupError(3, "gone"), True)],
    ids=["alive", "EPERM", "ESRCH"],
)
@pytest.mark.parametrize("unread", [PermissionError(13, "no"), OSError(24, "too many open files")])
def test_only_the_kernel_s_word_tells_that_a_process_is_gone(monkeypatch, signalled, ended, unread):
    name, own = process_name(), Path.read_text

    def read_text(path, *args, **named):
        if path.name == "stat":
            raise unread
        return own(path, *args, **named)

    def kill(_pid, number):
        assert number == 0
        if signalled is not None:
            raise signalled

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr("os.kill", kill)
    assert has_ended(name) == ended


def test_a_number_that_is_no_process_s_is_not_known_to_have_ended():
    here = process_name().rpartition("/")[0].rpartition("/")[0]
    assert not has_ended(f"{here}/{10**30}/5")


@pytest.mark.parametrize("name", ["", "x", "boot/pid:[1]/1/5", "///"])
def test_of_what_is_elsewhere_nobody_knows(name):
    assert not has_ended(name)
