"""Replaces the partitions of the written rows: ``overwritePartitions()``.

Spark has no fallback to its older interface here. Its own tasks write a dynamic overwrite, one per
partition of the query. But a bucket needs one task, and a dynamic bucket needs a look-up. So the
tasks write nothing. When they are done, Spark asks the driver to commit, and the driver then writes
the running statement's query with :func:`tidelake.spark.write.write_frame.write_frame`, in one
commit. The price: the query runs twice.
"""

from __future__ import annotations

from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, JavaObject
from tidelake.spark.catalog.rows_write import InsertingProxy, WriteOfRows

WRITE = f"{CONNECTOR}.write"
SQL = "org.apache.spark.sql"
EXECUTION_ID = "spark.sql.execution.id"
COMMAND = "OverwritePartitionsDynamic"


class DynamicOverwrite(WriteOfRows, implements=(f"{WRITE}.Write",)):
    """A dynamic overwrite."""

    def description(self) -> str:
        """The text in EXPLAIN."""
        return f"tidelake {self._name}, overwrite of partitions"

    def toBatch(self) -> JavaObject:
        """The command that runs it."""
        return _BatchWrite(self.gateway, self._insert, self._name)


class _BatchWrite(InsertingProxy, implements=(f"{WRITE}.BatchWrite",)):
    """Tasks that write nothing, and a commit that does."""

    def createBatchWriterFactory(self, _info: JavaObject) -> JavaObject:
        """Spark's own writers into nothing."""
        writers = self.gateway.java(f"{SQL}.execution.datasources.noop.NoopWriterFactory$")
        return getattr(writers, "MODULE$")

    def useCommitCoordinator(self) -> bool:
        """No: tasks write nothing, so any attempt of them may count."""
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
                " run INSERT OVERWRITE with tl.sql."
            )
            raise UnsupportedError(message, kind="spark_write", table=self._name)
        datasets = self.gateway.java(f"{SQL}.classic.Dataset")
        self._insert(datasets.ofRows(self.gateway.spark._jsparkSession, plan.query()))

    def abort(self, _messages: JavaObject) -> None:
        """Nothing was written."""
