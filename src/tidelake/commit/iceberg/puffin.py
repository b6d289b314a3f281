r"""Deletion vectors in Puffin files, where every Iceberg reader finds them.

Layout (on disk: never renumber)::

    magic     4 bytes   50 46 41 31 "PFA1"
    blobs               one deletion vector each (:mod:`tidelake.metadata.index.deletion_vector`)
    magic     4 bytes
    payload             JSON: type, offset and length of each blob, its data file, its cardinality
    size      i32       bytes of the payload, little-endian
    flags     4 bytes   0: the payload is not compressed
    magic     4 bytes

Paimon's index files hold the same blobs, and Java names them in place. But readers that begin with
the footer (DuckDB 1.5, pyiceberg 0.12) refuse such a file, so the vectors are copied: they are
small, and each is copied once. Vectors of 32 bits become vectors of 64.

Source: the Iceberg specification, "Puffin spec" and "Deletion vector blob".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = b"PFA1"
ROW_POSITION_FIELD_ID = 2_147_483_645
NO_SNAPSHOT = -1
"""Vectors take snapshot and sequence number from the manifest."""
_FLAGS = bytes(4)


@dataclass(frozen=True, slots=True)
class Blob:
    """A deletion vector.

    Parameters
    ----------
    frame : bytes
        The vector, of 64 bits.
    """

    data_file: str
    frame: bytes
    cardinality: int


def puffin_file(blobs: Sequence[Blob]) -> tuple[bytes, list[int]]:
    """Give the bytes of a file, and where each blob begins."""
    out = bytearray(MAGIC)
    offsets = []
    for blob in blobs:
        offsets.append(len(out))
        out += blob.frame
    described = [
        {
            "type": "deletion-vector-v1",
            "fields": [ROW_POSITION_FIELD_ID],
            "snapshot-id": NO_SNAPSHOT,
            "sequence-number": NO_SNAPSHOT,
            "offset": offset,
            "length": len(blob.frame),
            "properties": {
                "referenced-data-file": blob.data_file,
                "cardinality": str(blob.cardinality),
            },
        }
        for blob, offset in zip(blobs, offsets, strict=True)
    ]
    payload = json.dumps({"blobs": described}, ensure_ascii=False).encode()
    out += MAGIC + payload + len(payload).to_bytes(4, "little") + _FLAGS + MAGIC
    return bytes(out), offsets
