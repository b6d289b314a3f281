"""Lookup files made of rows at hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from tidelake.lookup import KeyForm, LookupBuild, OpenedFile, StoredColumns
from tidelake.lookup.file_memory import MappedBudget
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import fields_from_arrow, to_arrow_schema

META = DataFileMeta("data-1.parquet", 77, 3, b"", b"", EMPTY_STATS, EMPTY_STATS, 1, 3, 0, 0)


def type_of(kind):
    """A type by its text, or by its Arrow type."""
    if isinstance(kind, str):
        return parse_type(kind)
    return fields_from_arrow(pa.schema({"c": kind}))[0].type


class Maker:
    """Makes lookup files in a directory."""

    def __init__(self, directory):
        self.directory = directory

    def stored(self, types, key=("k",)):
        fields = tuple(DataField(i, n, type_of(t)) for i, (n, t) in enumerate(types.items()))
        form = KeyForm(tuple(f.type for f in fields if f.name in key))
        return StoredColumns(tuple(key), form, fields)

    def write(self, stored, rows, *, cut=None, spool_bytes=1 << 20, name="a.lookup"):
        """Write rows, given as lists by column, in batches of `cut`."""
        schema = to_arrow_schema(stored.fields)
        table = pa.table(rows, schema=schema)
        build = LookupBuild(stored, stored.fields, str(self.directory), spool_bytes=spool_bytes)
        count = build.add(table.to_batches(max_chunksize=cut or max(1, table.num_rows)))
        assert count == table.num_rows
        meta = dataclasses.replace(META, row_count=count)
        path = self.directory / name
        build.write(path, identity=stored.identity(meta, stored.fields), unique="x")
        build.close()
        return path, stored.identity(meta, stored.fields)

    def opened(self, stored, written, *, mapped_bytes=1 << 30):
        path, identity = written
        budget = MappedBudget(mapped_bytes)
        return OpenedFile(path, stored, stored.fields, identity=identity, budget=budget)


@pytest.fixture
def maker(tmp_path):
    return Maker(tmp_path)


def found_singly(opened, form, keys):
    """The row of each key, asked one by one."""
    images = [form.image(key if isinstance(key, tuple) else (key,)) for key in keys]
    return [opened.find(form.hash_of(image), image) for image in images]


def found_together(opened, form, columns, count):
    """The row of each key, asked at once."""
    images = form.images(columns)
    keys, rows = opened.find_many(form.hashes(images), images)
    assert len(set(keys.tolist())) == len(keys), "a key once"
    found = np.full(count, -1)
    found[keys] = rows
    return found.tolist()
