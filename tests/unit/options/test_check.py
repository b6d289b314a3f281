import json

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.options import (
    Options,
    Support,
    check_new_table,
    check_one_use,
    check_supported,
    declared,
    table_defaults,
)
from tidelake.options.check import looks_like_option

CONNECTOR_KEYS = (
    "sink.managed.writer-buffer-memory",
    "sink.cross-partition.managed-memory",
    "sink.committer-cpu",
    "sink.committer-memory",
    "sink.committer-operator-chaining",
    "sink.operator-uid.suffix",
    "sink.writer-cpu",
    "sink.writer-memory",
    "sink.use-managed-memory-allocator",
    "sink.writer-coordinator.enabled",
    "sink.writer-coordinator.cache-memory",
    "sink.writer-coordinator.page-size",
    "sink.clustering.sample-factor",
    "sink.clustering.sort-in-cluster",
    "source.operator-uid.suffix",
    "source.checkpoint-align.enabled",
    "source.checkpoint-align.timeout",
    "lookup.async",
    "lookup.async-thread-number",
    "lookup.cache",
    "lookup.bootstrap-parallelism",
    "lookup.dynamic-partition",
    "lookup.dynamic-partition.refresh-interval",
    "lookup.refresh.async",
    "lookup.refresh.async.pending-snapshot-count",
    "lookup.refresh.full-load-threshold",
    "lookup.refresh.time-periods-blacklist",
    "scan.infer-parallelism.max",
    "scan.split-enumerator.batch-size",
    "scan.split-enumerator.mode",
    "scan.remove-normalize",
    "scan.max-snapshot.count",
    "scan.dedicated-split-generation",
    "scan.watermark.alignment.update-interval",
    "scan.watermark.emit.strategy",
    "unaware-bucket.compaction.parallelism",
    "end-input.watermark",
    "read.allow.fullScan",
    "write.use-v2-write",
)
"""Keys of ``FlinkConnectorOptions`` and ``SparkConnectorOptions`` of Paimon 1.3.1 that are none of
``CoreOptions``."""

ACTIONS = ("create", "read", "write")


def supported(raw, *, has_primary_key=True, action="write"):
    raw = {"bucket": "1", "bucket-key": "k", **raw}
    check_supported(
        Options.parse(raw, table="db.t"),
        table="db.t",
        has_primary_key=has_primary_key,
        action=action,
    )


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("bukcet", "bucket"),
        ("num-sorted-runs.compaction-trigger", "num-sorted-run.compaction-trigger"),
        ("write_buffer_size", "write-buffer-size"),
        ("fields.a.aggregate-funktion", "fields.a.aggregate-function"),
        ("fields.a.delimiter", "fields.a.list-agg-delimiter"),
        ("fields.a,b.sequence-groups", "fields.a,b.sequence-group"),
        ("fields.default-aggregate-funktion", "fields.default-aggregate-function"),
    ],
)
def test_a_misspelt_key_is_refused_with_near_names(key, near):
    with pytest.raises(InvalidInputError, match=f"unknown option '{key}'.*'{near}'") as caught:
        check_new_table({key: "1"}, table="db.t")
    assert caught.value.kind == "unknown_option"


@pytest.mark.parametrize(
    "key",
    [
        "Bucket",
        "mergeEngine",
        "writeonly",
        "bukcet-kye",
        "scan.anything",
        "write.parquet.compression-codec",
        "snapshots.num-retained.max",
        "feilds.v.aggregate-function",
        "snapshot-count",
        "compaction",
        "source",
    ],
)
def test_a_key_that_looks_like_an_option_is_no_property(key):
    assert looks_like_option(key)
    with pytest.raises(InvalidInputError, match=f"unknown option '{key}'.*'my.{key}'") as caught:
        check_new_table({key: "1"}, table="db.t")
    assert caught.value.kind == "unknown_option"


@pytest.mark.parametrize(
    "key",
    [
        "team.contact",
        "cost-center",
        "delta.appendOnly",
        "pii",
        "Größe",
        "my.bukcet",
        "dbt.model_id",
    ],
)
def test_any_other_key_is_a_property_that_is_stored(key):
    check_new_table({key: "1", "bucket": "2"}, table="db.t")
    # for one use, and in a catalog's defaults, it would say nothing
    with pytest.raises(InvalidInputError, match="unknown option"):
        check_one_use({key: "1"}, Options.parse({}), table="db.t")
    with pytest.raises(InvalidInputError, match="unknown option"):
        table_defaults({f"table-default.{key}": "1"})


@pytest.mark.parametrize(
    "key",
    [
        "fields.price.aggregate-function",
        "fields.a,b.sequence-group",
        "fields.a.stats-mode",
        "file-index.bloom-filter.columns",
        "file-index.bloom-filter.a.fpp",
        "parquet.block.size",
        "commit.callback.com.test.A.param",
        "owner",
        "comment",
        "sink.managed.writer-buffer-memory",
        "first-row.ignore-delete",
        "compaction.max.file-num",
    ],
)
def test_keys_of_a_family_and_older_keys_are_known(key):
    check_new_table({key: "sum" if key.endswith(".aggregate-function") else "true"}, table="db.t")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sink.local-row", "sink.local-rows"),
        ("sink.localRows", "sink.local-rows"),
        ("sink.parallelism2", "sink.parallelism"),
        ("read.stream.maxRowPerTrigger", "read.stream.maxRowsPerTrigger"),
        ("read.stream.maxrowspertriger", "read.stream.maxRowsPerTrigger"),
        ("read.changelogs", "read.changelog"),
        ("scan.watermark.alignmentgroup", "scan.watermark.alignment.group"),
        ("lookup.cache-file-retensions", "lookup.cache-file-retention"),
    ],
)
def test_a_misspelt_key_of_ours_is_not_taken_for_a_connectors(key, meant):
    for check in (
        lambda: check_new_table({key: "1"}, table="db.t"),
        lambda: check_one_use({key: "1"}, Options.parse({}), table="db.t"),
    ):
        with pytest.raises(InvalidInputError, match=rf"unknown option.*'{meant}'"):
            check()
    # a table that has it on disk is read and written as before
    supported({key: "1"}, has_primary_key=True, action="write")


def test_no_key_of_javas_connectors_is_taken_for_a_misspelt_one():
    for key in CONNECTOR_KEYS:
        check_new_table({key: "1"}, table="db.t")
        check_one_use({key: "1"}, Options.parse({}), table="db.t")


def test_a_value_that_is_no_text_is_refused_with_the_text_to_write():
    with pytest.raises(InvalidInputError, match="write 'write-only': 'true'"):
        check_new_table({"write-only": True}, table="db.t")


def test_a_bad_value_of_a_new_table_is_refused():
    with pytest.raises(InvalidInputError, match="must be between -2 and"):
        check_new_table({"bucket": "-5"}, table="db.t")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("has_primary_key", [True, False])
def test_every_default_written_out_is_accepted(action, has_primary_key):
    for option in declared.BY_KEY.values():
        if option is declared.BUCKET or option.default in (None, {}):
            continue
        text = str(option.default).lower() if isinstance(option.default, bool) else option.default
        supported({option.key: str(text)}, has_primary_key=has_primary_key, action=action)


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("data-evolution.enabled", "true", ("create", "write")),
        ("type", "format-table", ACTIONS),
        ("branch", "dev", ACTIONS),
        ("commit.callbacks", "com.test.A", ("create", "write")),
        ("incremental-between", "1,2", ("read",)),
        ("scan.mode", "from-creation-timestamp", ("read",)),
        ("metadata.iceberg.storage", "hive-catalog", ("create", "write")),
        ("primary-key", "k", ("create",)),
        # options of Paimon 2.x on a table that a later version made
        ("primary-key.nullable", "true", ACTIONS),
        ("sequence.snapshot-ordering", "true", ACTIONS),
        ("chain-table.enabled", "true", ACTIONS),
        ("write.sequence-number-init-mode", "snapshot", ("create", "write")),
        ("blob-field", "picture", ACTIONS),
        ("pk-btree.index.columns", "v", ("create", "write")),
    ],
)
def test_options_that_change_the_result_are_refused_where_they_do(key, value, refused):
    for action in ACTIONS:
        if action in refused:
            with pytest.raises(UnsupportedError, match=f"db.t: option '{key}' = '{value}'"):
                supported({key: value}, action=action)
        else:
            supported({key: value}, action=action)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("merge-engine", "DEDUPLICATE"),
        ("file.format", "parquet"),
        ("scan.mode", "latest-full"),
        ("primary-key.nullable", "false"),
        ("write.sequence-number-init-mode", "scan"),
        ("manifest-sort.enabled", "true"),
        ("metadata.iceberg.storage", "disabled"),
        ("snapshot.num-retained.max", "30"),
        ("deletion-vectors.bitmap64", "true"),
    ],
)
@pytest.mark.parametrize("action", ACTIONS)
def test_neutral_values_and_options_without_effect_are_accepted(key, value, action):
    supported({key: value}, action=action)


def test_options_of_primary_key_tables_are_ignored_on_append_tables():
    supported({"record-level.expire-time": "1 d"}, has_primary_key=False)


def test_a_primary_key_table_without_buckets_makes_them_as_needed():
    options = Options.parse({})
    for action in ("create", "write", "read"):
        check_supported(options, table="db.t", has_primary_key=True, action=action)


def test_buckets_of_an_append_table_need_a_key():
    options = Options.parse({"bucket": "4"})
    with pytest.raises(InvalidInputError, match="'bucket-key'"):
        check_supported(options, table="db.t", has_primary_key=False, action="create")


@pytest.mark.parametrize("has_primary_key", [True, False])
def test_no_buckets_at_all_are_refused(has_primary_key):
    with pytest.raises(InvalidInputError, match="'bucket'"):
        supported({"bucket": "0"}, has_primary_key=has_primary_key, action="read")


def test_the_postpone_bucket_needs_a_primary_key():
    supported({"bucket": "-2"}, has_primary_key=True, action="write")
    with pytest.raises(InvalidInputError, match="needs a primary key"):
        supported({"bucket": "-2"}, has_primary_key=False, action="create")


def test_every_refused_option_is_refused_for_some_value():
    """A refusal that never fires would be a promise nobody keeps."""
    examples = {"Boolean": "true", "Map": "0:orc", "Integer": "7", "Long": "7", "Duration": "1 s"}
    for option in declared.BY_KEY.values():
        if option.support not in (Support.REFUSED, Support.PARTLY):
            continue
        other = [c for c in option.choices if c not in (option.default, *option.coverage.accepted)]
        formats = {
            "manifest.format": "json",
            "file.compression": "brotli",
            "changelog-file.compression": "brotli",
        }
        text = (
            formats.get(option.key)
            or (other and other[0])
            or examples.get(option.kind.value, "something")
        )
        with pytest.raises(UnsupportedError, match="is refused"):
            supported(
                {option.key: text},
                has_primary_key=option.coverage.tables != "append",
                action=sorted(option.coverage.actions)[0],
            )


@pytest.mark.parametrize(
    "key", ["fields.price.aggregate-function", "fields.default-aggregate-function"]
)
def test_an_aggregate_function_that_is_none_is_refused_with_near_names(key):
    check_new_table({key: "last_value"}, table="db.t")
    with pytest.raises(InvalidInputError, match="Did you mean 'last_value'"):
        check_new_table({key: "lastvalue"}, table="db.t")


@pytest.mark.parametrize("codec", ["ZSTD", "Snappy", "lz4", "none"])
def test_a_codec_is_taken_in_any_case(codec):
    supported({"file.compression": codec})


@pytest.mark.parametrize("codec", ["brotli", "LZO"])
def test_a_codec_that_is_not_written_is_refused_for_writes_and_read(codec):
    for action in ("create", "write"):
        with pytest.raises(UnsupportedError, match=r"'file\.compression' = .* is refused"):
            supported({"file.compression": codec}, action=action)
    supported({"file.compression": codec}, action="read")


def test_tables_of_real_paimon_have_only_known_keys(oracle_dir):
    schemas = sorted((oracle_dir / "fixtures").glob("**/schema/schema-*"))
    assert schemas
    for path in schemas:
        check_new_table(json.loads(path.read_text())["options"], table=path.parts[-3])
