"""Secrets of storages: shown by no ``repr``, in no message, and in no pickle.

1. A secret is a :class:`Secret`: it prints as ``***``.
2. A storage that is pickled leaves its secrets out, and takes a number along. The registry of each
   process knows secrets by such numbers, so a copy in the same process has them again.
3. For another process, :func:`export_secrets` gives bytes to carry in a way that does not show, and
   :func:`adopt_secrets` takes them in there.
4. A framework that sends pickles to processes of its own has a way for secrets beside them: its
   :class:`SecretCarrier` travels in the pickle in their place, and gives them there
   (:func:`carry_by`). Spark's are broadcasts.

A storage whose secrets did not come along says so when it is used.

Keys that end are forgotten an hour later, so that a process that renews them for weeks keeps few
sets. A process to which secrets were carried keeps the sets that arrived last: others come along
again with the next pickle.
"""

from __future__ import annotations

import hmac
import os
import pickle
from collections.abc import Callable, Mapping
from typing import Protocol

from tidelake.errors import StorageRefusedError

KEPT_MS = 3_600_000
"""For so long ended keys are known: clocks differ, and the store's own error tells more."""
ARRIVED_MAX = 256
"""Sets of secrets that a process keeps of those that came to it."""

_REGISTRY: dict[str, dict[str, str]] = {}
_ENDS: dict[str, int] = {}
"""When the secrets of a number end, ms since the epoch; of most they do not."""


class SecretCarrier(Protocol):
    """Stands for secrets in a pickle, and finds them in the process where that arrives.

    Picklable, and nothing of a secret is in its pickle or its ``repr``.
    """

    def secrets(self) -> Mapping[str, str] | None:
        """Return the secrets; None where they did not come along."""
        ...


class _Carriers:
    """How this process sends secrets, and those that came to it."""

    make: Callable[[str, Mapping[str, str]], SecretCarrier | None] | None = None
    arrived: dict[str, SecretCarrier] = {}  # noqa: RUF012 - one for the process


class Secret:
    """A text that is not shown.

    Examples
    --------
    >>> Secret("a1b2c3")
    ***
    >>> f"{Secret('a1b2c3')}", Secret("a1b2c3").reveal()
    ('***', 'a1b2c3')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other._text.encode()
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        message = "a secret is not pickled: storages leave theirs out"
        raise TypeError(message)


class SentSecrets:
    """Secrets beside something that is pickled: they travel as those of a storage do.

    Examples
    --------
    >>> sent = SentSecrets({"token": "a1b2c3"})
    >>> sent, sent.reveal()
    (***, {'token': 'a1b2c3'})
    """

    __slots__ = ("_number",)

    def __init__(self, secrets: Mapping[str, str], *, ends_ms: int | None = None) -> None:
        self._number = remember_secrets(secrets, ends_ms=ends_ms)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[object, ...]:
        return (_arrived, (self._number, carrier_of(self._number)))

    @property
    def number(self) -> str:
        """Names the secrets: equal ones have one number in a process."""
        return self._number

    @property
    def found(self) -> dict[str, str] | None:
        """The secrets; None if they did not come along to this process, or ended long ago."""
        return known_secrets(self._number)

    def reveal(self) -> dict[str, str]:
        """Return the secrets.

        Raises
        ------
        StorageRefusedError
            They did not come along to this process.
        """
        found = self.found
        if found is None:
            message = (
                "A secret did not come along to this process, since secrets are left out of what is"
                " sent between processes: on Spark it takes a session with a JVM of its own."
            )
            raise StorageRefusedError(message, kind="secrets_left_out")
        return dict(found)


def _arrived(number: str, carrier: SecretCarrier | None) -> SentSecrets:
    carried_secrets(number, carrier)
    sent = SentSecrets.__new__(SentSecrets)
    sent._number = number
    return sent


def remember_secrets(secrets: Mapping[str, str], *, ends_ms: int | None = None) -> str:
    """Put secrets into this process's registry; returns their number.

    Parameters
    ----------
    ends_ms : int, optional
        When they end, ms since the epoch; :func:`forget_ended` forgets them then.
    """
    given = dict(secrets)
    for number, known in list(_REGISTRY.items()):  # other threads insert
        if known == given:
            return number
    number = os.urandom(8).hex()
    if ends_ms is not None:
        _ENDS[number] = ends_ms
    _REGISTRY[number] = given
    return number


def forget_ended(now_ms: int) -> None:
    """Forget secrets that ended more than an hour ago.

    Parameters
    ----------
    now_ms : int
        The time, ms since the epoch.
    """
    for number, ends_ms in list(_ENDS.items()):  # other threads insert
        if ends_ms + KEPT_MS < now_ms:
            _REGISTRY.pop(number, None)
            _ENDS.pop(number, None)


def known_secrets(number: str) -> dict[str, str] | None:
    """The secrets of a number; None if they did not come to this process."""
    return _REGISTRY.get(number)


def carry_by(make: Callable[[str, Mapping[str, str]], SecretCarrier | None]) -> None:
    """Let pickles of storages take a carrier along from now on.

    Parameters
    ----------
    make : callable
        Takes the number of secrets and the secrets. Returns their carrier, the same for each
        pickle; or None where nothing carries them now.
    """
    _Carriers.make = make


def carrier_of(number: str) -> SecretCarrier | None:
    """What takes the secrets of a number along in a pickle; None without."""
    arrived = _Carriers.arrived.get(number)
    if arrived is not None:
        return arrived
    secrets = _REGISTRY.get(number)
    return None if _Carriers.make is None or secrets is None else _Carriers.make(number, secrets)


def carried_secrets(number: str, carrier: SecretCarrier | None) -> dict[str, str] | None:
    """The secrets of a storage that has arrived here; None if they did not come along."""
    known, arrived = _REGISTRY.get(number), _Carriers.arrived
    if carrier is None:
        return known
    if known is not None:
        if arrived.pop(number, None) is not None:
            arrived[number] = carrier  # the last to be forgotten
        return known
    found = carrier.secrets()
    if found is None:
        return None
    arrived[number] = carrier  # a copy may go on to another process
    for oldest in list(arrived)[:-ARRIVED_MAX]:
        arrived.pop(oldest, None)
        _REGISTRY.pop(oldest, None)
    return _REGISTRY.setdefault(number, dict(found))


def export_secrets() -> bytes:
    """All secrets of this process, in clear: for a carrier that does not show them."""
    return pickle.dumps(dict(_REGISTRY))


def adopt_secrets(exported: bytes) -> None:
    """Take in what :func:`export_secrets` gave in another process."""
    _REGISTRY.update(pickle.loads(exported))
