"""Live files stand bucket by bucket, and stay folded for the next plan."""

from __future__ import annotations

from tidelake.scan.live_files import live_buckets, live_files, read_buckets


def test_files_stand_by_partition_and_bucket(table):
    for p in "ba":
        for version in range(2):
            table.write([{"p": p, "k": 1, "v": version}])
    handle = table.handle
    context, snapshot = handle.read_context(), handle.snapshots.latest()
    found = live_files(context, snapshot, manifests=handle.manifests)
    assert found["partition_id"].tolist() == sorted(found["partition_id"].tolist())
    buckets = live_buckets(context, snapshot, manifests=handle.manifests)
    assert [len(b.files) for b in buckets] == [2, 2]
    assert [b.bucket for b in buckets] == [0, 0]
    assert len({b.partition for b in buckets}) == 2
    assert live_files(context, snapshot, manifests=handle.manifests) is found


def test_files_of_an_append_table_stand_as_they_were_written(catalog):
    options = {"bucket": 1, "bucket-key": "v", "write-only": True}
    table = catalog.create_table("db.a", {"v": "int64"}, options=options)
    for version in range(4):
        table.write([{"v": version}])
    handle = table.handle
    (bucket,) = live_buckets(
        handle.read_context(), handle.snapshots.latest(), manifests=handle.manifests
    )
    lows = [f.min_sequence_number for f in bucket.files]
    assert lows == sorted(lows) == list(range(4))


def test_rows_that_wait_for_a_bucket_are_in_no_read(catalog):
    table = catalog.create_table("db.p", {"k": "int64"}, primary_keys=["k"], options={"bucket": -2})
    table.write([{"k": 1}])
    handle = table.handle
    args = (handle.read_context(), handle.snapshots.latest())
    assert [b.bucket for b in live_buckets(*args, manifests=handle.manifests)] == [-2]
    assert read_buckets(*args, manifests=handle.manifests) == []
