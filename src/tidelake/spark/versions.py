"""The versions of Spark that Tidelake runs on, and what each of them can do.

One table says since which minor version of Spark a capability is there, and what takes its place
before. Modules ask it (:func:`has`); the page of versions in the docs shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.errors import UnsupportedError

MINORS = ("4.0", "4.1", "4.2", "4.3")
"""The minor versions, oldest first."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What not every Spark can do.

    Parameters
    ----------
    name : str
        For the table and for messages.
    since : str
        The first minor version that has it.
    before : str
        What takes its place in earlier ones; or ``"refused"``.
    """

    name: str
    since: str
    before: str = "refused"


FILTERS = Capability(
    'filters of `format("tidelake")` leave out files',
    "4.1",
    "all files are read, and Spark filters; the option `where` leaves out files",
)
FORMAT_STREAMS_WRITTEN = Capability('`writeStream.format("tidelake")`', "4.1")
FORMAT_STREAMS_READ = Capability('`readStream.format("tidelake")`', "4.2")
FORMAT_REACHES_ATTACHED = Capability(
    '`format("tidelake")` has the storage keys and tokens that `attach` was given',
    "4.1",
    "the environment's, on each node",
)
TIMES = Capability("columns of TIME", "4.1")
SHUFFLES_BY_NUMBER = Capability(
    "shuffles by the number of a task", "4.1", "the same, by numbers whose hash leads to the task"
)
ARROW_UDFS = Capability(
    "lookup joins of batches, and bucket keys of types whose hash Spark cannot compute", "4.1"
)
STREAM_RELATIONS = Capability(
    "`SELECT ... FROM STREAM t` by plain `spark.sql`", "4.1", "`readStream.table`, `tl.sql`"
)
CHANGELOGS = Capability("`SELECT ... FROM t CHANGES` by plain `spark.sql`", "4.2", "`tl.changes`")
CONSTRAINTS = Capability(
    "`PRIMARY KEY` in `CREATE TABLE` by plain `spark.sql`", "4.1", "the property `primary-key`"
)
SCHEMA_EVOLUTION = Capability(
    "new columns by plain `spark.sql`'s `MERGE WITH SCHEMA EVOLUTION`", "4.2", "`tl.sql`"
)
TABLES_ALIKE = Capability("`CREATE TABLE ... LIKE` by plain `spark.sql`", "4.2", "`tl.sql`")
CAPABILITIES = (
    FILTERS,
    SHUFFLES_BY_NUMBER,
    TIMES,
    ARROW_UDFS,
    FORMAT_REACHES_ATTACHED,
    FORMAT_STREAMS_WRITTEN,
    FORMAT_STREAMS_READ,
    CONSTRAINTS,
    TABLES_ALIKE,
    SCHEMA_EVOLUTION,
    STREAM_RELATIONS,
    CHANGELOGS,
)


def number(version: str) -> tuple[int, int]:
    """Major and minor number of a version.

    Examples
    --------
    >>> number("4.10.1"), number("4.2.0-SNAPSHOT")
    ((4, 10), (4, 2))
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def minor_of(version: str) -> str:
    """The minor version of a version.

    Examples
    --------
    >>> minor_of("4.3.0")
    '4.3'
    """
    return ".".join(map(str, number(version)))


def has(capability: Capability, version: str = pyspark.__version__) -> bool:
    """Whether a version, by default that of this process, has a capability."""
    return number(version) >= number(capability.since)


def session_has(capability: Capability, spark: SparkSession) -> bool:
    """Whether a session has a capability: on Connect its server must have it, too."""
    return has(capability) and (not is_remote() or has(capability, spark.version))


def check_has(capability: Capability, instead: str) -> None:
    """Refuse what this version lacks.

    Parameters
    ----------
    instead : str
        What to do; a whole sentence.

    Raises
    ------
    UnsupportedError
        This version lacks it.
    """
    if has(capability):
        return
    what = capability.name.replace("`", "")
    message = f"{what} needs Spark {capability.since}, and this is {pyspark.__version__}. {instead}"
    raise UnsupportedError(message, kind="spark_version")


def check_supported(version: str) -> None:
    """Refuse a version of Spark that is too old or too new.

    Raises
    ------
    UnsupportedError
        It is; the message names the range.
    """
    if minor_of(version) in MINORS:
        return
    message = (
        f"Tidelake runs on Spark {MINORS[0]} to {MINORS[-1]}, and this is Spark {version}: install"
        f" one of these, such as pip install 'pyspark=={MINORS[-1]}.*'."
    )
    raise UnsupportedError(message, kind="spark_version")
