"""What an :class:`~tidelake.telemetry.env.Env` says of the machine."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path

from tidelake.telemetry import Memory, SerialExecutor
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


def test_all_environments_of_a_process_share_the_threads_that_wait_for_a_network():
    first, second = Env.system(), Env.system()
    copied = pickle.loads(pickle.dumps(first))
    assert first.reads.ranges is second.reads.ranges is copied.reads.ranges
    limited = first.with_memory(Memory.of(1 << 28))
    assert first.reads.files is copied.reads.files is limited.reads.files
    serial = pickle.loads(pickle.dumps(Env.seeded(1))).reads
    assert isinstance(serial.ranges, SerialExecutor)
