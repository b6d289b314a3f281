"""What Java Paimon on Spark answered, kept beside the tests: it need not run each time.

Java 2.1 does not change, nor do the scripts and tables that it is asked about. So its answers are
kept in ``recorded/``, each with a digest of the question. A changed question makes a record stale;
then the test says how to make it again. ``make record-java`` runs Java and writes the records;
with ``TIDELAKE_SIZE=full`` Java runs too, and the records must be what it answers.

A record is an archive (tar, xz) of ``record.json`` and, where Java wrote tables, of their files.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sizes import FULL, SIZE

PLACE = Path(__file__).with_name("recorded")
HERE = Path(__file__).parent
RECORD = "record.json"
STALE = "Java has not answered this question yet: run `make record-java`"


def is_rewritten() -> bool:
    """Whether Java is asked, and its answers are kept."""
    return "TIDELAKE_RECORD" in os.environ


def is_live() -> bool:
    """Whether Java is asked."""
    return is_rewritten() or SIZE is FULL


def digest(*parts: Path | str) -> str:
    """Names a question: files by their bytes, and texts."""
    found = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        found.update(f"{len(data)}:".encode() + data)
    return found.hexdigest()[:16]


def load(name: str, question: str, to: Path | None = None) -> dict[str, Any]:
    """The answers of a record, and its tables' files put into a directory."""
    path = PLACE / f"{name}.tar.xz"
    assert path.is_file(), f"{name}: {STALE}"
    with tarfile.open(path) as archive:
        member = archive.extractfile(RECORD)
        assert member is not None
        kept: dict[str, Any] = json.load(member)
        assert kept.pop("question") == question, f"{name}: {STALE}"
        if to is not None:
            files = [m for m in archive.getmembers() if m.name != RECORD]
            archive.extractall(to, files, filter="data")
    return kept


def keep(name: str, question: str, answers: dict[str, Any], tables: Sequence[Path] = ()) -> None:
    """Write a record; equal answers and files give equal bytes."""
    PLACE.mkdir(exist_ok=True)
    text = json.dumps({"question": question, **answers}, ensure_ascii=False, sort_keys=True)
    with tarfile.open(PLACE / f"{name}.tar.xz", "w:xz") as archive:
        _add(archive, RECORD, text.encode())
        for table in tables:
            for path in sorted(p for p in table.rglob("*") if p.is_file()):
                _add(archive, str(path.relative_to(table.parent)), path.read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
