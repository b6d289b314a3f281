"""``Table.copy``: which options may be set for one use, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake import RemoveOption, SetOption
from tidelake.errors import InvalidInputError, UnsupportedError

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int32()})
SUMS = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "changelog-producer": "lookup",
}


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "n"},
        {"sequence.field.sort-order": "descending"},
        {"ignore-delete": "true"},
        {"first-row.ignore-delete": "true"},
        {"deduplicate.ignore-delete": True},
        {"partial-update.ignore-delete": "TRUE"},
        {"bucket": 3},
        {"bucket-key": "v"},
        {"merge-engine": "first-row"},
    ],
    ids=lambda o: next(iter(o)),
)
def test_what_decides_rows_or_layout_is_fixed(keyed, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))) as caught:
        keyed.copy(options)
    assert caught.value.kind == "option_fixed"


@pytest.mark.parametrize(
    "options",
    [{"bucket": "2"}, {"merge-engine": "Deduplicate"}, {"deduplicate.ignore-delete": "false"}],
    ids=lambda o: next(iter(o)),
)
def test_a_fixed_option_may_be_given_the_value_it_has(keyed, options):
    assert keyed.copy(options).count() == 0


def test_a_compaction_keeps_the_value_that_the_table_calls_newest(catalog):
    options = {"bucket": 1, "sequence.field": "n"}
    table = catalog.create_table("db.s", SCHEMA, primary_keys=["k"], options=options)
    table.write([{"k": 1, "v": "new", "n": 2}])
    table.write([{"k": 1, "v": "old", "n": 1}])
    with pytest.raises(InvalidInputError):
        table.copy({"sequence.field.sort-order": "descending"}).compact(full=True)
    table.compact(full=True)
    assert table.to_arrow()["v"].to_pylist() == ["new"]


def test_an_option_that_is_none_is_unset_for_the_use(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    keyed.write([{"k": 2, "v": "b", "n": 0}])
    then = keyed.copy({"scan.snapshot-id": 1})
    assert (then.count(), then.copy({"scan.snapshot-id": None}).count()) == (1, 2)
    with pytest.raises(InvalidInputError, match=r"unknown option 'scan\.snapshots'"):
        keyed.copy({"scan.snapshots": None})
    with pytest.raises(InvalidInputError, match="'bucket'"):
        keyed.copy({"bucket": None})


def test_options_may_be_given_with_one_call(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    keyed.write([{"k": 2, "v": "b", "n": 0}], options={"target-file-size": "1 mb"})
    assert keyed.to_arrow(options={"scan.snapshot-id": 1})["k"].to_pylist() == [1]
    assert keyed.count(options={"scan.snapshot-id": 1}) == 1
    assert keyed.explain(options={"scan.snapshot-id": 1}).snapshot.id == 1
    assert keyed.count() == 2
    with keyed.writer(options={"write-only": True}) as out:
        out.write([{"k": 3, "v": "c", "n": 0}])
    keyed.upsert([{"k": 3, "v": "d", "n": 0}], options={"write-only": True})
    keyed.delete([{"k": 1}], options={"write-only": True})
    keyed.compact(full=True, options={"target-file-size": "1 mb"})
    assert keyed.count() == 2
    assert "write-only" not in keyed.options.raw


@pytest.mark.parametrize("call", ["to_arrow", "compact", "write", "upsert", "delete", "explain"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"merge-engine": "first-row"}, "cannot be set for one use"),
        ({"bucket": 3}, "cannot be set for one use"),
        ({"write-onyl": True}, "Did you mean 'write-only'"),
        ({"target-file-size": "big"}, "'target-file-size'"),
        ("write-only", "is not a dict"),
    ],
)
def test_every_call_checks_them_alike(keyed, call, options, says):
    rows = [[{"k": 1, "v": "a", "n": 0}]] if call in {"write", "upsert", "delete"} else []
    with pytest.raises(InvalidInputError, match=says):
        getattr(keyed, call)(*rows, options=options)
    assert keyed.latest_snapshot_id is None


def test_a_catalog_gives_new_tables_its_defaults(tmp_path):
    given = {"table-default.bucket": 3, "table-default.file.compression": "snappy"}
    catalog = tidelake.open(tmp_path, options=given)
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"])
    other = catalog.create_table("db.u", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    assert dict(table.options.raw) == {"bucket": "3", "file.compression": "snappy"}
    assert other.options.raw["bucket"] == "1"
    plain = tidelake.open(tmp_path).table("db.t")
    assert plain.options.raw["bucket"] == "3"
    copied = pickle.loads(pickle.dumps(catalog))
    assert copied.create_table("db.v", SCHEMA, primary_keys=["k"]).options.raw["bucket"] == "3"


@pytest.mark.parametrize("producer", ["none", "input", "full-compaction", None])
def test_a_row_that_counts_for_older_ones_goes_on_doing_so(catalog, producer):
    table = catalog.create_table("db.s", SCHEMA, primary_keys=["k"], options=SUMS)
    for _ in range(4):
        table.write([{"k": 1, "v": None, "n": 1}])
    with pytest.raises(InvalidInputError, match=r"'changelog-producer' .* for one use"):
        table.with_options({"changelog-producer": producer})
    change = SetOption("changelog-producer", producer) if producer else None
    with pytest.raises(
        UnsupportedError, match=r"'changelog-producer' from 'lookup' .* count twice"
    ):
        table.alter(change or RemoveOption("changelog-producer"))
    assert table.to_arrow()["n"].to_pylist() == [4]


def test_rows_that_count_alone_go_on_doing_so(catalog):
    options = SUMS | {"changelog-producer": "none", "num-sorted-run.compaction-trigger": "3"}
    table = catalog.create_table("db.s", SCHEMA, primary_keys=["k"], options=options)
    table.alter(SetOption("changelog-producer", "lookup"), SetOption("changelog-producer", "none"))
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 99_999, 20_000)
    table.write([{"k": k, "v": None, "n": int(n)} for k, n in enumerate(numbers)])
    table.compact(full=True)
    for _ in range(4):
        table.write([{"k": k, "v": None, "n": 1} for k in range(300)])
    assert len({f.level for split in table.plan().splits for f in split.files}) > 1
    before = table.to_arrow().sort_by("k")
    with pytest.raises(InvalidInputError, match=r"'changelog-producer' .* for one use"):
        table.with_options({"changelog-producer": "lookup"})
    with pytest.raises(UnsupportedError, match=r"'changelog-producer' to 'lookup' .* or be lost"):
        table.alter(SetOption("changelog-producer", "lookup"))
    table.alter(SetOption("changelog-producer", "full-compaction"))
    assert catalog.table("db.s").to_arrow().sort_by("k") == before


def test_an_empty_table_and_other_engines_may_change_their_producer(catalog, keyed):
    table = catalog.create_table("db.s", SCHEMA, primary_keys=["k"], options=SUMS)
    table.alter(SetOption("changelog-producer", "none"))
    keyed.write([{"k": 1, "v": "a", "n": 0}])
    assert keyed.with_options({"changelog-producer": "lookup"}).count() == 1
    keyed.alter(SetOption("changelog-producer", "lookup"))
    assert keyed.count() == 1
