"""What an executor gets at its start: a small value that goes by pickle or JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from tidelake.errors import InvalidInputError
from tidelake.service.address.security import LOOPBACK, Security
from tidelake.service.protocol.reasons import KEYS_MAX, REQUEST_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """What one executor takes on at once; it refuses more with RESOURCE_EXHAUSTED.

    Parameters
    ----------
    keys : int
        The most keys of a request.
    flight_bytes : int
        All answers that clients have not taken yet.
    slow_reader_seconds : float
        How long a client may leave an answer untaken before its call is ended.
    wait_seconds : float
        How long a call without a deadline waits for a snapshot.
    """

    request_bytes: int = REQUEST_BYTES_MAX
    keys: int = KEYS_MAX
    calls: int = 64
    answer_bytes: int = 64 << 20
    flight_bytes: int = 256 << 20
    slow_reader_seconds: float = 30.0
    wait_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                message = f"Limit '{name}' is {value!r} but must be a number above 0."
                raise InvalidInputError(message, kind="service_limits")


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """All that an executor needs. Picklable.

    Parameters
    ----------
    address : str
        ``host:port`` of the address server.
    warehouse : str
        Path or URI of the warehouse, on the executor's machine too; its name at a REST server.
    attempt : int
        Goes up with each start of this index: the newer of two instances wins.
    bind : str
        Where to listen: a host, or ``host:port``.
    limits : Limits
        What it takes on.
    directory : str, optional
        Where lookup files are kept; by default in the machine's directory of temporary files.
    memory : int or str, optional
        What the process may hold, as for :func:`tidelake.open`.
    catalog_options, storage : mapping
        The kind of the catalog and its options, and how to reach the store; not shown.
    """

    address: str
    service_id: str
    secret: str = field(repr=False)
    warehouse: str
    index: int
    executors_count: int
    attempt: int = 0
    bind: str = LOOPBACK
    security: Security = field(default_factory=Security)
    limits: Limits = field(default_factory=Limits)
    directory: str | None = None
    memory: int | str | None = None
    catalog_options: dict[str, str] = field(default_factory=dict, repr=False)
    storage: dict[str, str] = field(default_factory=dict, repr=False)

    def to_json(self) -> bytes:
        """Give it as JSON, for a process of its own."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> ExecutorConfig:
        """Take it from JSON.

        Raises
        ------
        InvalidInputError
            It is no such JSON.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            message = f"The configuration of the executor is not whole: {error}."
            raise InvalidInputError(message, kind="executor_config") from error
