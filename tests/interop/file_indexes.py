"""Java Paimon's file indexes by way of ``java/FileIndexes.java``: made there, or asked there."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interop.readers import JavaCore
from tidelake.format.file_index.index_writer import FileIndexWriter
from tidelake.options import Options
from tidelake.options.file_index import file_index_settings
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import Compare, In, IsNull, NotNull, Predicate
from tidelake.types.values import storage_to_arrow

__all__ = ["ask_java", "cell", "our_container", "to_predicate"]


def ask_java(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All answers of one JVM."""
    java = JavaCore()
    java.prepare()
    with tempfile.TemporaryDirectory(prefix="file-indexes-") as scratch:
        asked, answered = Path(scratch, "asked"), Path(scratch, "answered")
        asked.write_text("".join(json.dumps(r) + "\n" for r in requests))
        command = java.command(asked, answered, Path(scratch))
        command[command.index("Dump")] = "FileIndexes"
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
            check=False, env=dict(os.environ),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        return [json.loads(line) for line in answered.read_text().splitlines()]


def cell(value: Any, type_text: str) -> Any:
    """A storage value as the Java program reads it."""
    root = type_text.partition("(")[0].partition(" ")[0]
    if value is None or root in {"BOOLEAN", "STRING", "CHAR", "VARCHAR"}:
        return value
    if root == "FLOAT":
        return struct.unpack(">i", struct.pack(">f", value))[0]
    if root == "DOUBLE":
        return struct.unpack(">q", struct.pack(">d", value))[0]
    if root in {"BYTES", "BINARY", "VARBINARY"}:
        return value.hex()
    if root == "DECIMAL":
        return str(value)
    if root == "TIMESTAMP":
        return [value // 1_000_000, value % 1_000_000]
    return value


def our_container(
    type_text: str, kind: str, values: Sequence[Any], options: dict[str, str] | None = None
) -> bytes:
    """The container that we write for a column ``a``."""
    field = DataField(0, "a", parse_type(type_text))
    texts = {f"file-index.{kind}.columns": "a"}
    texts |= {f"file-index.{kind}.a.{k}": v for k, v in (options or {}).items()}
    writer = FileIndexWriter([field], file_index_settings(Options.parse(texts)))
    half = len(values) // 2
    for part in (values[:half], values[half:]):
        column = storage_to_arrow(part, field.type)
        writer.add(pa.RecordBatch.from_arrays([column], names=["a"]))
    return writer.finish()


def to_predicate(asked: Sequence[Any]) -> Predicate:
    """The same question for us: an operator and storage values."""
    op, *literals = asked
    if op == "is null":
        return IsNull("a")
    if op == "is not null":
        return NotNull("a")
    return In("a", tuple(literals)) if op == "in" else Compare(op, "a", literals[0])
