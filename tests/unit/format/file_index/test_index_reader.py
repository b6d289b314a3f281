"""Reading with an index against reading without: no matching row is ever ruled out."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.format.file_index.golden_indexes import sections

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.format.file_index.container import head_size, serialize
from tidelake.format.file_index.index_reader import indexed_rows, list_indexes
from tidelake.format.file_index.index_writer import FileIndexWriter
from tidelake.options import Options
from tidelake.options.file_index import file_index_settings
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    StartsWith,
    evaluate,
)
from tidelake.types.values import storage_to_arrow

NAN = math.nan
SECOND = 1_000_000_000
TEXTS = ("", "a", "ab", "b", "é", "日本", "😀", "x" * 60)
FLOATS = (0.0, -0.0, NAN, -NAN, 1.5, -2.5, math.inf, -math.inf, 5e-324)
VALUES = {
    "BOOLEAN": (True, False),
    "TINYINT": (-128, -1, 0, 1, 127),
    "SMALLINT": (-32768, 0, 5, 32767),
    "INT": (-(2**31), -1, 0, 1, 2, 2**31 - 1),
    "BIGINT": (-(2**63), -1, 0, 1, 2**63 - 1),
    "FLOAT": tuple(struct.unpack("<f", struct.pack("<f", f))[0] for f in FLOATS),
    "DOUBLE": FLOATS,
    "DATE": (-(2**31), -1, 0, 19_000),
    "TIME(3)": (0, 1, 86_399_999),
    "DECIMAL(10, 2)": (-9_999_999_999, -150, 0, 1, 9_999_999_999),
    "TIMESTAMP(3)": (-SECOND, 0, 1_000_000, SECOND),
    "TIMESTAMP(6)": (-1_000, 0, 1_000, SECOND + 1_000),
    "TIMESTAMP(9)": (-1, 0, 1, 999, 1_000, 1_001, SECOND + 7),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (-1_000, 0, SECOND),
    "STRING": TEXTS,
    "CHAR(3)": ("a", "ab", "abc"),
    "BYTES": (*(t.encode() for t in TEXTS), b"\xff" * 33),
}
KINDS = {
    "bloom-filter": {"items": "20"},
    "bitmap": {},
    "bitmap v1": {"version": "1"},
    "bitmap small blocks": {"index-block-size": "40b"},
    "range-bitmap": {"chunk-size": "16b"},
}
UNCOVERED = {
    "bloom-filter": {"BOOLEAN", "DECIMAL(10, 2)"},
    "bitmap": {"BYTES", "DECIMAL(10, 2)"},
    "range-bitmap": {"BYTES", "TIMESTAMP(9)"},
}
JAVA_KINDS = ("bitmap", "bsi", "range-bitmap", "bloom-filter")
CASES = [
    (type_text, kind)
    for type_text in VALUES
    for kind in KINDS
    if type_text not in UNCOVERED[kind.split()[0]]
]


def settings_of(kind: str, options: dict[str, str]):
    texts = {f"file-index.{kind}.columns": "a"}
    texts |= {f"file-index.{kind}.a.{key}": value for key, value in options.items()}
    return file_index_settings(Options.parse(texts, table="db.t"))


def container_of(field: DataField, kind: str, values) -> bytes:
    writer = FileIndexWriter([field], settings_of(kind.split()[0], KINDS[kind]))
    cut = len(values) // 3
    for part in (values[:cut], values[cut:]):
        writer.add(pa.record_batch({"a": storage_to_arrow(part, field.type)}))
    return writer.finish()


def predicates(type_text: str):
    values = st.sampled_from(VALUES[type_text])
    leaf = (
        st.builds(
            Compare, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), st.just("a"), values
        )
        | st.builds(In, st.just("a"), st.lists(values | st.none(), max_size=3).map(tuple))
        | st.sampled_from([IsNull("a"), NotNull("a")])
    )
    if type_text == "STRING":
        leaf |= st.builds(StartsWith, st.just("a"), values)
    return st.recursive(
        leaf,
        lambda p: (
            st.builds(Not, p)
            | st.builds(And, st.lists(p, min_size=1, max_size=3).map(tuple))
            | st.builds(Or, st.lists(p, min_size=1, max_size=3).map(tuple))
        ),
        max_leaves=4,
    )


@settings(max_examples=examples(150))
@given(case=st.sampled_from(CASES), data=st.data())
def test_no_matching_row_is_ruled_out(case, data):
    type_text, kind = case
    field = DataField(0, "a", parse_type(type_text))
    values = data.draw(st.lists(st.sampled_from(VALUES[type_text]) | st.none(), max_size=12))
    predicate = data.draw(predicates(type_text))
    rows = indexed_rows(
        predicate,
        container_of(field, kind, values),
        MemoryFileIO(),
        fields=[field],
        file_fields=[field],
        row_count=len(values),
    )
    batch = pa.record_batch({"a": storage_to_arrow(values, field.type)})
    wanted = np.asarray(evaluate(predicate, batch, [field]).to_numpy(zero_copy_only=False))
    left = np.full(len(values), rows) if isinstance(rows, bool) else rows
    assert not (wanted & ~left).any()
    exact = not kind.startswith("bloom") and isinstance(predicate, (IsNull, NotNull))
    if exact and values:
        assert left.tolist() == wanted.tolist() or (
            "range" in kind and not any(v is not None for v in values)
        )


def test_exact_indexes_leave_no_other_row():
    field = DataField(0, "a", parse_type("INT"))
    values = [5, None, 7, 5, 9]
    asked = {
        "bitmap": [Compare("==", "a", 5), Compare("!=", "a", 5), In("a", (7, 8)), Not(IsNull("a"))],
        "range-bitmap": [Compare("<", "a", 9), Compare(">=", "a", 6), Not(Compare("<=", "a", 6))],
    }
    batch = pa.record_batch({"a": storage_to_arrow(values, field.type)})
    for kind, all_asked in asked.items():
        container = container_of(field, kind, values)
        for predicate in all_asked:
            rows = indexed_rows(
                predicate,
                container,
                MemoryFileIO(),
                fields=[field],
                file_fields=[field],
                row_count=5,
            )
            assert not isinstance(rows, bool)
            assert rows.tolist() == evaluate(predicate, batch, [field]).to_pylist()


def test_columns_are_known_by_the_file_s_own_name():
    old = DataField(4, "a", parse_type("INT"))
    renamed = DataField(4, "b", parse_type("INT"))
    newcomer = DataField(5, "a", parse_type("INT"))
    retyped = DataField(4, "b", parse_type("BIGINT"))
    container = container_of(old, "bitmap", [1, 2])

    def rows(predicate, *fields):
        return indexed_rows(
            predicate, container, MemoryFileIO(), fields=fields, file_fields=[old], row_count=2
        )

    assert rows(Compare("==", "b", 3), renamed) is False
    assert rows(Compare("==", "a", 3), renamed, newcomer) is True
    assert rows(Compare("==", "b", 3), retyped) is True


def test_an_index_file_is_read_from_the_storage():
    fileio = MemoryFileIO()
    field = DataField(0, "a", parse_type("INT"))
    fileio.write_once("/t/x.index", container_of(field, "bitmap", list(range(20_000))))
    asked = {"fields": [field], "file_fields": [field], "row_count": 20_000}
    assert indexed_rows(Compare("==", "a", -1), "/t/x.index", fileio, **asked) is False
    rows = indexed_rows(Compare("==", "a", 77), "/t/x.index", fileio, **asked)
    assert np.flatnonzero(rows).tolist() == [77]
    assert [e.kind for e in list_indexes("/t/x.index", fileio)] == ["bitmap"]
    with pytest.raises(NotFoundError):
        indexed_rows(Compare("==", "a", -1), "/t/y.index", fileio, **asked)


@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_changed_bit_in_our_own_index_changes_no_answer(data):
    field = DataField(0, "a", parse_type("INT"))
    kind = data.draw(st.sampled_from(list(KINDS)))
    container = bytearray(container_of(field, kind, [1, 2, None, 1, 9]))
    asked = {"fields": [field], "file_fields": [field], "row_count": 5}
    predicate = data.draw(st.sampled_from([Compare("==", "a", 1), IsNull("a")]))
    right = indexed_rows(predicate, bytes(container), MemoryFileIO(), **asked)
    container[data.draw(st.integers(0, len(container) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        rows = indexed_rows(predicate, bytes(container), MemoryFileIO(), **asked)
    except (CorruptError, UnsupportedError):
        return
    assert rows is True or np.array_equal(rows, right)


@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_damaged_index_of_java_s_is_refused_or_answers(data):
    """Java's have no checksum: what shows is refused, and no other error comes out."""
    title = data.draw(st.sampled_from([t for t in sections() if t.split()[0] in JAVA_KINDS]))
    body = bytearray(sections()[title])
    for _ in range(data.draw(st.integers(1, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    ours = serialize({"a": {title.split()[0]: bytes(body)}})  # checksums of the damaged bytes
    field = DataField(0, "a", parse_type("INT"))
    for predicate in (Compare("==", "a", 1), Compare("<", "a", 2), IsNull("a")):
        try:
            indexed_rows(
                predicate, ours, MemoryFileIO(), fields=[field], file_fields=[field], row_count=4
            )
        except (CorruptError, UnsupportedError):
            continue


def test_an_index_of_another_file_is_refused():
    field = DataField(0, "a", parse_type("INT"))
    container = container_of(field, "bitmap", [1, 2, 3])
    with pytest.raises(CorruptError, match="3 rows"):
        indexed_rows(
            IsNull("a"), container, MemoryFileIO(), fields=[field], file_fields=[field], row_count=4
        )


def test_kinds_and_types_that_paimon_does_not_have_are_refused():
    for kind, types in UNCOVERED.items():
        for type_text in types:
            field = DataField(0, "a", parse_type(type_text))
            with pytest.raises(UnsupportedError, match="Paimon has no"):
                FileIndexWriter([field], settings_of(kind, {}))
    assert head_size(serialize({})) == len(serialize({}))
