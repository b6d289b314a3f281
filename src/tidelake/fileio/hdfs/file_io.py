"""HDFS as a :class:`~tidelake.fileio.FileIO`.

How the promises are kept:

======================  =======================================================================
publishing              a rename that never overwrites, and what is true by looking where the file
                        is (:mod:`tidelake.fileio.hdfs.publish`)
an open directory       a hidden directory in it, of a unique name. What is put within the open
                        directory is written there first, and renamed out of it; what is deleted
                        is renamed into it. If the open directory was removed or moved, the hidden
                        one is not at that path, so the name node refuses
rename of a directory   atomic; a hidden directory in it tells afterwards which name it has
bytes                   synced to the disks of the data nodes before a file is closed
names                   in the name node's journal when it answers
======================  =======================================================================

An open directory is known by its path, and HDFS does not say whether one that is gone from there
was moved or removed. So an open directory that was moved takes nothing more, unlike a local one,
and asking what is in it is an error.

A process that dies leaves hidden directories ``.tidelake-held-<uuid>``, which listings leave out,
and others clear after an hour (:mod:`tidelake.fileio.hdfs.held`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from tidelake.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileStatus,
    OpenDirectory,
    check_path,
    dir_missing,
    file_missing,
    is_expected,
    name_taken,
    parent_of,
)
from tidelake.fileio.files import TAIL_BYTES, open_tailed
from tidelake.fileio.hdfs.calls import HdfsCalls, T, Work
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS, refusal_of
from tidelake.fileio.hdfs.held import HELD_PREFIX, HeldDirectory, Holds, Sweeps, held_directory
from tidelake.fileio.hdfs.jobs import (
    NewFile,
    check_ranges,
    create_file,
    is_there,
    list_all,
    read_all,
    read_part,
)
from tidelake.fileio.hdfs.output import HdfsOutputFile
from tidelake.fileio.hdfs.publish import HdfsPublisher
from tidelake.fileio.hdfs.settings import HdfsSettings
from tidelake.fileio.location import Location
from tidelake.telemetry import Env

_NODES = "namenode"
"""Part of the keys that name the nodes."""
READS_MAX = 16
"""Ranges of one file that are read at once; each takes a connection to a data node."""


class HdfsFileIO:
    """A file system of HDFS. Picklable; may be used by several threads.

    Parameters
    ----------
    location : Location
        Names the name node or name service.
    """

    def __init__(self, location: Location, settings: HdfsSettings, env: Env) -> None:
        self._location = location
        self._settings = settings
        self._env = env
        self._calls = HdfsCalls(location, settings, env.clock)
        self._sweeps = Sweeps(env.clock)
        self._new = NewFile(settings.replication, settings.block_bytes, settings.umask)
        self._holds = Holds(env.clock, self._new.directory_mode)
        self._publisher = HdfsPublisher(self._calls, env.clock, env.ids, self._new)

    def __repr__(self) -> str:
        return f"HdfsFileIO({str(self._location)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (HdfsFileIO, (self._location, self._settings, self._env))

    @property
    def is_remote(self) -> bool:
        """True: each call goes to a name node."""
        return True

    @property
    def holds_directories(self) -> bool:
        """True: by a hidden directory in it."""
        return True

    @property
    def store_id(self) -> tuple[str, ...]:
        """What tells this file system from others of the same name: its name nodes."""
        config = self._settings.client_config(self._location.authority)
        return tuple(f"{key}={config[key]}" for key in sorted(config) if _NODES in key)

    def uri_of(self, path: str) -> str:
        """How a path is shown."""
        return self._calls.shown(path)

    # reading

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file; its length comes first."""
        check_path(path)

        def read(client: Any) -> bytes:
            return read_all(client, path, bytes_max)

        return self._asked(read, path, "read")

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        return self._parts(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges at once."""
        return [pa.py_buffer(part) for part in self._parts(path, ranges)] if ranges else []

    def _parts(self, path: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        check_path(path)
        if len(ranges) == 1:

            def read(client: Any) -> list[bytes]:
                reader = client.read(path)
                check_ranges(path, len(reader), ranges)
                return [read_part(reader, path, *ranges[0])]

            return self._asked(read, path, "read")
        return self._parts_of(self._opened(path), path, ranges)

    def _parts_of(self, reader: Any, path: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read ranges of an open file side by side."""
        check_ranges(path, len(reader), ranges)
        works = [partial(_part, reader, path, *one) for one in ranges]
        return self._calls.steadily(lambda: self._calls.together(works, READS_MAX), path, "read")

    def _opened(self, path: str) -> Any:
        def read(client: Any) -> Any:
            return client.read(path)

        return self._asked(read, path, "open")

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; its end is read at once."""
        check_path(path)

        def read_tail(client: Any) -> tuple[Any, bytes]:
            reader = client.read(path)
            length = min(len(reader), TAIL_BYTES)
            return reader, read_part(reader, path, len(reader) - length, length)

        reader, tail = self._asked(read_tail, path, "open")

        def read(offset: int, length: int) -> bytes:
            return self._parts_of(reader, path, [(offset, length)])[0]

        return open_tailed(len(reader), tail, read)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        found = self._status(path)
        if found.isdir:
            raise file_missing(path)
        return int(found.length)

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists.

        Raises
        ------
        StorageRefusedError
            The open directory was moved or removed; HDFS does not say which.
        """
        if within is None:
            return self._is_there(path)
        found = self._is_there(path)
        # after the file: so it was the held one's
        self._check_held(held_directory(within))
        return found

    def _check_held(self, held: HeldDirectory) -> None:
        if self._is_there(held.hidden):
            return
        message = (
            f"{self.uri_of(held.path)} was moved or removed while it was open, so what is in it"
            " is unknown."
        )
        raise StorageRefusedError(message, kind="directory_moved", path=held.path)

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory; empty if it is missing."""
        check_path(path)

        def listed(client: Any) -> list[FileStatus]:
            try:
                return list_all(client, path)
            except FileNotFoundError:
                return []

        found = self._asked(listed, path, "list")
        if [status.name for status in found] == [""]:
            message = f"Could not list {self.uri_of(path)}: it is a file."
            raise StorageRefusedError(message, path=path)
        return [status for status in found if not status.name.startswith(HELD_PREFIX)]

    # writing

    def open_output(self, path: str) -> HdfsOutputFile:
        """Open a new file; its name is taken at once.

        Raises
        ------
        AlreadyExistsError
            The name is taken.
        StorageError
            As elsewhere; or the name is taken after a try whose answer was lost, so the file may
            be this one, or another's. It is left alone.
        """
        check_path(path)
        tries = 0

        def create(client: Any) -> Any:
            nonlocal tries
            tries += 1
            return create_file(client, path, self._new, create_parent=True)

        try:
            return HdfsOutputFile(path, self._asked(create, path, "create"), self._calls)
        except AlreadyExistsError as error:
            if tries == 1:
                raise
            message = (
                f"Could not create {self.uri_of(path)}: a try was not answered, and the file is"
                " there now, made by that try or by another process. Write under another name."
            )
            raise StorageError(message, kind="creation_unknown", path=path) from error

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file; it shows when it is whole."""
        if not self._publisher.put_if_absent(check_path(path), data, verb="write"):
            raise name_taken(path)

    def sync_dir(self, path: str) -> None:
        """Do nothing: the name node keeps names in its journal."""
        check_path(path)

    def open_dir(self, path: str, *, make: bool = False) -> HeldDirectory:
        """Hold a directory by a hidden one in it."""
        hidden = f"{check_path(path).rstrip('/')}/{HELD_PREFIX}{self._env.ids.uuid()}"
        try:
            self._mkdir(hidden, path)
        except NotFoundError:
            if not make:
                raise
            self._mkdir(path, path)
            self._mkdir(hidden, path)
        return self._holds.add(HeldDirectory(path, hidden, self._calls, self._sweeps))

    def _mkdir(self, made: str, path: str) -> None:
        """Make one directory in another, which must be there; fine if it exists."""

        def mkdir(client: Any) -> None:
            try:
                client.mkdirs(made, self._new.directory_mode, False)
            except FileNotFoundError as error:
                raise dir_missing(path) from error

        self._asked(mkdir, path, "open", refused=True)

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file by a rename that never overwrites."""
        if over is not None:
            self.delete(path, within=within, reused=True, expected=over)
        held = None if within is None else held_directory(within).hidden
        return self._publisher.put_if_absent(check_path(path), data, held=held)

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file."""
        held = None if within is None else held_directory(within).hidden
        self._publisher.replace(check_path(path), data, held=held)

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if there was none.

        A name that is used again is only safe within an open directory: a call that is not
        answered in time may come late.

        Raises
        ------
        StorageRefusedError
            The open directory was moved or removed; nothing was deleted.
        """
        if not is_expected(self, check_path(path), expected):
            return False
        if within is not None:
            return self._delete_within(path, held_directory(within), reused=reused)

        def delete(client: Any) -> bool | None:
            try:
                found = client.get_file_info(path)
            except FileNotFoundError:
                return False
            return None if found.isdir else bool(client.delete(path, False))

        done = self._asked(delete, path, "delete")
        if done is None:
            message = f"Could not delete {self.uri_of(path)}: it is a directory."
            raise StorageRefusedError(message, path=path)
        return done

    def _delete_within(self, path: str, held: HeldDirectory, *, reused: bool) -> bool:
        """Rename the file out of its place, which concerns the open directory's file or none.

        If its name is used again, it stays in the hidden directory, which goes with all in it: a
        copy of the rename that comes later finds its target taken or its directory gone.
        """
        taken = f"{held.hidden}/{self._env.ids.uuid()}"

        def take(client: Any) -> bool:
            try:
                client.rename(path, taken, False)
            except CLIENT_ERRORS as error:  # also if it was done, and the call sent again
                found = refusal_of(error)
                if not (found.is_missing or found.is_taken):
                    raise
                if not is_there(client, taken):
                    return False
            if not reused:
                client.delete(taken, False)
            return True

        if self._asked(take, path, "delete"):
            return True
        self._check_held(held)
        return False

    def delete_dir(self, path: str) -> None:
        """Delete a directory with its content, at once."""
        check_path(path)

        def delete(client: Any) -> None:
            client.delete(path, True)

        self._asked(delete, path, "delete")

    @property
    def storage_id(self) -> str:
        """The name node."""
        return self.uri_of("/")

    def copy_within(self, source: str, target: str) -> bool:
        """HDFS has neither links nor copies."""
        check_path(source)
        check_path(target)
        return False

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory, atomically."""
        check_path(target)
        try:
            mark = self.open_dir(source)
        except NotFoundError as error:
            raise file_missing(source) from error
        with mark:
            self._make_dirs(parent_of(target))
            failure = self._moved(source, target)
            if failure is None or self._is_there(_below(target, mark)):
                mark.hidden = _below(target, mark)
                return
        found = refusal_of(failure)
        if found.is_taken:
            raise name_taken(target) from failure
        raise self._calls.translated(failure, source, "move", refused=found.is_final) from failure

    def _moved(self, source: str, target: str) -> BaseException | None:
        def rename(client: Any) -> None:
            client.rename(source, target, False)

        try:
            self._calls.once(rename)
        except TidelakeError:
            raise
        except CLIENT_ERRORS as error:
            return error
        return None

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents."""
        self._make_dirs(check_path(path))

    def _make_dirs(self, path: str) -> None:
        def mkdirs(client: Any) -> None:
            client.mkdirs(path, self._new.directory_mode, True)

        self._asked(mkdirs, path, "make")

    # the name node

    def _asked(self, work: Work[T], path: str, verb: str, *, refused: bool = False) -> T:
        self._holds.renew()
        return self._calls.steady(work, path, verb, refused=refused)

    def _status(self, path: str) -> Any:
        check_path(path)

        def look(client: Any) -> Any:
            return client.get_file_info(path)

        return self._asked(look, path, "look up")

    def _is_there(self, path: str) -> bool:
        check_path(path)

        def look(client: Any) -> bool:
            return is_there(client, path)

        return self._asked(look, path, "look up")


def _part(reader: Any, path: str, offset: int, length: int, _: Any) -> bytes:
    return read_part(reader, path, offset, length)


def _below(target: str, mark: HeldDirectory) -> str:
    """Where a mark is once its directory has another name."""
    return f"{target.rstrip('/')}/{mark.hidden.rpartition('/')[2]}"
