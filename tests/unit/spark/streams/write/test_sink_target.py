"""Which table of which warehouse a sink of Spark's is for: by a path, a URI, or a name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark.streams.connector.provider import StreamCall, StreamWarehouse
from tidelake.spark.streams.connector.sink import _target


def call(**options):
    """A request of a session to which two warehouses are attached."""
    uris = {"disk": "/data/house", "cloud": "s3://lake/house"}
    known = {
        uri: StreamWarehouse(None, SimpleNamespace(uri=uri), name) for name, uri in uris.items()
    }
    return StreamCall(known, options, None, None)


@pytest.mark.parametrize(
    ("path", "name", "table"),
    [
        ("s3://lake/house/db.db/t", "cloud", "db.t"),
        ("s3a://lake/house/a.b.db/t", "cloud", "a.b.t"),
        ("file:/data/house/db.db/t", "disk", "db.t"),
        ("file:///data/house/db.db/with%20space", "disk", "db.with space"),
        ("/data/house/db.db/t/", "disk", "db.t"),
        ("file:/data/house/db.db/t/branch/branch-b", "disk", "db.t$branch_b"),
        ("s3a://lake/house/db.db/t/branch/branch-a%20b.c/", "cloud", "db.t$branch_a%20b.c"),
        ("/data/house/db.db/branch", "disk", "db.branch"),
    ],
)
def test_a_sink_is_found_by_the_place_of_its_table(path, name, table):
    warehouse, found = _target(call(path=path))
    assert (warehouse.name, found) == (name, table)


def test_a_sink_is_found_by_a_name_and_a_warehouse():
    for given in ("s3a://lake/house", "s3://lake/house/"):
        warehouse, found = _target(call(warehouse=given, table="db.t"))
        assert (warehouse.name, found) == ("cloud", "db.t")
    assert _target(call(table="disk.db.t"))[0].name == "disk"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "s3://lake/house/t"}, "is not the directory of a table"),
        ({"path": "/data/house/db.db/t/branch"}, "is not the directory of a table"),
        ({"path": "/data/house/db.db/t/branch/b"}, "is not the directory of a table"),
        ({"path": "s3://other/house/db.db/t"}, "No warehouse s3://other/house is attached"),
        ({"warehouse": "gs://lake/house", "table": "db.t"}, "No warehouse gs://lake/house is"),
    ],
)
def test_a_sink_elsewhere_is_refused(options, words):
    with pytest.raises(InvalidInputError, match=words):
        _target(call(**options))
