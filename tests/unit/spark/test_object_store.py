"""A warehouse in an object store is refused on Spark, before anything is sent to executors."""

from __future__ import annotations

import pytest

import tidelake
from tidelake.errors import UnsupportedError
from tidelake.spark.catalog.registration import opened_catalog


def test_a_warehouse_in_an_object_store_is_refused(s3):
    catalog = tidelake.open("s3://lake/house", storage=s3.storage())
    for given in (catalog, "s3://lake/house"):
        with pytest.raises(UnsupportedError, match="s3://lake/house") as caught:
            opened_catalog(given, options=None, memory=None)
        assert caught.value.kind == "spark_storage"
    assert s3.count() == 0
