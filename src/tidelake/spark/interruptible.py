"""Work on Spark that Ctrl-C ends.

PySpark raises :class:`KeyboardInterrupt` out of whatever it waits for. Where it collects rows it
then waits, in a ``finally``, for a job that may not have been submitted when all jobs were
cancelled, and the interruption is lost. Here a thread of its own does the work, whose jobs are
cancelled for as long as it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from tidelake.errors import OutcomeUnknownError

__all__ = ["interruptible"]

T = TypeVar("T")

BETWEEN_CANCELS_S = 0.2


def interruptible(
    spark: SparkSession, work: Callable[[], T], *, name: str, finished: Callable[[], object]
) -> T:
    """Do work whose Spark jobs Ctrl-C cancels. For the main thread.

    Parameters
    ----------
    spark : SparkSession
        Of the classic mode: jobs have groups.
    work : callable
        What to do. It is done once; after Ctrl-C it goes on between jobs, so that a commit is
        never left halfway, until its next job fails.
    name : str
        Of the job group.
    finished : callable
        Called after Ctrl-C where the work came to its end all the same.

    Returns
    -------
    object
        What the work gives.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, when the work has ended; after a second one at once.
    OutcomeUnknownError
        Also after Ctrl-C: whether a commit is there could not be found out.
    """

    def in_group() -> T:
        spark.sparkContext.setJobGroup(name, name, interruptOnCancel=True)
        return work()

    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    outcome = thread.submit(inheritable_thread_target(in_group))
    thread.shutdown(wait=False)
    try:
        return outcome.result()
    except KeyboardInterrupt:
        # without a bound but the user's: a second Ctrl-C ends the waiting
        while wait([outcome], BETWEEN_CANCELS_S).not_done:
            spark.sparkContext.cancelJobGroup(name)  # those too that came in the meantime
        error = outcome.exception()
        if isinstance(error, OutcomeUnknownError):
            raise error from None  # what was cancelled may be there
        if error is None:
            finished()
        raise
