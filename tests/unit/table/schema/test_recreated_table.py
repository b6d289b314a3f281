"""A table that was dropped and recreated is another table: one opened before is refused.

Its field ids and the id of its first schema are the same, so nothing else would notice.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake import NotFoundError
from tidelake.commit.metadata_writer import MetadataWriter
from tidelake.types.predicate import Compare

COLUMNS = pa.schema({"id": pa.int64(), "a": pa.string(), "b": pa.string()})
SWAPPED = pa.schema({"id": pa.int64(), "b": pa.string(), "a": pa.string()})
ROWS = [{"id": 1, "a": "A", "b": "B"}]
ANEW = pytest.raises(NotFoundError, match="dropped and recreated")


def made(catalog, columns=COLUMNS, *, keys=("id",), partitions=()):
    return catalog.create_table(
        "db.t", columns, primary_keys=keys, partition_keys=partitions, options={"bucket": 1}
    )


def recreated(catalog, columns=SWAPPED, **keys):
    """The table of today; the snapshots of the one before are gone."""
    catalog.drop_table("db.t")
    return made(catalog, columns, **keys)


def files_of(table):
    return sorted(s.name for s in table.fileio.list_dir(table.paths.location))


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.write(ROWS),
        lambda t: t.write(ROWS, mode="overwrite"),
        lambda t: t.delete([{"id": 1}]),
        lambda t: t.delete("id = 1"),
        lambda t: t.delete("a = 'A'"),
        lambda t: t.compact(full=True),
        lambda t: t.writer().write(ROWS),
        lambda t: t.to_arrow(),
        lambda t: t.to_arrow(where="a = 'A'"),
        lambda t: t.count(),
    ],
)
def test_neither_written_nor_read_by_who_opened_it_before(catalog, write):
    old = made(catalog)
    old.write(ROWS)
    new = recreated(catalog)
    new.write(ROWS)
    before = files_of(new), new.to_arrow().to_pylist()
    with ANEW as caught:
        write(old)
    assert "open it again" in str(caught.value)
    assert (files_of(new), new.to_arrow().to_pylist()) == before
    assert new.latest_snapshot_id == 1
    assert catalog.table("db.t").write(ROWS).snapshot_ids == (2,)


def test_a_table_recreated_while_rows_were_written_does_not_get_them(catalog):
    old = made(catalog)
    out = old.writer()
    out.write(ROWS)
    new = recreated(catalog)
    with ANEW:
        out.commit()
    assert new.latest_snapshot_id is None
    assert new.to_arrow().num_rows == 0


def test_a_table_recreated_right_before_the_put_does_not_get_the_rows(catalog, monkeypatch):
    """The last moment: snapshot and schemas were looked at, the manifests were written."""
    old = made(catalog)
    old.write(ROWS)
    write_base = MetadataWriter.write_base

    def recreating(self, files):
        written = write_base(self, files)
        monkeypatch.setattr(MetadataWriter, "write_base", write_base)
        recreated(catalog)
        return written

    monkeypatch.setattr(MetadataWriter, "write_base", recreating)
    with ANEW:
        old.write(ROWS)
    assert catalog.table("db.t").latest_snapshot_id is None


def test_a_table_that_was_partitioned_before(catalog):
    old = made(catalog, keys=("id", "a"), partitions=("a",))
    old.write(ROWS)
    new = recreated(catalog, COLUMNS)
    new.write(ROWS)
    with ANEW:
        old.write(ROWS)
    with ANEW:
        old.write(ROWS, mode="overwrite", partition={"a": "A"})
    with ANEW:
        old.delete(Compare("==", "a", "A"))
    assert new.to_arrow().to_pylist() == ROWS


def test_the_same_columns_at_another_time_are_another_table(catalog):
    old = made(catalog)
    old.write(ROWS)
    catalog.env.clock.sleep_ms(2)
    recreated(catalog, COLUMNS)
    with ANEW:
        old.write(ROWS)


def test_a_table_that_is_gone_is_not_written(catalog):
    old = made(catalog)
    out = old.writer()
    out.write(ROWS)
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError, match="dropped"):
        out.commit()
    with pytest.raises(NotFoundError, match="dropped"):
        old.write(ROWS)
    assert catalog.list_tables("db") == []
