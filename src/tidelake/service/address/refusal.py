"""Refusals: errors of a call as gRPC statuses, with a reason that a program can tell apart.

The status says what a client does: mend the call (INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED,
UNAUTHENTICATED), ask for the layout again (FAILED_PRECONDITION), or wait (UNAVAILABLE,
RESOURCE_EXHAUSTED). The trailing metadata ``tidelake-reason`` says which case it is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tidelake.errors import (
    ClosedError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.service.protocol.reasons import REASON_KEY

MESSAGE_CHARACTERS_MAX = 1_000
"""gRPC drops trailing metadata of more than 8 KiB, and the status with it."""


class Status(enum.IntEnum):
    """The gRPC statuses that the service answers with, by their numbers."""

    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class Refusal(Exception):
    """A call that is not answered."""

    def __init__(
        self,
        status: Status,
        reason: str,
        message: str,
        metadata: Iterable[tuple[str, str | bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message[:MESSAGE_CHARACTERS_MAX]
        self.metadata = ((REASON_KEY, reason), *metadata)


_STATUSES: tuple[tuple[type[TidelakeError], Status], ...] = (
    (InvalidInputError, Status.INVALID_ARGUMENT),
    (UnsupportedError, Status.INVALID_ARGUMENT),
    (NotFoundError, Status.NOT_FOUND),
    (ClosedError, Status.UNAVAILABLE),
    (CorruptError, Status.INTERNAL),
    (StorageError, Status.UNAVAILABLE),
)


def refusal_of(error: Refusal | TidelakeError) -> Refusal:
    """What a client gets to know of an error.

    Examples
    --------
    >>> refusal_of(InvalidInputError("A key is null.", kind="key")).status.name
    'INVALID_ARGUMENT'
    """
    if isinstance(error, Refusal):
        return error
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return Refusal(status, error.kind.replace("_", "-"), error.message)
    return internal(error)


def internal(error: Exception) -> Refusal:
    """What a client gets to know of an error that nobody expected."""
    message = f"The service failed ({type(error).__name__}): its log has the lines. Try again."
    return Refusal(Status.INTERNAL, "internal", message)
