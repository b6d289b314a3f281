"""Which scans are read bucket by bucket: those that a join or a group then needs no shuffle for.

1. A rule of the optimiser looks for joins of two tables on their bucket keys, and for groups by
   them. It follows each key down to the scan that it comes from. A side that Spark sends to all
   tasks is no reason, nor are fewer buckets than tasks run at once: a shuffle would use all cores.
   Where Spark may shuffle one side to the buckets of the other, it does nothing.
2. It marks the file indexes of these scans (``TidelakeListedFiles.byBucket``). The rows stay the
   same.
3. A strategy of the planner puts :mod:`tidelake.spark.catalog.scans.packed_scan` above the scans
   that are marked, and above those whose tasks would be uneven. Spark itself then sees that it
   need not shuffle what is read by bucket. Where it shuffles nevertheless, a mark was in vain,
   nothing more.

The rule is named in ``spark.sql.optimizer.excludedRules`` to turn this off, even tasks too.
"""

from __future__ import annotations

from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.catalog.scans.packed_scan import define_packed_scan
from tidelake.spark.jvm.java_class import PACKAGE, defined_class

_STRATEGY, _RULE = "TidelakeBucketStrategy", "TidelakeBucketedJoins"
BUCKETED_JOINS = f"{PACKAGE}.{_RULE}"
"""Its name, for ``spark.sql.optimizer.excludedRules``."""


def install_bucketed_joins(gateway: Gateway) -> None:
    """Add rule and strategy to the session, unless it has them.

    Requires: the classes of :mod:`tidelake.spark.read.listed_files` are defined.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private names.
    """
    define_packed_scan(gateway)
    defined_class(gateway.spark, _STRATEGY)
    defined_class(gateway.spark, _RULE)
    gateway.java(f"{PACKAGE}.{_STRATEGY}").install(gateway.spark._jsparkSession)
    gateway.java(BUCKETED_JOINS).install(gateway.spark._jsparkSession)
