"""The columns that a primary-key table's files have beside the table's own."""

from __future__ import annotations

from unit.format.rows import field

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD, is_system_name, key_field, kv_fields
from tidelake.types import TableSchema


def test_ids_are_those_of_paimon():
    assert key_field(field(5, "k", "INT NOT NULL")).id == 1073741828
    assert (SEQUENCE_FIELD.id, SEQUENCE_FIELD.name) == (2147483646, "_SEQUENCE_NUMBER")
    assert (KIND_FIELD.id, KIND_FIELD.name) == (2147483645, "_VALUE_KIND")
    assert str(SEQUENCE_FIELD.type) == "BIGINT NOT NULL"
    assert str(KIND_FIELD.type) == "TINYINT NOT NULL"


def test_a_file_holds_trimmed_keys_then_system_columns_then_all_columns():
    fields = (
        field(0, "p", "STRING NOT NULL"),
        field(1, "k", "INT NOT NULL"),
        field(2, "v", "STRING"),
    )
    schema = TableSchema(0, fields, 2, partition_keys=("p",), primary_keys=("p", "k"))
    names = [f.name for f in kv_fields(schema)]
    assert names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "k", "v"]


def test_only_our_names_are_system_names():
    assert is_system_name("_KEY_k")
    assert is_system_name("_VALUE_KIND")
    assert not is_system_name("k")
    assert not is_system_name("_key_k")
