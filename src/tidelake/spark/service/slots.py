"""How many tasks of a Spark session run at once, and whether a service leaves some to other jobs.

An executor of a query service is a task that never ends by itself. If services held all slots, no
other job of the session would ever run. So a service that would leave none is refused, before
anything starts.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.env import Clock
from tidelake.errors import InvalidInputError, UnsupportedError, counted

LOOK_MS = 200
WAIT_MS = 15_000
"""How long executors of a cluster that has just started are waited for."""
COPIES = "spark.speculation.task.duration.threshold"
"""With it Spark starts a second attempt of any task that runs for long."""


def check_session(spark: SparkSession) -> None:
    """Refuse a session that cannot hold a service.

    Raises
    ------
    UnsupportedError
        It is one of Spark Connect, or it copies long tasks.
    """
    if is_remote():
        message = (
            "A query service needs the process of Spark's driver, for the server that gives clients"
            " the addresses of executors; this session is one of Spark Connect. Call tl.serve in a"
            " program with a session of its own, or serve without Spark:"
            " tidelake.serve(warehouse, tables)."
        )
        raise UnsupportedError(message, kind="spark_connect")
    conf = spark.sparkContext.getConf()
    if conf.get("spark.speculation", "false") == "true" and conf.get(COPIES) is not None:
        message = (
            f"With '{COPIES}' Spark runs each long task twice, and an executor of a query service"
            " is a task that runs for ever: start the session without that setting."
        )
        raise UnsupportedError(message, kind="spark_conf", option=COPIES)


def slots_count(spark: SparkSession) -> int:
    """Number of tasks that may run at once: with dynamic allocation, at its largest."""
    sc = spark.sparkContext
    jvm_context = sc._jsc.sc()
    profile = jvm_context.resourceProfileManager().defaultResourceProfile()
    now = int(jvm_context.maxNumConcurrentTasks(profile))
    conf = sc.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return now
    executors_max = conf.get("spark.dynamicAllocation.maxExecutors", "infinity")
    if not executors_max.isdecimal():
        return UNBOUNDED
    cores, cpus = conf.get("spark.executor.cores", "1"), conf.get("spark.task.cpus", "1")
    return max(now, int(executors_max) * (int(cores) // int(cpus)))


UNBOUNDED = 1 << 30
"""Slots where dynamic allocation has no limit."""


def check_slots(spark: SparkSession, parallelism: int, *, taken: int, clock: Clock) -> None:
    """Refuse a service that would leave no slot for other jobs.

    Parameters
    ----------
    clock : Clock
        Waits for the executors of a cluster that has just started.

    Raises
    ------
    InvalidInputError
        Too few are left; the message says how many there are and what to do.
    """
    needed = parallelism + taken + 1
    total = slots_count(spark)
    if not spark.sparkContext.master.startswith("local["):
        for _ in range(0, WAIT_MS, LOOK_MS):
            if total >= needed:
                break
            clock.sleep_ms(LOOK_MS)
            total = slots_count(spark)
    if total >= needed:
        return
    raise InvalidInputError(
        _refusal(spark.sparkContext.master, parallelism, total=total, taken=taken),
        kind="no_free_slot",
        slots=total,
        parallelism=parallelism,
    )


def _refusal(master: str, parallelism: int, *, total: int, taken: int) -> str:
    """Say how many slots there are and what to do.

    Examples
    --------
    >>> text = _refusal("local[2]", 2, total=2, taken=0)
    >>> text.partition(": this ")[2].partition(", or")[0]
    'session (local[2]) runs 2 tasks at once. Take parallelism=1 at most'
    """
    others = f", and other services hold {taken}" if taken else ""
    most = total - taken - 1
    more = (
        f"master='local[{parallelism + taken + 1}]'"
        if master.startswith("local")
        else "more executors, or more cores for each"
    )
    advice = f"Take parallelism={most} at most, or a" if most > 0 else "Start a"
    return (
        f"A query service of {counted(parallelism, 'executor')} would leave no slot for other jobs:"
        f" this session ({master}) runs {counted(total, 'task')} at once{others}. {advice}"
        f" session with more slots: {more}."
    )
