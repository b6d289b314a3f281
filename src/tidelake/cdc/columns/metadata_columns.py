"""Metadata columns: what the source says of a row besides its values.

Their names and types are Paimon's (``CdcMetadataProcessor``, ``CdcMetadataConverter``,
``KafkaMetadataConverter``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError, near_names
from tidelake.types import DataField, DataType, parse_type
from tidelake.types.arrow import to_arrow_type

_TEXT = parse_type("STRING NOT NULL")
_CHANGED = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL")
_DATABASE = {"database_name": _TEXT, "table_name": _TEXT, "op_ts": _CHANGED}
_KNOWN: dict[str, dict[str, DataType]] = {
    "mysql": _DATABASE,
    "postgres": _DATABASE | {"schema_name": _TEXT},
    "kafka": {
        "topic": parse_type("STRING"),
        "partition": parse_type("INT"),
        "offset": parse_type("BIGINT"),
        "timestamp": _CHANGED.as_nullable(),
        "timestamp_type": parse_type("STRING"),
    },
}


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One column.

    Parameters
    ----------
    name : str
        In the target, with the prefix.
    key : str
        What it holds: ``op_ts``.
    """

    name: str
    key: str
    type: DataType


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The metadata columns of a target.

    Examples
    --------
    >>> made = MetadataColumns.of("kafka", ["offset"], prefix="__kafka_")
    >>> [(f.name, str(f.type)) for f in made.fields]
    [('__kafka_offset', 'BIGINT')]
    """

    columns: tuple[MetadataField, ...] = ()

    @classmethod
    def of(
        cls, source: str, names: Iterable[str], *, prefix: str = "", case_sensitive: bool = True
    ) -> MetadataColumns:
        """Read names.

        Parameters
        ----------
        source : str
            Kind of the source: ``mysql``, ``postgres``, ``kafka``.

        Raises
        ------
        InvalidInputError
            The source has no such metadata, or it is named twice.
        """
        known = _KNOWN[source]
        made: dict[str, MetadataField] = {}
        for name in (text.strip() for text in names):
            if name not in known:
                hint = near_names(name, known) or f" Known: {', '.join(known)}."
                message = f"Source '{source}' has no metadata column '{name}'.{hint}"
                raise InvalidInputError(message, kind="metadata_column", option="metadata_column")
            if name in made:
                message = f"Metadata column '{name}' is named twice: name it once."
                raise InvalidInputError(message, kind="metadata_column", option="metadata_column")
            shown = prefix + name if case_sensitive else (prefix + name).lower()
            made[name] = MetadataField(shown, name, known[name])
        return cls(tuple(made.values()))

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns, numbered from 0."""
        return tuple(DataField(i, c.name, c.type) for i, c in enumerate(self.columns))

    def evaluate(
        self,
        table: SourceName,
        changed_ms: NDArray[np.int64],
        given: Mapping[str, pa.Array] | None = None,
    ) -> dict[str, pa.Array]:
        """Give the columns of a batch, by their names.

        Parameters
        ----------
        changed_ms : numpy.ndarray
            int64, ``[n]``: when the source changed each row, milliseconds since 1970 in UTC; 0 for
            rows of a first copy, as in Paimon.
        given : mapping of str to pyarrow.Array, optional
            What the source alone knows, by key, of any Arrow type that casts to the column's: of
            Kafka all five.
        """
        texts = {
            "database_name": table.database,
            "schema_name": table.schema,
            "table_name": table.table,
        }
        arrays: dict[str, pa.Array] = {}
        for column in self.columns:
            arrow_type = to_arrow_type(column.type)
            if column.key in texts:
                array = pa.repeat(pa.scalar(texts[column.key], arrow_type), len(changed_ms))
            elif column.key == "op_ts":
                array = pa.array(changed_ms).cast(arrow_type)
            else:
                array = (given or {})[column.key].cast(arrow_type)
            arrays[column.name] = array
        return arrays
