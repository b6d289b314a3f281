"""Small JSON files beside the data: parsed within a bound, their checksum tested."""

from __future__ import annotations

import json
from typing import Any

from tidelake.errors import CorruptError
from tidelake.fileio import SMALL_FILE_BYTES_MAX
from tidelake.types.json_checksum import check_and_drop

JSON_BYTES_MAX = SMALL_FILE_BYTES_MAX


def parse_json(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Parse a JSON object of bounded size, and check its checksum if it has one.

    Raises
    ------
    CorruptError
        It is too long, not JSON, not an object, or damaged; the message names `path`.
    """
    try:
        if len(text) > JSON_BYTES_MAX:
            raise ValueError(f"it has more than {JSON_BYTES_MAX} bytes")
        document = json.loads(text)
        if not isinstance(document, dict):
            raise TypeError("it is not a JSON object")
        document = check_and_drop(document)
    except (ValueError, TypeError, RecursionError) as error:
        message = f"File {path} cannot be read: {error}. Restore it from a backup."
        raise CorruptError(message, kind="json_file", path=path) from error
    return document
