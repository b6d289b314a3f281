"""Catalogs in a metastore of this process, and in Glue as moto has it."""

from __future__ import annotations

import pytest
from servers.fake_metastore import fake_metastore
from servers.glue import glue

import tidelake


@pytest.fixture
def fake():
    with fake_metastore() as running:
        yield running


@pytest.fixture
def catalog(fake, tmp_path):
    """In the metastore."""
    return tidelake.open(tmp_path / "w", catalog=fake.options())


@pytest.fixture(params=["hive", "glue"])
def either(request, tmp_path):
    """In each kind of register."""
    if request.param == "hive":
        yield tidelake.open(tmp_path / "w", catalog=request.getfixturevalue("fake").options())
        return
    with glue() as options:
        yield tidelake.open(tmp_path / "w", catalog=options)
