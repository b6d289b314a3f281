"""Real stores, one of each kind for a run; a test whose store is not on this machine is skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from servers.hadoop_aws import s3a_jars
from servers.hadoop_azure import abfs_jars
from servers.program import AbsentError
from servers.real_stores import RealStore, azurite, minio
from stores.chosen import BY_MAKE_STORES


def started(start: Callable[[], AbstractContextManager[RealStore]]) -> Iterator[RealStore]:
    """A store, until the run ends."""
    try:
        running = start()
        store = running.__enter__()
    except AbsentError as reason:
        pytest.skip(str(reason))
    yield store
    running.__exit__(None, None, None)


@pytest.fixture(scope="session", autouse=True)
def _jars_of_spark():
    """Spark takes jars when its JVM starts, and the tests of a run share that."""
    if "TIDELAKE_STORES" not in os.environ:
        yield
        return
    try:
        jars = ",".join(map(str, [*s3a_jars("4.3"), *abfs_jars("4.3")]))
    except AbsentError:  # their own tests are skipped
        yield
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {jars} pyspark-shell")
        yield


@pytest.fixture(scope="session", name="minio")
def _minio():
    yield from started(minio)


@pytest.fixture(scope="session", name="azurite")
def _azurite():
    yield from started(azurite)


@pytest.fixture(params=["minio", pytest.param("azurite", marks=BY_MAKE_STORES)])
def store(request) -> RealStore:
    """Each of them."""
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def _children_find_the_modules(monkeypatch):
    root = Path(__file__).parents[2]
    path = [str(root / "tests"), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
