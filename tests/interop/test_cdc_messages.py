"""Each message of Paimon's own tests of change events gives the same rows.

The messages stand in Paimon's sources, which no package has: name a checkout of them.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from interop.cdc_messages import FORMATS, changes, fitting, messages
from tidelake.cdc.kafka.formats.debezium_json import DebeziumJson
from tidelake.cdc.kafka.formats.rules import RULES, RuledJson
from tidelake.cdc.kafka.messages import MessageBatch
from tidelake.cdc.kafka.row_changes import Tables, row_changes

SOURCES = "TIDELAKE_PAIMON_SOURCES"
FOLDER = "paimon-flink/paimon-flink-cdc/src/test/resources/kafka"
SHOWN = {0: "+I", 2: "+U", 3: "-D"}
LEAST = 296
"""Messages of these formats in the sources of 2026."""


@pytest.fixture(scope="module")
def folder():
    if SOURCES not in os.environ:
        pytest.skip(f"no sources of Paimon: {SOURCES}=<a checkout>")
    return Path(os.environ[SOURCES]) / FOLDER


def decoded(form, message, key):
    reader = DebeziumJson() if form == "debezium" else RuledJson(RULES[FORMATS[form]])
    batch = MessageBatch.of_values([message.encode()], [key and key.encode()])
    found = []
    for one in reader.events(batch).tables:
        part = row_changes(one, batch, Tables())
        assert not part.rejected
        kinds = [SHOWN[kind] for kind in part.kinds.tolist()]
        found += [(part.table, *row) for row in zip(kinds, part.rows.to_pylist(), strict=True)]
    return found


def compare(form, message, key):
    """Compare one message; gives whether it has rows, and is no key."""
    document = json.loads(message, parse_float=Decimal)
    wanted = changes(form, document)
    if wanted is None:
        return False
    found = decoded(form, message, key)
    assert [kind for _, kind, _ in found] == [kind for _, kind, _ in wanted]
    types = document.get("mysqlType") or {}
    for (table, _, row), (name, _, sent) in zip(found, wanted, strict=True):
        assert name in {None, table.name.table}
        assert row.keys() == sent.keys()
        for column, value in row.items():
            if not is_geometry(value):  # by tests of its own, from the same bytes
                native = types.get(column) or ""
                assert fitting(value, sent[column], native), (column, value, sent[column])
    return True


def is_geometry(value):
    return isinstance(value, str) and '"srid":' in value


def test_each_message_of_paimons_tests_gives_the_same_rows(folder):
    count = 0
    for form in FORMATS:
        for path in sorted((folder / form).rglob("*.txt")):
            key = None
            for message in messages(path):
                try:
                    is_value = compare(form, message, key)
                except AssertionError as error:
                    error.add_note(f"{path.relative_to(folder)}: {message[:300]}")
                    raise
                key = None if is_value else message
                count += is_value
    assert count >= LEAST
