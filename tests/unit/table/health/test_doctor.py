"""Each finding goes when its remedy has run, and leaves what was predicted."""

from __future__ import annotations

import os
import random
import re

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.maintenance import call
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.table.health import file_checks, log_checks

DAY = 86_400_000
COLUMNS = pa.schema({"p": pa.int32(), "k": pa.int64(), "v": pa.string()})


def rows(start, count=10, p=0):
    return [{"p": p, "k": k, "v": f"v{k % 7}"} for k in range(start, start + count)]


def appended(catalog, **options):
    return catalog.create_table("db.t", COLUMNS, options=options)


def keyed(catalog, **options):
    return catalog.create_table(
        "db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", **options}
    )


def small_files(catalog, monkeypatch):
    table = appended(catalog)
    for n in range(12):
        table.write(rows(10 * n))
    return table


def small_files_in_buckets(catalog, monkeypatch):
    table = appended(catalog, **{"bucket": "2", "bucket-key": "k", "write-only": "true"})
    for n in range(5):
        table.write(rows(10 * n))
    return table


def too_many_runs(catalog, monkeypatch):
    table = keyed(catalog, **{"write-only": "true", "bucket": "2"})
    for n in range(5):
        table.write(rows(10 * n))
    table.compact(full=True)
    for n in range(9):
        table.write(rows(n, 3))
    return table


def deleted_rows(catalog, monkeypatch):
    table = appended(catalog, **{"deletion-vectors.enabled": "true"})
    table.write(rows(0, 100))
    table.delete("k < 40")
    return table


def deleted_keys(catalog, monkeypatch):
    table = keyed(catalog)
    table.write(rows(0, 100))
    table.write(rows(0, 60), row_kinds=["-D"] * 60)
    return table


def large_buckets(catalog, monkeypatch):
    monkeypatch.setattr(file_checks, "BUCKET_BYTES_MAX", 150_000)
    monkeypatch.setattr(file_checks, "BUCKET_BYTES_WANTED", 60_000)
    table = keyed(catalog)
    draw = random.Random(1)
    table.write([{"p": 0, "k": k, "v": f"{draw.getrandbits(128):x}"} for k in range(20_000)])
    return table


def many_buckets(catalog, monkeypatch):
    table = keyed(catalog, bucket="16")
    table.write(rows(0, 100))
    return table


def write_tasks(catalog, monkeypatch):
    monkeypatch.setattr(file_checks, "BUCKETS_TIMES_MAX", 1_000)
    table = catalog.create_table(
        "db.t", COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "30"}
    )
    table.write([row for p in range(4) for row in rows(0, 3, p)])
    return table


def overdue_snapshots(catalog, monkeypatch):
    table = appended(catalog, **{"write-only": "true", "snapshot.time-retained": "1 ms"})
    for n in range(25):
        table.write(rows(10 * n))
        if n % 5 == 4:
            table.with_options({"snapshot.num-retained.min": "100"}).compact(full=True)
    return table


def silent_consumers(catalog, monkeypatch):
    table = appended(
        catalog, **{"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}
    )
    table.write(rows(0))
    stream = table.stream(start=1, consumer_id="gone")
    next(stream)
    stream.close()
    for n in range(4):
        table.write(rows(10 * n))
    monkeypatch.setattr(log_checks, "SILENT_MS", -1)
    return table


def overdue_tags(catalog, monkeypatch):
    table = appended(catalog)
    table.write(rows(0))
    table.tags.create("short", time_retained="1 ms")
    table.tags.create("long")
    return table


def old_tags(catalog, monkeypatch):
    table = appended(catalog)
    table.write(rows(0))
    table.tags.create("a")
    table.write(rows(10), mode="overwrite")
    table.tags.create("b")
    monkeypatch.setattr(log_checks, "TAG_AGE_MS", -1)
    return table


def loose_manifests(catalog, monkeypatch):
    table = appended(catalog, **{"manifest.merge-min-count": "100"})
    for n in range(6):
        table.write(rows(10 * n))
    monkeypatch.setattr(log_checks, "MANIFESTS_TIMES_MAX", 0.05)
    return table


def no_statistics(catalog, monkeypatch):
    monkeypatch.setattr(log_checks, "ROWS_OF_STATISTICS_MIN", 10)
    table = appended(catalog)
    table.write(rows(0, 50))
    return table


def old_statistics(catalog, monkeypatch):
    table = no_statistics(catalog, monkeypatch)
    table.maintenance.analyze()
    table.write(rows(0, 50))
    return table


def fighting_triggers(catalog, monkeypatch):
    table = keyed(catalog)
    table.write(rows(0))
    table.set_options({"num-sorted-run.stop-trigger": 3})
    return table


def hidden_rows(catalog, monkeypatch):
    given = {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "false"}
    table = keyed(catalog, **given, **{"write-only": "true"})
    table.write(rows(0))
    return table


def nobody_compacts(catalog, monkeypatch):
    table = keyed(catalog, **{"write-only": "true", "num-sorted-run.compaction-trigger": "3"})
    for n in range(4):
        table.write(rows(10 * n))
    table.set_options({"num-sorted-run.compaction-trigger": 5})
    table.write(rows(1))
    table.write(rows(2))
    return table


CASES = {
    small_files: "small_files",
    small_files_in_buckets: "small_files",
    too_many_runs: "too_many_runs",
    deleted_rows: "deleted_rows",
    deleted_keys: "deleted_rows",
    large_buckets: "large_buckets",
    many_buckets: "many_buckets",
    write_tasks: "write_tasks",
    overdue_snapshots: "overdue_snapshots",
    silent_consumers: "silent_consumers",
    overdue_tags: "overdue_tags",
    old_tags: "old_tags",
    loose_manifests: "loose_manifests",
    no_statistics: "no_statistics",
    old_statistics: "old_statistics",
    fighting_triggers: "fighting_options",
    hidden_rows: "fighting_options",
    nobody_compacts: "fighting_options",
}


NO_PROCEDURE = {no_statistics, old_statistics, fighting_triggers, hidden_rows, nobody_compacts}
WAYS = [(case, "python") for case in CASES]
WAYS += [(case, "sql") for case in CASES if case not in NO_PROCEDURE]


def run(table, catalog, remedy, language):
    if language == "python":
        eval(remedy.python, {"table": table})
        return
    name, arguments = re.fullmatch(r"CALL sys\.(\w+)\((.*)\)", remedy.sql).groups()
    call(catalog, name, named=eval(f"dict({arguments.replace(' => ', '=')})"))


@pytest.mark.parametrize(
    ("case", "language"), WAYS, ids=lambda given: getattr(given, "__name__", given)
)
def test_the_remedy_ends_the_finding_as_predicted(catalog, monkeypatch, case, language):
    kind = CASES[case]
    table = case(catalog, monkeypatch)
    before = table.doctor()
    finding = before.of(kind)
    assert finding is not None, before
    assert finding.remedies, "it can be mended"
    for remedy in finding.remedies:
        run(table, catalog, remedy, language)
    after = catalog.table("db.t").doctor()
    assert after.of(kind) is None, after
    for name, forecast in finding.predicted.items():
        assert before.figures[name] == pytest.approx(forecast.before), name
        assert after.figures[name] == pytest.approx(forecast.after, rel=0.1), name
    assert "run: table." in str(before)
    assert finding.facts()["kind"] == kind


def test_orphans_are_looked_for_where_asked(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = appended(catalog)
    table.write(rows(0))
    left = tmp_path / "db.db" / "t" / "bucket-0" / "data-left.parquet"
    left.write_bytes(b"x" * 1_000)
    os.utime(left, (0, 0))
    assert table.doctor().of("orphan_files") is None
    finding = table.doctor(orphans=True).of("orphan_files")
    assert finding.evidence["bytes"] == 1_000
    eval(finding.remedies[0].python, {"table": table})
    after = table.doctor(orphans=True)
    assert after.of("orphan_files") is None
    assert after.figures["orphan_files"] == finding.predicted["orphan_files"].after == 0


def test_skewed_buckets_and_readers_are_told_without_a_remedy(catalog, monkeypatch):
    monkeypatch.setattr(file_checks, "SKEW_BYTES_MIN", 10)
    table = appended(catalog, **{"bucket": "8", "bucket-key": "p"})
    table.write(rows(0, 500))
    skewed = table.doctor().of("skewed_buckets")
    assert "another 'bucket-key'" in skewed.cause
    assert skewed.remedies == ()


def test_a_reader_at_work_is_told_and_not_ended(catalog, monkeypatch):
    table = appended(
        catalog, **{"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}
    )
    table.write(rows(0))
    stream = table.stream(start=1, consumer_id="slow")
    next(stream)
    for n in range(4):
        table.write(rows(10 * n))
    finding = table.doctor().of("readers_hold_snapshots")
    assert "slow from snapshot" in finding.evidence["readers"]
    stream.close()


def test_a_sound_table_and_an_empty_one_are_healthy(catalog):
    table = keyed(catalog, bucket="2")
    assert table.doctor().is_healthy
    for n in range(3):
        table.write(rows(10 * n))
    assert table.doctor().is_healthy, table.doctor()
    assert repr(table.doctor()) == "<Diagnosis of db.t at snapshot 3: healthy>"
    with pytest.raises(InvalidInputError, match="give 1 or more"):
        table.doctor(parallelism=0)


def test_what_a_name_tells_that_looks_like_a_secret_is_hidden(catalog, monkeypatch):
    table, secret = silent_consumers(catalog, monkeypatch), "s3cr3t-of-mine"
    log = ConsumerLog(table.fileio, table.handle.paths)
    log.record(f"reader-password={secret}", 1)
    finding = table.doctor().of("silent_consumers")
    assert secret not in str(finding)
    assert secret not in str(finding.facts())
    assert finding.evidence["consumers"].startswith("gone, reader-password=")
    assert [call.python for call in finding.remedies] == [
        "table.maintenance.reset_consumer('gone')"
    ]
