"""Forged metadata: the newest snapshot's manifest rewritten, with lists and snapshot that agree.

What a damaged bit cannot do an attacker, or a broken writer, can: bytes that decode and fit each
other, and say what no writer says. Files are read with fastavro and JSON, and written without
checksums, as other writers do.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from proving.world import LOCATION

Change = Callable[[dict[str, Any]], None]


def _read(data: bytes) -> tuple[Any, list[dict[str, Any]]]:
    reader = fastavro.reader(io.BytesIO(data))
    return reader.writer_schema, list(reader)


def _written(schema: Any, records: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="null")
    return out.getvalue()


def forged(
    files: dict[str, bytes],
    *,
    entry: Change | None = None,
    listed: Change | None = None,
    copies: int = 1,
    snapshot: Change | None = None,
) -> dict[str, bytes]:
    """Change the first entry, the row of its manifest in the list, and the snapshot, in this order.

    The row comes `copies` times.

    Parameters
    ----------
    files : dict of str to bytes
        A table's files by path.

    Returns
    -------
    dict of str to bytes
        The same files with the newest snapshot's delta, its list and the snapshot rewritten.
    """
    files = dict(files)
    path = max(p for p in files if "/snapshot/snapshot-" in p)
    document = json.loads(files[path])
    document.pop("tidelake.checksum", None)
    list_path = f"{LOCATION}/manifest/{document['deltaManifestList']}"
    list_schema, rows = _read(files[list_path])
    manifest_path = f"{LOCATION}/manifest/{rows[0]['_FILE_NAME']}"
    schema, entries = _read(files[manifest_path])
    if entry is not None:
        entry(entries[0])
    files[manifest_path] = _written(schema, entries)
    rows[0]["_FILE_SIZE"] = len(files[manifest_path])
    if listed is not None:
        listed(rows[0])
    rows[:1] = [rows[0]] * copies
    files[list_path] = _written(list_schema, rows)
    document["deltaManifestListSize"] = len(files[list_path])
    if snapshot is not None:
        snapshot(document)
    files[path] = json.dumps(document).encode()
    return files
