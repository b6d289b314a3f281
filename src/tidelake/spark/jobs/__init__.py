"""Jobs: Spark queries over streams, by name and id, while they run and after.

This room starts, lists and stops jobs, and waits for them. The rooms ``streamread`` and
``streamwrite`` read and write. No SQL may enter.
"""

from tidelake.spark.jobs.job import Job
from tidelake.spark.jobs.registry import JobRegistry

__all__ = ["Job", "JobRegistry"]
