from __future__ import annotations

import pickle

import pytest

from tidelake.cdc.postgres import PostgresSettings
from tidelake.cdc.postgres.position import LogPosition
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError

CONF = {
    "hostname": "db",
    "username": "u",
    "password": "s3cret",
    "database-name": "d",
    "slot.name": "s",
}


def test_defaults():
    settings = PostgresSettings.of(CONF)
    assert (settings.port, settings.publication, settings.startup_mode) == (5432, "s", "initial")
    assert settings.reads(SourceName("d", "public", "anything"))
    assert not settings.reads(SourceName("d", "other", "anything"))


def test_patterns_are_of_whole_names():
    settings = PostgresSettings.of({**CONF, "table-name": "a.*|b", "schema-name": "s_[0-9]+"})
    assert settings.reads(SourceName("d", "s_12", "abc"))
    assert not settings.reads(SourceName("d", "s_12", "bc"))
    assert not settings.reads(SourceName("d", "s_", "b"))


def test_the_password_is_never_shown():
    settings = PostgresSettings.of(CONF)
    assert "s3cret" not in f"{settings} {settings!r}"
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host-name": "x"}, "Did you mean 'hostname'"),
        ({"slotname": "x"}, "Did you mean 'slot.name'"),
        ({"hostname": ""}, "need 'hostname'"),
        ({"decoding.plugin.name": "decoderbufs"}, "pgoutput"),
        ({"slot.name": "My-Slot"}, "cannot be a slot's name"),
        ({"port": "high"}, "not a whole number"),
        ({"port": "70000"}, "must be 1 to 65535"),
        ({"table-name": "("}, "not a regular expression"),
        ({"slot.failover": "maybe"}, "not true or false"),
        ({"scan.startup.mode": "snapshot"}, "'snapshot' is not there"),
        ({"scan.startup.mode": "timestamp"}, "use initial, latest-offset"),
    ],
)
def test_bad_keys_and_values_are_refused(change, said):
    with pytest.raises(InvalidInputError, match=said) as raised:
        PostgresSettings.of({**CONF, **change})
    assert "s3cret" not in str(raised.value)


def test_positions_are_in_the_order_of_the_log():
    texts = ["0/FF", "0/FF:1", "0/FF:12", "0/100", "1/0", "A/0:3"]
    positions = [LogPosition.parse(text) for text in texts]
    assert positions == sorted(positions)
    assert [str(position) for position in positions] == texts
    for text in ("", "12", "0/XY", "0/1:", "0/123456789"):
        with pytest.raises(InvalidInputError):
            LogPosition.parse(text)
