"""Offsets of streams: a table, a snapshot, and how much of that snapshot was given.

The text is JSON and goes into checkpoints, so its keys are never renamed (version 1)::

    {"v": 1, "table": "6f1c...", "schema": 2, "snapshot": 7, "index": 0, "phase": "delta"}

The stream has given the first ``index`` **units** of ``snapshot`` in ``phase``. A unit is what a
batch cannot cut: a file, a section of overlapping files, or all that a commit wrote to a bucket. A
finished snapshot N is ``(N + 1, 0, "delta")``.

An offset inside a snapshot has a ``mark``, a checksum of that snapshot's units and their order.
Where the units differ now (another option, another version), the count would mean other rows, so
the stream refuses the offset.

``before`` identifies the snapshot that was given last, N - 1. A snapshot that took its id after a
rollback has another identity: a digest of what never changes in its file
(:func:`snapshot_identity`). Offsets of older versions have no ``before`` and are not compared.
Paimon's progress files of consumers hold ids alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from tidelake.errors import InvalidInputError, NotFoundError, shortened
from tidelake.fileio import FileIO
from tidelake.metadata.log.schema_log import dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import TablePaths

OFFSET_VERSION = 1  # in checkpoints: never renumber
IDENTITY_BYTES = 8
FIRST_SCHEMA = 0

Phase = Literal["full", "delta"]
PHASES: tuple[Phase, ...] = ("full", "delta")


def table_identity(fileio: FileIO, paths: TablePaths, table: str) -> str:
    """Compute the identity of a table: a digest of its first schema.

    A table that was dropped and created again has another identity. The first schema file never
    changes and never expires, and a renamed table keeps it.

    Raises
    ------
    NotFoundError
        The table does not exist.
    """
    try:
        data = fileio.read_bytes(paths.schema(FIRST_SCHEMA))
    except NotFoundError as error:
        raise dropped(table) from error
    return hashlib.blake2s(data, digest_size=IDENTITY_BYTES).hexdigest()


def snapshot_identity(snapshot: Snapshot) -> str:
    """Compute the identity of a snapshot; one that takes its id after a rollback has another.

    A tag's copy and a long-lived changelog of the snapshot have the same identity, since only keys
    that all of them keep count. Each commit makes a new name for the list of its delta.
    """
    constants = (
        snapshot.id,
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind.value,
        snapshot.time_ms,
        snapshot.delta_manifest_list,
    )
    return hashlib.blake2s(json.dumps(constants).encode(), digest_size=IDENTITY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in a table's changes.

    Parameters
    ----------
    phase : {'full', 'delta'}
        Whether the snapshot's state is given, or its changes.
    mark : int
        Checksum of the snapshot's units for an offset inside a snapshot; else 0.
    created_ms : int, optional
        Give only the files of the state that were created at this time (ms since the epoch) or
        later.
    before : str, optional
        Identity of the snapshot that was given last; None where it is unknown.
    """

    table: str
    schema: int
    snapshot: int
    index: int = 0
    phase: Phase = "delta"
    mark: int = 0
    created_ms: int | None = None
    before: str | None = None

    @property
    def position(self) -> tuple[int, int, int]:
        """A tuple that grows along a stream."""
        return self.snapshot, int(self.phase == "full"), self.index

    def to_json(self) -> str:
        """The text for a checkpoint; equal offsets have equal texts.

        Examples
        --------
        >>> StreamOffset("6f1c", 2, 7).to_json()
        '{"v": 1, "table": "6f1c", "schema": 2, "snapshot": 7, "index": 0, "phase": "delta"}'
        """
        document: dict[str, object] = {
            "v": OFFSET_VERSION,
            "table": self.table,
            "schema": self.schema,
            "snapshot": self.snapshot,
            "index": self.index,
            "phase": self.phase,
        }
        if self.mark:
            document["mark"] = self.mark
        if self.created_ms is not None:
            document["created"] = self.created_ms
        if self.before is not None:
            document["before"] = self.before
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str, *, table: str) -> StreamOffset:
        """Read an offset.

        Raises
        ------
        InvalidInputError
            The text is not an offset of a stream, or is of a later version.
        """
        try:
            document = json.loads(text)
            version = document["v"]
            if version == OFFSET_VERSION:
                return cls(
                    _text(document, "table"),
                    _number(document, "schema", 0),
                    _number(document, "snapshot", 1),
                    _number(document, "index", 0),
                    PHASES[PHASES.index(document["phase"])],
                    _number(document, "mark", 0) if "mark" in document else 0,
                    _number(document, "created", 0) if "created" in document else None,
                    _text(document, "before") if "before" in document else None,
                )
            what = f"has version {shortened(repr(version))}, and this library knows version 1"
        except (ValueError, TypeError, KeyError) as error:
            what = f"is not an offset of a stream ({shortened(repr(error))})"
        message = (
            f"Stream of table '{table}': {shortened(repr(text))} {what}. Continue from the"
            " checkpoint that this stream wrote, or begin with a new one."
        )
        raise InvalidInputError(message, kind="stream_offset", table=table)


def _text(document: dict[str, Any], key: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}")
    return value


def _number(document: dict[str, Any], key: str, least: int) -> int:
    value = document[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{key} is {value!r}")
    return value
