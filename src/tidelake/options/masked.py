"""Hides secrets that stand in options, locations and messages.

What a secret is called is known by words: it is better to hide too much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "••••••"
_SECRET_KEY = re.compile(
    r"passw|passphrase|passcode|pwd|secret|token|credential|private|signature|authorization|bearer"
    r"|cookie|sasl|jaas|connection-?string|http\.params$"
    r"|(^|[-_.])(auth|sas)($|[-_.])"
    r"|(access|account|api|auth|encrypt\w*|sas|shared)[-_.]?key",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)\S*@")
"""To the last ``@``: a password may have ``/`` and ``@`` in it."""
_ASSIGNED = re.compile(
    r"""(?ix)
    ((?:[\w.-]*(?:passw|pwd|passcode|secret|token|credential|authorization|signature|api[-_]?key
    |access[-_.]?key|account[-_.]?key)[\w.-]*|(?<=[?&;])(?:sig|key))
    ['"]?\s*(?:=>|[=:])\s*)
    ("[^"]*"|'[^']*'|[^\s&;,}]+)
    """
)
_SCHEME = re.compile(r"(?i)\b(Bearer|Basic)\s+[\w.~+/=-]+")


def masked(key: str, value: str) -> str:
    """The text of an option, without what is secret.

    Examples
    --------
    >>> masked("s3.secret-key", "abc"), masked("bucket", "4")
    ('••••••', '4')
    >>> masked("uri", "jdbc:mysql://me:p@s/s@host/db?password=x&a=1")
    'jdbc:mysql://••••••@host/db?password=••••••&a=1'
    """
    return HIDDEN if _SECRET_KEY.search(key) else masked_text(value)


def masked_text(text: str) -> str:
    """A location or a message, without users in addresses and values that are called secret."""
    text = _USER_INFO.sub(f"{HIDDEN}@", text)
    text = _SCHEME.sub(rf"\g<1> {HIDDEN}", text)
    return _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)


def masked_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Options by key, without what is secret."""
    return tuple((key, masked(key, value)) for key, value in sorted(options.items()))
