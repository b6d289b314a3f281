"""What a failure of the storage says of the commit: what is so, and nothing beside it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from servers.s3 import S3Server

import tidelake
from tidelake.errors import NotFoundError, OutcomeUnknownError, StorageError
from tidelake.fileio import MemoryFileIO, local
from tidelake.telemetry import Env

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
OPTIONS = {"bucket": "1", "commit.max-retries": "1"}


@pytest.fixture
def s3():
    with S3Server() as running:
        yield running


def table_of(s3):
    storage = s3.storage(**{"s3.timeout": "60 s", "s3.retries": "1"})
    catalog = tidelake.open("s3://lake/w", storage=storage, env=Env.seeded(3))
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    table.write([{"k": 1, "v": "a"}])
    return table


def test_a_data_file_that_cannot_be_put_leaves_no_doubt_of_the_commit(s3):
    table = table_of(s3)
    s3.fault("status", "PUT", "/bucket-0/", count=100, status=503, code="SlowDown")
    with pytest.raises(StorageError, match="nothing was committed") as caught:
        table.write([{"k": 2, "v": "b"}])
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert caught.value.kind != "outcome_unknown"
    assert table.to_arrow().num_rows == 1


def test_a_commit_in_doubt_does_not_say_that_nothing_was_committed(s3):
    table = table_of(s3)
    s3.fault("status", "PUT", "/snapshot-2", count=100, status=503, code="SlowDown")
    with pytest.raises(OutcomeUnknownError, match="unknown whether") as caught:
        table.write([{"k": 2, "v": "b"}])
    assert "nothing was committed" not in caught.value.message


def test_a_scan_of_a_table_that_was_dropped_meanwhile_says_so():
    files = MemoryFileIO()
    catalog = tidelake.open("/w", fileio=files)
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
    table.write([{"k": 1, "v": "a"}])
    scan = table.scan()
    catalog.drop_table("d.t")
    with pytest.raises(NotFoundError, match="dropped") as caught:
        scan.to_arrow()
    assert caught.value.kind == "table_not_found"


class DropsAt:
    """Drops a table before one of the calls of a write to its local files."""

    CALLS = (
        *((local.LocalFileIO, name) for name in ("read_bytes", "open_output", "sync_dir")),
        *((local._LocalOutputFile, name) for name in ("close", "tell")),
        (local, "_sync_dir"),
    )

    def __init__(self, monkeypatch):
        self.left, self.drop = 0, None
        for owner, name in self.CALLS:
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, call):
        def first_drops(*arguments, **more):
            self.left -= 1
            if self.left == 0:
                self.drop()
            return call(*arguments, **more)

        return first_drops


def test_a_drop_at_any_call_of_a_local_write_is_what_the_error_says(tmp_path, monkeypatch):
    drops, said, at = DropsAt(monkeypatch), [], -1
    while drops.left <= 0:
        at += 2
        catalog = tidelake.open(tmp_path / str(at))
        table = catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=OPTIONS)
        table.write([{"k": 1, "v": "a"}])
        drops.left, drops.drop = at, lambda catalog=catalog: catalog.drop_table("d.t")
        try:
            table.write([{"k": 2, "v": "b"}])
        except NotFoundError as error:
            said.append((error.kind, error.message))
    assert len(said) > 6
    message = "Table 'd.t' has no schema any more: it was dropped or renamed meanwhile."
    assert set(said) == {("table_not_found", message)}
