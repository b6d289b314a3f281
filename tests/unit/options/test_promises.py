"""Options that promise work: each is done, or a warning names what is not."""

from __future__ import annotations

import logging

import pytest

import tidelake
from tidelake import InvalidInputError, SetOption
from tidelake.fileio import MemoryFileIO
from tidelake.options import Options, Support, declared
from tidelake.options.promises import promises_not_kept

SAYS = {
    "partition.mark-done-action.custom.class": ("com.shop.Done", "classes are not called here"),
    "snapshot.clean-empty-directories": ("true", "empty folders stay here"),
    "write-buffer-spill.max-disk-size": ("1 gb", "spilled rows have no limit"),
    "metastore.tag-to-partition": ("day", "Hive does not see them"),
}
FILES_OR_SPEED = {
    "async-file-write", "cache-page-size", "commit.user-prefix",
    "cross-partition-upsert.bootstrap-parallelism", "file-operation.thread-num",
    "file-reader-async-threshold", "local-merge-buffer-size", "local-sort.max-num-file-handles",
    "lookup.cache-spill-compression", "lookup.cache.bloom.filter.enabled",
    "lookup.cache.bloom.filter.fpp", "lookup.cache.high-priority-pool-ratio",
    "lookup.hash-load-factor", "lookup.local-file-type", "lookup.merge-buffer-size",
    "lookup.merge-records-threshold", "manifest.delete-file-drop-stats", "page-size",
    "parquet.enable.dictionary", "partition.sink-strategy", "read.batch-size",
    "scan.manifest.parallelism", "scan.max-splits-per-task", "snapshot.expire.execution-mode",
    "sort-compaction.local-sample.magnification", "sort-compaction.range-strategy", "sort-engine",
    "sort-spill-buffer-size", "sort-spill-threshold", "stream-scan-mode", "write.batch-memory",
    "write.batch-size", "write-max-writers-to-spill"
}  # fmt: skip
"""They shape files or take time; which rows a reader sees, and what is kept, is the same."""
ALWAYS_SO = {
    "auto-create", "commit.force-compact", "consumer.mode",
    "delete.force-produce-changelog", "lookup-wait", "snapshot.ignore-empty-commit",
}  # fmt: skip
"""What they ask for is what always happens here."""
OF_OTHERS = {
    "commit.callback.#.param": "commit.callbacks, which is refused",
    "data-file.external-paths.specific-fs": "data-file.external-paths.strategy, which is refused",
    "log.changelog-mode": "a log system, which tables here have none of",
    "log.consistency": "a log system",
    "log.format": "a log system",
    "log.ignore-delete": "a log system",
    "log.key.format": "a log system",
    "materialized-table.definition-query": "type = materialized-table, which is refused",
    "materialized-table.interval-freshness": "type",
    "materialized-table.interval-freshness.time-unit": "type",
    "materialized-table.logical-refresh-mode": "type",
    "materialized-table.refresh-handler-bytes": "type",
    "materialized-table.refresh-handler-description": "type",
    "materialized-table.refresh-mode": "type",
    "materialized-table.refresh-status": "type",
    "partition.idle-time-to-report-statistic": "a metastore",
    "streaming-read-mode": "a log system",
}
"""They say how something works that this table cannot have."""


def test_an_option_without_effect_promises_nothing():
    without = {o.key for o in declared.BY_KEY.values() if o.support is Support.NO_EFFECT}
    classes = [FILES_OR_SPEED, ALWAYS_SO, OF_OTHERS.keys()]
    assert sum(map(len, classes)) == len(set().union(*classes))
    assert not without - set().union(*classes), "say of which class, or 'not done'"


@pytest.fixture
def catalog():
    return tidelake.open("/w", fileio=MemoryFileIO())


@pytest.fixture
def warned(caplog):
    caplog.set_level(logging.WARNING, "tidelake")

    def said():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return said


@pytest.mark.parametrize("key", SAYS)
def test_a_new_table_with_a_promise_is_warned_of(catalog, warned, key, request):
    value, says = SAYS[key]
    name = f"new.{request.node.callspec.id.replace('.', '-')}"
    table = catalog.create_table(name, {"k": "INT"}, options={key: value})
    (text,) = warned()
    assert text.startswith(f"Table {name}: '{key}' promises what Tidelake does not do: ")
    assert says in text
    for k in range(2):
        table.write([{"k": k}])
    assert warned() == []  # once a table and process


def test_what_promises_nothing_is_not_warned_of(catalog, warned):
    options = {"tag.automatic-creation": "none", "partition.expiration-max-num": "100"}
    catalog.create_table("quiet.t", {"k": "INT"}, options=options).write([{"k": 1}])
    assert warned() == []
    assert promises_not_kept(Options.parse(options)) == {}


def test_an_altered_table_is_warned_of(catalog, warned):
    catalog.create_table("altered.t", {"k": "INT"})
    catalog.alter_table("altered.t", [SetOption("snapshot.clean-empty-directories", "true")])
    (text,) = warned()
    assert "empty folders stay here" in text


def test_a_table_of_java_is_warned_of_at_its_first_write(catalog, warned):
    table = catalog.create_table("java.t", {"k": "INT"})
    used = table.with_options({"snapshot.clean-empty-directories": "true"})  # as if it came with it
    assert warned() == []
    for k in range(2):
        used.write([{"k": k}])
    assert len(warned()) == 1


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("partition.timestamp-formatter", "nonsense", "a format of times such as 'yyyy-MM-dd"),
        ("partition.timestamp-formatter", "yyyy-'MM", "a format of times"),
        ("partition.timestamp-pattern", "dt", r"a text with columns such as '\$dt"),
        ("clustering.strategy", "zorde", "one of auto, zorder, hilbert, order. Did you mean"),
        ("partition.expiration-strategy", "never", "values-time"),
    ],
)
def test_a_nonsense_value_is_refused(catalog, key, value, says):
    with pytest.raises(InvalidInputError, match=says):
        catalog.create_table("db.t", {"k": "INT"}, options={key: value})
    catalog.create_table("db.t", {"k": "INT"})
    with pytest.raises(InvalidInputError, match=says):
        catalog.alter_table("db.t", [SetOption(key, value)])


@pytest.mark.parametrize("value", ["yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ss", "dd/MM/yy"])
def test_formats_of_times_are_taken(catalog, value):
    options = {"partition.timestamp-formatter": value, "partition.timestamp-pattern": "$dt $h"}
    catalog.create_table("db.t", {"k": "INT"}, options=options)
