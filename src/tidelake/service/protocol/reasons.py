"""Names that both sides say: the protocol's version, metadata keys, why a request was refused."""

from __future__ import annotations

from enum import StrEnum

PROTOCOL = 1
"""The version that this package speaks. On the wire: never renumber."""

TOKEN_KEY = "authorization"
REASON_KEY = "tidelake-reason"
BUCKETS_KEY = "tidelake-buckets"

REQUEST_BYTES_MAX = 4 << 20
"""How many bytes of a request a server takes by default."""

KEYS_MAX = 65_536
"""How many keys of a request a server takes by default."""


class Reason(StrEnum):
    """Why a request was refused, beside the gRPC status. On the wire: never rename."""

    WRONG_OWNER = "wrong-owner"
    STALE_EPOCH = "stale-epoch"
    SCHEMA_CHANGED = "schema-changed"
    BUCKET_COUNT = "bucket-count"
    NOT_READY = "not-ready"
    PROTOCOL = "protocol"


def bearer(token: str) -> str:
    """The value of the metadata `TOKEN_KEY` for a token."""
    return f"Bearer {token}"


def buckets_to_text(buckets: dict[int, int]) -> str:
    """The value of the metadata `BUCKETS_KEY`: how many buckets the partitions of slices have.

    Examples
    --------
    >>> buckets_to_text({0: 4, 3: 8})
    '0=4,3=8'
    """
    return ",".join(f"{index}={count}" for index, count in buckets.items())


def buckets_from_text(text: str) -> dict[int, int]:
    """Parse :func:`buckets_to_text`; what is no such text is empty.

    Examples
    --------
    >>> buckets_from_text("0=4,3=8"), buckets_from_text("?")
    ({0: 4, 3: 8}, {})
    """
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    if not all(index.isdecimal() and count.isdecimal() for index, count in pairs):
        return {}
    return {int(index): int(count) for index, count in pairs}
