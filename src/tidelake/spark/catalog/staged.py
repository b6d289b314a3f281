"""Tables that a statement creates and fills: CREATE [OR REPLACE] TABLE, with or without AS.

1. The statement is checked before the old table, if there is one, changes.
2. A replacing table is written under a hidden name and takes the old one's name when it is complete
   (:mod:`tidelake.catalog.staging`): a failed query leaves the old table unchanged, and a query may
   read it. Any other table is created under its own name.
3. The rows are written in one commit. If that fails the new table is removed, unless it is the only
   one of the name and its rows may be visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NoReturn

from tidelake.engine.tables import Catalog, Table, discard, put_in_place, staged_table
from tidelake.errors import OutcomeUnknownError, UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.java_ddl import NewTable
from tidelake.spark.catalog.table import CATALOG, Relation
from tidelake.spark.catalog.writing import RowsWrite, WriteOptions, merging_option, write_rows
from tidelake.spark.expression.types import spark_schema

WRITE = f"{CONNECTOR}.write"


class StagedTable(Relation, implements=(f"{CATALOG}.SupportsWrite", f"{CATALOG}.StagedTable")):
    """A table in the making.

    Parameters
    ----------
    gateway, name
        As of every table.
    replaces : bool
        Whether it replaces a table of its name, if there is one.
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
        self._new = self._new.without_defaults()
        given = merging_option(self.gateway.options(info.options()))
        return _StagedWriteBuilder(self.gateway, self, given)

    def commitStagedChanges(self) -> None:
        """Create the table, if no rows did, and let it replace the old one."""
        made = self._make() if self._made is None else self._made
        if self._replaces:
            put_in_place(self._catalog, made)

    def abortStagedChanges(self) -> None:
        """Remove it, unless its rows may be visible."""
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
    """Fills a new table."""

    def __init__(
        self, gateway: Gateway, staged: StagedTable, options: Mapping[str, object]
    ) -> None:
        super().__init__(gateway)
        self._staged = staged
        self._options = options

    def truncate(self) -> JavaObject:
        """Do nothing: there are no rows yet."""
        return self

    def build(self) -> JavaObject:
        """The write."""
        staged = self._staged
        return RowsWrite(self.gateway, lambda rows: staged._fill(rows, self._options), staged._name)

    def buildForBatch(self) -> NoReturn:
        """Not the way in."""
        message = f"Tasks of Spark cannot write table '{self._staged._name}'."
        raise UnsupportedError(message, kind="spark_write")

    def buildForStreaming(self) -> NoReturn:
        """No stream."""
        self.buildForBatch()
