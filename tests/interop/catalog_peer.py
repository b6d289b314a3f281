"""Another engine's catalog that is talked to, one command a line (``java/Catalogs.java``)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from interop.readers import CACHE, JavaCore, Pypaimon, _run, _tool, environment

DRIVERS = ("org.xerial:sqlite-jdbc:3.46.1.3", "org.postgresql:postgresql:42.7.4")


class PeerError(Exception):
    """The other engine refuses or fails; its own words."""


class CatalogPeer:
    """A process of another engine. To be used with ``with``.

    Parameters
    ----------
    command : sequence of str
        Starts it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )

    def __enter__(self) -> CatalogPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def open(self, options: Mapping[str, str]) -> None:
        """Open a catalog; the commands after this are for it."""
        self.do("open", *(f"{key}={value}" for key, value in options.items()))

    def tables(self) -> dict[str, str]:
        """The tables and their rows as text, ``1=a,2=b``; databases with an empty row."""
        pairs = (line.partition("\t") for line in self.do("list"))
        return {name: rows for name, _, rows in pairs}

    def do(self, *words: str) -> list[str]:
        """Give a command; the lines of its answer.

        Raises
        ------
        PeerError
            It refused, or died.
        """
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            answered = line.rstrip("\n")
            if answered == ".":
                return lines
            if answered.startswith("! "):
                raise PeerError(answered)
            lines.append(answered)
        message = f"it died at {words[0]}"
        raise PeerError(message)


def java_catalogs(java: JavaCore) -> CatalogPeer:
    """Java Paimon with the drivers of both databases, fetched on first use.

    Raises
    ------
    AbsentError
        They cannot be had.
    """
    jars = []
    for driver in DRIVERS:
        _, name, version = driver.split(":")
        jar = CACHE / "jdbc" / f"{name}-{version}.jar"
        if not jar.is_file():
            _run(
                [_tool("mvn"), "-q", "-B", "dependency:copy", f"-Dartifact={driver}",
                 f"-DoutputDirectory={jar.parent}"],
                what=f"fetching {driver} with Maven",
            )  # fmt: skip
        jars.append(str(jar))
    class_path = os.pathsep.join([java.class_path, *jars])
    return CatalogPeer([_tool("java"), *java.settings, "-cp", class_path, "Catalogs"])


def pypaimon_catalogs(reader: Pypaimon) -> CatalogPeer:
    """pypaimon 2.1.0."""
    program = Path(__file__).with_name("pypaimon_catalogs.py")
    return CatalogPeer([str(reader.python), str(program)])
