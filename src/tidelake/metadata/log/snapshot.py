"""One committed version of a table: the JSON file ``snapshot/snapshot-<N>``.

Source: ``docs/format/snapshot.md``; files written by Java Paimon 1.3.1 and 2.1. All three can read
the file: it has all keys of 1.3.1, in its order, and `null` where 1.3.1 writes null. The list of
snapshots is :mod:`tidelake.metadata.log.snapshot_log`.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.log.json_file import parse_json
from tidelake.types.json_checksum import with_checksum

SNAPSHOT_VERSION = 3  # on disk: never renumber
BATCH_IDENTIFIER = 2**63 - 1
"""Commit identifier of every batch write, as in Paimon: it distinguishes no two commits."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""A name that every JSON writer encodes alike."""


class CommitKind(enum.StrEnum):
    """The kind of a snapshot's commit (on disk: never rename)."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the table. Field order is the order on disk.

    Parameters
    ----------
    id : int
        Number of the snapshot, from 1.
    schema_id : int
        The table's newest schema when it was committed.
    base_manifest_list, delta_manifest_list : str
        File names: the state before this commit, and its changes.
    commit_user, commit_identifier, commit_kind
        Who committed what; together they are applied at most once.
    time_ms : int
        When, ms since the epoch; never before the previous snapshot's.
    total_record_count, delta_record_count : int, optional
        Physical rows of the state, and the change by this commit.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    base_manifest_list_size_bytes: int | None = None
    delta_manifest_list_size_bytes: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size_bytes: int | None = None
    index_manifest: str | None = None
    log_offsets: Mapping[str, int] = field(default_factory=_empty)
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    uuid: str | None = None
    writer_version: str | None = None
    operation: str | None = None
    extra: Mapping[str, Any] = field(default_factory=_empty)

    @property
    def identity(self) -> str:
        """What tells this snapshot from another that has its id, as after a rollback.

        It is the name of the list of its delta: each commit makes a new one, Java Paimon too, and
        copies of the snapshot in tags and long-lived changelogs keep it. Where a commit is tried
        again on a newer base the name may stay, so compare it along with the id.
        """
        return self.delta_manifest_list

    @property
    def state_key(self) -> tuple[int, str, str]:
        """What its copies in tags and branches share, and no other snapshot has."""
        return self.id, self.base_manifest_list, self.delta_manifest_list

    def to_document(self) -> dict[str, Any]:
        """The snapshot as the JSON object of its file."""
        document: dict[str, Any] = {"version": SNAPSHOT_VERSION}
        for name, key in _KEYS.items():
            value = getattr(self, name)
            if value is not None or name in _ALWAYS:
                document[key] = dict(value) if isinstance(value, Mapping) else value
        return document | dict(self.extra)

    def to_json(self) -> str:
        """The text of the snapshot file.

        Examples
        --------
        >>> kind = CommitKind.APPEND
        >>> s = Snapshot(1, 0, "list-a-0", "list-a-1", "me", 7, kind, time_ms=0)
        >>> Snapshot.from_json(s.to_json()) == s
        True
        """
        return json.dumps(with_checksum(self.to_document()), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str = "snapshot") -> Snapshot:
        """Read a snapshot file.

        Raises
        ------
        CorruptError
            The text is not a snapshot; the message names the file.
        UnsupportedError
            Its version is newer than this library knows.
        """
        return cls.from_document(parse_json(text, path=path), path=path)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, path: str) -> Snapshot:
        """Read the JSON object of a snapshot file; see :meth:`from_json`."""
        try:
            version = _number(document.get("version", SNAPSHOT_VERSION), "version")
            if version > SNAPSHOT_VERSION:
                message = (
                    f"Snapshot file {path} has version {version}; this library reads up to"
                    f" {SNAPSHOT_VERSION}. Upgrade tidelake."
                )
                raise UnsupportedError(message, kind="snapshot_version", path=path)
            known = {name: _value(name, document.get(key)) for name, key in _KEYS.items()}
            extra = {k: v for k, v in document.items() if k not in _KNOWN_KEYS}
            return cls(**known, extra=MappingProxyType(extra))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"Snapshot file {path} cannot be read: {error!r}. Restore it from a backup."
            raise CorruptError(message, kind="snapshot_file", path=path) from error

    def __reduce__(self) -> tuple[object, ...]:
        # MappingProxyType does not pickle; snapshots travel to Spark executors.
        return (Snapshot.from_json, (self.to_json(),))


_KEYS = {
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size_bytes": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size_bytes": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size_bytes": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_ms": "timeMillis",
    "log_offsets": "logOffsets",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
"""Field to key of the file, in the file's order (on disk: never rename)."""
_KNOWN_KEYS = frozenset(_KEYS.values()) | {"version"}
_ALWAYS = frozenset({"changelog_manifest_list"})
"""Written even if null, as 1.3.1 does."""
_TEXTS = frozenset({"base_manifest_list", "delta_manifest_list", "commit_user"})
_OPTIONAL_TEXTS = frozenset(
    {"changelog_manifest_list", "index_manifest", "statistics", "uuid", "writer_version"}
) | {"operation"}
_NUMBERS = frozenset({"id", "schema_id", "commit_identifier", "time_ms"})


def _value(name: str, value: Any) -> Any:
    if name == "commit_kind":
        return CommitKind(value)
    if name == "log_offsets":
        return MappingProxyType(dict(value or {}))
    if name == "properties":
        return (
            None if value is None else MappingProxyType({str(k): str(v) for k, v in value.items()})
        )
    if name in _TEXTS or (name in _OPTIONAL_TEXTS and value is not None):
        if not isinstance(value, str):
            raise TypeError(f"{_KEYS[name]} is {value!r}, not text")
        return value
    if name in _NUMBERS or (value is not None and name not in _OPTIONAL_TEXTS):
        return _number(value, _KEYS[name])
    return None


def _number(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} is {value!r}, not a whole number")
    return value


def names_another(data: bytes, user: str) -> bool:
    """Whether a snapshot file certainly names another user; one that is to be parsed may do so.

    Examples
    --------
    >>> names_another(b'{"commitUser": "a"}', "b"), names_another(b'{"commitUser": "a', "b")
    (True, False)
    """
    text = data.strip()
    is_whole = text.startswith(b"{") and text.endswith(b"}") and b'"commitUser"' in text
    # escaped characters may encode the name otherwise
    is_plain = _PLAIN_NAME.fullmatch(user) is not None and b"\\" not in text
    return is_whole and is_plain and user.encode() not in text
