"""Statements as values: parsers make them, executors run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidelake.sql.syntax.name import TableName
from tidelake.types import DataField
from tidelake.types.schema_change import RemoveOption, SchemaChange, SetOption


@dataclass(frozen=True, slots=True)
class Query:
    """Text of a query, of EXPLAIN and a query, or of an expression.

    Parameters
    ----------
    explain : str, optional
        The words before the query: ``EXPLAIN EXTENDED``.
    """

    text: str
    start: int
    end: int
    explain: str = ""

    @property
    def sql(self) -> str:
        """The query alone."""
        return self.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Watermark:
    """``WATERMARK FOR column AS expression``.

    Parameters
    ----------
    expression : str
        Flink's canonical form, names in backticks.
    """

    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """``METADATA FROM 'key' VIRTUAL`` of a column.

    Parameters
    ----------
    key : str
        Key of the other system's metadata; the column's name by default.
    is_virtual : bool
        Whether it is read-only.
    """

    key: str
    is_virtual: bool


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE, with or without AS.

    Parameters
    ----------
    fields : tuple of DataField
        Empty if AS or LIKE gives the columns.
    if_exists : {'error', 'ignore', 'replace'}
        What to do if the table exists.
    is_temporary : bool
        The session's own; `options` then hold its path.
    like : TableName, optional
        A table to copy columns, keys and options from; `options` win.
    """

    name: TableName
    fields: tuple[DataField, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    watermark: Watermark | None = None
    query: Query | None = None
    if_exists: Literal["error", "ignore", "replace"] = "error"
    must_exist: bool = False
    is_temporary: bool = False
    like: TableName | None = None
    metadata: Mapping[str, MetadataKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP [TEMPORARY] TABLE."""

    name: TableName
    if_missing: Literal["error", "ignore"] = "error"
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW.

    Parameters
    ----------
    kept_as : TableName, optional
        The name of a view that the catalog keeps; None for a temporary one.
    """

    name: str
    columns: tuple[str, ...]
    query: Query
    if_exists: Literal["error", "ignore", "replace"] = "error"
    start: int = 0
    kept_as: TableName | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP [TEMPORARY] VIEW."""

    name: TableName
    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class AddConstraint(SetOption):
    """``ADD CONSTRAINT <name> CHECK (...)``: an option that is not set yet."""


@dataclass(frozen=True, slots=True)
class DropConstraint(RemoveOption):
    """``DROP CONSTRAINT [IF EXISTS] <name>``: an option that is set."""

    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes of schema and options, all or none."""

    name: TableName
    changes: tuple[SchemaChange, ...]
    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE ... RENAME TO."""

    name: TableName
    new_name: TableName
    if_missing: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """ALTER TABLE ... DROP PARTITION."""

    name: TableName
    partitions: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class AlterTag:
    """ALTER TABLE ... CREATE, REPLACE, RENAME or DELETE TAG; DELETE takes several with commas."""

    name: TableName
    tag: str
    action: Literal["create", "create_or_replace", "replace", "drop", "rename"]
    snapshot_id: int | None = None
    if_exists: Literal["error", "ignore"] = "error"
    time_retained: str | None = None
    new_name: str | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE, of a whole table or of a partition."""

    name: TableName
    partition: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: TableName
    if_exists: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE."""

    name: TableName
    if_missing: Literal["error", "ignore"] = "error"
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """CREATE CATALOG ... WITH (...); its options may be secret."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    start: int = 0
    if_exists: Literal["error", "ignore"] = "error"


@dataclass(frozen=True, slots=True)
class Use:
    """USE database, USE catalog.database, USE CATALOG catalog."""

    parts: tuple[str, ...]
    is_catalog: bool = False
    start: int = 0


@dataclass(frozen=True, slots=True)
class SetProperty:
    """SET and RESET; `value` is None for RESET, `key` to list all."""

    key: str | None
    value: str | None
    is_reset: bool = False
    start: int = 0


@dataclass(frozen=True, slots=True)
class ShowNames:
    """SHOW DATABASES, TABLES, VIEWS or CATALOGS."""

    what: Literal["catalogs", "databases", "tables", "views"]
    database: TableName | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """SHOW COLUMNS."""

    name: TableName


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE TABLE."""

    name: TableName


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """SHOW TBLPROPERTIES."""

    name: TableName
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS, and SHOW TAGS with `tags`."""

    name: TableName
    partition: Mapping[str, object] | None = None
    tags: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE TABLE."""

    name: TableName
    extended: bool = False
    column: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeDatabase:
    """DESCRIBE DATABASE."""

    name: TableName


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or OVERWRITE.

    Parameters
    ----------
    columns : tuple of str
        Column list; empty for all columns.
    dynamic : tuple of str
        Columns of PARTITION without a value: the query gives it.
    """

    name: TableName
    query: Query
    overwrite: bool = False
    columns: tuple[str, ...] = ()
    partition: Mapping[str, object] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM; `where` is a condition of Spark, None for all rows."""

    name: TableName
    where: Query | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class FieldAssignment:
    """A new value of a nested field: ``SET address.city.name = ...``.

    Parameters
    ----------
    path : tuple of str
        The fields' names below the column: ``("city", "name")``.
    """

    path: tuple[str, ...]
    value: Query


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE; `values` assign columns, `field_values` nested fields."""

    name: TableName
    values: Mapping[str, Query]
    where: Query | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None
    field_values: Mapping[str, tuple[FieldAssignment, ...]] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WhenClause:
    """One WHEN of a MERGE.

    Parameters
    ----------
    condition : Query, optional
        Restricts the rows; all by default.
    values : mapping of str to Query, optional
        Expressions by columns; None for ``*`` and for a delete.
    positions : mapping of str to int
        Offsets of the columns in `values` and `field_values`.
    """

    when: Literal["matched", "not_matched", "not_matched_by_source"]
    action: Literal["update", "delete", "insert"]
    condition: Query | None = None
    values: Mapping[str, Query] | None = None
    start: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    field_values: Mapping[str, tuple[FieldAssignment, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO.

    Parameters
    ----------
    clauses : tuple of WhenClause
        In the order of the text; the first clause that matches a row applies.
    evolves : bool
        Add new columns of the source to the table.
    """

    name: TableName
    source: Query
    on: Query
    clauses: tuple[WhenClause, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    alias: str | None = None
    evolves: bool = False


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One ``name (columns) AS (query)`` of WITH."""

    name: str
    columns: tuple[str, ...]
    query: Query
    start: int = 0


@dataclass(frozen=True, slots=True)
class WithQueries:
    """WITH before DELETE, MERGE or UPDATE."""

    queries: tuple[NamedQuery, ...]
    statement: Delete | Merge | Update


@dataclass(frozen=True, slots=True)
class Analyze:
    """ANALYZE TABLE; `columns` is None for all, empty to only count rows."""

    name: TableName
    columns: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Refresh:
    """REFRESH TABLE; nothing is cached, so it only checks that the table exists."""

    name: TableName


@dataclass(frozen=True, slots=True)
class Call:
    """CALL sys.procedure(...).

    Parameters
    ----------
    catalog : str, optional
        Catalog of its tables; the current one by default.
    """

    name: str
    positional: tuple[object, ...] = ()
    named: Mapping[str, object] = field(default_factory=dict)
    start: int = 0
    catalog: str | None = None


@dataclass(frozen=True, slots=True)
class StatementSet:
    """INSERT statements that start together; in streaming mode each is a job."""

    inserts: tuple[Insert, ...]
    start: int = 0


@dataclass(frozen=True, slots=True)
class ShowJobs:
    """SHOW JOBS."""


@dataclass(frozen=True, slots=True)
class StopJob:
    """STOP JOB; `job` is the job's id, or its name."""

    job: str
    start: int = 0


Statement: TypeAlias = (
    AlterTable
    | AlterTag
    | Analyze
    | Call
    | CreateCatalog
    | CreateDatabase
    | CreateTable
    | CreateView
    | Delete
    | Describe
    | DescribeDatabase
    | DropDatabase
    | DropPartitions
    | DropTable
    | DropView
    | Insert
    | Merge
    | Query
    | Refresh
    | RenameTable
    | SetProperty
    | ShowColumns
    | ShowCreate
    | ShowJobs
    | ShowNames
    | ShowOptions
    | ShowPartitions
    | StatementSet
    | StopJob
    | Truncate
    | Update
    | Use
    | WithQueries
)
