"""Constraints: conditions on each row, checked by every write."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.table.rowlevel import existing_rows
from tidelake.table.schema.alter import alter_table

POSITIVE = {"constraint.positive": "v >= 0"}
KEYED = {"primary_keys": ["k"], "options": {"bucket": "1", **POSITIVE}}
APPEND = {"options": dict(POSITIVE)}
MARKED = {"options": {"deletion-vectors.enabled": "true", **POSITIVE}}
KINDS = [KEYED, APPEND, MARKED]
IDS = ["keyed", "append", "marked"]


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(str(tmp_path))


def make(catalog, kind, name="db.t"):
    return catalog.create_table(name, {"k": "INT", "v": "INT", "s": "STRING"}, **kind)


def rows_of(table):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["k"])


def row(k, v, s="a"):
    return {"k": k, "v": v, "s": s}


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_write_with_one_wrong_row_writes_none(catalog, kind):
    table = make(catalog, kind)
    with pytest.raises(InvalidInputError) as caught:
        table.write([row(1, 2), row(2, None), row(7, -3), row(8, -4)])
    error = caught.value
    assert error.kind == "constraint"
    assert error.context["constraint"] == "positive"
    assert error.context["column"] == "v"
    assert "Row 2 violates" in error.message
    assert "v = -3" in error.message
    assert "1 other" in error.message
    assert ("k = 7" in error.message) == (kind is KEYED)
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_unknown_is_good_and_updates_are_checked(catalog, kind):
    table = make(catalog, kind)
    table.write([row(1, 2), row(2, None), row(3, 4)])
    with pytest.raises(InvalidInputError, match="positive"):
        table.update({"v": -1}, "k = 1")
    table.update({"v": 9}, "k = 1")
    assert rows_of(table) == [row(1, 9), row(2, None), row(3, 4)]


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_rows_of_another_engine_stay_and_can_be_deleted_around(catalog, kind):
    without = {**kind, "options": {k: v for k, v in kind["options"].items() if "pos" not in k}}
    table = make(catalog, without)
    table.write([row(1, -1), row(2, 2), row(3, 3)])
    late = catalog.table("db.t")
    # as if another engine had added the option: no row is looked at
    from_java = alter_table(table.handle, [tidelake.SetOption(*next(iter(POSITIVE.items())))])
    table = catalog.table("db.t")
    assert from_java.options.raw["constraint.positive"] == "v >= 0"
    table.delete("k = 2")
    table.update({"s": "b"}, "k = 3")
    assert rows_of(table) == [row(1, -1), row(3, 3, "b")]
    with pytest.raises(InvalidInputError, match="positive"):
        table.update({"v": -9}, "k = 3")
    late.write([row(5, -5)])  # opened before: goes on by the schema that it knows
    assert table.to_arrow().num_rows == 3


def test_deletes_are_not_checked(catalog):
    table = make(catalog, KEYED)
    table.write([row(1, 1)])
    table.write([row(1, -1)], row_kinds=["-D"])
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_constraint_is_added_only_where_all_rows_fulfil_it(catalog, kind):
    table = make(catalog, kind)
    table.write([row(1, 1), row(2, None), row(3, None)])
    with pytest.raises(InvalidInputError, match="2 rows of it violate") as caught:
        table.set_options({"constraint.there": "v IS NOT NULL"})
    assert caught.value.context["rows"] == 2
    assert "constraint.there" not in catalog.table("db.t").options.raw
    table.delete("v IS NULL")
    table.set_options({"constraint.there": "v IS NOT NULL"})
    with pytest.raises(InvalidInputError, match="there"):
        table.write([row(4, None)])
    table.reset_options(["constraint.there"])
    table.write([row(4, None)])


def test_a_column_becomes_not_null_only_without_nulls(catalog):
    options = {"alter-column-null-to-not-null.disabled": "false"}
    table = make(catalog, {"options": options})
    table.write([row(1, None), row(2, 2)])
    with pytest.raises(InvalidInputError, match="1 row of it"):
        table.set_nullable("v", nullable=False)
    table.update({"v": 1}, "v IS NULL")
    table.set_nullable("v", nullable=False)
    with pytest.raises(InvalidInputError):
        table.write([row(3, None)])


def test_rows_that_come_beside_the_alter_take_the_constraint_back(catalog, monkeypatch):
    table = make(catalog, {})
    table.write([row(1, 1)])
    other = catalog.table("db.t")

    def slow(handle, changes):
        if isinstance(changes[0], tidelake.SetOption):
            other.write([row(2, -2)])
        return alter_table(handle, changes)

    monkeypatch.setattr(existing_rows, "alter_table", slow)
    with pytest.raises(InvalidInputError, match="other changes of the statement stay") as caught:
        table.set_options({**POSITIVE, "snapshot.num-retained.min": "3"})
    assert "Nothing was changed" not in caught.value.message
    assert "1 row of it" in caught.value.message
    assert dict(catalog.table("db.t").options.raw) == {"snapshot.num-retained.min": "3"}


def test_a_constraint_that_was_to_be_replaced_is_put_back(catalog, monkeypatch):
    table = make(catalog, APPEND)
    table.write([row(1, 1)])
    other = catalog.table("db.t")

    def slow(handle, changes):
        if dict(handle.options.raw) == POSITIVE:
            other.write([row(2, 500)])
        return alter_table(handle, changes)

    monkeypatch.setattr(existing_rows, "alter_table", slow)
    with pytest.raises(InvalidInputError, match="1 row of it"):
        table.set_options({"constraint.positive": "v BETWEEN 0 AND 100"})
    assert dict(catalog.table("db.t").options.raw) == POSITIVE


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("constraint.c", "w > 1", "column 'w'"),
        ("constraint.c", "v >", "value is expected"),
        ("constraint.c", "v > 'x'", "constraint.c"),
        ("constraint.c", "abs(v) > 1", "constraint.c"),
        ("constraint.c", "TRUE", "names no column"),
        ("constraint.", "v > 1", "a name has letters"),
        ("constraint.a b", "v > 1", "a name has letters"),
        ("constrain.c", "v > 1", "unknown option"),
    ],
)
def test_what_is_no_condition_is_refused_when_the_table_is_made(catalog, key, text, says):
    with pytest.raises(InvalidInputError, match=says):
        make(catalog, {"options": {key: text}})
    table = make(catalog, {})
    with pytest.raises(InvalidInputError, match=says):
        table.set_options({key: text})


def test_a_column_of_a_constraint_keeps_its_name(catalog):
    table = make(catalog, APPEND)
    for change in (lambda: table.drop_column("v"), lambda: table.rename_column("v", "w")):
        with pytest.raises(InvalidInputError, match="'positive'"):
            change()
    table.rename_column("s", "t")
    with pytest.raises(InvalidInputError, match="one use"):
        table.with_options({"constraint.positive": None})


def test_a_constraint_on_a_column_of_the_same_statement_needs_its_own(catalog):
    table = make(catalog, {})
    add = [tidelake.AddColumn("w", "INT"), tidelake.SetOption("constraint.w", "w > 0")]
    table.alter(*add)  # there are no rows yet
    other = make(catalog, {}, "db.o")
    other.write([row(1, 1)])
    with pytest.raises(InvalidInputError, match="statement of its own"):
        other.alter(*add)


def test_a_rescale_moves_rows_as_they_are(catalog):
    table = make(catalog, {"primary_keys": ["k"], "options": {"bucket": "1"}})
    table.write([row(1, -1), row(2, 2)])
    alter_table(table.handle, [tidelake.SetOption("constraint.positive", "v >= 0")])
    table = catalog.table("db.t")
    table.rescale_bucket(2)
    assert rows_of(catalog.table("db.t")) == [row(1, -1), row(2, 2)]


def test_many_rows_are_checked_by_columns(catalog):
    table = make(catalog, APPEND)
    count = 300_000
    values = pa.table(
        {
            "k": pa.array(range(count), pa.int32()),
            "v": pa.array([*range(count - 1), -1], pa.int32()),
            "s": pa.repeat("x", count),
        }
    )
    with pytest.raises(InvalidInputError, match=f"Row {count - 1} violates"):
        table.write(values)


def test_a_column_of_a_constraint_gets_no_type_that_changes_its_values(catalog):
    """0.6 would be read as 0, which the constraint forbids."""
    table = catalog.create_table(
        "db.t", {"k": "INT", "v": "FLOAT"}, options={"constraint.some": "v > 0.5"}
    )
    table.write([{"k": 1, "v": 0.625}])
    with pytest.raises(InvalidInputError, match=r"type that may change its values.*'some'"):
        table.retype_column("v", "INT")
    table.retype_column("v", "DOUBLE")
    assert table.to_arrow(where="v > 0.5")["v"].to_pylist() == [0.625]
    table.retype_column("k", "BIGINT")
