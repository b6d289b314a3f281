"""Rows of data files as an RDD of Spark's Parquet reader, without a plan of Spark around it.

A micro-batch of files that are only read needs no plan: its files, columns and filters are known,
and Spark has optimised the query around it. A DataFrame of ``spark.read.parquet`` would be
analysed, optimised and compiled again for each batch, and its files looked up again; for a small
batch that takes longer than the reading. What the tasks' readers need is made once for the same
columns and filters.

The tasks are made here, so one task can read whole files of a bucket in their order, however large.
Files that may be cut are cut and packed by Spark's own rule. Tasks get classes of Spark only; the
Java class below stays on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.read.native_changes import PlainFile, PlainUnit
from tidelake.spark.read.native_scan import READ_OPTIONS

_NAME = "TidelakeFiles"
_BETWEEN_FILES, _BETWEEN_TASKS = "\0", "\1"
_NEAR_TO_ALL = frozenset({"", "file", "s3", "s3a", "gs", "abfs", "abfss", "memory"})
"""Storage whose files are equally near to all executors."""


def may_read(units: Sequence[PlainUnit]) -> bool:
    """Say whether any executor may read the files, and their names are plain.

    Spark reads a file of HDFS where its blocks are, which it looks up when it makes a plan.
    """
    return all(_is_plain(file.path) for unit in units for file in unit.files)


def _is_plain(path: str) -> bool:
    scheme, colon, _ = path.partition(":/")
    return (not colon or scheme in _NEAR_TO_ALL) and path.isprintable()


def _lines(files: Sequence[PlainFile]) -> str:
    return _BETWEEN_FILES.join(f"{file.size_bytes}:{file.path}" for file in files)


class FileRows:
    """Reads plain files for one query; for one thread at a time."""

    def __init__(self, gateway: Gateway) -> None:
        defined_class(gateway.spark, _NAME)
        self._gateway = gateway
        options = [text for pair in READ_OPTIONS.items() for text in pair]
        made = gateway.java(f"{PACKAGE}.{_NAME}")
        self._java = made(gateway.spark._jsparkSession, gateway.strings(options))
        self._schemas: dict[str, JavaObject] = {}
        self._plans: dict[Hashable, JavaObject] = {}

    def rows(
        self,
        schema: st.StructType,
        filters: JavaObject | None,
        tasks: Sequence[Sequence[PlainUnit]],
    ) -> JavaObject:
        """Give the rows as an RDD of Spark's own rows.

        Parameters
        ----------
        schema : StructType
            The columns of the files that are wanted, in order.
        filters : JavaObject, optional
            An array of filters by which the reader may leave out row groups.
        tasks : sequence of sequence of PlainUnit
            The files of each task, at least one; of units that may be cut Spark makes other tasks.
        """
        columns = self.schema(schema)
        if all(unit.may_cut for task in tasks for unit in task):
            files = [file for task in tasks for unit in task for file in unit.files]
            files.sort(key=lambda file: -file.size_bytes)  # as Spark packs pieces: large ones first
            return self._java.cut(columns, filters, _lines(files))
        lines = [_lines([file for unit in task for file in unit.files]) for task in tasks]
        return self._java.whole(columns, filters, _BETWEEN_TASKS.join(lines))

    def through(
        self,
        rows: JavaObject,
        schema: st.StructType,
        make: Callable[[DataFrame], DataFrame],
        *,
        key: Hashable,
    ) -> JavaObject:
        """Put the rows through filters and selects, which are planned once.

        Parameters
        ----------
        make : callable
            Adds the filters and selects to a frame of such rows.
        key : hashable
            Names what `make` does with the schema; it is planned once for each.
        """
        known = schema.json(), key
        if known not in self._plans:
            session = self._gateway.spark._jsparkSession
            frame = session.internalCreateDataFrame(rows, self.schema(schema), False)
            made = make(self._gateway.frame(frame))
            self._plans[known] = made._jdf.queryExecution().sparkPlan()
        return self._java.through(self._plans[known], rows)

    def schema(self, struct: st.StructType) -> JavaObject:
        """Give the columns to the JVM, all nullable, as Spark has those of files."""
        text = struct.json()
        if text not in self._schemas:
            self._schemas[text] = self._gateway.schema(struct).asNullable()
        return self._schemas[text]
