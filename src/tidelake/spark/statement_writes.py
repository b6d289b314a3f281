"""The statements that write rows: INSERT, UPDATE, DELETE, and CREATE TABLE ... AS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    UnsupportedError,
    near_names,
)
from tidelake.options import declared
from tidelake.spark.assignment import assigned, target_columns
from tidelake.spark.change import delete_on_spark, update_on_spark
from tidelake.spark.expression import quoted
from tidelake.spark.spark_errors import in_our_words
from tidelake.spark.table_frame import in_session
from tidelake.spark.types import fields_from_spark, to_spark_type
from tidelake.spark.write import write_frame
from tidelake.sql.new_table import create_empty
from tidelake.sql.query import read_query
from tidelake.sql.row_level import condition_filter
from tidelake.sql.session import CONNECTOR, OWN_CONNECTORS, PathTable, SqlSession, View
from tidelake.sql.statement import CreateTable, Delete, Insert, Query, Update
from tidelake.sql.words import fault
from tidelake.table import Table
from tidelake.table.write import CommitIdentity
from tidelake.types import DataField

__all__ = ["Args", "StatementWrites"]

Args: TypeAlias = "Mapping[str, object] | Sequence[object] | None"


class StatementWrites:
    """Writes of one session.

    Parameters
    ----------
    spark : SparkSession
        Where they run.
    session : SqlSession
        Catalogs, and what is temporary.
    query : callable
        Gives the DataFrame of a query and its arguments.
    """

    def __init__(
        self,
        spark: SparkSession,
        session: SqlSession,
        query: Callable[[Query, Args], DataFrame],
    ) -> None:
        self.spark = spark
        self.session = session
        self._query = query

    def insert(self, statement: Insert, args: Args) -> None:
        """Carry out INSERT."""
        name = str(statement.name)
        table = self.session.data_table(statement.name, use="written")
        fields = table.table_schema.fields
        fixed = statement.partition
        self._check_partition(statement, table)
        rows = self._query(statement.query, args)
        columns = list(statement.columns)
        if statement.by_name:
            columns = list(rows.columns)
        targets = target_columns(columns, fields, list(fixed), table=name)
        if not columns and statement.dynamic:
            # Spark's order: the partition columns that the query gives come last
            last = [f for f in targets if f.name in statement.dynamic]
            targets = [f for f in targets if f not in last] + last
        rows = assigned(rows, targets, table=name)
        if statement.query.sql.lstrip()[:6].upper() == "VALUES":
            rows = rows.coalesce(1)  # in their order: of rows of one key the last wins
        rows = self._filled(rows, fields, fixed, name)
        options = dict(statement.options)
        written = in_session(self.spark, table, options)
        partition = None
        dynamic = written.options.get(declared.DYNAMIC_PARTITION_OVERWRITE)
        if statement.overwrite and fixed and not (statement.dynamic and dynamic):
            partition = dict(fixed)
        write_frame(
            written.handle,
            rows,
            mode="overwrite" if statement.overwrite else "append",
            partition=partition,
            identity=CommitIdentity.of(written.handle, None, None),
            tasks=None,
        )

    def _check_partition(self, statement: Insert, table: Table) -> None:
        keys = table.partition_keys
        for name in (*statement.partition, *statement.dynamic):
            if name not in keys:
                known = f"they are {', '.join(keys)}" if keys else "it has none"
                message = (
                    f"'{name}' is no partition column of table '{statement.name}': {known}."
                    f"{near_names(name, keys)}"
                )
                raise InvalidInputError(message, kind="bad_partition", column=name)

    def _filled(
        self,
        rows: DataFrame,
        fields: Sequence[DataField],
        fixed: Mapping[str, object],
        table: str,
    ) -> DataFrame:
        """All columns of the table: those of PARTITION, and null where nothing is given."""
        given = set(rows.columns)
        columns = []
        for field in fields:
            if field.name in given:
                columns.append(F.col(quoted(field.name)))
                continue
            wanted = to_spark_type(field.type, column=field.name, table=table)
            value = fixed.get(field.name)
            text = value if value is None or isinstance(value, bool) else str(value)
            columns.append(F.lit(text).cast(wanted).alias(field.name))
        return rows.select(*columns)

    def delete(self, statement: Delete) -> None:
        """Carry out DELETE."""
        table = self._changed(statement)
        if statement.where is None:
            table.truncate()
            return
        delete_on_spark(
            self.spark,
            table.handle,
            _condition(statement.where, table),
            identity=CommitIdentity.of(table.handle, None, None),
            tasks=None,
        )

    def update(self, statement: Update) -> None:
        """Carry out UPDATE."""
        table = self._changed(statement)
        names = {f.name.casefold(): f.name for f in table.table_schema.fields}
        values = {names.get(c.casefold(), c): value for c, value in statement.values.items()}
        where = statement.where
        update_on_spark(
            self.spark,
            table.handle,
            values,
            None if where is None else _condition(where, table),
            identity=CommitIdentity.of(table.handle, None, None),
            tasks=None,
        )

    def _changed(self, statement: Delete | Update) -> Table:
        table = self.session.data_table(statement.name, use="changed")
        return in_session(self.spark, table, dict(statement.options))

    def create_as(self, statement: CreateTable, query: Query, args: Args) -> None:
        """Carry out CREATE TABLE ... AS."""
        if statement.is_temporary:
            message = "A temporary table with AS is a view: CREATE TEMPORARY VIEW name AS ...."
            raise UnsupportedError(message, kind="sql_clause")
        connector = statement.options.get(CONNECTOR)
        if connector is not None and connector not in OWN_CONNECTORS:
            message = (
                f"Rows are not written to '{connector}': CREATE TABLE '{statement.name}' without AS"
                " declares it."
            )
            raise UnsupportedError(message, kind="sql_connector", connector=connector)
        rows = self._query(query, args)
        twice = [c for c in rows.columns if rows.columns.count(c) > 1]
        if twice:
            message = f"The query gives two columns '{twice[0]}': name them apart with AS."
            raise InvalidInputError(message, kind="column_twice", column=twice[0])
        if statement.if_exists == "replace":
            self._check_not_read(statement, query)
        fields = fields_from_spark(_nullable(rows.schema), table=str(statement.name))
        table = create_empty(replace(statement, fields=fields, query=None), self.session)
        if table is None:
            return  # IF NOT EXISTS, and there it is
        try:
            write_frame(
                table.handle,
                rows,
                mode="append",
                partition=None,
                identity=CommitIdentity.of(table.handle, None, None),
                tasks=None,
            )
        except OutcomeUnknownError:
            raise  # the rows may be there
        except BaseException:
            place = self.session.place(statement.name)
            catalog = self.session.catalog_named(place.catalog_name)
            catalog.drop_table(place.identifier, if_missing="ignore")
            raise

    def _check_not_read(self, statement: CreateTable, query: Query) -> None:
        """Refuse to drop a table that the query reads, be it through a view."""
        place = self.session.place(statement.name)
        location = self.session.catalog_named(place.catalog_name).location(place.identifier)
        if location in self._locations(query, self.session.catalog_name, self.session.database):
            message = (
                f"Table '{statement.name}' would be dropped before the query reads it: INSERT"
                " OVERWRITE it, or write into another table."
            )
            raise fault(
                query.text, query.start, message, kind="sql_replace", error=UnsupportedError
            )

    def _locations(self, query: Query, catalog_name: str, database: str) -> Iterator[str]:
        """Where the tables are that a query reads."""
        for reference in read_query(query).references:
            parts = reference.name.parts
            temporary = self.session.temporary.get(parts[0].partition("$")[0])
            if len(parts) == 1 and isinstance(temporary, View):
                inner = temporary.definition.query
                yield from self._locations(inner, temporary.catalog_name, temporary.database)
            elif len(parts) == 1 and isinstance(temporary, PathTable):
                yield temporary.location
            else:
                missing = (catalog_name, database)[: 3 - len(parts)]
                owner, inside, table = (*missing, *parts)
                base = table.partition("$")[0]
                with suppress(InvalidInputError):  # a file that Spark reads by its path
                    if owner in self.session.catalogs:
                        yield self.session.catalogs[owner].location(f"{inside}.{base}")


def _condition(where: str, table: Table) -> object:
    """A condition as a filter, which prunes files, or else as Spark's expression."""
    known = condition_filter(where, table.table_schema.fields)
    if known is not None:
        return known
    with in_our_words(Query(where, 0, len(where))):
        return F.expr(where)


def _nullable(schema: st.StructType) -> st.StructType:
    """Columns that may be null, whatever a literal or a count promises."""
    return st.StructType([st.StructField(f.name, f.dataType, metadata=f.metadata) for f in schema])
