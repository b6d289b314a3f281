"""Whatever holds rows becomes the same rows, or is refused in the words of who gave it."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidelake.errors import InvalidInputError
from tidelake.table.conversion import inputs
from tidelake.table.conversion.inputs import record_batches
from tidelake.types import DataField, parse_type
from tidelake.types.data_type import parse_type_text

FIELDS = [
    DataField(0, "k", parse_type("BIGINT NOT NULL")),
    DataField(1, "v", parse_type("STRING")),
    DataField(2, "n", parse_type("INT"), default_value="7"),
]


def taken(data, fields=FIELDS):
    return [batch.to_pylist() for batch in record_batches(data, fields, table="db.t")]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
@pytest.mark.parametrize("given", [list, iter], ids=["list", "generator"])
def test_a_key_that_some_dicts_lack_is_refused_and_overwrites_nothing(catalog, engine, given):
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    options = {"bucket": 1, "merge-engine": engine}
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options=options)
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    with pytest.raises(InvalidInputError) as caught:
        table.write(given([{"k": 2, "v": "c"}, {"k": 1}]))
    assert caught.value.kind == "column_missing"
    assert caught.value.context["column"] == "v"
    for part in ("Row 1 ", "'db.t'", "'v'", "None"):
        assert part in caught.value.message
    assert table.to_arrow().sort_by("k").to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]


def test_a_key_of_a_column_with_a_default_may_lack_in_some_dicts():
    assert taken([{"k": 1, "v": "a", "n": 1}, {"k": 2, "v": "b"}]) == [
        [{"k": 1, "v": "a", "n": 1}, {"k": 2, "v": "b", "n": None}]
    ]


def test_a_key_that_lacks_late_in_a_generator_is_named_with_its_row(monkeypatch):
    monkeypatch.setattr(inputs, "GATHERED_ROWS_MAX", 4)
    rows = [{"k": i, "v": "a"} for i in range(8)] + [{"k": i} for i in range(8, 12)]
    with pytest.raises(InvalidInputError, match=r"Row 8 .*'v'"):
        taken(iter(rows))


def test_dicts_of_a_generator_are_gathered_into_few_batches():
    batches = taken({"k": i, "v": str(i), "n": i} for i in range(1_000))
    assert [len(b) for b in batches] == [1_000]
    assert batches[0][999] == {"k": 999, "v": "999", "n": 999}


def test_gathered_rows_are_bounded_by_count_and_by_size(monkeypatch):
    monkeypatch.setattr(inputs, "GATHERED_ROWS_MAX", 3)
    assert [len(b) for b in taken({"k": i, "v": "a"} for i in range(7))] == [3, 3, 1]
    monkeypatch.setattr(inputs, "GATHERED_ROWS_MAX", 1_000)
    monkeypatch.setattr(inputs, "GATHERED_BYTES_MAX", 10)
    texts = ["x" * 6, "y" * 6, "z", "w"]
    rows = ({"k": i, "v": text} for i, text in enumerate(texts))
    assert [len(b) for b in taken(rows)] == [2, 2]
    nested = [DataField(0, "l", parse_type_text("ARRAY<STRING>"))]
    deep = ({"id": 1, "l": ["x" * 6, "y" * 6]} for _ in range(3))
    assert [len(b) for b in taken(deep, nested)] == [1, 1, 1]


def test_dicts_between_batches_keep_their_place():
    batch = pa.record_batch({"k": [5], "v": ["five"]})
    parts = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, batch, {"k": 3, "v": "c"}]
    assert [[row["k"] for row in rows] for rows in taken(iter(parts))] == [[1, 2], [5], [3]]


def test_polars_categories_and_enumerations_are_text(keyed):
    frame = pl.DataFrame(
        {
            "k": [1, 2, 3],
            "v": pl.Series(["a", None, "b"], dtype=pl.Enum(["a", "b"])),
            "n": pl.Series([1, 2, 3], dtype=pl.Int32),
        }
    )
    keyed.write(frame)
    keyed.write(frame.with_columns(v=pl.Series(["c", "d", "c"], dtype=pl.Categorical)).head(1))
    assert keyed.to_arrow(columns=["k", "v"]).sort_by("k").to_pylist() == [
        {"k": 1, "v": "c"},
        {"k": 2, "v": None},
        {"k": 3, "v": "b"},
    ]


def test_a_table_is_made_of_a_frame_with_categories_and_takes_it(catalog):
    frame = pl.DataFrame(
        {"c": pl.Series(["a", "b"], dtype=pl.Categorical), "l": [["x"], ["y", "x"]]}
    ).with_columns(pl.col("l").cast(pl.List(pl.Categorical)))
    table = catalog.create_table("db.t", frame)
    assert [str(f.type) for f in table.table_schema.fields] == ["STRING", "ARRAY<STRING>"]
    table.write(frame)
    assert table.to_arrow().to_pylist() == [{"c": "a", "l": ["x"]}, {"c": "b", "l": ["y", "x"]}]


def test_row_kinds_may_come_as_run_ends_or_views(keyed):
    rows = pa.table({"k": [1, 2], "v": ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    keyed.write(rows, row_kinds=pc.run_end_encode(pa.array(["+I", "+I"])))
    keyed.write(rows, row_kinds=pa.array(["-D", "+U"], pa.string_view()))
    assert keyed.to_arrow().column("k").to_pylist() == [2]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"k": 2**70, "v": "a", "n": 1}, "1180591620717411303424"),
        ({"k": 3, "v": 5, "n": 1}, "5"),
        ({"k": 3, "v": "a", "n": 1.5}, "1.5"),
        ({"k": 3, "v": "a", "n": "one"}, "'one'"),
        ({"k": 3, "v": "a", "n": 2**40}, "1099511627776"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_row(row, says):
    rows = [{"k": i, "v": "a", "n": 1} for i in range(5)]
    for data in ([*rows, row, *rows], iter([*rows, row, *rows])):
        with pytest.raises(InvalidInputError, match=r"table 'db.t'") as caught:
            taken(data)
        assert f"row 5 holds {says}" in caught.value.message
        assert len(caught.value.message) < 400


def test_a_bad_date_is_named_with_its_row():
    fields = [DataField(0, "d", parse_type("DATE"))]
    rows = [{"d": dt.date(2026, 1, 1)}, {"d": "2026-13-45"}]
    with pytest.raises(InvalidInputError, match=r"'d'.*DATE.*row 1 holds '2026-13-45'"):
        taken(rows, fields)


def write_in_two(table, batches):
    with table.writer() as out:
        for batch in batches:
            out.write(batch)


def test_a_value_that_the_table_refuses_is_named_with_its_row(keyed):
    rows = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"], "n": [1, 2, 2**40]})
    batches = [*rows.slice(0, 1).to_batches(), *rows.slice(1).to_batches()]
    with pytest.raises(
        InvalidInputError, match=r"'n' of table 'db.keyed' is INT.*row 2 holds 10995"
    ):
        keyed.write(iter(batches))
    with pytest.raises(InvalidInputError, match=r"row 1 holds 10995"):
        write_in_two(keyed, batches)


def test_keys_to_delete_may_come_in_dicts_that_differ_in_other_columns(keyed):
    keyed.write([{"k": k, "v": "a", "n": 1} for k in range(3)])
    keyed.delete([{"k": 0, "v": "a"}, {"k": 1}])
    assert keyed.to_arrow().column("k").to_pylist() == [2]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([None, 1, 2, "abc", 3], ["row 3 holds 'abc' (str)", "row 1 1 (int)"]),
        (["a", "b", 5.5], ["row 2 holds 5.5 (float)", "row 0 'a' (str)"]),
        ([None, object], ["row 1 holds <class 'object'> (type)"]),
        ([dt.date(2026, 1, 1), "2026-13-45"], ["row 1 holds '2026-13-45' (str)", "(date)"]),
    ],
)
def test_a_frames_column_of_several_kinds_is_named_with_row_and_value(catalog, values, says):
    frame = pd.DataFrame({"k": range(len(values)), "v": pd.Series(values, dtype=object)})
    with pytest.raises(InvalidInputError) as made:
        catalog.create_table("db.new", frame)
    table = catalog.create_table("db.t", {"k": "BIGINT", "v": "STRING"})
    with pytest.raises(InvalidInputError) as written:
        table.write(frame)
    for error, name in ((made.value, "db.new"), (written.value, "db.t")):
        for part in (*says, "Column 'v'", f"'{name}'"):
            assert part in error.message
        assert error.context["column"] == "v"


NESTED_COLUMNS = {
    "k": "BIGINT",
    "v": "VARIANT",
    "m": "MAP<STRING, INT>",
    "deep": "ROW<a ARRAY<VARIANT>, b MAP<INT, ROW<x DATE>>>",
    "pairs": "MAP<ROW<x INT>, INT>",
    "bag": "MULTISET<STRING>",
}
NESTED_ROWS = [
    {
        "k": 1,
        "v": {"a": [1, 2.5, None, "x"], "b": {"c": True}},
        "m": {"one": 1, "none": None},
        "deep": {"a": [1, "two", {"three": 3}, None], "b": {7: {"x": dt.date(2026, 1, 2)}}},
        "pairs": [({"x": 1}, 5)],
        "bag": {"a": 2},
    },
    {"k": 2, "v": "text", "m": {}, "deep": {"a": [], "b": None}, "pairs": [], "bag": {}},
    {"k": 3, "v": None, "m": None, "deep": None, "pairs": None, "bag": None},
    {"k": 4, "v": 5, "m": {"x": 1}, "deep": None, "pairs": None, "bag": None},
]


@pytest.mark.parametrize("rows", [NESTED_ROWS, NESTED_ROWS[2:3], []])
def test_variants_and_maps_go_through_pandas_and_back(catalog, rows):
    table = catalog.create_table("db.t", NESTED_COLUMNS, primary_keys=["k"])
    again = catalog.create_table("db.again", NESTED_COLUMNS, primary_keys=["k"])
    table.write(rows)
    frame = table.to_pandas().sort_values("k")
    assert list(frame.columns) == list(NESTED_COLUMNS)
    assert frame.to_dict("records") == rows
    again.write(frame)
    assert again.to_arrow().sort_by("k") == table.to_arrow().sort_by("k")
    assert again.to_pandas(columns=["m", "k"], where="k = 4").to_dict("list") == (
        {"m": [{"x": 1}], "k": [4]} if len(rows) == 4 else {"m": [], "k": []}
    )


def test_a_frames_column_of_numbers_is_taken_for_variants(catalog):
    table = catalog.create_table("db.t", {"k": "BIGINT", "v": "VARIANT"})
    table.write(pd.DataFrame({"k": [1, 2], "v": [1.5, None]}))
    table.write(pd.DataFrame({"k": [3, 4], "v": [pd.NA, [1, None]]}))
    assert table.to_pandas().sort_values("k")["v"].tolist() == [1.5, None, None, [1, None]]


def test_a_map_with_a_key_twice_is_no_dict(catalog):
    table = catalog.create_table("db.t", {"m": "MAP<STRING, INT>"})
    table.write([{"m": [("a", 1), ("a", 2)]}])
    with pytest.raises(InvalidInputError, match=r"'m' of table 'db.t'.*'a' twice.*to_arrow"):
        table.to_pandas()


def test_the_audit_log_shows_variants_in_pandas(catalog):
    table = catalog.create_table("db.t", {"k": "BIGINT", "v": "VARIANT"}, primary_keys=["k"])
    table.write([{"k": 1, "v": {"a": 1}}])
    frame = table.system_table("audit_log").to_pandas()
    assert frame.to_dict("records") == [{"rowkind": "+I", "k": 1, "v": {"a": 1}}]
