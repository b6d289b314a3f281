"""Every option of Paimon 1.3.1, with a constant for each one that code reads.

All of ``CoreOptions``; sixteen options of its connectors for Flink and Spark that apply here
(``sink.parallelism``, ``write.merge-schema``, ...); the seventeen of Iceberg metadata;
``write-mode``, which older versions had;
``deletion-vectors.merge-on-read`` of Paimon 2.x; and four of our own (``sink.local-rows``,
``read.native``, ``read.mask-cache-size``, ``read.stream.schema-change``).
An option declares its type, its default and its support. A constant has the key in upper case as
its name. An option that no code reads has no constant and is in its theme's ``UNREAD``.

>>> from tidelake.options import declared
>>> declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
5
>>> len(declared.BY_KEY)
271
"""

# ruff: noqa: F403 - each theme lists its own in __all__, and a test compares them
from tidelake.options.declared.commit import *
from tidelake.options.declared.compaction import *
from tidelake.options.declared.files import *
from tidelake.options.declared.iceberg import *
from tidelake.options.declared.layout import *
from tidelake.options.declared.merge import *
from tidelake.options.declared.partition import *
from tidelake.options.declared.registry import *
from tidelake.options.declared.scan import *
from tidelake.options.declared.stream import *
from tidelake.options.declared.write import *
