"""The statements of Paimon's pages on Spark are read, or refused in the words expected."""

import pytest
from paimon_statements import pages

from tidelake.errors import TidelakeError
from tidelake.sql import parse
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Insert, Query

PAGES = {page.name: page for page in pages()}


def test_there_are_the_pages_and_statements_that_there_were():
    assert len(PAGES) == 10
    assert sum(len(page.own) for page in PAGES.values()) >= 280


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_what_runs_can_be_read_and_what_cannot_is_refused_in_the_words_expected(page):
    faults = []
    for said in page.statements:
        try:
            for statement in parse(said.text):
                query = statement.query if isinstance(statement, Insert) else statement
                if isinstance(query, Query):
                    parse_query(query)
        except TidelakeError as error:
            if said.refused is None or said.refused not in str(error):
                faults.append(f"{said.place}: {error}")
    assert not faults, "\n".join(faults)
