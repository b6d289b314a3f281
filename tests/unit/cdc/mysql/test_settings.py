"""Keys of Flink CDC."""

from __future__ import annotations

import pytest

from tidelake.cdc.mysql.settings import MySqlSettings, StartupMode
from tidelake.errors import InvalidInputError, UnsupportedError

NEEDED = {"hostname": "db", "database-name": "shop"}


def test_defaults_and_values():
    settings = MySqlSettings.of({
        **NEEDED, "username": "u", "password": " p ", "table-name": "a|b", "server-id": "5400-5408",
        "server-time-zone": "Europe/Berlin", "connect.timeout": "20 s",
        "heartbeat.interval": "500ms",
        "scan.startup.mode": "latest-offset", "connect.max-retries": "5", "port": "3307",
        "scan.newly-added-table.enabled": "true", "connection.pool.size": "20",
    })  # fmt: skip
    assert settings.port == 3307
    assert settings.password == " p "
    assert settings.server_id == 5400
    assert settings.connect_timeout_ms == 20_000
    assert settings.heartbeat_ms == 500
    assert settings.startup is StartupMode.LATEST
    assert "' p '" not in repr(settings)
    assert MySqlSettings.of(NEEDED).tables == ".*"


def test_a_server_id_without_a_setting_stays_the_same():
    one, two = (MySqlSettings.of({**NEEDED, "table-name": name}) for name in ("a", "b"))
    assert one.server_id == MySqlSettings.of({**NEEDED, "table-name": "a"}).server_id
    assert one.server_id != two.server_id


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"hostnam": "x"}, "Did you mean 'hostname'"),
        ({"port": "x"}, "'port' is 'x'"),
        ({"port": "70000"}, "1 to 65535"),
        ({"server-id": "zero"}, "5400-5408"),
        ({"server-time-zone": "Mars/Base"}, "no zone"),
        ({"scan.startup.mode": "latest"}, "latest-offset"),
        ({"scan.startup.mode": "snapshot"}, "'snapshot' is not there"),
        ({"connect.timeout": "soon"}, "duration"),
        ({"table-name": "("}, "regular expression"),
        ({"hostname": ""}, "needs 'hostname'"),
    ],
)
def test_a_wrong_key_or_value_is_refused(conf, words):
    with pytest.raises(InvalidInputError, match="(?s)" + words.replace("(", "[(]")):
        MySqlSettings.of({**NEEDED, **conf})


@pytest.mark.parametrize(
    "key", ["debezium.snapshot.mode", "jdbc.properties.tinyInt1isBit",
            "scan.startup.specific-offset.skip-rows"],
)  # fmt: skip
def test_what_only_java_does_is_refused(key):
    with pytest.raises(UnsupportedError):
        MySqlSettings.of({**NEEDED, key: "1"})
