"""Work on Spark that Ctrl-C, or a notebook's interruption of a cell, ends.

PySpark raises :class:`KeyboardInterrupt` out of whatever it waits for. In a program of its own it
cancels all jobs; where it collects rows it then waits, in a ``finally``, for a job that may not
have been submitted when they were cancelled, and the interruption is lost. In a notebook the kernel
takes that handler away for the time of a cell, and the job goes on, on all cores, for nobody. Here
a thread of its own does the work, whose jobs are cancelled for as long as it goes on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.errors import OutcomeUnknownError

__all__ = ["interruptible"]

T = TypeVar("T")

BETWEEN_CANCELS_S = 0.2
_NUMBERS = itertools.count()


def interruptible(
    spark: SparkSession,
    work: Callable[[], T],
    *,
    name: str = "tidelake",
    finished: Callable[[], object] | None = None,
) -> T:
    """Do work whose Spark jobs an interruption cancels.

    Only the main thread is interrupted: in another one, and on Spark Connect, the work is simply
    done.

    Parameters
    ----------
    spark : SparkSession
        Where the jobs run.
    work : callable
        What to do. It is done once; after an interruption it goes on between jobs, so that a
        commit is never left halfway, until its next job fails.
    name : str
        What the thread and the tag of the jobs begin with.
    finished : callable, optional
        Called after an interruption where the work came to its end all the same; by default the
        :class:`KeyboardInterrupt` says so.

    Returns
    -------
    object
        What the work gives.

    Raises
    ------
    KeyboardInterrupt
        After an interruption, when the work has ended; after a second one at once.
    OutcomeUnknownError
        Also after an interruption: whether a commit is there could not be found out.
    """
    if is_remote() or threading.current_thread() is not threading.main_thread():
        return work()
    tag = f"{name}-{next(_NUMBERS)}"

    def tagged() -> T:
        # of this thread alone: what its owner set for the jobs of the calling one stays
        spark.sparkContext.addJobTag(tag)
        spark.sparkContext.setInterruptOnCancel(True)
        return work()

    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    outcome = thread.submit(inheritable_thread_target(spark)(tagged))
    thread.shutdown(wait=False)
    try:
        return outcome.result()
    except KeyboardInterrupt as interruption:
        # without a bound but the user's: a second Ctrl-C ends the waiting
        while wait([outcome], BETWEEN_CANCELS_S).not_done:
            spark.sparkContext.cancelJobsWithTag(tag)  # those too that came in the meantime
        error = outcome.exception()
        if isinstance(error, OutcomeUnknownError):
            raise error from None  # what was cancelled may be there
        if error is None and finished is not None:
            finished()
        elif error is None:
            interruption.add_note("It ended before it could be cancelled; what it wrote is kept.")
        raise
