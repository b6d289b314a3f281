"""The options that name a table, and those that would show a key."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.spark.source.source_options import (
    Attached,
    SourceReadOptions,
    SourceWriteOptions,
    TableLocation,
)


@pytest.mark.parametrize("key", ["s3.secret-key", "fs.s3a.secret.key", "S3.Endpoint"])
def test_keys_of_a_storage_are_no_options_since_plans_show_those(key):
    given = {"path": "s3://lake/w/db.db/t", key: "hush"}
    for taken in (SourceReadOptions.of, SourceWriteOptions.of, TableLocation.of):
        with pytest.raises(InvalidInputError, match="would show in plans") as caught:
            taken(given)
        assert "hush" not in str(caught.value)


def test_a_table_of_an_attached_warehouse_is_reached_through_its_storage():
    files = MemoryFileIO()
    for path in ("s3://lake/w/db.db/t", "s3a://lake/w/db.db/t/"):
        found = TableLocation.of({"path": path})
        assert found.table == "db.t"
        assert found.reached(Attached({"s3://lake/w": files})).storage is files
        assert found.reached(Attached({"s3://lake/v": files})).storage is None
        assert found.reached(Attached()).storage is None


def test_a_table_of_a_server_is_reached_through_its_attached_catalog():
    catalog = object()
    attached = Attached(catalogs={"https://c.example.com/lake": catalog})
    given = {"warehouse": "https://c.example.com/lake/", "table": "db.t"}
    assert TableLocation.of(given).reached(attached).catalog is catalog
    with pytest.raises(InvalidInputError, match=r"No REST catalog https://d.* is attached"):
        TableLocation.of(given | {"warehouse": "https://d.example.com/lake"}).reached(attached)
