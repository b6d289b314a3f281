"""The declarations against the dump of Java Paimon 1.3.1's own CoreOptions."""

from pathlib import Path

import pytest

from tidelake.options import Kind, Option, Support, declared
from tidelake.options.option_table import HEAD, themes_of
from tidelake.options.text_value import to_text

JAVA = [
    line.split("\t")
    for line in (Path(__file__).parent / "paimon-1.3.1-options.tsv").read_text().splitlines()
]
JAVA_DURATIONS_MS = {
    "PT0S": 0,
    "PT0.01S": 10,
    "PT10S": 10_000,
    "PT1H": 3_600_000,
}

JAVA_IMMUTABLE = {
    "aggregation.remove-record-on-delete",
    "bucket-function.type",
    "bucket-key",
    "data-evolution.enabled",
    "data-file.path-directory",
    "force-lookup",
    "ignore-delete",
    "ignore-update-before",
    "index-file-in-data-file-dir",
    "merge-engine",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "partition",
    "primary-key",
    "rowkind.field",
}
"""The options that carry ``@Immutable`` in ``CoreOptions`` of Paimon 1.3.1."""

FIXED_HERE = {
    "pk-clustering-override",  # files that are there have the other order
    "deletion-vectors.enabled",  # without it deleted rows come back; with it level 0 is not seen
    "fields.default-aggregate-function",  # it decides what rows are merged into
    "dynamic-bucket.initial-buckets",  # immutable in Java from 2.0 on: buckets are hashed by it
    "row-tracking.enabled",  # likewise: files written without it carry no row ids
    "sequence.field",  # a compaction under another one drops values that are newer
    "sequence.field.sort-order",  # likewise
    "write-mode",  # the primary key says it, and that is fixed
}
"""Options that Java lets change although files that are there contradict the new value."""


OF_ENGINES = {
    "precommit-compact",
    "read.changelog",
    "postpone.default-bucket-num",  # and in ``CoreOptions`` from 2.x on
    "read.stream.maxBytesPerTrigger",
    "read.stream.maxFilesPerTrigger",
    "read.stream.maxRowsPerTrigger",
    "partition.idle-time-to-done",
    "partition.mark-done-action.mode",
    "partition.time-interval",
    "read.stream.maxTriggerDelayMs",
    "read.stream.minRowsPerTrigger",
    "scan.infer-parallelism",
    "scan.parallelism",
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.idle-timeout",
    "sink.parallelism",
    "write.merge-schema",
    "write.merge-schema.explicit-cast",
}
"""Options of Paimon 1.3.1's connectors for Flink and Spark that count here too."""

OF_LATER_PAIMON = {
    "clustering.incremental.optimize-write",
    "deletion-vectors.merge-on-read",
    "scan.primary-branch",
    "pk-clustering-override",
}
"""Options of Paimon 2.x that count here."""

OF_OLDER_PAIMON = {"write-mode"}
"""Options that Paimon had before 1.0."""

OURS = {
    "maintenance.compaction",
    "maintenance.expiry-interval",
    "maintenance.orphans-interval",
    "maintenance.orphans-older-than",
    "maintenance.sorted-runs",
    "maintenance.tasks",
    "read.hold",
    "read.mask-cache-size",
    "read.native",
    "read.stream.schema-change",
    "sink.local-rows",
}
"""Options that Paimon does not have."""

WIDER_HERE = {"streaming-read-overwrite": ("Enum", "fail")}
"""Options that take more than Java's values, or have another default: ADR 54."""


def test_options_that_may_not_change_are_java_s_and_eight_more():
    fixed = {option.key for option in declared.BY_KEY.values() if not option.mutable}
    assert not JAVA_IMMUTABLE & FIXED_HERE
    assert fixed == JAVA_IMMUTABLE | FIXED_HERE


def test_every_key_of_paimon_1_3_1_is_declared_and_no_other():
    assert len(JAVA) == 232
    of_iceberg = {o.key for o in declared.THEMES["Iceberg metadata"]}
    assert len(of_iceberg) == 17
    others = OF_ENGINES | OF_OLDER_PAIMON | OF_LATER_PAIMON | OURS | of_iceberg
    assert {row[0] for row in JAVA} | others == set(declared.BY_KEY)


@pytest.mark.parametrize(("key", "kind", "default"), JAVA, ids=[row[0] for row in JAVA])
def test_kind_and_default_are_java_s(key, kind, default):
    option = declared.BY_KEY[key]
    kind, default = WIDER_HERE.get(key, (kind, default))
    enumerated = kind not in {k.value for k in Kind} - {"Enum"}
    assert option.kind.value == ("Enum" if enumerated else kind)
    if default == "null":
        assert option.default is None
    elif option.kind is Kind.DURATION:
        assert option.default == JAVA_DURATIONS_MS[default]
    elif option.kind is Kind.MAP:
        assert (option.default, default) == ({}, "{}")
    elif option.kind is Kind.MEMORY_SIZE and default.startswith("9223372036854775807"):
        assert option.default == 2**63 - 1
    else:
        assert to_text(option, option.default) == default


def test_an_option_that_acts_has_a_constant_of_its_own_name_and_the_others_none():
    named = {name: o for name, o in vars(declared).items() if isinstance(o, Option)}
    assert {option.constant: option for option in named.values()} == named
    idle = (Support.NO_EFFECT, Support.NOT_DONE)
    acts = [o.key for o in declared.BY_KEY.values() if o.support not in idle]
    assert sorted(o.key for o in named.values()) == sorted(acts)


def test_no_option_is_declared_in_two_themes():
    assert sum(len(options) for options in declared.THEMES.values()) == len(declared.BY_KEY)


def test_every_option_says_what_it_does_and_why_it_is_not_covered():
    for option in declared.BY_KEY.values():
        assert option.description.endswith("."), option.key
        assert (option.support is Support.SUPPORTED) == (option.reason == ""), option.key
        assert not option.reason.endswith("."), option.key


def test_enum_defaults_are_among_the_choices():
    for option in declared.BY_KEY.values():
        if option.kind is Kind.ENUM:
            assert option.default is None or option.default in option.choices


def test_older_keys_belong_to_one_option_only():
    aliases = [alias for o in declared.BY_KEY.values() for alias in o.fallback_keys]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(declared.BY_KEY)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["a\tWord\tunset\t\t\tsupported\tIt."], "Line 3 .*'Word' is not a valid Kind"),
        (["a\tLong\tunset\t\t\tsupported\tIt."] * 2, "Line 4 .*'a' is declared twice"),
        (
            ["a, b\tLong\tunset\t\t\tsupported\tIt.", "b\tLong\tunset\t\t\tsupported\tIt."],
            "Line 4 .*'b' is declared twice",
        ),
        (["a\tLong\tten\t\t\tsupported\tIt."], "a whole number of 64 bits"),
        (["a\tInteger\t10\t1..9\t\tsupported\tIt."], "between 1 and 9"),
        (["a\tInteger\t5\t9\t\tsupported\tIt."], "bounds are written '1..9', not '9'"),
        (["a\tEnum\tz\tx|y\t\tsupported\tIt."], "one of x, y"),
        (["a\tBoolean\ttrue\tyes\t\tsupported\tIt."], "type Boolean has no values"),
        (["a\tLong\tunset\t\tfix\tsupported\tIt."], "'fix' is not 'fixed'"),
        (["a\tLong\tunset\t\t\trefused\tIt."], "'refused' is no support with its reason"),
        (["a\tLong\tunset\t\t\tmaybe: so\tIt."], "'maybe: so' is no support"),
        (["a\tLong\tunset\t\t\trefused on drop: so\tIt."], "refused on drop: so' is no support"),
        (["a\tLong\tunset\t\tsupported\tIt."], "it has 6 cells"),
        (["", "a"], "Line 3 .*it has 1 cells"),
    ],
)
def test_a_mistake_in_the_table_is_an_error_with_its_line(rows, words):
    with pytest.raises(ValueError, match=words):
        themes_of("\n".join([HEAD, "# Theme", *rows]))


def test_a_table_begins_with_its_head_and_a_title():
    row = "a\tLong\tunset\t\t\tsupported\tIt."
    with pytest.raises(ValueError, match="Line 1: the head"):
        themes_of(row)
    with pytest.raises(ValueError, match=r"Line 2 .*no theme"):
        themes_of(f"{HEAD}\n{row}")
