"""Commit messages travel as bytes that cannot do harm."""

import random
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
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


@settings(UNHURRIED, max_examples=examples(40))
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
    index = IndexChange(7, IndexFile(HASH, "index-1", 12, 3), known_count=2, added=b"new!")
    vectors = IndexFile(DELETION_VECTORS, "index-3", 33, 1, ranges=(("data-2", 1, 24, 2),))
    deletions = DeletionChange(("index-2",), (vectors,))
    return CommitMessage(
        bytes(12), 3, 4, new_files=(file,), index=index, deletions=deletions, compact_seen=b"seen"
    )


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


def sealed(body, version=8):
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


FILES_OF_IT = b"\x81\xa9new_files"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x80",  # without the fields that it must have
        b"\xdf\xff\xff\xff\xff",  # fields beyond the end
        FILES_OF_IT + b"\xdd\xff\xff\xff\xff",  # files beyond the end
        b"\x81\xa9partition\xc6\xff\xff\xff\xff",  # bytes beyond the end
        b"\x81\xa6bucket\xcb\0\0\0\0\0\0\0\0",  # a fraction for a number
        b"\x81\xa2\xff\xff\x01",  # a name that is not UTF-8
        b"\x81\xa1x" + b"\x91" * 100_000,  # too deep in a field that nobody knows
    ],
)
def test_hostile_lengths_take_no_memory(body):
    with pytest.raises(CorruptError, match="commit message is damaged"):
        from_bytes(sealed(body))


def test_a_text_that_is_not_utf8_is_noticed():
    whole = to_bytes(small_message())[5:-4]
    assert whole.count(b"data-1") == 1
    with pytest.raises(CorruptError, match="commit message is damaged"):
        from_bytes(sealed(whole.replace(b"data-1", b"data-\xff")))


def test_integers_of_numpy_are_written_as_plain_ones():
    message = CommitMessage(bytes(12), np.int32(3), 4, compact_seen=b"seen")
    assert type(from_bytes(to_bytes(message)).bucket) is int


def test_what_is_no_number_is_not_written():
    with pytest.raises(TypeError):
        to_bytes(CommitMessage(bytes(12), object(), 4))


def test_another_layout_is_refused():
    with pytest.raises(UnsupportedError, match="layout 9"):
        from_bytes(sealed(b"", version=9))
