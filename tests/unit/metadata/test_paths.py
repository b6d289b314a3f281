"""Directory names are Java's to the character; names from metadata never lead out of the table."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import (
    EMPTY_ROW,
    PARTITIONED,
    PATHS,
    UNHURRIED,
    data_file,
    fixture_tables,
    partition,
)

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata import TablePaths
from tidelake.metadata.partition_name import escape_name, partition_text
from tidelake.types import DataField, TableSchema, parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "partition_names.txt"


def golden_cases():
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            type_text, value, legacy, plain = (part.strip() for part in line.split("|"))
            yield type_text, eval(value, {"nan": float("nan"), "inf": float("inf")}), legacy, plain


@pytest.mark.parametrize(("type_text", "value", "legacy", "plain"), list(golden_cases()))
def test_a_value_is_spelled_as_the_golden_file_says(type_text, value, legacy, plain):
    data_type = parse_type(type_text)
    for expected, is_legacy in ((legacy, True), (plain, False)):
        if expected == "refused":
            with pytest.raises(UnsupportedError, match="cannot"):
                partition_text(value, data_type, default_name="D", legacy=is_legacy)
        else:
            text = partition_text(value, data_type, default_name="D", legacy=is_legacy)
            assert escape_name(text) == expected


def test_a_no_break_space_is_not_blank_to_java():
    text = parse_type("STRING")
    assert partition_text("\xa0", text, default_name="D") == "\xa0"
    assert partition_text("\u3000\x1f", text, default_name="D") == "D"


def test_the_directories_of_a_java_table_are_found(oracle_dir):
    tables = {name: paths for name, _, paths in fixture_tables(oracle_dir)}
    paths = tables["warehouse_1_3_1.db/append_nullpart"]
    on_disk = {str(p.parent.relative_to(paths.location)) for p in
               Path(paths.location).glob("**/bucket-0")}  # fmt: skip
    ms = 1_700_000_000_123 * 1_000_000
    values = [
        (None, None, None),
        ("a=b/c%d'[x]{y}^~中", False, 0),
        ("  ", True, ms),
        ("", False, 0),
    ]
    assert {
        paths.partition_path(serialize_row(v, paths.partition_types)) for v in values
    } == on_disk


@UNHURRIED
@given(st.text(max_size=20))
def test_an_escaped_name_is_one_name_and_tells_values_apart(text):
    escaped = escape_name(text)
    assert "/" not in escaped
    assert not any(ord(c) < 0x20 for c in escaped)
    unescaped, i = [], 0
    while i < len(escaped):
        if escaped[i] == "%":
            unescaped.append(chr(int(escaped[i + 1 : i + 3], 16)))
            i += 3
        else:
            unescaped.append(escaped[i])
            i += 1
    assert "".join(unescaped) == text


def test_paths_are_those_of_paimon():
    assert PATHS.schema(0) == "/wh/db.db/t/schema/schema-0"
    assert PATHS.snapshot(12) == "/wh/db.db/t/snapshot/snapshot-12"
    assert PATHS.manifest("manifest-a-0") == "/wh/db.db/t/manifest/manifest-a-0"
    assert PATHS.tag("v1") == "/wh/db.db/t/tag/tag-v1"
    assert PATHS.bucket_dir(EMPTY_ROW, 3) == "/wh/db.db/t/bucket-3"
    assert PATHS.bucket_dir(EMPTY_ROW, -2) == "/wh/db.db/t/bucket-postpone"
    place = partition("2024/01"), 7
    assert PARTITIONED.data_file(*place, "d.parquet") == (
        "/wh/db.db/t/p=2024%2F01/bucket-7/d.parquet"
    )
    assert PARTITIONED.data_file(*place, data_file("d")) == "/wh/db.db/t/p=2024%2F01/bucket-7/d"
    assert PARTITIONED.partition_values(place[0]) == ("2024/01",)


def test_paths_follow_the_table_s_options():
    fields = (DataField(0, "k=", parse_type("INT")), DataField(1, "d", parse_type("DATE")))
    schema = TableSchema(0, fields, 1, partition_keys=("d", "k="))
    plain = TablePaths.of("/t", schema)
    row = serialize_row((0, None), plain.partition_types)
    assert plain.partition_path(row) == "d=0/k%3D=__DEFAULT_PARTITION__"
    options = {"partition.legacy-name": "false", "partition.default-name": "none"}
    named = TablePaths.of("/t", TableSchema(0, fields, 1, ("d", "k="), options=options))
    assert named.partition_path(row) == "d=1970-01-01/k%3D=none"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "a\0b", "..a", "x" * 256, "é" * 200]
)
def test_a_name_that_is_none_is_damage(name):
    for path in (PATHS.manifest, PATHS.tag, lambda n: PATHS.data_file(EMPTY_ROW, 0, n)):
        with pytest.raises(CorruptError, match="not a plain file name"):
            path(name)
    with pytest.raises(CorruptError, match="not a plain file name"):
        PATHS.data_file(EMPTY_ROW, 0, data_file(name))


def test_a_file_outside_the_table_is_refused():
    with pytest.raises(UnsupportedError, match="outside the table"):
        PATHS.data_file(EMPTY_ROW, 0, data_file("d", external_path="file:/elsewhere/d"))


def test_bytes_that_are_no_partition_are_damage():
    with pytest.raises(CorruptError):
        PARTITIONED.partition_values(b"\0\0\0\1")


def test_a_day_that_java_cannot_name_is_refused():
    with pytest.raises(UnsupportedError, match="outside the years"):
        partition_text(2_932_897, parse_type("DATE"), default_name="D", legacy=False)
