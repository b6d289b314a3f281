"""The columns that Paimon adds to data files, and their order.

A file of a primary-key table holds ``_KEY_<k>`` for each column of the trimmed primary key (unless
it is thin), ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, then all columns of the table. With row tracking
a file may hold ``_ROW_ID`` and ``_SEQUENCE_NUMBER`` behind the table's columns. Field ids are
Paimon's ``SpecialFields`` (1.3.1); ``docs/format/data-file.md``.
"""

from __future__ import annotations

from tidelake.types import DataField, DataType, TableSchema, TypeRoot

_INT_MAX = 2**31 - 1

KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
ROW_ID = "_ROW_ID"

# on disk: never renumber
_KEY_FIELD_ID_START = _INT_MAX // 2
SEQUENCE_FIELD = DataField(_INT_MAX - 1, SEQUENCE_NUMBER, DataType(TypeRoot.BIGINT, nullable=False))
KIND_FIELD = DataField(_INT_MAX - 2, VALUE_KIND, DataType(TypeRoot.TINYINT, nullable=False))

ROW_ID_FIELD = DataField(_INT_MAX - 5, ROW_ID, DataType(TypeRoot.BIGINT))
TRACKED_SEQUENCE_FIELD = DataField(_INT_MAX - 1, SEQUENCE_NUMBER, DataType(TypeRoot.BIGINT))
TRACKING_FIELDS = (ROW_ID_FIELD, TRACKED_SEQUENCE_FIELD)
"""What files of a table with row tracking may hold behind its columns, null where it is derived."""


def key_field(field: DataField) -> DataField:
    """Return the key column of a data file for a primary-key column.

    Examples
    --------
    >>> key_field(DataField(3, "k", DataType(TypeRoot.INT, nullable=False))).name
    '_KEY_k'
    """
    return DataField(_KEY_FIELD_ID_START + field.id, KEY_PREFIX + field.name, field.type)


def kv_fields(schema: TableSchema, *, thin: bool = False) -> tuple[DataField, ...]:
    """List the columns of a primary-key table's data file, in the order of the file.

    A thin file holds its keys once, among the table's columns (``data-file.thin-mode``).
    """
    if thin:
        return (SEQUENCE_FIELD, KIND_FIELD, *schema.fields)
    keys = tuple(key_field(schema.field(name)) for name in schema.trimmed_primary_keys)
    return (*keys, SEQUENCE_FIELD, KIND_FIELD, *schema.fields)


def is_system_name(name: str) -> bool:
    """Whether a name belongs to a column that Paimon adds, and not to the table's."""
    return name in {SEQUENCE_NUMBER, VALUE_KIND, ROW_ID} or name.startswith(KEY_PREFIX)
