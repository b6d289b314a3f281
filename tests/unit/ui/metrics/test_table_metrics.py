"""Metrics of tables."""

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tidelake.ui.metrics import commit_metrics, maintenance_metrics, table_metrics
from tidelake.ui.metrics.families import text_of
from tidelake.ui.metrics.table_metrics import TableCollector

PATIENCE_S = 60


def samples(text):
    """Figures by name and labels, read by the library's own reader."""
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in parsed(text.decode())
        for one in family.samples
    }


@pytest.fixture
def found(watch, orders, lake):
    lake.create_table("web.empty", pa.schema({"n": pa.int64()}))
    collector = TableCollector(
        lambda: watch.overview(patience_s=PATIENCE_S), watch.catalog.env.clock
    )
    return samples(text_of(collector)[0])


def test_figures_are_those_of_the_system_tables(found, orders):
    files = orders.system_table("files").to_arrow()
    table = ("table", "shop.orders")
    assert found["tidelake_table_up", table] == 1
    assert found["tidelake_table_files", table] == files.num_rows
    assert found["tidelake_table_rows", table] == sum(files["record_count"].to_pylist())
    assert found["tidelake_table_bytes", table] == sum(files["file_size_in_bytes"].to_pylist())
    assert found["tidelake_table_commits_total", table] == orders.latest_snapshot_id
    assert found["tidelake_table_sorted_runs_max", table] == 5
    assert found["tidelake_table_sorted_runs_trigger", table] == 3
    assert found["tidelake_table_snapshots", ("kind", "APPEND"), table] == 5
    level = files["level"].to_pylist().count(0)
    assert found["tidelake_table_level_files", ("level", "0"), table] == level
    behind = ("consumer", "mailer")
    assert found["tidelake_table_consumer_snapshots_behind", behind, table] == 4
    assert found["tidelake_table_findings", ("severity", "warning"), table] >= 1
    newest = orders.handle.snapshots.latest().time_ms / 1000
    assert found["tidelake_table_last_commit_timestamp_seconds", table] == pytest.approx(newest)
    assert 0 <= found["tidelake_table_lag_seconds", table] < 3600


def test_a_table_that_was_never_written_has_no_lag(found):
    table = ("table", "web.empty")
    assert found["tidelake_table_up", table] == 1
    assert found["tidelake_table_commits_total", table] == 0
    assert ("tidelake_table_lag_seconds", table) not in found
    assert ("tidelake_table_sorted_runs_max", table) not in found


def test_a_table_that_cannot_be_read_is_down(watch, orders):
    for file in orders.handle.fileio.list_dir(orders.paths.schema_dir):
        orders.handle.fileio.replace(f"{orders.paths.schema_dir}/{file.name}", b"torn")
    collector = TableCollector(
        lambda: watch.overview(patience_s=PATIENCE_S), watch.catalog.env.clock
    )
    found = samples(text_of(collector)[0])
    assert found == {("tidelake_table_up", ("table", "shop.orders")): 0}


def test_names_have_their_units_and_are_said_in_the_page(request):
    page = (request.config.rootpath / "docs/recipes/monitoring.md").read_text(encoding="utf-8")
    families = (
        *table_metrics.FAMILIES,
        *commit_metrics.FAMILIES,
        *maintenance_metrics.FAMILIES,
    )
    assert len({one.name for one in families}) == len(families)
    for one in families:
        assert one.is_counter == one.name.endswith("_total"), one.name
        assert f"`{one.name}`" in page, one.name
