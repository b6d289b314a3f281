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
   A URL lasts for :data:`LIFE_S` by the store's clock: the date of its answers tells by how much
   this machine's clock is behind it. What is refused before the URL's end does not count.
4. Where no URL can be signed (anonymous, a shared access signature, a token), the client's own
   delete is sent once, and a warning is logged; if its answer is lost, that is an error.
"""

from __future__ import annotations

import email.utils
import http.client
import logging
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message
from enum import Enum, auto
from pathlib import Path
from typing import Any

from tidelake.errors import StorageError
from tidelake.fileio import _optional
from tidelake.fileio.object_store.client import Clients
from tidelake.fileio.object_store.settings import StoreSettings
from tidelake.telemetry import Clock

_LOG = logging.getLogger("tidelake")
LIFE_S = 20
"""For how long a URL is signed: longer than an answer takes."""
URLS_MAX = 4
SKEW_S_MAX = 15 * 60
"""A store refuses all requests from a clock that differs more."""
ASKS_MAX = 12
"""Times that a store is asked after an unclear answer, over twice a URL's life and its clock."""
NEVER = ".never"
"""Ends the name that never exists."""
_CONDITION_UNKNOWN = 501
_SIGNED_AT = re.compile(r"[?&](?:X-Amz-Date|X-Goog-Date|st)=([^&]+)")
"""What says in a URL of S3, GCS and Azure when it was signed, by this machine's clock."""


class _Answer(Enum):
    DELETED = auto()
    """By this request, or by a copy of it."""
    ANOTHER = auto()
    UNCLEAR = auto()
    REFUSED = auto()
    """Nothing was deleted, and will be by this URL."""


@dataclass(slots=True)
class StoreTime:
    """What is known of a store's clock and URLs; shared by deletes in it.

    Parameters
    ----------
    behind_s : float
        By how much this machine's clock was behind the store's.
    has_warned : bool
        Whether it was said that no URL is taken.
    """

    behind_s: float = 0.0
    has_warned: bool = False

    def warn(self, key: str) -> None:
        """Say once that a delete is sent without protection."""
        if not self.has_warned:
            self.has_warned = True
            _LOG.warning(
                "%s is deleted by a plain request, as all names there that are used again: the"
                " storage takes no signed URL. A request that comes late may delete what others put"
                " under the name meanwhile. See ADR 80.",
                key,
            )


@dataclass(frozen=True, slots=True)
class _Reply:
    """An answer's status and date, in seconds since the epoch; None where there is none."""

    status: int | None = None
    date_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Url:
    """A signed URL, and when it was signed and ends by this machine's clock."""

    text: str
    signed_s: float
    ends_s: float


@dataclass(frozen=True, slots=True)
class ReusedName:
    """Deletes objects of one bucket."""

    clients: Clients
    settings: StoreSettings
    clock: Clock
    time: StoreTime

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
                break
            said = self._deleted(url, str(tag))
            if said.date_s is not None:
                behind_s = said.date_s - url.signed_s
                self.time.behind_s = min(max(behind_s, 0.0), SKEW_S_MAX)
            answer = _meaning(said)
            if answer is _Answer.UNCLEAR:
                first = str(tag)
                self._wait_for_end(never, first, key)
                continue
            if answer is _Answer.REFUSED:
                if said.date_s is not None and said.date_s >= url.ends_s:
                    continue  # the clock here is behind: the next URL lasts longer
                break
            return answer is not _Answer.ANOTHER
        else:
            message = f"{key} could not be deleted: the storage gives no clear answer. Try again."
            raise StorageError(message, path=f"/{key}")
        self.time.warn(key)
        return None

    def _looked_up(self, key: str, expected: bytes | None) -> tuple[str | None, bool]:
        """The entity tag of what is there, and whether its bytes are as expected."""
        obstore = self.clients.calls
        if expected is None:
            return obstore.head(self.clients.steady, key)["e_tag"], True
        found = obstore.get(self.clients.steady, key)
        is_wanted = found.meta["size"] == len(expected) and bytes(found.bytes()) == expected
        return found.meta["e_tag"], is_wanted

    def _signed(self, key: str) -> _Url | None:
        obstore = _optional.obstore()
        life = timedelta(seconds=LIFE_S + int(self.time.behind_s))
        try:
            url = str(obstore.sign(self.clients.steady, "DELETE", key, life))
            signed_at = urllib.parse.unquote(_SIGNED_AT.findall(url)[0])
            plain = re.sub("[-:]", "", signed_at)
            signed = datetime.strptime(plain, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except (obstore.exceptions.BaseError, OSError, ValueError, IndexError):
            return None  # also an anonymous one, which is signed by nobody
        return _Url(url, signed.timestamp(), (signed + life).timestamp())

    def _wait_for_end(self, never: _Url, tag: str, key: str) -> None:
        """Wait until the store takes a URL no more, and so none that was signed before it.

        The store's clock may be far behind this machine's, and so the end late.
        """
        step_s = LIFE_S / 4
        asks = 0
        for _ in range(ASKS_MAX + int(SKEW_S_MAX / step_s)):
            self.clock.sleep_ms(step_s * 1000)
            said = self._deleted(never, tag)
            if said.date_s is not None and said.date_s < never.ends_s:
                continue  # a refusal, too, is another: Azure's URLs also have a beginning
            if _meaning(said) is _Answer.REFUSED:
                return
            asks += 1
            if asks == ASKS_MAX:
                break
        message = (
            f"Whether {key} was deleted is unknown: the storage does not answer, and a request may"
            " still be on its way. Try again."
        )
        raise StorageError(message, path=f"/{key}")

    def _deleted(self, url: _Url, tag: str) -> _Reply:
        said = self._sent(url.text, {"If-Match": tag})
        if said.status == _CONDITION_UNKNOWN:
            said = self._sent(url.text, {})
        return said

    def _sent(self, url: str, headers: dict[str, str]) -> _Reply:
        """Send a request once."""
        request = urllib.request.Request(url, method="DELETE", headers=headers)
        try:
            with self._opener().open(request, timeout=LIFE_S) as answer:
                return _Reply(int(answer.status), _date_s(answer.headers))
        except urllib.error.HTTPError as error:
            error.close()
            return _Reply(int(error.code), _date_s(error.headers))
        except (OSError, http.client.HTTPException, ValueError):
            return _Reply()

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


def _meaning(said: _Reply) -> _Answer:
    status = said.status
    if status is None or status in {408, 409, 429} or status >= 500:
        return _Answer.UNCLEAR
    if status == 412:
        return _Answer.ANOTHER
    return _Answer.DELETED if status < 300 or status == 404 else _Answer.REFUSED


def _date_s(headers: Message) -> float | None:
    """When the store answered, by its clock."""
    try:
        return email.utils.parsedate_to_datetime(headers["Date"] or "").timestamp()
    except (TypeError, ValueError):
        return None
