"""Arguments become values of the parameters' types, or errors that name them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from tidelake import InvalidInputError
from tidelake.maintenance.procedure import ParameterType, Procedure, optional, required

PROCEDURE = Procedure(
    "p",
    (
        required("table", ParameterType.TABLE, ""),
        optional("camelCase", ParameterType.STRING, ""),
        optional("long", ParameterType.LONG, ""),
        optional("small", ParameterType.INTEGER, ""),
        optional("flag", ParameterType.BOOLEAN, ""),
        optional("time", ParameterType.TIME, ""),
    ),
    pa.schema([]),
    "",
    lambda _: [],
    "",
)


def test_positions_come_first_names_in_any_case_and_null_is_left_out():
    bound = PROCEDURE.bind(["`db`.`t`", "x"], {"LONG": np.int64(7), "Flag": None})
    assert bound == {
        "table": "db.t",
        "camelCase": "x",
        "long": 7,
        "small": None,
        "flag": None,
        "time": None,
    }


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("camelcase", 5, "5"),
        ("camelcase", "", ""),
        ("long", " 5 ", 5),
        ("long", "-5", -5),
        ("long", 2**63 - 1, 2**63 - 1),
        ("small", 2**31 - 1, 2**31 - 1),
        ("flag", "TRUE", True),
        ("flag", False, False),
        ("time", 5, 5),
        ("time", "5", 5),
        ("time", dt.datetime(1970, 1, 1, 1), 3_600_000),
        ("time", "1970-01-02", 86_400_000),
    ],
)
def test_values_are_cast_where_that_changes_nothing(name, given, taken):
    bound = PROCEDURE.bind(["db.t"], {name: given}, zone=dt.UTC)
    assert [v for n, v in bound.items() if n.lower() == name] == [taken]


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("table", 5, "'table' as table name, not 5"),
        ("table", "  ", "'table' as table name"),
        ("camelcase", 1.5, "'camelCase' as STRING, not 1.5"),
        ("camelcase", True, "'camelCase' as STRING, not True"),
        ("long", "x", "'long' as BIGINT, not 'x'"),
        ("long", 1.0, "'long' as BIGINT, not 1.0"),
        ("long", True, "'long' as BIGINT, not True"),
        ("long", 2**63, "'long' as BIGINT"),
        ("small", 2**31, "'small' as INT, not 2147483648"),
        ("flag", 1, "'flag' as BOOLEAN, not 1"),
        ("flag", "yes", "'flag' as BOOLEAN, not 'yes'"),
        ("time", "tomorrow", "'time' as BIGINT or TIMESTAMP, not 'tomorrow'"),
        ("time", [1], "'time' as BIGINT or TIMESTAMP"),
    ],
)
def test_a_value_of_another_type_names_parameter_and_type(name, given, says):
    arguments = {"table": "db.t"} | {name: given}
    with pytest.raises(InvalidInputError, match=f"Procedure 'p' takes {says}"):
        PROCEDURE.bind([], arguments)


@pytest.mark.parametrize(
    ("positional", "named", "says"),
    [
        ([], {}, "needs 'table'"),
        ([None], {}, "needs 'table'"),
        (["t"], {"lnog": 1}, "has no parameter 'lnog'. Did you mean 'long'"),
        (["t"], {"TABLE": "t"}, "'table' given twice"),
        ([], {"table": "t", "Table": "t"}, "'table' given twice"),
        (["t", *range(6)], {}, "takes 6 arguments, but got 7"),
    ],
)
def test_wrong_arguments_show_how_the_procedure_is_called(positional, named, says):
    with pytest.raises(InvalidInputError, match=says) as caught:
        PROCEDURE.bind(positional, named)
    usage = "p(table, [camelCase], [long], [small], [flag], [time])."
    assert str(caught.value).endswith(f"Usage: {usage}")
