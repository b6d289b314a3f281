"""Converts options as users give them to the texts that a table stores."""

from __future__ import annotations

from collections.abc import Mapping


def option_text(value: object) -> str:
    """Write a value as an option's text.

    Examples
    --------
    >>> option_text(4), option_text(True), option_text(["a", "b"])
    ('4', 'true', 'a,b')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(option_text(part) for part in value)
    return str(value)


def option_texts(given: Mapping[str, object]) -> dict[str, str]:
    """Write all of a user's options; leave out those that are None.

    Examples
    --------
    >>> option_texts({"bucket": 4, "bucket-key": None})
    {'bucket': '4'}
    """
    return {str(key): option_text(value) for key, value in given.items() if value is not None}
