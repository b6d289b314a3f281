"""Deletes an object whose name is used again, so that no request for it takes effect later.

A delete whose answer is lost may still be on its way. If the name is given to another object
meanwhile, that one would go: after a rollback the next commit's snapshot. So

1. The object is looked up, and its bytes where the caller says which it means. Its entity tag
   names it and no other.
2. DELETE by a URL that is signed for :data:`LIFE_S` seconds, with ``If-Match``, sent once. A store
   that knows the condition on deletes (AWS, Azure) deletes this object or none. The others refuse
   the request once the URL has ended.
3. Unclear: the request is not sent again, since it may have taken effect and another object may
   have the name. A second URL, signed right after the first one for as long and for a name that
   never exists, is sent until the store refuses it because it has ended. From then on it refuses
   the first one too, whatever its clock says. Then the object is looked up again: it is gone; or
   another one has the name, which stays; or it is deleted by another URL.
4. Where no URL can be signed (anonymous, a shared access signature, a token), the client's own
   delete is sent; if its answer is lost, that is an error as for any request.
"""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any

from tidelake.errors import StorageError
from tidelake.fileio import _optional
from tidelake.fileio.object_store.client import Clients
from tidelake.fileio.object_store.settings import StoreSettings
from tidelake.telemetry import Clock

__all__ = ["ReusedName"]

LIFE_S = 20
"""For how long a URL is signed: longer than an answer takes."""
URLS_MAX = 3
ASKS_MAX = 12
"""Times that a store is asked after an unclear answer, over twice a URL's life and its clock."""
NEVER = ".never"
"""Ends the name that never exists."""
_CONDITION_UNKNOWN = 501
_ENDS = re.compile(r"[?&](X-Amz-Expires|X-Goog-Expires|se)=")
"""What says in a URL of S3, GCS and Azure when it ends; an anonymous one is signed by nobody."""


class _Answer(Enum):
    DELETED = auto()
    """By this request, or by a copy of it."""
    ANOTHER = auto()
    UNCLEAR = auto()
    REFUSED = auto()
    """Nothing was deleted, and will be by this URL."""


@dataclass(frozen=True, slots=True)
class ReusedName:
    """Deletes objects of one bucket.

    Parameters
    ----------
    clients : Clients
        Of the bucket.
    settings : StoreSettings
        How it is reached.
    clock : Clock
        For waits.
    """

    clients: Clients
    settings: StoreSettings
    clock: Clock

    def delete(self, key: str, expected: bytes | None = None) -> bool | None:
        """Delete an object; with `expected` only one of these bytes.

        Returns
        -------
        bool or None
            True if the object that was looked up first is gone. False if it was missing, or another
            came under its name; None if the store signs no URL or refuses it: then nothing was
            deleted, and nothing is on its way.

        Raises
        ------
        StorageError
            It is unknown whether it was deleted.
        """
        first: str | None = None
        for _ in range(URLS_MAX):
            try:
                tag, is_wanted = self._looked_up(key, expected)
            except FileNotFoundError:
                return first is not None  # then it was ours that deleted it
            if not is_wanted or first not in {None, tag}:
                return first is not None  # it is gone; what has the name now came later
            url, never = self._signed(key), self._signed(key + NEVER)
            if url is None or never is None or tag is None:
                return None
            answer = self._deleted(url, str(tag))
            if answer is _Answer.UNCLEAR:
                first = str(tag)
                self._wait_for_end(never, first, key)
                continue
            if answer is _Answer.REFUSED:
                return None
            return answer is not _Answer.ANOTHER
        message = f"{key} could not be deleted: the storage gives no clear answer. Try again."
        raise StorageError(message, path=f"/{key}")

    def _looked_up(self, key: str, expected: bytes | None) -> tuple[str | None, bool]:
        """The entity tag of what is there, and whether its bytes are as expected."""
        obstore = self.clients.calls
        if expected is None:
            return obstore.head(self.clients.steady, key)["e_tag"], True
        found = obstore.get(self.clients.steady, key)
        is_wanted = found.meta["size"] == len(expected) and bytes(found.bytes()) == expected
        return found.meta["e_tag"], is_wanted

    def _signed(self, key: str) -> str | None:
        obstore = _optional.obstore()
        try:
            return str(obstore.sign(self.clients.steady, "DELETE", key, timedelta(seconds=LIFE_S)))
        except (obstore.exceptions.BaseError, OSError, ValueError):
            return None

    def _wait_for_end(self, never: str, tag: str, key: str) -> None:
        """Wait until the store takes a URL no more, and so none that was signed before it."""
        for _ in range(ASKS_MAX):
            self.clock.sleep_ms(LIFE_S * 1000 / 4)
            if self._deleted(never, tag) is _Answer.REFUSED:
                return
        message = (
            f"Whether {key} was deleted is unknown: the storage does not answer, and a request may"
            " still be on its way. Try again."
        )
        raise StorageError(message, path=f"/{key}")

    def _deleted(self, url: str, tag: str) -> _Answer:
        status = self._sent(url, {"If-Match": tag})
        if status == _CONDITION_UNKNOWN:
            status = self._sent(url, {})
        if status is None or status in {408, 409, 429} or status >= 500:
            return _Answer.UNCLEAR
        if status == 412:
            return _Answer.ANOTHER
        return _Answer.DELETED if status < 300 or status == 404 else _Answer.REFUSED

    def _sent(self, url: str, headers: dict[str, str]) -> int | None:
        """Send a request once; the status of its answer, None without one."""
        request = urllib.request.Request(url, method="DELETE", headers=headers)
        try:
            with self._opener().open(request, timeout=LIFE_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return int(error.code)
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def _opener(self) -> urllib.request.OpenerDirector:
        """As the client is set: its proxy and certificates; else those of the machine."""
        handlers: list[Any] = []
        proxy, certificate = self.settings.text("proxy"), self.settings.text("ca-certificate")
        if proxy is not None:
            handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        if certificate is not None:
            context = ssl.create_default_context()
            context.load_verify_locations(cadata=Path(certificate).expanduser().read_text())
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)
