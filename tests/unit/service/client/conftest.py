"""A table with rows that are in a scripted service only, and its clients."""

import pyarrow as pa
import pytest
from unit.service.client.scripted_service import serving

import tidelake

COUNT = 200


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


@pytest.fixture
def table(catalog):
    return catalog.create_table(
        "db.t",
        pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.float64()}),
        primary_keys=["k"],
        options={"bucket": 4},
    )


def rows_of(word, count=COUNT):
    return {(k,): {"k": k, "v": f"{word} {k}", "n": k / 2} for k in range(count)}


@pytest.fixture
def service(table):
    with serving(table, rows_of("first")) as running:
        yield running


@pytest.fixture
def client(catalog, service):
    with tidelake.lookup_client(catalog, "db.t", deadline_seconds=60) as query:
        yield query
