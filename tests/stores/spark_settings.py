"""Settings of a Spark session that reaches a store by Hadoop's classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from servers.real_stores import RealStore

LOOPBACK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def s3a_settings(store: RealStore, jars: Sequence[Path]) -> dict[str, str]:
    """What a user sets for MinIO."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.hadoop.fs.s3a.endpoint": store.options["s3.endpoint"],
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": store.options["s3.access-key"],
        "spark.hadoop.fs.s3a.secret.key": store.options["s3.secret-key"],
    }
