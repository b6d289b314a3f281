from __future__ import annotations

import dataclasses
from types import MappingProxyType

import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.spark.read.native_split import MaskRule, native_and_merged
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type

SCHEMA = TableSchema(
    0,
    (DataField(0, "k", parse_type("BIGINT NOT NULL")), DataField(1, "v", parse_type("STRING"))),
    highest_field_id=1,
    primary_keys=("k",),
)
CONTEXT = ReadContext(
    MemoryFileIO(), TablePaths.of("/w/t", SCHEMA), SCHEMA, Options.parse({}), Env.seeded(1),
    MappingProxyType({0: SCHEMA}),
)  # fmt: skip

RULE = MaskRule(rows_min=400, rows_max=1000, times_newer_min=4, files_max=20, columns_min=1)


def run_of(*names, deletes=0, suffix=".parquet", rows=5, sequence=0):
    return tuple(
        DataFileMeta(
            name + suffix, 10 + at, rows, b"", b"", EMPTY_STATS, EMPTY_STATS, sequence,
            sequence + rows - 1, schema_id=0, level=0, delete_row_count=deletes,
        )
        for at, name in enumerate(names)
    )  # fmt: skip


def parts_of(*sections, raw=False, context=CONTEXT, fields=SCHEMA.fields[1:]):
    split = Split(7, serialize_row((), ()), 0, 1, tuple(sections), raw=raw)
    return native_and_merged(context, [split], fields, case_sensitive=False, rule=RULE)


def parted(*sections, raw=False):
    parts = parts_of(*sections, raw=raw)
    native = {
        (path.rsplit("/", 1)[1].removesuffix(".parquet"), group.live_only)
        for group in parts.native
        for path in group.paths
    }
    merged = [
        [[f.file_name.removesuffix(".parquet") for f in run] for run in section]
        for left in parts.merged
        for section in left.sections
    ]
    return native, merged


def test_overlapping_runs_are_merged():
    assert parted((run_of("a"), run_of("b"))) == (set(), [[["a"], ["b"]]])


def test_a_run_alone_is_native_whatever_stands_beside_its_section():
    lone, pair = (run_of("a", "b"),), (run_of("c"), run_of("d"))
    assert parted(lone, pair) == ({("a", False), ("b", False)}, [[["c"], ["d"]]])


def test_deletes_of_a_lone_run_are_left_out_by_their_kind():
    native, merged = parted((run_of("a", deletes=2),), (run_of("b", deletes=None),))
    assert native == {("a", True), ("b", True)}
    assert merged == []


def test_a_lone_run_that_spark_cannot_read_stays_whole():
    section = (run_of("a") + run_of("b", suffix=".orc"),)
    assert parted(section) == (set(), [[["a", "b.orc"]]])


def test_raw_splits_are_native_file_by_file():
    section = (run_of("a") + run_of("b", suffix=".orc"),)
    assert parted(section, raw=True) == ({("a", False)}, [[["b.orc"]]])


def masked(*sections, context=CONTEXT, fields=SCHEMA.fields[1:]):
    """The files of each native scan under newer runs, and all that is left."""
    parts = parts_of(*sections, context=context, fields=fields)
    scans = [
        [[[f.file_name[:-8] for f in run] for run in o.sections[0]] for o in group.masked]
        for group in parts.native
        if group.masked
    ]
    rest = [g.paths for g in parts.native if not g.masked]
    merged = [
        [[f.file_name[:-8] for f in run] for run in section]
        for left in parts.merged
        for section in left.sections
    ]
    return scans, len(rest), merged


def test_a_large_run_is_native_under_the_newer_ones():
    large, newer = run_of("a", "b", rows=200), run_of("c", rows=20, sequence=200)
    assert masked((large, newer)) == ([[[["a"], ["c"]], [["b"], ["c"]]]], 1, [])
    newest = run_of("d", rows=80, sequence=220)
    scans, rest, merged = masked((large, newer, newest))
    assert (scans, rest) == ([[[["a"], ["c"], ["d"]], [["b"], ["c"], ["d"]]]], 0)
    assert merged == [[["c"], ["d"]]]


@pytest.mark.parametrize(
    ("large", "newer"),
    [
        (run_of("a", rows=399), run_of("b", rows=20, sequence=399)),
        (run_of("a", rows=1001), run_of("b", rows=20, sequence=1001)),
        (run_of("a", rows=400), run_of("b", rows=101, sequence=400)),
        (run_of("a", rows=400), run_of("b", rows=20, sequence=399)),
        (run_of("a", rows=400, suffix=".orc"), run_of("b", rows=20, sequence=400)),
        (run_of(*(f"a{i}" for i in range(21)), rows=40), run_of("b", rows=20, sequence=40)),
    ],
    ids=["few rows", "too many rows", "many newer", "no order", "other format", "many files"],
)
def test_a_run_that_is_not_large_or_does_not_lose_is_merged(large, newer):
    assert masked((large, newer))[0] == []


@pytest.mark.parametrize("option", [{"sequence.field": "v"}, {"ignore-delete": "true"}])
def test_rows_whose_winner_the_keys_do_not_tell_are_merged(option):
    schema = dataclasses.replace(SCHEMA, options=MappingProxyType(option))
    context = dataclasses.replace(CONTEXT, schema=schema, options=Options.parse(option))
    section = (run_of("a", rows=400), run_of("b", rows=20, sequence=400))
    assert masked(section, context=context)[0] == []


def test_files_of_one_size_go_to_different_scans():
    sections = [
        (run_of(f"a{i}", rows=200), run_of(f"b{i}", rows=20, sequence=200)) for i in range(3)
    ]
    scans, _, _ = masked(*sections)
    assert scans == [[[[f"a{i}"], [f"b{i}"]]] for i in range(3)]


def test_a_scan_takes_sixteen_files():
    large = run_of(*(f"a{i:02}" for i in range(18)), rows=40)
    scans, _, _ = masked((large, run_of("b", rows=20, sequence=40)))
    assert [len(scan) for scan in scans] == [16, 2]


def test_a_read_of_few_columns_is_merged():
    section = (run_of("a", rows=400), run_of("b", rows=20, sequence=400))
    assert masked(section, fields=())[0] == []


def test_a_file_with_a_deletion_vector_is_the_kernel_s():
    files = run_of("a", "b", "c")
    deletions = {"b.parquet": DeletionRange("/w/t/index/index-1", 1, 24, 2, 33)}
    split = Split(7, serialize_row((), ()), 0, 1, ((files,),), raw=True, deletions=deletions)
    parts = native_and_merged(CONTEXT, [split], SCHEMA.fields[1:], case_sensitive=False, rule=RULE)
    (group,) = parts.native
    assert [path.rsplit("/", 1)[1] for path in group.paths] == ["a.parquet", "c.parquet"]
    (left,) = parts.merged
    assert (left.raw, left.files, left.deletions) == (True, files[1:2], deletions)


def test_a_section_with_a_deletion_vector_is_merged_whole():
    lone, large, newer = run_of("a", "b"), run_of("c", rows=400), run_of("d", sequence=500)
    sections = ((lone,), (large, newer))
    for name, native in (("b.parquet", set()), ("d.parquet", {"a.parquet", "b.parquet"})):
        deletions = {name: DeletionRange("/w/t/index/index-1", 1, 24, 2, 33)}
        split = Split(7, serialize_row((), ()), 0, 1, sections, raw=False, deletions=deletions)
        parts = native_and_merged(
            CONTEXT, [split], SCHEMA.fields[1:], case_sensitive=False, rule=RULE
        )
        assert {p.rsplit("/", 1)[1] for g in parts.native for p in g.paths} == native
        (left,) = parts.merged
        assert left.deletions == deletions
