"""What ``SHOW GRANTS`` of each server says."""

from __future__ import annotations

import pytest

from tidelake.cdc.mysql.grants import Grants
from tidelake.cdc.mysql.server import ServerFacts, _right_findings
from tidelake.cdc.mysql.settings import MySqlSettings
from tidelake.cdc.source.source_table import SourceName, SourceTable


@pytest.mark.parametrize(
    ("text", "database", "allowed"),
    [
        ("GRANT SELECT, LOCK TABLES ON *.* TO 'a'@'%' IDENTIFIED BY PASSWORD '*1'", "shop", True),
        ("GRANT SELECT, LOCK TABLES ON `shop`.* TO `a`@`%`", "shop", True),
        ("GRANT SELECT, LOCK TABLES ON `shop`.* TO `a`@`%`", "shops", False),
        ("GRANT ALL PRIVILEGES ON `sh%`.* TO `a`@`%` WITH GRANT OPTION", "shop", True),
        (r"GRANT LOCK TABLES ON `my\_shop`.* TO `a`@`%`", "my_shop", True),
        (r"GRANT LOCK TABLES ON `my\_shop`.* TO `a`@`%`", "myxshop", False),
        ("GRANT LOCK TABLES ON `a``b`.* TO `a`@`%`", "a`b", True),
        ("GRANT SELECT, INSERT (`LOCK TABLES`) ON `shop`.`t` TO `a`@`%`", "shop", False),
        ("GRANT USAGE ON *.* TO `a`@`%`", "shop", False),
        ("GRANT `reader`@`%` TO `a`@`%`", "shop", False),
        ("GRANT PROXY ON ''@'' TO 'root'@'localhost' WITH GRANT OPTION", "shop", False),
    ],
)
def test_a_right_on_a_database(text, database, allowed):
    assert Grants([text]).allow("LOCK TABLES", database) is allowed


class Asked:
    """A server of MySQL that allows a user some things."""

    def __init__(self, *grants):
        self.grants = grants

    def rows(self, statement, arguments=()):
        if statement == "SHOW GRANTS":
            return [(text,) for text in self.grants]
        return [("bin.000001", 4, "", "", "")] if "STATUS" in statement else []


def test_the_rights_that_a_copy_of_mysql_needs_are_looked_for():
    facts = ServerFacts({"version": "8.0.36", "gtid_mode": "OFF"})
    settings = MySqlSettings.of(
        {"hostname": "db", "username": "reader", "password": "x", "database-name": "shop"}
    )
    tables = [
        SourceTable(SourceName("shop", "", "keyed"), (), ("id",)),
        SourceTable(SourceName("shop", "", "bare"), ()),
        SourceTable(SourceName("shop", "", "other"), ()),
    ]
    asked = Asked("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `reader`@`%`")
    found = _right_findings(asked, settings, facts, tables)
    assert [(one.kind, one.mend, one.is_error) for one in found] == [
        ("right_reload", "GRANT RELOAD ON *.* TO 'reader'", False),
        ("right_lock_tables", "GRANT LOCK TABLES ON `shop`.* TO 'reader'", False),
    ]
    found = _right_findings(asked, settings, facts, tables[:1])
    assert [one.kind for one in found] == ["right_reload"]
    more = ("GRANT RELOAD ON *.* TO `reader`@`%`", "GRANT LOCK TABLES ON `shop`.* TO `reader`@`%`")
    assert not _right_findings(Asked(*asked.grants, *more), settings, facts, tables)
