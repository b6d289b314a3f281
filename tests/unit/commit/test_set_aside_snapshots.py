"""A snapshot that is published late, after a rollback, is nobody's base and nobody's answer."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest
from servers.s3 import S3Server

import tidelake
from tidelake.errors import ConflictError
from tidelake.metadata.log.chain import BASE, ROLLBACK, link_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COUNT = itertools.count()
NEVER = 10**6
"""Requests after which a deferred one takes effect by itself."""


OPTIONS = {"bucket": "1", "write-only": "true"}


@pytest.fixture(scope="module")
def store():
    """As MinIO: a delete does not look at its condition."""
    with S3Server() as s3:
        s3.delete_conditions = False
        yield s3


def table_of(s3):
    s3.forget()
    place = f"s3://{s3.make_bucket(f'b{len(s3.requests)}-{next(COUNT)}')}/w"
    catalog = tidelake.open(place, storage=s3.storage())
    catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    return lambda: tidelake.open(place, storage=s3.storage()).table("d.t")


def keys(table):
    return sorted(table.to_arrow()["k"].to_pylist())


def write(table, *numbers):
    for number in numbers:
        table.write([{"k": number, "v": number}])


@pytest.mark.parametrize("late", [4, 5])
@pytest.mark.parametrize("new_commits", [0, 1, 2])
def test_a_put_that_arrives_after_a_rollback_takes_no_commit_of_others(store, late, new_commits):
    opened = table_of(store)
    write(opened(), *range(1, late))
    store.fault("defer", "PUT", f"/snapshot-{late}", after=NEVER)
    write(opened(), late)
    opened().rollback_to(snapshot_id=3)
    expected = [1, 2, 3]
    for number in range(100, 100 + new_commits):
        write(opened(), number)
        expected.append(number)
    store.settle()  # the put that was held back arrives
    assert keys(opened()) == expected
    assert opened().history()["snapshot_id"].to_pylist() == list(range(1, 4 + new_commits))
    write(opened(), 200, 201, 202)
    assert keys(opened()) == [*expected, 200, 201, 202]


def test_a_rollback_on_a_store_marks_its_target(store):
    opened = table_of(store)
    write(opened(), 1, 2)
    opened().rollback_to(snapshot_id=1)
    target = opened().handle.snapshots.load(1)
    write(opened(), 3)
    after = opened().handle.snapshots.load(2)
    assert ROLLBACK in target.properties
    assert ROLLBACK not in after.properties
    assert after.properties[BASE] == link_of(target)


WRITER = """
    import os, sys, tidelake
    place, number = sys.argv[1:]
    link = os.link
    def linked(source, target, *rest, **more):
        if not str(target).endswith(number):
            return link(source, target, *rest, **more)
        print("ready", flush=True)
        sys.stdin.readline()
        link(source, target, *rest, **more)
        os._exit(9)
    os.link = linked
    tidelake.open(place).table("d.t").write([{"k": 9, "v": 9}])
"""


@pytest.mark.parametrize("new_commits", [0, 1])
def test_a_writer_that_dies_right_behind_its_link_takes_no_commit_of_others(tmp_path, new_commits):
    def opened():
        return tidelake.open(tmp_path).table("d.t")

    tidelake.open(tmp_path).create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    write(opened(), 1, 2, 3, 4, 5)
    words = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path), "snapshot-6"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        opened().rollback_to(snapshot_id=3)
        expected = [1, 2, 3]
        for number in range(100, 100 + new_commits):
            write(opened(), number)
            expected.append(number)
        writer.communicate(b"go\n")
    assert writer.returncode == 9
    assert os.path.exists(tmp_path / "d.db/t/snapshot/snapshot-6")
    write(opened(), 200, 201, 202, 203)
    assert keys(opened()) == [*expected, 200, 201, 202, 203]
    newest = 3 + new_commits + 4
    assert opened().history()["snapshot_id"].to_pylist() == list(range(1, newest + 1))


def set_aside_of(tmp_path):
    """A table whose snapshot 4 was published late, and the file of the next one on it."""
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    write(table, 1, 2, 3, 4)
    log = table.handle.snapshots
    late = log.load(4)
    table.rollback_to(snapshot_id=2)
    write(table, 30)
    assert log.put(late)
    return table, late


def test_what_another_engine_built_on_it_is_not_taken_away_without_a_word(tmp_path):
    table, late = set_aside_of(tmp_path)
    log = table.handle.snapshots
    assert log.put(dataclasses.replace(late, id=5, properties=None))
    for _ in range(2):
        with pytest.raises(ConflictError, match="roll the table back to snapshot 3") as caught:
            write(table, 40)
        assert caught.value.kind == "two_histories"
        assert keys(table) == [1, 2, 30]
    table.rollback_to(snapshot_id=3)
    write(table, 40)
    assert keys(table) == [1, 2, 30, 40]


def test_it_is_said_and_nobody_reads_it(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "tidelake"):
        table, _ = set_aside_of(tmp_path)
        assert table.latest_snapshot_id == 3
    assert "Snapshot 4" in caplog.text
    with pytest.raises(tidelake.errors.NotFoundError, match="has no snapshot 4"):
        table.to_arrow(snapshot_id=4)
    with pytest.raises(tidelake.errors.TidelakeError):
        table.tags.create("late", snapshot_id=4)
    assert [batch.snapshot_id for batch in table.stream(start=1, timeout=0)] == [1, 2, 3]
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1).ids == (1, 2)
    write(table, 50)
    assert keys(table) == [1, 2, 30, 50]
