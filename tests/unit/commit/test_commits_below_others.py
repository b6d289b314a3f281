"""A first commit whose put comes after others have committed, and their first snapshots expired."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO

COLUMNS = pa.schema({"k": pa.int64()})


class Paused(MemoryFileIO):
    """Others act before a snapshot of an id is put for the first time."""

    def __init__(self, snapshot_id):
        super().__init__()
        self.name, self.act = f"/snapshot/snapshot-{snapshot_id}", None

    def put_if_absent(self, path, data, **named):
        act, self.act = self.act, self.act if not path.endswith(self.name) else None
        if act is not None and path.endswith(self.name):
            act()
        return super().put_if_absent(path, data, **named)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("meanwhile", [1, 2, 4])
def test_a_commit_whose_number_was_taken_and_has_expired_is_not_lost(before, meanwhile):
    files = Paused(before + 1)
    ours = tidelake.open("/w", fileio=files).create_table(
        "db.t", COLUMNS, primary_keys=["k"], options={"write-only": "true"}
    )
    for key in range(before):
        ours.write([{"k": key}])

    def others():
        table = tidelake.open("/w", fileio=files).table("db.t")
        for key in range(meanwhile):
            table.write([{"k": 100 + key}])
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)

    files.act = others
    written = ours.write([{"k": 50}])
    assert written.snapshot_ids == (before + meanwhile + 1,)
    found = tidelake.open("/w", fileio=files).table("db.t")
    expected = [*range(before), 50, *(100 + key for key in range(meanwhile))]
    assert found.to_arrow().sort_by("k")["k"].to_pylist() == expected
    assert found.latest_snapshot_id == before + meanwhile + 1
