"""Tells snapshots of a table from those of a dropped one that had its name.

A store without directories cannot keep a late commit to a dropped table out of the table that was
created under its name: see :mod:`tidelake.commit.store_snapshot_commit`. Whoever wrote it takes it
back, but others may look before, or the writer may have died. So

1. On such a store each snapshot carries, in its ``properties``, the number and the time of the
   schema that its writer opened: ``tidelake.opened-schema`` = ``<id>@<ms since the epoch>``. A
   schema file is written once, and a drop lies between the first ones of two tables of one name. So
   two clocks would have to be wrong by just so much that both have the same.
2. A reader knows its own schema and compares. Of a snapshot with another mark it reads the schema
   file that the mark names, once in a process. If that is of the mark's time, the snapshot is the
   table's: what the table has stored decides, not what this handle holds (a draft of a schema, or
   one that another engine replaced).
3. Else the reader first makes sure that the table is still the one that it opened itself; that is
   an error of its own. Then the snapshot is another table's: it counts as missing, and is logged.

A snapshot without a mark, of other engines and older versions, is believed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.paths import TablePaths
from tidelake.telemetry import PerProcess
from tidelake.types import TableSchema

_LOG = logging.getLogger("tidelake")
OPENED_SCHEMA = "tidelake.opened-schema"
"""Key in a snapshot's properties (on disk: never rename)."""
KNOWN_MAX = 10_000
"""Schemas whose times, and snapshots whose warnings, a process remembers."""

_KNOWN: PerProcess[dict[tuple[str, int, int, int], int]] = PerProcess(dict)
"""Times of schemas, by place, schema that the table was opened with (id, time), and id."""
_TOLD: PerProcess[dict[tuple[str, int, int, int], object]] = PerProcess(dict)
"""Snapshots that a warning was logged of, by place, id and mark: who told."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One of the tables that a name had, on a store without directories."""

    fileio: FileIO
    paths: TablePaths
    schema: TableSchema

    @classmethod
    def of(cls, fileio: FileIO, paths: TablePaths, schema: TableSchema) -> Incarnation | None:
        """The table as it was opened; None where an open directory tells it from others."""
        return None if fileio.holds_directories else cls(fileio, paths, schema)

    @property
    def properties(self) -> Mapping[str, str]:
        """What its snapshots carry."""
        return {OPENED_SCHEMA: f"{self.schema.id}@{self.schema.time_ms}"}

    def is_mark_of(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot's writer opened the table with this very schema."""
        return _mark(snapshot) == (self.schema.id, self.schema.time_ms)

    def has(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is this table's, as far as its mark tells.

        Raises
        ------
        NotFoundError
            This table was dropped, and perhaps created again.
        """
        mark = _mark(snapshot)
        if mark is None or mark == (self.schema.id, self.schema.time_ms):
            return True
        if self._has_schema(*mark):
            return True
        self._check_same()
        self._warn(snapshot.id, *mark)
        return False

    def _has_schema(self, schema_id: int, time_ms: int) -> bool:
        key = (self._where, self.schema.id, self.schema.time_ms, schema_id)
        known = _KNOWN.value
        if known.get(key) == time_ms:
            return True
        try:
            found = SchemaLog(self.fileio, self.paths).load(schema_id).time_ms
        except NotFoundError:
            return False
        except (CorruptError, UnsupportedError):
            return True  # damage tells nothing: whoever needs what the file says has the error
        if found != time_ms:
            return False
        if len(known) >= KNOWN_MAX:
            known.clear()
        known[key] = found
        return True

    @property
    def _where(self) -> str:
        return self.fileio.uri_of(self.paths.log_dir)

    def _warn(self, snapshot_id: int, schema_id: int, time_ms: int) -> None:
        told, own = _TOLD.value, object()
        if len(told) >= KNOWN_MAX:
            told.clear()
        if told.setdefault((self._where, snapshot_id, schema_id, time_ms), own) is not own:
            return
        _LOG.warning(
            "Snapshot %s in %s is passed over: it was made with a schema %s that has another time"
            " than the table's, so it is a late commit to a dropped table of that name. A table"
            " that was copied needs its schema files, too.",
            snapshot_id,
            self._where,
            schema_id,
        )

    def _check_same(self) -> None:
        SchemaLog(self.fileio, self.paths).check_same(self.schema, table=self._where)


def _mark(snapshot: Snapshot) -> tuple[int, int] | None:
    text = (snapshot.properties or {}).get(OPENED_SCHEMA, "")
    schema_id, _, time_ms = text.partition("@")
    if not (schema_id.isdecimal() and time_ms.isdecimal()):
        return None
    return int(schema_id), int(time_ms)
