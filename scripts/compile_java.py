"""Compile the Java classes of tidelake.spark.jvm against the Spark that is installed.

Usage: python scripts/compile_java.py

1. By Janino, which Spark ships, on the Java that Spark starts on: as a session compiles them.
2. By javac too, where the machine has one: it sees more mistakes.

A private name of Spark that is gone is an error of either. The class files are thrown away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tidelake.spark.jvm.java_class import java_text
from tidelake.spark.sessions.java_runtime import java_home
from tidelake.spark.versions import minor_of

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ROOT / "src" / "tidelake" / "spark" / "jvm"
JARS = Path(pyspark.__file__).parent / "jars"
JANINO = "org.codehaus.commons.compiler.samples.CompilerDemo"
RELEASE = "17"
SCALA_ONLY = "compiler.err.override.incompatible.ret:"
"""What javac says of a method that a class inherits from Scala, whose types have other bounds."""
INHERITED = "withNewChildrenInternal("


def by_janino(files: Sequence[Path]) -> str:
    """What Janino has against the files; empty if nothing."""
    java = java_home() / "bin" / "java"
    path = os.pathsep.join(map(str, JARS.glob("*.jar")))
    with tempfile.TemporaryDirectory() as made:
        command = [java, "-cp", JARS / "*", JANINO, "-d", made, "-classpath", path, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def by_javac(files: Sequence[Path]) -> str | None:
    """What javac has against the files; None where there is no javac."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None) or shutil.which("javac")
    if javac is None:
        return None
    with tempfile.TemporaryDirectory() as made:
        command = [javac, "-XDrawDiagnostics", "--release", RELEASE, "-proc:none", "-nowarn"]
        command += ["-Xmaxerrs", "1000", "-cp", str(JARS / "*"), "-d", made, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "compiler.err." in line]
    if done.returncode and not errors:  # it could not compile at all
        return done.stderr or f"{javac} ended with {done.returncode}"
    return "\n".join(line for line in errors if SCALA_ONLY not in line or INHERITED not in line)


def main() -> int:
    """Compile them all."""
    names = sorted(path.stem for path in CLASSES.glob("*.java"))
    minor = minor_of(pyspark.__version__)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.java") for name in names]
        for path in files:
            path.write_text(java_text(path.stem, minor), encoding="utf-8")
        against = [by_janino(files), by_javac(files)]
    for text in filter(None, against):
        print(text, file=sys.stderr)
    if any(against):
        return 1
    compilers = "Janino" if against[1] is None else "Janino and javac"
    print(f"java: {len(names)} classes for Spark {minor}, by {compilers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
