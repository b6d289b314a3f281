"""Snapshots that name the schema they were made with, as ours do in object stores, beside Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelake
from interop.cells import difference, table_cells
from interop.peer import JavaPeer
from interop.readers import AbsentError, JavaCore, JavaCore21
from tidelake.fileio import LocalFileIO
from tidelake.metadata.log.chain import BASE
from tidelake.metadata.log.incarnation import OPENED_SCHEMA

pytestmark = pytest.mark.oracle

COLUMNS = [["k", "BIGINT NOT NULL"], ["v", "STRING"]]


class PathsOnly(LocalFileIO):
    """Local files, but each is reached by its path alone, as in an object store."""

    @property
    def holds_directories(self) -> bool:
        return False


@pytest.fixture(params=[JavaCore, JavaCore21], ids=lambda java: java.name)
def either(request: pytest.FixtureRequest) -> Iterator[JavaPeer]:
    """Java 1.3.1, and 2.1."""
    java = request.param()
    try:
        java.prepare()
    except AbsentError as reason:
        pytest.skip(f"{java.title} is absent: {reason}")
    with JavaPeer(java) as started:
        yield started


def opened(path: Path):
    return tidelake.open(path.parents[1], fileio=PathsOnly()).table("db.t")


def marks(path: Path) -> dict[int, str | None]:
    """What each snapshot's file says."""
    found = {}
    for file in (path / "snapshot").glob("snapshot-*"):
        properties = json.loads(file.read_text()).get("properties") or {}
        found[int(file.name.removeprefix("snapshot-"))] = properties.get(OPENED_SCHEMA)
    return dict(sorted(found.items()))


def bases(path: Path) -> dict[int, str | None]:
    """What each snapshot's file names as its base."""
    found = {}
    for file in (path / "snapshot").glob("snapshot-*"):
        properties = json.loads(file.read_text()).get("properties") or {}
        found[int(file.name.removeprefix("snapshot-"))] = properties.get(BASE)
    return dict(sorted(found.items()))


def check_both_read(java: JavaPeer, path: Path, keys: list[int]) -> None:
    found = opened(path).to_arrow()
    assert sorted(found["k"].to_pylist()) == keys
    columns, rows = java.read(path)
    assert difference(rows, table_cells(found), columns) is None


def test_java_and_we_go_on_with_each_others(either, tmp_path):
    path = tmp_path / "db.db/t"
    either.do(
        "create",
        path,
        columns=COLUMNS,
        primary_keys=["k"],
        partition_keys=[],
        options={"bucket": "1", "write-only": "true"},
    )
    before = opened(path)  # with the first schema
    first = f"0@{before.handle.schema.time_ms}"
    before.write([{"k": 1, "v": "ours"}])
    either.do("write", path, rows=[["+I", "2", "s:java"]])
    opened(path).write([{"k": 3, "v": "ours"}])
    assert marks(path) == {1: first, 2: None, 3: first}
    check_both_read(either, path, [1, 2, 3])
    either.do("version", path, do="create_tag", name="three", snapshot=3)
    opened(path).add_column("n", "INT")
    second = f"1@{opened(path).handle.schema.time_ms}"
    opened(path).write([{"k": 4, "v": "ours", "n": 4}])
    either.do("write", path, rows=[["+I", "5", "s:java", "5"]])
    before.write([{"k": 6, "v": "ours"}])  # opened before the change
    assert marks(path) == {1: first, 2: None, 3: first, 4: second, 5: None, 6: first}
    check_both_read(either, path, [1, 2, 3, 4, 5, 6])
    either.do("version", path, do="rollback", name="three")
    assert marks(path) == {1: first, 2: None, 3: first}
    opened(path).write([{"k": 7, "v": "ours", "n": 7}])
    check_both_read(either, path, [1, 2, 3, 7])
    either.do("version", path, do="expire")  # the tag keeps what it names
    assert opened(path).history().num_rows == 1
    either.do("write", path, rows=[["+I", "8", "s:java", "8"]])
    check_both_read(either, path, [1, 2, 3, 7, 8])
    opened(path).rollback_to("three")
    check_both_read(either, path, [1, 2, 3])
    opened(path).write([{"k": 9, "v": "ours", "n": 9}])
    either.do("version", path, do="branch", name="b", tag="three")
    either.do("version", path, do="fast_forward", name="b")
    check_both_read(either, path, [1, 2, 3])
    before.write([{"k": 10, "v": "ours"}])
    either.do("write", path, rows=[["+I", "11", "s:java"]])
    check_both_read(either, path, [1, 2, 3, 10, 11])


def test_java_goes_on_with_snapshots_that_name_their_base_and_one_put_over_a_late_one(
    either, tmp_path
):
    path = tmp_path / "db.db/t"
    either.do(
        "create",
        path,
        columns=COLUMNS,
        primary_keys=["k"],
        partition_keys=[],
        options={"bucket": "1", "write-only": "true"},
    )
    for key in (1, 2, 3, 4):
        opened(path).write([{"k": key, "v": "ours"}])
    lists = {i: opened(path).handle.snapshots.load(i).base_manifest_list for i in (1, 2, 3)}
    assert bases(path) == {1: None, 2: lists[1], 3: lists[2], 4: lists[3]}
    check_both_read(either, path, [1, 2, 3, 4])
    late = (path / "snapshot/snapshot-4").read_bytes()
    opened(path).rollback_to(snapshot_id=2)  # which it marks
    check_both_read(either, path, [1, 2])
    opened(path).write([{"k": 5, "v": "ours"}])
    (path / "snapshot/snapshot-4").write_bytes(late)  # a request that was held back arrives
    assert sorted(opened(path).to_arrow()["k"].to_pylist()) == [1, 2, 5]
    opened(path).write([{"k": 6, "v": "ours"}])  # it takes the late one's place
    check_both_read(either, path, [1, 2, 5, 6])
    either.do("write", path, rows=[["+I", "7", "s:java"]])
    opened(path).write([{"k": 8, "v": "ours"}])
    check_both_read(either, path, [1, 2, 5, 6, 7, 8])
    assert opened(path).history()["snapshot_id"].to_pylist() == [1, 2, 3, 4, 5, 6]
