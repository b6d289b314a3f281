"""Every option of Paimon 1.3.1; a constant, named by upper-casing the key, for each that is read.

All of ``CoreOptions``; sixteen of its connectors for Flink and Spark that mean something here
(``sink.parallelism``, ``write.merge-schema``, ...); ``write-mode``, which older versions had;
``deletion-vectors.merge-on-read`` of Paimon 2.x; and two of our own (``sink.local-rows``,
``read.stream.schema-change``). An option says its type, its default and whether it is supported.
Code that acts on one stands elsewhere. An option that no code reads has no name: it stands in its
theme's ``UNREAD``.

>>> from tidelake.options import declared
>>> declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
5
>>> len(declared.BY_KEY)
252
"""

# ruff: noqa: F403 - each theme lists its own in __all__, and a test compares them
from tidelake.options.declared.commit import *
from tidelake.options.declared.compaction import *
from tidelake.options.declared.files import *
from tidelake.options.declared.layout import *
from tidelake.options.declared.merge import *
from tidelake.options.declared.partition import *
from tidelake.options.declared.registry import *
from tidelake.options.declared.scan import *
from tidelake.options.declared.stream import *
from tidelake.options.declared.write import *
