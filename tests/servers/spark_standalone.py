"""A standalone master with workers as machines of their own: they share no directory.

Each worker has its own directory for work and temporary files. Where the system lets us, it does
not see the others' either (an empty file system lies over them).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from servers.ports import free_port
from tidelake.spark.sessions.java_runtime import java_home

START_S = 120
HIDE = 'for each in $HIDDEN; do mount -t tmpfs none "$each" || exit 1; done; exec "$@"'
DEPLOY = "org.apache.spark.deploy"


class Standalone:
    """A cluster on this machine; ends with its ``with`` block.

    Parameters
    ----------
    root : Path
        An empty directory.
    environment : mapping of str to str
        Of all machines, beside what Spark needs.
    workers : int
        How many machines run tasks.
    """

    def __init__(self, root: Path, environment: Mapping[str, str], *, workers: int = 2) -> None:
        self.driver = root / "driver"
        self.workers = [root / f"worker-{number}" for number in range(workers)]
        for place in (self.driver, *self.workers):
            (place / "tmp").mkdir(parents=True)
        self.environment = _environment(environment)
        self.hides = _can_hide(root)
        self._processes: list[subprocess.Popen[bytes]] = []
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        begin = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._start(self.driver, f"{DEPLOY}.master.Master", *begin, "--port", str(port))
        _wait_for(port)
        for place in self.workers:
            more = ["--cores", "1", "--memory", "700m", "--work-dir", str(place / "work")]
            self._start(place, f"{DEPLOY}.worker.Worker", *begin, *more, self.master)

    def of(self, place: Path) -> dict[str, str]:
        """The environment of one machine."""
        own = {"TMPDIR": str(place / "tmp"), "SPARK_LOCAL_DIRS": str(place / "tmp")}
        return self.environment | own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, place: Path, name: str, *words: str) -> None:
        command = [f"{self.environment['SPARK_HOME']}/bin/spark-class", name, *words]
        given = self.of(place)
        if self.hides and place is not self.driver:
            others = [str(one) for one in (self.driver, *self.workers) if one is not place]
            given["HIDDEN"] = " ".join(others)
            command = ["unshare", "--mount", "sh", "-c", HIDE, "sh", *command]
        with (place / "log.txt").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, cwd=place, env=given, stdout=log, stderr=log)
            )


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
        **more,
    }


def _can_hide(root: Path) -> bool:
    """Whether a process of ours may have directories of its own."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "sh", "-c", HIDE, "sh", "true"]
    tried = subprocess.run(command, env=os.environ | {"HIDDEN": str(root)}, capture_output=True)
    return tried.returncode == 0


def _wait_for(port: int) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the master did not start")
