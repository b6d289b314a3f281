"""A real Kafka broker for tests: KRaft, one node, on loopback, from the jars that Maven has.

:func:`broker` starts one for all processes of a test run, and kills it with the last of them. The
jars are fetched once, into ``.venv-oracle/kafka`` of the checkout.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from servers.ports import free_port

VERSION = "4.1.1"
CHECKOUT = Path(__file__).parents[1]
JARS = CHECKOUT / ".venv-oracle" / "kafka" / VERSION
FETCH_SECONDS_MAX, START_SECONDS_MAX, USERS_SECONDS_MAX = 600, 90, 900
LARGEST_MESSAGE = 100_000
"""Bytes of the largest message that the broker takes, so that a test can go beyond."""

_BROKER = f"org.apache.kafka:kafka_2.13:{VERSION}"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelake.tests</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=2097152
log.initial.task.delay.ms=100
file.delete.delay.ms=100
message.max.bytes={largest}
num.network.threads=2
num.io.threads=2
num.partitions=1
"""
# the file that kafka-storage's format would write, by a Java program of its own
_META = (
    "version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\ndirectory.id=IVhS9YoZTMOZ0n7tKq0Z0g\n"
)
_JAVA = (
    "-Xmx192m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
)  # fmt: skip


class AbsentError(Exception):
    """A broker cannot run on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Broker:
    """A broker that runs.

    Parameters
    ----------
    port : int
        Its port on 127.0.0.1.
    """

    port: int

    @property
    def servers(self) -> str:
        """The value of ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"


@contextmanager
def broker(shared: Path) -> Iterator[Broker]:
    """Run the broker of this test run.

    Parameters
    ----------
    shared : Path
        A directory that all processes of the run have: the first of them starts the broker, and
        waits at its end for the others.

    Raises
    ------
    AbsentError
        Java or Maven is missing.
    """
    state = shared / "kafka.json"
    own: subprocess.Popen[bytes] | None = None
    with _locked(shared):
        found = json.loads(state.read_text()) if state.exists() else {"port": None, "users": 0}
        if found["port"] is None:
            own, found["port"] = _started(shared / "kafka")
        found["users"] += 1
        state.write_text(json.dumps(found))
    try:
        yield Broker(found["port"])
    finally:
        with _locked(shared):
            found = json.loads(state.read_text())
            found["users"] -= 1
            if own is not None and found["users"] == 0:
                found["port"] = None
            state.write_text(json.dumps(found))
        if own is not None:
            _wait_for_others(state, shared)
            own.kill()  # nothing of it is kept
            own.wait()
            shutil.rmtree(shared / "kafka", ignore_errors=True)


@contextmanager
def _locked(shared: Path) -> Iterator[None]:
    with (shared / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _wait_for_others(state: Path, shared: Path) -> None:
    deadline = time.monotonic() + USERS_SECONDS_MAX
    while time.monotonic() < deadline:
        with _locked(shared):
            found = json.loads(state.read_text())
            if found["users"] == 0:
                state.write_text(json.dumps({"port": None, "users": 0}))
                return
        time.sleep(0.2)


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        message = f"there is no {name} on this machine, and Kafka's broker needs it"
        raise AbsentError(message)
    return found


def jars(place: Path = JARS, *artifacts: str) -> list[Path]:
    """The jars of artifacts and of all they need, fetched by Maven on first use.

    Parameters
    ----------
    place : Path
        Where they are kept.
    *artifacts : str
        Group, name and version of each, with colons between; else the broker.

    Raises
    ------
    AbsentError
        Maven is missing.
    RuntimeError
        It could not fetch them.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            fresh = place.with_name(f"{place.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            wanted = artifacts or (_BROKER,)
            dependencies = "".join(_DEPENDENCY.format(*one.split(":")) for one in wanted)
            (fresh / "pom.xml").write_text(_POM.format(dependencies))
            command = [
                _tool("mvn"), "-q", "-B", "-f", str(fresh / "pom.xml"),
                "dependency:copy-dependencies", f"-DoutputDirectory={fresh}",
            ]  # fmt: skip
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=FETCH_SECONDS_MAX,
                check=False,
            )
            if done.returncode:
                # a test that skips because a download failed would prove nothing
                message = f"Maven could not fetch {wanted}: {done.stdout[-600:]}"
                raise RuntimeError(message)
            fresh.rename(place)
    return sorted(place.glob("*.jar"))


@contextmanager
def mortal_broker(place: Path) -> Iterator[MortalBroker]:
    """Run a broker of one's own, that may be killed and started again.

    Parameters
    ----------
    place : Path
        A directory of its own.

    Raises
    ------
    AbsentError
        Java or Maven is missing.
    """
    process, port = _started(place)
    own = MortalBroker(place, port, process)
    try:
        yield own
    finally:
        own.kill()


@dataclass
class MortalBroker:
    """A broker with all that it holds on the disk.

    Parameters
    ----------
    place : Path
        Its directory.
    port : int
        Its port, which stays the same.
    process : Popen
        The process that runs.
    """

    place: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def servers(self) -> str:
        """The value of ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill it, as a crash of its machine does."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it again, with what it has on the disk."""
        self.process = _launched(self.place, self.port)


def _started(place: Path) -> tuple[subprocess.Popen[bytes], int]:
    data = place / "data"
    shutil.rmtree(place, ignore_errors=True)
    data.mkdir(parents=True)
    (data / "meta.properties").write_text(_META)
    port, controller = free_port(), free_port()
    settings = place / "server.properties"
    settings.write_text(
        _SETTINGS.format(port=port, controller=controller, data=data, largest=LARGEST_MESSAGE)
    )
    return _launched(place, port), port


def _launched(place: Path, port: int) -> subprocess.Popen[bytes]:
    java, class_path = _tool("java"), os.pathsep.join(map(str, jars()))
    settings = place / "server.properties"
    with (place / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [java, *_JAVA, "-cp", class_path, "kafka.Kafka", str(settings)],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=place,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
    deadline = time.monotonic() + START_SECONDS_MAX
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            message = f"Kafka did not start: {(place / 'broker.log').read_text()[-2000:]}"
            raise RuntimeError(message)
        time.sleep(0.05)
    return process


def _die_with_parent() -> None:
    """Ask Linux to kill the broker when the tests' process dies."""
    import ctypes

    pr_set_pdeathsig = 1
    with suppress(OSError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _answers(port: int) -> bool:
    """Whether the broker takes a client's request: the metadata of its topics."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            pass
        quiet = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
        return bool(AdminClient(quiet).list_topics(timeout=5).brokers)
    except (OSError, KafkaException):
        return False
