"""Schema files are written once each; the newest is found without a hint."""

import json
from pathlib import Path

import pytest
from unit.metadata.made import PATHS, fixture_tables

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import SMALL_FILE_BYTES_MAX, MemoryFileIO
from tidelake.metadata import SchemaLog
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.json_checksum import check_and_drop

GOLDEN = Path(__file__).parents[3] / "golden" / "schema.json"


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


def test_a_file_too_large_for_a_schema_is_refused():
    fileio = MemoryFileIO()
    fileio.write_once(PATHS.schema(0), b" " * (SMALL_FILE_BYTES_MAX + 1))
    with pytest.raises(CorruptError, match="schema/schema-0 has 16777217 bytes") as caught:
        SchemaLog(fileio, PATHS).load(0)
    assert caught.value.kind == "file_too_large"


def _changed(change):
    document = json.loads(schema().to_json())
    document.pop("tidelake.checksum")
    change(document["fields"])
    fileio = MemoryFileIO()
    fileio.write_once(PATHS.schema(0), json.dumps(document).encode())
    return SchemaLog(fileio, PATHS)


def _row(*fields):
    kinds = [{"id": i, "name": n, "type": "INT"} for i, n in fields]
    return {"type": "ARRAY", "element": {"type": "ROW", "fields": kinds}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f[3].update(name="amount"), "2 columns are called 'amount'"),
        (lambda f: f[3].update(id=2), "2 columns have id '2' .'amount', 'note'."),
        (lambda f: f[5].update(type=_row((6, "x"), (7, "x"))), "fields of one row are called 'x'"),
        (lambda f: f[5].update(type=_row((6, "x"), (6, "y"))), "have id '6' .'x', 'y'."),
    ],
)
def test_a_schema_that_has_a_name_or_an_id_twice_is_refused(change, words):
    with pytest.raises(CorruptError, match="schema/schema-0 cannot be read: .*" + words):
        _changed(change).load(0)


def test_names_that_differ_in_case_and_ids_of_another_row_are_read():
    """Java writes the first, and looks fields of a row up within the row."""
    assert _changed(lambda f: f[3].update(name="AMOUNT")).load(0).field_names[3] == "AMOUNT"
    assert _changed(lambda f: f[5].update(type=_row((0, "x"), (1, "y")))).load(0).id == 0
