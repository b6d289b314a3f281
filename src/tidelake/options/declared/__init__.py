"""Every option of Paimon 1.3.1, one constant per key, named by upper-casing the key.

One of them is its Flink connector's and not of ``CoreOptions``: ``postpone.default-bucket-num``.

>>> from tidelake.options import declared
>>> declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
5
>>> len(declared.BY_KEY)
233
"""

# ruff: noqa: F403 - 233 names; each theme lists its own in __all__, and a test compares them
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
