import json
import pickle

import pytest

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.types import DataField, TableSchema, parse_type
from tidelake.types.json_checksum import check_and_drop

SCHEMA = TableSchema(
    id=3,
    fields=(
        DataField(0, "day", parse_type("DATE NOT NULL")),
        DataField(1, "id", parse_type("BIGINT NOT NULL"), description="the key"),
        DataField(7, "v", parse_type("DOUBLE"), default_value="0"),
    ),
    highest_field_id=9,
    partition_keys=("day",),
    primary_keys=("day", "id"),
    options={"bucket": "4"},
    comment="measured",
    time_ms=1_700_000_000_000,
)


def test_a_schema_comes_back_from_its_file():
    assert TableSchema.from_json(SCHEMA.to_json()) == SCHEMA
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA


def test_keys_of_a_partition_and_of_a_bucket():
    assert SCHEMA.trimmed_primary_keys == SCHEMA.bucket_keys == ("id",)
    other = TableSchema(0, SCHEMA.fields, 9, options={"bucket-key": "v , id"})
    assert other.bucket_keys == ("v", "id")


def test_an_unknown_column_is_refused_with_near_names():
    assert SCHEMA.field("v").id == 7
    with pytest.raises(NotFoundError, match="Did you mean 'day'"):
        SCHEMA.field("dya")


def test_schemas_of_java_are_written_as_they_were_read(oracle_dir):
    paths = sorted((oracle_dir / "fixtures").glob("**/schema/schema-*"))
    assert len(paths) > 30
    for path in paths:
        written = TableSchema.from_json(path.read_bytes(), path=str(path)).to_json()
        assert check_and_drop(json.loads(written)) == json.loads(path.read_bytes()), path


def changed(**parts):
    return json.dumps({**check_and_drop(json.loads(SCHEMA.to_json())), **parts})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "\ud800",
        b"\xff\xfe",
        "[" * 5000,
        changed(fields=[{"id": 0, "name": "a"}]),
        changed(fields=[{"id": 0, "name": "a", "type": "NOTHING"}]),
        changed(fields=None),
        changed(id="x"),
        changed(options=5),
        changed(version="x"),
    ],
)
def test_damaged_files_are_refused_by_name(text):
    with pytest.raises(CorruptError):
        TableSchema.from_json(text, path="schema-3")


def test_a_later_version_is_refused():
    with pytest.raises(UnsupportedError, match="version 4"):
        TableSchema.from_json(changed(version=4))


def test_defaults_of_old_versions_are_filled_in():
    assert TableSchema.from_json(changed(version=1, options={})).options == {
        "bucket": "1",
        "file.format": "orc",
    }
    assert TableSchema.from_json(changed(version=2, options={"bucket": "2"})).options == {
        "bucket": "2",
        "file.format": "orc",
    }


@pytest.mark.parametrize(
    ("form", "name"),
    [("BLOB", "BLOB"), ({"type": "VECTOR", "element": "FLOAT", "length": 3}, "VECTOR")],
)
def test_a_column_of_a_later_paimons_type_is_named_with_its_file(form, name):
    field = {"id": 0, "name": "picture", "type": form}
    text = {
        "version": 3,
        "id": 0,
        "fields": [field],
        "highestFieldId": 0,
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {},
    }
    match = f"Column 'picture': Type '{name}' is not supported .* Schema file /t/schema-0 has it"
    with pytest.raises(UnsupportedError, match=match):
        TableSchema.from_json(json.dumps(text), path="/t/schema-0")
