"""Cancels Spark jobs on Ctrl-C, or when a notebook's cell is interrupted.

PySpark raises :class:`KeyboardInterrupt` from any wait. In a program it cancels all jobs; while
collecting rows it then waits for a job that may be submitted after that, and the interruption is
lost. In a notebook the kernel replaces that handler, and the job continues on all cores. Here
another thread does the work, and its jobs are cancelled until it ends.
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
    """Run work whose Spark jobs an interruption cancels.

    Only the main thread is interrupted: in another thread, and on Spark Connect, the work just
    runs.

    Parameters
    ----------
    work : callable
        Called once. After an interruption it continues until its next job fails, so that a commit
        is never half done.
    name : str
        Prefix of the thread's name and of the jobs' tag.
    finished : callable, optional
        Called if the work ended in spite of an interruption; by default the
        :class:`KeyboardInterrupt` gets a note.

    Returns
    -------
    object
        The result of the work.

    Raises
    ------
    KeyboardInterrupt
        After an interruption, when the work has ended; at once after a second one.
    OutcomeUnknownError
        After an interruption: a commit may exist.
    """
    if is_remote() or threading.current_thread() is not threading.main_thread():
        return work()
    tag = f"{name}-{next(_NUMBERS)}"

    def tagged() -> T:
        # for this thread only: the caller's tags stay
        spark.sparkContext.addJobTag(tag)
        spark.sparkContext.setInterruptOnCancel(True)
        return work()

    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    outcome = thread.submit(inheritable_thread_target(spark)(tagged))
    thread.shutdown(wait=False)
    try:
        return outcome.result()
    except KeyboardInterrupt as interruption:
        # until the work ends, or a second Ctrl-C
        while wait([outcome], BETWEEN_CANCELS_S).not_done:
            spark.sparkContext.cancelJobsWithTag(tag)  # also jobs submitted meanwhile
        error = outcome.exception()
        if isinstance(error, OutcomeUnknownError):
            raise error from None
        if error is None and finished is not None:
            finished()
        elif error is None:
            interruption.add_note("It ended before it was cancelled: what it wrote is committed.")
        raise
