"""Bytes of a text column as text, by the names of MySQL's charsets."""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii"})
BINARY = "binary"

_CODECS = {
    "latin1": "cp1252", "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932", "cp1250": "cp1250",
    "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "greek": "iso8859_7",
    "hebrew": "iso8859_8", "koi8r": "koi8_r", "koi8u": "koi8_u", "gb2312": "gb2312", "gbk": "gbk",
    "gb18030": "gb18030", "big5": "big5", "sjis": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp",
    "euckr": "cp949", "tis620": "tis_620", "macroman": "mac_roman", "macce": "mac_latin2",
    "ucs2": "utf_16_be", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be",
}  # fmt: skip
# of the charsets below, bytes of 0 to 127 are ASCII's
_NOT_ASCII = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_BYTES_MAX = {
    "utf8mb4": 4, "utf8": 3, "utf8mb3": 3, "gb18030": 4, "utf16": 4, "utf16le": 4, "utf32": 4,
    "ucs2": 2, "gb2312": 2, "gbk": 2, "big5": 2, "sjis": 2, "cp932": 2, "euckr": 2, "ujis": 3,
    "eucjpms": 3,
}  # fmt: skip


def is_known(charset: str) -> bool:
    """Whether text of this charset can be read."""
    return charset in UTF8 or charset in _CODECS


def bytes_max(charset: str) -> int:
    """Bytes of one character at most."""
    return _BYTES_MAX.get(charset, 1)


def decode_text(raw: bytes, charset: str) -> str:
    """Read one value.

    Raises
    ------
    UnicodeDecodeError
        The bytes are no text of the charset.
    """
    if charset == "latin1":
        # MySQL's latin1 is cp1252, and its five gaps are the controls of those numbers
        return raw.decode("cp1252", "tidelake-latin1")
    return raw.decode("utf-8" if charset in UTF8 else _CODECS[charset])


def decode_texts(values: pa.Array, charset: str) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Read a column.

    Parameters
    ----------
    values : pyarrow.Array
        binary.

    Returns
    -------
    tuple
        The texts, and which rows are no text of the charset; None if all are. Those are escaped.
    """
    if charset in UTF8 or (charset not in _NOT_ASCII and _is_ascii(values)):
        try:
            return values.cast(pa.string()), None
        except pa.ArrowInvalid:
            pass  # some row is not UTF-8: found below, one by one
    bad = np.zeros(len(values), np.bool_)
    texts: list[str | None] = []
    for row, raw in enumerate(values.to_pylist()):
        try:
            texts.append(None if raw is None else decode_text(raw, charset))
        except UnicodeDecodeError:
            assert raw is not None
            bad[row] = True
            texts.append(raw.decode("ascii", "backslashreplace"))
    return pa.array(texts, pa.string()), bad if bad.any() else None


def _is_ascii(values: pa.Array) -> bool:
    data = values.buffers()[2]
    return data is None or not (np.frombuffer(data, np.uint8) & 0x80).any()


def _control(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("tidelake-latin1", _control)
