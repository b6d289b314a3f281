"""Column defaults, as Spark's analyzer looks for them: in the metadata of a column.

It puts them in the place of DEFAULT, and of columns that an INSERT does not name. Without them it
takes NULL, which UPDATE would write.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as st

from tidelake.errors import TidelakeError
from tidelake.sql.syntax.insert_columns import default_literal
from tidelake.sql.syntax.parameters import sql_literal
from tidelake.types import DataField

CURRENT = "CURRENT_DEFAULT"
"""Where Spark keeps a default's text in the metadata of a column."""
_OF_OLD_ROWS = "EXISTS_DEFAULT"
_NO_VALUE = ("NULL", "CAST(NULL")


def with_column_defaults(
    struct: st.StructType, fields: Sequence[DataField], *, zone: str | None
) -> st.StructType:
    """The columns, with the defaults of those fields that have one.

    Parameters
    ----------
    struct : StructType
        Of the fields, and of others beside them.
    zone : str, optional
        Zone of times without one.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> fields = [DataField(0, "n", parse_type("INT"), None, "'7'")]
    >>> struct = st.StructType([st.StructField("n", st.IntegerType())])
    >>> with_column_defaults(struct, fields, zone=None)["n"].metadata
    {'CURRENT_DEFAULT': 'CAST(7 AS int)', 'EXISTS_DEFAULT': 'NULL'}
    """
    own = {field.name: field for field in fields if field.default_value is not None}
    if not own:
        return struct
    return st.StructType(
        [
            _with_default(column, own[column.name], zone) if column.name in own else column
            for column in struct.fields
        ]
    )


def declared_default(column: st.StructField) -> str | None:
    """The default that a statement declares for a column of a new table, as text of SQL.

    A column that comes from one of our tables, by a query or by LIKE, has a default that is none
    for old rows (:func:`with_column_defaults`): a query does not hand it on.
    """
    if str(column.metadata.get(_OF_OLD_ROWS)).startswith(_NO_VALUE):
        return None
    return column.metadata.get(CURRENT)


def _with_default(column: st.StructField, field: DataField, zone: str | None) -> st.StructField:
    try:
        value = default_literal(field, zone=zone)
    except TidelakeError:  # another engine's text: only who uses it meets Spark's error
        value = sql_literal(field.default_value, field.name)
    current = f"CAST({value} AS {column.dataType.simpleString()})"
    # a default stands for no null that is there
    metadata = {**column.metadata, CURRENT: current, _OF_OLD_ROWS: "NULL"}
    return st.StructField(column.name, column.dataType, column.nullable, metadata)
