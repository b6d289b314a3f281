"""The bytes of every kind of index against Java's (``tests/golden/file_index.txt``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from unit.format.file_index.golden_indexes import VALUES, sections

from tidelake.format.file_index.bit_slice import bsi_rows
from tidelake.format.file_index.bloom_filter import BloomFilterReader
from tidelake.format.file_index.container import head_size, parse_head
from tidelake.format.file_index.fast_hash import hash_bytes, hash_numbers
from tidelake.format.file_index.index_key import key_form
from tidelake.format.file_index.index_writer import FileIndexWriter
from tidelake.options import Options
from tidelake.options.file_index import file_index_settings
from tidelake.types import DataField, parse_type

FIELD = DataField(0, "a", parse_type("INT"))


def container(kind: str, options: dict[str, str]) -> bytes:
    texts = {f"file-index.{kind}.columns": "a"}
    texts |= {f"file-index.{kind}.a.{key}": value for key, value in options.items()}
    writer = FileIndexWriter([FIELD], file_index_settings(Options.parse(texts)))
    writer.add(pa.record_batch({"a": pa.array(VALUES, pa.int32())}))
    return writer.finish()


@pytest.mark.parametrize(
    "title", [t for t in sections() if t.split()[0] not in {"bsi", "ours", "container"}]
)
def test_written_indexes_are_java_s_byte_for_byte(title):
    kind, *settings = title.split()
    written = container(kind, dict(s.split("=") for s in settings))
    (entry,) = parse_head(written[: head_size(written)])
    assert (entry.column, entry.kind) == ("a", kind)
    assert entry.check(written[entry.start :]).hex() == sections()[title].hex()


def test_java_s_container_is_understood():
    head = sections()["container bitmap version=1"]
    assert head_size(head) == len(head)
    (entry,) = parse_head(head)
    assert (entry.column, entry.kind, entry.start, entry.length, entry.crc) == (
        "a", "bitmap", 47, 50, None,
    )  # fmt: skip


def test_our_container_has_checksums_behind_what_java_reads():
    written = container("bitmap", {"version": "1"})
    expected = sections()["ours bitmap version=1"]
    assert written[: len(expected)].hex() == expected.hex()


def test_java_s_bsi_index_is_understood():
    rows = bsi_rows(sections()["bsi"], 4)
    assert rows.equal([1]).tolist() == [True, False, False, True]
    assert rows.between(2, None).tolist() == [False, True, False, False]
    assert rows.nulls().tolist() == [False, False, True, False]


def test_java_s_bloom_filter_knows_what_is_not_there():
    form = key_form(FIELD.type)
    assert form is not None
    reader = BloomFilterReader(form, sections()["bloom-filter items=4"])
    assert reader.may_hold([1])
    assert reader.may_hold([2])
    assert not reader.may_hold([7])


def test_hashes_are_those_of_the_xxhash_specification():
    texts = [b"", b"a", b"abc", b"message digest", b"abcdefghijklmnopqrstuvwxyz" * 3]
    offsets = np.cumsum([0, *(len(t) for t in texts)])
    hashes = hash_bytes(np.frombuffer(b"".join(texts), np.uint8), offsets)
    assert [f"{h:016x}" for h in hashes.tolist()[:4]] == [
        "ef46db3751d8e999", "d24ec4f1a98c6e5b", "44bc2cf5ad770999", "066ed728fceeb3be",
    ]  # fmt: skip
    assert len(set(hash_numbers(np.arange(100_000)).tolist())) == 100_000
