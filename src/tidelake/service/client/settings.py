"""How a client behaves: what a caller chooses, and the bounds of calls, waits and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.engine.env import Backoff
from tidelake.errors import InvalidInputError
from tidelake.service.client.connection.tls import Tls

PAUSES = Backoff(first_ms=20, longest_ms=300, shorter=0.5)
"""Waits between the attempts of a call."""
ATTEMPT_SECONDS_MAX = 10.0
"""After which a call counts as lost, so that one executor that hangs does not take all the time."""
LOCATE_SECONDS_MAX = 2.0
CALL_KEYS_MAX = 32_768
"""Keys of a call; half of what a server takes by default."""
CALL_BYTES_MAX = 2 << 20
"""Bytes of the keys of a call; half of what a server takes by default."""
JOINED_KEYS_MAX = 4_096
"""Single gets that are joined into one call."""
IN_FLIGHT_MAX = 2
"""Requests of joined gets in flight to one executor."""
ODD_MAX = 3
"""How often a call that failed for no known reason is repeated."""
MISSING_SECONDS_MAX = 5.0
"""How long a table that is not served is asked for again."""
MEETINGS_MAX = 50
"""How often executors behind the newest snapshot of a batch are asked again."""
MEETINGS_AT_ONCE = 2
"""How often without a pause."""
GONE_SECONDS = 1.0
"""How long nobody answers before a client that may read the table itself does so."""
LOOK_AGAIN_SECONDS = 5.0
"""After which such a client looks whether the service is back."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a caller chooses. Picklable.

    Parameters
    ----------
    deadline_seconds : float
        How long one call of a method may take.
    fallback : bool
        Whether to read the table's files here where the service has stopped.
    consistent : bool
        Whether all keys of a batch are answered from one snapshot.
    """

    deadline_seconds: float = 30.0
    token: str | None = None
    tls: Tls | None = None
    fallback: bool = False
    consistent: bool = True

    def __post_init__(self) -> None:
        if not self.deadline_seconds > 0:
            message = f"deadline_seconds is {self.deadline_seconds!r}: give a number above 0."
            raise InvalidInputError(message, kind="deadline")
        token = self.token or ""
        if not (token.isascii() and token.isprintable() and token == token.strip()):
            message = (
                "The token of the query service holds characters that no token has, such as a line"
                " break at its end: look at how it is read, for example with .strip()."
            )
            raise InvalidInputError(message, kind="service_access")
