"""The rules that put the plans of our scans into those of queries, and read them by bucket.

A catalog's scan may only give rows by Spark's connector interfaces, or as an RDD
(:mod:`tidelake.spark.catalog.scans.frame_scan`). Both end Spark's generated code, and each row
is copied twice. Our rows are a DataFrame, whose plan has Spark's own Parquet scans. So a rule of
Spark's optimiser replaces each of our scans by that plan:

1. Spark has pushed columns, filters and a limit into the scan by then: the rule runs last, among
   the session's own optimisations (``spark.experimental.extraOptimizations``). The optimiser of
   subqueries has it too, and so have clones of the session (streams, ``CACHE TABLE``).
2. The rule asks the scan for its plan (``java.util.function.Supplier``), and gives the plan's
   columns the ids of the scan's.
3. Data files are scanned under the name of the table, as EXPLAIN shows them.
4. ``count(*)`` over files that Spark reads whole is their known number of rows, in DataFrames of
   ``tl.table`` too.
5. Filters, columns and limits go on down into the plan, by rules of Spark's that have run before.
   So do the filters by which a join leaves out partitions.
6. A mask of replaced rows is looked at last, after the comparisons of the query: most rows that a
   query leaves out then cost no look into a mask. What may fail for a value (a cast, a division)
   stays behind the mask, because a replaced row must not fail.

7. A comparison with an old day or instant stays out of Spark's Parquet reader: on the way there
   Spark moves the value to the Julian calendar, and loses days
   (:mod:`tidelake.spark.expression.java_filter`). ``KnownNullable`` around the column, which does
   nothing to its value, keeps it out.

A write of Spark's older interface plans its query a second time, from its analysed form. There the
first plan is left alone, because nobody runs it.

The rule is a Java class (:mod:`tidelake.spark.jvm.java_class`). It uses private names of Spark
(:mod:`tidelake.spark.jvm.private_names`). Where they are others, the rule does not compile, rows
come as an RDD, and a warning says so.

**Bucket by bucket** are read those scans that a join or a group then needs no shuffle for (ADR 89):

1. A rule of the optimiser looks for joins of two tables on their bucket keys, and for groups by
   them. It follows each key down to the scan that it comes from. A side that Spark sends to all
   tasks is no reason, nor are fewer buckets than tasks run at once: a shuffle would use all cores.
   Where Spark may shuffle one side to the buckets of the other, it does nothing.
2. It marks the file indexes of these scans (``TidelakeListedFiles.byBucket``). The rows stay the
   same.
3. A strategy of the planner puts packed scans above the scans that are marked, and above those
   whose tasks would be uneven. Spark itself then sees that it need not shuffle what is read by
   bucket. Where it shuffles nevertheless, a mark was in vain, nothing more.

**Packed scans** have their files packed into tasks by us. Spark knows only buckets of its own:
names of files with numbers, and its own hash. Ours are those of Paimon, so these classes tell Spark
what it needs:

1. ``TidelakeBucketFunction`` names the function that gives a key's bucket: by Paimon's rules, for
   keys of a type. Spark never calls it. Two scans agree if they name the same.
2. ``TidelakePackedScan`` is the node of the plan, above Spark's own scan of the files. It tells
   the partitioning of its rows as sources of Spark's connector do (``KeyedPartitioning``): task by
   task the bucket. Should anybody have replaced that scan, it refuses to run: tasks would not be
   buckets.
3. ``TidelakePackedReader`` reads: it is Spark's scan with the files of a bucket in one task.

**Evenly** files are packed where Spark's longest task would be over a fifth longer than an even
one. Spark counts 4 MB for each file, so a task of four large files may seem as long to it as one of
twelve small ones. The node and the reader are the same; the partitioning stays unknown (ADR 94).

Packed scans are of the driver alone. Tasks get Spark's own ``FileScanRDD``. The rule of joins is
named in ``spark.sql.optimizer.excludedRules`` to turn this off, even tasks too.
"""

from __future__ import annotations

from py4j.protocol import Py4JError

from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.slower import warn_slower
from tidelake.spark.read.masked_scan import takes_masks

_NAME = "TidelakeScans"
RULE = f"{PACKAGE}.{_NAME}"
"""Its name, for ``spark.sql.optimizer.excludedRules``."""
_PACKED = ("TidelakeBucketFunction", "TidelakePackedReader", "TidelakePackedScan")
_STRATEGY, _JOINS = "TidelakeBucketStrategy", "TidelakeBucketedJoins"
BUCKETED_JOINS = f"{PACKAGE}.{_JOINS}"
"""The name of the rule for joins, likewise."""
_OF_JOINS = (*_PACKED, _STRATEGY, _JOINS)
_BY_RDDS = "spark.sql reads tables of Tidelake by RDDs, which costs about twice as much"
_SHUFFLED = "Joins on bucket keys are shuffled, and tasks of scans may be uneven"


def install_rule(gateway: Gateway) -> bool:
    """Add the rule to the session; give whether the session has it now."""
    try:
        defined_class(gateway.spark, _NAME)
        gateway.java(RULE).install(gateway.spark._jsparkSession)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        warn_slower(_BY_RDDS, gateway.spark.version, error)
        return False
    if takes_masks(gateway.spark):
        _install_bucketed_joins(gateway)
    return True


def _install_bucketed_joins(gateway: Gateway) -> None:
    """The same for joins by buckets; without them Spark shuffles.

    Requires: the classes of :mod:`tidelake.spark.read.listed_files` are defined.
    """
    try:
        for name in _OF_JOINS:
            defined_class(gateway.spark, name)
        gateway.java(f"{PACKAGE}.{_STRATEGY}").install(gateway.spark._jsparkSession)
        gateway.java(BUCKETED_JOINS).install(gateway.spark._jsparkSession)
    except (Py4JError, TypeError) as error:
        warn_slower(_SHUFFLED, gateway.spark.version, error)
