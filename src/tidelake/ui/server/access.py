"""Who may ask: the token, sessions of browsers, names of this machine, and tokens of forms.

1. Beyond loopback a token is needed. A browser gives it once, and gets a cookie with the name of a
   session; a program sends ``Authorization: Bearer``. Both are compared in constant time.
2. On loopback without a token the ``Host`` header must name this machine. Else a page of the web
   whose name was turned to this address could read what is here.
3. A form carries a token that only a page of this server has seen.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping

from tidelake.errors import InvalidInputError
from tidelake.ui.server.exchange import PageRequest

COOKIE = "tidelake_session"
TOKEN_CHARACTERS_MIN = 16
SESSIONS_MAX = 256
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9.-]+))(?::[0-9]{1,5})?")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, and no other machine reaches it.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "db1")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PageAccess:
    """Decides on requests. Thread-safe.

    Parameters
    ----------
    host : str
        The address that the server listens on.
    token : str, optional
        What a caller must know; needed beyond loopback.

    Raises
    ------
    InvalidInputError
        There is no token and the address is not loopback, or the token is short.
    """

    def __init__(self, host: str, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            message = (
                f"The address {host} can be reached from other machines: give a token, or listen on"
                " 127.0.0.1."
            )
            raise InvalidInputError(message, kind="token_needed", host=host)
        if token is not None and len(token) < TOKEN_CHARACTERS_MIN:
            message = (
                f"The token has {len(token)} characters: it needs {TOKEN_CHARACTERS_MIN} or more."
            )
            raise InvalidInputError(message, kind="token_too_short")
        self._token = None if token is None else token.encode()
        self._is_local = is_loopback(host)
        self._host = host.lower()
        self.csrf = secrets.token_urlsafe(32)
        self._guard = threading.Lock()
        self._sessions: OrderedDict[str, None] = OrderedDict()

    @property
    def has_token(self) -> bool:
        """Whether callers must know a token."""
        return self._token is not None

    def knows_host(self, request: PageRequest) -> bool:
        """Whether the ``Host`` header may stand there."""
        if self.has_token and not self._is_local:
            return True  # whoever turns a name here knows neither token nor cookie
        found = _HOST.fullmatch(request.headers.get("host", "").lower())
        name = found and (found["v6"] or found["name"])
        return name in LOOPBACK_NAMES or name == self._host

    def may_read(self, request: PageRequest) -> bool:
        """Whether the caller is known."""
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        session = request.cookie(COOKIE)
        with self._guard:
            return bool(session) and session in self._sessions

    def is_token(self, given: str) -> bool:
        """Whether a text is the token."""
        return self._token is not None and secrets.compare_digest(given.encode(), self._token)

    def begin_session(self) -> Mapping[str, str]:
        """Begin a session of a browser; the header that tells it."""
        session = secrets.token_urlsafe(32)
        with self._guard:
            self._sessions[session] = None
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        return {"Set-Cookie": f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict"}

    def end_session(self, request: PageRequest) -> Mapping[str, str]:
        """End a session; the header that tells the browser."""
        with self._guard:
            self._sessions.pop(request.cookie(COOKIE), None)
        return {"Set-Cookie": f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"}

    def is_own_form(self, request: PageRequest) -> bool:
        """Whether a POST comes from a page of this server."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        given = request.form.get("csrf", "")
        return secrets.compare_digest(given.encode(), self.csrf.encode())
