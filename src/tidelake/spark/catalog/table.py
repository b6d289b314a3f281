"""Tables as Spark's connector interfaces need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.engine.rows import truncate
from tidelake.engine.scan import ScanRequest, metadata_fields
from tidelake.engine.tables import (
    AUDIT_LOG,
    RowView,
    SystemTable,
    Table,
    instant,
)
from tidelake.engine.write import ROW_KIND_COLUMN, CommitIdentity
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.options import declared
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.column_defaults import with_column_defaults
from tidelake.spark.catalog.java_ddl import is_merging
from tidelake.spark.catalog.metadata_columns import metadata_columns
from tidelake.spark.catalog.partitions import PARTITIONED, TablePartitions
from tidelake.spark.catalog.row_changes import change_rows
from tidelake.spark.catalog.scans.scan_builder import LakeScanBuilder, RowsScanBuilder
from tidelake.spark.catalog.writing import (
    LakeWriteBuilder,
    WriteOptions,
    merging_option,
    writes_by_name,
)
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.changes_frame import ChangesBetween, two_moments
from tidelake.spark.read.table_frame import in_session, table_frame
from tidelake.spark.rowlevel.delete_update import delete_all
from tidelake.spark.sessions.time_zone import session_ms
from tidelake.spark.streams.connector.named_sinks import named_sink
from tidelake.spark.streams.connector.provider import SCHEMA, TABLE, WAREHOUSE, fallback_table
from tidelake.spark.streams.write.kept_changes import CHANGES, changes_text
from tidelake.spark.versions import SCHEMA_EVOLUTION, has
from tidelake.spark.write.schema_merging import merges_schema

PROVIDER = "tidelake"
CATALOG = f"{CONNECTOR}.catalog"
CHANGED = "org.apache.spark.api.java.function.VoidFunction"
"""Takes DELETE, UPDATE and MERGE (:mod:`tidelake.spark.catalog.row_changes`)."""
STREAMED = "java.util.function.BiFunction"
"""Gives a stream its sink (:mod:`tidelake.spark.streams.connector.named_sinks`)."""
EVOLVED = (f"{CATALOG}.SupportsSchemaEvolution",) if has(SCHEMA_EVOLUTION) else ()
"""Lets a MERGE that says so change the schema first, by the catalog's ``alterTable``."""


class Relation(Proxy):
    """The common parts of all tables."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        super().__init__(gateway)
        self._name = name

    def name(self) -> str:
        """Its name in messages."""
        return self._name

    def id(self) -> str | None:
        """None: the name identifies it."""
        return None

    def version(self) -> None:
        """None: Spark must not load the table again between analysis and execution."""

    def currentVersion(self) -> None:
        """None, as :meth:`version`."""

    def partitioning(self) -> JavaObject:
        """The partition columns."""
        return self.gateway.array(f"{CONNECTOR}.expressions.Transform", ())

    def constraints(self) -> JavaObject:
        """The primary key."""
        return self.gateway.array(f"{CATALOG}.constraints.Constraint", ())

    def _time(self, text: str) -> datetime:
        """A time of a statement, in the session's zone where it names none."""
        at_ms = session_ms(self.gateway.spark, text)
        assert at_ms is not None
        return instant(at_ms)

    def _columns_of(self, struct: Any) -> JavaObject:
        gateway = self.gateway

        def made() -> JavaObject:
            util = gateway.connector("catalog.CatalogV2Util")
            try:
                rest = [getattr(util, "structTypeToV2Columns$default$2")()]
            except Py4JError:  # Spark 4.0 and 4.1 take the columns alone
                rest = []
            return util.structTypeToV2Columns(gateway.schema(struct), *rest)

        return gateway.kept(("columns", struct.json()), made)


class SystemRelation(Relation, implements=(f"{CATALOG}.SupportsRead", CHANGED)):
    """A read-only system table.

    Parameters
    ----------
    gateway, name
        As of every table.
    moment : mapping
        The moment to read, if one is given.
    base : callable
        Opens the table that it tells of; None of one of the whole catalog.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        table: SystemTable,
        moment: Mapping[str, Any],
        base: Callable[[], Table | None],
    ) -> None:
        super().__init__(gateway, name)
        self._table = table
        self._moment = moment
        self._base = base
        if isinstance(table, RowView):
            fields = table.scan(**moment).rows.fields
            self._struct = spark_schema(fields, table=name)
        else:
            self._struct = gateway.spark.createDataFrame(table.schema.empty_table()).schema

    def schema(self) -> JavaObject:
        """The columns."""
        return self.gateway.schema(self._struct)

    def columns(self) -> JavaObject:
        """The columns."""
        return self._columns_of(self._struct)

    def properties(self) -> JavaObject:
        """None of its own."""
        return self.gateway.mapping({"provider": PROVIDER})

    def capabilities(self) -> JavaObject:
        """Reads."""
        return self.gateway.constants("catalog.TableCapability", "BATCH_READ")

    def newScanBuilder(self, options: JavaObject) -> JavaObject:
        """Begin a read."""
        rows = self._rows(dict(self.gateway.options(options)))
        return RowsScanBuilder(self.gateway, rows, self._struct, self._name)

    def _rows(self, options: dict[str, object]) -> Callable[[Sequence[str]], DataFrame]:
        """What maps columns to rows, with the options of this use."""
        spark, found, system = self.gateway.spark, self._table, self._name.rpartition("$")[2]
        if options:
            base = self._base()
            if base is None:
                message = f"'{self._name}' tells of the catalog, so it takes no options."
                raise InvalidInputError(message, kind="system_table", table=self._name)
            if system == AUDIT_LOG:
                between = two_moments(options, self._name, time=self._time)
                if between is not None:
                    changes = ChangesBetween(spark, base, between, options, self._name)
                    return changes.audit_log
            found = in_session(spark, base, options).system_table(system)
        return lambda columns: table_frame(
            spark, found, self._name, columns=list(columns), moment=self._moment
        )

    def call(self, _change: JavaObject) -> NoReturn:
        """Refuse DELETE, UPDATE and MERGE."""
        message = f"'{self._name}' is a system table and cannot be changed: name the table itself."
        raise InvalidInputError(message, kind="system_table", table=self._name)


class LakeTable(
    Relation,
    TablePartitions,
    implements=(
        f"{CATALOG}.SupportsRead",
        f"{CATALOG}.SupportsMetadataColumns",
        f"{CATALOG}.SupportsWrite",
        f"{CATALOG}.TruncatableTable",
        f"{CATALOG}.V2TableWithV1Fallback",
        PARTITIONED,
        CHANGED,
        STREAMED,
        *EVOLVED,
    ),
):
    """A table of the warehouse.

    Parameters
    ----------
    gateway, name
        As of every table.
    moment : mapping
        The moment to read, if one is given.
    is_write : bool
        Whether it was loaded for a write.

    Attributes
    ----------
    state : str
        Its state when loaded; two reads of one state give the same rows.
    on_refused_stream : callable
        Called when a stream into it is refused.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        table: Table,
        moment: Mapping[str, Any],
        options: Mapping[str, object],
        *,
        warehouse: str,
        catalog: str,
        is_write: bool = False,
    ) -> None:
        super().__init__(gateway, name)
        self.on_refused_stream: Callable[[], None] = lambda: None
        self._table = table
        self._warehouse = warehouse
        self._catalog = catalog
        self._moment = dict(moment)
        self._options = dict(options)
        opened = in_session(gateway.spark, table, self._options)
        self._merges = is_write and merges_schema(opened.handle) and writes_by_name(gateway)
        self._metadata = metadata_fields(opened.table_schema)
        request = ScanRequest(**self._moment)
        snapshot = request.snapshot(opened.handle)
        self._fields = opened.table_schema.fields
        if request.travels(opened.handle):
            self._fields = opened.handle.read_context(snapshot).schema.fields
        self._struct = spark_schema(self._fields, table=table.identifier)
        # of this use only: with the option set, batch reads have the columns of the table's rows
        asked = str(self._options.get(declared.READ_CHANGELOG.key)).lower()
        self._shows_kinds = asked == "true"
        if self._shows_kinds:
            kind = st.StructField(ROW_KIND_COLUMN, st.StringType())
            self._struct = st.StructType([kind, *self._struct.fields])
        schema, written = table.table_schema, None
        if snapshot is not None:
            # the id alone may name another snapshot after a rollback, or in a recreated table
            written = (snapshot.id, snapshot.base_manifest_list, snapshot.delta_manifest_list)
        self.state = (
            f"{table.handle.branch_uri}, schema {schema.id} of {schema.time_ms},"
            f" snapshot {written}, {self._moment}, {sorted(opened.options.raw.items())}"
        )

    def id(self) -> str:
        """Its location: other warehouses may have catalogs and tables of the same names."""
        return self._table.handle.branch_uri

    def toString(self) -> str:
        """The loaded state: Spark finds cached data of the same state by it."""
        return self.state

    def schema(self) -> JavaObject:
        """The columns."""
        return self.gateway.schema(self._struct)

    def columns(self) -> JavaObject:
        """The columns; nullable, as in every scan: the write refuses nulls."""
        zone = self._table.handle.env.zone
        return self._columns_of(with_column_defaults(self._struct, self._fields, zone=zone))

    def metadataColumns(self) -> JavaObject:
        """The position of a row: ``__paimon_file_path`` and others."""
        struct = spark_schema(tuple(self._metadata.values()), table=self._table.identifier)
        return metadata_columns(self.gateway, struct)

    def canRenameConflictingMetadataColumns(self) -> bool:
        """No: a column of the table hides the metadata column of its name."""
        return False

    def partitioning(self) -> JavaObject:
        """The partition columns."""
        expressions = self.gateway.connector("expressions.Expressions")
        made = [expressions.identity(quoted(name)) for name in self._table.partition_keys]
        return self.gateway.array(f"{CONNECTOR}.expressions.Transform", made)

    def constraints(self) -> JavaObject:
        """The primary key."""
        keys = self._table.primary_keys
        made = []
        if keys:
            expressions = self.gateway.connector("expressions.Expressions")
            references = self.gateway.array(
                f"{CONNECTOR}.expressions.NamedReference",
                [expressions.column(quoted(name)) for name in keys],
            )
            constraint = self.gateway.connector("catalog.constraints.Constraint")
            made.append(constraint.primaryKey("primary_key", references).enforced(False).build())
        return self.gateway.array(f"{CATALOG}.constraints.Constraint", made)

    def properties(self) -> JavaObject:
        """The stored options, and properties with names of Spark's."""
        schema = self._table.table_schema
        shown = dict(schema.options)
        shown["provider"] = PROVIDER
        shown["location"] = self._table.handle.uri
        if schema.comment:
            shown["comment"] = schema.comment
        return self.gateway.mapping(shown)

    def capabilities(self) -> JavaObject:
        """The supported operations."""
        return self.gateway.constants(
            "catalog.TableCapability",
            *(("ACCEPT_ANY_SCHEMA",) if self._merges else ()),
            "BATCH_READ",
            "BATCH_WRITE",
            "V1_BATCH_WRITE",
            *(("STREAMING_WRITE",) if self.gateway.writes_streams else ()),
            "TRUNCATE",
            "OVERWRITE_BY_FILTER",
            "OVERWRITE_DYNAMIC",
            *(("AUTOMATIC_SCHEMA_EVOLUTION",) if EVOLVED else ()),
        )

    def supportsColumnChange(self, change: JavaObject) -> bool:
        """Whether a statement with schema evolution may change a column so."""
        return is_merging(change, self._fields, table=self._name)

    def newScanBuilder(self, options: JavaObject) -> JavaObject:
        """Begin a read."""
        if self._shows_kinds:
            message = (
                f"Option '{declared.READ_CHANGELOG.key}' of table '{self._name}' is for streams:"
                " unset it, and read the changes with tl.changes, or a stream with"
                " spark.readStream.table."
            )
            raise InvalidInputError(message, kind="read_changelog", table=self._name)
        given = {**self._options, **self.gateway.options(options)}
        between = two_moments(given, self._name, time=self._time)
        if between is not None:
            changes = ChangesBetween(self.gateway.spark, self._table, between, given, self._name)
            return RowsScanBuilder(self.gateway, changes.rows, self._struct, self._name)
        opened = in_session(self.gateway.spark, self._table, given)
        return LakeScanBuilder(self.gateway, opened, self._fields, self._moment, self._name)

    def newWriteBuilder(self, info: JavaObject) -> JavaObject:
        """Begin a write."""
        given = {**self._options, **merging_option(self.gateway.options(info.options()))}
        options = WriteOptions.of(self.gateway.spark, self._table, given, merges=self._merges)
        return LakeWriteBuilder(self.gateway, options, self._name)

    def truncateTable(self, *_options: JavaObject) -> bool:
        """TRUNCATE TABLE; DELETE without a condition comes by :meth:`call`, or here, too."""
        handle = self._opened().handle
        identity = CommitIdentity.of(handle, None, None)
        if self.gateway.changes_rows:
            truncate(handle, identity=identity)
        else:
            delete_all(self.gateway.spark, handle, identity=identity)
        return True

    def _opened(self) -> Table:
        return in_session(self.gateway.spark, self._table, self._options)

    def v1Table(self) -> JavaObject:
        """Opens a stream from it: Spark uses this for nothing else, but to show a stream's sink."""
        return fallback_table(
            self.gateway,
            self._table.handle.branch_uri,
            self.schema(),
            {
                WAREHOUSE: self._warehouse,
                TABLE: self._table.identifier,
                SCHEMA: str(self._table.table_schema.id),
                CHANGES: changes_text(self._table.handle),
            },
            catalog=self._catalog,
        )

    def supportedCustomMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomMetric", ())

    def reportDriverMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomTaskMetric", ())

    def call(self, change: JavaObject) -> None:
        """Carry out DELETE, UPDATE or MERGE."""
        spark = self.gateway.session_of(change.session())
        given = {**self._options, **self.gateway.options(change.options())}
        options = WriteOptions.of(spark, self._table, given)
        change_rows(spark, options.table, options.identity, change)

    def apply(self, stream: JavaObject | None, is_continuous: bool) -> JavaObject:  # noqa: FBT001
        """Give a stream into it its sink; None is a stream that Spark refuses after that."""
        if stream is None:
            self.on_refused_stream()
            return None
        try:
            return named_sink(self.gateway, self._table, stream, is_continuous=is_continuous)
        except TidelakeError:
            self.on_refused_stream()
            raise

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Refuse, as nothing may follow a sink."""
        message = f"The sink of table '{self._name}' cannot be composed with functions."
        raise UnsupportedError(message, kind="stream_provider", table=self._name)


class NestedInsertTable(
    LakeTable,
    implements=(*LakeTable.Java.implements, f"{CATALOG}.SupportsRowLevelOperations"),
):
    """A table with nested columns, loaded for statements that only insert.

    Spark matches the fields of nested rows by name in a MERGE if the table has this interface, and
    otherwise casts them by position, which fails before the statement reaches us. A MERGE that only
    inserts becomes an append.
    """

    def newRowLevelOperationBuilder(self, info: JavaObject) -> JavaObject:
        """Spark asks for none where rows are only inserted."""
        word = str(info.command().toString())
        message = (
            f"{word} on table '{self._name}' was planned as if it only inserts: run the same"
            f' statement with tl.sql("{word} ...").'
        )
        raise UnsupportedError(message, kind="row_level", table=self._name)
