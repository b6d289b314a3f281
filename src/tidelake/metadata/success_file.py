"""Success files: small files that tell other programs that something is complete.

A document with ``creationTime`` and ``modificationTime``, in ms. ``_SUCCESS`` in a partition's
directory says that the partition is done; ``tag/tag-success-file/<name>_SUCCESS`` that a tag was
made. Source: Paimon's ``SuccessFile`` (2.1).
"""

from __future__ import annotations

import json

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.log.json_file import parse_json


def write_success_file(fileio: FileIO, path: str, *, now_ms: int) -> None:
    """Write a success file; one that is there keeps the time of its making.

    Raises
    ------
    CorruptError
        The file that is there is of another kind.
    """
    try:
        made_ms = _creation_ms(fileio.read_bytes(path), path)
    except NotFoundError:
        made_ms = now_ms
    document = {"creationTime": made_ms, "modificationTime": now_ms}
    fileio.replace(path, json.dumps(document, indent=2).encode())


def _creation_ms(data: bytes, path: str) -> int:
    made = parse_json(data, path=path).get("creationTime")
    if not isinstance(made, int):
        message = f"{path} has no creationTime, so Paimon did not write it: remove it."
        raise CorruptError(message, kind="success_file", path=path)
    return made
