"""Answers as tables, JSON, CSV and lines."""

import csv
import io
import json

import pyarrow as pa
import pytest

from tidelake.cli.output.formats import FORMATS, WIDTH_ROWS, rows_of
from tidelake.cli.shell.pager import Pager
from tidelake.errors import InvalidInputError

ROWS = pa.table(
    {
        "id": pa.array([1, 22], pa.int32()),
        "what": ["tea", "日本\nsecond"],
        "price": [None, 2.5],
    }
)


def lines(format, table, zone="UTC"):
    return list(FORMATS[format](table.schema, rows_of(table.to_batches(), zone)))


def test_a_table_aligns_by_the_width_of_signs_and_keeps_lines():
    assert lines("table", ROWS) == [
        "id │ what   │ price",
        "───┼────────┼──────",
        " 1 │ tea    │  NULL",
        "22 │ 日本   │   2.5",
        "   │ second │",
    ]


def test_a_table_without_rows_has_its_head():
    assert lines("table", ROWS.slice(2)) == ["id │ what │ price", "───┼──────┼──────"]


def test_a_value_far_down_pushes_out_only_its_own_line():
    table = pa.table({"a": ["x"] * WIDTH_ROWS + ["longer"], "b": ["y"] * (WIDTH_ROWS + 1)})
    found = lines("table", table)
    assert found[2] == "x │ y"
    assert found[-1] == "longer │ y"
    assert len(found) == WIDTH_ROWS + 3


def test_json_is_an_object_per_row():
    assert [json.loads(line) for line in lines("json", ROWS)] == ROWS.to_pylist()


def test_json_refuses_two_columns_of_one_name():
    table = pa.table([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(InvalidInputError, match=r"'id'.*\(AS\)"):
        lines("json", table)
    assert lines("csv", table) == ["id,id", "1,2"]


def test_csv_is_read_back():
    table = pa.table({"a,b": ['say "x"', None, ""], "c": [1.5, float("nan"), None]})
    text = "\n".join(lines("csv", table))
    assert list(csv.reader(io.StringIO(text))) == [
        ["a,b", "c"],
        ['say "x"', "1.5"],
        ["", "NaN"],
        ["", ""],
    ]


def test_a_single_null_is_no_empty_line():
    assert lines("csv", pa.table({"a": pa.nulls(1, pa.string())})) == ["a", '""']


def test_vertical_has_a_line_per_value():
    assert lines("vertical", ROWS.slice(1)) == [
        "-[ row 1 ]-------",
        "id    | 22",
        "what  | 日本",
        "      | second",
        "price | 2.5",
    ]


def screen(columns, height):
    return lambda: (columns, height)


def test_what_fits_on_the_screen_needs_no_pager():
    out = io.StringIO()
    assert not Pager(screen(20, 10), {"PAGER": "false"}).show(iter(["a", "b"]), out)
    assert out.getvalue() == "a\nb\n"


@pytest.mark.parametrize(
    "found", [[str(n) for n in range(30)], ["wide " * 10]], ids=["long", "wide"]
)
def test_what_does_not_fit_goes_through_the_pager(found, tmp_path):
    place = tmp_path / "paged"
    out = io.StringIO()
    Pager(screen(20, 10), {"PAGER": f"tee {place}", "PATH": "/usr/bin:/bin"}).show(iter(found), out)
    assert out.getvalue() == ""
    assert place.read_text().splitlines() == found


def test_a_pager_that_is_left_early_ends_the_rows():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "x" * 100

    Pager(screen(20, 10), {"PAGER": "head -1", "PATH": "/usr/bin:/bin"}).show(
        endless(), io.StringIO()
    )
    assert taken


def test_without_the_pager_s_program_all_is_written():
    out = io.StringIO()
    Pager(screen(5, 5), {"PAGER": "no-such-program"}).show(iter("abcdefgh"), out)
    assert out.getvalue().split() == list("abcdefgh")
