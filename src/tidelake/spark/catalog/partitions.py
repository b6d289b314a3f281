"""The partitions of a table: SHOW PARTITIONS, TRUNCATE and DROP PARTITION by plain ``spark.sql``.

Spark finds the columns that a statement names, casts the values to their types, and hands them over
as rows of its own. From there it is what ``tl.sql`` does: a list from the manifests, or one commit
that touches metadata only. How a value is shown is Spark's: NULL as ``null``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import pyarrow as pa

from tidelake.engine.tables import Table, live_partitions
from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, JavaObject, Proxy
from tidelake.spark.expression.java_filter import held_value
from tidelake.spark.expression.types import spark_schema
from tidelake.types import DataField
from tidelake.types.values import storage_to_arrow, to_storage

PARTITIONED = f"{CONNECTOR}.catalog.SupportsAtomicPartitionManagement"


class TablePartitions(Proxy):
    """The partitions of a table; a part of :class:`~tidelake.spark.catalog.table.LakeTable`."""

    _name: str

    def _opened(self) -> Table:
        """The table, with the options of the session and of this use."""
        raise NotImplementedError

    def partitionSchema(self) -> JavaObject:
        """The partition columns."""
        return self.gateway.schema(spark_schema(self._partition_fields(), table=self._name))

    def listPartitionIdentifiers(self, names: JavaObject, values: JavaObject) -> JavaObject:
        """The partitions with files that have some values."""
        fields = {field.name: field for field in self._partition_fields()}
        given = [fields[str(name)] for name in names]
        wanted = self._stored(values, given)
        rows = [row for row in self._live() if wanted.items() <= row.items()]
        columns = {
            name: storage_to_arrow([row[name] for row in rows], field.type)
            for name, field in fields.items()
        }
        frame = self.gateway.spark.createDataFrame(
            pa.table(columns), spark_schema(tuple(fields.values()), table=self._name)
        )
        return frame._jdf.queryExecution().executedPlan().executeCollect()

    def partitionExists(self, partition: JavaObject) -> bool:
        """Whether it has files."""
        return self._stored(partition, self._partition_fields()) in self._live()

    def dropPartition(self, partition: JavaObject) -> bool:
        """ALTER TABLE ... DROP PARTITION."""
        return self._drop([partition])

    def dropPartitions(self, partitions: JavaObject) -> bool:
        """The same of several, in one commit."""
        return self._drop(partitions)

    def purgePartition(self, partition: JavaObject) -> bool:
        """PURGE is the same: snapshots before keep the rows until they expire."""
        return self._drop([partition])

    def purgePartitions(self, partitions: JavaObject) -> bool:
        """The same of several."""
        return self._drop(partitions)

    def truncatePartition(self, partition: JavaObject) -> bool:
        """TRUNCATE TABLE ... PARTITION; one without rows stays without."""
        return self._drop([partition])

    def truncatePartitions(self, partitions: JavaObject) -> bool:
        """TRUNCATE TABLE ... PARTITION with some of the columns."""
        return self._drop(partitions)

    def createPartition(self, _partition: JavaObject, _properties: JavaObject) -> NoReturn:
        """ADD PARTITION is refused."""
        message = (
            f"A partition of table '{self._name}' exists once it has rows: INSERT INTO the table."
        )
        raise UnsupportedError(message, kind="sql_clause", table=self._name)

    def createPartitions(self, partitions: JavaObject, properties: JavaObject) -> NoReturn:
        """ADD PARTITION is refused."""
        self.createPartition(partitions, properties)

    def renamePartition(self, _before: JavaObject, _after: JavaObject) -> NoReturn:
        """RENAME TO PARTITION is refused."""
        message = (
            f"A partition of table '{self._name}' cannot be renamed: UPDATE its partition column,"
            " or INSERT its rows anew and drop the old one."
        )
        raise UnsupportedError(message, kind="sql_clause", table=self._name)

    def replacePartitionMetadata(self, _partition: JavaObject, _properties: JavaObject) -> NoReturn:
        """Partitions have no properties."""
        message = f"A partition of table '{self._name}' has no properties: set them for the table."
        raise UnsupportedError(message, kind="sql_clause", table=self._name)

    def loadPartitionMetadata(self, _partition: JavaObject) -> JavaObject:
        """None."""
        return self.gateway.mapping({})

    def _partition_fields(self) -> list[DataField]:
        schema = self._opened().table_schema
        return [schema.field(name) for name in schema.partition_keys]

    def _live(self) -> list[dict[str, object]]:
        """The partitions with files, by the values that the table stores."""
        table = self._opened()
        handle = table.handle
        snapshot = handle.time_travel.resolve(default=table.options)
        return [
            dict(zip(table.partition_keys, table.paths.partition_values(one), strict=True))
            for one in live_partitions(handle, snapshot)
        ]

    def _given(self, row: JavaObject, fields: Sequence[DataField]) -> dict[str, object]:
        """The values of a row of Spark's."""
        types = [self.gateway.data_type(column.dataType) for column in spark_schema(fields)]
        return {
            field.name: held_value(row.get(place, data_type), field.type)
            for place, (field, data_type) in enumerate(zip(fields, types, strict=True))
        }

    def _stored(self, row: JavaObject, fields: Sequence[DataField]) -> dict[str, object]:
        """The same, as the table stores them."""
        given = self._given(row, fields)
        return {field.name: to_storage(given[field.name], field.type) for field in fields}

    def _drop(self, partitions: Iterable[JavaObject]) -> bool:
        fields = self._partition_fields()
        named = [self._given(one, fields) for one in partitions]
        if named:
            self._opened().drop_partitions(named)
        return bool(named)
