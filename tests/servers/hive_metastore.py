"""A real Hive Metastore: Hive 2.3's, of the jars in Spark's wheel, on Derby in memory.

Nothing is downloaded and nothing is kept. It is ready when it lists its databases.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from servers.ports import free_port
from servers.program import tool
from tidelake.catalog.hive.connection import MetastoreConnection
from tidelake.errors import StorageRefusedError

START_SECONDS_MAX = 120
JARS = Path(pyspark.__file__).parent / "jars"
_JAVA = (
    "-Xmx300m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "none",  # the pool's jar is not in the wheel
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
    "hive.in.test": "true",  # it makes the tables of locks
}


@dataclass(frozen=True)
class HiveMetastoreServer:
    """A running one."""

    port: int

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def options(self, **more: str) -> dict[str, str]:
        """Those of a catalog."""
        return {"metastore": "hive", "uri": self.uri, **more}


@contextmanager
def hive_metastore() -> Iterator[HiveMetastoreServer]:
    """Run one until the block ends.

    Raises
    ------
    AbsentError
        There is no Java.
    """
    java, port = tool("java", "a Hive Metastore"), free_port()
    with tempfile.TemporaryDirectory(prefix="tidelake-metastore-") as place:
        rows = (
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in {
                **_SETTINGS,
                "hive.metastore.warehouse.dir": f"file:{place}/default",
            }.items()
        )
        Path(place, "hive-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
        class_path = os.pathsep.join([place, f"{JARS}/*"])
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        with Path(place, "log").open("wb") as log:
            process = subprocess.Popen(
                [java, *_JAVA, "-cp", class_path, main, "-p", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=place,
            )
        try:
            _wait(process, port, Path(place, "log"))
            yield HiveMetastoreServer(port)
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    asked = MetastoreConnection((("127.0.0.1", port),), timeout_ms=60_000, user="test")
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            asked.read("get_all_databases")
        except StorageRefusedError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-2000:]
                message = f"the metastore did not start: {said}"
                raise AssertionError(message) from error
            time.sleep(0.1)
        else:
            return
