"""What a failed call means: what to do before the next one, or the error that a caller gets.

Reads change nothing, so every call may be repeated. What is repeated and what is not:

=====================================  =========================================================
status, reason                         what follows
=====================================  =========================================================
UNAVAILABLE, CANCELLED, ABORTED,       wait, locate the executors again, repeat
DEADLINE_EXCEEDED of one attempt
INTERNAL, UNKNOWN, DATA_LOSS           the same, twice
FAILED_PRECONDITION wrong-owner,       locate the executors again, repeat
stale-epoch
schema-changed                         open the table again, repeat
bucket-count                           repeat with the right number of buckets, at once
not-ready                              wait, repeat
RESOURCE_EXHAUSTED too-many-keys,      cut the part in two, repeat
too-many-slices, answer-too-large
RESOURCE_EXHAUSTED                     wait, repeat
NOT_FOUND                              wait, open the table again, repeat for some seconds: the
                                       table may have been dropped and recreated
all others                             an error
=====================================  =========================================================
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.service.client.connection.tls import advice_of
from tidelake.service.protocol.reasons import (
    BUCKETS_KEY,
    REASON_KEY,
    Reason,
    buckets_from_text,
)

Code = grpc.StatusCode


class Remedy(enum.Enum):
    """What to do before a part is asked again, the weakest first."""

    RECOUNT = "recount"
    SPLIT = "split"
    WAIT = "wait"
    LOCATE = "locate"
    WAIT_AND_LOCATE = "wait and locate"
    REOPEN = "reopen"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call.

    Parameters
    ----------
    error : TidelakeError
        What the caller gets if nothing does.
    bucket_counts : mapping
        For `RECOUNT`: index of a slice, and the number of buckets of its partition.
    is_odd : bool
        Whether it hints at a bug or a broken stream: repeated only a few times.
    is_unreachable : bool
        Whether nobody answered.
    is_missing : bool
        Whether the table, or what was asked for, is not there: repeated for some seconds only.
    """

    remedy: Remedy
    error: TidelakeError
    bucket_counts: Mapping[int, int] = field(default_factory=dict)
    is_odd: bool = False
    is_unreachable: bool = False
    is_missing: bool = False


UNREACHABLE = frozenset({Code.UNAVAILABLE, Code.CANCELLED, Code.ABORTED, Code.DEADLINE_EXCEEDED})
ODD = frozenset({Code.INTERNAL, Code.UNKNOWN, Code.DATA_LOSS})
OF_REASON: Mapping[str, Remedy] = {
    Reason.WRONG_OWNER: Remedy.LOCATE,
    Reason.STALE_EPOCH: Remedy.LOCATE,
    Reason.SCHEMA_CHANGED: Remedy.REOPEN,
    Reason.BUCKET_COUNT: Remedy.RECOUNT,
    Reason.NOT_READY: Remedy.WAIT,
    "nested-column": Remedy.REOPEN,  # the table has got a column that needs an Arrow body
}
SPLIT_REASONS = frozenset(
    {"too-many-keys", "too-many-slices", "answer-too-large", "request-too-large"}
)
TOO_LARGE = "larger than max"
"""What gRPC itself says of a message over its limit."""


def failure_of_call(error: grpc.RpcError, *, address: str) -> Failure:
    """Give the meaning of a call that raised."""
    metadata = dict(error.trailing_metadata() or ())
    reason, counts = metadata.get(REASON_KEY), metadata.get(BUCKETS_KEY)
    return failure_of_status(
        error.code(),
        str(reason or ""),
        error.details() or "",
        address=address,
        bucket_counts=buckets_from_text(str(counts)) if counts else {},
    )


def failure_of_status(
    code: grpc.StatusCode,
    reason: str,
    said: str,
    *,
    address: str,
    bucket_counts: Mapping[int, int] | None = None,
) -> Failure:
    """Give the meaning of a status."""
    if reason == Reason.PROTOCOL or code is Code.UNIMPLEMENTED:
        message = (
            f"The service at {address} does not speak this client's protocol ({said}): use the"
            " same version of Tidelake on both sides."
        )
        return Failure(Remedy.NONE, UnsupportedError(message, kind="service_protocol"))
    remedy = OF_REASON.get(reason)
    if remedy is Remedy.RECOUNT and not bucket_counts:
        remedy = Remedy.REOPEN
    if remedy is not None:
        return Failure(remedy, _unanswered(said, address), bucket_counts or {})
    if code is Code.RESOURCE_EXHAUSTED:
        too_large = reason in SPLIT_REASONS or TOO_LARGE in said
        return Failure(Remedy.SPLIT if too_large else Remedy.WAIT, _refused(said, address))
    if code in UNREACHABLE:
        return Failure(Remedy.WAIT_AND_LOCATE, _unanswered(said, address), is_unreachable=True)
    if code in ODD:
        return Failure(Remedy.WAIT_AND_LOCATE, _unanswered(said, address), is_odd=True)
    remedy = Remedy.REOPEN if code is Code.NOT_FOUND else Remedy.NONE
    return Failure(remedy, _final(code, said, address), is_missing=code is Code.NOT_FOUND)


def _unanswered(said: str, address: str) -> StorageError:
    advice = advice_of(said)
    message = f"The service at {address} did not answer ({said}).{advice and ' '}{advice}"
    return StorageError(message, kind="service_unavailable", address=address)


def _refused(said: str, address: str) -> StorageError:
    message = (
        f"The service at {address} refused the request ({said}): ask for fewer keys or columns at"
        " once, or raise the limits of the service."
    )
    return StorageError(message, kind="service_limit", address=address)


def _final(code: grpc.StatusCode, said: str, address: str) -> TidelakeError:
    if code in {Code.UNAUTHENTICATED, Code.PERMISSION_DENIED}:
        message = (
            f"The service at {address} refused the token ({said}): give a valid one,"
            " tidelake.lookup_client(..., token=...), or have the table added to it."
        )
        return InvalidInputError(message, kind="service_access", address=address)
    if code is Code.NOT_FOUND:
        message = f"The service at {address} does not know what was asked for ({said})."
        return NotFoundError(message, kind="service_not_found", address=address)
    if code in {Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE}:
        message = f"The service at {address} refused the request: {said}"
        return InvalidInputError(message, kind="service_request", address=address)
    message = f"The service at {address} failed with {code.name} ({said})."
    return StorageError(message, kind="service_failed", address=address)
