"""Options that a catalog and a session set for tables: what is taken, and what is refused."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.options import session_options, table_defaults

PREFIX = "spark.tidelake."


def of_session(table="db.t", **conf):
    return session_options({f"{PREFIX}{k}": v for k, v in conf.items()}, prefix=PREFIX, table=table)


def test_a_setting_for_one_table_wins_over_one_for_all():
    conf = {"write-only": "true", "db.t.write-only": "false", "source.split.target-size": "1 mb"}
    assert of_session(**conf) == {"write-only": "false", "source.split.target-size": "1 mb"}
    assert of_session("db.u", **conf)["write-only"] == "true"


def test_settings_of_others_are_not_looked_at():
    assert session_options({"spark.master": "x"}, prefix=PREFIX, table="db.t") == {}
    assert of_session(**{"other.u.fields.v.ignore-retract": "true"}) == {}


@pytest.mark.parametrize("key", ["write-onyl", "a.b.c.d", "db.u.write-onyl"])
def test_a_setting_that_names_no_option_is_refused(key):
    with pytest.raises(InvalidInputError, match="does not name a table option") as caught:
        of_session(**{key: "true"})
    assert caught.value.kind == "unknown_option"


def test_a_key_behind_the_table_s_own_name_is_left_to_the_check_of_its_use():
    assert of_session(**{"db.t.write-onyl": "true"}) == {"write-onyl": "true"}


def test_defaults_of_a_catalog_are_checked_like_options_of_a_table():
    assert table_defaults({"table-default.bucket": 4}) == {"bucket": "4"}
    with pytest.raises(InvalidInputError, match="unknown option 'bukcet'"):
        table_defaults({"table-default.bukcet": 4})
    with pytest.raises(InvalidInputError, match="table-default"):
        table_defaults({"bucket": 4})
    with pytest.raises(InvalidInputError, match="'bucket'"):
        table_defaults({"table-default.bucket": "many"})
