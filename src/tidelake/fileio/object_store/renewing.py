"""obstore with keys that are renewed: before they end, and when the store says that they have.

1. The client asks for keys before each of its requests, so a long upload gets new ones in time. It
   keeps none: its own memory of them could not be cleared.
2. A call that the store refuses because of its keys had no effect. It is made again, once, with
   other keys; a listing goes on behind the last name that came.
3. An upload in parts cannot be made again, because its parts are gone. It fails, and shows nothing.

A store that forgets ended keys calls them unknown, and the answer to HEAD says no reason at all:
both count as expired. If keys that were renewed for no reason said are refused in the same way,
they are not the reason, and are not renewed again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

from tidelake.errors import TidelakeError
from tidelake.fileio import _optional
from tidelake.fileio.object_store.credentials import (
    Credentials,
    CredentialSource,
    NoKeysError,
)
from tidelake.fileio.object_store.errors import refusal_of

_PAST = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""When keys end, as the client is told: it asks again before each request."""


class RenewingCalls:
    """The functions of obstore that are used here; each call may renew the keys."""

    def __init__(self, credentials: CredentialSource) -> None:
        self._credentials = credentials
        self._module = _optional.obstore()
        self._doubted: Credentials | None = None

    @property
    def exceptions(self) -> Any:
        """The errors of obstore."""
        return self._module.exceptions

    def get(self, *given: Any, **named: Any) -> Any:
        """Read an object."""
        return self._called(self._module.get, *given, **named)

    def get_ranges(self, *given: Any, **named: Any) -> Any:
        """Read ranges of an object."""
        return self._called(self._module.get_ranges, *given, **named)

    def head(self, *given: Any, **named: Any) -> Any:
        """Look an object up."""
        return self._called(self._module.head, *given, **named)

    def list_with_delimiter(self, *given: Any, **named: Any) -> Any:
        """List one level."""
        return self._called(self._module.list_with_delimiter, *given, **named)

    def delete(self, *given: Any, **named: Any) -> Any:
        """Delete objects."""
        return self._called(self._module.delete, *given, **named)

    def put(self, client: Any, key: str, data: Any, **named: Any) -> Any:
        """Write an object; from parts, without another try."""
        if isinstance(data, bytes):
            return self._called(self._module.put, client, key, data, **named)
        used = self._current()
        try:
            return self._module.put(client, key, data, **named)
        except (self.exceptions.BaseError, OSError) as error:
            if self._may_have_expired(error, used):
                self._renew(used, error)  # for the next file
            raise

    def list(
        self, client: Any, prefix: str | None, *, chunk_size: int, offset: str | None = None
    ) -> Iterator[Any]:
        """List all below a prefix and behind a name, page by page."""
        last = offset
        is_renewed = False
        while True:
            used = self._current()
            try:
                for page in self._module.list(client, prefix, offset=last, chunk_size=chunk_size):
                    yield page
                    last, is_renewed = page[-1]["path"], False
                    self._trust(used)
            except (self.exceptions.BaseError, OSError) as error:
                if is_renewed or not self._may_have_expired(error, used):
                    raise
                self._renew(used, error)
                is_renewed = True
            else:
                return

    def _called(self, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        used = self._current()
        try:
            answer = call(*given, **named)
        except FileNotFoundError:
            self._trust(used)
            raise
        except (self.exceptions.BaseError, OSError) as error:
            if not self._may_have_expired(error, used):
                raise
            self._renew(used, error)
        else:
            self._trust(used)
            return answer
        return call(*given, **named)

    def _current(self) -> Credentials:
        try:
            return self._credentials.current()
        except TidelakeError as error:
            raise NoKeysError(error) from error

    def _may_have_expired(self, error: BaseException, used: Credentials) -> bool:
        """Whether a request was refused because of its keys, which may have ended."""
        found = refusal_of(error)
        if found.is_unexplained:
            return used is not self._doubted
        return found.has_expired_keys or found.has_unknown_keys

    def _trust(self, used: Credentials) -> None:
        """Note that a request with these keys was answered."""
        if self._doubted is used:
            self._doubted = None

    def _renew(self, old: Credentials, refusal: BaseException) -> None:
        try:
            found = self._credentials.renewed(old)
        except TidelakeError as error:
            raise NoKeysError(error) from error
        if refusal_of(refusal).is_unexplained:
            self._doubted = found


class KeyProvider:
    """What obstore asks for keys."""

    def __init__(self, credentials: CredentialSource) -> None:
        self._credentials = credentials
        self._last: tuple[Credentials, dict[str, Any]] | None = None

    def __call__(self) -> dict[str, Any]:
        """The keys, as obstore takes them; called before each request."""
        found, last = self._credentials.current(), self._last
        if last is not None and last[0] is found:
            return last[1]
        given = {**found.for_client(), "expires_at": _PAST}
        self._last = (found, given)
        return given
