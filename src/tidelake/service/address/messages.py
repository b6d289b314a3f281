"""Values of this room as messages, and back."""

from __future__ import annotations

from tidelake.service.address.snapshot_scanner import TableVersion
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


def version_message(version: TableVersion) -> pb.Version:
    """A version as a message."""
    return pb.Version(
        generation=version.generation, snapshot=version.snapshot, schema=version.schema
    )


def version_from(message: pb.Version) -> TableVersion:
    """A version of a message."""
    return TableVersion(message.generation, message.snapshot, message.schema)
