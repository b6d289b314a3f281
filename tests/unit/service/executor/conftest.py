"""A catalog, and a service whose executors are threads."""

from __future__ import annotations

import contextlib

import pytest
from unit.service.service_kit import made_table, running

import tidelake


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


@pytest.fixture
def serve(catalog, tmp_path):
    """Start services that end with the test."""
    with contextlib.ExitStack() as stack:

        def start(*tables, **fields):
            names = tables or ("db.t",)
            fields.setdefault("directory", str(tmp_path / "lookup"))
            service = stack.enter_context(running(catalog, names, **fields))
            return service.wait_ready(*names)

        yield start


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A table of two buckets and a service of two executors, for tests that only ask."""
    place = tmp_path_factory.mktemp("shared")
    catalog = tidelake.open(place / "warehouse")
    table = made_table(catalog)
    with running(catalog, directory=str(place / "lookup")) as service:
        service.wait_ready()
        yield table, service
