"""The jars by which a Spark reads and writes ``s3a``, fetched by Maven on first use.

``hadoop-aws`` goes with the Hadoop of the Spark. Its own choice of Amazon's SDK is one jar of
686 MB; the modules that it needs of the same version are 15 MB.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

from servers.program import CACHE, fetch, tool

HADOOP_OF_SPARK = {"4.3": "3.5.0", "4.1": "3.4.2"}
SDK_OF_HADOOP = {"3.5.0": "2.35.4", "3.4.2": "2.29.52"}
_ACCELERATOR = {"3.5.0": "1.3.1", "3.4.2": "1.2.1"}
_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client")
ALONE = (
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
    sdk = SDK_OF_HADOOP[hadoop]
    accelerator = "software.amazon.s3.analyticsaccelerator"
    wanted = [
        dependency("org.apache.hadoop", "hadoop-aws", hadoop, ALONE),
        *(dependency("software.amazon.awssdk", name, sdk) for name in _MODULES),
        dependency(accelerator, "analyticsaccelerator-s3", _ACCELERATOR[hadoop], ALONE),
    ]
    return fetched(f"s3a-{hadoop}", wanted)


def fetched(name: str, wanted: Sequence[str]) -> list[Path]:
    """Jars that a Spark lacks, by Maven on first use.

    Parameters
    ----------
    name : str
        Their directory in the cache.
    wanted : sequence of str
        Each a :func:`dependency`.

    Raises
    ------
    AbsentError
        Maven is missing.
    """
    place = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            pom = CACHE / f"{name}.xml"
            pom.write_text(_pom(wanted), encoding="utf-8")
            words = [tool("mvn", name), "-q", "-B", "-f", str(pom)]
            fetch(place, [*words, "dependency:copy-dependencies", "-DoutputDirectory={place}"], {})
    return sorted(jar for jar in place.glob("*.jar") if not jar.name.startswith(_OF_SPARK))


def _pom(wanted: Sequence[str]) -> str:
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelake.tests</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{"".join(wanted)}</dependencies>
</project>
"""


def dependency(group: str, name: str, version: str, more: str = "") -> str:
    """One of Maven's artifacts, in a project's words."""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )
