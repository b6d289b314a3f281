"""Reads the file with the token that callers must know."""

from __future__ import annotations

from pathlib import Path

from tidelake.errors import InvalidInputError


def token_in(name: str) -> str:
    """The token in a file.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or holds no text.
    """
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"The file {name} holds no token: {error}. Write one line of text into it."
        raise InvalidInputError(message, kind="token_file", path=name) from error
