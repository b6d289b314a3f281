"""INSERT of literals in the kernel beside the same statement on Spark: rows and refusals."""

from __future__ import annotations

import re

import pytest

from tidelake.errors import TidelakeError
from tidelake.sql import SqlSession, parse
from tidelake.sql.execution.error_position import positioned_errors
from tidelake.sql.execution.kernel_insert import kernel_insert
from tidelake.sql.execution.time_travel_clause import named_zone

COLUMNS = (
    "id INT NOT NULL, s STRING, short VARCHAR(3), b BOOLEAN, t TINYINT, n BIGINT, x DOUBLE,"
    " f FLOAT, d DECIMAL(6, 2), day DATE, at TIMESTAMP(3), moment TIMESTAMP_LTZ(6), l ARRAY<INT>"
)
ROWS = [
    "(id, s) VALUES (1, 'it''s'), (2, \"two \"\"2\"\"\"), (3, ''), (4, 'Zürich 😀'), (+5, NULL)",
    "(id, b, t, n) VALUES (1, TRUE, 127, -9223372036854775807), (2, false, -128, 5),"
    " (3, null, 1, 2)",
    "(id, n) VALUES (1, 3000000000), (2, 1), (3, -2147483649)",
    "(id, x) VALUES (1, 1), (2, 2.5), (3, 1e-3), (4, -0.0), (5, 123456789012345), (6, 1E300)",
    "(id, f) VALUES (1, 1), (2, 2.5), (3, 0.1), (4, 3.14159), (5, 1e10), (6, -0.333333)",
    "(id, d) VALUES (1, 1), (2, 2.5), (3, 0.01), (4, -9999.99), (5, 12.500), (6, NULL)",
    "(id, day) VALUES (1, DATE '0001-01-01'), (2, DATE '1582-10-10'), (3, date '2024-02-29')",
    "(id, day) VALUES (1, TIMESTAMP '2026-07-01 23:59:59'), (2, DATE '2026-01-01')",
    "(id, at) VALUES (1, TIMESTAMP '2026-07-01 10:00:00.123'), (2, TIMESTAMP_NTZ '1969-12-31'),"
    " (3, NULL)",
    "(id, at) VALUES (1, DATE '2026-07-01'), (2, NULL)",
    "(id, moment) VALUES (1, TIMESTAMP '2026-07-01 10:00:00.123456'), (2, TIMESTAMP '2026-11-01"
    " 01:30:00'), (3, TIMESTAMP_LTZ '2026-01-01T00:00:00.5')",
    "(id, moment) VALUES (1, TIMESTAMP_NTZ '2026-07-01 10:00:00'), (2, NULL)",
    "(id, moment) VALUES (1, DATE '2026-07-01')",
    "(id, s, n, x) VALUES (CAST('7' AS INT), CAST(12 AS STRING), CAST(3 AS SMALLINT), CAST(1 AS"
    " DOUBLE)), (CAST(8 AS BIGINT), CAST(NULL AS STRING), CAST(NULL AS INT), CAST(2.5 AS DOUBLE))",
    "(id, d, day) VALUES (CAST(-1 AS TINYINT), CAST('1.25' AS DECIMAL(4, 2)), CAST('2026-11-22' AS"
    " DATE)), (2, CAST(3 AS DECIMAL(3, 1)), NULL)",
    "(id) VALUES 1, 2, (3)",
    "VALUES (1, 'a', 'abc', NULL, 1, 2, 3, 4, 5, NULL, NULL, NULL, NULL)",
]
REFUSED = [
    "VALUES (1, 'a')",
    "(id, nowhere) VALUES (1, 2)",
    "(id, ID) VALUES (1, 2)",
    "(id, n) VALUES (1, 'five')",
    "(id, n) VALUES (1, TRUE)",
    "(id, b) VALUES (1, 1)",
    "(id, b) VALUES (1, 'true')",
    "(id, day) VALUES (1, '2026-01-01')",
    "(id, at) VALUES (1, 3000000000)",
    "(id, d) VALUES (1, DATE '2026-01-01')",
    "(s) VALUES ('no id')",
    "(id, s) VALUES (1, 'a'), (NULL, 'b')",
    "(id, short) VALUES (1, 'abcd')",
    "(id, at) VALUES (1, TIMESTAMP '2026-07-01 10:00:00.123456')",
]
PLACES = ("kernel", "sparks")
"""Databases; names as long as each other, so that positions in statements are equal."""


@pytest.fixture
def both(lake):
    """Runs a statement in the kernel and on Spark, each on a table of its own."""
    session = SqlSession(lake.catalog)

    def by_kernel(text, statement, zone):
        with positioned_errors(text, statement):
            return kernel_insert(statement, session, conf={}, zone=zone)

    def run(words):
        for place in PLACES:
            lake.sql(f"CREATE DATABASE {place}; CREATE TABLE {place}.t ({COLUMNS})")
        text = f"INSERT INTO kernel.t {words}"
        (statement,) = parse(text)
        zone = named_zone("America/New_York")
        found = [
            _seen(lambda: by_kernel(text, statement, zone)),
            _seen(lambda: lake.sql(f"INSERT INTO sparks.t {words}")),
        ]
        tables = [lake.catalog.table(f"{place}.t").to_arrow() for place in PLACES]
        return found, tables

    return run


def _seen(run):
    try:
        given = run()
    except TidelakeError as error:
        return type(error), error.kind, _without_row(str(error).replace("sparks.t", "kernel.t"))
    assert given is not False, "left to Spark"
    return None


def _without_row(message):
    """The message as a task of Spark says it, which does not know a row's place in the whole."""
    return re.sub(
        r"\brow \d+ holds", "a row holds", re.sub(r" \(the first is row \d+\)", "", message)
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("words", ROWS)
def test_the_same_rows_as_through_spark(both, words):
    (kernel, spark), tables = both(words)
    assert (kernel, spark) == (None, None)
    kept = [sorted(map(repr, table.to_pylist())) for table in tables]
    assert kept[0] == kept[1]
    assert kept[0]


@pytest.mark.share(2)
@pytest.mark.parametrize("words", REFUSED)
def test_the_same_refusals_as_through_spark(both, words):
    (kernel, spark), tables = both(words)
    assert kernel == spark
    assert kernel is not None
    assert [table.num_rows for table in tables] == [0, 0]
