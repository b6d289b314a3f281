"""What goes wrong on the wire between a client and an object store, on order.

A :class:`Fault` says which requests it meets and how. Requests are counted per fault, from 1.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Mode(enum.StrEnum):
    """How a request fails."""

    STATUS = "status"
    """Refused with a status and a code; no effect."""
    STATUS_AFTER = "status_after"
    """The effect happens, then the answer is a status and a code."""
    DROP = "drop"
    """The connection ends before the request has an effect."""
    LOST = "lost"
    """The request has its effect; the answer is lost."""
    DUP = "dup"
    """The network delivers the request twice; the client sees the second answer."""
    LATE = "late"
    """The answer comes `ms` after the effect."""
    HANG = "hang"
    """Nothing happens for `ms`, then effect and answer."""
    DEFER = "defer"
    """The connection ends at once; the effect comes `after` further requests."""
    CUT = "cut"
    """The body of the answer ends half-way."""
    SHORT = "short"
    """The body is shorter than what was asked for, and the headers agree with it."""
    FLIP = "flip"
    """One bit of the body is another."""
    HTML = "html"
    """A page for people comes instead of an answer, with status 200."""
    LAST_PAGE = "last_page"
    """A listing says that there are no further pages."""
    PARTIAL = "partial"
    """A bulk delete leaves its first name, and says so."""


@dataclass(slots=True)
class Fault:
    """An ordered fault.

    Parameters
    ----------
    mode : Mode
        How the request fails.
    method : str
        The requests' method; empty for all.
    key : str
        Part of the requests' target, as it is sent.
    nth, count : int
        The first of the matching requests that fails, and how many of them fail.
    ms : int
        For LATE and HANG.
    after : int
        For DEFER: requests.
    status, code : int, str
        For STATUS and STATUS_AFTER.
    headers : dict
        More headers of the STATUS.
    """

    mode: Mode
    method: str = ""
    key: str = ""
    nth: int = 1
    count: int = 1
    ms: int = 0
    after: int = 3
    status: int = 503
    code: str = "SlowDown"
    headers: dict[str, str] = field(default_factory=dict)
    seen: int = 0

    def meets(self, method: str, target: str) -> bool:
        """Whether a request fails; counts it."""
        if self.method not in ("", method) or self.key not in target:
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.count
