"""Tags, rollback and system tables: of one table Java 1.3.1 and we leave the same files."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake
from interop.cells import difference, table_cells
from tidelake.maintenance import call
from tidelake.table.bucketing import dynamic_buckets

pytestmark = pytest.mark.oracle

COLUMNS = [["k", "BIGINT NOT NULL"], ["v", "STRING"], ["t", "TIMESTAMP(3)"]]
KINDS = {
    "keyed": (["k"], {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}),
    "dynamic": (["k"], {"bucket": "-1"}),
    "marked": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "logged": (["k"], {"bucket": "1", "changelog-producer": "input"}),
    "appended": ([], {}),
}
LATER = {
    "snapshots": {"next_row_id", "operation", "writer_version"},
    "files": {"write_cols"},
    "manifests": {"min_row_id", "max_row_id"},
    "partitions": {"created_at", "created_by", "updated_by", "options", "total_buckets", "done"},
}
"""Columns that system tables of Java 2.1 have beyond those of 1.3.1, and of ours."""
SYSTEM_TABLES = [
    "snapshots",
    "schemas",
    "options",
    "manifests",
    "files",
    "partitions",
    "buckets",
    "tags",
    "branches",
    "consumers",
    "audit_log",
    "ro",
    "aggregation_fields",
    "statistics",
    "table_indexes",
]


def opened(path: Path):
    return tidelake.open(path.parents[1]).table(f"db.{path.name}")


def made(peer, path: Path, kind: str, commits: int = 5):
    """A table that Java and we wrote in turns; the newest snapshot's id."""
    keys, options = KINDS[kind]
    peer.do("create", path, columns=COLUMNS, primary_keys=keys, partition_keys=[], options=options)
    for number in range(commits):
        if number % 2:
            opened(path).write([{"k": k, "v": f"t{number}", "t": None} for k in (number, 1)])
        else:
            rows = [["+I", str(k), f"s:j{number}", None] for k in (number, 1)]
            peer.do("write", path, rows=rows)
    return opened(path).latest_snapshot_id


def copied(path: Path, to: Path) -> Path:
    target = to / "db.db" / path.name
    shutil.copytree(path, target)
    return target


def files(path: Path) -> set[str]:
    """All files but hints' contents; empty directories do not count."""
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


def hints(path: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in (path / "snapshot").iterdir() if p.name.isupper()}


def check_same(peer, ours: Path, java: Path) -> None:
    assert files(ours) == files(java)
    assert hints(ours) == hints(java)
    found = opened(ours).to_arrow()
    for place in (ours, java):
        columns, rows = peer.read(place)
        assert difference(rows, table_cells(found), columns) is None


def check_goes_on(peer, path: Path) -> None:
    """Java commits to what we left, and we on top of that."""
    before = opened(path).latest_snapshot_id
    after = peer.do("write", path, rows=[["+I", "77", "s:java", None]])
    assert after > before
    opened(path).write([{"k": 78, "v": "ours", "t": None}])
    columns, rows = peer.read(path)
    found = opened(path).to_arrow()
    assert difference(rows, table_cells(found), columns) is None
    assert {77, 78} <= set(found["k"].to_pylist())


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rollback_leaves_what_java_leaves(peer, tmp_path, kind):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, kind)
    peer.do("version", source, do="create_tag", name="two", snapshot=2)
    peer.do("version", source, do="create_tag", name="late", snapshot=last)
    for number, target in enumerate(({"snapshot": 2}, {"name": "two"}, {"snapshot": last})):
        java = copied(source, tmp_path / f"java{number}")
        ours = copied(source, tmp_path / f"ours{number}")
        peer.do("version", java, do="rollback", **target)
        done = opened(ours).rollback_to(target.get("snapshot", target.get("name")))  # type: ignore[attr-defined]
        assert (done.previous_snapshot_id, done.snapshot_id) == (last, target.get("snapshot", 2))  # type: ignore[attr-defined]
        check_same(peer, ours, java)
        check_goes_on(peer, ours)


def test_a_rollback_to_a_tag_of_an_expired_snapshot_leaves_what_java_leaves(peer, tmp_path):
    source = tmp_path / "made/db.db/t"
    made(peer, source, "keyed")
    for name, snapshot in (("two", 2), ("three", 3)):
        peer.do("version", source, do="create_tag", name=name, snapshot=snapshot)
    peer.do("version", source, do="expire")
    assert opened(source).history().num_rows == 1
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    peer.do("version", java, do="rollback", name="two")
    opened(ours).rollback_to("two")
    check_same(peer, ours, java)
    document = [json.loads((p / "snapshot/snapshot-2").read_text()) for p in (ours, java)]
    assert all("tagCreateTime" not in d for d in document)
    assert [d["deltaManifestList"] for d in document] == [document[0]["deltaManifestList"]] * 2
    check_goes_on(peer, ours)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["keyed", "logged", "appended"])
def test_changes_are_read_when_java_has_expired_their_snapshots(peer, tmp_path, kind):
    """By changelogs that outlive their snapshots; without a producer, by the rows as written."""
    path = tmp_path / "made/db.db/t"
    last = made(peer, path, kind)
    table = opened(path)
    told = [table.changes(start, mode="auto").to_pylist() for start in range(last)]
    assert len(told[0]) >= 9
    peer.do("version", path, do="expire", keepsChangelogs=True)
    table = opened(path)
    assert table.history().num_rows == 1
    assert (path / f"changelog/changelog-{last - 1}").exists()
    assert [table.changes(start, mode="auto").to_pylist() for start in range(last)] == told


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_tag_takes_the_files_with_it_that_it_takes_in_java(peer, tmp_path, kind):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, kind)
    for snapshot in range(1, last):
        peer.do("version", source, do="create_tag", name=f"s{snapshot}", snapshot=snapshot)
    peer.do("version", source, do="create_tag", name="again", snapshot=1)
    peer.do("version", source, do="compact_manifest")
    peer.do("compact", source, full=True)
    peer.do("version", source, do="expire")
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    order = ["again", "s2", *(f"s{n}" for n in range(last - 1, 2, -1)), "s1"]
    for name in order:
        peer.do("version", java, do="delete_tag", name=name)
        opened(ours).tags.delete(name)
        assert files(ours) == files(java), name
    check_same(peer, ours, java)
    assert len(files(source)) > len(files(ours))
    check_goes_on(peer, ours)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_purge_leaves_what_java_leaves(peer, tmp_path, kind):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, kind)
    for snapshot in (1, last):
        peer.do("version", source, do="create_tag", name=f"s{snapshot}", snapshot=snapshot)
    peer.do("version", source, do="consumer", name="c", snapshot=1)
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    assert peer.do("version", java, do="purge") == last + 1
    foreseen = opened(ours).maintenance.purge_files(dry_run=True)
    assert files(ours) == files(source)
    before = len(files(ours))
    assert opened(ours).maintenance.purge_files() == foreseen
    # a snapshot, two lists and the manifest of its DELETEs came
    assert len(files(ours)) == before - foreseen.removed_files - last - 2 - 1 + 4
    # of a table that had index files Java names an index manifest without entries, and we none
    theirs = [path for path in files(java) if "index-manifest" not in path]
    assert sorted(map(_without_name, files(ours))) == sorted(map(_without_name, theirs))
    assert hints(ours) == hints(java)
    assert opened(ours).count() == 0
    check_goes_on(peer, ours)


def _without_name(path: str) -> str:
    """Paths of files that both engines name by themselves, up to the unique part."""
    return re.sub(r"-[0-9a-f]{8}-[0-9a-f-]{27}-\d+", "-*", path)


def test_tags_are_made_renamed_and_replaced_as_in_java(peer, tmp_path):
    source = tmp_path / "made/db.db/t"
    made(peer, source, "appended", 3)
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    table = opened(ours)
    for name, snapshot in (("a", 1), ("b", 2)):
        peer.do("version", java, do="create_tag", name=name, snapshot=snapshot)
        table.tags.create(name, snapshot_id=snapshot, time_retained="1 h")
    peer.do("version", java, do="rename_tag", name="a", to="c")
    table.tags.rename("a", "c")
    peer.do("version", java, do="replace_tag", name="b", snapshot=3)
    table.tags.replace("b", snapshot_id=3)
    check_same(peer, ours, java)
    columns, rows = peer.read(java, system="tags")
    _, ours_by_java = peer.read(ours, system="tags")
    shown = [columns.index(n) for n in ("tag_name", "snapshot_id", "time_retained")]
    assert sorted([[r[i] for i in shown] for r in rows]) == sorted(
        [[r[i] for i in shown] for r in ours_by_java]
    )
    assert {r[shown[0]]: r[shown[2]] for r in rows} == {"s:c": "s:PT1H", "s:b": None}


def test_merged_manifests_are_read_by_java(peer, tmp_path):
    source = tmp_path / "made/db.db/t"
    last = made(peer, source, "keyed")
    java, ours = copied(source, tmp_path / "java"), copied(source, tmp_path / "ours")
    assert peer.do("version", java, do="compact_manifest") == last + 1
    catalog = tidelake.open(ours.parents[1])
    call(catalog, "compact_manifest", ["db.t"])
    assert opened(ours).latest_snapshot_id == last + 1
    shown = ["commit_kind", "total_record_count", "delta_record_count"]
    if peer.version == "java-1.3":  # 2.1 says nothing, where there is none
        shown.append("changelog_record_count")
    newest = [opened(p).history().select(shown).to_pylist()[-1] for p in (ours, java)]
    assert newest[0] == newest[1]
    live = [peer.read(p, system="manifests") for p in (ours, java)]
    picked = [live[0][0].index(n) for n in ("num_added_files", "num_deleted_files")]
    assert [[r[i] for i in picked] for r in live[0][1]] == [
        [r[i] for i in picked] for r in live[1][1]
    ]
    columns, rows = peer.read(ours)
    assert difference(rows, table_cells(opened(ours).to_arrow()), columns) is None
    assert peer.do("version", ours, do="compact_manifest") == last + 1  # nothing is left to merge
    call(tidelake.open(java.parents[1]), "compact_manifest", ["db.t"])
    assert opened(java).latest_snapshot_id == last + 1
    check_goes_on(peer, ours)


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", KINDS)
def test_system_tables_show_what_java_shows(peer, tmp_path, kind):
    path = tmp_path / "made/db.db/t"
    last = made(peer, path, kind)
    opened(path).tags.create("ours", snapshot_id=1, time_retained="90 min")
    peer.do("version", path, do="create_tag", name="java", snapshot=last)
    peer.do("version", path, do="branch", name="b1", tag="java")
    peer.do("version", path, do="branch", name="a-2", tag="ours")
    peer.do("version", path, do="consumer", name="c.1", snapshot=2)
    peer.do("version", path, do="consumer", name="other", snapshot=last)
    peer.do("version", path, do="analyze")
    opened(path).write([{"k": 5, "v": "inherits", "t": None}])
    empty = set()
    for name in SYSTEM_TABLES:
        columns, rows = peer.read(path, system=name)
        if name == "tags":  # of a TIMESTAMP(3) column Java gives nanoseconds
            at = columns.index("create_time")
            rows = [(*r[:at], r[at][:-6] + "0" * 6, *r[at + 1 :]) for r in rows]
        found = opened(path).system_table(name).to_arrow()
        later = set(columns) - set(found.column_names)
        assert later <= (LATER.get(name, set()) if peer.version != "java-1.3" else set()), name
        kept = [at for at, column in enumerate(columns) if column not in later]
        columns = [columns[at] for at in kept]
        rows = [tuple(row[at] for at in kept) for row in rows]
        compared = found.select(columns)
        assert [c for c in found.column_names if c in columns] == columns, name
        assert difference(rows, table_cells(compared), columns) is None, name
        if not rows:
            empty.add(name)
    none = {
        "table_indexes": kind in ("keyed", "logged", "appended"),
        "options": kind == "appended",
    }
    assert empty - {"ro"} == {name for name, is_empty in none.items() if is_empty}


def test_statistics_of_ours_are_read_by_java(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    types = {
        "k": "BIGINT NOT NULL",
        "b": "BOOLEAN",
        "i": "TINYINT",
        "f": "FLOAT",
        "g": "DOUBLE",
        "d": "DECIMAL(20, 3)",
        "s": "STRING",
        "x": "BYTES",
        "day": "DATE",
        "t": "TIMESTAMP(0)",
        "u": "TIMESTAMP(3)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "n": "INT",
    }
    peer.do("create", path, columns=[list(c) for c in types.items()], primary_keys=["k"],
            partition_keys=[], options={"bucket": "1"})  # fmt: skip
    columns = {
        "k": [1, 2, 1],
        "b": [False, True, True],
        "i": [-128, 127, 5],
        "f": [0.1, -1e20, 3.0],
        "g": [1e-300, 2.5, float("nan")],
        "d": [decimal.Decimal("-0.001"), None, decimal.Decimal(0)],
        "s": ["é", "", "zz"],
        "x": [b"a", b"abc", None],
        "day": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
        "t": [dt.datetime(1969, 12, 31, 23, 59, 58), dt.datetime(2024, 1, 1), None],
        "u": [None, dt.datetime(2001, 9, 9, 1, 46, 40, 7000), None],
        "z": [dt.datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)] * 3,
        "n": [None] * 3,
    }
    table = opened(path)
    table.write(pa.table({n: pa.array(v, table.schema.field(n).type) for n, v in columns.items()}))
    found = table.maintenance.analyze()
    head, _, shown = peer.statistics(path).partition(f" {found.size_bytes} ")
    assert head == "1 0 2"  # the last row replaced the first
    assert shown.rstrip(";").split(";") == [
        "b 1 1 true true 0 1 1",
        "d 5 1 0.000 0.000 1 16 16",
        "day 8 1 19782 19782 1 4 4",
        "f 3 2 -1.0E20 3.0 0 4 4",
        "g 4 2 2.5 NaN 0 8 8",
        "i 2 2 5 127 0 1 1",
        "k 0 2 1 2 0 8 8",
        "n 12 0 - - 2 4 4",
        "s 6 2 - - 0 1 2",
        "t 9 1 2024-01-01T00:00 2024-01-01T00:00 1 8 8",
        "u 10 1 2001-09-09T01:46:40.007 2001-09-09T01:46:40.007 1 8 8",
        "x 7 1 - - 1 3 3",
        "z 11 1 2024-01-01T00:00:00.000005 2024-01-01T00:00:00.000005 0 8 8",
    ]
    rows = [["+I", "7", *[None] * 12]]
    assert peer.do("write", path, rows=rows) == 3
    assert peer.statistics(path).startswith("1 0 2 ")  # Java inherits them
    assert opened(path).system_table("statistics").count() == 1


def test_a_turn_beside_the_schemas_is_passed_over(peer, tmp_path):
    path = tmp_path / "made/db.db/t"
    made(peer, path, "keyed")
    turn = path / "schema/turn-9999999999999-0123456789abcdef"
    turn.write_text("{}")
    check_goes_on(peer, path)
    assert turn.exists()


def test_java_takes_sorted_hashes_of_dynamic_buckets_as_its_own(peer, tmp_path, monkeypatch):
    monkeypatch.setattr(dynamic_buckets, "SORTED_MIN", 2)
    path = tmp_path / "db.db/t"
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "6"}
    peer.do("create", path, columns=COLUMNS, primary_keys=["k"], partition_keys=[], options=options)
    opened(path).write([{"k": k, "v": "ours", "t": None} for k in range(10)])
    names = [p.name for p in (path / "index").iterdir()]
    assert sorted(name[-9:] for name in names) == ["-sorted-4", "-sorted-6"]
    peer.do("write", path, rows=[["+I", str(k), "s:java", None] for k in (3, 8, 40)])
    opened(path).write([{"k": k, "v": "late", "t": None} for k in (3, 40, 50)])
    columns, rows = peer.read(path)
    found = opened(path).to_arrow()
    assert difference(rows, table_cells(found), columns) is None
    assert sorted(found["k"].to_pylist()) == [*range(10), 40, 50]
    buckets = opened(path).system_table("buckets").to_arrow()["bucket"].to_pylist()
    assert sorted(buckets) == [0, 1]
    check_goes_on(peer, path)
    peer.do("version", path, do="expire")
    assert opened(path).history().num_rows == 1
    named = opened(path).system_table("table_indexes").to_arrow()["file_name"].to_pylist()
    assert sorted(p.name for p in (path / "index").iterdir()) == sorted(named)
