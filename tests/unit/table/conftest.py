"""A warehouse for each test, and small helpers that every table test reads with."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


KEYED = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int32()})


@pytest.fixture
def keyed(catalog):
    """A primary-key table of two buckets."""
    return catalog.create_table("db.keyed", KEYED, primary_keys=["k"], options={"bucket": 2})


@pytest.fixture
def appended(catalog):
    """An append table."""
    return catalog.create_table("db.appended", KEYED)
