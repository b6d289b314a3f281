"""Nested columns in ORC and Avro files: values, schemas on disk, old files, hostile ones."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from sizes import examples
from unit.format.rows import SCALARS, batch_of, field, some_value_of, write

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer, read_batches
from tidelake.types import TypeRoot
from tidelake.types.arrow import to_arrow_schema

FORMATS = ("orc", "avro")
GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMAS = {
    "orc": (GOLDEN / "orc_schema_nested.txt").read_text(),
    "avro": (GOLDEN / "avro_schema_nested.txt").read_text(),
}
"""Of files of Java 1.3.1: ``tests/interop/test_nested_files.py``."""
INSIDE = [t for t in SCALARS if "ZONE" not in t]
KEYS = ("STRING", "INT", "DATE", "DECIMAL(38, 10)")


def path_of(file_format):
    return f"/t/bucket-0/data-1.{file_format}"


def written(rows, fields, file_format):
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(fields))
    return write(batch, fields, path=path_of(file_format), options=FormatOptions(file_format))[0]


def read(files, fields, file_format, **options):
    batches = list(read_batches(files, path_of(file_format), fields, **options))
    return [row for batch in batches for row in batch.to_pylist()]


def array(element):
    return {"type": "ARRAY", "element": element}


def map_of(key, value):
    return {"type": "MAP", "key": key, "value": value}


def row(*fields, null=""):
    parts = [{"id": i, "name": name, "type": form} for i, name, form in fields]
    return {"type": f"ROW{null}", "fields": parts}


def numbered(form, next_id):
    """A type whose rows have ids that come once, as in a table."""
    if isinstance(form, str):
        return form
    if form["type"].startswith("ROW"):
        parts = [{**p, "id": next(next_id), "type": numbered(p["type"], next_id)}
                 for p in form["fields"]]  # fmt: skip
        return {**form, "fields": parts}
    keys = ("element", "key", "value")
    return {k: numbered(v, next_id) if k in keys else v for k, v in form.items()}


def inner_types(children):
    nullable = st.sampled_from(["", " NOT NULL"])
    rows = st.builds(
        lambda parts, null: row(*[(0, f"f{i}", p) for i, p in enumerate(parts)], null=null),
        st.lists(children, min_size=1, max_size=3),
        nullable,
    )
    return st.one_of(
        st.builds(array, children),
        st.builds(map_of, st.sampled_from(KEYS).map(lambda k: k + " NOT NULL"), children),
        st.builds(lambda e: {"type": "MULTISET", "element": e}, st.just("STRING")),
        rows,
    )


LEAVES = st.builds(str.__add__, st.sampled_from(INSIDE), st.sampled_from(["", " NOT NULL"]))
TYPES = inner_types(st.recursive(LEAVES, inner_types, max_leaves=4))


def whole(value, form):
    """What ORC holds: no times before 1970 finer than Java reads, CHAR without spaces behind."""
    if isinstance(value, datetime.datetime):
        day = datetime.datetime(1970, 1, 1)
        # beyond these years an ORC file's nested columns are refused
        value = value.replace(year=1700 + value.year % 500)
        return value if value >= day else value.replace(microsecond=0, second=0)
    return value.rstrip(" ") if form.startswith("CHAR") and value is not None else value


def value_strategy(data_type, file_format):
    """Python values of a type; maps are lists of pairs, no key twice."""
    root, inside = data_type.root, data_type.children
    if root is TypeRoot.ARRAY:
        values = st.lists(value_strategy(inside[0], file_format), max_size=4)
    elif root in {TypeRoot.MAP, TypeRoot.MULTISET}:
        keys = value_strategy(inside[0].not_null(), file_format)
        counts = st.integers(1, 9)
        items = counts if root is TypeRoot.MULTISET else value_strategy(inside[1], file_format)
        values = st.lists(st.tuples(keys, items), max_size=4, unique_by=lambda e: e[0])
    elif root is TypeRoot.ROW:
        names = [name for _, name in data_type.child_fields]
        parts = [value_strategy(t, file_format) for t in inside]
        values = st.fixed_dictionaries(dict(zip(names, parts, strict=True)))
    else:
        form = str(data_type.as_nullable())
        values = some_value_of(form)
        if file_format == "orc":
            values = values.map(lambda v: whole(v, form))
    return st.none() | values if data_type.nullable else values


@pytest.mark.parametrize("file_format", FORMATS)
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_nested_values_come_back(file_format, data):
    count = data.draw(st.integers(1, 3))
    next_id = iter(range(100, 1000))
    forms = [numbered(data.draw(TYPES), next_id) for _ in range(count)]
    fields = [field(i, f"c{i}", form) for i, form in enumerate(forms)]
    rows = data.draw(st.integers(1, 9))
    columns = [
        data.draw(st.lists(value_strategy(f.type, file_format), min_size=rows, max_size=rows))
        for f in fields
    ]
    batch = batch_of(fields, columns)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, rows)] * 2)))
    batch = batch.slice(first, last - first)  # children of a slice begin elsewhere
    files = MemoryFileIO()
    path, options = path_of(file_format), FormatOptions(file_format)
    out = open_writer(files, path, fields, options, stats_columns=frozenset())
    out.write(pa.Table.from_batches([batch, batch]))
    out.close()
    for known in (fields, ()):
        got = list(read_batches(files, path, fields, file_fields=known, batch_rows=4))
        for read_batch in got:
            read_batch.validate(full=True)
        found = [repr(row) for b in got for row in b.to_pylist()]
        assert found == [repr(row) for row in batch.to_pylist()] * 2


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("first", [0, 1, 8, 39])
def test_the_children_of_a_slice_are_those_of_its_rows(file_format, first):
    point = row((1, "x", "DOUBLE"), (2, "y", "INT NOT NULL"))
    forms = (point, array(point), map_of("INT NOT NULL", point), row((3, "p", point)))
    fields = [field(i, f"c{i}", form) for i, form in enumerate(forms)]
    points = [None if i % 7 == 1 else {"x": None if i % 3 else i / 2, "y": i} for i in range(90)]
    columns = [
        points,
        [None if i % 5 == 0 else points[i : i + i % 3] for i in range(90)],
        [None if i % 6 == 0 else list(enumerate(points[i : i + i % 4])) for i in range(90)],
        [None if i % 8 == 0 else {"p": points[i]} for i in range(90)],
    ]
    whole = batch_of(fields, columns)
    part = whole.slice(first, 41)
    options = FormatOptions(file_format)
    files, _ = write(part, fields, path=path_of(file_format), options=options)
    assert read(files, fields, file_format) == part.to_pylist()


OLD = (
    field(0, "c", row((1, "a", "INT"), (2, "b", array(row((3, "x", "INT"), (4, "y", "STRING")))))),
    field(5, "m", map_of("INT NOT NULL", row((6, "p", "INT"), (7, "q", "CHAR(3)")))),
)
ROWS = [
    {"c": {"a": 1, "b": [{"x": 2, "y": "z"}, None]}, "m": [(1, {"p": 5, "q": "ab"}), (2, None)]},
    {"c": None, "m": None},
    {"c": {"a": None, "b": None}, "m": []},
]


@pytest.mark.parametrize("file_format", FORMATS)
def test_fields_of_rows_are_found_by_id_in_old_files(file_format):
    new = (
        field(5, "renamed", map_of("BIGINT NOT NULL", row((7, "p", "CHAR(3)"), (9, "n", "INT")))),
        field(
            0, "c",
            row((2, "list", array(row((4, "x", "STRING"), (3, "y", "BIGINT")))), (8, "a", "INT")),
        ),
    )  # fmt: skip
    assert read(written(ROWS, OLD, file_format), new, file_format, file_fields=OLD) == [
        {
            "renamed": [(1, {"p": "ab", "n": None}), (2, None)],
            "c": {"list": [{"x": "z", "y": 2}, None], "a": None},
        },
        {"renamed": None, "c": None},
        {"renamed": [], "c": {"list": None, "a": None}},
    ]


@pytest.mark.parametrize("file_format", FORMATS)
def test_another_kind_of_column_is_refused(file_format):
    files = written(ROWS, OLD, file_format)
    for form in (array("INT"), "INT", map_of("INT", "INT"), row((1, "a", "INT"))):
        with pytest.raises((CorruptError, UnsupportedError), match="'c'"):
            read(files, (field(0, "c", form),), file_format)
    changed = (field(0, "c", row((1, "a", "INT"), (2, "b", array(row((3, "x", "INT")))))),)
    with pytest.raises(CorruptError, match="'c'"):
        read(files, changed, file_format, file_fields=changed)


INTS = map_of("INT", "INT")
INNER = row((10, "y", array("TIMESTAMP(3)")))
SCHEMA_FIELDS = (
    field(0, "a", array("INT NOT NULL")),
    field(1, "aa", array(array(array("DATE")))),
    field(2, "m", map_of("STRING NOT NULL", array("DECIMAL(20, 2)"))),
    field(3, "ms", {"type": "MULTISET", "element": "STRING NOT NULL"}),
    field(4, "r", row((11, "x", INNER), (12, "z", "TINYINT NOT NULL"))),
    field(5, "ar", array(row((13, "p", "TIME(3)"), (14, "q", INTS), null=" NOT NULL"))),
    field(6, "mm", map_of("STRING", INTS)),
)


def ids_of(found, depth=0):
    """The tree of an ORC file as Arrow shows it, with the ids."""
    kind = found.type
    inside = (
        [kind.key_field, kind.item_field]
        if pa.types.is_map(kind)
        else ([kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else [])
    )
    word = str(kind).partition("<")[0] if inside else str(kind)
    yield f"{found.metadata[b'paimon.id'].decode():>10} {'  ' * depth}{found.name} {word}"
    for child in inside:
        yield from ids_of(child, depth + 1)


def orc_lines(file_bytes):
    schema = orc.ORCFile(pa.BufferReader(file_bytes)).schema
    return "".join(f"{line}\n" for found in schema for line in ids_of(found))


def avro_fields(file_bytes):
    (_, text) = file_bytes.split(b"avro.schema", 1)
    text = text[text.index(b"{") :]
    return json.dumps(json.JSONDecoder().raw_decode(text.decode("latin-1"))[0], indent=1) + "\n"


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_schemas_on_disk_are_those_of_java(file_format):
    files = written([], SCHEMA_FIELDS, file_format)
    found = files.read_bytes(path_of(file_format))
    text = avro_fields(found) if file_format == "avro" else orc_lines(found)
    assert text == SCHEMAS[file_format]


def test_a_record_that_comes_twice_is_named_the_second_time():
    inner = row((2, "c", "INT"))
    twice = (field(0, "a_b", inner), field(1, "a", row((3, "b", inner))))
    rows = [{"a_b": {"c": 1}, "a": {"b": {"c": 2}}}, {"a_b": None, "a": {"b": None}}]
    files = written(rows, twice, "avro")
    text = avro_fields(files.read_bytes(path_of("avro")))
    assert text.count('"record_a_b"') == 2
    assert read(files, twice, "avro") == rows
    other = (field(0, "a_b", inner), field(1, "a", row((3, "b", row((4, "d", "INT"))))))
    with pytest.raises(UnsupportedError, match="would be named 'record_a_b'"):
        written([], other, "avro")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (array("TIMESTAMP(9)"), "finer than microseconds"),
        (row((1, "x", "TIME(6)")), "finer than milliseconds"),
        (row((1, "x y", "INT")), "the name 'x y' inside it"),
        ({"type": "MULTISET", "element": "INT"}, "multiset of values other than text"),
        (array(row()), "without fields"),
    ],
)
def test_what_avro_cannot_hold_inside_is_refused(form, words):
    with pytest.raises(UnsupportedError, match=words):
        written([], [field(0, "c", form)], "avro")


def test_times_inside_orc_files_are_those_that_java_reads_right():
    early = datetime.datetime(1969, 12, 31, 23, 59, 58, 500)
    fields = [field(0, "c", array("TIMESTAMP(6)"))]
    with pytest.raises(UnsupportedError, match="before 1970"):
        written([{"c": [None, early]}], fields, "orc")
    far = [{"c": [datetime.datetime(9999, 12, 31)]}, {"c": None}]
    files = written(far, [*fields, field(1, "t", "TIMESTAMP(6)")], "orc")
    assert read(files, [field(1, "t", "TIMESTAMP(6)")], "orc") == [{"t": None}] * 2
    with pytest.raises(UnsupportedError, match=r"'c' .* outside the years 1677 to 2262"):
        read(files, [*fields, field(1, "t", "TIMESTAMP(6)")], "orc")


def hostile(schema, block, count=1):
    """An Avro file of one block, whatever its schema says."""
    out = io.BytesIO()
    out.write(b"Obj\x01\x02\x16avro.schema")
    text = json.dumps(schema).encode()
    fastavro.schemaless_writer(out, "bytes", text)
    out.write(b"\0" + bytes(16))
    for number in (count, len(block)):
        fastavro.schemaless_writer(out, "long", number)
    out.write(block + bytes(16))
    files = MemoryFileIO()
    files.write_once(path_of("avro"), out.getvalue())
    return files


def deep(levels):
    return "int" if not levels else {"type": "array", "items": deep(levels - 1)}


def doubled(levels):
    """Each record holds the one before twice, by its name."""
    kind = "int"
    for level in range(levels):
        parts = [{"name": "a", "type": kind}]
        if level:
            parts.append({"name": "b", "type": f"r{level - 1}"})
        kind = {"type": "record", "name": f"r{level}", "fields": parts}
    return kind


MORE = {"name": "r", "type": {"type": "array", "items": "r"}}
ITSELF = {"type": "array", "items": {"type": "record", "name": "r", "fields": [MORE]}}


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
        {"type": "map", "values": {"type": "fixed", "name": "f", "size": 0}},
        ITSELF,
        deep(150),
        doubled(40),
        {"type": "enum", "name": "e", "symbols": ["A"]},
        {"type": "array"},
        {"type": 5},
    ],
)
def test_a_hostile_schema_is_damage_also_of_columns_that_are_not_read(kind):
    parts = [{"name": "c", "type": "int"}, {"name": "d", "type": kind}]
    schema = {"type": "record", "name": "record", "fields": parts}
    many = b"\x02" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(8)
    with pytest.raises(CorruptError, match=path_of("avro")):
        read(hostile(schema, many), [field(0, "c", "INT NOT NULL")], "avro")


@pytest.mark.parametrize("block", [b"\x02\x04\x02", b"\x02\x02\x04\0\0", b"\x03\x02\x02\x02\0"])
def test_lists_that_do_not_fill_their_block_are_damage(block):
    schema = {"type": "record", "name": "record", "fields": [
        {"name": "c", "type": ["null", {"type": "array", "items": "int"}]}]}  # fmt: skip
    with pytest.raises(CorruptError, match=path_of("avro")):
        read(hostile(schema, block), [field(0, "c", array("INT NOT NULL"))], "avro")
