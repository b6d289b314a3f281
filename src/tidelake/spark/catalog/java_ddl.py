"""Converts CREATE TABLE and ALTER TABLE of Spark's parser for the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from py4j.java_collections import JavaArray
from pyspark.sql import types as st

from tidelake.engine.schemas import merging_changes
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.options import CONSTRAINT_PREFIX, declared
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, struct_of, type_of
from tidelake.spark.catalog.column_defaults import declared_default
from tidelake.spark.expression.types import fields_from_spark
from tidelake.spark.streams.connector.provider import PROVIDER_CLASS
from tidelake.sql.parser.create import parse_default
from tidelake.sql.syntax.ast import AddConstraint, DropConstraint
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.schema_change import (
    AddColumn,
    ColumnPath,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)

PRIMARY_KEY = "primary-key"
PARTITION = "partition"
COMMENT = "comment"
LOCATION = "location"
OWN_PROVIDERS = frozenset({"tidelake", "paimon"})
PROVIDER_DEFAULT = "spark.sql.sources.default"
STREAM_WRITER = "DataStreamWriter.toTable("
DEFAULTING = ("DataFrameWriter.saveAsTable(", STREAM_WRITER, "classic.Catalog.createTable(")
"""Spark's methods that pass its default format where the user names none."""
# properties that Spark adds by itself
_OF_SPARK = ("owner", "external", "is_managed_location", "collation", "table_type")
_OPTION_PREFIX = "option."
_PARTS = {TypeRoot.ARRAY: ("element",), TypeRoot.MAP: ("key", "value")}


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create; arguments as of :meth:`tidelake.catalog.Catalog.create_table`."""

    fields: tuple[DataField, ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @classmethod
    def of(cls, gateway: Gateway, name: str, asked: Sequence[JavaObject]) -> NewTable:
        """Take the arguments of ``createTable``.

        Parameters
        ----------
        asked : sequence of JavaObject
            A ``TableInfo``; or columns (or a schema), transforms and properties.
        """
        constraints: Sequence[JavaObject] = ()
        if len(asked) == 1:
            (info,) = asked
            columns, transforms, properties = info.columns(), info.partitions(), info.properties()
            constraints = info.constraints() or ()
        else:
            columns, transforms, properties = asked
        schema = columns
        if isinstance(columns, JavaArray):
            util = gateway.connector("catalog.CatalogV2Util")
            schema = util.v2ColumnsToStructType(columns)
        options = dict(properties)
        _check_provider(gateway, options.pop("provider", None), name)
        if LOCATION in options:
            message = (
                f"Table '{name}' cannot have a LOCATION: its directory is"
                " <warehouse>/<database>.db/<table>."
            )
            raise UnsupportedError(message, kind="sql_clause", table=name)
        for key in list(options):
            if key in _OF_SPARK or key.startswith(_OPTION_PREFIX):
                del options[key]
        comment = options.pop(COMMENT, None)
        keys = _names(options.pop(PRIMARY_KEY, "")) or _primary_key(constraints, name)
        partition = _names(options.pop(PARTITION, "")) or _partition(transforms, name)
        return cls(_fields(struct_of(schema), name), keys, partition, options, comment)

    def like(self, schema: TableSchema) -> NewTable:
        """A table like another, with the options and the comment of this one."""
        return NewTable(
            schema.fields,
            schema.primary_keys,
            schema.partition_keys,
            {**schema.options, **self.options},
            schema.comment if self.comment is None else self.comment,
        )

    def without_defaults(self) -> NewTable:
        """The same with the columns of a query, which bring no defaults along."""
        return replace(self, fields=tuple(replace(f, default_value=None) for f in self.fields))


def _fields(struct: st.StructType, table: str) -> tuple[DataField, ...]:
    """The columns, with the defaults that Spark keeps in their metadata."""
    fields = fields_from_spark(_plain(struct), table=table)
    defaults = map(declared_default, struct.fields)
    return tuple(
        own if default is None else replace(own, default_value=parse_default(default))
        for own, default in zip(fields, defaults, strict=True)
    )


def _plain(struct: st.StructType) -> st.StructType:
    """The schema with CHAR(n) and VARCHAR(n), which Spark hides in the metadata."""
    fields = []
    for one in struct.fields:
        hidden = one.metadata.get("__CHAR_VARCHAR_TYPE_STRING")
        data_type = one.dataType
        if hidden is not None and hidden.startswith(("char(", "varchar(")):
            length = int(hidden[hidden.index("(") + 1 : -1])
            kind = st.CharType if hidden.startswith("char") else st.VarcharType
            data_type = kind(length)
        fields.append(st.StructField(one.name, data_type, one.nullable, one.metadata))
    return st.StructType(fields)


def _check_provider(gateway: Gateway, provider: str | None, name: str) -> None:
    """Refuse another format than ours, but not what Spark passes where the user names none.

    A method that passes it looks the same if the user names Spark's default format there.
    """
    try:
        check_own_provider(provider, name)
    except UnsupportedError:
        default = str(gateway.spark.conf.get(PROVIDER_DEFAULT, "parquet"))
        if str(provider).lower() != default.lower() or not called_by(gateway, *DEFAULTING):
            raise


def called_by(gateway: Gateway, *methods: str) -> bool:
    """Whether one of these methods of Java's waits for this call, by the stack of the call."""
    text = gateway.java("java.io.StringWriter")()
    gateway.java("java.lang.Throwable")().printStackTrace(gateway.java("java.io.PrintWriter")(text))
    stack = str(text.toString())
    return any(method in stack for method in methods)


def check_own_provider(provider: str | None, name: str) -> None:
    """Refuse the format of another source.

    Raises
    ------
    UnsupportedError
        USING names it.
    """
    if provider is None or provider.lower() in {*OWN_PROVIDERS, PROVIDER_CLASS.lower()}:
        return
    message = (
        f"Table '{name}' cannot be created USING {provider}: this catalog has Tidelake tables only."
        " Write USING tidelake, or omit it; the option 'file.format' sets the file format."
    )
    raise UnsupportedError(message, kind="sql_clause", table=name)


def made_for_stream(gateway: Gateway, name: str, asked: Sequence[JavaObject]) -> bool:
    """Whether ``writeStream.toTable`` makes a table; refuse one that it then cannot write.

    That is only where a stream needs our format. Spark makes the missing table first and compares
    the formats after that. What it passes here is what ``spark.catalog.createTable`` passes too, so
    the caller is found in the stack of this call.

    Parameters
    ----------
    asked : sequence of JavaObject
        The arguments of ``createTable``.

    Raises
    ------
    UnsupportedError
        The stream's writer has another format than Tidelake's.
    """
    properties = asked[0].properties() if len(asked) == 1 else asked[2]
    provider = properties.get("provider")
    if provider is None or not called_by(gateway, STREAM_WRITER):
        return False
    if gateway.writes_streams or provider.lower() == PROVIDER_CLASS.lower():
        return True
    message = (
        f"Table '{name}' was not created: writeStream.toTable cannot write a Tidelake table with"
        f" the format '{provider}'. Add .format(tidelake.spark.STREAM), or use"
        " tl.write_stream(frame, name)."
    )
    raise UnsupportedError(message, kind="stream_provider", table=name)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _primary_key(constraints: Sequence[JavaObject], name: str) -> tuple[str, ...]:
    keys: tuple[str, ...] = ()
    for one in constraints:
        if one.getClass().getSimpleName() != "PrimaryKey" or one.enforced():
            message = (
                f"Table '{name}' cannot have the constraint {one.toDDL()}: only PRIMARY KEY (...)"
                " NOT ENFORCED is supported."
            )
            raise UnsupportedError(message, kind="sql_clause", table=name)
        keys = tuple(_only(reference, name) for reference in one.columns())
    return keys


def _partition(transforms: Sequence[JavaObject], name: str) -> tuple[str, ...]:
    keys = []
    for one in transforms:
        if one.name() == "cluster_by":
            raise _no_cluster_by(name, one.references())
        if one.name() != "identity":
            message = (
                f"Table '{name}' cannot be partitioned by {one.toString()}: partition by a"
                " column; the options 'bucket' and 'bucket-key' set the buckets."
            )
            raise UnsupportedError(message, kind="sql_clause", table=name)
        keys.append(_only(one.references()[0], name))
    return tuple(keys)


def _no_cluster_by(name: str, columns: Sequence[JavaObject]) -> UnsupportedError:
    listed = ",".join(".".join(map(str, column.fieldNames())) for column in columns)
    key = declared.CLUSTERING_COLUMNS.key
    instead = f"Write TBLPROPERTIES ('{key}' = '{listed}')" if listed else "UNSET the option"
    message = f"Table '{name}' has no CLUSTER BY: the option '{key}' sorts its rows. {instead}."
    return UnsupportedError(message, kind="sql_clause", table=name)


def _only(reference: JavaObject, name: str) -> str:
    names = [str(part) for part in reference.fieldNames()]
    if len(names) != 1:
        message = (
            f"Table '{name}': '{'.'.join(names)}' is inside another column and cannot be a key."
        )
        raise InvalidInputError(message, kind="bad_key", table=name)
    return names[0]


# ---- ALTER TABLE


def schema_changes(changes: Sequence[JavaObject], *, table: str) -> list[SchemaChange]:
    """Convert ALTER TABLE to changes of the kernel.

    Parameters
    ----------
    changes : sequence of JavaObject
        ``TableChange`` of Spark's.

    Raises
    ------
    UnsupportedError
        The kernel has no such change.
    """
    made: list[SchemaChange] = []
    for change in changes:
        kind = change.getClass().getSimpleName()
        maker = _CHANGES.get(kind)
        if maker is None:
            message = (
                f"Table '{table}' cannot be altered by {change.toString()}: tl.sql(\"ALTER TABLE"
                ' ...") lists the supported changes.'
            )
            raise UnsupportedError(message, kind="sql_clause", table=table)
        made.extend(maker(change, table))
    return made


def is_merging(change: JavaObject, fields: Sequence[DataField], *, table: str) -> bool:
    """Whether a change is one by which a schema comes to hold the rows of another.

    It adds a column or a field, or widens a type as ``tl.sql`` does: a narrower type of a source is
    cast to the column's.
    """
    (asked,) = schema_changes([change], table=table)
    if not isinstance(asked, UpdateColumnType):
        return isinstance(asked, AddColumn)
    first, *rest = (asked.column,) if isinstance(asked.column, str) else asked.column
    (own,) = (f.type for f in fields if f.name.casefold() == first.casefold())
    for part in rest:
        names = _PARTS.get(own.root) or tuple(name for _, name in own.child_fields)
        own = own.children[[name.casefold() for name in names].index(part.casefold())]
    new = _type(change.newDataType(), nullable=True, table=table)
    changes = merging_changes([DataField(0, "c", own)], [DataField(0, "c", new)], explicit=False)
    return changes == (UpdateColumnType("c", new),)


def _path(change: JavaObject) -> ColumnPath:
    names = tuple(str(name) for name in change.fieldNames())
    return names[0] if len(names) == 1 else names


def _type(data_type: JavaObject, *, nullable: bool, table: str) -> DataType:
    struct = st.StructType([st.StructField("c", type_of(data_type), nullable)])
    return fields_from_spark(_plain(struct), table=table)[0].type


def _position(given: JavaObject | None) -> Position | None:
    if given is None:
        return None
    if given.getClass().getSimpleName() == "First":
        return Position.first()
    return Position.after(str(given.column()))


def _add(change: JavaObject, table: str) -> list[SchemaChange]:
    data_type = _type(change.dataType(), nullable=change.isNullable(), table=table)
    given = change.defaultValue()
    default = None if given is None else parse_default(str(given.getSql()))
    position = _position(change.position())
    return [AddColumn(_path(change), data_type, change.comment(), position, default)]


def _drop(change: JavaObject, _table: str) -> list[SchemaChange]:
    return [DropColumn(_path(change))]


def _rename(change: JavaObject, _table: str) -> list[SchemaChange]:
    return [RenameColumn(_path(change), str(change.newName()))]


def _retype(change: JavaObject, table: str) -> list[SchemaChange]:
    return [
        UpdateColumnType(_path(change), _type(change.newDataType(), nullable=True, table=table))
    ]


def _nullability(change: JavaObject, _table: str) -> list[SchemaChange]:
    return [UpdateColumnNullability(_path(change), bool(change.nullable()))]


def _column_comment(change: JavaObject, _table: str) -> list[SchemaChange]:
    return [UpdateColumnComment(_path(change), change.newComment())]


def _default(change: JavaObject, _table: str) -> list[SchemaChange]:
    text = str(change.newDefaultValue())  # empty for DROP DEFAULT
    return [UpdateColumnDefaultValue(_path(change), parse_default(text) if text else None)]


def _add_constraint(change: JavaObject, table: str) -> list[SchemaChange]:
    given = change.constraint()
    if given.getClass().getSimpleName() != "Check":
        message = (
            f"Table '{table}' cannot get the constraint {given.toDDL()}: only CHECK can be added."
            " A primary key decides the layout of files: create a new table with it."
        )
        raise UnsupportedError(message, kind="sql_clause", table=table)
    return [AddConstraint(CONSTRAINT_PREFIX + str(given.name()), str(given.predicateSql()))]


def _drop_constraint(change: JavaObject, _table: str) -> list[SchemaChange]:
    key = CONSTRAINT_PREFIX + str(change.name())
    return [DropConstraint(key, "ignore" if change.ifExists() else "error")]


def _cluster(change: JavaObject, table: str) -> NoReturn:
    raise _no_cluster_by(table, change.clusteringColumns())


def _move(change: JavaObject, table: str) -> list[SchemaChange]:
    path = _path(change)
    position: Any = _position(change.position())
    if not isinstance(path, str):
        message = (
            f"Table '{table}': '{'.'.join(path)}' is inside another column and cannot move out of"
            " it."
        )
        raise UnsupportedError(message, kind="sql_clause", table=table)
    return [UpdateColumnPosition(path, position)]


def _set(change: JavaObject, table: str) -> list[SchemaChange]:
    key, value = str(change.property()), str(change.value())
    if key == LOCATION:
        message = f"Table '{table}' cannot move: the warehouse and its name give its location."
        raise UnsupportedError(message, kind="sql_clause", table=table)
    # COMMENT ON ... IS NULL comes as an empty text
    return [UpdateComment(value or None) if key == COMMENT else SetOption(key, value)]


def _remove(change: JavaObject, _table: str) -> list[SchemaChange]:
    key = str(change.property())
    return [UpdateComment(None) if key == COMMENT else RemoveOption(key)]


_CHANGES = {
    "AddColumn": _add,
    "DeleteColumn": _drop,
    "RenameColumn": _rename,
    "UpdateColumnType": _retype,
    "UpdateColumnNullability": _nullability,
    "UpdateColumnComment": _column_comment,
    "UpdateColumnDefaultValue": _default,
    "UpdateColumnPosition": _move,
    "SetProperty": _set,
    "RemoveProperty": _remove,
    "AddConstraint": _add_constraint,
    "DropConstraint": _drop_constraint,
    "ClusterBy": _cluster,
}
