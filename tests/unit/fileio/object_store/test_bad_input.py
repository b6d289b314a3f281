"""What a user or a store does wrong, seen from a table: an error that says what to do."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import (
    CorruptError,
    InvalidInputError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
)

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string())])


def opened(s3, uri="s3://lake/house", **more):
    return tidelake.open(uri, storage=s3.storage(**{"s3.retries": "1", **more}))


def made(s3, commits=1, **options):
    catalog = opened(s3)
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    for k in range(commits):
        table.write([{"k": k, "p": "a"}])
    return table


def keys(s3):
    return sorted(row["k"] for row in opened(s3).table("db.t").to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(400, "ExpiredToken", "credentials"), (403, "AccessDenied", "no_permission")],
)
def test_a_right_that_ends_at_the_very_commit_leaves_nothing_and_says_so(s3, status, code, kind):
    table = made(s3)
    before = s3.listing("house/db.db/t")
    s3.fault("status", "PUT", "snapshot/snapshot-2", count=9, status=status, code=code)
    with pytest.raises(StorageRefusedError) as caught:
        table.write([{"k": 7, "p": "a"}])
    assert caught.value.kind == kind
    assert s3.listing("house/db.db/t") == before
    s3.forget()  # renewed
    table.write([{"k": 8, "p": "a"}])
    assert keys(s3) == [0, 8]


def test_a_token_that_ends_after_an_unclear_put_leaves_the_outcome_unknown(s3):
    """What was sent may still come: so it is said, and the same identity settles it."""
    table = made(s3)
    s3.fault("defer", "PUT", "snapshot/snapshot-2", after=10_000)
    more = {"nth": 2, "count": 99, "status": 400, "code": "ExpiredToken"}
    s3.fault("status", "PUT", "snapshot/snapshot-2", **more)
    identity = {"commit_user": "job", "commit_identifier": 1}
    with pytest.raises(OutcomeUnknownError):
        table.write([{"k": 7, "p": "a"}], **identity)
    s3.settle()
    s3.forget()
    assert keys(s3) == [0, 7]
    assert opened(s3).table("db.t").write([{"k": 7, "p": "a"}], **identity).already_committed


def test_a_listing_that_loses_its_pages_hides_no_snapshot(s3):
    table = made(s3, commits=12)
    s3.bucket().delete("house/db.db/t/snapshot/LATEST")
    s3.bucket().delete("house/db.db/t/snapshot/EARLIEST")
    s3.page_keys = 3
    s3.fault("last_page", "GET", "list-type", count=10_000)
    again = opened(s3).table("db.t")
    assert sorted(again.to_arrow()["k"].to_pylist()) == list(range(12))
    assert again.handle.snapshots.ids() == list(range(1, again.latest_snapshot_id + 1))
    newest = again.latest_snapshot_id
    assert again.write([{"k": 50, "p": "a"}]).snapshot_ids[0] == newest + 1
    again.maintenance.expire_snapshots(retain_max=2, retain_min=1)
    s3.forget()
    assert keys(s3) == [*range(12), 50]
    assert table.handle.snapshots.ids()[-1] >= newest + 1


@pytest.mark.parametrize("below", ["", "/x"], ids=["files", "directories"])
def test_a_listing_that_ends_after_a_full_page_is_noticed(s3, below):
    files = opened(s3).fileio
    for number in range(2001):
        s3.bucket().put(f"house/d/n{number:04d}{below}", b"", 0)
    assert len(files.list_dir("/house/d")) == 2001
    asked = s3.count("GET", "list-type")
    s3.bucket().delete(f"house/d/n2000{below}")
    assert len(files.list_dir("/house/d")) == 2000
    assert s3.count("GET", "list-type") == asked + 3
    s3.fault("last_page", "GET", "list-type", count=10_000)
    with pytest.raises(StorageError, match="house/d holds more than the store lists") as noticed:
        files.list_dir("/house/d")
    assert noticed.value.kind == "listing_not_whole"


def test_a_table_that_a_store_does_not_list_is_no_missing_table(s3):
    catalog = opened(s3)
    for number in range(1_001):
        s3.bucket().put(f"house/db.db/t{number:04d}/schema/schema-0", b"{}", 0)
    s3.fault("last_page", "GET", "prefix=house%2Fdb.db%2F", count=10_000)
    with pytest.raises(StorageError, match="holds more than the store lists"):
        catalog.list_tables("db")


def test_a_body_that_is_cut_is_read_again_or_an_error(s3):
    made(s3)
    s3.fault("cut", "GET", ".parquet", count=1)
    assert keys(s3) == [0]
    s3.fault("cut", "GET", ".parquet", count=10_000)
    with pytest.raises((StorageError, CorruptError)):
        keys(s3)


def test_a_bit_that_is_another_in_metadata_is_damage(s3):
    made(s3)
    s3.fault("flip", "GET", "manifest-", count=10_000)
    with pytest.raises(CorruptError):
        keys(s3)


def test_a_warehouse_inside_another_is_refused_both_ways(s3):
    made(s3)
    inner = opened(s3, "s3://lake/house/db.db/inner")
    with pytest.raises(InvalidInputError, match=r"lies in s3://lake/house/db\.db") as caught:
        inner.create_table("x.t", SCHEMA)
    assert caught.value.kind == "warehouse_inside"
    s3.bucket().put("house/empty.db/x.db/t/schema/schema-0", b"{}", 0)
    with pytest.raises(InvalidInputError, match=r"holds x\.db, a database of another") as caught:
        opened(s3).drop_database("empty", cascade=True)
    assert caught.value.kind == "warehouse_inside"
    assert s3.listing("house/empty.db")
    side = opened(s3, "s3://lake/house/beside")
    side.create_table("db.t", SCHEMA)
    assert opened(s3).list_databases() == ["db", "empty"]
    assert side.list_tables("db") == ["t"]


def test_values_with_odd_characters_are_partitions_of_their_own(s3):
    odd = ["a b", "x%2Fy", "x/y", "+", "ü", "漢字", "p=1", "q?", "h#", "'", "~", "a" * 200]
    catalog = opened(s3, "s3://lake/a house+%/ü")
    table = catalog.create_table("db.odd", SCHEMA, partition_keys=["p"])
    table.write([{"k": k, "p": value} for k, value in enumerate(odd)])
    table = opened(s3, "s3://lake/a house+%/ü").table("db.odd")
    found = {row["k"]: row["p"] for row in table.to_arrow().to_pylist()}
    assert found == dict(enumerate(odd))
    for value in ("x%2Fy", "+", "a b"):
        assert table.to_arrow(where=tidelake.col("p") == value)["p"].to_pylist() == [value]
    catalog.drop_table("db.odd")
    assert [key for key in s3.listing() if "db.odd" in key or "/odd/" in key] == []


def test_a_name_that_is_too_long_for_the_store_says_what_to_shorten(s3):
    catalog = opened(s3)
    table = catalog.create_table("db.long", SCHEMA, partition_keys=["p"])
    with pytest.raises(StorageRefusedError, match="shorten the value of the partition") as caught:
        table.write([{"k": 1, "p": "v" * 1100}])
    assert caught.value.kind == "name_too_long"
    assert table.latest_snapshot_id is None


def test_an_abandoned_write_leaves_nothing_that_shows(s3, monkeypatch):
    """A large file is uploaded in parts: those of a write that fails are aborted."""
    table = made(s3)
    before = s3.listing("house/db.db/t")
    s3.fault("status", "PUT", "snapshot/snapshot-2", count=9, status=403, code="AccessDenied")
    rng = random.Random(1)
    rows = [{"k": k, "p": rng.randbytes(4 << 20).hex()} for k in range(3)]
    with pytest.raises(StorageRefusedError):
        table.write(rows)
    assert s3.count("PUT", "partNumber") > 1
    assert (s3.listing("house/db.db/t"), s3.uploads) == (before, [])


def test_a_rename_says_why_it_is_refused_and_a_drop_hides_first(s3):
    made(s3)
    catalog = opened(s3)
    with pytest.raises(tidelake.UnsupportedError, match="cannot be renamed"):
        catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == ["t"]
    s3.forget()
    catalog.drop_table("db.t")
    deletes = [r for r in s3.requests if r.method in {"POST", "DELETE"}]
    assert s3.listing("house/db.db/t/") == []
    assert len(deletes) >= 2, "the schema goes by a request of its own"
