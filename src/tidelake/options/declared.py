"""Every option of Paimon 1.3.1, with a constant for each one that acts here.

All of ``CoreOptions``; options of its connectors for Flink and Spark that apply here
(``sink.parallelism``, ``write.merge-schema``, ``partition.idle-time-to-done``, ...); those of
Iceberg metadata; ``write-mode``, which older versions had;
``deletion-vectors.merge-on-read`` and ``clustering.incremental.optimize-write`` of Paimon 2.x; and
some of our own (``sink.local-rows``, ``read.hold``, ``read.native``,
``read.mask-cache-size``, ``read.stream.schema-change``, and those of ``maintenance.*``).

The options are the lines of ``declared.tsv``; :mod:`tidelake.options.option_table` says how they
read. A constant has the key in upper case as its name. ``declared.pyi`` gives its type, and
``scripts/gen_docs.py`` writes that file.

>>> from tidelake.options import declared
>>> declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
5
>>> declared.BY_KEY["read.hold"].default
'late'
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from tidelake.options.option_table import constants, themes_of

THEMES = themes_of(Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8"))
BY_KEY = MappingProxyType({o.key: o for options in THEMES.values() for o in options})

globals().update(constants(BY_KEY.values()))
