"""A partitioned primary-key table in memory, never compacted by its writers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

SCHEMA = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def catalog():
    """A warehouse in memory."""
    return tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))


@pytest.fixture
def table(catalog):
    """The table."""
    return catalog.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 1, "write-only": True},
    )
