"""One conditional put, and then the truth by reading back.

No client's answer "exists" is believed. A network may deliver a request twice, an answer may be
lost, and some stores answer 409 where nothing is. So each put carries a mark, unique to the call,
in the object's metadata, and

1. PUT with ``If-None-Match: *``, sent once. Acknowledged: ours.
2. Refused for good (no right, no bucket, no conditions): nothing is there, unless an earlier put of
   this call may still be on its way.
3. Anything else, also 412: read the name back. Our mark, or our bytes where a store keeps no
   marks: ours. Another's: lost.
4. Absent or unreadable: the put may still be on its way, and could land after any later read. So
   the name is not given up: the same bytes with the same mark are put again, :data:`TRIES_MAX`
   times in all. The put that lands first decides, and all of them are ours.
5. After that nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelake.errors import StorageError
from tidelake.fileio import _optional
from tidelake.fileio.object_store.client import Clients
from tidelake.fileio.object_store.errors import Bucket, refusal_of, translated
from tidelake.telemetry import Backoff, Clock, Ids, Rng

TRIES_MAX = 4
FIRST_WAIT_MS = 50
WAITS = Backoff(FIRST_WAIT_MS, longest_ms=200, longer=0.5)
MARK = "tidelakeput"
"""Name of the metadata with the mark: a word that Azure takes too."""


@dataclass(frozen=True, slots=True)
class SettledPut:
    """What became of a put.

    Parameters
    ----------
    is_ours : bool
        Whether our object is there; otherwise another's is.
    may_come_late : bool
        Whether a try was not answered, so that it may take effect at any later time: a conditional
        one only while the name is free. The answer that the name is taken is one.
    """

    is_ours: bool
    may_come_late: bool


@dataclass(frozen=True, slots=True)
class ObjectPublisher:
    """Puts objects if they are absent."""

    clients: Clients
    bucket: Bucket
    clock: Clock
    ids: Ids
    rng: Rng

    def put_if_absent(self, path: str, data: bytes, *, verb: str = "publish") -> bool:
        """Put an object; False if another's is there.

        Raises
        ------
        StorageRefusedError
            The store refused; nothing is there.
        StorageError
            Whether ours is there is unknown.
        """
        return self.settled_put(path, data, self.ids.uuid(), verb=verb).is_ours

    def put_over(self, path: str, data: bytes, over: bytes, *, verb: str = "publish") -> SettledPut:
        """Put an object in the place of one of certain bytes; not ours if that is not there.

        By ``If-Match`` with its entity tag: a request that comes late finds another tag.

        Raises
        ------
        StorageRefusedError, StorageError
            As of :meth:`put_if_absent`.
        """
        obstore = self.clients.calls
        try:
            found = obstore.get(self.clients.steady, path[1:])
            meta = found.meta
            if meta["size"] != len(over) or bytes(found.bytes()) != over:
                return SettledPut(is_ours=False, may_come_late=False)
        except FileNotFoundError:
            return SettledPut(is_ours=False, may_come_late=False)
        except (obstore.exceptions.BaseError, OSError) as error:
            made = translated(error, self.bucket, path, verb, refused=True)
            raise made from self.bucket.cause(error)
        old = {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}
        return self.settled_put(path, data, self.ids.uuid(), verb=verb, old=old)

    def has_bytes(self, path: str, wanted: bytes | None) -> bool:
        """Whether an object has certain bytes; False if none are given, or it cannot be read."""
        if wanted is None:
            return False
        obstore = self.clients.calls
        try:
            return bytes(obstore.get(self.clients.steady, path[1:]).bytes()) == wanted
        except (obstore.exceptions.BaseError, OSError):
            return False

    def settled_put(
        self,
        path: str,
        data: bytes,
        mark: str,
        *,
        verb: str,
        is_conditional: bool = True,
        old: dict[str, Any] | None = None,
    ) -> SettledPut:
        """Put an object with a mark, and settle what is unclear.

        Without the condition another's object is overwritten: a lock must keep others away. With
        `old`, tags of an object, only that one is.

        Raises
        ------
        StorageRefusedError, StorageError
            As of :meth:`put_if_absent`.
        """
        unclear: BaseException | None = None
        may_come_late = False
        for attempt in range(TRIES_MAX):
            if attempt:
                WAITS.sleep(attempt - 1, self.clock, self.rng)
            mode: Any = ("create" if is_conditional else "overwrite") if old is None else old
            failure = self._put(path, data, mark, mode)
            if failure is None:
                return SettledPut(is_ours=True, may_come_late=may_come_late)
            if old is not None and isinstance(failure, FileNotFoundError):
                return SettledPut(is_ours=False, may_come_late=False)  # what it named is gone
            if refusal_of(failure).is_definite and not _is_taken(failure):
                if unclear is None:
                    raise translated(
                        failure, self.bucket, path, verb, refused=True
                    ) from self.bucket.cause(failure)
                break
            unclear = failure
            may_come_late = may_come_late or not _is_taken(failure)
            found = self.is_ours(path, data, mark)
            if found is False and old is not None and not _is_taken(failure):
                continue  # what stands there may be the old object, and ours on its way
            if found is not None:
                return SettledPut(found, may_come_late)
        assert unclear is not None, "a clear answer was returned"
        raise self._unknown(path, verb, unclear) from self.bucket.cause(unclear)

    def put_own(self, path: str, data: bytes, *, verb: str = "write") -> bool:
        """Put an object under a name that is this writer's alone, without a condition.

        False if something is there.
        """
        if self.is_there(path, verb):
            return False
        mark = self.ids.uuid()
        return self.settled_put(path, data, mark, verb=verb, is_conditional=False).is_ours

    def is_there(self, path: str, verb: str) -> bool:
        """Whether a name is taken. Nothing was written, whatever is raised."""
        obstore = self.clients.calls
        try:
            obstore.head(self.clients.steady, path[1:])
        except FileNotFoundError:
            return False
        except (obstore.exceptions.BaseError, OSError) as error:
            made = translated(error, self.bucket, path, verb, refused=True)
            raise made from self.bucket.cause(error)
        return True

    def _put(self, path: str, data: bytes, mark: str, mode: Any) -> BaseException | None:
        """Send it once; what went wrong."""
        obstore = self.clients.calls
        try:
            obstore.put(
                self.clients.once,
                path[1:],
                data,
                attributes={MARK: mark},
                mode=mode,
                use_multipart=False,
            )
        except (obstore.exceptions.BaseError, OSError) as error:
            return error
        return None

    def is_ours(self, path: str, data: bytes, mark: str) -> bool | None:
        """Whether the object that is there is ours; None if there is none, or it is unreadable."""
        obstore = self.clients.calls
        try:
            found = obstore.get(self.clients.steady, path[1:])
            kept = found.attributes.get(MARK)
            if kept is not None:
                return bool(kept == mark)
            return found.meta["size"] == len(data) and bytes(found.bytes()) == data
        except (obstore.exceptions.BaseError, OSError):
            return None

    def _unknown(self, path: str, verb: str, cause: BaseException) -> StorageError:
        found = translated(cause, self.bucket, path, verb)
        if verb == "write":  # a name of this writer's own, which nothing names yet
            message = (
                f"{found.message} It was sent {TRIES_MAX} times and cannot be read back. Nothing"
                " names that file, so nothing was committed; at most it stays as an orphan."
            )
            return StorageError(message, kind=found.kind, path=path)
        message = (
            f"{found.message} It was sent {TRIES_MAX} times and cannot be read back, so it is"
            " unknown whether it is there; it may still appear."
        )
        return StorageError(message, kind="outcome_unknown", path=path)


def _is_taken(error: BaseException) -> bool:
    """Whether the store says that the name is taken, which may be our own doing."""
    exceptions: Any = _optional.obstore().exceptions
    return isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError))
