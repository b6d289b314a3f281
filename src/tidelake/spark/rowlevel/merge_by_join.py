"""MERGE: changes, deletes and adds rows by the rows of a source, in one commit.

1. The source is read once and kept (``persist``), each row with a number. One small job counts it
   and finds the ranges of the columns that the condition equates with columns of the target. These
   ranges, and the condition's part on the target alone, prune the target's files. If target rows
   without a source row matter too, nothing is pruned.
2. The target's rows are joined with the source; a small source is broadcast, so the target is
   neither sorted nor moved. Only rows with a match, or with something to do, are kept. The first
   clause that fits a row decides its change.
3. Source rows without a pair are inserted: an anti join of the source with the pairs, both of the
   source's size.
4. Before anything is written: it is an error if several source rows would change one target row, or
   if a key would be inserted and changed. If the equated columns are unique in the source, neither
   can happen, and nothing is counted.
5. A primary-key table is written as by :mod:`tidelake.spark.rowlevel.delete_update`: with row
   kinds, and the commit checks whether others wrote to the keys since they were read. An append
   table is changed by :mod:`tidelake.spark.rowlevel.append_delta`. In both cases everything is
   repeated if another commit was faster.

The meaning follows the SQL standard and Spark's and Delta's documentation of MERGE: a null matches
nothing, a null condition does not hold, all new values see the old rows; a sole DELETE without a
condition may meet a row several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.metadata import Snapshot
from tidelake.engine.rows import KEYS_LISTED_MAX, ShownRows, check_none_wait
from tidelake.engine.scan import scan_all_rows
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    DEDUPLICATE,
    ROW_KIND_COLUMN,
    CommitIdentity,
    WriteResult,
    WriteTransaction,
)
from tidelake.errors import UnsupportedError
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import frame_of
from tidelake.spark.rowlevel.append_delta import (
    ACTION_COLUMN,
    FILE_COLUMN,
    POSITION_COLUMN,
    change_once,
)
from tidelake.spark.rowlevel.delete_update import NEW_PREFIX, check_removed, check_shown
from tidelake.spark.rowlevel.merge_by_bucket import by_bucket
from tidelake.spark.rowlevel.merge_cardinality import TOO_MANY_KEYS, KeysOnce, once_fault
from tidelake.spark.rowlevel.merge_clauses import ResolvedMerge
from tidelake.spark.rowlevel.merge_columns import (
    CLAUSE,
    first_of,
    kind_of,
    kind_of_change,
    new_value,
)
from tidelake.spark.write.write_frame import write_frame, write_made_rows
from tidelake.types import RowKind
from tidelake.types.predicate import Always, And, Compare, In, Predicate, bind, conjoin

SOURCE_ROW = "_tidelake_source_row"
"""The number of a source row; null for a target row without one."""
OLD_PREFIX = "_tidelake_old_"
BROADCAST_BYTES_MAX = 64 << 20
VALUE_BYTES = 24
"""The approximate size of a source value in memory."""
_NO_CHANGELOG = "none"
_LISTED = (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.StringType, st.DateType)


def merge_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    merge: ResolvedMerge,
    *,
    identity: CommitIdentity,
    tasks: int | None,
) -> WriteResult:
    """Run a merge; see :meth:`tidelake.spark.Lake.merge`."""
    transaction = WriteTransaction(handle, identity)
    return transaction.run(_Merge(spark, transaction, merge, tasks))


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts from one pass over the source.

    Parameters
    ----------
    is_unique : bool
        Whether no two have the same values in the equated columns.
    predicate : Predicate, optional
        Bound; all rows of the target that a source row can match satisfy it.
    """

    rows_count: int
    is_unique: bool
    predicate: Predicate | None


class _Merge:
    """A merge of a source into a table."""

    def __init__(
        self,
        spark: SparkSession,
        transaction: WriteTransaction,
        merge: ResolvedMerge,
        tasks: int | None,
    ) -> None:
        self.spark = spark
        self.transaction = transaction
        self.handle = transaction.handle
        self.merge = merge
        self.tasks = tasks
        self.kept: list[DataFrame] = []

    def attempt(self) -> WriteResult:
        """Run it on the newest snapshot; releases what it kept on the executors."""
        handle, merge = self.handle, self.merge
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        snapshot = handle.snapshots.latest()
        if snapshot is not None and handle.schema.primary_keys:
            check_none_wait(handle, snapshot)
        merge.fresh()
        if snapshot is not None:
            with handle.hold(snapshot):
                done = self._by_bucket(snapshot)
            if done is not None:
                return done
        try:
            source = self._keep(
                merge.source_rows().withColumn(SOURCE_ROW, F.monotonically_increasing_id())
            )
            facts = _facts(source, handle, merge)
            if not facts.rows_count and not merge.of("not_matched_by_source"):
                return WriteResult()
            if snapshot is None:
                rows = self._inserts(source, None)
                return write_frame(
                    handle,
                    rows,
                    mode="append",
                    partition=None,
                    identity=self.transaction.identity,
                    tasks=self.tasks,
                )
            if handle.schema.primary_keys:
                return self._keyed(source, facts, snapshot)
            return self._appended(source, facts)
        finally:
            while self.kept:
                self.kept.pop().unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist())
        return frame

    # ---- the kinds of tables

    def _by_bucket(self, snapshot: Snapshot) -> WriteResult | None:
        """Run it at the buckets, if possible."""
        handle, merge = self.handle, self.merge
        if not handle.schema.primary_keys:
            return None
        if merge.updates and ShownRows(handle, merge.set_columns).may_be_lost:
            return None
        rows = by_bucket(
            self.spark,
            handle,
            merge,
            snapshot,
            columns=self._columns_read(),
            tasks=self.tasks,
        )
        if rows is None:
            return None
        keys = [handle.schema.field(name) for name in handle.schema.primary_keys]
        try:
            return write_made_rows(
                self.transaction,
                rows,
                read_snapshot=snapshot,
                tasks=self.tasks,
                through=KeysOnce(handle.identifier, keys).through,
            )
        except UnsupportedError as error:
            if error.kind != TOO_MANY_KEYS:
                raise
            return None

    def _columns_read(self) -> tuple[str, ...]:
        """The columns of a primary-key table that are used or kept."""
        handle = self.handle
        columns = (*handle.schema.primary_keys, *handle.schema.partition_keys)
        return self.merge.columns_read(columns, whole_when_deleted=not _deletes_by_key(handle))

    def _keyed(self, source: DataFrame, facts: _Facts, snapshot: Snapshot) -> WriteResult:
        handle, merge = self.handle, self.merge
        shown = ShownRows(handle, merge.set_columns)
        keys = handle.schema.primary_keys
        columns = self._columns_read()
        if shown.may_be_lost and merge.updates:
            columns = handle.schema.field_names
        scan = scan_all_rows(handle, snapshot, facts.predicate, columns=columns)
        target = frame_of(self.spark, scan, table=handle.identifier)
        with_old = shown.may_be_lost and bool(merge.updates)
        pairs = self._pairs(target, source, facts, (), with_old=with_old)
        changes = self._changes(pairs, keys)
        inserts = self._inserts(source, pairs)
        self._check_once(changes, inserts, keys, facts)
        if with_old:
            both = _old_and_new(handle, merge, changes)
            check_shown(handle, shown, both, handle.schema.field_names)
        if merge.deletes:
            check_removed(handle, changes.where(F.col(CLAUSE).isin(list(merge.deletes))))
        names = [F.col(quoted(name)) for name in handle.schema.field_names]
        rows = changes.select(
            *names, kind_of_change(merge.clauses).alias(ROW_KIND_COLUMN)
        ).unionAll(inserts.select(*names, kind_of(RowKind.INSERT).alias(ROW_KIND_COLUMN)))
        return write_made_rows(self.transaction, rows, read_snapshot=snapshot, tasks=self.tasks)

    def _appended(self, source: DataFrame, facts: _Facts) -> WriteResult:
        handle, merge = self.handle, self.merge
        positions = (FILE_COLUMN, POSITION_COLUMN)
        names = [F.col(quoted(name)) for name in handle.schema.field_names]
        position_columns = [F.col(c) for c in positions]
        no_position = [F.lit(None).cast("bigint").alias(c) for c in positions]

        def changed(rows: DataFrame) -> DataFrame:
            pairs = self._pairs(rows, source, facts, positions)
            changes = self._changes(pairs, positions)
            inserts = self._inserts(source, pairs)
            self._check_once(changes, inserts, positions, facts)
            return changes.select(
                *position_columns, kind_of_change(merge.clauses).alias(ACTION_COLUMN), *names
            ).unionAll(
                inserts.select(*no_position, kind_of(RowKind.INSERT).alias(ACTION_COLUMN), *names)
            )

        return change_once(
            self.spark,
            self.transaction,
            Always(value=True) if facts.predicate is None else facts.predicate,
            changed,
            columns=merge.columns_read((), whole_when_deleted=False),
            adds_rows=bool(merge.of("not_matched")),
        )

    # ---- rows

    def _pairs(
        self,
        target: DataFrame,
        source: DataFrame,
        facts: _Facts,
        positions: Sequence[str],
        *,
        with_old: bool = False,
    ) -> DataFrame:
        """Rows of the target with a match or something to do, with their new values; kept."""
        merge, handle = self.merge, self.handle
        by_source = merge.of("not_matched_by_source")
        given = source.alias(merge.source_alias)
        if facts.rows_count * VALUE_BYTES * len(source.columns) <= BROADCAST_BYTES_MAX:
            given = F.broadcast(given)
        joined = target.alias(merge.alias).join(given, merge.on, "left" if by_source else "inner")
        matched = F.col(SOURCE_ROW).isNotNull()
        tests = [
            (clause, matched if clause.when == "matched" else ~matched)
            for clause in merge.clauses
            if clause.when != "not_matched"
        ]
        joined = joined.withColumn(CLAUSE, first_of(tests))
        if by_source:
            joined = joined.where(matched | F.col(CLAUSE).isNotNull())
        held = {name.casefold() for name in target.columns}
        columns = [F.col(c) for c in (*positions, SOURCE_ROW, CLAUSE)]
        for field in handle.schema.fields:
            wanted = merge.types[field.name]
            old = F.lit(None).cast(wanted)
            if field.name.casefold() in held:
                old = F.col(f"{quoted(merge.alias)}.{quoted(field.name)}")
            columns.append(new_value(merge.updates, field.name, old).alias(field.name))
            if with_old:
                columns.append(old.alias(OLD_PREFIX + field.name))
        return self._keep(joined.select(*columns))

    def _changes(self, pairs: DataFrame, identity: Sequence[str]) -> DataFrame:
        """The pairs that change a row; a sole DELETE of all matches takes each row once."""
        acting = pairs.where(F.col(CLAUSE).isNotNull())
        if self.merge.is_sole_delete:
            return acting.dropDuplicates(list(identity))
        return acting

    def _inserts(self, source: DataFrame, pairs: DataFrame | None) -> DataFrame:
        """The added rows, with the table's columns."""
        merge, handle = self.merge, self.handle
        clauses = merge.of("not_matched")
        if not clauses:
            return self.spark.createDataFrame(
                [], spark_schema(handle.schema.fields, table=handle.identifier)
            )
        if pairs is not None:
            matched = pairs.where(F.col(SOURCE_ROW).isNotNull()).select(SOURCE_ROW)
            source = source.join(matched, SOURCE_ROW, "left_anti")
        rows = source.alias(merge.source_alias)
        everything = F.expr("true")
        rows = rows.withColumn(CLAUSE, first_of([(c, everything) for c in clauses]))
        rows = rows.where(F.col(CLAUSE).isNotNull())
        return rows.select(
            *(
                new_value(clauses, name, F.lit(None).cast(wanted)).alias(name)
                for name, wanted in merge.types.items()
            )
        )

    # ---- checks

    def _check_once(
        self, changes: DataFrame, inserts: DataFrame, identity: Sequence[str], facts: _Facts
    ) -> None:
        """Refuse rows that are changed twice, and keys that are changed and added."""
        merge, handle = self.merge, self.handle
        keys = handle.schema.primary_keys
        adds_keys = bool(keys and merge.of("not_matched") and merge.changes)
        clash = adds_keys and not (
            facts.is_unique and merge.adds_keys_of_on and not merge.of("not_matched_by_source")
        )
        twice = bool(merge.of("matched")) and not facts.is_unique and not merge.is_sole_delete
        if not (twice or clash):
            return
        named = [F.col(quoted(name)) for name in identity]
        rows = changes.select(*named, F.lit(0).alias(CLAUSE))
        if clash:
            rows = rows.unionAll(inserts.select(*named, F.lit(1).alias(CLAUSE)))
        changed = F.sum(1 - F.col(CLAUSE))
        added = F.sum(F.col(CLAUSE))
        found = (
            rows.groupBy(*named)
            .agg(changed.alias("changed"), added.alias("added"))
            .where("changed > 1 OR (changed > 0 AND added > 0)")
            .limit(1)
            .collect()
        )
        if found:
            keyed = {name: found[0][name] for name in identity} if keys else {}
            raise once_fault(handle.identifier, keyed, changed_count=found[0]["changed"])


def _deletes_by_key(handle: TableHandle) -> bool:
    """Whether no option uses other columns of a row that deletes its key."""
    schema, options = handle.schema, handle.options
    kept = {*schema.primary_keys, *schema.partition_keys}
    return (
        options.get(declared.MERGE_ENGINE) == DEDUPLICATE
        and options.get(declared.CHANGELOG_PRODUCER) == _NO_CHANGELOG
        and not options.get(declared.SEQUENCE_FIELD)
        and all(f.type.nullable or f.name in kept for f in schema.fields)
    )


def _old_and_new(handle: TableHandle, merge: ResolvedMerge, changes: DataFrame) -> DataFrame:
    """Old and new rows of the updates, as :func:`check_shown` wants them."""
    names = handle.schema.field_names
    numbers = [c.number for c in merge.updates]
    rows = changes.where(F.col(CLAUSE).isin(numbers))
    return rows.select(
        *(F.col(quoted(OLD_PREFIX + name)).alias(name) for name in names),
        *(F.col(quoted(name)).alias(NEW_PREFIX + name) for name in names),
    )


# ---- the source


def _facts(source: DataFrame, handle: TableHandle, merge: ResolvedMerge) -> _Facts:
    """Summarise the source in one pass."""
    equal = merge.equal
    asked = [F.count(F.lit(1)).alias("rows")]
    if equal:
        asked.append(F.count_distinct(F.struct(*(_source(s) for _, s in equal))).alias("distinct"))
    bounded = [
        (t, s)
        for t, s in equal
        if not merge.of("not_matched_by_source")
        and isinstance(source.schema[s].dataType, _LISTED)
        and source.schema[s].dataType == merge.types[t]
    ]
    for index, (_, column) in enumerate(bounded):
        asked.append(F.min(_source(column)).alias(f"low{index}"))
        asked.append(F.max(_source(column)).alias(f"high{index}"))
    row = source.agg(*asked).collect()[0]
    count = row["rows"]
    is_unique = bool(equal) and row["distinct"] == count
    known: list[Predicate] = []
    if not merge.of("not_matched_by_source"):
        if merge.predicate is not None:
            known.append(merge.predicate)
        if count and bounded:
            known += _bounds(source, row, bounded, count, handle)
    return _Facts(count, is_unique, conjoin(known))


def _source(column: str) -> Column:
    return F.col(quoted(column))


def _bounds(
    source: DataFrame,
    row: st.Row,
    bounded: Sequence[tuple[str, str]],
    count: int,
    handle: TableHandle,
) -> list[Predicate]:
    """The possible values of the target's equated columns."""
    fields = handle.schema.fields
    if any(row[f"low{index}"] is None for index in range(len(bounded))):
        return [Always(value=False)]  # nulls alone: nothing matches
    if count <= KEYS_LISTED_MAX:
        lists = source.agg(
            *(F.collect_set(_source(s)).alias(f"c{n}") for n, (_, s) in enumerate(bounded))
        ).collect()[0]
        return [
            bind(In(target, tuple(sorted(lists[f"c{n}"]))), fields)
            for n, (target, _) in enumerate(bounded)
        ]
    ranges: list[Predicate] = []
    for index, (target, _) in enumerate(bounded):
        low, high = row[f"low{index}"], row[f"high{index}"]
        ranges.append(bind(And((Compare(">=", target, low), Compare("<=", target, high))), fields))
    return ranges
