"""A checksum inside a JSON file: a flipped bit in a snapshot, tag or schema is an error.

Paimon's JSON files carry none. A changed digit or letter would give other rows or another column,
without notice. The files that Tidelake writes end with the key ``tidelake.checksum``: the CRC32, in
hex, of the document without that key, as compact JSON with sorted keys. Other readers ignore
unknown keys, and drop the key when they write the next file. A file without it is accepted. Equal
content (other white space, another order) has the same checksum. another order) has the same
checksum.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

KEY = "tidelake.checksum"  # on disk: never rename


def with_checksum(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with its checksum as the last key.

    Examples
    --------
    >>> with_checksum({"id": 1})
    {'id': 1, 'tidelake.checksum': '445df8c5'}
    """
    bare = {key: value for key, value in document.items() if key != KEY}
    return {**bare, KEY: _checksum(bare)}


def check_and_drop(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its checksum, after checking it if there is one.

    Raises
    ------
    ValueError
        It differs: the text was damaged, or edited by hand.

    Examples
    --------
    >>> check_and_drop({"id": 2, "tidelake.checksum": "35b85b15"})
    Traceback (most recent call last):
    ValueError: its checksum differs (remove 'tidelake.checksum' if you edited the file on purpose)
    """
    bare = {key: value for key, value in document.items() if key != KEY}
    if KEY in document and document[KEY] != _checksum(bare):
        message = f"its checksum differs (remove '{KEY}' if you edited the file on purpose)"
        raise ValueError(message)
    return bare


def _checksum(bare: Mapping[str, Any]) -> str:
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"
