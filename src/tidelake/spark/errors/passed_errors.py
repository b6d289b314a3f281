"""Errors of ours that went through Java, found again by their text.

A callback's error reaches the user as Spark's exception, whose text holds ours. Copies of the
newest errors are kept, so that who makes ours of Spark's gives one of the same class and kind. A
copy has no traceback, which would keep the callback's data in memory.
"""

from __future__ import annotations

import copy
from collections import deque

from tidelake.errors import TidelakeError

KEPT_MAX = 64
_KEPT: deque[TidelakeError] = deque(maxlen=KEPT_MAX)


def keep_error(error: TidelakeError) -> None:
    """Keep an error that goes through Java."""
    _KEPT.append(copy.copy(error))


def passed_error(text: str) -> TidelakeError | None:
    """The newest error of ours whose message stands in what Spark says; None where there is none.

    Examples
    --------
    >>> keep_error(TidelakeError("There is no snapshot 9."))
    >>> passed_error("[STREAM_FAILED] Query [id = 1] failed: There is no snapshot 9. SQLSTATE: 1")
    TidelakeError('There is no snapshot 9.')
    >>> passed_error("[STREAM_FAILED] Query [id = 1] failed: out of memory")
    """
    for error in reversed(_KEPT.copy()):
        if error.message in text:
            return copy.copy(error)
    return None
