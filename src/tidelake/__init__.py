"""A lakehouse in Python on Spark, in Apache Paimon's own file format.

>>> import tempfile, pyarrow as pa, tidelake
>>> catalog = tidelake.open(tempfile.mkdtemp())
>>> table = catalog.create_table(
...     "shop.orders",
...     pa.schema({"id": pa.int64(), "state": pa.string()}),
...     primary_keys=["id"],
...     options={"bucket": 2},
... )
>>> first = table.write([{"id": 1, "state": "new"}, {"id": 2, "state": "new"}])
>>> second = table.write([{"id": 1, "state": "paid"}])
>>> sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
[{'id': 1, 'state': 'paid'}, {'id': 2, 'state': 'new'}]
>>> table.count(snapshot_id=1)
2
"""

from typing import TYPE_CHECKING

from tidelake.catalog import Catalog, maintain
from tidelake.catalog import open_catalog as open
from tidelake.errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotEnoughMemoryError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.service.client.opening import lookup_client, lookup_client_async
from tidelake.service.serving import serve
from tidelake.table import SystemTable, Table, WriteResult
from tidelake.types.predicate import col
from tidelake.types.schema_change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from tidelake.types.variant.variant import variant_objects, variants

if not TYPE_CHECKING:  # for a type checker a misspelt name stays an error
    from tidelake.foreign_names import missing_from_package as __getattr__  # noqa: F401

__version__ = "0.2.0"


__all__ = [
    "AddColumn",
    "AlreadyExistsError",
    "Catalog",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "DropColumn",
    "InvalidInputError",
    "NotEnoughMemoryError",
    "NotFoundError",
    "OutcomeUnknownError",
    "Position",
    "RemoveOption",
    "RenameColumn",
    "SetOption",
    "StorageError",
    "StorageRefusedError",
    "SystemTable",
    "Table",
    "TidelakeError",
    "UnsupportedError",
    "UpdateColumnComment",
    "UpdateColumnDefaultValue",
    "UpdateColumnNullability",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "UpdateComment",
    "WriteResult",
    "__version__",
    "col",
    "lookup_client",
    "lookup_client_async",
    "maintain",
    "open",
    "serve",
    "variant_objects",
    "variants",
]
