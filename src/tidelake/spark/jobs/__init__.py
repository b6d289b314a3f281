"""Jobs: queries of Spark's over streams, by names and ids, for as long as they run and after.

A job is started, listed, waited for and stopped here; what it reads and how it writes are the rooms
``streamread`` and ``streamwrite``. No SQL may enter.
"""

from tidelake.spark.jobs.job import Job
from tidelake.spark.jobs.registry import JobRegistry

__all__ = ["Job", "JobRegistry"]
