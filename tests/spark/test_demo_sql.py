"""The demo in SQL, small, in an object store: real flights, every result beside the raw data."""

import pytest
import sql_demo
from servers.s3 import SECRET
from sizes import FULL, SIZE

import tidelake


@pytest.fixture
def settings_as_they_were(spark):
    """The settings of the tests' session, back again after a script has changed them."""
    before = {key: spark.conf.get(key) for key in sql_demo.CHANGED}
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.mark.skipif(SIZE is not FULL, reason="a minute and a half: TIDELAKE_SIZE=full")
@pytest.mark.timeout(1200)  # fifty statements, each some seconds on a busy machine
def test_the_demo_in_sql(settings_as_they_were, s3, tmp_path, monkeypatch, capsys):
    keys = [f"--catalog-option={key}={value}" for key, value in s3.storage().items()]
    where = ["-w", "s3://lake/demo", *keys]
    flights, shown = sql_demo.play(where, tmp_path, monkeypatch, capsys)
    assert SECRET not in shown
    board = tidelake.open("s3://lake/demo", storage=s3.storage()).table("air.board")
    assert board.count() == flights > 6000
    assert board.count(where="state = 'cancelled'") > 0
