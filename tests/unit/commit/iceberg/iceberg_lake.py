"""A table with Iceberg metadata, and its rows as pyiceberg reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable

import tidelake
from tidelake.metadata.avro.avro import decode_container

OPTIONS = {
    "metadata.iceberg.storage": "table-location",
    "metadata.iceberg.manifest-compression": "deflate",  # pyiceberg needs a package for snappy
}


class IcebergLake:
    """One table of a warehouse."""

    def __init__(self, warehouse, schema, *, options=None, fileio=None, **definition):
        self.warehouse = Path(warehouse)
        self.catalog = tidelake.open(str(warehouse), fileio=fileio)
        given = OPTIONS | dict(options or {})
        self.table = self.catalog.create_table("db.t", schema, options=given, **definition)

    @property
    def directory(self):
        return self.warehouse / "db.db" / "t" / "metadata"

    def names(self, suffix=""):
        return sorted(p.name for p in self.directory.iterdir() if p.name.endswith(suffix))

    @property
    def version(self):
        return int((self.directory / "version-hint.text").read_text())

    def document(self, version=None):
        path = self.directory / f"v{version or self.version}.metadata.json"
        return json.loads(path.read_text())

    def iceberg(self, directory=None):
        directory = directory or self.directory
        version = (directory / "version-hint.text").read_text()
        return StaticTable.from_metadata(str(directory / f"v{version}.metadata.json"))

    def records(self, address):
        return decode_container(Path(address).read_bytes(), path=address)

    def manifests(self):
        """The manifests of the current snapshot."""
        return self.records(self.document()["snapshots"][-1]["manifest-list"])


def rows_of(table):
    """Rows in any order, to compare."""
    columns = [c.cast(_ours(c.type)) for c in table.columns]
    plain = pa.table(columns, names=table.column_names)
    return sorted(map(repr, plain.to_pylist()))


def _ours(arrow_type):
    """pyiceberg has large texts, and another name for UTC."""
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz:
        return pa.timestamp("us", "UTC")
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(
        arrow_type, arrow_type
    )


def assert_same_rows(lake, table=None, **scan):
    """What pyiceberg reads is what the table holds."""
    ours = (table or lake.table).to_arrow()
    theirs = lake.iceberg().scan(**scan).to_arrow()
    assert theirs.column_names == ours.column_names
    assert rows_of(theirs) == rows_of(ours)
