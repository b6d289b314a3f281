"""Nested columns in ORC and Avro files of Java 1.3.1: read as it reads them, schemas the same."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext

import pytest
from unit.format.test_nested_orc_avro import (
    SCHEMA_FIELDS,
    SCHEMAS,
    avro_fields,
    map_of,
    orc_lines,
    row,
)

import tidelake
from interop.case import row_cells
from interop.cases import NESTED, nested_rows
from interop.cells import difference, table_cells
from interop.make import rows_to_arrow
from interop.peer import JavaPeer, PeerError
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.data_type import type_to_json

pytestmark = pytest.mark.oracle
FORMATS = ("orc", "avro")


def columns_of(types):
    """Columns as Java takes them: every field of a row with an id of its own."""
    ids = iter(range(len(types), 10_000))

    def numbered(form):
        if isinstance(form, str):
            return form
        if form["type"].startswith("ROW"):
            fields = [{**f, "id": next(ids), "type": numbered(f["type"])} for f in form["fields"]]
            return {**form, "fields": fields}
        return {k: v if k == "type" else numbered(v) for k, v in form.items()}

    return [[name, numbered(form)] for name, form in types.items()]


def java_table(peer, place, types, *, primary_keys=(), **options):
    peer.do(
        "create",
        place,
        columns=columns_of(types),
        primary_keys=list(primary_keys),
        partition_keys=[],
        options={key.replace("_", "."): value for key, value in options.items()},
    )
    return tidelake.open(place.parents[1]).table(f"db.{place.name}")


def write_by_java(peer, place, types, rows):
    peer.do("write", place, rows=[["+I", *cells] for cells in row_cells(types, rows)])


def data_file(table_place):
    (path,) = table_place.glob("bucket-*/data-*")
    return path.read_bytes()


@pytest.mark.parametrize("file_format", FORMATS)
def test_tables_of_java_are_read_and_written_on(peer, tmp_path, file_format):
    place = tmp_path / "w/db.db/t"
    table = java_table(peer, place, NESTED, primary_keys=["k"], file_format=file_format, bucket="1")
    model = {}
    for version, keys in enumerate((range(60), range(0, 60, 3), range(50, 70))):
        rows = nested_rows(version, keys)
        if version == 1:  # ours between two of Java's
            table.write(rows_to_arrow(to_arrow_schema(table.table_schema.fields), rows))
        else:
            write_by_java(peer, place, NESTED, rows)
        model |= {row[0]: row for row in rows}
        expected = row_cells(NESTED, list(model.values()))
        found = table.to_arrow()
        assert difference(expected, table_cells(found), found.column_names) is None
        columns, theirs = peer.read(place)
        assert difference(expected, theirs, columns) is None
    assert table.count(where="point is null") == sum(r[6] is None for r in model.values())


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_schemas_in_files_of_java_are_the_golden_ones(peer, tmp_path, file_format):
    place = tmp_path / "w/db.db/t"
    forms = [[f.name, type_to_json(f.type)] for f in SCHEMA_FIELDS]
    peer.do(
        "create",
        place,
        columns=forms,
        primary_keys=[],
        partition_keys=[],
        options={"file.format": file_format},
    )
    peer.do("write", place, rows=[["+I", *[None] * len(forms)]])
    java_file = set(place.glob("bucket-*/data-*"))
    table = tidelake.open(place.parents[1]).table("db.t")
    table.write([dict.fromkeys(table.schema.names)])
    own_file = set(place.glob("bucket-*/data-*")) - java_file
    lines_of = avro_fields if file_format == "avro" else orc_lines
    (java, ours) = (lines_of(files.pop().read_bytes()) for files in (java_file, own_file))
    assert ours == java
    # Java numbers the fields inside rows itself, and only ORC's schema has their numbers
    shape = re.compile(r"^ *\d+" if file_format == "orc" else r"(?!)", re.MULTILINE)
    assert shape.sub("", java) == shape.sub("", SCHEMAS[file_format])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_instants_inside_orc_files_of_java_in_any_zone_are_the_true_ones(
    java, tmp_path, monkeypatch, zone
):
    monkeypatch.setenv("TZ", zone)
    types = {
        "k": "INT NOT NULL",
        "t": "TIMESTAMP(3)",
        "at": {"type": "ARRAY", "element": "TIMESTAMP_LTZ(6)"},
        "r": row(
            (0, "wall", "TIMESTAMP(3)"), (0, "by", map_of("INT NOT NULL", "TIMESTAMP_LTZ(3)"))
        ),
    }
    # hours before and after 1970, where the zone decides whether a time is before
    moments = [
        s * 10**9 for s in (0, 1_700_000_000, 1_711_846_800, 10_000, -10_000, -(10**6), 60_000)
    ]
    rows = [
        (i, m + 500_000_000, [m, None], (m + 10**6, [(1, m), (2, None)]) if i else None)
        for i, m in enumerate(moments)
    ]
    place = tmp_path / "w/db.db/t"
    with JavaPeer(java) as peer:
        table = java_table(peer, place, types, file_format="orc")
        write_by_java(peer, place, types, rows)
        columns, theirs = peer.read(place)
    found = table.to_arrow()
    assert difference(theirs, table_cells(found), columns) is None
    assert difference(row_cells(types, rows), table_cells(found), columns) is None


REFUSED = {
    "orc": {"VARIANT": "Unsupported type: VARIANT"},
    "avro": {
        "VARIANT": "Unsupported to derive Schema for type: VARIANT",
        json.dumps({"type": "MULTISET", "element": "INT"}): "ClassCastException|cannot be cast",
    },
}


@pytest.mark.parametrize(
    ("file_format", "type_text"), [(f, t) for f in FORMATS for t in REFUSED[f]]
)
def test_what_is_refused_java_refuses_too(peer, tmp_path, file_format, type_text):
    form = json.loads(type_text) if type_text.startswith("{") else type_text
    options = {"file.format": file_format}
    with pytest.raises(tidelake.UnsupportedError, match="'c'"):
        tidelake.open(tmp_path / "ours").create_table("db.t", {"c": form}, options=options)
    place = tmp_path / "w/db.db/t"
    takes_it = peer.version != "java-1.3" and type_text.startswith("{")  # Java 2.1, as a map
    refuses = pytest.raises(PeerError, match=REFUSED[file_format][type_text])
    with nullcontext() if takes_it else refuses:
        # tables with what a file cannot hold are refused at once, or when rows come
        peer.do(
            "create",
            place,
            columns=[["c", form]],
            primary_keys=[],
            partition_keys=[],
            options=options,
        )
        peer.do("write", place, rows=[["+I", None]])
