"""What a lookup file holds of its data file: the columns, and the key they are found by."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from tidelake.lookup.key_form import KeyForm
from tidelake.metadata.data_file import DataFileMeta
from tidelake.types import DataField, DataType
from tidelake.types.arrow import to_arrow_type

IMAGE_NAME = "_KEY_IMAGE"
"""The column of key images, where no column of the table is one."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The columns of lookup files. Picklable.

    Parameters
    ----------
    key_columns : tuple of str
        The key inside a bucket, in key order.
    fields : tuple of DataField
        The stored columns in order, the key's among them where it is compared itself.
    read_with : tuple of str
        What else the values depend on: the time zone of casts, for one.
    """

    key_columns: tuple[str, ...]
    form: KeyForm
    fields: tuple[DataField, ...]
    read_with: tuple[str, ...] = ()

    @property
    def has_images(self) -> bool:
        """Whether images are a column of their own."""
        return not self.form.is_own_column

    def of_file(self, ids: Collection[int]) -> tuple[DataField, ...]:
        """The columns that a data file has; those added to the table later are null in it."""
        return tuple(field for field in self.fields if field.id in ids)

    def identity(self, file: DataFileMeta, stored: tuple[DataField, ...]) -> bytes:
        """Everything that a lookup file's content depends on.

        A column counts by its id and type, so that renaming one, or adding others, keeps files.
        A nested field counts by its id too: one that was dropped and added again is null in older
        data files.
        """
        facts = [
            [file.file_name, file.file_size_bytes, file.row_count, file.creation_time_ms],
            [file.min_sequence_number, file.max_sequence_number, file.delete_row_count],
            [str(kind.not_null()) for kind in self.form.types],
            [[f.id, str(to_arrow_type(f.type)), str(f.type), *_nested_ids(f.type)] for f in stored],
            self.has_images,
            list(self.read_with),
        ]
        return json.dumps(facts, separators=(",", ":")).encode()

    def arrow_types(self, stored: tuple[DataField, ...]) -> list[pa.DataType]:
        """The Arrow types of the stored columns, the images' last."""
        types = [to_arrow_type(field.type) for field in stored]
        return [*types, self.form.image_type] if self.has_images else types

    @staticmethod
    def file_name(file: DataFileMeta, identity: bytes) -> str:
        """The name of the lookup file."""
        return f"{file.file_name}-{xxh3_128_hexdigest(identity)}.lookup"


def _nested_ids(data_type: DataType) -> list[int]:
    """The ids of the fields inside a type, depth first."""
    own = [field_id for field_id, _ in data_type.child_fields]
    return own + [field_id for child in data_type.children for field_id in _nested_ids(child)]
