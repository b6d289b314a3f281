"""Passwords by another way than the command line, and texts without secrets.

A password in a setting may be ``env:NAME`` (a variable of the environment), ``file:PATH`` (the
first line of a file) or ``prompt`` (a question at the terminal); any other text, or what follows
``plain:``, is the password itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelake.errors import InvalidInputError

HIDDEN = "***"
PASSWORD = "password"
_SECRET_KEY = re.compile(
    r"password|passwd|secret|token|credential|private|jaas|(?:access|account)[.-]?key|(?<![a-z])sas(?![a-z])",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")
_REFERENCE = re.compile(r"(?P<way>env|file):(?P<where>.+)")


@dataclass(frozen=True, slots=True)
class SecretWays:
    """How secrets are found.

    Parameters
    ----------
    environment : mapping
        Variables.
    read_file : callable
        Gives the text of a file; raises OSError.
    ask : callable, optional
        Asks a person, with a question; None where nobody can answer.
    """

    environment: Mapping[str, str]
    read_file: Callable[[str], str]
    ask: Callable[[str], str] | None = None


def is_secret(key: str) -> bool:
    """Whether a setting's value is not shown.

    Examples
    --------
    >>> is_secret("password"), is_secret("s3.secret-key"), is_secret("hostname")
    (True, True, False)
    """
    return _SECRET_KEY.search(key) is not None


def is_reference(text: str) -> bool:
    """Whether a password's text says where it is, and so may be shown."""
    return text == "prompt" or _REFERENCE.fullmatch(text) is not None


def shown_value(key: str, value: str) -> str:
    """A setting's value as it may be shown.

    Examples
    --------
    >>> shown_value("password", "x"), shown_value("password", "env:PW")
    ('***', 'env:PW')
    >>> shown_value("uri", "jdbc:postgresql://me:pw@host/db")
    'jdbc:postgresql://me:***@host/db'
    """
    if is_secret(key):
        return value if is_reference(value) else HIDDEN
    return _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", value)


def resolved(settings: Mapping[str, str], ways: SecretWays) -> dict[str, str]:
    """Settings with the secrets that they name.

    Raises
    ------
    InvalidInputError
        A variable or file is missing, or nobody can be asked: kind ``cdc_password``.
    """
    return {
        key: _resolved(key, value, ways) if is_secret(key) else value
        for key, value in settings.items()
    }


def _resolved(key: str, text: str, ways: SecretWays) -> str:
    if text.startswith("plain:"):
        return text.removeprefix("plain:")
    if text == "prompt":
        if ways.ask is None:
            message = f"'{key}' cannot be asked for without a terminal: give env:NAME or file:PATH."
            raise InvalidInputError(message, kind="cdc_password", option=key)
        return ways.ask(f"{key}: ")
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    where = found["where"]
    if found["way"] == "env":
        if where not in ways.environment:
            message = f"'{key}' is in the variable {where}, which is not set: export it."
            raise InvalidInputError(message, kind="cdc_password", option=key)
        return ways.environment[where]
    try:
        lines = ways.read_file(where).splitlines()
    except OSError as error:
        message = f"'{key}' is in the file {where}, which cannot be read: {error.strerror}."
        raise InvalidInputError(message, kind="cdc_password", option=key) from error
    if not lines or not lines[0]:
        message = f"'{key}' is in the file {where}, whose first line is empty: write it there."
        raise InvalidInputError(message, kind="cdc_password", option=key)
    return lines[0]
