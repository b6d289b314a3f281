"""Jobs: Spark queries over streams, by name and id, while they run and after.

This room starts, lists and stops jobs, and waits for them. The rooms ``read`` and
``write`` read and write. No SQL may enter.
"""

from tidelake.spark.streams.jobs.job import Job
from tidelake.spark.streams.jobs.registry import JobRegistry

__all__ = ["Job", "JobRegistry"]
