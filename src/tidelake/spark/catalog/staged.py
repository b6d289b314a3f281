"""Tables that a statement makes and fills: CREATE [OR REPLACE] TABLE, with AS or without.

1. What the statement says is checked while the old table, if there is one, is as it was.
2. Where a table is replaced, the new one is written out of sight and takes its place when it is
   whole (:mod:`tidelake.catalog.staging`): a query that fails leaves the old one as it is, and may
   read it. Else it is made under its name.
3. The rows are written in one commit. Where that fails the new table goes, unless it is the only
   one of the name and its rows may be visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NoReturn

from tidelake.catalog import Catalog
from tidelake.catalog.staging import discard, put_in_place, staged_table
from tidelake.errors import OutcomeUnknownError, UnsupportedError
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.java_ddl import NewTable
from tidelake.spark.catalog.table import CATALOG, Relation
from tidelake.spark.catalog.writing import RowsWrite, WriteOptions, merging_option, write_rows
from tidelake.spark.expression.types import spark_schema
from tidelake.table import Table

__all__ = ["StagedTable"]

WRITE = f"{CONNECTOR}.write"


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
    replaces : bool
        Whether it takes the place of a table of its name, if there is one.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        *,
        catalog: Catalog,
        path: str,
        new: NewTable,
        replaces: bool,
    ) -> None:
        super().__init__(gateway, name)
        self._replaces = replaces
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
        given = merging_option(self.gateway.options(info.options()))
        return _StagedWriteBuilder(self.gateway, self, given)

    def commitStagedChanges(self) -> None:
        """Make the table, where no rows did, and put it into the place of the old one."""
        made = self._make() if self._made is None else self._made
        if self._replaces:
            put_in_place(self._catalog, made)

    def abortStagedChanges(self) -> None:
        """Leave nothing of it, unless its rows may be visible."""
        if self._made is None:
            return
        if self._replaces:
            discard(self._catalog, self._made)
        elif not self._is_kept:
            self._catalog.drop_table(self._path, if_missing="ignore")

    def reportDriverMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomTaskMetric", ())

    def _make(self) -> Table:
        new = self._new
        make = (
            partial(staged_table, self._catalog) if self._replaces else self._catalog.create_table
        )
        self._made = make(
            self._path,
            new.fields,
            primary_keys=new.primary_keys,
            partition_keys=new.partition_keys,
            options=new.options,
            comment=new.comment,
        )
        return self._made

    def _fill(self, rows: JavaObject, options: Mapping[str, object]) -> None:
        given = WriteOptions.of(self.gateway.spark, self._make(), options)
        try:
            write_rows(self.gateway, given, rows)
        except OutcomeUnknownError:
            self._is_kept = True
            raise


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
