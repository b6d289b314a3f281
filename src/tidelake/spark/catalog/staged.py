"""Tables that a statement makes and fills: CREATE [OR REPLACE] TABLE, with AS or without.

1. What the statement says is checked while the old table, if there is one, is as it was.
2. A query that reads the table which it replaces is refused: its files would be gone before.
3. The old table is dropped, the new one made, the rows are written in one commit.
4. Where that fails the new table is dropped, unless its rows may be visible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from tidelake.catalog import Catalog
from tidelake.errors import OutcomeUnknownError, UnsupportedError
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.new_table import NewTable
from tidelake.spark.catalog.table import CATALOG, Relation
from tidelake.spark.catalog.writing import RowsWrite, WriteOptions, write_rows
from tidelake.spark.types import spark_schema
from tidelake.table import Table

__all__ = ["StagedTable"]

WRITE = f"{CONNECTOR}.write"
_OF_A_CATALOG = re.compile(r"RelationV2\[.*\] (.+)$", re.MULTILINE)


class StagedTable(Relation, implements=(f"{CATALOG}.SupportsWrite", f"{CATALOG}.StagedTable")):
    """A table to be.

    Parameters
    ----------
    gateway, name
        As of every table.
    catalog : Catalog
        The warehouse.
    path : str
        The table's name in it.
    new : NewTable
        What it is to be.
    """

    def __init__(
        self, gateway: Gateway, name: str, *, catalog: Catalog, path: str, new: NewTable
    ) -> None:
        super().__init__(gateway, name)
        self._catalog = catalog
        self._path = path
        self._new = new
        self._made: Table | None = None
        self._is_kept = False
        self._struct = spark_schema(new.fields, table=name)
        catalog.first_schema(
            path,
            new.fields,
            primary_keys=new.primary_keys,
            partition_keys=new.partition_keys,
            options=new.options,
            comment=new.comment,
        )

    def schema(self) -> JavaObject:
        """The columns."""
        return self.gateway.schema(self._struct)

    def columns(self) -> JavaObject:
        """The columns."""
        return self._columns_of(self._struct)

    def properties(self) -> JavaObject:
        """The options that it will have."""
        return self.gateway.mapping(dict(self._new.options))

    def capabilities(self) -> JavaObject:
        """It takes rows."""
        return self.gateway.constants(
            "catalog.TableCapability", "BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE"
        )

    def newWriteBuilder(self, info: JavaObject) -> JavaObject:
        """Take the rows of the query."""
        return _StagedWriteBuilder(self.gateway, self, self.gateway.options(info.options()))

    def commitStagedChanges(self) -> None:
        """Make the table, where no rows did."""
        if self._made is None:
            self._make()

    def abortStagedChanges(self) -> None:
        """Leave nothing of it, unless its rows may be visible."""
        if self._made is not None and not self._is_kept:
            self._catalog.drop_table(self._path, if_missing="ignore")

    def reportDriverMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomTaskMetric", ())

    def _make(self) -> Table:
        self._catalog.drop_table(self._path, if_missing="ignore")
        self._made = self._catalog.create_table(
            self._path,
            self._new.fields,
            primary_keys=self._new.primary_keys,
            partition_keys=self._new.partition_keys,
            options=self._new.options,
            comment=self._new.comment,
        )
        return self._made

    def _fill(self, rows: JavaObject, options: Mapping[str, object]) -> None:
        self._check_not_read(rows)
        given = WriteOptions.of(self.gateway.spark, self._make(), options)
        try:
            write_rows(self.gateway, given, rows)
        except OutcomeUnknownError:
            self._is_kept = True
            raise

    def _check_not_read(self, rows: JavaObject) -> None:
        location = self._catalog.location(self._path)
        plan = str(rows.queryExecution().optimizedPlan().toString())
        named = [line.replace("`", "").split() for line in _OF_A_CATALOG.findall(plan)]
        files = rows.inputFiles()
        if (
            any(self._name in words for words in named)
            or f"read {location}(" in plan
            or any(f"{location}/" in str(file) for file in files)
        ):
            message = (
                f"Table '{self._name}' would be dropped before the query reads it: INSERT"
                " OVERWRITE it, or write into another table."
            )
            raise UnsupportedError(message, kind="sql_replace", table=self._name)


class _StagedWriteBuilder(Proxy, implements=(f"{WRITE}.SupportsTruncate",)):
    """What fills a new table."""

    def __init__(
        self, gateway: Gateway, staged: StagedTable, options: Mapping[str, object]
    ) -> None:
        super().__init__(gateway)
        self._staged = staged
        self._options = options

    def truncate(self) -> JavaObject:
        """Nothing: there are no rows yet."""
        return self

    def build(self) -> JavaObject:
        """The write."""
        staged = self._staged
        return RowsWrite(self.gateway, lambda rows: staged._fill(rows, self._options), staged._name)

    def buildForBatch(self) -> NoReturn:
        """Not the way in."""
        message = f"Table '{self._staged._name}' is not written by tasks of Spark's."
        raise UnsupportedError(message, kind="spark_write")

    def buildForStreaming(self) -> NoReturn:
        """No stream."""
        self.buildForBatch()
