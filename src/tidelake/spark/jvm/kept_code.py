"""Bytecode that Janino has made, kept for the next session in the user's cache folder.

A young JVM compiles our classes in two seconds, most of ``attach``. The code depends on their Java
and on Spark's classes alone, so a file is named by both: the text, the versions, and the jars of
Spark with their sizes and times. Where no file can be written, each session compiles.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tidelake.spark.cache_home import cache_home

_JARS = "spark-*.jar"
_CHECK_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class KeptCode:
    """The code of the classes that were compiled beside the same jars.

    Parameters
    ----------
    folder : Path, optional
        None if nothing can be kept.
    jars : str
        The jars, in short.
    """

    folder: Path | None
    jars: str = ""

    @classmethod
    def beside(
        cls, jar: Path | None, *, spark: str, java: str, folder: Path | None = None
    ) -> KeptCode:
        """The code for a JVM.

        Parameters
        ----------
        jar : Path, optional
            A jar of Spark's in it; None if that is unknown.
        spark, java : str
            Versions.
        folder : Path, optional
            Where files are; the user's cache by default.
        """
        try:
            stats = (
                [(one.name, one.stat()) for one in sorted(jar.parent.glob(_JARS))] if jar else []
            )
            home = folder or cache_home(os.environ) / "java"
        except (OSError, RuntimeError):  # the second: a user without a home
            return cls(None)
        if not stats:  # the JVM has the disk of another machine
            return cls(None)
        shown = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats]
        return cls(home, "\n".join([spark, java, *shown]))

    def get(self, name: str, text: str) -> bytes | None:
        """The code of a class of this Java; None if it is not here, or damaged."""
        if self.folder is None:
            return None
        try:
            found = self._path(name, text).read_bytes()
        except OSError:
            return None
        check, code = found[:_CHECK_BYTES], found[_CHECK_BYTES:]
        return code if check == hashlib.sha256(code).digest() else None

    def put(self, name: str, text: str, code: bytes) -> None:
        """Keep the code of a class, if the disk takes it."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=self.folder, prefix=".making-")
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            Path(made).replace(self._path(name, text))

    def _path(self, name: str, text: str) -> Path:
        assert self.folder is not None
        digest = hashlib.sha256(f"{self.jars}\n{text}".encode()).hexdigest()
        return self.folder / f"{name.rsplit('.', 1)[-1]}-{digest[:32]}.code"
