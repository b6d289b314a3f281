"""Runs INSERT, UPDATE, DELETE, MERGE and CREATE TABLE ... AS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.tables import Table, TableHandle, discard, put_in_place
from tidelake.engine.write import CommitIdentity
from tidelake.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    UnsupportedError,
    counted,
    near_names,
)
from tidelake.kafka import KafkaTable
from tidelake.options import declared
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.errors.value_errors import translate_column_errors, values_of
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.store_assignment import assigned
from tidelake.spark.expression.struct_fields import with_fields
from tidelake.spark.expression.types import fields_from_spark, spark_schema, to_spark_type
from tidelake.spark.read.table_frame import in_session
from tidelake.spark.rowlevel.delete_update import (
    Matching,
    delete_all,
    delete_on_spark,
    update_on_spark,
)
from tidelake.spark.sql.expressions import StatementExpressions
from tidelake.spark.sql.merge_statement import merge_by_statement
from tidelake.spark.sql.queries import Args, StatementQueries
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.kafka.messages_write import write_messages
from tidelake.spark.write.schema_merging import (
    merges_schema,
    with_drafted_schema,
    with_merged_schema,
)
from tidelake.spark.write.write_frame import write_frame
from tidelake.sql.execution.create_table import create_empty, create_staged
from tidelake.sql.execution.session import CONNECTOR, OWN_CONNECTORS, ForeignTable, SqlSession
from tidelake.sql.query.expression import RowSource, parse_condition, parse_expression
from tidelake.sql.query.row_kinds import ROW_KIND
from tidelake.sql.syntax.ast import CreateTable, Delete, Insert, Merge, Query, Update
from tidelake.sql.syntax.insert_columns import insert_targets, values_with_defaults, with_defaults
from tidelake.sql.syntax.tokens import error_at
from tidelake.types import DataField
from tidelake.types.predicate import bind


@dataclass(frozen=True, slots=True)
class InsertRows:
    """The rows of an INSERT.

    Parameters
    ----------
    frame : DataFrame
        All its columns; of a stream of changes also ``_row_kind``.
    partition : mapping, optional
        What they replace; by default what they come for.
    """

    handle: TableHandle
    frame: DataFrame
    overwrite: bool
    partition: Mapping[str, object] | None

    @property
    def target(self) -> str:
        """The table's name."""
        return self.handle.identifier


@dataclass(frozen=True, slots=True)
class MessageRows:
    """The rows of an INSERT into a table of Kafka.

    Parameters
    ----------
    frame : DataFrame
        All its written columns; of a stream of changes also ``_row_kind``.
    """

    table: KafkaTable
    frame: DataFrame

    @property
    def target(self) -> str:
        """The table's name."""
        return self.table.name


class StatementWrites:
    """Writes of one session."""

    def __init__(self, spark: SparkSession, session: SqlSession, queries: StatementQueries) -> None:
        self.spark = spark
        self.session = session
        self._queries = queries

    def insert_rows(self, statement: Insert, args: Args) -> InsertRows | MessageRows:
        """Return the rows of an INSERT with the columns and types of its table; nothing runs.

        Kinds of changes, in a column ``_row_kind``, go along whatever the columns are.
        """
        temporary = self.session.find_temporary(statement.name)
        if isinstance(temporary, ForeignTable):
            return self._message_rows(statement, temporary, args)
        return self._table_rows(statement, args)

    def _table_rows(self, statement: Insert, args: Args) -> InsertRows:
        name = str(statement.name)
        table = self.session.data_table(statement.name, use="written")
        written = in_session(self.spark, table, dict(statement.options)).handle
        fixed = statement.partition
        self._check_partition(statement, table)
        statement = with_defaults(
            statement, written.schema.fields, table=name, zone=written.env.zone
        )
        rows = self._queries.frame(statement.query, args)
        kinds, plain = _kinds_of(rows)
        columns = list(statement.columns)
        if statement.by_name:
            columns = list(plain.columns)
        if merges_schema(written):
            columns = _target_names(columns, plain, written, statement)
            wanted = plain.toDF(*columns).schema
            named = replace(statement, columns=tuple(columns), by_name=True)
            # what does not fit is refused before the schema changes
            _assigned_rows(rows, named, with_drafted_schema(written, wanted), kept=kinds)
            written = with_merged_schema(written, wanted)
        else:
            named = replace(statement, columns=tuple(columns))
        rows = _assigned_rows(rows, named, written, kept=kinds)
        fields = written.schema.fields
        if statement.query.sql.lstrip()[:6].upper() == "VALUES":
            rows = rows.coalesce(1)  # in their order: of rows of one key the last wins
        rows = self._filled(rows, fields, fixed, name, kept=kinds)
        partition = None
        dynamic = written.options.get(declared.DYNAMIC_PARTITION_OVERWRITE)
        if statement.overwrite and fixed and not (statement.dynamic and dynamic):
            partition = dict(fixed)
        return InsertRows(written, rows, statement.overwrite, partition)

    def write(self, rows: InsertRows | MessageRows) -> None:
        """Write the rows of a batch in one commit, or as messages."""
        if isinstance(rows, MessageRows):
            write_messages(rows.table, rows.frame)
            return
        write_frame(
            rows.handle,
            rows.frame,
            mode="overwrite" if rows.overwrite else "append",
            partition=rows.partition,
            identity=CommitIdentity.of(rows.handle, None, None),
            tasks=None,
        )

    def _message_rows(self, statement: Insert, found: ForeignTable, args: Args) -> MessageRows:
        name = str(statement.name)
        table = kafka_table(found.definition, dict(statement.options))
        if statement.overwrite or statement.partition or statement.dynamic:
            message = f"Table '{name}' is of Kafka, which only appends: INSERT INTO {name} ...."
            raise UnsupportedError(message, kind="sql_clause", table=name)
        fields = table.written_fields
        statement = with_defaults(statement, fields, table=name, zone=self.session.catalog.env.zone)
        rows = self._queries.frame(statement.query, args)
        kinds, plain = _kinds_of(rows)
        columns = tuple(plain.columns) if statement.by_name else statement.columns
        targets = insert_targets(replace(statement, columns=columns), fields, table=name)
        rows = assigned(rows, targets, table=name, by_name=statement.by_name, kept=kinds)
        rows = self._filled(rows, fields, {}, name, kept=kinds)
        return MessageRows(table, rows)

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
        *,
        kept: str | None = None,
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
        return rows.select(*columns, *([] if kept is None else [kept]))

    def delete(self, statement: Delete, text: str) -> None:
        """Carry out DELETE."""
        table = self._changed(statement)
        if statement.where is None:
            delete_all(
                self.spark, table.handle, identity=CommitIdentity.of(table.handle, None, None)
            )
            return
        with self._expressions(text, table) as expressions:
            rows = RowSource(statement.name, statement.alias)
            delete_on_spark(
                self.spark,
                table.handle,
                _matching(statement.where, rows, table, expressions),
                identity=CommitIdentity.of(table.handle, None, None),
                tasks=None,
            )

    def update(self, statement: Update, text: str) -> None:
        """Carry out UPDATE."""
        table = self._changed(statement)
        given = values_with_defaults(
            statement.values, table.table_schema.fields, zone=table.handle.env.zone
        )
        statement = replace(statement, values=given)
        names = {f.name.casefold(): f.name for f in table.table_schema.fields}
        with (
            self._expressions(text, table) as expressions,
            translate_column_errors(text, table.identifier, values_of(statement)),
        ):
            rows = RowSource(statement.name, statement.alias)
            values = {
                names.get(c.casefold(), c): expressions.column(parse_expression(value, rows))
                for c, value in statement.values.items()
            }
            values |= self._field_updates(statement, table, rows, expressions, text)
            update_on_spark(
                self.spark,
                table.handle,
                values,
                _matching(statement.where, rows, table, expressions),
                identity=CommitIdentity.of(table.handle, None, None),
                tasks=None,
            )

    def _field_updates(
        self,
        statement: Update,
        table: Table,
        rows: RowSource,
        expressions: StatementExpressions,
        text: str,
    ) -> dict[str, Column]:
        """New values of the columns with updated fields."""
        fields = {f.name.casefold(): f for f in table.table_schema.fields}
        values: dict[str, Column] = {}
        struct = spark_schema(table.table_schema.fields, table=table.identifier)
        for column, inside in statement.field_values.items():
            position = statement.positions[column]
            field = fields.get(column.casefold())
            if field is None:
                shown = [f.name for f in fields.values()]
                message = f"Table '{statement.name}' has no column '{column}'."
                raise error_at(text, position, f"{message}{near_names(column, shown)}")
            given = [
                (one.path, expressions.column(parse_expression(one.value, rows))) for one in inside
            ]
            empty = self.spark.createDataFrame([], struct).alias(rows.shown)
            try:
                values[field.name] = with_fields(
                    empty, F.col(quoted(field.name)), field, given, table=str(statement.name)
                )
            except (InvalidInputError, UnsupportedError) as error:
                raise error_at(
                    text,
                    position,
                    error.message,
                    kind=error.kind,
                    error=type(error),
                    **error.context,
                ) from error
        return values

    def merge(self, statement: Merge, text: str) -> None:
        """Carry out MERGE."""
        table = self._changed(statement)
        fields, zone = table.table_schema.fields, table.handle.env.zone
        clauses = tuple(
            clause
            if clause.values is None
            else replace(clause, values=values_with_defaults(clause.values, fields, zone=zone))
            for clause in statement.clauses
        )
        statement = replace(statement, clauses=clauses)
        with self._expressions(text, table) as expressions:
            merge_by_statement(
                self.spark,
                statement,
                text,
                table,
                source=self._queries.merge_source,
                expressions=expressions,
            )

    @contextmanager
    def _expressions(self, text: str, table: Table) -> Iterator[StatementExpressions]:
        """Open the expressions of a statement; errors show their position."""
        columns = [f.name for f in table.table_schema.fields]
        with (
            translate_analysis_errors(Query(text, 0, len(text)), columns),
            StatementExpressions(
                self.spark, self._queries.subqueries, table.handle.env.ids
            ) as expressions,
        ):
            yield expressions

    def _changed(self, statement: Delete | Merge | Update) -> Table:
        table = self.session.data_table(statement.name, use="changed")
        return in_session(self.spark, table, dict(statement.options))

    def create_as(self, statement: CreateTable, query: Query, args: Args) -> None:
        """Carry out CREATE TABLE ... AS."""
        if statement.is_temporary:
            message = "A temporary table cannot have AS: CREATE TEMPORARY VIEW name AS ...."
            raise UnsupportedError(message, kind="sql_clause")
        connector = statement.options.get(CONNECTOR)
        if connector is not None and connector not in OWN_CONNECTORS:
            message = (
                f"Connector '{connector}' cannot be written: CREATE TABLE '{statement.name}'"
                " without AS declares the table."
            )
            raise UnsupportedError(message, kind="sql_connector", connector=connector)
        rows = self._queries.frame(query, args)
        if rows.isStreaming:
            message = (
                f"CREATE TABLE '{statement.name}' ... AS cannot take a stream: CREATE TABLE without"
                " AS, then INSERT INTO it starts a job; or SET 'execution.runtime-mode' = 'batch'."
            )
            raise UnsupportedError(message, kind="sql_streaming", table=str(statement.name))
        twice = [c for c in rows.columns if rows.columns.count(c) > 1]
        if twice:
            message = f"The query has two columns '{twice[0]}': rename one with AS."
            raise InvalidInputError(message, kind="column_twice", column=twice[0])
        fields = fields_from_spark(_nullable(rows.schema), table=str(statement.name))
        empty = replace(statement, fields=fields, query=None)
        if statement.if_exists == "replace":
            self._replace(empty, rows)
            return
        table = create_empty(empty, self.session)
        if table is None:
            return  # IF NOT EXISTS, and it exists
        try:
            _fill(table, rows)
        except OutcomeUnknownError:
            raise  # the rows may be committed
        except BaseException:
            resolved = self.session.resolve(statement.name)
            catalog = self.session.catalog_named(resolved.catalog_name)
            catalog.drop_table(resolved.identifier, if_missing="ignore")
            raise

    def _replace(self, statement: CreateTable, rows: DataFrame) -> None:
        """Write the staged table, then move it to the old one's location."""
        catalog, staged = create_staged(statement, self.session)
        try:
            _fill(staged, rows)
        except BaseException:
            discard(catalog, staged)
            raise
        put_in_place(catalog, staged)


def _kinds_of(rows: DataFrame) -> tuple[str | None, DataFrame]:
    """The column of the kinds of a stream of changes, and its rows without it."""
    if not rows.isStreaming or ROW_KIND not in rows.columns:
        return None, rows
    return ROW_KIND, rows.drop(ROW_KIND)


def _assigned_rows(
    rows: DataFrame, statement: Insert, handle: TableHandle, *, kept: str | None
) -> DataFrame:
    """The rows of an INSERT in the types of their columns."""
    table = str(statement.name)
    targets = insert_targets(statement, handle.schema.fields, table=table)
    return assigned(rows, targets, table=table, by_name=statement.by_name, kept=kept)


def _fill(table: Table, rows: DataFrame) -> None:
    write_frame(
        table.handle,
        rows,
        mode="append",
        partition=None,
        identity=CommitIdentity.of(table.handle, None, None),
        tasks=None,
    )


def _target_names(
    columns: Sequence[str], rows: DataFrame, handle: TableHandle, statement: Insert
) -> list[str]:
    """Target column names of a query's columns; the table may lack some."""
    given = counted(len(rows.columns), "column")
    if columns:
        if len(columns) != len(rows.columns):
            message = (
                f"The query gives {given}, but the list after table"
                f" '{statement.name}' has {len(columns)}."
            )
            raise InvalidInputError(message, kind="column_count", table=str(statement.name))
        return list(columns)
    own = [f.name for f in handle.schema.fields if f.name not in statement.partition]
    if len(rows.columns) < len(own):
        message = (
            f"The query gives {given}, but table '{statement.name}' takes"
            f" {len(own)}: {', '.join(own)}. Use INSERT ... BY NAME to omit some."
        )
        raise InvalidInputError(message, kind="column_count", table=str(statement.name))
    return [*own, *rows.columns[len(own) :]]


def _matching(
    where: Query | None, rows: RowSource, table: Table, expressions: StatementExpressions
) -> Matching:
    """The rows of a condition: the kernel's filter prunes files, Spark evaluates the rest."""
    alias, fresh = rows.shown, expressions.fresh
    if where is None:
        return Matching(alias=alias, fresh=fresh)
    found, known, is_whole = parse_condition(where, rows, table.table_schema.fields)
    predicate = None if known is None else bind(known, table.table_schema.fields)
    condition = None if is_whole else expressions.column(found)
    return Matching(predicate, condition, alias, fresh)


def _nullable(schema: st.StructType) -> st.StructType:
    """Make columns and nested fields nullable; literals and counts are not."""
    return st.StructType(
        [st.StructField(f.name, _nullable_inside(f.dataType), metadata=f.metadata) for f in schema]
    )


def _nullable_inside(data_type: st.DataType) -> st.DataType:
    if isinstance(data_type, st.StructType):
        return _nullable(data_type)
    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(_nullable_inside(data_type.elementType))
    if isinstance(data_type, st.MapType):
        return st.MapType(data_type.keyType, _nullable_inside(data_type.valueType))
    return data_type
