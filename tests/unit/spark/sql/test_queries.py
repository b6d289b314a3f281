"""What a query may say of a table of Kafka: refused before Spark or a broker is asked."""

import pytest

import tidelake
from tidelake.errors import UnsupportedError
from tidelake.spark.sql.queries import StatementQueries
from tidelake.sql import SqlSession, execute, parse

COLUMNS = "(id BIGINT, name STRING)"
OPTIONS = (
    "('connector' = 'kafka', 'topic' = 'never-asked', 'format' = 'json',"
    " 'properties.bootstrap.servers' = '127.0.0.1:1', 'scan.startup.mode' = 'earliest-offset')"
)


@pytest.fixture
def refusal(tmp_path):
    """The error of a query; no session of Spark is there."""
    session = SqlSession(tidelake.open(tmp_path))
    for name in ("events", "clicks"):
        (made,) = parse(f"CREATE TABLE {name} {COLUMNS} WITH {OPTIONS}")
        execute(made, session)

    def of(text, mode):
        session.settings["execution.runtime-mode"] = mode
        (query,) = parse(text)
        with pytest.raises(UnsupportedError) as found:
            StatementQueries(None, session).frame(query)
        return str(found.value)

    return of


@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT * FROM events$snapshots", "has no system tables: there is no '$snapshots' of it"),
        (
            "SELECT e.name FROM clicks AS c JOIN events FOR SYSTEM_TIME AS OF PROCTIME() AS e"
            " ON c.id = e.id",
            "'events' is of Kafka, which cannot be looked up at a row's time",
        ),
        ("SELECT * FROM events VERSION AS OF 1", "'events' is of Kafka, which has no snapshots"),
        (
            "SELECT * FROM events FOR SYSTEM_TIME AS OF TIMESTAMP '2026-11-24 12:00:00'",
            "OPTIONS('scan.startup.mode'='timestamp', ...)",
        ),
        (
            "SELECT * FROM paimon_incremental_query('events', 1, 2)",
            "do not support a table of Kafka",
        ),
    ],
)
def test_what_a_topic_does_not_have_is_refused_with_what_to_do(refusal, text, told, mode):
    assert told in refusal(text, mode)
