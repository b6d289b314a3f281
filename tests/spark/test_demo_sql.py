"""The demo in SQL, small, in an object store: real flights, every result beside the raw data."""

import pytest
import sql_demo
from servers.s3 import SECRET
from sizes import FULL, SIZE

import tidelake.spark


@pytest.fixture
def settings_as_they_were(spark):
    """The settings of the tests' session, back again after a script has changed them."""
    before = {key: spark.conf.get(key) for key in sql_demo.CHANGED}
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


DOORS = ("tidelake sql", "spark.sql")


@pytest.mark.skipif(SIZE is not FULL, reason="a minute and a half: TIDELAKE_SIZE=full")
@pytest.mark.timeout(1200)  # fifty statements, each some seconds on a busy machine
@pytest.mark.parametrize("door", DOORS)
def test_the_demo_in_sql(spark, settings_as_they_were, s3, tmp_path, capsys, door):
    uri, storage = f"s3://lake/{door.replace(' ', '-')}", s3.storage()
    flights = sql_demo.raw(tmp_path)
    if door == "spark.sql":
        own = spark.newSession()  # the views of the script stay in it
        tidelake.spark.attach(own, uri, storage=storage)
        sql_demo.by_spark_sql(own, tmp_path)
    else:
        keys = [f"--catalog-option={key}={value}" for key, value in storage.items()]
        assert SECRET not in sql_demo.by_tidelake_sql(["-w", uri, *keys], tmp_path, capsys)
    board = tidelake.open(uri, storage=storage).table("air.board")
    assert board.count() == flights > 6000
    assert board.count(where="state = 'cancelled'") > 0


def test_every_statement_of_the_demo_is_sparks_own(spark):
    parser = spark._jsparkSession.sessionState().sqlParser()
    with sql_demo.example("plain_sql") as program:
        texts = program.statements()
    assert len(texts) > 70
    for text in texts:
        parser.parsePlan(text)
