"""Masks against the merge: the rows must be the same, whatever is known and whatever is drawn."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proving.masked_reads import MaskedReader

from tidelake import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from tidelake.catalog import open_catalog
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.merge import MergeSpec
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.scan import SNAPSHOT_EXPIRED
from tidelake.scan.masks import (
    HiddenRows,
    MaskRequest,
    MergedPart,
    file_masks,
    find,
    find_masks,
    merged_part,
    rule,
)
from tidelake.telemetry import Env, Memory
from tidelake.types import DataField, parse_type

DOUBLES = (-0.0, 0.0, math.nan, -1.5, math.inf, 7.0)
KEYS = {
    "number": (("BIGINT NOT NULL",), lambda n: (n,)),
    "text": (("STRING NOT NULL",), lambda n: ("x" * (n % 7) + chr(97 + n % 5) + "\0" * (n % 2),)),
    "two": (("STRING NOT NULL", "INT NOT NULL"), lambda n: ("y" * (n // 5), n % 5)),
    "double": (("DOUBLE NOT NULL",), lambda n: (DOUBLES[n % 6],)),
    "decimal": (("DECIMAL(30, 2) NOT NULL",), lambda n: (Decimal(n - 9),)),
}  # fmt: skip
KINDS = ("+I", "+U", "-U", "-D")
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
REMOVES = {
    "merge-engine": "partial-update",
    "partial-update.remove-record-on-delete": "true",
}


def make_table(key="number", **options):
    types, _ = KEYS[key]
    fields = [DataField(i, f"k{i}", parse_type(text)) for i, text in enumerate(types)]
    fields.append(DataField(len(types), "v", parse_type("INT")))
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
    return catalog.create_table(
        "db.t",
        fields,
        primary_keys=[f"k{i}" for i in range(len(types))],
        options={"bucket": 2, "write-only": "true", **options},
    )


def write(table, key, numbers, kinds=None, value=0):
    schema = table.scan().schema
    keys = [KEYS[key][1](n) for n in numbers]
    columns = [pa.array([k[i] for k in keys], schema.types[i]) for i in range(len(schema) - 1)]
    columns.append(pa.array([value * 1000 + n for n in numbers], pa.int32()))
    table.write(pa.table(columns, names=schema.names), row_kinds=kinds)


def merged(table, **scan):
    return sorted(repr(tuple(row.values())) for row in table.to_arrow(**scan).to_pylist())


def check(reader, table, **scan):
    assert sorted(map(repr, reader.rows(table, **scan))) == merged(table, **scan)


commits = st.lists(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(KINDS)), min_size=1, max_size=12),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(list(KEYS)),
    commits,
    st.sets(st.integers(0, 5)),
    st.sampled_from(
        [
            {},
            {"ignore-delete": "true"},
            {"deletion-vectors.enabled": "true"},
            {"sequence.field": "v"},
            {"sequence.field": "v", "sequence.field.sort-order": "descending"},
            {"merge-engine": "first-row", "ignore-delete": "true"},
            {"merge-engine": "partial-update", "ignore-delete": "true"},
            REMOVES,
            REMOVES | {"changelog-producer": "lookup", "write-only": "false"},
            SUMS,
            SUMS | {"deletion-vectors.enabled": "true", "write-only": "false"},
        ]
    ),
)
def test_rows_are_those_of_the_merge_after_every_commit(key, drawn, compacted, options):
    reader, table = MaskedReader(), make_table(key, **options)
    for number, commit in enumerate(drawn):
        rows = dict(commit)  # one change of a key in a commit
        # by sequence.field a later commit may lose
        write(table, key, list(rows), list(rows.values()), value=number * 7 % 4)
        check(reader, table)
        if number in compacted:
            table.compact(full=number % 2 == 0)
            check(reader, table)
    for snapshot in range(1, (table.latest_snapshot_id or 0) + 1):
        check(reader, table, snapshot_id=snapshot)


def test_masks_are_used_where_they_are_allowed():
    reader, table = MaskedReader(), make_table(bucket="1")
    for number in range(4):
        write(table, "number", range(number, 20, number + 1), value=number)
    check(reader, table)
    assert (reader.masked_count, reader.merged_count) == (1, 0)


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=["", "vectors"])
def test_where_runs_are_of_one_time_the_merge_decides_which_rows_win(monkeypatch, options):
    monkeypatch.setattr(rule, "newer_run_by_run", lambda _: False)
    reader, table = MaskedReader(), make_table("two", bucket="1", **options)
    for number in range(5):
        kinds = [KINDS[n * number % 4] for n in range(number, 30, number + 1)]
        write(table, "two", range(number, 30, number + 1), kinds, value=number)
        if number == 2:
            table.compact(full=True)
        check(reader, table)
        check(reader, table)  # by what is kept
    assert reader.merged_count == 0
    assert reader.masked_count > 4


def test_without_a_cache_rows_are_merged():
    reader, table = MaskedReader(), make_table(bucket="1", **{"read.mask-cache-size": "0"})
    write(table, "number", [1, 2], value=5)
    write(table, "number", [2, 3], value=1)
    check(reader, table)
    assert reader.masked_count == 0
    assert "2 files merged, because of read.mask-cache-size = 0;" in str(table.explain())


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "partial-update", "ignore-delete": "true"}, REMOVES, SUMS],
    ids=["partial-update", "removes", "sums"],
)
def test_of_engines_that_combine_rows_keys_of_several_files_alone_are_merged(options):
    reader, table = MaskedReader(), make_table(bucket="1", **options)
    write(table, "number", range(40), value=5)
    write(table, "number", [2, 3, 50], ["+I", "-D", "+I"], value=1)
    check(reader, table)
    assert (reader.masked_count, reader.merged_count) == (1, 0)
    # an ignored delete is not written, so its key is in one file only
    assert reader.rows_merged == (2 if "ignore-delete" in options else 4)
    write(table, "number", [3, 50, 60], value=3)
    reader.rows_merged = 0
    check(reader, table)
    assert reader.rows_merged == (6 if "ignore-delete" in options else 7)
    check(reader, table, snapshot_id=1)
    check(reader, table, snapshot_id=2)


def test_positions_of_merged_rows_are_made_when_their_file_is_opened(monkeypatch):
    """They take 8 bytes a row, and a section may have hundreds of millions of rows."""
    table = make_table(bucket="1", **SUMS)
    for number in range(3):
        write(table, "number", range(number, 20), value=number)
    context, ((split, section),) = sections_of(table)
    (masks,) = find_masks(context, [(split, section)], MaskedReader().cache)
    part = MergedPart.of(split, section, masks)
    made, given = [], []
    positions = HiddenRows.positions

    def counted(hidden):
        made.append(hidden.rows_count)
        return positions(hidden)

    monkeypatch.setattr(HiddenRows, "positions", counted)
    monkeypatch.setattr(merged_part, "read_split", lambda *_, rows, **__: given.append(rows))
    part.read(context, ("v",), None)
    (rows,) = given
    assert (made, len(rows)) == ([], 3)
    assert sorted(rows) == sorted(f.file_name for run in section for f in run)
    assert rows.get(section[2][0].file_name).tolist() == list(range(18))
    assert rows.get("another") is None
    assert made == [18]


def test_a_delete_of_no_other_rows_is_left_out_under_every_engine():
    for options in ({}, REMOVES, SUMS):
        reader, table = MaskedReader(), make_table(bucket="1", **options)
        write(table, "number", range(0, 20, 2))
        write(table, "number", [4, 5], ["-D", "-D"])
        check(reader, table)
        assert 5 not in table.to_arrow()["k0"].to_pylist()
        write(table, "number", [5, 9], value=3)  # the key of the delete is in two files now
        check(reader, table)
        assert reader.merged_count == 0


def test_the_first_row_is_found_by_runs_and_levels():
    reader, table = MaskedReader(), make_table(bucket="1", **{"merge-engine": "first-row"})
    cache = reader.cache
    write(table, "number", range(0, 20, 2), value=1)
    write(table, "number", range(0, 20, 3), value=2)
    masks, sought = find_counted(table, cache)
    assert sought == [7]  # the keys of the newer run are held, those of the older stream past
    assert [h.hidden_count for h in masks[0].hidden.values()] == [4]
    check(reader, table)
    table.compact(full=True)
    write(table, "number", range(5, 25), value=3)
    write(table, "number", range(25), value=4)
    check(reader, table)
    write(table, "number", [1, 99], value=5)
    assert find_counted(table, cache)[1] == [2]
    check(reader, table)
    for snapshot in range(1, 4):
        check(reader, table, snapshot_id=snapshot)
    assert reader.merged_count == reader.rows_merged == 0
    assert "files scanned under masks of the rows that older ones have" in str(table.explain())


def test_of_one_more_run_under_an_engine_that_combines_only_its_keys_are_held():
    table = make_table(bucket="1", **SUMS)
    reader = MaskedReader(table.scan().masks)
    for rows in (10, 9, 8):
        write(table, "number", range(rows))
    assert find_counted(table, reader.cache)[1] == [9, 8]
    write(table, "number", [4, 20])
    masks, sought = find_counted(table, reader.cache)
    assert sought == [2]
    assert sorted(h.hidden_count for h in masks[0].merged.values()) == [1, 8, 9, 9]
    assert find_counted(table, reader.cache)[1] == []
    check(reader, table)
    assert reader.rows_merged == 27
    assert "whose keys several files have, and these rows merged" in str(table.explain())
    assert "a compaction would merge 27 rows" in str(table.explain())


def test_the_explanation_says_what_spark_scans_and_what_a_compaction_saves():
    table = make_table(bucket="1")
    write(table, "number", range(9))
    write(table, "number", [2, 3])
    text = str(table.explain())
    assert "2 files scanned under masks of the rows that newer ones replace; a" in text
    assert "at most 2 rows" in text
    other = make_table(bucket="1", **{"file.format": "avro"})
    write(other, "number", [1, 2])
    write(other, "number", [1])
    assert "2 files merged, because of files that are not Parquet;" in str(other.explain())


def test_the_explanation_says_where_spark_scans_no_file():
    fields = [
        DataField(0, "k", parse_type("BIGINT NOT NULL")),
        DataField(1, "at", parse_type("TIME(3)")),
        DataField(2, "v", parse_type("INT")),
    ]
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
    options = {"bucket": 1, "write-only": "true"}
    table = catalog.create_table("db.t", fields, primary_keys=["k"], options=options)
    for _ in range(2):
        table.write([{"k": 1, "at": None, "v": 2}])
    assert "merged, because of types that Spark reads otherwise: at;" in str(table.explain())
    assert "2 files scanned under masks" in str(table.explain(columns=["v"]))
    never = table.with_options({"read.native": "never"})
    assert "merged, because of read.native = never;" in str(never.explain(columns=["v"]))


ALTERED = {
    "renamed, and another of its name": (
        RenameColumn("s", "s_old"),
        AddColumn("s", parse_type("BIGINT")),
        SetOption("sequence.field", "s"),
    ),
    "dropped, and another of its name": (DropColumn("s"), AddColumn("s", parse_type("BIGINT"))),
    "retyped: '9' is above '10'": (UpdateColumnType("s", parse_type("STRING")),),
    "retyped: its fraction is lost": (UpdateColumnType("s", parse_type("INT")),),
    "the other direction": (SetOption("sequence.field.sort-order", "descending"),),
    "another column": (SetOption("sequence.field", "v"),),
}


@pytest.mark.parametrize("changes", ALTERED.values(), ids=ALTERED)
def test_a_mask_by_sequences_is_of_the_column_not_of_its_name(changes):
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
    table = catalog.create_table(
        "db.t",
        [
            DataField(0, "k", parse_type("BIGINT NOT NULL")),
            DataField(1, "s", parse_type("DOUBLE")),
            DataField(2, "v", parse_type("INT")),
        ],
        primary_keys=["k"],
        options={"bucket": 1, "write-only": "true", "sequence.field": "s"},
    )
    reader = MaskedReader()
    for sequences, values in (((10.0, 9.5, 3.0), (1, 1, 7)), ((9.0, 9.25, 4.0), (1, 2, 6))):
        v = pa.array(values, pa.int32())
        table.write(pa.table({"k": [0, 1, 2], "s": sequences, "v": v}))
    check(reader, table)
    table.alter(*changes)
    check(reader, table)
    check(reader, table, snapshot_id=1)
    check(reader, table, snapshot_id=2)
    assert reader.merged_count == 0
    fresh = MaskedReader()  # it meets the new schema first
    check(fresh, table)
    check(fresh, table, snapshot_id=2)


def sections_of(table, **scan):
    planned = table.scan(**scan)
    return planned.context, [(s, section) for s in planned.plan.splits for section in s.sections]


def find_counted(table, cache, **scan):
    """Find all masks; the files whose keys are looked up in others."""
    sought = []

    def compute(context, requests):
        for request in requests:
            sought.extend(file.row_count for file in request.held.values())
        return find.masks_here(context, requests)

    context, sections = sections_of(table, **scan)
    return find_masks(context, sections, cache, compute=compute), sought


def test_of_one_more_run_only_its_keys_are_looked_up():
    reader, table = MaskedReader(), make_table(bucket="1")
    cache = reader.cache
    for rows in (10, 9, 8):
        write(table, "number", range(rows))
    assert find_counted(table, cache)[1] == [9, 8]
    assert find_counted(table, cache)[1] == []
    write(table, "number", range(7))
    assert find_counted(table, cache)[1] == [7]
    check(reader, table)
    # an older moment has fewer newer files: its own masks are there still
    assert find_counted(table, cache, snapshot_id=3)[1] == []
    assert find_counted(table, cache, snapshot_id=2)[1] == [9]
    check(reader, table, snapshot_id=2)


def test_a_rollback_brings_replaced_rows_back():
    reader, table = MaskedReader(), make_table(bucket="1")
    write(table, "number", range(10), value=1)
    write(table, "number", [3, 4, 5], ["-D", "+I", "+I"], value=2)
    check(reader, table)
    table.rollback_to(snapshot_id=1)
    check(reader, table)
    write(table, "number", [8], value=3)
    check(reader, table)


def test_key_ranges_that_do_not_meet_are_not_read():
    table = make_table(bucket="1")
    write(table, "number", range(10, 20))
    write(table, "number", [10, 30])
    write(table, "number", range(21, 29))
    masks, sought = find_counted(table, MaskedReader().cache)
    assert sorted(sought) == [2, 8]
    (found,) = masks
    assert [hidden.hidden_count for hidden in found.hidden.values()] == [1, 0]


def test_what_a_mask_is_kept_under_is_short():
    """Of n files whose rows the merge decides, n masks depend on n names."""
    table = make_table(bucket="1", **{"sequence.field": "v"})
    for number in range(12):
        write(table, "number", range(number, 20), value=number)
    context, ((split, section),) = sections_of(table)
    spec = MergeSpec.of(context.schema, context.options)
    masks = MaskRequest.of(context, split, section, spec, MaskedReader().cache).files
    assert len({mask.path for mask in masks}) == 12
    own = max(len(context.paths.data_file(split.partition, split.bucket, m.file)) for m in masks)
    assert max(len(mask.path) for mask in masks) <= own + 50


@pytest.mark.parametrize(
    ("options", "by_vector"),
    [({}, False), (SUMS, True), ({"merge-engine": "first-row"}, True)],
    ids=["newest", "lone", "oldest"],
)
def test_where_older_files_hide_rows_a_mask_is_kept_under_the_vector_of_its_file(
    options, by_vector
):
    """Rows that the vector deletes are not looked up then: under an older vector they may live."""
    table = make_table(bucket="1", **options)
    write(table, "number", range(10))
    write(table, "number", range(5, 15))
    context, ((split, section),) = sections_of(table)
    spec = MergeSpec.of(context.schema, context.options)
    newer = section[1][0].file_name
    where = DeletionRange("/w/db/t/index/index-1", 1, 24, 2, 33)

    def kept_under(deletions):
        of_vectors = dataclasses.replace(split, deletions=deletions)
        request = MaskRequest.of(context, of_vectors, section, spec, MaskedReader().cache)
        return {mask.file.file_name: mask.path for mask in request.files}

    without, with_vector = kept_under({}), kept_under({newer: where})
    assert without.keys() == with_vector.keys()
    changed = {name for name in without if without[name] != with_vector[name]}
    assert changed == ({newer} if by_vector else set())


def test_masks_with_vectors_are_the_same_objects_for_every_read():
    table = make_table(bucket="1", **{"deletion-vectors.enabled": "true"})
    write(table, "number", range(20))
    table.compact(full=True)
    write(table, "number", range(5))
    table.compact()
    write(table, "number", range(3, 9))
    cache = MaskedReader().cache
    first, again = (
        [m.hidden for m in found if m and m.hidden]
        for found in (find_masks(*sections_of(table), cache) for _ in range(2))
    )
    assert any(split.deletions for split, _ in sections_of(table)[1])
    for masks, others in zip(first, again, strict=True):
        assert masks.keys() == others.keys()
        assert all(masks[name] is others[name] for name in masks)
    count = len(cache)
    find_masks(*sections_of(table), cache)
    assert len(cache) == count
    write(table, "number", range(8, 12))
    reader = MaskedReader()
    reader.cache = cache
    check(reader, table)
    check(reader, table, snapshot_id=table.latest_snapshot_id - 1)


def test_a_vector_that_is_gone_says_that_the_snapshot_expired():
    table = make_table(bucket="1", **{"deletion-vectors.enabled": "true"})
    write(table, "number", range(20))
    table.compact(full=True)
    write(table, "number", range(5))
    table.compact()
    context, sections = sections_of(table)
    paths = {where.path for split, _ in sections for where in split.deletions.values()}
    assert paths
    for path in (*paths, context.paths.snapshot(sections[0][0].snapshot_id)):
        context.fileio.delete(path)
    with pytest.raises(NotFoundError) as caught:
        find_masks(context, sections, MaskedReader().cache)
    assert caught.value.kind == SNAPSHOT_EXPIRED


def test_a_column_of_the_name_of_the_position_is_as_any_other():
    fields = [
        DataField(0, "_POSITION", parse_type("BIGINT NOT NULL")),
        DataField(1, "v", parse_type("INT")),
    ]
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
    options = {"bucket": 1, "write-only": "true", "sequence.field": "v"}
    table = catalog.create_table("db.t", fields, primary_keys=["_POSITION"], options=options)
    for values in ([5, 6, 7], [6, 5, 8]):
        table.write(pa.table({"_POSITION": [1, 2, 3], "v": pa.array(values, pa.int32())}))
    reader = MaskedReader()
    check(reader, table)
    assert reader.masked_count == 1


def make_wide(old, fresh, **options):
    """Two runs of texts; the first text of each is so long."""
    fields = [
        DataField(0, "k", parse_type("STRING NOT NULL")),
        DataField(1, "v", parse_type("INT")),
    ]
    memory = dataclasses.replace(Memory.of(64 << 20), sort_keys_bytes=1 << 18)
    env = dataclasses.replace(Env.seeded(3), memory=memory)
    catalog = open_catalog("/w", fileio=MemoryFileIO(), env=env)
    options = {"bucket": 1, "write-only": "true", **options}
    table = catalog.create_table("db.t", fields, primary_keys=["k"], options=options)
    for value, first in ((1, old), (2, fresh)):
        keys = ["x" * first, *(f"{n:05}" for n in range(200))]
        table.write(pa.table({"k": keys, "v": pa.array([value] * len(keys), pa.int32())}))
    return table


@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}], ids=["", "by merge"])
def test_a_long_key_of_an_old_file_takes_no_memory(options):
    reader, table = MaskedReader(), make_wide(20_000, 5, **options)
    check(reader, table)
    assert (reader.masked_count, reader.merged_count) == (1, 0)


def test_fresh_keys_that_are_too_long_together_are_merged_and_not_read_again(monkeypatch):
    reader, table = MaskedReader(), make_wide(5, 20_000)
    check(reader, table)
    assert (reader.masked_count, reader.merged_count) == (0, 1)
    monkeypatch.setattr(file_masks, "read_file", None)
    check(reader, table)
    assert reader.merged_count == 2
    monkeypatch.undo()
    table.write(pa.table({"k": ["00007"], "v": pa.array([3], pa.int32())}))
    check(reader, table)  # another set of files is tried
    assert reader.merged_count == 3


def test_deciding_columns_that_are_too_large_together_are_merged():
    table = make_wide(5, 6, **{"sequence.field": "v"})
    reader = MaskedReader()
    rows = {
        "k": [f"{n:05}" + "y" * 9_000 for n in range(100)],
        "v": pa.array([1] * 100, pa.int32()),
    }
    table.write(pa.table(rows))
    check(reader, table)
    assert (reader.masked_count, reader.merged_count) == (0, 1)
