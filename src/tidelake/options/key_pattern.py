"""Families of keys: for columns, indexes and connectors, and properties of SQL engines.

A table may have them. The keys of file indexes decide the indexes of new files. The other keys do
not change what this version reads, because the features (merge engines, connectors) are refused or
absent. Only ``metadata.iceberg.storage`` would make a commit incomplete, so it is refused for
writing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.options.option import (
    ON_CREATE,
    ON_WRITE,
    SUPPORTED,
    Coverage,
    no_effect,
    refused,
)

AGGREGATE_FUNCTIONS = (
    "bool_and",
    "bool_or",
    "collect",
    "first_non_null_value",
    "first_not_null_value",
    "first_value",
    "hll_sketch",
    "last_non_null_value",
    "last_value",
    "listagg",
    "max",
    "merge_map",
    "min",
    "nested_update",
    "primary-key",
    "product",
    "rbm32",
    "rbm64",
    "sum",
    "theta_sketch",
)
"""Values of ``fields.<column>.aggregate-function``: the aggregators of Paimon 1.3.1."""


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """A family of keys.

    Parameters
    ----------
    title : str
        The family in the documentation, with ``<name>`` for variable parts.
    regex : str
        Matches every key of the family, and nothing else.
    coverage : Coverage
        Their support; ``accepted`` holds texts.
    is_of_connectors : bool
        Whether the family is open: Java's connectors have many keys of it, and new ones.
    """

    title: str
    regex: str
    description: str
    coverage: Coverage
    is_of_connectors: bool = False


CONSTRAINT_PREFIX = "constraint."
"""What the option of a constraint begins with; its name follows."""
_CONNECTOR = no_effect("it is for Java Paimon's own Flink and Spark connectors")
AGGREGATION_SETTINGS = (
    "aggregate-function",
    "ignore-retract",
    "nested-key",
    "count-limit",
    "distinct",
    "list-agg-delimiter",
)
_CONNECTOR_KEYS = (
    r"sink\..+|source\..+|lookup\..+"
    r"|scan\.(infer-parallelism\.max|split-enumerator\..+|watermark\..+"
    r"|remove-normalize|max-snapshot\.count|dedicated-split-generation)"
    r"|unaware-bucket\.compaction\.parallelism"
    r"|end-input\.watermark|streaming-read\.shuffle-bucket-with-partition"
    r"|filesystem\.job-level-settings\.enabled|read\.(changelog|allow\.fullScan|stream\..+)"
    r"|write\.use-v2-write|rocksdb\..+"
)

PATTERNS = (
    KeyPattern(
        "fields.<column>.<aggregate setting>",
        rf"fields\..+\.({'|'.join(AGGREGATION_SETTINGS)})",
        "The aggregate function of a column, and its settings.",
        SUPPORTED,
    ),
    KeyPattern(
        "fields.<columns>.sequence-group",
        r"fields\..+\.sequence-group",
        "Columns that partial-update updates together.",
        SUPPORTED,
    ),
    KeyPattern(
        "fields.<column>.stats-mode",
        r"fields\..+\.stats-mode",
        "The statistics mode of one column.",
        SUPPORTED,
    ),
    KeyPattern(
        "file-index.<kind>.columns, file-index.<kind>.<column>.<setting>",
        r"file-index\.(bloom-filter|bitmap|range-bitmap)\..+",
        "Columns with a file index of kind bloom-filter, bitmap or range-bitmap, and its settings.",
        SUPPORTED,
    ),
    KeyPattern(
        "file-index.bsi.*, file-index.token-bloom-filter.*",
        r"file-index\.(bsi|token-bloom-filter)\..+",
        "Columns with a file index of an older kind.",
        refused("Tidelake cannot write such indexes; use 'range-bitmap'", on=ON_WRITE),
    ),
    KeyPattern(
        "constraint.<name>",
        rf"{re.escape(CONSTRAINT_PREFIX)}.*",
        "A condition that each row fulfils which Tidelake writes, such as `price >= 0`. Java Paimon"
        " keeps the option and checks nothing.",
        SUPPORTED,
    ),
    KeyPattern(
        "orc.compress, orc.stripe.size, ...; avro.codec",
        r"orc\.(compress|stripe\.size|compress\.size|row\.index\.stride"
        r"|dictionary\.key\.threshold|timestamp-ltz\.legacy\.type)|avro\.codec",
        "Compression (before file.compression), sizes and encodings of ORC and Avro files; whether "
        "Java's ORC writers move the instants of TIMESTAMP_LTZ by their own time zone (`true` if "
        "unset).",
        SUPPORTED,
    ),
    KeyPattern(
        "parquet.*, orc.*, avro.*, csv.*, json.*",
        r"(parquet|orc|avro|csv|json)\..+",
        "Settings of Java's format writers.",
        no_effect("Tidelake's writers have fixed settings that are fast for every reader"),
    ),
    KeyPattern(
        "commit.callback.<class>.param, tag.callback.<class>.param",
        r"(commit|tag)\.callback\..+\.param",
        "Argument of a callback class.",
        no_effect("it belongs to commit.callbacks and tag.callbacks"),
    ),
    KeyPattern(
        "<map option>.<name>",
        r"(file\.compression|file\.format|metadata\.stats-mode)\.per\.level\..+",
        "One pair of an option with pairs, as a separate key.",
        no_effect("it is read with its option"),
    ),
    KeyPattern(
        "metadata.iceberg.rest.*, metadata.iceberg.table-properties.*",
        r"metadata\.iceberg\.(rest|table-properties)\..+",
        "Settings of Iceberg catalogs.",
        refused("Tidelake registers no table in an Iceberg catalog", on=ON_CREATE),
    ),
    KeyPattern(
        "schema.watermark.<n>.*, schema.<n>.name, ...",
        r"schema\.(watermark\.\d+\.(rowtime|strategy\.(expr|data-type))"
        r"|\d+\.(name|data-type|expr|metadata|virtual|comment))",
        "The watermark and the computed columns of a Flink CREATE TABLE.",
        no_effect("kept for streams and for Flink; a batch has no watermark"),
    ),
    KeyPattern(
        "comment, owner, provider, external",
        r"comment|owner|provider|external|is_managed_location",
        "Properties that SQL engines store with a table.",
        no_effect("kept for these engines"),
    ),
    KeyPattern(
        "compaction.max.file-num, changelog-producer.compaction-interval",
        r"compaction\.max\.file-num|changelog-producer\.compaction-interval",
        "Options of Paimon before 1.0 that 1.3.1 no longer knows.",
        no_effect("Paimon has replaced them by other options"),
    ),
    KeyPattern(
        "sink.*, lookup.*, read.stream.*, ...",
        _CONNECTOR_KEYS,
        "Settings of a connector: managed memory, watermarks.",
        _CONNECTOR,
        is_of_connectors=True,
    ),
)
"""All families, special ones before general ones."""


def columns_in(key: str) -> str | None:
    """Find the column, or several with commas, in a key ``fields.<column>.*``.

    Examples
    --------
    >>> columns_in("fields.a,b.sequence-group"), columns_in("bucket")
    ('a,b', None)
    """
    matched = re.fullmatch(
        rf"fields\.(.+)\.({'|'.join(AGGREGATION_SETTINGS)}|sequence-group|stats-mode)", key
    )
    return None if matched is None else matched.group(1)


def pattern_of(key: str) -> KeyPattern | None:
    """Find the family of a key, if any.

    Examples
    --------
    >>> pattern_of("fields.price.aggregate-function").title
    'fields.<column>.<aggregate setting>'
    >>> pattern_of("bukcet") is None
    True
    """
    for pattern in PATTERNS:
        if re.fullmatch(pattern.regex, key):
            return pattern
    return None
