"""Keys of object stores on their way to executors: each set of them is one broadcast.

Spark sends a task's function as a pickle, which it keeps in plans, in files and in the memory of
several processes. So the pickle of a storage names a broadcast, which alone has the keys:

1. Where a function that reads a table is pickled, its storage asks for a carrier
   (:mod:`tidelake.fileio.secret`). It is made once for each set of keys and each Spark application.
2. The carrier's pickle is the number of the broadcast. It also tells PySpark that the function
   needs that broadcast, as PySpark's own pickle of one does.
3. A Python process of an executor gets the broadcast with its task, and finds the keys in it.
4. PySpark gives no broadcasts to the process that plans a stream of ``format("tidelake")``. It runs
   on the driver's machine, where the broadcast is a file that only its owner reads: the pickle
   names that too. With ``spark.io.encryption.enabled`` there is no such file.

The value of the broadcast shows nothing in ``repr``. It lies in Spark's directories of temporary
files, readable to their owner only, and goes over Spark's network connections: encrypt both by
``spark.io.encryption.enabled`` and ``spark.network.crypto.enabled``, or let executors find keys of
their own (environment, role, profile), and nothing is sent. Through Spark Connect there are no
broadcasts, and only the second way works.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.core import broadcast as pyspark_broadcast

from tidelake.engine.storage import SecretCarrier, carry_by, known_secrets


class HiddenSecrets:
    """The value of the broadcast: only its pickle has the keys."""

    __slots__ = ("_found",)

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = dict(found)

    def __repr__(self) -> str:
        return "***"

    def reveal(self) -> dict[str, str]:
        """Return the keys."""
        return dict(self._found)


class BroadcastSecrets:
    """A carrier: names the broadcast that has the keys.

    Parameters
    ----------
    file : str
        Its path on the driver's machine; empty without one.
    """

    def __init__(self, broadcast_id: int, file: str, sent: Any = None) -> None:
        self._id = broadcast_id
        self._file = file
        self._sent = sent

    def __repr__(self) -> str:
        return f"BroadcastSecrets({self._id})"

    def __reduce__(self) -> tuple[object, ...]:
        if self._sent is not None:
            self._sent.__reduce__()  # PySpark sends it along with what is pickled now
        return (BroadcastSecrets, (self._id, self._file))

    def secrets(self) -> Mapping[str, str] | None:
        """Return the keys; None in a process that is no task of Spark's."""
        arrived = pyspark_broadcast._broadcastRegistry.get(self._id)
        value = self._in_file() if arrived is None else arrived.value
        return value.reveal() if isinstance(value, HiddenSecrets) else None

    def _in_file(self) -> object:
        """The value, in another process of the driver's machine; else None."""
        if not self._file:
            return None
        try:
            with Path(self._file).open("rb") as file:
                return pickle.load(file)
        except (OSError, pickle.UnpicklingError, EOFError):
            return None


class _Sent:
    """The broadcasts of one Spark application."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.carriers: dict[str, BroadcastSecrets] = {}


class _Application:
    """The application whose broadcasts are in use; a process has one at a time."""

    sent: _Sent | None = None
    lock = threading.Lock()


def carry_secrets() -> None:
    """Let the keys of storages travel by broadcasts of the application that runs."""
    carry_by(_carrier)


def _carrier(number: str, secrets: Mapping[str, str]) -> SecretCarrier | None:
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    with _Application.lock:
        if _Application.sent is None or _Application.sent.context is not context:
            _Application.sent = _Sent(context)
        carriers = _Application.sent.carriers
        if number not in carriers:
            for old in [each for each in carriers if known_secrets(each) is None]:
                del carriers[old]  # its keys ended; Spark removes what no plan names any more
            sent = context.broadcast(HiddenSecrets(secrets))
            file = "" if context._encryption_enabled else sent._path
            carriers[number] = BroadcastSecrets(sent._jbroadcast.id(), file, sent)
        return carriers[number]
