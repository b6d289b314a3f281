"""A job commits the same, whether this process runs its tasks or Spark does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from proving.fsck import check_table

import tidelake
from tidelake.options import declared
from tidelake.spark.write.postpone_compaction import SparkMover
from tidelake.spark.write.runner import SparkRunner
from tidelake.table.job.plan import HERE
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.postpone_compaction import compact_postponed
from tidelake.table.jobs.table_compaction import compact_table
from tidelake.table.rowlevel.append_change import change_rows
from tidelake.table.rowlevel.assignments import Assignments
from tidelake.table.write.transaction import WriteTransaction
from tidelake.types.predicate import bind, parse_filter

TASKS = 2
COLUMNS = {"p": "STRING", "k": "BIGINT", "v": "BIGINT", "s": "STRING"}
LOOKUP, FULL = ({"changelog-producer": name} for name in ("lookup", "full-compaction"))
MARKS = {"deletion-vectors.enabled": "true"}
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
KEYED = {
    "deduplicate": {},
    "deduplicate, input": {"changelog-producer": "input"},
    "deduplicate, lookup": LOOKUP,
    "deduplicate, full-compaction": FULL,
    "deduplicate, vectors": MARKS,
    "deduplicate, vectors and lookup": {**MARKS, **LOOKUP},
    "by sequence": {"sequence.field": "v", **LOOKUP},
    "partial-update": {"merge-engine": "partial-update", **LOOKUP},
    "aggregation": {**SUMS, **FULL},
    "aggregation, vectors": {**SUMS, **MARKS},
    "first-row": {"merge-engine": "first-row", **LOOKUP},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "9"},
    "ORC": {"file.format": "orc"},
}
APPEND = {
    "rewritten": {},
    "marked": MARKS,
    "in buckets": {"bucket": "2", "bucket-key": "k"},
    "in buckets, marked": {"bucket": "2", "bucket-key": "k", **MARKS},
}
POSTPONED = {"": {}, "lookup": LOOKUP, "sums": {**SUMS, **FULL}}
OF_FILES = ("partition", "bucket", "level", "record_count", "min_key", "max_key")
OF_SNAPSHOTS = (
    "commit_kind",
    "total_record_count",
    "delta_record_count",
    "changelog_record_count",
)
IN_BOTH = ("here", "on_spark")


@pytest.fixture
def runners(spark):
    return HERE, SparkRunner(spark, TASKS)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


def pair(catalog, options, keys=(), commits=4):
    """The same table twice."""
    tables = []
    for name in IN_BOTH:
        given = {"write-only": "true", **({"bucket": "2"} if keys else {}), **options}
        table = catalog.create_table(
            f"{name}.t", COLUMNS, primary_keys=list(keys), partition_keys=["p"], options=given
        )
        for n in range(commits):
            rows = [
                {"p": p, "k": k, "v": k * 7 + n, "s": f"{n} {k}"}
                for p in "abc"
                for k in range(n * 3, 20 + n * 5)
            ]
            table.write(rows)
        tables.append(table)
    return tables


def commits(table, *, files=True):
    """All that a job leaves, without names and times."""
    rows = table.to_arrow().sort_by([(name, "ascending") for name in COLUMNS])
    found = [rows.to_pylist(), table.history().select(OF_SNAPSHOTS).to_pylist()]
    if table.options.get(declared.CHANGELOG_PRODUCER) != "none":
        changes = table.changes(0, mode="changelog").to_pylist()
        found.append(sorted(map(repr, changes)))
    if files:
        listed = table.system_table("files").to_arrow().select(OF_FILES).to_pylist()
        found.append(sorted(map(repr, listed)))
    check_table(table.handle.fileio, table.paths.location)
    return found


def both(tables, runners, job, *, files=True):
    """Each runner does the job on its table; the results and the tables are equal."""
    done = [job(table, runner) for table, runner in zip(tables, runners, strict=True)]
    assert done[0].snapshot_ids
    if not files:
        done = [replace(result, files=0, bytes=0) for result in done]
    assert done[0] == done[1]
    here, on_spark = (commits(table, files=files) for table in tables)
    assert here == on_spark
    return done[0]


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("full", [True, False])
def test_a_compaction_of_a_keyed_table(catalog, runners, kind, full):
    few = {"num-sorted-run.compaction-trigger": "2"}
    tables = pair(catalog, {**few, **KEYED[kind]}, keys=["p", "k"])
    both(tables, runners, lambda t, r: compact_table(t.handle, Chosen(), full=full, runner=r))


@pytest.mark.parametrize("kind", APPEND)
def test_a_compaction_of_an_append_table(catalog, runners, kind):
    tables = pair(catalog, {"compaction.min.file-num": "2", **APPEND[kind]})
    if "marked" in kind:
        for table in tables:
            table.delete("k < 9")
    both(tables, runners, lambda t, r: compact_table(t.handle, Chosen(), full=True, runner=r))


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", POSTPONED)
@pytest.mark.parametrize("full", [True, False])
def test_rows_that_wait_get_their_buckets_in_one_commit(spark, catalog, runners, kind, full):
    options = {"bucket": "-2", "postpone.default-bucket-num": "3", **POSTPONED[kind]}
    tables = pair(catalog, options, keys=["p", "k"])

    def job(table, runner):
        move = None if runner is HERE else SparkMover(spark, TASKS)
        return compact_postponed(table.handle, Chosen(), full=full, runner=runner, move=move)

    done = both(tables, runners, job)
    assert len(done.snapshot_ids) == 1
    assert {len(job(t, r).snapshot_ids) for t, r in zip(tables, runners, strict=True)} == {0}


def test_buckets_without_new_rows_are_compacted_in_the_commit_of_those_with_some(
    spark, catalog, runners
):
    options = {"bucket": "-2", "postpone.default-bucket-num": "2"}
    tables = pair(catalog, options, keys=["p", "k"], commits=1)
    for table in tables:
        table.compact()
        table.write([{"p": p, "k": k, "v": -k, "s": "b"} for p in "ab" for k in range(9)])
        table.compact()
        table.write([{"p": "a", "k": k, "v": 0, "s": "a"} for k in range(5)])

    def job(table, runner):
        move = None if runner is HERE else SparkMover(spark, TASKS)
        return compact_postponed(table.handle, Chosen(), full=True, runner=runner, move=move)

    done = both(tables, runners, job)
    assert len(done.snapshot_ids) == 1
    for table in tables:
        files = table.system_table("files").to_arrow().select(["partition", "bucket"])
        assert len(files) == len(set(map(str, files.to_pylist())))  # one in each bucket


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", APPEND)
@pytest.mark.parametrize("new_values", [None, {"v": -1}], ids=["delete", "update"])
def test_a_change_of_rows_of_an_append_table(catalog, runners, kind, new_values):
    """Rows of one share are in one new file, so the files may differ, and the rows may not."""
    tables = pair(catalog, APPEND[kind])
    fields = tables[0].handle.schema.fields
    predicate = bind(parse_filter("k > 4 AND k < 12"), fields)

    def job(table, runner):
        assignments = None if new_values is None else Assignments.of(table.handle, new_values)
        transaction = WriteTransaction(table.handle)
        return change_rows(transaction, predicate, assignments, runner=runner)

    both(tables, runners, job, files=False)
