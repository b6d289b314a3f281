"""Commit messages travel as bytes that cannot do harm."""

import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED, data_file
from unit.metadata.manifest.test_entry_table import FILES

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata import CommitMessage
from tidelake.metadata.commit_message import from_bytes, to_bytes
from tidelake.metadata.index_entry import (
    DELETION_VECTORS,
    HASH,
    DeletionChange,
    IndexChange,
    IndexFile,
)
from tidelake.metadata.wire import WireReader, WireWriter

GOLDEN = Path(__file__).parents[2] / "golden" / "commit_message.txt"
LONGS = st.integers(0, 2**63 - 1)
INDEX_CHANGES = st.builds(
    IndexChange,
    LONGS,
    st.none() | st.builds(IndexFile, st.just(HASH), st.text(max_size=20), LONGS, LONGS),
    LONGS,
)
VECTORS = st.lists(st.tuples(st.text(max_size=9), LONGS, LONGS, st.none() | LONGS), max_size=2)
VECTOR_FILES = st.builds(
    lambda name, size, vectors: IndexFile(
        DELETION_VECTORS, name, size, len(vectors), tuple(vectors)
    ),
    st.text(max_size=9),
    LONGS,
    VECTORS,
)
DELETION_CHANGES = st.builds(
    DeletionChange,
    st.lists(st.text(max_size=9), max_size=2).map(tuple),
    st.lists(VECTOR_FILES, max_size=2).map(tuple),
)
SEVERAL = st.lists(FILES, max_size=2).map(tuple)


@settings(UNHURRIED, max_examples=40)
@given(
    st.builds(
        CommitMessage,
        st.binary(max_size=30),
        st.integers(-2, 2**31 - 1),
        st.integers(-2, 2**31 - 1),
        SEVERAL,
        SEVERAL,
        SEVERAL,
        st.none() | INDEX_CHANGES,
        SEVERAL,
        SEVERAL,
        st.none() | DELETION_CHANGES,
        st.none() | st.binary(max_size=32),
        SEVERAL,
    )
)
def test_a_message_comes_back_as_it_went_in(message):
    assert from_bytes(to_bytes(message)) == message


def small_message():
    file = data_file("data-1", keys=(1, 2), sequences=(5, 9), extra_files=("x",))
    index = IndexChange(7, IndexFile(HASH, "index-1", 12, 3), known_count=2)
    vectors = IndexFile(DELETION_VECTORS, "index-3", 33, 1, ranges=(("data-2", 1, 24, 2),))
    deletions = DeletionChange(("index-2",), (vectors,))
    return CommitMessage(
        bytes(12), 3, 4, new_files=(file,), index=index, deletions=deletions, compact_seen=b"seen"
    )


def test_a_message_has_the_bytes_of_the_golden_file():
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    golden = bytes.fromhex("".join(line.partition("#")[0] for line in lines))
    assert to_bytes(small_message()) == golden


def test_every_flipped_bit_is_noticed():
    data = to_bytes(small_message())
    for bit in range(len(data) * 8):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptError, UnsupportedError)):
            from_bytes(bytes(wrong))


def test_every_cut_and_every_byte_more_is_noticed():
    data = to_bytes(small_message())
    for wrong in (*(data[:n] for n in range(len(data))), data + b"\0"):
        with pytest.raises(CorruptError, match="commit message is damaged"):
            from_bytes(wrong)


def sealed(body, version=6):
    framed = b"TLCM" + bytes([version]) + body
    return framed + struct.pack("<I", zlib.crc32(framed))


def test_a_wrong_body_in_a_right_frame_is_noticed():
    rng = random.Random(1)
    whole = to_bytes(small_message())[5:-4]
    refused = 0
    for _ in range(3_000):
        body = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        try:
            message = from_bytes(sealed(bytes(body)))
        except CorruptError:
            refused += 1
        else:
            assert isinstance(message, CommitMessage)
    assert refused > 300


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 11,  # a number of too many bytes
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",  # more than 64 bits
        b"\xfe\xff\xff\xff\x0f",  # a length beyond the end
        b"\x01",  # a negative length
        b"\0\0\0\0\0\0\0rest",
    ],
)
def test_hostile_lengths_take_no_memory(body):
    with pytest.raises(CorruptError):
        from_bytes(sealed(body))


def test_another_layout_is_refused():
    with pytest.raises(UnsupportedError, match="layout 7"):
        from_bytes(sealed(b"", version=7))


@UNHURRIED
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_come_back(numbers):
    out = WireWriter(b"TEST", 1)
    out.sequence(numbers, out.integer)
    back = WireReader(out.finish(), magic=b"TEST", version=1, what="test")
    assert back.sequence(back.integer) == tuple(numbers)
    back.finish()


def test_a_text_that_is_not_utf8_and_a_flag_that_is_none_are_noticed():
    out = WireWriter(b"TEST", 1)
    out.blob(b"\xff")
    back = WireReader(out.finish(), magic=b"TEST", version=1, what="test")
    with pytest.raises(CorruptError, match="not UTF-8"):
        back.text()
    out = WireWriter(b"TEST", 1)
    out.integer(1)  # byte 2
    back = WireReader(out.finish(), magic=b"TEST", version=1, what="test")
    with pytest.raises(CorruptError, match="flag"):
        back.optional(back.integer)
