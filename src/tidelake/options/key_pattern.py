"""Keys that are not fixed names: per column, per index, per connector, and properties of SQL.

A table may carry them. File indexes are made as their keys say; else none changes what this version
reads, because what they belong to (merge engines, connectors) is refused or absent.
``metadata.iceberg.storage`` alone makes a commit incomplete, and is refused for writing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.options.option import ON_WRITE, SUPPORTED, Coverage, no_effect, partly, refused

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "AGGREGATION_SETTINGS",
    "PATTERNS",
    "KeyPattern",
    "columns_in",
    "pattern_of",
]

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
"""What ``fields.<column>.aggregate-function`` may name: the aggregators of Paimon 1.3.1."""


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """A family of keys.

    Parameters
    ----------
    title : str
        How the documentation writes the family, with ``<name>`` for what varies.
    regex : str
        Matches every key of the family, and nothing else.
    description : str
        What the options do.
    coverage : Coverage
        How far they are covered; ``accepted`` holds texts.
    """

    title: str
    regex: str
    description: str
    coverage: Coverage


_CONNECTOR = no_effect("it tunes Java Paimon's own Flink and Spark connectors")
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
    r"|unaware-bucket\.compaction\.parallelism|partition\.(time-interval|idle-time-to-done)"
    r"|end-input\.watermark|streaming-read\.shuffle-bucket-with-partition"
    r"|filesystem\.job-level-settings\.enabled|read\.(changelog|allow\.fullScan|stream\..+)"
    r"|write\.use-v2-write|rocksdb\..+"
)

PATTERNS = (
    KeyPattern(
        "fields.<column>.<aggregate setting>",
        rf"fields\..+\.({'|'.join(AGGREGATION_SETTINGS)})",
        "The function by which a column is aggregated, and its settings.",
        SUPPORTED,
    ),
    KeyPattern(
        "fields.<columns>.sequence-group",
        r"fields\..+\.sequence-group",
        "Columns that are updated together under partial-update.",
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
        refused("such indexes are not written here; use 'range-bitmap'", on=ON_WRITE),
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
        no_effect("the settings here are those measured to be best for every reader"),
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
        "One pair of an option that holds pairs, as a key of its own.",
        no_effect("it is read together with the option it belongs to"),
    ),
    KeyPattern(
        "metadata.iceberg.storage",
        r"metadata\.iceberg\.storage",
        "Where Iceberg metadata is written beside Paimon's at each commit.",
        partly(
            "Iceberg metadata is not written, its readers would miss this commit; unset it",
            accepted=("disabled",),
            on=ON_WRITE,
        ),
    ),
    KeyPattern(
        "metadata.iceberg.*",
        r"metadata\.iceberg\..+",
        "Settings of that metadata.",
        no_effect("it belongs to metadata.iceberg.storage"),
    ),
    KeyPattern(
        "schema.watermark.<n>.*, schema.<n>.name, ...",
        r"schema\.(watermark\.\d+\.(rowtime|strategy\.(expr|data-type))"
        r"|\d+\.(name|data-type|expr|metadata|virtual|comment))",
        "The watermark and the computed columns that a statement of Flink's declared.",
        no_effect("kept for streams and for Flink; a batch has no watermark"),
    ),
    KeyPattern(
        "comment, owner, provider, external",
        r"comment|owner|provider|external|is_managed_location",
        "Properties that SQL engines keep with a table.",
        no_effect("kept for the engines that set them"),
    ),
    KeyPattern(
        "compaction.max.file-num, changelog-producer.compaction-interval",
        r"compaction\.max\.file-num|changelog-producer\.compaction-interval",
        "Options of Paimon before 1.0 that 1.3.1 no longer knows.",
        no_effect("removed from Paimon; other options came in their place"),
    ),
    KeyPattern(
        "sink.*, lookup.*, read.stream.*, ...",
        _CONNECTOR_KEYS,
        "Settings of a connector: managed memory, watermarks.",
        _CONNECTOR,
    ),
)
"""Every family, the more special before the more general."""


def columns_in(key: str) -> str | None:
    """Give what stands for the column, or several with commas, in a key ``fields.<column>.*``.

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
    """The family that a key belongs to, if any.

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
