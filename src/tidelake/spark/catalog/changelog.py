"""``SELECT ... FROM t CHANGES FROM VERSION 3 TO VERSION 7``: what commits changed.

A commit's changes are the difference between its snapshot and the one before
(:func:`tidelake.table.changelog.changelog_plan.planned_changes`, mode ``diff``): every changed row,
once or as a pair before and after, for every kind of table. ``deduplicationMode = 'netChanges'``
gives one difference between the ends, at the last commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.streams import planned_changes
from tidelake.engine.tables import Table
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject
from tidelake.spark.catalog.scans.scan_builder import RowsScanBuilder
from tidelake.spark.catalog.table import CATALOG, Relation
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.changes_frame import changes_frame
from tidelake.spark.read.plan_size import no_rows
from tidelake.spark.read.table_frame import in_session

COMMITS_MAX = 1000
"""Commits that one query may read one by one: each needs its own plan."""
MICROS_PER_MS = 1000
NET_CHANGES = "netChanges"
CHANGE_TYPE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
_KINDS = {"+I": "insert", "-D": "delete", "-U": "update_preimage", "+U": "update_postimage"}


@dataclass(frozen=True, slots=True)
class _Step:
    """From the snapshot before to a snapshot; 0 is the empty table."""

    before: int
    after: int


class TableChangelog(Relation, implements=(f"{CATALOG}.Changelog",)):
    """The changes of a table in a range.

    Parameters
    ----------
    gateway, name
        As of every table.
    context : JavaObject
        Spark's ``ChangelogContext``: the range, and what to leave out.
    """

    def __init__(self, gateway: Gateway, name: str, table: Table, context: JavaObject) -> None:
        super().__init__(gateway, name)
        self._table = in_session(gateway.spark, table)
        own = spark_schema(self._table.table_schema.fields, table=name)
        if {CHANGE_TYPE, VERSION, TIME} & set(own.names):
            message = (
                f"Table '{name}' has a column of the name {CHANGE_TYPE}, {VERSION} or {TIME}, which"
                " CHANGES adds: read the changes with tl.changes."
            )
            raise InvalidInputError(message, kind="spark_changes", table=name)
        self._struct = st.StructType(
            [
                *own.fields,
                st.StructField(CHANGE_TYPE, st.StringType()),
                st.StructField(VERSION, st.LongType()),
                st.StructField(TIME, st.TimestampType()),
            ]
        )
        before, after = self._ends(context.range())
        net = str(context.deduplicationMode().value()).lower() == NET_CHANGES.lower()
        self._steps: list[_Step] = []
        if before < after:
            ids = [before, after] if net else list(range(before, after + 1))
            self._steps = [_Step(*pair) for pair in pairwise(ids)]
        if len(self._steps) > COMMITS_MAX:
            message = (
                f"CHANGES of table '{name}' from snapshot {before} to {after} covers"
                f" {len(self._steps)} commits one by one, but at most {COMMITS_MAX} are allowed."
                " Ask for fewer, or for the net change: WITH (deduplicationMode ="
                f" '{NET_CHANGES}')."
            )
            raise InvalidInputError(message, kind="spark_changes", table=name)

    def columns(self) -> JavaObject:
        """The table's columns and the three of every changelog."""
        return self._columns_of(self._struct)

    def containsCarryoverRows(self) -> bool:
        """Rows that were only rewritten are none."""
        return False

    def containsIntermediateChanges(self) -> bool:
        """None are left where net changes are asked for."""
        return False

    def representsUpdateAsDeleteAndInsert(self) -> bool:
        """Updates are pairs of their own kinds."""
        return False

    def rowId(self) -> JavaObject:
        """Nothing is left for Spark to pair."""
        return self.gateway.array(f"{CONNECTOR}.expressions.NamedReference", ())

    def rowVersion(self) -> None:
        """Nothing is left for Spark to pair."""

    def newScanBuilder(self, _options: JavaObject) -> JavaObject:
        """Begin a read."""
        return RowsScanBuilder(self.gateway, self._rows, self._struct, f"changes of {self._name}")

    def _rows(self, columns: Sequence[str]) -> DataFrame:
        frames = list(self._frames(columns))
        if frames:
            return reduce(DataFrame.unionAll, frames)
        empty = st.StructType([self._struct[name] for name in columns])
        return no_rows(self.gateway.spark, empty)

    def _frames(self, columns: Sequence[str]) -> Iterator[DataFrame]:
        handle = self._table.handle
        names = self._table.table_schema.field_names
        wanted = [name for name in columns if name in names] or [names[0]]
        for step in self._steps:
            changes = planned_changes(
                handle, step.before, step.after, columns=wanted, where=None, mode="diff"
            )
            time_ms = handle.snapshots.load(step.after).time_ms
            kind = F.lit(None).cast("string")
            for sign, word in _KINDS.items():
                kind = F.when(F.col(ROW_KIND_COLUMN) == sign, word).otherwise(kind)
            own = {
                CHANGE_TYPE: kind,
                VERSION: F.lit(step.after).cast("bigint"),
                TIME: F.timestamp_millis(F.lit(time_ms).cast("bigint")),
            }
            rows = changes_frame(self.gateway.spark, changes, table=self._name)
            yield rows.select(
                *(own[name].alias(name) if name in own else quoted(name) for name in columns)
            )

    # ---- the range

    def _ends(self, asked: JavaObject) -> tuple[int, int]:
        """The snapshot before the first change, and that of the last."""
        snapshots = self._table.handle.snapshots
        newest = snapshots.latest_id() or 0
        kind = asked.getClass().getSimpleName()
        if kind == "VersionRange":
            first = self._id_of(str(asked.startingVersion()))
            last = newest
            if asked.endingVersion().isPresent():
                last = self._id_of(str(asked.endingVersion().get()))
                last -= 0 if asked.endingBoundInclusive() else 1
            return first - (1 if asked.startingBoundInclusive() else 0), last
        if kind == "TimestampRange":
            start = int(asked.startingTimestamp()) / MICROS_PER_MS
            first = self._last_by(start, with_equal=not asked.startingBoundInclusive())
            last = newest
            if asked.endingTimestamp().isPresent():
                end = int(asked.endingTimestamp().get()) / MICROS_PER_MS
                last = self._last_by(end, with_equal=bool(asked.endingBoundInclusive()))
            return first, last
        message = f"CHANGES of table '{self._name}' need a range: FROM VERSION 3 TO VERSION 7."
        raise InvalidInputError(message, kind="spark_changes", table=self._name)

    def _id_of(self, version: str) -> int:
        travel = self._table.handle.time_travel
        if version.isdecimal() and version not in self._table.handle.tags.names():
            return travel.by_id(int(version)).id
        return travel.by_tag(version).id

    def _last_by(self, time_ms: float, *, with_equal: bool) -> int:
        """The newest snapshot before a time; the one before the earliest if all are later."""
        snapshots = self._table.handle.snapshots
        earliest, newest = snapshots.earliest_id(), snapshots.latest_id()
        if earliest is None or newest is None:
            return 0
        found = earliest - 1
        for number in range(earliest, newest + 1):
            try:
                own: Any = snapshots.load(number).time_ms
            except NotFoundError:  # it expired meanwhile
                continue
            if own < time_ms or (with_equal and own == time_ms):
                found = number
        return found
