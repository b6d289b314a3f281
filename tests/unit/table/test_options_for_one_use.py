"""``Table.copy``: which options may be set for one use, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int32()})


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
