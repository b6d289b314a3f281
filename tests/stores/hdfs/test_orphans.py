"""Orphan files of tables on a real HDFS."""

from __future__ import annotations

import pytest
from stores.orphans import check_orphans_go_and_nothing_else

import tidelake


@pytest.mark.timeout(600)
def test_orphans_go_and_nothing_else(hdfs, root):
    check_orphans_go_and_nothing_else(tidelake.open(hdfs.uri(root)), strays=150)
