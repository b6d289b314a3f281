"""``$cdc_epochs``: the commits of jobs, and nobody else's."""

import pyarrow as pa

from tidelake.commit.stream_step import Covered, StreamStep
from tidelake.engine.write import CommitIdentity, WriteTransaction


def commit(table, user, epoch, start, end, k):
    handle = table.handle
    identity = CommitIdentity.of(
        handle, user, epoch, step=StreamStep(Covered.between(start, end), None)
    )
    WriteTransaction(handle, identity).write([{"k": k}])


def test_jobs_have_rows_and_others_none(catalog):
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    table.write([{"k": 0}])
    shown = catalog.table("db.t$cdc_epochs")
    assert shown.count() == 0
    commit(table, "cdc-a", 0, "copy 0", "copy 0/10", 1)
    commit(table, "cdc-b", 4, "0/1", "0/2", 2)
    commit(table, "cdc-a", 1, "0/10", "0/20", 3)
    commit(table, "cdc-a", 2, "replay 2 r", "replay 2 r", 4)
    table.write([{"k": 5}], commit_user="cdc-c", commit_identifier=1)
    rows = shown.to_arrow(columns=["job", "epoch", "kind", "position", "snapshot_id"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("a", 0, "copy", "0/10", 3),
        ("b", 4, "changes", "0/2", 6),
        ("a", 1, "changes", "0/20", 4),
        ("a", 2, "replay", None, 6),
    ]
