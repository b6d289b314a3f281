"""Settings of a session in Paimon's words."""

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark.sessions.paimon_settings import check_paimon_setting, paimon_options

SNAPSHOT = "scan.snapshot-id"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, {}),
        ({SNAPSHOT: "1"}, {SNAPSHOT: "1"}),
        ({f"*.db.t.{SNAPSHOT}": "2", SNAPSHOT: "1"}, {SNAPSHOT: "2"}),
        ({SNAPSHOT: "1", f"*.*.*.{SNAPSHOT}": "3"}, {SNAPSHOT: "3"}),
        ({f"*.db.t.{SNAPSHOT}": "2", f"*.*.t.{SNAPSHOT}": "4"}, {SNAPSHOT: "2"}),
        ({f"*.other.t.{SNAPSHOT}": "2", f"*.db.other.{SNAPSHOT}": "4"}, {}),
        ({f"p.db.other.{SNAPSHOT}": "4"}, {}),
        ({"cache.of-the-connector": "true"}, {}),  # of Paimon's connector
    ],
)
def test_the_setting_that_says_most_of_a_table_wins(settings, found):
    conf = {"spark.app.name": "x", **{f"spark.paimon.{k}": v for k, v in settings.items()}}
    assert paimon_options(conf, table="db.t") == found


def test_a_catalog_by_its_name_is_refused_where_the_table_fits():
    conf = {f"spark.paimon.p.db.t.{SNAPSHOT}": "1"}
    with pytest.raises(InvalidInputError, match=r"write 'spark\.paimon\.\*\.db\.t\.scan"):
        paimon_options(conf, table="db.t")


def test_a_setting_that_names_no_option_is_refused_where_it_is_set():
    check_paimon_setting("spark.paimon.bucket")
    check_paimon_setting("spark.paimon.*.db.t.bucket")
    check_paimon_setting("spark.other")
    with pytest.raises(InvalidInputError, match=r"Did you mean 'scan\.snapshot-id'"):
        check_paimon_setting("spark.paimon.scan.snapshto-id")
    with pytest.raises(InvalidInputError, match=r"cache\.of-the-connector"):
        check_paimon_setting("spark.paimon.cache.of-the-connector")
