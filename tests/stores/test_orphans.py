"""Orphan files of tables in MinIO and Azurite; HDFS has its own: ``hdfs/test_orphans.py``."""

from __future__ import annotations

import pytest
from stores.chosen import BY_MAKE_STORES
from stores.orphans import check_orphans_go_and_nothing_else

import tidelake

pytestmark = BY_MAKE_STORES

PAGE = 1_000
"""Names in one answer of a listing; and of one request that deletes."""


@pytest.mark.timeout(600)
def test_orphans_go_and_nothing_else(store):
    catalog = tidelake.open(store.fresh(), storage=store.storage())
    check_orphans_go_and_nothing_else(catalog, strays=PAGE + 50)
