"""A real HDFS, one for a run; skipped without `make stores`, or where Java is missing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.hdfs import AbsentError, MiniHdfs

_PLACES = itertools.count()


def started(place: Path, name_nodes: int) -> Iterator[MiniHdfs]:
    if "TIDELAKE_STORES" not in os.environ:
        pytest.skip("takes long: `make stores` runs it")
    try:
        running = MiniHdfs(place, name_nodes=name_nodes)
    except AbsentError as reason:
        pytest.skip(f"no HDFS: {reason}")
    with running:
        yield running


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("hdfs"), 1)


@pytest.fixture(scope="module")
def two_name_nodes(tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("hdfs-ha"), 2)


@pytest.fixture
def root():
    """A directory of a test's own, which is not there yet."""
    return f"/{os.getpid()}/w{next(_PLACES)}"
