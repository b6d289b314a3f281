"""Holds the snapshots that DataFrames read, as long as Spark can read them.

A DataFrame reads its files whenever an action of it runs, so the end of a read is not the end of a
call. It is the moment when Spark has lost the plan, and all that was made of it:

1. What a plan reads by is never copied with it: the index of the files, the rows of their
   partitions, the function of ``mapInArrow``. A Java object has weak references to these
   (``TidelakeReads``). So a query that runs, an RDD, an iterator, a cached frame and a view all
   count as readers.
2. One such object watches all frames of a snapshot, and one hold keeps it
   (:mod:`tidelake.table.handle.read_hold`): of all its frames' holds the one that begins first.
3. A thread asks every :data:`LOOK_S`. If nothing is left, or Spark has stopped, the snapshot is let
   go. The JVM's garbage collector finds that out, which Spark runs every 30 minutes at least
   (``spark.cleaner.periodicGC.interval``).
4. Somebody may keep a view that nobody reads, and Spark itself keeps the plan of a
   ``toLocalIterator`` after its last row. So a hold lapses when no job of this Spark was seen for
   :data:`IDLE_MS_MAX`, and :data:`HELD_MS_MAX` after the last frame was made in any case.

Through Spark Connect a frame's plan is an object of Python's, and those of frames made of it name
it: it keeps the hold. Spark's own ``format("tidelake")`` plans in a process of Python's that ends
with the plan: its hold lapses (:meth:`~tidelake.table.handle.read_hold.ReadHold.outlive`).
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.scan import ReadHold
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.slower import warn_slower

LOOK_S = 5.0
"""How often the thread looks whether frames are left."""
HELD_MS_MAX = 24 * 3_600_000
"""How long after its last frame was made a snapshot is let go, whatever Spark keeps."""
IDLE_MS_MAX = 2 * 3_600_000
"""How long after the last job of Spark's a snapshot is let go."""
SILENT_LOOKS_MAX = 5
"""Looks without an answer after which the JVM counts as lost."""
_NAME = "TidelakeReads"
_CLASSES = ("TidelakeListedFiles", _NAME)
_NO_ANSWER = (Py4JError, OSError, AttributeError)
"""What a call to a JVM raises while its Spark stops: parts of the context are None then."""
_UNHELD = "Reads of Spark hold their snapshot only while they are planned"

Key = tuple[SparkContext, str, int]
"""A snapshot as a JVM reads it: the Spark, the table's location with its branch, the id."""


class Jobs(NamedTuple):
    """The jobs of a Spark: how many it has started since its start, and how many run."""

    started: int
    running: int


def jobs_of(context: SparkContext) -> Jobs | None:
    """The jobs of a Spark now; None if it does not say."""
    try:
        jsc = context._jsc  # another thread may stop it
        started = jsc.sc().dagScheduler().numTotalJobs()
        return Jobs(started, len(jsc.statusTracker().getActiveJobIds()))
    except _NO_ANSWER:
        return None


class HeldFrames:
    """What the frames of this process hold. Threads may share it."""

    def __init__(self) -> None:
        self._held: dict[Key, _HeldSnapshot] = {}
        self._defined: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()
        self._guard = threading.Lock()
        self._is_watched = False

    def add(
        self, spark: SparkSession, frame: DataFrame, hold: ReadHold, *, is_lookup: bool
    ) -> None:
        """See :func:`held_while_read`."""
        subject = hold.subject
        if subject is None:
            return
        if is_remote() or not hasattr(spark, "_jsparkSession"):
            plan = frame._plan  # plans of frames made of it refer to this one
            plan._tidelake_holds = (*getattr(plan, "_tidelake_holds", ()), hold)
            return
        if not self._is_defined(spark):
            return
        plan = frame._jdf.queryExecution().analyzed()
        key = (spark.sparkContext, *subject)
        with self._guard:
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = _HeldSnapshot(spark, hold)
            held.add(plan, hold, is_lookup=is_lookup)
            if not self._is_watched:
                threading.Thread(target=self._watch, name="tidelake-frames", daemon=True).start()
                self._is_watched = True

    def _is_defined(self, spark: SparkSession) -> bool:
        """Whether this Spark takes the Java class; asked once, for it costs several calls."""
        context = spark.sparkContext
        if context not in self._defined:
            try:
                for name in _CLASSES:
                    defined_class(spark, name)
            except (Py4JError, TypeError) as error:
                warn_slower(_UNHELD, spark.version, error)
                self._defined[context] = False
            else:
                self._defined[context] = True
        return self._defined[context]

    def look(self) -> int:
        """Let go what Spark cannot read any more; gives how many snapshots are still held."""
        with self._guard:
            keys = list(self._held)
        jobs = {context: jobs_of(context) for context in {context for context, *_ in keys}}
        for key in keys:
            with self._guard:  # for each one: a frame that is made meanwhile waits for one call
                held = self._held.get(key)
                if held is None or not held.is_over(jobs[key[0]]):
                    continue
                del self._held[key]
            held.hold.release()
        with self._guard:
            return len(self._held)

    def _watch(self) -> None:
        waits = threading.Event()
        while True:
            waits.wait(LOOK_S)
            try:
                self.look()
            except BaseException:
                with self._guard:
                    self._is_watched = False  # the next frame starts another thread
                raise
            with self._guard:
                if not self._held:
                    self._is_watched = False
                    return


class _HeldSnapshot:
    """A snapshot, what holds it, and what Spark reads of it."""

    def __init__(self, spark: SparkSession, hold: ReadHold) -> None:
        self.hold = hold
        self._context = spark.sparkContext
        self._silent_looks_count = 0
        self._jobs: Jobs | None = None  # at the last look
        self._idle_from_ms = 0  # the age of the hold when jobs were seen
        self._last_added_ms = 0  # the age of the hold at the last frame
        self._reads: Any = getattr(spark._jvm, f"{PACKAGE}.{_NAME}")()

    def add(self, plan: Any, hold: ReadHold, *, is_lookup: bool) -> None:
        """Look at a plan, too; take its hold if that begins sooner, or has begun already."""
        if is_lookup:
            self._reads.addLookups(plan)
        else:
            self._reads.add(plan)
        before = self.hold
        if before.subject is None or _start_of(hold) < _start_of(before):
            self.hold = hold
            before.release()
        self._last_added_ms = self._idle_from_ms = self.hold.age_ms

    def is_over(self, jobs: Jobs | None) -> bool:
        """Whether Spark can read nothing of it any more, by its jobs as far as they are known."""
        age_ms = self.hold.age_ms
        if age_ms - self._last_added_ms > HELD_MS_MAX or self._context._jsc is None:
            return True  # a day, or Spark was stopped
        if jobs is None or jobs.running or jobs != self._jobs:
            self._idle_from_ms = age_ms
        elif age_ms - self._idle_from_ms > IDLE_MS_MAX:
            return True
        self._jobs = jobs
        try:
            is_left = self._reads.areLeft()
        except _NO_ANSWER:
            self._silent_looks_count += 1  # Spark may be on its way up or down
            return self._silent_looks_count >= SILENT_LOOKS_MAX
        self._silent_looks_count = 0
        return not is_left


def _start_of(hold: ReadHold) -> tuple[bool, int]:
    """When a hold begins, for comparison: one that has begun comes first."""
    return (True, hold.waits_ms) if hold.consumer_id is None else (False, 0)


FRAMES = HeldFrames()
"""Of this process: frames of one snapshot share a hold, whichever catalog made them."""


def held_while_read(
    spark: SparkSession, frame: DataFrame, hold: ReadHold, *, is_lookup: bool = False
) -> DataFrame:
    """The same frame; its snapshot is held as long as Spark can read the frame.

    Parameters
    ----------
    hold : ReadHold
        Holds the snapshot now, or soon; nothing happens if it does not.
    is_lookup : bool
        Whether the frame looks rows up in the snapshot (:mod:`tidelake.spark.lookupjoin`).
    """
    FRAMES.add(spark, frame, hold, is_lookup=is_lookup)
    return frame
