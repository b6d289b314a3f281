"""Tags: copies of snapshots that stay readable under a name, ``tag/tag-<name>``.

The file is the snapshot's JSON; a tag with a retention has two keys more: ``tagCreateTime``, the
local wall clock as ``[year, month, day, hour, minute, second, nanos]`` (zero parts at the end may
be missing), and ``tagTimeRetained``, seconds. Source: ``docs/format/tag.md``; files of Java Paimon
1.3.1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    near_names,
)
from tidelake.fileio import FileIO, OpenDirectory, put_new
from tidelake.fileio.name import validate_name
from tidelake.metadata.log.json_file import parse_json
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import Clock
from tidelake.types.json_checksum import with_checksum

_CREATE_TIME, _TIME_RETAINED = "tagCreateTime", "tagTimeRetained"
_PARTS_MIN, _PARTS_MAX = 3, 7
SUCCESS_FILES = "success-file"
"""``tag-success-file`` is the directory of tags' success files (Paimon's)."""
ROLLBACK_PREFIX = "tidelake-rollback-"
"""Prefix of the temporary tag on a rollback's target; the next rollback removes one that a killed
process left."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Tag:
    """A named snapshot.

    Parameters
    ----------
    create_time_ms : int, optional
        Local wall clock of the maker, as if it were UTC (as Paimon does).
    time_retained_ms : int, optional
        How long it is kept; None means for ever.
    """

    name: str
    snapshot: Snapshot
    create_time_ms: int | None = None
    time_retained_ms: int | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether it stays until someone deletes it."""
        return self.time_retained_ms is None and not self.name.startswith(ROLLBACK_PREFIX)

    def to_json(self) -> str:
        """The text of the tag's file."""
        document = self.snapshot.to_document()
        if self.create_time_ms is not None and self.time_retained_ms is not None:
            made = _EPOCH + timedelta(milliseconds=self.create_time_ms)
            day_and_time = (made.year, made.month, made.day, made.hour, made.minute, made.second)
            document[_CREATE_TIME] = [*day_and_time, made.microsecond * 1000]
            document[_TIME_RETAINED] = self.time_retained_ms / 1000
        return json.dumps(with_checksum(document), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, name: str, path: str) -> Tag:
        """Read a tag's file.

        Raises
        ------
        CorruptError
            The text is not a tag; the message names the file.
        """
        snapshot = Snapshot.from_document(parse_json(text, path=path), path=path)
        extra = dict(snapshot.extra)
        made, retained = extra.pop(_CREATE_TIME, None), extra.pop(_TIME_RETAINED, None)
        try:
            return cls(
                name,
                replace(snapshot, extra=MappingProxyType(extra)),
                None if made is None else _local_ms(made),
                None if retained is None else int(Decimal(str(retained)) * 1000),
            )
        except (TypeError, ValueError, ArithmeticError) as error:
            message = f"Tag file {path} cannot be read: {error!r}. Restore it from a backup."
            raise CorruptError(message, kind="tag_file", path=path) from error


def _local_ms(parts: Any) -> int:
    if not isinstance(parts, list) or not _PARTS_MIN <= len(parts) <= _PARTS_MAX:
        raise TypeError(f"{_CREATE_TIME} is {parts!r}")
    year, month, day, *clock = parts
    hour, minute, second, nanos = (*clock, 0, 0, 0, 0)[:4]
    made = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    return int((made - _EPOCH).total_seconds()) * 1000 + nanos // 1_000_000


class TagLog:
    """The tags of one table.

    Parameters
    ----------
    table : str, optional
        Its name, for messages; its location by default.
    """

    def __init__(self, fileio: FileIO, paths: TablePaths, *, table: str = "") -> None:
        self._fileio = fileio
        self._paths = paths
        self._table = table or paths.location

    def names(self) -> list[str]:
        """Names of all tags, sorted."""
        listing = self._fileio.list_dir(self._paths.tag_dir)
        return sorted(
            s.name.removeprefix("tag-")
            for s in listing
            if s.name.startswith("tag-") and not s.is_dir
        )

    def load(self, name: str) -> Tag:
        """Read one tag.

        Raises
        ------
        NotFoundError
            There is no such tag; the message offers near names.
        CorruptError
            Its file is damaged.
        """
        path = self._paths.tag(validate_name(name, "tag"))
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError as error:
            raise self._missing(name) from error
        return Tag.from_json(data, name=name, path=path)

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained_ms: int | None = None,
        clock: Clock | None = None,
        within: OpenDirectory | None = None,
        is_automatic: bool = False,
    ) -> Tag:
        """Make a tag.

        Parameters
        ----------
        name : str
            Not digits only, unless it is automatic: that would look like a snapshot id.

        Raises
        ------
        InvalidInputError
            The name is not allowed for a tag.
        AlreadyExistsError
            There is a tag of that name.
        NotFoundError
            The open directory was removed.
        """
        path = self._paths.tag(validate_name(name, "tag"))
        if not is_automatic:
            path = self._path_of_new(name)
        tag = _tag_of(name, snapshot, time_retained_ms, clock)
        if not put_new(self._fileio, path, tag.to_json().encode(), within=within):
            raise self._taken(name)
        return tag

    def replace(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained_ms: int | None = None,
        clock: Clock | None = None,
    ) -> Tag:
        """Point a tag to another snapshot, with another retention; see :meth:`create`.

        Raises
        ------
        NotFoundError
            There is no such tag.
        """
        path = self._paths.tag(validate_name(name, "tag"))
        if not self._fileio.exists(path):
            raise self._missing(name)
        tag = _tag_of(name, snapshot, time_retained_ms, clock)
        self._fileio.replace(path, tag.to_json().encode())
        return tag

    def rename(self, name: str, new_name: str) -> None:
        """Rename a tag. A crash half-way leaves it under both names.

        Raises
        ------
        NotFoundError
            There is no such tag.
        InvalidInputError
            The new name is not allowed for a tag.
        AlreadyExistsError
            There is a tag of the new name.
        """
        path = self._paths.tag(validate_name(name, "tag"))
        new_path = self._path_of_new(new_name)
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError as error:
            raise self._missing(name) from error
        if not put_new(self._fileio, new_path, data):
            raise self._taken(new_name)
        self._fileio.delete(path)

    def delete(self, name: str) -> None:
        """Remove a tag; its snapshot may expire from then on.

        Raises
        ------
        NotFoundError
            There is no such tag.
        """
        if not self._fileio.delete(self._paths.tag(validate_name(name, "tag"))):
            raise self._missing(name)

    def _path_of_new(self, name: str) -> str:
        path = self._paths.tag(validate_name(name, "tag"))
        if name.isdigit():
            message = f"Tag '{name}' looks like a snapshot id: use a name with a letter in it."
            raise InvalidInputError(message, kind="bad_name", tag=name)
        if name == SUCCESS_FILES:
            message = f"Tag '{name}' would lie where success files of tags lie: use another name."
            raise InvalidInputError(message, kind="bad_name", tag=name)
        return path

    def _taken(self, name: str) -> AlreadyExistsError:
        message = (
            f"Table '{self._table}' already has a tag '{name}': delete it first, or use another"
            " name."
        )
        return AlreadyExistsError(message, kind="tag_exists", tag=name)

    def _missing(self, name: str) -> NotFoundError:
        names = self.names()
        known = f" The tags are: {', '.join(names[:20])}." if names else " It has no tags."
        near = near_names(name, names)
        message = f"Table '{self._table}' has no tag '{name}'.{near}{known}"
        return NotFoundError(message, kind="tag_not_found", tag=name)


def _tag_of(
    name: str, snapshot: Snapshot, time_retained_ms: int | None, clock: Clock | None
) -> Tag:
    made_ms = None
    if time_retained_ms is not None:
        assert clock is not None, "a retention needs a clock"
        made_ms = clock.now_ms() + clock.local_offset_ms()
    return Tag(name, snapshot, made_ms, time_retained_ms)
