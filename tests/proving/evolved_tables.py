"""Tables with data evolution, as Java's MERGE makes them: files that hold columns of older rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelake
from tidelake.metadata.data_file import CommitMessage, FileSource
from tidelake.store.append.append_file import AppendFile


def make(catalog, count=4):
    """A table that another engine declares to have data evolution, with rows of ids from 0 on."""
    options = {"row-tracking.enabled": "true"}
    table = catalog.create_table("db.t", {"id": "INT", "a": "INT", "b": "INT"}, options=options)
    numbers = pa.array(np.arange(count, dtype=np.int32))
    table.write(pa.table({"id": numbers, "a": numbers, "b": numbers}))
    path = Path(table.paths.location, "schema/schema-0")
    schema = json.loads(path.read_text())
    schema["options"]["data-evolution.enabled"] = "true"
    del schema["tidelake.checksum"]
    path.write_text(json.dumps(schema))
    return tidelake.open(catalog.warehouse).table("db.t")


def evolve(table, first, **columns):
    """A commit with new values of some columns of the rows from an id on."""
    handle = table.handle
    context = handle.store_context()
    fields = tuple(handle.schema.field(name) for name in columns)
    context = dataclasses.replace(
        context, schema=dataclasses.replace(context.schema, fields=fields)
    )
    name = f"data-{handle.env.ids.uuid()}-0.parquet"
    path = handle.paths.data_file(bytes(12), 0, name)
    file = AppendFile(
        context, name, path, first_sequence=0, source=FileSource.APPEND, write_cols=tuple(columns)
    )
    arrays = [pa.array(values, pa.int32()) for values in columns.values()]
    file.write(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    meta = dataclasses.replace(file.close(), first_row_id=first)
    message = CommitMessage(bytes(12), 0, -1, new_files=(meta,))
    handle.committer().commit([message], user="java")
