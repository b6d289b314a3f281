"""Text of many charsets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.cdc.mysql.values.charset import decode_texts, is_known


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("latin1", b"\x80\x81\xe9", "€\x81é"), ("utf8mb4", "😀".encode(), "😀"),
        ("gbk", "中".encode("gbk"), "中"), ("utf16", "ü😀".encode("utf-16-be"), "ü😀"),
        ("cp1251", "я".encode("cp1251"), "я"), ("sjis", "表".encode("cp932"), "表"),
        ("ascii", b"a", "a"), ("utf32", "ü".encode("utf-32-be"), "ü"),
    ],
)  # fmt: skip
def test_charsets(charset, raw, text):
    assert is_known(charset)
    values, wrong = decode_texts(pa.array([raw, None], pa.binary()), charset)
    assert values.to_pylist() == [text, None]
    assert wrong is None


def test_bytes_that_are_no_text_are_told():
    values, wrong = decode_texts(pa.array([b"a", b"\xff", None], pa.binary()), "utf8mb4")
    assert wrong.tolist() == [False, True, False]
    assert values.to_pylist() == ["a", "\\xff", None]
