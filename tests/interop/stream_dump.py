"""Streams of Java Paimon on Spark; runs in a virtual environment of its own.

Usage: ``python stream_dump.py REQUESTS ANSWERS PAIMON_SPARK_JAR``. A request names a table and the
options of a stream; the answer has all rows of ``availableNow``, in the order of its one task.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.errors import StreamingQueryException

from interop.spark_dump import _session


def main() -> None:
    """Read each stream to its end."""
    requests, answers, jar = sys.argv[1:]
    session = _session(jar)
    found: dict[str, list[list[object]]] = {}
    for name, request in json.loads(Path(requests).read_text()).items():
        rows: list[list[object]] = []
        frame = session.readStream.format("paimon").options(**request["options"])
        query = (
            frame.load(f"file:{request['table']}")
            .writeStream.option("checkpointLocation", tempfile.mkdtemp())
            .trigger(availableNow=True)
            .foreachBatch(
                lambda batch, _, rows=rows: rows.extend(
                    list(row) for row in batch.coalesce(1).collect()
                )
            )
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            rows = [["error", str(error)]]
        found[name] = rows
    session.stop()
    Path(answers).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
