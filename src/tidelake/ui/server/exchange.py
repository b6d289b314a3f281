"""A request and its answer, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

HTML, CSS, JS = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript"))
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Those of every answer."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a browser asks.

    Parameters
    ----------
    path : str
        Still quoted, without the query.
    headers : mapping of str to str
        By name in lower case.
    form : mapping of str to str
        The fields of a POST.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)

    def cookie(self, name: str) -> str:
        """The value of a cookie; empty without it."""
        for part in self.headers.get("cookie", "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return ""


@dataclass(frozen=True, slots=True)
class PageResponse:
    """What it gets."""

    status: HTTPStatus
    body: bytes = b""
    content_type: str = HTML
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        """Its headers, with those of every answer."""
        length = {} if self.status is HTTPStatus.NOT_MODIFIED else self._entity
        return {**SAFE_HEADERS, "Cache-Control": "no-store", **length, **self.headers}

    @property
    def _entity(self) -> dict[str, str]:
        return {"Content-Type": self.content_type, "Content-Length": str(len(self.body))}


def page(text: str, status: HTTPStatus = HTTPStatus.OK) -> PageResponse:
    """Answer with HTML."""
    return PageResponse(status, text.encode())


def if_changed(request: PageRequest, text: str) -> PageResponse:
    """Answer with HTML, or with nothing if the browser has this very text."""
    body = text.encode()
    etag = f'"{hashlib.blake2s(body, digest_size=12).hexdigest()}"'
    if request.headers.get("if-none-match") == etag:
        return PageResponse(HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
    return PageResponse(HTTPStatus.OK, body, headers={"ETag": etag})


def moved(to: str, **headers: str) -> PageResponse:
    """Send the browser to another page, by GET."""
    return PageResponse(HTTPStatus.SEE_OTHER, headers={"Location": to, **headers})
