from __future__ import annotations

from types import MappingProxyType

import pytest

from tidelake.codec.binary_row import serialize_row
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options
from tidelake.scan import ReadContext, Split
from tidelake.spark.halves import OverlayRule, part
from tidelake.telemetry import Env
from tidelake.types import DataField, TableSchema, parse_type

RULE = OverlayRule(base_rows_min=100, base_share_min=4, newer_rows_max=30)


def context_of(key_type="BIGINT NOT NULL", **options):
    text = {key.replace("_", "."): value for key, value in options.items()}
    schema = TableSchema(
        0,
        tuple(
            DataField(i, name, parse_type(t))
            for i, (name, t) in enumerate([("k", key_type), ("v", "STRING"), ("s", "INT")])
        ),
        highest_field_id=2,
        primary_keys=("k",),
        options=MappingProxyType(text),
    )
    return ReadContext(
        MemoryFileIO(), TablePaths.of("/w/t", schema), schema, Options.parse(text), Env.seeded(1),
        MappingProxyType({0: schema}),
    )  # fmt: skip


def run_of(name, rows, sequences, *, deletes=0, suffix=".parquet"):
    low, high = sequences
    return (
        DataFileMeta(
            name + suffix, 10, rows, b"", b"", EMPTY_STATS, EMPTY_STATS, low, high, schema_id=0,
            level=0, delete_row_count=deletes,
        ),
    )  # fmt: skip


def split_of(*sections):
    return Split(7, serialize_row((), ()), 0, 1, tuple(sections), raw=False)


def parted(*sections, context=None, columns=("v",), rule=RULE):
    """Names of the files in each part; of merged ones section by section, run by run."""
    context = context or context_of()
    halves = part(
        context, [split_of(*sections)], context.fields(columns), case_sensitive=False, rule=rule
    )

    def names(groups):
        return [p.rsplit("/", 1)[1][: -len(".parquet")] for g in groups for p in g.paths]

    merged = [
        [[f.file_name[: -len(".parquet")] for f in run] for run in section]
        for split in halves.merged
        for section in split.sections
    ]
    return names(halves.plain), names(halves.base), names(halves.newer_keys), merged


BASE = run_of("base", 100, (0, 99))
ONE = run_of("one", 10, (100, 109), deletes=3)
TWO = run_of("two", 10, (110, 119))


def test_a_large_run_under_one_newer_run_needs_no_merge():
    assert parted((BASE, ONE)) == (["one"], ["base"], ["one"], [])


def test_several_newer_runs_are_merged_by_themselves():
    assert parted((BASE, ONE, TWO)) == ([], ["base"], ["one", "two"], [[["one"], ["two"]]])


def test_a_run_alone_is_native_and_its_deletes_are_left_out():
    context = context_of()
    halves = part(context, [split_of((ONE,), (TWO,))], context.fields(("v",)), case_sensitive=False)
    assert [(len(g.paths), g.live_only) for g in halves.plain] == [(1, True), (1, False)]


def test_the_base_is_read_with_its_key():
    context = context_of()
    halves = part(
        context, [split_of((BASE, TWO))], context.fields(("v",)), case_sensitive=False, rule=RULE
    )
    assert [f.name for f in halves.base[0].source] == ["v", "k"]
    assert [f.name for f in halves.newer_keys[0].source] == ["k"]


@pytest.mark.parametrize(
    "runs",
    [
        (run_of("small", 99, (0, 98)), ONE),
        (BASE, run_of("wide", 26, (100, 125))),
        (run_of("deleting", 100, (0, 99), deletes=1), ONE),
        (run_of("unknown", 100, (0, 99), deletes=None), ONE),
        (BASE, run_of("interleaved", 10, (99, 108))),
        (run_of("_hidden", 100, (0, 99)), ONE),
        (BASE, run_of("_hidden", 10, (100, 109))),
    ],
    ids=["small", "wide", "deleting", "unknown", "interleaved", "hidden-base", "hidden-newer"],
)
def test_other_sections_are_merged_whole(runs):
    names = [[f.file_name[: -len(".parquet")] for f in run] for run in runs]
    assert parted(runs) == ([], [], [], [names])


def test_the_number_of_broadcast_keys_is_bounded():
    sections = [(BASE, run_of(f"n{i}", 12, (200, 211))) for i in range(3)]
    plain, base, _, merged = parted(*sections)
    assert (len(plain), len(base), len(merged)) == (2, 2, 1)


@pytest.mark.parametrize(
    "context",
    [
        context_of(sequence_field="s"),
        context_of("DOUBLE NOT NULL"),
        context_of(**{"ignore-delete": "true"}),
    ],
    ids=["sequence field", "float key", "ignored deletes"],
)
def test_tables_where_the_newest_row_need_not_win_are_merged(context):
    assert parted((BASE, ONE), context=context) == ([], [], [], [[["base"], ["one"]]])
