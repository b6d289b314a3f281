"""The jars by which a Spark reads and writes ``s3a``, fetched by Maven on first use.

``hadoop-aws`` goes with the Hadoop of the Spark. Its own choice of Amazon's SDK is one jar of
686 MB; the modules that it needs of the same version are 15 MB.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from servers.program import CACHE, fetch, tool

HADOOP_OF_SPARK = {"4.3": "3.5.0", "4.1": "3.4.2"}
SDK_OF_HADOOP = {"3.5.0": "2.35.4", "3.4.2": "2.29.52"}
_ACCELERATOR = {"3.5.0": "1.3.1", "3.4.2": "1.2.1"}
_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client")
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_OF_SPARK = ("netty-", "slf4j-", "httpclient-", "httpcore-", "commons-codec-", "commons-logging-")
"""What a Spark has already, in versions of its own."""


def s3a_jars(spark: str) -> list[Path]:
    """The jars for a Spark.

    Parameters
    ----------
    spark : str
        ``"4.3"`` or ``"4.1"``.

    Raises
    ------
    AbsentError
        Maven is missing.
    """
    hadoop = HADOOP_OF_SPARK[spark]
    place = CACHE / f"s3a-{hadoop}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            pom = CACHE / f"s3a-{hadoop}.xml"
            pom.write_text(_pom(hadoop), encoding="utf-8")
            words = [tool("mvn", "s3a"), "-q", "-B", "-f", str(pom)]
            fetch(place, [*words, "dependency:copy-dependencies", "-DoutputDirectory={place}"], {})
    return sorted(jar for jar in place.glob("*.jar") if not jar.name.startswith(_OF_SPARK))


def _pom(hadoop: str) -> str:
    sdk = SDK_OF_HADOOP[hadoop]
    accelerator = "software.amazon.s3.analyticsaccelerator"
    wanted = [
        _dependency("org.apache.hadoop", "hadoop-aws", hadoop, _ALONE),
        *(_dependency("software.amazon.awssdk", name, sdk) for name in _MODULES),
        _dependency(accelerator, "analyticsaccelerator-s3", _ACCELERATOR[hadoop], _ALONE),
    ]
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelake.tests</groupId><artifactId>s3a</artifactId><version>1</version>
  <dependencies>{"".join(wanted)}</dependencies>
</project>
"""


def _dependency(group: str, name: str, version: str, more: str = "") -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )
