from __future__ import annotations

import dataclasses
from types import MappingProxyType

import numpy as np
import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.scan.masks import HiddenRows, SectionMasks
from tidelake.spark.read import native_split
from tidelake.spark.read.native_split import native_and_merged
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


def run_of(*names, deletes=0, suffix=".parquet", rows=5, sequence=0, schema_id=0):
    return tuple(
        DataFileMeta(
            name + suffix, 10, rows, b"", b"", EMPTY_STATS, EMPTY_STATS, sequence,
            sequence + rows - 1, schema_id=schema_id, level=0, delete_row_count=deletes,
        )
        for name in names
    )  # fmt: skip


def vector_of(*names):
    where = DeletionRange("/w/t/index/index-1", 1, 24, 2, 33)
    return {f"{name}.parquet": where for name in names}


def first_hidden(sections):
    """Each file hides its first row, but for those of a name with x."""
    hidden = HiddenRows.of(np.arange(5) == 0)
    return [
        SectionMasks(
            {f.file_name: hidden for run in section for f in run if "x" not in f.file_name}
        )
        for _, section in sections
    ]


def parts_of(*sections, raw=False, deletions=None, masks=first_hidden, fields=SCHEMA.fields[1:]):
    split = Split(7, serialize_row((), ()), 0, 1, sections, raw=raw, deletions=deletions or {})
    return native_and_merged(CONTEXT, [split], fields, case_sensitive=False, find_masks=masks)


def parted(*sections, **how):
    """The files that Spark scans as they are or without deletes, those under masks, the rest."""
    parts = parts_of(*sections, **how)
    plain = {
        (path.rsplit("/", 1)[1].removesuffix(".parquet"), group.live_only)
        for group in parts.native
        if not group.masked
        for path in group.paths
    }
    masked = {
        file.path.rsplit("/", 1)[1].removesuffix(".parquet"): file.hides
        for group in parts.native
        for file in group.masked
    }
    merged = [
        [[f.file_name.removesuffix(".parquet") for f in run] for run in section]
        for left in parts.merged
        for section in left.sections
    ]
    return plain, masked, merged


def test_a_run_alone_is_native_whatever_stands_beside_its_section():
    lone, pair = (run_of("a", "b"),), (run_of("c"), run_of("d"))
    found = parted(lone, pair, masks=None)
    assert found == ({("a", False), ("b", False)}, {}, [[["c"], ["d"]]])


def test_runs_are_native_under_masks_and_the_plain_files_of_the_read_in_the_same_scan():
    lone, pair = (run_of("a", "b"),), (run_of("c"), run_of("x"))
    masked = {"a": False, "b": False, "c": True, "x": False}
    assert parted(lone, pair) == (set(), masked, [])


def test_plain_files_are_scanned_apart_where_they_are_the_most():
    lone, pair = (run_of("a", "b", "c"),), (run_of("d"), run_of("e"))
    plain, masked, merged = parted(lone, pair)
    assert plain == {("a", False), ("b", False), ("c", False)}
    assert (masked, merged) == ({"d": True, "e": True}, [])


def test_files_of_which_nothing_is_hidden_are_plain():
    assert parted((run_of("x1"), run_of("x2"))) == ({("x1", False), ("x2", False)}, {}, [])


def test_what_has_no_mask_is_merged():
    pair, other = (run_of("a"), run_of("b")), (run_of("c"), run_of("d"))
    found = parted(pair, other, masks=lambda sections: [None, *first_hidden(sections)[1:]])
    assert found == (set(), {"c": True, "d": True}, [[["a"], ["b"]]])


def test_deletes_of_a_lone_run_are_left_out_by_their_kind():
    plain, masked, merged = parted((run_of("a", deletes=2),), (run_of("b", deletes=None),))
    assert plain == {("a", True), ("b", True)}
    assert (masked, merged) == ({}, [])


def test_a_section_that_spark_cannot_read_stays_whole():
    section = (run_of("a") + run_of("b", suffix=".orc"),)
    assert parted(section) == (set(), {}, [[["a", "b.orc"]]])
    pair = (run_of("a", suffix=".orc"), run_of("b"))
    assert parted(pair) == (set(), {}, [[["a.orc"], ["b"]]])


def test_runs_below_one_that_spark_cannot_read_are_native_under_masks():
    runs = [run_of("a"), run_of("b", sequence=5), run_of("c", suffix=".avro", sequence=10)]
    section = (*runs, run_of("d", sequence=15))
    assert parted(section) == (set(), {"a": True, "b": True}, [[["c.avro"], ["d"]]])


def test_runs_of_one_time_are_not_cut_where_spark_cannot_read_one():
    section = (run_of("a"), run_of("b"), run_of("c", suffix=".avro"))
    assert parted(section) == (set(), {}, [[["a"], ["b"], ["c.avro"]]])


def test_raw_splits_are_native_file_by_file():
    section = (run_of("a") + run_of("b", suffix=".orc"),)
    assert parted(section, raw=True) == ({("a", False)}, {}, [[["b.orc"]]])


def test_a_file_with_a_deletion_vector_is_native_under_a_mask():
    section = (run_of("a", "b", "c"),)
    found = parted(section, raw=True, deletions=vector_of("b"))
    assert found == ({("a", False), ("c", False)}, {"b": True}, [])
    parts = parts_of(section, raw=True, deletions=vector_of("b"), masks=None)
    (left,) = parts.merged
    assert (left.raw, left.files, left.deletions) == (True, section[0][1:2], vector_of("b"))


def test_a_lone_run_with_a_deletion_vector_is_native_under_a_mask():
    assert parted((run_of("a", "b"),), deletions=vector_of("b"))[1] == {"a": True, "b": True}


def test_more_rows_than_a_mask_may_have_are_merged(monkeypatch):
    monkeypatch.setattr(native_split, "MASKED_ROWS_MAX", 12)
    pair, other = (run_of("a"), run_of("b")), (run_of("c"), run_of("d"))
    assert parted(pair, other) == (set(), {"a": True, "b": True}, [[["c"], ["d"]]])


def parts_with(name, text, wanted, *sections):
    """The parts of a read of a table with one column more."""
    field = DataField(2, name, parse_type(text))
    with_it = TableSchema(1, (*SCHEMA.fields, field), highest_field_id=2, primary_keys=("k",))
    context = ReadContext(
        MemoryFileIO(), TablePaths.of("/w/t", with_it), with_it, Options.parse({}), Env.seeded(1),
        MappingProxyType({0: SCHEMA, 1: with_it}),
    )  # fmt: skip
    split = Split(7, serialize_row((), ()), 0, 1, sections, raw=False)
    return native_and_merged(
        context, [split], context.fields(wanted), case_sensitive=False, find_masks=first_hidden
    )


@pytest.mark.parametrize("name", ["_tmp_metadata_row_index", "_First_Word"])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_column_that_a_scan_under_masks_has_itself_keeps_the_merge(name, is_wanted):
    wanted = ("v", name) if is_wanted else ("v",)
    pair = (run_of("a", schema_id=1), run_of("b", schema_id=1))
    parts = parts_with(name, "STRING", wanted, pair)
    assert (parts.native, len(parts.merged)) == ([], 1)
    # nor does a file with such a column join the scan of others
    older, lone = (run_of("c"), run_of("d")), (run_of("e", schema_id=1),)
    parts = parts_with(name, "STRING", ("v",), older, lone)
    assert [[f.path[-9] for f in group.masked] for group in parts.native] == [[], ["c", "d"]]


def test_spark_reads_no_column_of_the_name_of_its_row_index():
    lone = (run_of("a", schema_id=1),)
    parts = parts_with("_tmp_metadata_row_index", "BIGINT", ("k", "_tmp_metadata_row_index"), lone)
    assert (parts.native, len(parts.merged)) == ([], 1)
    assert parts_with("_tmp_metadata_row_index", "BIGINT", ("k",), lone).merged == []


COMBINES = dataclasses.replace(CONTEXT, options=Options.parse({"merge-engine": "aggregation"}))


def shared_rows(*counts):
    """Masks of engines that combine rows: each file hides its first rows, which are merged."""

    def masks(sections):
        found = []
        for _, section in sections:
            files = [f.file_name for run in section for f in run]
            rows = {
                name: HiddenRows.of(np.arange(5) < count)
                for name, count in zip(files, counts, strict=True)
                if count
            }
            found.append(SectionMasks(rows, rows))
        return found

    return masks


def combined(*runs, counts):
    split = Split(7, serialize_row((), ()), 0, 1, (runs,), raw=False)
    return native_and_merged(
        COMBINES, [split], SCHEMA.fields[1:], case_sensitive=False, find_masks=shared_rows(*counts)
    )


def test_rows_whose_keys_several_files_have_are_merged_and_the_others_native():
    parts = combined(run_of("a", "b"), run_of("c"), counts=(2, 0, 1))
    assert {f.path[-9:]: f.hides for g in parts.native for f in g.masked} == {
        "a.parquet": True,
        "b.parquet": False,
        "c.parquet": True,
    }
    assert parts.merged == []
    (part,) = parts.parts
    runs = [[f.file_name for f in run] for run in part.split.sections[0]]
    assert runs == [["a.parquet"], ["c.parquet"]]
    assert {name: list(own.positions()) for name, own in part.rows.items()} == {
        "a.parquet": [0, 1],
        "c.parquet": [0],
    }
    assert part.size_bytes == 4 + 2


def test_where_most_rows_are_merged_all_are():
    parts = combined(run_of("a"), run_of("b"), counts=(3, 3))
    assert (parts.native, parts.parts) == ([], [])
    assert [s.files_count for s in parts.merged] == [2]


def test_of_a_file_that_spark_cannot_read_no_row_counts_among_those_that_are_merged():
    parts = combined(run_of("a"), run_of("b", suffix=".avro"), counts=(1, 3))
    assert [[f.path[-9:] for f in group.masked] for group in parts.native] == [["a.parquet"]]
    assert len(parts.parts) == 1
    assert combined(run_of("a"), run_of("b", suffix=".avro"), counts=(3, 1)).native == []


def test_a_file_that_spark_cannot_read_is_merged_whole_beside_the_keys_it_shares():
    parts = combined(run_of("a"), run_of("b", suffix=".avro"), run_of("c"), counts=(1, 1, 0))
    masked = {f.path[-9:]: f.hides for g in parts.native for f in g.masked}
    assert masked == {"a.parquet": True, "c.parquet": False}
    (part,) = parts.parts
    assert [f.file_name for f in part.split.files] == ["a.parquet", "b.avro"]
    assert list(part.rows) == ["a.parquet"]
