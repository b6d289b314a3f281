"""A put under a lock, for a store that has no conditional writes: by word only, and no fence.

1. Take the lock. Look whether the name is free.
2. Check that the lock is still held; put the object, with a mark of this call; read it back.
3. Check once more that the lock is held. If it was lost meanwhile, another may have looked before
   this object was there, and may write over it later: the outcome is unknown.
4. A put that was not answered may come later, and overwrites whatever is there then. If it cannot
   be read back, or another's object is there, the outcome is unknown, and the lock is left to
   expire: who waits for it until then is not overwritten.

A holder that stops between a check and its put for longer than the lock lives still overwrites
another's object, and so does a put that comes after the lock has expired. No lock without a fence
in the store prevents that: this is as safe as Paimon's own way on such stores, and no safer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tidelake.errors import OutcomeUnknownError, StorageError, StorageRefusedError
from tidelake.fileio.object_store.publish import ObjectPublisher, SettledPut

LEFT = (
    "The catalog's lock is not given back: others wait until it has expired. Look at the file"
    " before you try again."
)


class HeldPutLock(Protocol):
    """A lock that is held, as far as this process knows."""

    def is_held(self) -> bool:
        """Whether it is still this holder's.

        Raises
        ------
        StorageError
            It cannot be told.
        """
        ...

    def leave(self) -> None:
        """Do not give it back at the end: it expires."""
        ...


class PutLock(Protocol):
    """Keeps all writers of a name apart that take it too. Picklable."""

    def hold(self, path: str) -> AbstractContextManager[HeldPutLock]:
        """Hold the lock that a path belongs to.

        Raises
        ------
        StorageError
            It cannot be had. Nothing was done.
        """
        ...


@dataclass(frozen=True, slots=True)
class LockedPublisher:
    """Puts objects if they are absent, under a lock."""

    publisher: ObjectPublisher
    lock: PutLock

    def put_if_absent(
        self, path: str, data: bytes, *, verb: str = "publish", over: bytes | None = None
    ) -> bool:
        """Put an object; False if another's is there, other than one of the bytes `over`.

        Raises
        ------
        StorageRefusedError
            The store refused, or the lock was lost before; nothing is there.
        StorageError
            The lock cannot be had.
        OutcomeUnknownError
            Ours was put, and another may write over it, because the lock was lost meanwhile. Or
            whether ours is there is unknown, and it may come later: the lock is left to expire.
        """
        publisher = self.publisher
        with self.lock.hold(path) as held:
            if publisher.is_there(path, verb) and not publisher.has_bytes(path, over):
                return False
            self._check_before(held, path, verb)
            mark = publisher.ids.uuid()
            put = self._put(held, path, data, mark, verb)
            # another, who did not wait for the lock, may have written over it
            if put.is_ours and publisher.is_ours(path, data, mark) is not False:
                self._check_after(held, path)
                return True
            if not put.may_come_late:
                return False
            held.leave()
            message = (
                f"Could not {verb} {path}: another's object is there, and one of our requests was"
                f" not answered, so it may still overwrite that. {LEFT}"
            )
            raise OutcomeUnknownError(message, path=path)

    def _put(self, held: HeldPutLock, path: str, data: bytes, mark: str, verb: str) -> SettledPut:
        """Put it; the lock is left if that may take effect after its end."""
        try:
            return self.publisher.settled_put(path, data, mark, verb=verb, is_conditional=False)
        except StorageRefusedError:
            raise
        except StorageError as error:
            held.leave()
            raise OutcomeUnknownError(f"{error.message} {LEFT}", path=path) from error
        except BaseException:  # an interrupt: the request may be on its way
            held.leave()
            raise

    def _check_before(self, held: HeldPutLock, path: str, verb: str) -> None:
        try:
            is_held = held.is_held()
        except StorageError as error:
            message = f"Could not {verb} {path}: {error.message} Nothing was written."
            raise StorageRefusedError(message, kind="catalog_lock", path=path) from error
        if not is_held:
            message = (
                f"Could not {verb} {path}: the catalog's lock was lost before, because it was held"
                " for too long, or was deleted. Nothing was written. Try again."
            )
            raise StorageRefusedError(message, kind="catalog_lock", path=path)

    def _check_after(self, held: HeldPutLock, path: str) -> None:
        cause: StorageError | None = None
        try:
            if held.is_held():
                return
        except StorageError as error:
            cause = error
        message = (
            f"The catalog's lock may have been lost while {path} was written, so another writer may"
            " write over it: it is unknown whether it stays. Look at it before you try again."
        )
        raise OutcomeUnknownError(message, path=path) from cause
