"""Statement sets, SHOW JOBS and STOP JOB as values."""

import pytest

from tidelake.errors import InvalidInputError
from tidelake.sql import parse
from tidelake.sql.syntax import ast as s

SET = (
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;"
    " INSERT INTO b SELECT CASE WHEN x THEN 1 END FROM c; END"
)


@pytest.mark.parametrize(
    "text", [SET, SET + ";", SET.replace("EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET;")]
)
def test_a_statement_set_is_one_statement_of_its_inserts(text):
    (found,) = parse(text)
    assert isinstance(found, s.StatementSet)
    assert [str(insert.name) for insert in found.inserts] == ["a", "b"]
    assert [insert.query.sql for insert in found.inserts] == [
        "SELECT 1",
        "SELECT CASE WHEN x THEN 1 END FROM c",
    ]


def test_statements_before_and_after_a_set_are_their_own():
    found = parse(f"USE a; {SET}; SHOW JOBS; STOP JOB '1b2c'")
    assert [type(one) for one in found] == [s.Use, s.StatementSet, s.ShowJobs, s.StopJob]
    assert found[3].job == "1b2c"


def test_an_insert_may_be_executed():
    (found,) = parse("EXECUTE INSERT INTO a SELECT 1")
    assert isinstance(found, s.Insert)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EXECUTE STATEMENT SET BEGIN END", "holds no INSERT"),
        ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", "holds INSERT statements.* 'SELECT'"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1", "not closed: write '; END'"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", "and then END, not the end"),
        ("EXECUTE STATEMENT SET INSERT INTO a SELECT 1; END", "'BEGIN' is expected"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END x", "END|should end here"),
        ("SHOW JOBS x", "should end here"),
        ("STOP JOB 3", "a string in quotes"),
        ("STOP JOBS '3'", "'JOB' is expected"),
    ],
)
def test_statements_about_jobs_that_are_wrong(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse(text)
