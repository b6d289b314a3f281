"""What Spark says of a value is said in one sentence that names the table."""

from __future__ import annotations

import pytest
from pyspark.errors import NumberFormatException, PySparkException

from tidelake.errors import InvalidInputError
from tidelake.spark.errors.value_errors import translate_table_errors

SAID = (
    '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT" because it'
    " is malformed. Correct the value as per the syntax, or change its target type. Use `try_cast`"
    " to tolerate malformed input and return NULL instead. SQLSTATE: 22018\n"
    "== SQL (line 1, position 1) ==\ncast(k as int) k\n^^^^^^^^^^^^^^\n"
    "\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInput(QueryErrors.scala:147)"
) + "\n\tat java.base/java.lang.Thread.run(Thread.java:840)" * 40


def test_a_cast_that_fails_is_one_sentence_with_the_table():
    with pytest.raises(InvalidInputError) as caught, translate_table_errors("db.t"):
        raise NumberFormatException(SAID)
    assert caught.value.message == (
        "A value in cast(k as int) k for table 'db.t' cannot be computed: The value 'x' of the type"
        ' "STRING" cannot be cast to "INT" because it is malformed. Nothing was written: change the'
        " expression (try_cast gives NULL), or leave such rows out."
    )
    assert (caught.value.kind, caught.value.context) == ("value", {"table": "db.t"})


def test_other_errors_of_spark_stay_what_they_are():
    with pytest.raises(PySparkException, match="lost"), translate_table_errors("db.t"):
        raise PySparkException("Executor lost")
