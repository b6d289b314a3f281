"""Secrets of storages: shown by no ``repr``, in no message, and in no pickle.

1. A secret is a :class:`Secret`: it prints as ``***``.
2. A storage that is pickled leaves its secrets out, and takes a number along. The registry of each
   process knows secrets by such numbers, so a copy in the same process has them again.
3. For another process, :func:`export_secrets` gives bytes to carry in a way that does not show
   (Spark broadcasts them) and :func:`adopt_secrets` takes them in there. A storage whose secrets
   did not come along says so when it is used.
"""

from __future__ import annotations

import hmac
import os
import pickle
from collections.abc import Mapping

__all__ = ["Secret", "adopt_secrets", "export_secrets", "known_secrets", "remember_secrets"]

_REGISTRY: dict[str, dict[str, str]] = {}


class Secret:
    """A text that is not shown.

    Examples
    --------
    >>> Secret("a1b2c3")
    ***
    >>> f"{Secret('a1b2c3')}", Secret("a1b2c3").reveal()
    ('***', 'a1b2c3')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other._text.encode()
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        message = "a secret is not pickled: storages leave theirs out"
        raise TypeError(message)


def remember_secrets(secrets: Mapping[str, str]) -> str:
    """Put secrets into this process's registry; returns their number."""
    given = dict(secrets)
    for number, known in list(_REGISTRY.items()):  # other threads insert
        if known == given:
            return number
    number = os.urandom(8).hex()
    _REGISTRY[number] = given
    return number


def known_secrets(number: str) -> dict[str, str] | None:
    """The secrets of a number; None if they did not come to this process."""
    return _REGISTRY.get(number)


def export_secrets() -> bytes:
    """All secrets of this process, in clear: for a carrier that does not show them."""
    return pickle.dumps(dict(_REGISTRY))


def adopt_secrets(exported: bytes) -> None:
    """Take in what :func:`export_secrets` gave in another process."""
    _REGISTRY.update(pickle.loads(exported))
