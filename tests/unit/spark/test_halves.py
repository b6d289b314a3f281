from __future__ import annotations

from types import MappingProxyType

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.spark.halves import part
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


def run_of(*names, deletes=0, suffix=".parquet"):
    return tuple(
        DataFileMeta(
            name + suffix, 10, 5, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 4, schema_id=0, level=0,
            delete_row_count=deletes,
        )
        for name in names
    )  # fmt: skip


def parted(*sections, raw=False):
    split = Split(7, serialize_row((), ()), 0, 1, tuple(sections), raw=raw)
    halves = part(CONTEXT, [split], SCHEMA.fields[1:], case_sensitive=False)
    native = {
        (path.rsplit("/", 1)[1].removesuffix(".parquet"), group.live_only)
        for group in halves.native
        for path in group.paths
    }
    merged = [
        [[f.file_name.removesuffix(".parquet") for f in run] for run in section]
        for left in halves.merged
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
