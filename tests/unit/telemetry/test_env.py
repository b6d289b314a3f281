"""What an :class:`~tidelake.telemetry.env.Env` says of the machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tidelake.telemetry.env import Env


def test_spilled_rows_lie_on_the_disks_of_spark(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert Path(Env.system().spill_directory()).parent == Path(tempfile.gettempdir())
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/mnt/one,/mnt/two")  # whole disks, of a cluster
    assert Path(Env.system().spill_directory()).parent == Path(tempfile.gettempdir())
    disks = ("/mnt/one/blockmgr-1", "/mnt/two/blockmgr-2")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(disks))
    own, number = Env.system().spill_directory(), os.getpid()
    assert str(Path(own).parent) == disks[number % 2]
    assert Env.system().spill_directory() != own
    monkeypatch.setattr(os, "getpid", lambda: number + 1)
    assert Path(Env.system().spill_directory()).parent != Path(own).parent
