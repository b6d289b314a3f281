"""The other engines, each made ready on demand and asked through ``protocol.py``.

Nothing is assumed to be installed: what a reader needs is fetched by its ordinary client (Maven
for the Paimon jar, pip for a virtual environment) into ``.venv-oracle/`` of the checkout and kept
there. A reader that cannot be made ready says why in one sentence; it is then shown as absent.

==============  ============================================================================
reader          what it is
==============  ============================================================================
``java-1.3``    Java Paimon 1.3.1 core, our ``java/Dump.java`` in one JVM run
``core-2.1``    Java Paimon 2.1-SNAPSHOT core (the oracle's jar), the same program
``java-2.1``    Java Paimon 2.1-SNAPSHOT on Spark 4.1.2, one session (the oracle's jar)
``pypaimon``    pypaimon 2.1.0
==============  ============================================================================
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from interop.protocol import Answer, Request, read_answers, write_requests

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
CACHE = CHECKOUT / ".venv-oracle"
ORACLE = Path(os.environ.get("TIDELAKE_ORACLE", CHECKOUT.parent / "shared" / "oracle"))

PAIMON_JAR = "org.apache.paimon:paimon-bundle:1.3.1"
SERVICE_JARS = (
    "org.apache.paimon:paimon-service-runtime:1.3.1",
    "org.apache.paimon:paimon-service-client:1.3.1",
    "org.apache.paimon:paimon-shade-netty-4:4.1.100.Final-0.8.0",
)
SPARK_JAR = ORACLE / "paimon-spark-4.1_2.13-2.1-SNAPSHOT.jar"
_SPARK_WHEEL_JARS = (
    "hadoop-client-api",
    "hadoop-client-runtime",
    "log4j-1.2-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "slf4j-api",
    "snappy-java",
    "zstd-jni",
    "lz4-java",
    "rocksdbjni",
)
WITHOUT_DEFAULTS = HERE / "java" / "without_defaults"
"""An empty ``core-default.xml``, found first. Paimon 1.3 reads Hadoop's settings anew for each
Parquet file that it opens, a quarter of its CPU; for files on a disk it needs none of them."""
_TIMEOUT_S = 900


class AbsentError(Exception):
    """A reader cannot be made ready on this machine; the message says what is missing."""


class BrokenError(Exception):
    """Programs of ours do not compile: a fault of this checkout, not of the machine."""


_OF_OUR_SPARK = ("PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")


def environment() -> dict[str, str]:
    """The environment of a Spark that is not that of these tests.

    A session of theirs says which Python its workers are, and which jars it has; another Spark has
    its own.
    """
    return {key: value for key, value in os.environ.items() if key not in _OF_OUR_SPARK}


def _run(
    command: Sequence[str],
    *,
    what: str,
    env: dict[str, str] | None = None,
    failure: type[Exception] = AbsentError,
) -> None:
    done = subprocess.run(
        [str(c) for c in command],
        env=environment() if env is None else env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        tail = " | ".join(line for line in done.stdout.strip().splitlines()[-4:] if line)
        message = f"{what} failed: {tail[-600:]}"
        raise failure(message)


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        message = f"there is no {name} on this machine"
        raise AbsentError(message)
    return found


def _environment(name: str, *requirements: str) -> Path:
    """The Python of a virtual environment with these packages, made on first use."""
    place, ready = CACHE / name, CACHE / name / ".ready"
    python = place / "bin" / "python"
    if not ready.is_file() or ready.read_text() != "\n".join(requirements):
        CACHE.mkdir(exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", place], what="making a virtual environment")
        _run([python, "-m", "pip", "install", "--quiet", *requirements], what="pip install")
        ready.write_text("\n".join(requirements))
    return python


class Reader:
    """One engine behind the protocol."""

    name = ""
    title = ""
    is_core = False
    """Whether it is a bare Java program: it starts quickly, and compacts too."""

    def prepare(self) -> None:
        """Make it ready; ``AbsentError`` says why that cannot be. One process at a time does."""
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.make_ready()

    def make_ready(self) -> None:
        """What :meth:`prepare` does."""
        raise NotImplementedError

    def command(self, requests: Path, answers: Path, scratch: Path) -> list[str]:
        """The process that answers."""
        raise NotImplementedError

    def ask(self, requests: Sequence[Request]) -> dict[str, Answer]:
        """All answers; a process that died leaves errors for what it did not answer."""
        with tempfile.TemporaryDirectory(prefix="interop-") as scratch:
            asked, answered = Path(scratch, "requests"), Path(scratch, "answers")
            write_requests(asked, requests)
            done = subprocess.run(
                self.command(asked, answered, Path(scratch)),
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            answers = read_answers(answered, requests) if answered.is_file() else {}
        tail = " | ".join(done.stdout.strip().splitlines()[-3:])[-300:]
        for request in requests:
            lost = Answer(error=f"no answer (exit code {done.returncode}): {tail}")
            answers.setdefault(request.id, lost)
        return answers


class JavaCore(Reader):
    """Java Paimon 1.3.1 without Spark."""

    name = "java-1.3"
    title = "Java Paimon 1.3.1"
    is_core = True
    version = "1.3"
    """The directory beside the sources that has what this version calls otherwise."""
    settings = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    """Quick to start, for short programs."""

    def __init__(self) -> None:
        self.jars = CACHE / self.name
        sources = sorted(
            [*(HERE / "java").glob("*.java"), *(HERE / "java" / self.version).glob("*.java")]
        )
        digest = hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()[:12]
        self.sources, self.classes = sources, self.jars / f"classes-{digest}"
        self.class_path = ""

    def bundle(self) -> Path:
        """The jar that holds this Paimon, fetched on first use."""
        return self._jar(PAIMON_JAR)

    def service_jars(self) -> list[Path]:
        """Those of its query service, which no test needs, fetched on first use."""
        return list(map(self._jar, SERVICE_JARS))

    def _jar(self, artifact: str) -> Path:
        _, name, version = artifact.split(":")
        jar = self.jars / f"{name}-{version}.jar"
        if not jar.is_file():
            fetched = self.jars / "fetched"
            _run(
                [_tool("mvn"), "-q", "-B", "dependency:copy", f"-Dartifact={artifact}",
                 f"-DoutputDirectory={fetched}"],
                what=f"fetching {artifact} with Maven",
            )  # fmt: skip
            (fetched / jar.name).rename(jar)
        return jar

    def make_ready(self) -> None:
        _tool("java")
        spark = importlib.util.find_spec("pyspark")
        if spark is None or spark.origin is None:
            message = "pyspark is not installed, whose wheel has the Hadoop jars Java Paimon needs"
            raise AbsentError(message)
        bundle = self.bundle()
        jars = Path(spark.origin).parent / "jars"
        borrowed = [str(p) for n in _SPARK_WHEEL_JARS for p in sorted(jars.glob(f"{n}-[0-9]*.jar"))]
        self.class_path = os.pathsep.join([str(bundle), *borrowed, str(self.classes)])
        if not self.classes.is_dir():
            fresh = self.classes.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            _run(
                [_tool("javac"), "-d", fresh, "-cp", self.class_path, *self.sources],
                what="javac",
                failure=BrokenError,
            )
            fresh.rename(self.classes)

    def command(self, requests: Path, answers: Path, scratch: Path) -> list[str]:
        return self._java(str(requests), str(answers), str(scratch / "spill"))

    def talk(self, spill: Path) -> list[str]:
        """The process that answers line by line; see ``peer.py``."""
        return self._java(str(spill))

    def _java(self, *arguments: str) -> list[str]:
        path = os.pathsep.join([str(WITHOUT_DEFAULTS), self.class_path])
        return [_tool("java"), *self.settings, "-cp", path, "Dump", *arguments]


class JavaCore21(JavaCore):
    """Java Paimon 2.1-SNAPSHOT without Spark, of the jar that is made for Spark."""

    name = "core-2.1"
    title = "Java Paimon 2.1"
    version = "2.1"

    def bundle(self) -> Path:
        if not SPARK_JAR.is_file():
            message = f"the oracle's jar is not beside this checkout ({SPARK_JAR.name})"
            raise AbsentError(message)
        return SPARK_JAR


class JavaOnSpark(Reader):
    """Java Paimon 2.1-SNAPSHOT on Spark 4.1.2."""

    name = "java-2.1"
    title = "Java Paimon 2.1, Spark"

    def __init__(self) -> None:
        self.python = Path()

    def make_ready(self) -> None:
        if not SPARK_JAR.is_file():
            message = f"the oracle's jar is not beside this checkout ({SPARK_JAR.name})"
            raise AbsentError(message)
        _tool("java")
        self.python = _environment("spark41", "pyspark==4.1.2", "pyarrow>=20")

    def command(self, requests: Path, answers: Path, scratch: Path) -> list[str]:
        arguments = [requests, answers, SPARK_JAR]
        return [str(self.python), str(HERE / "spark_dump.py"), *map(str, arguments)]


class Pypaimon(Reader):
    """pypaimon 2.1.0."""

    name = "pypaimon"
    title = "pypaimon 2.1.0"

    def __init__(self) -> None:
        self.python = Path()

    def make_ready(self) -> None:
        self.python = _environment("pypaimon", "pypaimon==2.1.0")

    def command(self, requests: Path, answers: Path, scratch: Path) -> list[str]:
        return [str(self.python), str(HERE / "pypaimon_dump.py"), str(requests), str(answers)]


READERS: dict[str, type[Reader]] = {
    r.name: r for r in (JavaCore, JavaCore21, JavaOnSpark, Pypaimon)
}
