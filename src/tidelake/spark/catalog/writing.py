"""The write side of a table: INSERT and similar statements, passed on as a DataFrame.

Spark's own way to write, tasks that send commit messages to the driver, leaves no room for our
clustering (one bucket, one task), nor for the look-up of dynamic buckets. Its older way
(``V1Write``) calls back on the driver with the rows as a DataFrame. That goes to
:func:`tidelake.spark.write.write_frame.write_frame`, like ``tl.write``, and is one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from pyspark.sql import SparkSession

from tidelake.engine.tables import Table
from tidelake.engine.write import CommitIdentity
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.options import declared
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.dynamic_overwrite import DynamicOverwrite
from tidelake.spark.catalog.rows_write import InsertingProxy, WriteOfRows, no_stream
from tidelake.spark.expression.java_filter import from_java_filters, replaced_value
from tidelake.spark.read.table_frame import in_session
from tidelake.spark.write.schema_merging import merged
from tidelake.spark.write.write_frame import write_frame
from tidelake.types.predicate import Predicate, bind, conjoin

WRITE = f"{CONNECTOR}.write"
USER = "commit-user"
IDENTIFIER = "commit-identifier"
LOCAL_ROWS = "LocalRelation"
TO_FILTER = "org.apache.spark.sql.internal.connector.PredicateUtils"
"""Makes a filter of the kind that :mod:`tidelake.spark.expression.java_filter` reads."""
MERGE_SCHEMA = "mergeSchema"
"""The option's name in Delta and Spark's Parquet, in any case."""
_BY_NAME = ("DataFrameWriter.saveAsTable", "DataFrameWriterV2.")
"""Callers that match columns by name, as they appear in a Java stack."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The target and the identity of a write.

    Parameters
    ----------
    mode, partition, replaced
        As of :func:`tidelake.spark.write.write_frame.write_frame`.
    merges : bool
        Whether rows may add columns, matched by name.
    """

    table: Table
    identity: CommitIdentity
    mode: str = "append"
    partition: Mapping[str, object] | None = None
    replaced: Predicate | None = None
    merges: bool = False

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        table: Table,
        options: Mapping[str, object],
        *,
        merges: bool = False,
    ) -> WriteOptions:
        """Take a statement's options: the table's, ``commit-user`` and ``commit-identifier``."""
        own = dict(options)
        user, identifier = own.pop(USER, None), own.pop(IDENTIFIER, None)
        used = in_session(spark, table, own)
        number = None if identifier is None else _number(str(identifier))
        name = None if user is None else str(user)
        return cls(used, CommitIdentity.of(used.handle, name, number), merges=merges)

    def replacing(
        self,
        partition: Mapping[str, object] | None = None,
        *,
        replaced: Predicate | None = None,
        dynamic: bool = False,
    ) -> WriteOptions:
        """Replace some partitions, those of the rows, or by default the whole table."""
        options = {declared.DYNAMIC_PARTITION_OVERWRITE.key: str(dynamic).lower()}
        table = self.table.with_options(options)
        return replace(self, table=table, mode="overwrite", partition=partition, replaced=replaced)


def merging_option(options: Mapping[str, str]) -> dict[str, str]:
    """Options with ``mergeSchema`` under our name for it.

    Examples
    --------
    >>> merging_option({"mergeSchema": "true", "write-only": "true"})
    {'write.merge-schema': 'true', 'write-only': 'true'}
    """
    own = declared.WRITE_MERGE_SCHEMA.key
    return {
        own if key.lower() == MERGE_SCHEMA.lower() else key: value for key, value in options.items()
    }


def writes_by_name(gateway: Gateway) -> bool:
    """Whether the write that now opens a table matches columns by name.

    If a table accepts any columns, Spark skips its own check of them and does not report how
    they are matched. ``saveAsTable`` and ``writeTo`` match by name; ``insertInto`` and INSERT
    match by position, and keep Spark's check. A callback runs on the calling thread of Spark,
    so the stack shows the caller.
    """
    here = gateway.java("java.lang.Throwable")()
    stack = gateway.java("org.apache.commons.lang3.exception.ExceptionUtils").getStackTrace(here)
    return any(caller in stack for caller in _BY_NAME)


def write_rows(gateway: Gateway, given: WriteOptions, rows: JavaObject) -> None:
    """Write a Java ``Dataset`` in one commit."""
    frame = gateway.frame(rows)
    plan = rows.queryExecution().optimizedPlan()
    if plan.getClass().getSimpleName() == LOCAL_ROWS:
        frame = frame.coalesce(1)  # VALUES in order: the last of the rows of one key wins
    handle = given.table.handle
    if given.merges:
        handle, frame = merged(handle, frame)
    write_frame(
        handle,
        frame,
        mode=given.mode,
        partition=given.partition,
        identity=given.identity,
        tasks=None,
        replaced=given.replaced,
    )


class LakeWriteBuilder(
    Proxy, implements=(f"{WRITE}.SupportsOverwriteV2", f"{WRITE}.SupportsDynamicOverwrite")
):
    """The write of a statement."""

    def __init__(self, gateway: Gateway, given: WriteOptions, name: str) -> None:
        super().__init__(gateway)
        self._given = given
        self._name = name
        self._by_tasks = False

    def truncate(self) -> JavaObject:
        """Replace the whole table."""
        self._given = self._given.replacing()
        return self

    def overwriteDynamicPartitions(self) -> JavaObject:
        """Replace the partitions of the rows."""
        self._by_tasks = True
        self._given = self._given.replacing(dynamic=True)
        return self

    def canOverwrite(self, _predicates: JavaObject) -> bool:
        """Always true: our own message refuses what cannot be replaced."""
        return True

    def overwrite(self, predicates: JavaObject) -> JavaObject:
        """Replace the partitions that meet a condition: ``PARTITION (day = '...')``."""
        table = self._given.table
        keys = table.partition_keys
        types = {f.name: f.type for f in table.table_schema.fields if f.name in keys}
        asked = [one for one in predicates if str(one.name()) != "ALWAYS_TRUE"]
        values = [replaced_value(one, types) for one in asked]
        named = dict(value for value in values if value is not None)
        if len(named) == len(asked):
            self._given = self._given.replacing(named or None)
        else:
            self._given = self._given.replacing(replaced=self._condition(asked))
        return self

    def _condition(self, predicates: Sequence[JavaObject]) -> Predicate:
        """A condition on partition columns that the kernel evaluates as Spark does."""
        schema = self._given.table.table_schema
        of_partitions = [schema.field(name) for name in schema.partition_keys]
        parts = []
        for one in predicates:
            found = self.gateway.java(TO_FILTER).toV1(one)
            part = from_java_filters([found.get()], of_partitions) if found.isDefined() else None
            if part is None:
                message = (
                    f"An overwrite of table '{self._name}' replaces whole partitions, and"
                    f" {one.toString()} is no condition on partition columns that it takes: DELETE"
                    " the rows, then append."
                )
                raise InvalidInputError(message, kind="bad_partition", table=self._name)
            parts.append(part)
        whole = conjoin(parts)
        assert whole is not None, "a predicate is given"
        return bind(whole, schema.fields)

    def build(self) -> JavaObject:
        """The write."""
        given = self._given

        def insert(rows: JavaObject) -> None:
            write_rows(self.gateway, given, rows)

        if self._by_tasks:
            return DynamicOverwrite(self.gateway, insert, self._name)
        return RowsWrite(self.gateway, insert, self._name)

    def buildForBatch(self) -> NoReturn:
        """Not the way in."""
        raise _no_tasks(self._name)

    def buildForStreaming(self) -> NoReturn:
        """No stream."""
        raise no_stream(self._name)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        message = f"Option '{IDENTIFIER}' must be a number, not '{text}'."
        raise InvalidInputError(message, kind="source_options", option=IDENTIFIER)
    return int(text)


def _no_tasks(name: str) -> UnsupportedError:
    message = f"Tasks of Spark cannot write table '{name}': one call with a DataFrame writes it."
    return UnsupportedError(message, kind="spark_write", table=name)


class RowsWrite(WriteOfRows, implements=(f"{WRITE}.V1Write",)):
    """A write that Spark runs by a callback."""

    def toInsertableRelation(self) -> JavaObject:
        """The relation that takes the rows."""
        return _Insertable(self.gateway, self._insert, self._name)

    def description(self) -> str:
        """The text in EXPLAIN."""
        return f"tidelake {self._name}"

    def toBatch(self) -> NoReturn:
        """Not the way in."""
        raise _no_tasks(self._name)


class _Insertable(InsertingProxy, implements=("org.apache.spark.sql.sources.InsertableRelation",)):
    """Takes the rows of a write."""

    def insert(self, rows: JavaObject, _overwrite: bool) -> None:  # noqa: FBT001
        """Write a Java ``Dataset`` in one commit."""
        self._insert(rows)
