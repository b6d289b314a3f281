"""A real HDFS for tests: Hadoop's MiniDFSCluster, in one process, on loopback.

The jars are those of ``hadoop-client-minicluster``, fetched once by Maven into the checkout's
``.venv-oracle/hdfs``. Nothing is kept: its data lie in a directory that goes with it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_broker import CHECKOUT, AbsentError, _die_with_parent, _tool, jars

__all__ = ["AbsentError", "MiniHdfs", "class_path"]

VERSION = "3.5.0"
JARS = CHECKOUT / ".venv-oracle" / "hdfs" / VERSION
SOURCE = Path(__file__).with_name("MiniHdfs.java")
START_SECONDS_MAX, ANSWER_SECONDS_MAX = 180, 120
_ARTIFACT = f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}"
_JAVA = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def class_path() -> str:
    """The jars of HDFS, its clients and its test cluster.

    Raises
    ------
    AbsentError
        Maven is missing.
    """
    return os.pathsep.join(map(str, jars(JARS, _ARTIFACT)))


class MiniHdfs:
    """A cluster that runs; to be used with ``with``.

    Parameters
    ----------
    place : Path
        A directory of its own.
    name_nodes : int
        1, or 2 of which the first is active.

    Raises
    ------
    AbsentError
        Java or Maven is missing.
    """

    def __init__(self, place: Path, *, name_nodes: int = 1) -> None:
        place.mkdir(parents=True, exist_ok=True)
        words = [_tool("java"), *_JAVA, "-cp", class_path(), str(SOURCE), str(place / "data")]
        if name_nodes > 1:
            words.append("ha")
        self._errors = (place / "errors").open("w+b")
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=place,
            bufsize=0,
            preexec_fn=_die_with_parent,
        )
        self._buffer = b""
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._process.stdout, selectors.EVENT_READ)
        try:
            word, *ports = self._line(START_SECONDS_MAX).split()
            assert word == "UP", word
        except BaseException:
            self.close()
            raise
        self.ports = tuple(map(int, ports))

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def uri(self, path: str = "", *, name_node: int = 0) -> str:
        """A path of it as a URI."""
        return f"hdfs://127.0.0.1:{self.ports[name_node]}{path}"

    def service(self, name: str) -> dict[str, str]:
        """Hadoop's keys of a name service of its name nodes."""
        nodes = [f"nn{i}" for i in range(len(self.ports))]
        keys = {f"dfs.ha.namenodes.{name}": ",".join(nodes)}
        for node, port in zip(nodes, self.ports, strict=True):
            keys[f"dfs.namenode.rpc-address.{name}.{node}"] = f"127.0.0.1:{port}"
        return keys

    def do(self, command: str) -> None:
        """Do one of ``MiniHdfs.obey``."""
        self._process.stdin.write(f"{command}\n".encode())
        answer = self._line(ANSWER_SECONDS_MAX)
        assert answer == "DONE", f"{command}: {answer}"

    def stop(self) -> None:
        """Let it hang, as a machine that swaps or a line that is cut."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """End :meth:`stop`."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, all name nodes and data nodes."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it."""
        self.kill()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._ready.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _line(self, seconds_max: float) -> str:
        deadline = time.monotonic() + seconds_max
        while b"\n" not in self._buffer:
            waiting = deadline - time.monotonic()
            more = b""
            if waiting > 0 and self._ready.select(waiting):
                more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                self._errors.seek(0)
                told = self._errors.read()[-2000:].decode(errors="replace")
                message = f"HDFS did not answer in {seconds_max} s: {told}"
                raise RuntimeError(message)
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()
