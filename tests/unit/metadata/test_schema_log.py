"""Schema files are written once each; the newest is found without a hint."""

import json
from pathlib import Path

import pytest
from unit.metadata.made import PATHS, fixture_tables

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FaultMode, FaultyFileIO, MemoryFileIO
from tidelake.metadata import SchemaLog, schema_log
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.json_checksum import check_and_drop

GOLDEN = Path(__file__).parents[2] / "golden" / "schema.json"


def schema(schema_id=0):
    types = {
        "id": "BIGINT NOT NULL",
        "day": "DATE",
        "amount": "DECIMAL(10, 2)",
        "note": "STRING",
        "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "tags": {"type": "ARRAY", "element": "VARCHAR(10) NOT NULL"},
    }
    return TableSchema(
        id=schema_id,
        fields=tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(types.items())),
        highest_field_id=5,
        partition_keys=("day",),
        primary_keys=("day", "id"),
        options={"bucket": "4"},
        comment="orders",
        time_ms=1_700_000_000_000,
    )


def test_a_schema_is_written_as_the_golden_file_shows():
    fileio = MemoryFileIO()
    assert SchemaLog(fileio, PATHS).create(schema())
    assert fileio.read_bytes(PATHS.schema(0)).decode() + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_the_schemas_of_java_are_written_back_equal(oracle_dir):
    count = 0
    for _, fileio, paths in fixture_tables(oracle_dir):
        log = SchemaLog(fileio, paths)
        for schema_id in log.ids():
            document = json.loads(fileio.read_bytes(paths.schema(schema_id)))
            assert check_and_drop(json.loads(log.load(schema_id).to_json())) == document
            count += 1
    assert count > 30


def test_an_id_is_taken_once():
    log = SchemaLog(MemoryFileIO(), PATHS)
    assert log.latest() is None
    assert log.create(schema(0))
    assert not log.create(schema(0))
    assert log.create(schema(1))
    assert (log.ids(), log.latest_id(), log.latest().id) == ([0, 1], 1, 1)


def test_an_old_listing_does_not_hide_a_schema():
    inner = MemoryFileIO()
    for schema_id in range(3):
        SchemaLog(inner, PATHS).create(schema(schema_id))
    fileio = FaultyFileIO(inner, {1: FaultMode.EMPTY_LIST})
    assert SchemaLog(fileio, PATHS).latest_id() == 2


def test_a_missing_schema_s_message_says_which_are_there():
    log = SchemaLog(MemoryFileIO(), PATHS)
    log.create(schema(0))
    with pytest.raises(NotFoundError, match=r"no schema 4; it has \[0\]"):
        log.load(4)


def test_a_damaged_schema_is_named():
    fileio = MemoryFileIO()
    log = SchemaLog(fileio, PATHS)
    fileio.put_if_absent(PATHS.schema(0), b"{")
    fileio.put_if_absent(PATHS.schema(1), schema(0).to_json().encode())
    for schema_id in (0, 1):
        with pytest.raises(CorruptError, match=f"schema/schema-{schema_id}"):
            log.load(schema_id)


def test_a_file_too_large_for_a_schema_is_refused(monkeypatch):
    monkeypatch.setattr(schema_log, "JSON_BYTES_MAX", 10)
    log = SchemaLog(MemoryFileIO(), PATHS)
    log.create(schema(0))
    with pytest.raises(CorruptError, match="it is no schema"):
        log.load(0)
