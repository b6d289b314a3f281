"""Tokens: who may ask for which tables.

The file is JSON. It holds digests, so that a reader of the file cannot call with them::

    {"tokens": [{"name": "dashboards", "sha256": "<hex>", "tables": ["shop.*"],
                 "expires": "2027-01-31T00:00:00Z", "admin": false}]}

1. ``sha256`` is the digest of the token's text; a token has 16 characters or more.
2. ``tables`` are patterns of names ``database.table`` with ``*`` and ``?``.
3. ``expires`` is optional, a time with its zone. ``admin`` allows to add and remove tables.
4. The file is read again when it changes. While it cannot be read, or is not whole, every call is
   refused as UNAVAILABLE: an old file might still allow what the new one forbids.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidelake.engine.env import Clock
from tidelake.errors import InvalidInputError

LOOK_AGAIN_MS = 500
"""How often the file is looked at: a revoked token is shut out after so long."""
FILE_BYTES_MAX = 16 << 20
DIGEST_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """What a token lets its holder do.

    Parameters
    ----------
    expires_ms : int, optional
        From when on it is refused, ms since the epoch.
    admin : bool
        Whether its holder may add and remove tables.
    """

    name: str
    tables: tuple[str, ...] = ("*",)
    expires_ms: int | None = None
    admin: bool = False

    def allows(self, table: str) -> bool:
        """Whether its holder may read a table.

        Examples
        --------
        >>> token = ServiceToken("t", ("shop.*",))
        >>> token.allows("shop.orders"), token.allows("hr.pay")
        (True, False)
        """
        return any(fnmatch.fnmatchcase(table, pattern) for pattern in self.tables)

    def has_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_ms is not None and now_ms >= self.expires_ms


class TokenFile:
    """The tokens of a file, read again when it changes. Threads share it.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not of this form.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_ms = clock.now_ms()
        self._mark: tuple[int, ...] | None = None
        self._tokens: Mapping[str, ServiceToken] | None = None
        self._problem = ""
        self._look()
        if self._tokens is None:
            raise InvalidInputError(self._problem, kind="service_tokens", path=path)

    def find(self, text: str) -> ServiceToken | None:
        """The token of a text; None if there is none.

        Raises
        ------
        InvalidInputError
            The file cannot be read any more.
        """
        now_ms = self._clock.now_ms()
        if now_ms - self._looked_ms >= LOOK_AGAIN_MS:
            with self._lock:
                self._looked_ms = now_ms
                self._look()
        tokens = self._tokens
        if tokens is None:
            raise InvalidInputError(self._problem, kind="service_tokens", path=str(self._path))
        return tokens.get(hashlib.sha256(text.encode()).hexdigest())

    def _look(self) -> None:
        try:
            status = self._path.stat()
            mark = (status.st_mtime_ns, status.st_size, status.st_ino)
            if mark == self._mark:
                return
            self._mark = mark
            if status.st_size > FILE_BYTES_MAX:
                self._refuse(f"it has {status.st_size} bytes")
                return
            data = self._path.read_bytes()
        except OSError as error:
            self._mark = None
            self._refuse(f"it cannot be read ({error.strerror})")
            return
        try:
            self._tokens = read_tokens(data)
        except InvalidInputError as error:
            self._refuse(error.message)

    def _refuse(self, why: str) -> None:
        self._tokens = None
        self._problem = f"The file of tokens {self._path} is not used: {why}. Mend it."


def read_tokens(data: bytes) -> dict[str, ServiceToken]:
    """Read tokens by their digests.

    Raises
    ------
    InvalidInputError
        The bytes are not of the form above; the message says where.

    Examples
    --------
    >>> read_tokens(b'{"tokens": []}')
    {}
    """
    try:
        content = json.loads(data)
    except ValueError as error:
        message = f"it is no JSON ({error})"
        raise InvalidInputError(message, kind="service_tokens") from error
    entries = content.get("tokens") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise InvalidInputError('it has no list "tokens"', kind="service_tokens")
    tokens: dict[str, ServiceToken] = {}
    for number, entry in enumerate(entries):
        digest, token = _read_token(entry, f"token {number + 1}")
        if digest in tokens:
            message = f"tokens '{tokens[digest].name}' and '{token.name}' are the same"
            raise InvalidInputError(message, kind="service_tokens")
        tokens[digest] = token
    return tokens


def _read_token(entry: Any, what: str) -> tuple[str, ServiceToken]:
    fields = {"name", "sha256", "tables", "expires", "admin"}
    if not isinstance(entry, dict) or not fields.issuperset(entry):
        message = f"{what} must be an object with no fields but {', '.join(sorted(fields))}"
        raise InvalidInputError(message, kind="service_tokens")
    name, digest = entry.get("name"), entry.get("sha256")
    tables, admin = entry.get("tables", ["*"]), entry.get("admin", False)
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{what} has no name", kind="service_tokens")
    if not isinstance(digest, str) or not _is_digest(digest):
        message = f"token '{name}' has no sha256 of {DIGEST_CHARACTERS} hexadecimal digits"
        raise InvalidInputError(message, kind="service_tokens")
    if not isinstance(tables, list) or not all(isinstance(t, str) for t in tables):
        message = f"the tables of token '{name}' must be a list of patterns"
        raise InvalidInputError(message, kind="service_tokens")
    if not isinstance(admin, bool):
        message = f"'admin' of token '{name}' is neither true nor false"
        raise InvalidInputError(message, kind="service_tokens")
    expires_ms = _expiry(entry.get("expires"), name)
    return digest.lower(), ServiceToken(name, tuple(tables), expires_ms, admin)


def _is_digest(text: str) -> bool:
    return len(text) == DIGEST_CHARACTERS and set(text.lower()) <= set("0123456789abcdef")


def _expiry(text: Any, name: str) -> int | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        when = None
    if when is None or when.tzinfo is None:
        message = (
            f"'expires' of token '{name}' must be a time with a time zone, such as"
            " 2027-01-31T00:00:00Z"
        )
        raise InvalidInputError(message, kind="service_tokens")
    return int(when.timestamp() * 1000)
