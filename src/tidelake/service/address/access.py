"""Access: who a caller is, by the metadata of its call.

A call names its token as ``authorization: Bearer <token>``. Executors and the address server of one
service know a **secret** that each service draws for itself. It leaves its processes only in such a
call; only its holder may register as an executor or ask for file changes. Where the service
has a file of tokens, everybody else needs one of these; where it has none (on the loopback
interface, or by ``insecure``), everybody may read.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.engine.env import Clock
from tidelake.errors import InvalidInputError
from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.address.token_file import ServiceToken, TokenFile
from tidelake.service.protocol.reasons import TOKEN_KEY, bearer

PREFIX = bearer("")


@dataclass(frozen=True, slots=True)
class Caller:
    """What a caller may do.

    Parameters
    ----------
    token : ServiceToken, optional
        Its token; None of one that may read all.
    is_service : bool
        Whether it is part of this service.
    """

    name: str
    token: ServiceToken | None = None
    is_service: bool = False

    def may_read(self, table: str) -> bool:
        """Whether it may read a table."""
        return self.token is None or self.token.allows(table)

    def check_reads(self, table: str) -> None:
        """Refuse a table that it may not read, whether that is served or not."""
        if not self.may_read(table):
            message = f"The token '{self.name}' does not allow table '{table}'."
            raise Refusal(Status.PERMISSION_DENIED, "table-not-allowed", message)

    def check_is_service(self) -> None:
        """Refuse all but executors of this service."""
        if not self.is_service:
            message = "Only executors of this service may call this: it needs the service's secret."
            raise Refusal(Status.PERMISSION_DENIED, "not-an-executor", message)

    def check_operates(self) -> None:
        """Refuse a caller that may not add and remove tables."""
        if not self.is_service and (self.token is None or not self.token.admin):
            message = "To add or remove tables, or to stop the service, takes a token with 'admin'."
            raise Refusal(Status.PERMISSION_DENIED, "not-an-operator", message)


class Access:
    """Finds out who a caller is from the metadata of its call. Threads share it.

    Parameters
    ----------
    tokens : TokenFile, optional
        Of other callers; None lets everybody read.
    """

    def __init__(self, secret: str, tokens: TokenFile | None, clock: Clock) -> None:
        self._secret = secret.encode()
        self._tokens = tokens
        self._clock = clock

    @property
    def needs_token(self) -> bool:
        """Whether callers need a token."""
        return self._tokens is not None

    def caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Tell the caller.

        Raises
        ------
        Refusal
            It has no token where one is needed, or a wrong or expired one.
        """
        text = _token_of(metadata)
        if text is not None and hmac.compare_digest(text.encode(), self._secret):
            return Caller("service", is_service=True)
        if self._tokens is None:
            return Caller("anyone")
        if text is None:
            message = "The service needs a token: give it as token= or in the metadata of the call."
            raise Refusal(Status.UNAUTHENTICATED, "no-token", message)
        try:
            token = self._tokens.find(text)
        except InvalidInputError as error:
            raise Refusal(Status.UNAVAILABLE, "tokens-unreadable", error.message) from error
        if token is None:
            message = "The service does not know the token."
            raise Refusal(Status.UNAUTHENTICATED, "wrong-token", message)
        if token.has_expired(self._clock.now_ms()):
            message = f"The token '{token.name}' has expired: ask for a new one."
            raise Refusal(Status.UNAUTHENTICATED, "expired-token", message)
        return Caller(token.name, token)


def _token_of(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    for key, value in metadata:
        if key == TOKEN_KEY:
            text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
            return text[len(PREFIX) :] if text.lower().startswith(PREFIX.lower()) else text
    return None
