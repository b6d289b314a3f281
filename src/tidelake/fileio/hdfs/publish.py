"""Publishing by a rename, and the truth where its answer is lost.

A file is written under a hidden name, and renamed to its own, without overwriting. The name node
does a rename whole or not at all, and takes the source by its path: if that lies in a directory
that is held, it can only get into that directory.

A failure of the rename is not believed, whatever it says: the client sends a call again when its
connection breaks, and then "no such file" may mean that the first one took effect. Nor may the name
be given up while the rename may still be on its way. So

1. The hidden file is renamed once more, to another hidden name. If it is there, by this call or an
   earlier one, the first rename has not taken effect, and never will: its source is gone.
2. If it is at neither hidden name, the first rename took it to its place. The bytes there are
   looked at all the same, since a person may have deleted what is hidden.
3. If it is where it was, or no name node answers, 1. is done again, for a minute. After that nobody
   knows.

No mark in the file and no clock is needed: the file is at one of three names, and each rename moves
it at most once.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tidelake.errors import CorruptError, NotFoundError, StorageError, TidelakeError
from tidelake.fileio.file_io import dir_missing, parent_of
from tidelake.fileio.hdfs.calls import WAITS_MS, HdfsCalls
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS, refusal_of
from tidelake.fileio.hdfs.jobs import NewFile, is_there, read_all, write_file
from tidelake.telemetry import Clock, Ids

DATA_TRIES_MAX = 5
"""Further writes of a hidden file whose data nodes fail, or whose name is taken: three seconds."""
TRIES_MAX = 4
"""Renames of one put, each after the one before is known to have failed."""


@dataclass(frozen=True, slots=True)
class HdfsPublisher:
    """Puts files by renaming."""

    calls: HdfsCalls
    clock: Clock
    ids: Ids
    new: NewFile

    def put_if_absent(
        self, path: str, data: bytes, *, held: str | None = None, verb: str = "publish"
    ) -> bool:
        """Put a file; False if the name is taken.

        Parameters
        ----------
        data : bytes
            All of it.
        held : str, optional
            A hidden directory in the directory that is held; else missing parents are created.

        Raises
        ------
        NotFoundError
            The directory that is held is not at its path any more; nothing was put.
        StorageRefusedError
            Nothing was put.
        StorageError
            Whether it was put is unknown.
        """
        if self._is_taken(path, held):
            return False
        hidden = self._written(path, data, held, verb)
        failure: BaseException | None = None
        for attempt in range(TRIES_MAX):
            if attempt:
                self.clock.sleep_ms(WAITS_MS[attempt])
            failure = self._rename(hidden, path)
            if failure is None:
                return True
            found = self._looked_for(hidden, f"{hidden}-{attempt}", path, data, failure)
            if found is None:
                return True
            hidden = found
            if refusal_of(failure).is_taken and self._exists(path):
                self._forget(hidden)
                return False
            if not self.calls.may_try_again(failure):
                break
        self._forget(hidden)
        assert failure is not None, "an answer was returned"
        raise self.calls.translated(failure, path, verb, refused=True) from failure

    def replace(self, path: str, data: bytes, *, held: str | None = None) -> None:
        """Write or overwrite a file, whole at any moment.

        Raises
        ------
        NotFoundError
            The directory that is held is not at its path any more; nothing was written.
        """
        hidden = self._written(path, data, held, "replace")
        failure = self._rename(hidden, path, overwrite=True)
        if failure is None:
            return
        if refusal_of(failure).is_missing and not self._exists(hidden):
            # the rename was done and sent again, or the directory is gone
            place = held or parent_of(path)
            if self._exists(place):
                return
            raise dir_missing(parent_of(path)) from failure
        self._forget(hidden)
        raise self.calls.translated(failure, path, "replace") from failure

    def _is_taken(self, path: str, held: str | None) -> bool:
        """Whether the loser of a race need not write its file."""
        if not self._exists(path):
            return False
        if held is not None and not self._exists(held):
            raise dir_missing(parent_of(path))
        return True

    def _exists(self, path: str) -> bool:
        def look(client: object) -> bool:
            return is_there(client, path)

        return self.calls.steady(look, path, "look up", refused=True)

    def _written(self, path: str, data: bytes, held: str | None, verb: str) -> str:
        """Write the hidden file; nothing is published if that fails."""
        base = f"{held}/{self.ids.uuid()}" if held else self._beside(path)
        for attempt, wait_ms in enumerate((*WAITS_MS, None)):
            hidden = f"{base}.{attempt}.tmp"  # a try without an answer may have left its own

            def write(client: object, name: str = hidden) -> None:
                write_file(client, name, data, self.new, create_parent=held is None)

            try:
                self.calls.once(write)
            except TidelakeError:
                raise
            except CLIENT_ERRORS as error:
                self._forget(hidden)
                if held is not None and refusal_of(error).is_missing:
                    raise dir_missing(parent_of(path)) from error
                found = refusal_of(error)  # taken: by this call, which the client sent twice
                may = attempt < DATA_TRIES_MAX and (found.is_of_data_nodes or found.is_taken)
                if wait_ms is None or not (may or self.calls.may_try_again(error)):
                    raise self.calls.translated(error, path, verb, refused=True) from error
                self.clock.sleep_ms(wait_ms)
            else:
                return hidden
        raise AssertionError("unreachable")

    def _beside(self, path: str) -> str:
        return f"{parent_of(path).rstrip('/')}/.tidelake-{self.ids.uuid()}"

    def _rename(self, source: str, target: str, *, overwrite: bool = False) -> BaseException | None:
        """Send it once; what went wrong."""

        def rename(client: object) -> None:
            client.rename(source, target, overwrite)  # type: ignore[attr-defined]

        try:
            self.calls.once(rename)
        except TidelakeError:
            raise
        except CLIENT_ERRORS as error:
            return error
        return None

    def _looked_for(
        self, hidden: str, fenced: str, path: str, data: bytes, failure: BaseException
    ) -> str | None:
        """Where a file is hidden whose rename did not and will not take effect; None if it did."""
        for wait_ms in (*WAITS_MS, None):
            error = self._rename(hidden, fenced)
            if error is None:
                return fenced
            try:
                if self._exists(fenced):
                    return fenced
                is_hidden = self._exists(hidden)
            except TidelakeError:
                is_hidden = True  # as far as anyone knows
            else:
                if not is_hidden and self._holds(path, data):
                    return None
                if is_hidden and refusal_of(failure).is_final and refusal_of(error).is_final:
                    return hidden  # as in safe mode, or without the right
            if not is_hidden or wait_ms is None:
                break
            self.clock.sleep_ms(wait_ms)
        raise self._unknown(path) from failure

    def _holds(self, path: str, data: bytes) -> bool:
        def read(client: object) -> bytes:
            return read_all(client, path, len(data))

        try:
            return self.calls.steady(read, path, "read") == data
        except (CorruptError, NotFoundError, StorageError):
            return False

    def _unknown(self, path: str) -> StorageError:
        message = (
            f"No answer tells whether {self.calls.shown(path)} was put: the name node did not say"
            " it, or the directory was moved or deleted at that moment."
        )
        return StorageError(message, kind="outcome_unknown", path=path)

    def _forget(self, hidden: str) -> None:
        """Delete a hidden file, if that can be done at once."""

        def delete(client: object) -> None:
            client.delete(hidden, False)  # type: ignore[attr-defined]

        with contextlib.suppress(*CLIENT_ERRORS):
            self.calls.once(delete)
