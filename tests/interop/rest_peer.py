"""Java Paimon's own REST catalog server (of its test jar), and Java's client of it, in one process.

The server's classes need OkHttp's web server, which needs JUnit's class path; of the jar of
Testcontainers they need one small class, which lies beside ``java/rest/RestPeer.java``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from servers.hadoop_aws import s3a_jars

from interop.readers import CACHE, HERE, JavaCore, _run, _tool

TOKEN = "tide-token-a7b8c9"
JARS = (
    "org.apache.paimon:paimon-core:1.3.1:jar:tests",
    "com.squareup.okhttp3:mockwebserver:4.12.0",
    "com.squareup.okhttp3:okhttp:4.12.0",
    "com.squareup.okio:okio-jvm:3.6.0",
    "org.jetbrains.kotlin:kotlin-stdlib:1.9.10",
    "junit:junit:4.13.2",
)


S3A_OF_SPARK = (
    *("commons-codec", "commons-lang3", "httpclient", "httpcore", "jcl-over-slf4j", "netty"),
    *("jackson-annotations", "jackson-core", "jackson-databind"),
)
"""What ``s3a`` needs of the jars of PySpark's wheel."""


@dataclass(frozen=True)
class Store:
    """An S3 in which Java finds the tables.

    Parameters
    ----------
    warehouse : str
        ``s3://bucket/prefix``.
    endpoint, access_key, secret_key : str
        How Hadoop reaches it.
    """

    warehouse: str
    endpoint: str
    access_key: str
    secret_key: str

    def core_site(self) -> str:
        """Hadoop's settings."""
        settings = {
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
        }
        lines = [
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        ]
        return f"<configuration>{''.join(lines)}</configuration>"


class RestPeerError(Exception):
    """Java refuses or fails; its own words."""


class JavaRest(JavaCore):
    """Java Paimon 1.3.1 with its REST catalog server."""

    def __init__(self) -> None:
        super().__init__()
        self.sources = sorted((HERE / "java" / "rest").rglob("*.java"))
        digest = hashlib.sha256(b"".join(s.read_bytes() for s in self.sources)).hexdigest()[:12]
        self.classes = self.jars / f"classes-rest-{digest}"

    def bundle(self) -> Path:
        """The jars, fetched on first use; the tests' jar and the web server's come behind."""
        bundle = super().bundle()
        found = [bundle]
        for artifact in JARS:
            _, name, version, *classifier = artifact.split(":")
            jar = self.jars / f"{'-'.join([name, version, *classifier[1:]])}.jar"
            if not jar.is_file():
                fetched = CACHE / self.name / "fetched"
                _run(
                    [_tool("mvn"), "-q", "-B", "dependency:copy", f"-Dartifact={artifact}",
                     f"-DoutputDirectory={fetched}", "-Dtransitive=false"],
                    what=f"fetching {artifact} with Maven",
                )  # fmt: skip
                (fetched / jar.name).rename(jar)
            found.append(jar)
        return Path(os.pathsep.join(map(str, found)))

    def start(self, directory: Path, store: Store | None = None) -> list[str]:
        """The process of server and client; its files are local, or in a store."""
        path, more = self.class_path, []
        if store is not None:
            wheel = Path(find_spec("pyspark").origin).parent / "jars"
            borrowed = [jar for name in S3A_OF_SPARK for jar in sorted(wheel.glob(f"{name}-*.jar"))]
            directory.parent.mkdir(exist_ok=True)
            (directory.parent / "core-site.xml").write_text(store.core_site(), encoding="utf-8")
            place = [directory.parent, *s3a_jars("4.3"), *borrowed]
            path, more = os.pathsep.join([path, *map(str, place)]), [store.warehouse]
        java = [_tool("java"), *self.settings, "-cp", path]
        return [*java, "RestPeer", str(directory), TOKEN, *more]


class RestPeer:
    """A running server with Java's client. To be used with ``with``."""

    def __init__(self, java: JavaRest, store: Store | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="interop-rest-")
        self.directory = Path(self._scratch.name, "warehouse")
        self._errors = Path(self._scratch.name, "errors").open("w+b")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            java.start(self.directory, store),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.url = self._line()["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()
        self._scratch.cleanup()

    def options(self) -> dict[str, str]:
        """The options of a catalog at this server."""
        auth = {"token.provider": "bear", "token": TOKEN}
        return {"type": "rest", "uri": self.url, "warehouse": "lake", **auth}

    def do(self, op: str, table: str | None = None, **more: Any) -> Any:
        """Let Java's client do something; its answer.

        Raises
        ------
        RestPeerError
            Java refused, or failed.
        """
        request = {"op": op, **({} if table is None else {"table": table}), **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._line()
        if "error" in answer:
            raise RestPeerError(answer["error"])
        return answer["answer"]

    def _line(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            message = f"the process ended: {self._errors.read()[-800:].decode(errors='replace')}"
            raise RestPeerError(message)
        return json.loads(line)
