"""The demo in SQL, small, in an object store: real flights, every result beside the raw data."""

import sys
from pathlib import Path

import pytest
from servers.s3 import SECRET

import tidelake
from tidelake.cli.main import main

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
CHANGED = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")


@pytest.fixture
def settings_as_they_were(spark):
    """The settings of the tests' session, back again after a script has changed them."""
    before = {key: spark.conf.get(key) for key in CHANGED}
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.mark.timeout(1200)  # fifty statements, each some seconds on a busy machine
def test_the_demo_in_sql(settings_as_they_were, s3, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FLIGHTS))
    import source

    flights = source.write(tmp_path, days=2)
    raw = f"CREATE TEMPORARY VIEW raw AS SELECT * FROM parquet.`{tmp_path}/flights.parquet`"
    keys = [f"--catalog-option={key}={value}" for key, value in s3.storage().items()]
    argv = ["sql", "-w", "s3://lake/demo", *keys, "--format", "csv", "-c", raw]
    code = main([*argv, "-f", str(FLIGHTS / "flights.sql")])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    lines = shown.out.splitlines()
    checks = (
        "flights_checked", "board_replayed", "delays_replayed", "late_before_checked",
        "late_after_checked", "board_checked", "delays_checked",
    )  # fmt: skip
    for check in checks:
        assert lines[lines.index(check) + 1] == "equal"
    assert lines[lines.index("changes_told") + 1] == "none"
    assert SECRET not in shown.out + shown.err
    board = tidelake.open("s3://lake/demo", storage=s3.storage()).table("air.board")
    assert board.count() == flights > 6000
    assert board.count(filter="state = 'cancelled'") > 0
    sys.modules.pop("source", None)
    sys.modules.pop("data", None)
