"""Replacing the partitions that rows come for: ``overwritePartitions()``.

Spark has no fallback to its older interface here: a dynamic overwrite is written by its own tasks,
one per partition of the query as it stands, where a bucket must have one task and a dynamic bucket
must be looked up. So the tasks write nothing; when they are done, Spark asks the driver to commit,
and there the query of the running statement is written by
:func:`tidelake.spark.write.write_frame.write_frame`, in one commit. The price: the query runs
twice.
"""

from __future__ import annotations

from tidelake.errors import UnsupportedError
from tidelake.spark.catalog.gateway import CONNECTOR, JavaObject
from tidelake.spark.catalog.rows_write import InsertingProxy, WriteOfRows

__all__ = ["DynamicOverwrite"]

WRITE = f"{CONNECTOR}.write"
SQL = "org.apache.spark.sql"
EXECUTION_ID = "spark.sql.execution.id"
COMMAND = "OverwritePartitionsDynamic"


class DynamicOverwrite(WriteOfRows, implements=(f"{WRITE}.Write",)):
    """A dynamic overwrite."""

    def description(self) -> str:
        """What EXPLAIN says."""
        return f"tidelake {self._name}, overwrite of partitions"

    def toBatch(self) -> JavaObject:
        """What carries it out."""
        return _BatchWrite(self.gateway, self._insert, self._name)


class _BatchWrite(InsertingProxy, implements=(f"{WRITE}.BatchWrite",)):
    """Tasks that write nothing, and a commit that does."""

    def createBatchWriterFactory(self, _info: JavaObject) -> JavaObject:
        """Spark's own writers into nothing."""
        writers = self.gateway.java(f"{SQL}.execution.datasources.noop.NoopWriterFactory$")
        return getattr(writers, "MODULE$")

    def useCommitCoordinator(self) -> bool:
        """Nothing is written by tasks: any of their attempts will do."""
        return False

    def onDataWriterCommit(self, _message: JavaObject) -> None:
        """Nothing."""

    def commit(self, *_messages: JavaObject) -> None:
        """Write the rows of the statement that runs."""
        execution_id = self.gateway.spark.sparkContext.getLocalProperty(EXECUTION_ID)
        plan = None
        if execution_id is not None:
            executions = self.gateway.java(f"{SQL}.execution.SQLExecution")
            plan = executions.getQueryExecution(int(execution_id)).optimizedPlan()
        if plan is None or plan.getClass().getSimpleName() != COMMAND:
            message = (
                f"The statement that overwrites partitions of table '{self._name}' was not found:"
                " INSERT OVERWRITE by tl.sql."
            )
            raise UnsupportedError(message, kind="spark_write", table=self._name)
        datasets = self.gateway.java(f"{SQL}.classic.Dataset")
        self._insert(datasets.ofRows(self.gateway.spark._jsparkSession, plan.query()))

    def abort(self, _messages: JavaObject) -> None:
        """Nothing was written."""
