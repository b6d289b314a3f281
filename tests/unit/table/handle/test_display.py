"""What a notebook shows of tables, catalogs, histories and writers: small, and nobody's markup."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tidelake
from tidelake.table.handle.display import HTML_ROWS_MAX

MARKUP = "<script>alert(1)"


def test_a_history_shows_as_a_table_and_is_one(keyed):
    for k in range(3):
        keyed.write([{"k": k, "v": "a", "n": 1}], commit_user=MARKUP, commit_identifier=k)
    history = keyed.history()
    shown = history._repr_html_()
    assert shown.count("<tr>") == 4
    assert "db.keyed$snapshots" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "APPEND" in repr(history)
    # an Arrow table for whoever takes one
    assert (len(history), history.num_rows) == (3, 3)
    assert history["snapshot_id"].to_pylist() == [1, 2, 3]
    assert history.column("snapshot_id").to_pylist() == [1, 2, 3]
    assert history.select(["snapshot_id"]).num_columns == 1
    assert history == keyed.system_table("snapshots").to_arrow()
    assert history != keyed.system_table("snapshots").to_arrow().slice(1)
    assert pa.table(history).num_rows == pl.DataFrame(history).height == 3
    assert duckdb.sql("SELECT max(snapshot_id) FROM history").fetchall() == [(3,)]
    with pytest.raises(AttributeError, match="no_such"):
        _ = history.no_such


def test_a_long_history_is_cut(appended):
    history = appended.history()
    assert history._repr_html_().count("<tr>") == 1
    many = type(history)(history.identifier, pa.table({"snapshot_id": range(5_000)}))
    shown = many._repr_html_()
    assert shown.count("<td>") == HTML_ROWS_MAX
    assert f"and {5_000 - HTML_ROWS_MAX:,} more" in shown
    assert len(shown) < 10_000


def test_a_catalog_shows_its_databases_and_tables(tmp_path):
    catalog = tidelake.open(tmp_path / "a&b")
    assert "no database yet" in catalog._repr_html_()
    for name in ("one.a", "one.b", "two.c"):
        catalog.create_table(name, pa.schema({"k": pa.int64()}))
    shown = catalog._repr_html_()
    assert "a&amp;b" in shown
    assert "a, b" in shown
    assert "two" in shown
    for i in range(60):
        catalog.create_database(f"many_{i:02}")
    shown = catalog._repr_html_()
    assert "more" in shown
    assert len(shown) < 10_000


def test_a_catalog_that_cannot_be_read_still_shows(tmp_path):
    path = tmp_path / "file"
    path.write_text("no directory")
    shown = tidelake.open(path)._repr_html_()
    assert "cannot be read" in shown


def test_a_writer_shows_what_became_of_it(keyed):
    out = keyed.writer()
    out.write([{"k": 1, "v": "a", "n": 1}])
    assert "db.keyed" in out._repr_html_()
    assert "open, 1 row taken" in out._repr_html_()
    out.commit()
    assert "committed" in out._repr_html_()
    assert "snapshot 1" in out._repr_html_()
    given_up = keyed.writer()
    given_up.abort()
    assert "given up" in given_up._repr_html_()
    assert "given up" in repr(given_up)
