"""Deletion vectors of a Delta table: the deleted rows of one data file, as its log describes them.

A descriptor says where a vector is:

- ``u``: in ``<prefix>/deletion_vector_<uuid>.bin`` of the table's directory. The text is the
  prefix, which may be empty, and the UUID in 20 characters of Z85.
- ``p``: in the file of an absolute path, percent-encoded.
- ``i``: in the log itself, in Z85.

Layout of a file of vectors::

    version   u8    1
    frames          of 64 bits, as of Iceberg (:mod:`tidelake.metadata.index.deletion_vector`)

A descriptor's offset is where a frame begins, and its size is that of magic and bitmap. In the log
there is no frame, but magic and bitmap alone.

Source: the protocol of Delta, "Deletion Vectors" and "Deletion Vector Format"; Z85 is ZeroMQ's RFC
32.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.fileio import FileIO
from tidelake.fileio.location import parse_location
from tidelake.metadata.index.deletion_vector import (
    Positions,
    decode_vector,
    frame_of,
    framed,
    is_64_bits,
    vector_bytes_max,
)

VERSION = b"\x01"
_FRAMING_BYTES = 8
_UUID_CHARACTERS = 20
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_GROUP, _Z85_BYTES, _NO_DIGIT = 5, 4, 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(_Z85, np.uint8)] = np.arange(len(_Z85))
_WEIGHTS = np.array([85**4, 85**3, 85**2, 85, 1], np.uint64)
_WORD_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class DeltaVector:
    """A vector as the log describes it.

    Parameters
    ----------
    data_file : str
        The data file, for messages.
    path : str
        The file of vectors; "" if it is in the log.
    inline : str
        The vector in Z85, if it is in the log.
    size_bytes : int
        Of magic and bitmap.
    """

    data_file: str
    path: str
    inline: str
    offset: int
    size_bytes: int
    cardinality: int

    @classmethod
    def of(
        cls, descriptor: Mapping[str, Any], data_file: str, fileio: FileIO, location: str
    ) -> DeltaVector:
        """Understand a descriptor.

        Raises
        ------
        CorruptError
            It is none.
        UnsupportedError
            The vector is in another storage.
        """
        try:
            kind, text = str(descriptor["storageType"]), str(descriptor["pathOrInlineDv"])
            numbers = [int(descriptor[key]) for key in ("sizeInBytes", "cardinality")]
            offset = int(descriptor.get("offset") or 0)
            if min(*numbers, offset) < 0:
                message = "a number of it is negative"
                raise ValueError(message)
            path = "" if kind == "i" else _path(kind, text, fileio, location)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise _damaged(data_file, f"{location}/_delta_log", reason) from error
        return cls(data_file, path, "" if path else text, offset, *numbers)

    def read(self, fileio: FileIO, *, row_count: int) -> Positions:
        """Read the deleted rows of the data file, which has so many.

        Raises
        ------
        CorruptError
            The vector is missing or damaged, or has another number of rows than the log says.
        """
        try:
            positions = decode_vector(self._frame(fileio, row_count), row_count=row_count)
        except (CorruptError, NotFoundError) as error:
            raise _damaged(self.data_file, self.path, error.message) from error
        except ValueError as error:
            raise _damaged(self.data_file, self.path, str(error)) from error
        if len(positions) != self.cardinality:
            reason = f"it names {len(positions)} rows, and the log says {self.cardinality}"
            raise _damaged(self.data_file, self.path, reason)
        return positions

    def _frame(self, fileio: FileIO, row_count: int) -> bytes:
        if self.size_bytes > vector_bytes_max(row_count):
            message = f"{self.size_bytes} bytes are too many for {row_count} rows"
            raise ValueError(message)
        if not self.path:
            data = framed(decode_z85(self.inline, size_bytes=self.size_bytes))
        else:
            # the first vector of a file is read with the version before it
            begin = 0 if self.offset == len(VERSION) else self.offset
            length = self.offset - begin + self.size_bytes + _FRAMING_BYTES
            data = fileio.read_range(self.path, begin, length)
            if begin != self.offset and not data.startswith(VERSION):
                message = f"its file has version {data[0]}, and {VERSION[0]} is known"
                raise ValueError(message)
            data = data[self.offset - begin :]
        if not is_64_bits(data):
            message = "it is of a form that Delta's protocol does not have"
            raise ValueError(message)
        return frame_of(data, length=self.size_bytes + _FRAMING_BYTES)


def decode_z85(text: str, *, size_bytes: int) -> bytes:
    """Return the bytes of a text in Z85, without those that fill its last group.

    Raises
    ------
    ValueError
        It is no such text, or one of another length.

    Examples
    --------
    >>> decode_z85("HelloWorld", size_bytes=8).hex()
    '864fd26fb559f75b'
    """
    digits = _DIGITS[np.frombuffer(text.encode("latin-1", "replace"), np.uint8)]
    groups, rest = divmod(len(digits), _Z85_GROUP)
    if rest or -(-size_bytes // _Z85_BYTES) != groups:
        message = f"{len(digits)} characters of Z85 are not {size_bytes} bytes"
        raise ValueError(message)
    words = digits.reshape(-1, _Z85_GROUP).astype(np.uint64) @ _WEIGHTS
    if (digits == _NO_DIGIT).any() or (words > _WORD_MAX).any():
        message = "it is not Z85"
        raise ValueError(message)
    return words.astype(">u4").tobytes()[:size_bytes]


def _path(kind: str, text: str, fileio: FileIO, location: str) -> str:
    if kind == "p":
        found = parse_location(unquote(text), what="File")
        if fileio.uri_of(found.path) != str(found):
            message = (
                f"The Delta table at {location} cannot move in as it is: its deletion vector {text}"
                " lies in another storage. Copy the table there as a whole (CLONE) first."
            )
            raise UnsupportedError(message, kind="delta_vector", path=location)
        return found.path
    if kind != "u":
        message = f"its storage type is '{kind}', and 'u', 'i' and 'p' are known"
        raise ValueError(message)
    prefix, name = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    if "/" in prefix or prefix in (".", ".."):
        message = f"'{prefix}' is no prefix of random characters"
        raise ValueError(message)
    number = uuid.UUID(bytes=decode_z85(name, size_bytes=16))
    return posixpath.join(location, prefix, f"deletion_vector_{number}.bin")


def _damaged(data_file: str, where: str, reason: str) -> CorruptError:
    place = f" in {where}" if where else ", which is in the log,"
    message = (
        f"The deletion vector of data file '{data_file}'{place} is damaged:"
        f" {reason.rstrip('. ')}. Nothing was done. Restore it, or let Delta write the file anew"
        " without the deleted rows (REORG TABLE ... APPLY (PURGE))."
    )
    return CorruptError(message, kind="delta_vector", path=where, file=data_file)
