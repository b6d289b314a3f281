"""Java Paimon on a Spark of its own, which reaches a store by ``s3a``; one statement a line.

Runs in the oracle's virtual environment: ``python paimon_on_spark.py``. The first line that it
reads is the session's settings as JSON, so that no key stands on a command line; each further one a
statement. It answers each by a line of JSON: ``{"rows": [[...]]}`` or ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def answer(session: SparkSession, statement: str) -> dict[str, object]:
    """Run a statement."""
    try:
        return {"rows": [list(row) for row in session.sql(statement).collect()]}
    except Exception as error:  # noqa: BLE001 - the other side judges it
        return {"error": str(error)[:2000]}


def main() -> None:
    """Serve."""
    builder = SparkSession.builder.master("local[2]").appName("paimon")
    for key, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(answer(session, json.loads(line)), default=str), flush=True)


main()
